//! The programs, beside sessions with `hilo_nextval`, through the accidents of a server.

use hilo_tests::example::{DATABASE, Example, OWNER};
use hilo_tests::{ClientExt, LONG, Mode, vectors, wait_until};

use super::{Drawer, assert_explained, beside_sessions, cluster, count_lost, programs, start};

/// The server answers as the examples of clients/vectors.json say, and the client in Python makes of each what they say.
#[test]
fn the_vectors_are_what_servers_answer_and_clients_understand() {
    let cluster = cluster();
    vectors::answer_all(&mut cluster.connect_as(OWNER, DATABASE));
    if let Some(python) = Example::find("python") {
        python.run(&cluster, &[], &[&["python3", "tests/vectors.py", vectors::FILE]]);
    }
    cluster.finish();
}

/// Nobody is killed: nothing is lost.
#[test]
fn after_a_clean_end_only_what_is_yet_to_be_served_is_missing() {
    let cluster = cluster();
    let programs = programs(&cluster);
    let mut drawn = Vec::new();
    let mut seen = beside_sessions(&cluster, |_| {
        let mut drawers = start(&cluster, programs);
        drawers.iter_mut().for_each(|drawer| drawer.draws(3000));
        drawn.extend(drawers.into_iter().flat_map(Drawer::end));
    });
    seen.extend(drawn);
    assert_explained(&cluster, &seen);
    let mut client = cluster.connect(DATABASE);
    for reason in ["crash", "expired", "revoked", "discarded", "altered", "restored"] {
        assert_eq!(count_lost(&mut client, reason), 0, "{reason}");
    }
    cluster.finish();
}

/// The server is killed twice. The programs serve from memory until it is back, and one of them is killed too.
#[test]
fn nothing_comes_twice_when_the_server_is_killed() {
    let cluster = cluster();
    let programs = programs(&cluster);
    let mut drawn = Vec::new();
    let mut seen = beside_sessions(&cluster, |pause| {
        let mut drawers = start(&cluster, programs);
        for _ in 0..2 {
            drawers.iter_mut().for_each(|drawer| drawer.draws(5000));
            let paused = pause.lock();
            cluster.kill9_postmaster();
            // From memory: there is no server.
            drawers.iter_mut().for_each(|drawer| drawer.draws(200));
            cluster.start();
            drop(paused);
            drawers.iter_mut().for_each(|drawer| drawer.draws(10_000));
        }
        let mut killed = drawers.pop().expect("there are several");
        killed.child.kill().expect("it can be killed");
        killed.child.wait().expect("it can be waited for");
        drawn.extend(killed.values());
        drawn.extend(drawers.into_iter().flat_map(Drawer::end));
    });
    seen.extend(drawn);
    let mut client = cluster.connect(DATABASE);
    let holders = client.all::<String>("SELECT DISTINCT holder FROM hilo_leases");
    assert_eq!(holders.len(), 1, "only the one that was killed holds something: {holders:?}");
    client
        .query_one("SELECT hilo_lease_revoke(holder => $1)", &[&holders[0]])
        .expect("the leases can be revoked");
    assert_explained(&cluster, &seen);
    cluster.finish();
}

/// The rows of a lease have arrived, and the reply to the commit never comes. Nothing of it is
/// served before the program has asked for the same lease again. One program at a time: in
/// hilo_lite the others would wait for the commit of one.
#[test]
fn nothing_is_served_before_its_commit_is_confirmed() {
    let cluster = cluster();
    // The worker need not commit, which it could not.
    cluster.connect_as(OWNER, DATABASE).run("SELECT hilo_alter('orders', block_size => 10000000)");
    let mut seen = Vec::new();
    for (number, program) in programs(&cluster).into_iter().enumerate() {
        let mut drawer = Drawer::start(&cluster, number, program);
        drawer.draws(1000);
        // From here on no commit returns.
        cluster.configure("synchronous_standby_names", "nobody");
        cluster.reload();
        let mut client = cluster.connect(DATABASE);
        let waiting = "SELECT count(*) FROM pg_stat_activity
                        WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'";
        wait_until("it waits for its commit", LONG, || client.one::<i64>(waiting) == 1);
        cluster.kill9_postmaster();
        cluster.configure("synchronous_standby_names", "");
        cluster.start();
        let mut client = cluster.connect(DATABASE);
        let open = client.one::<i64>("SELECT count(*) FROM hilo_leases");
        assert!(open >= 1, "{open} leases have been committed");
        drawer.draws(10_000);
        seen.extend(drawer.end());
        // The program has asked again for what it had never learned of.
        assert_eq!(count_lost(&mut client, "revoked"), 0);
        assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 0);
    }
    assert_explained(&cluster, &seen);
    cluster.finish();
}

/// The server is stopped: what is in memory is served, then callers get an error at their deadline. When it is back,
/// they go on with new values.
#[test]
fn an_outage_is_noticed_when_memory_is_empty() {
    let cluster = cluster();
    let program = "
from hilo_client import HiloClient
import psycopg
import sys
with HiloClient(first=100, timeout=60) as ids:
    print(ids.next('orders'), flush=True)
    input()
    ids._timeout = 1
    try:
        while True:
            print(ids.next('orders'), flush=True)
    except TimeoutError as error:
        assert isinstance(error.__cause__, psycopg.OperationalError), error.__cause__
    print(0, flush=True)
    input()
    ids._timeout = 60
    print(ids.next('orders'), flush=True)
    sys.stdin.read()
";
    let Some(python) = Example::find("python") else { return };
    let command = python.command(&cluster, &["python3", "-c", program]);
    let mut drawer = Drawer::start(&cluster, 0, command);
    drawer.prints("a value", |values| !values.is_empty());
    cluster.stop(Mode::Fast);
    drawer.tell("\n");
    drawer.prints("that memory is empty", |values| values.ends_with(&[0]));
    assert_eq!(drawer.values()[..100], (1..=100).collect::<Vec<_>>());
    cluster.start();
    drawer.tell("\n");
    drawer.prints("a value again", |values| !values.ends_with(&[0]));
    let mut seen = drawer.end();
    seen.retain(|value| *value != 0);
    assert_explained(&cluster, &seen);
    assert_eq!(count_lost(&mut cluster.connect(DATABASE), "revoked"), 0);
    cluster.finish();
}

/// A proxy forwards nothing more on the connection that is open, and closes it not: as a host that dies, or a NAT that
/// forgets. The client gives the connection up, callers hear nothing of it, and closing ends too.
#[test]
fn a_silent_connection_is_given_up() {
    let cluster = cluster();
    let program = "
from hilo_client import HiloClient
import os, socket, threading
states, deaf = [], False
listener = socket.create_server(('127.0.0.1', 0))
def pump(source, to, silent):
    while data := source.recv(65536):
        if silent.is_set() or deaf:
            threading.Event().wait()
        to.sendall(data)
def forward():
    while True:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(os.environ['PGHOST'] + '/.s.PGSQL.' + os.environ['PGPORT'])
        states.append(threading.Event())
        for pair in [(client, server), (server, client)]:
            threading.Thread(target=pump, args=(*pair, states[-1]), daemon=True).start()
threading.Thread(target=forward, daemon=True).start()
proxy = {'host': '127.0.0.1', 'port': listener.getsockname()[1]}
ids = HiloClient(**proxy, first=10, most=10, timeout=60, statement_timeout=0.5)
for n in range(40):
    if n % 15 == 10:
        [state.set() for state in states]
    print(ids.next('orders'), flush=True)
ids.close()
ids = HiloClient(**proxy, timeout=1, statement_timeout=60)
print(ids.next('orders'), flush=True)
deaf = True
try:
    ids.close()
except TimeoutError:
    print(0, flush=True)
";
    let Some(python) = Example::find("python") else { return };
    let command = python.command(&cluster, &["python3", "-c", program]);
    let mut seen = Drawer::start(&cluster, 0, command).end();
    assert_eq!((seen.len(), seen.pop()), (42, Some(0)));
    let mut client = cluster.connect(DATABASE);
    // One client could not return its lease.
    client.run("SELECT hilo_lease_revoke(holder => holder) FROM (SELECT DISTINCT holder FROM hilo_leases) l");
    assert_explained(&cluster, &seen);
    cluster.finish();
}

/// Programs draw one value each and do not close their client. They end by themselves, by SIGTERM, or as a process of
/// multiprocessing: nothing is lost.
#[test]
fn the_end_of_a_program_returns_its_leases() {
    let cluster = cluster();
    let program = "
from hilo_client import HiloClient
import multiprocessing, os, signal, sys
ids = HiloClient()
def draw():
    print(ids.next('orders'), flush=True)
if sys.argv[1] == 'forks':
    child = multiprocessing.get_context('fork').Process(target=draw)
    child.start()
    child.join()
else:
    draw()
if sys.argv[1] == 'killed':
    with ids:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
";
    let Some(python) = Example::find("python") else { return };
    for n in 1..=12 {
        let (how, code) = [("ends", 0), ("killed", 143), ("forks", 0)][n % 3];
        let mut command = python.command(&cluster, &["python3", "-c", program, how]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), n.to_string());
    }
    cluster.finish();
}

/// A fault of the program in the background reaches those who wait, instead of leaving them alone.
/// The next caller has it run again, and so does a client that closes after one.
#[test]
fn a_fault_in_the_background_reaches_the_callers() {
    let cluster = cluster();
    let program = "
from hilo_client import HiloClient
import sys
class Faulty(HiloClient):
    is_faulty = False
    def _size(self, sequence):
        return 1 // 0 if self.is_faulty else super()._size(sequence)
    def fail(self):
        self.is_faulty = True
        try:
            while True:
                print(self.next('orders'), flush=True)
        except ZeroDivisionError:
            print(0, flush=True)
        self.is_faulty = False
with Faulty(first=10) as ids:
    print(ids.next('orders'), flush=True)
    ids.fail()
    ids.fail()
    print(ids.next('orders'), flush=True)
    ids.fail()
sys.stdin.read()
";
    let Some(python) = Example::find("python") else { return };
    let command = python.command(&cluster, &["python3", "-c", program]);
    let mut drawer = Drawer::start(&cluster, 0, command);
    let faults = |values: &[i64]| values.iter().filter(|value| **value == 0).count();
    drawer.prints("three faults", |values| faults(values) == 3);
    let mut seen = drawer.end();
    seen.retain(|value| *value != 0);
    assert!(seen.len() >= 11, "{seen:?}");
    assert_explained(&cluster, &seen);
    cluster.finish();
}

/// An answer with one lease twice is served neither once nor twice: its callers get an error, and its lease is revoked.
#[test]
fn a_lease_that_comes_twice_is_not_served() {
    let cluster = cluster();
    let program = "
from hilo_client import HiloClient
import sys
class Doubled(HiloClient):
    is_faulty = True
    def _execute(self, *statements):
        rows = super()._execute(*statements)
        return 2 * rows if self.is_faulty else rows
with Doubled(first=10) as ids:
    try:
        print(ids.next('orders'), flush=True)
    except ValueError:
        print(0, flush=True)
    ids.is_faulty = False
    for _ in range(15):
        print(ids.next('orders'), flush=True)
sys.stdin.read()
";
    let Some(python) = Example::find("python") else { return };
    let command = python.command(&cluster, &["python3", "-c", program]);
    let drawn = Drawer::start(&cluster, 0, command).end();
    assert_eq!((drawn[0], drawn.len()), (0, 16));
    assert_explained(&cluster, &drawn[1..]);
    assert_eq!(count_lost(&mut cluster.connect(DATABASE), "revoked"), 10);
    cluster.finish();
}

/// Two hundred sequences that run low together are refilled together, and one that cannot be refilled holds up none.
#[test]
fn many_sequences_are_refilled_by_one_transaction() {
    let cluster = cluster();
    let program = "
from hilo_client import HiloClient
import psycopg
with HiloClient(first=10, pace=2) as ids:
    names = [f'many-{n}' for n in range(200)]
    for name in names:
        ids.next(name)
    try:
        ids.next('unknown')
    except psycopg.errors.UndefinedObject:
        print(0, flush=True)
    for name in names:
        for _ in range(5):
            ids.next(name)
    input()
";
    let Some(python) = Example::find("python") else { return };
    cluster.configure("track_commit_timestamp", "on");
    cluster.restart();
    let create = "SELECT hilo_create('many-' || n) FROM generate_series(0, 199) n";
    cluster.connect_as(OWNER, DATABASE).run(create);
    let command = python.command(&cluster, &["python3", "-c", program]);
    let mut drawer = Drawer::start(&cluster, 0, command);
    drawer.prints("that one is unknown", |values| values == [0]);
    let mut client = cluster.connect(DATABASE);
    let refilled = "FROM _hilo.hilo_lease WHERE first_value > 1 AND ended IS NULL";
    let count = format!("SELECT count(*) {refilled}");
    wait_until("all have been refilled", LONG, || client.one::<i64>(&count) == 200);
    // Each row has a subtransaction of its own.
    let commits = format!("SELECT count(DISTINCT pg_xact_commit_timestamp(xmin)) {refilled}");
    let transactions: i64 = client.one(&commits);
    assert!(transactions <= 3, "{transactions} transactions");
    drawer.tell("\n");
    drawer.end();
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 0);
    for reason in ["discarded", "expired", "revoked"] {
        assert_eq!(count_lost(&mut client, reason), 0, "{reason}");
    }
    cluster.finish();
}

/// Keys are made of the value, the lease's format and the server's prefix.
#[test]
fn keys_are_those_of_the_server() {
    let cluster = cluster();
    let program = "
from hilo_client import HiloClient
import psycopg
formats = ['{name}/{server}{value}', '{value:04}', '{server}{{{value:019}}}{name}', '{{name}} {value:01}', '\u{e9}{value}']
create = 'SELECT hilo_create(%s, %s, min_value => -20000, key_format => %s)'
with HiloClient() as ids, psycopg.connect(autocommit=True) as connection:
    for format in formats:
        for start in [-12345, -7, 0, 42, 123456789]:
            name = f'{format} {start}'
            connection.execute(create, [name, start, format])
            [key] = connection.execute('SELECT hilo_key(%s, %s)', [name, start]).fetchone()
            assert (made := ids.next_key(name)) == key, (made, key)
            print(start, flush=True)
";
    let Some(python) = Example::find("python") else { return };
    let prefix = format!("ALTER DATABASE {DATABASE} SET hilo.server_prefix = 'North/'");
    cluster.connect(DATABASE).run(&prefix);
    let command = python.command(&cluster, &["python3", "-c", program]);
    assert_eq!(Drawer::start(&cluster, 0, command).end().len(), 25);
    cluster.finish();
}
