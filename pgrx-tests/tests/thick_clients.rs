//! Processes that serve from their own memory, by docs/clients-protocol.md: no value comes twice, and when they have
//! ended, each number is explained.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use hilo_tests::example::{DATABASE, Example, OWNER, prepare};
use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

/// A process that draws from sequence `orders`. It prints each value in a line of its own, until its standard input
/// ends; then it returns what it holds, and exits with 0.
struct Drawer {
    child: Child,
    printed: std::path::PathBuf,
}

impl Drawer {
    fn start(cluster: &Cluster, number: usize, mut command: Command) -> Drawer {
        let printed = cluster.file(&format!("drawn-{number}"));
        let file = File::create(&printed).expect("cannot create a file");
        let child = command.stdin(Stdio::piped()).stdout(file).spawn();
        Drawer { child: child.expect("the program starts"), printed }
    }

    /// What it has printed so far, without a line that is not complete.
    fn values(&self) -> Vec<i64> {
        let text = fs::read_to_string(&self.printed).expect("cannot read what it printed");
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(|line| line.parse().expect("it prints numbers")).collect()
    }

    /// Waits until it has printed this many values more.
    #[track_caller]
    fn draws(&mut self, count: usize) {
        let before = self.values().len();
        wait_until("the program has drawn more", LONG, || {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                panic!("the program has ended: {status}");
            }
            self.values().len() >= before + count
        });
    }

    /// Tells it to end, waits until it has, and returns all that it has drawn.
    #[track_caller]
    fn end(mut self) -> Vec<i64> {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("it can be waited for");
        assert!(status.success(), "the program has failed: {status}");
        self.values()
    }
}

impl Drop for Drawer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The programs that are installed here, each several times. Those of another language belong here too: any command
/// that does what [`Drawer`] says.
fn programs(cluster: &Cluster) -> Option<Vec<Command>> {
    let python = Example::find("leases-python")?;
    let python = |_| python.command(cluster, &["python3", "draw.py", "orders", "4"]);
    Some((0..3).map(python).collect())
}

fn start(cluster: &Cluster, programs: Vec<Command>) -> Vec<Drawer> {
    let start = |(number, program)| Drawer::start(cluster, number, program);
    programs.into_iter().enumerate().map(start).collect()
}

fn cluster() -> Cluster {
    let cluster = Cluster::builder().preload(true).start();
    prepare(&cluster, "public");
    cluster.connect_as(OWNER, DATABASE).run("SELECT hilo_create('orders')");
    cluster
}

/// Sessions that draw with `hilo_nextval` while `work` runs; what they have drawn. While `work` holds the lock they
/// pause, so that no result is lost.
fn beside_sessions(cluster: &Cluster, work: impl FnOnce(&Mutex<()>)) -> Vec<i64> {
    let done = AtomicBool::new(false);
    let pause = Mutex::new(());
    thread::scope(|scope| {
        let sessions = scope.spawn(|| {
            let mut drawn = Vec::new();
            while !done.load(Relaxed) {
                let _drawing = pause.lock();
                drawn.extend(cluster.connect_as(OWNER, DATABASE).draw("orders", 50));
            }
            drawn
        });
        let stop = Stop(&done);
        work(&pause);
        drop(stop);
        sessions.join().expect("the sessions failed")
    })
}

/// Ends the sessions even if the work fails: the scope waits for them.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Fails unless each number of `orders` was seen once, is a gap, or is yet to be served.
#[track_caller]
fn assert_explained(cluster: &Cluster, seen: &[i64]) {
    assert_unique("orders", seen);
    let mut client = cluster.connect(DATABASE);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 0, "leases are open");
    client.run("CREATE TABLE seen (id bigint PRIMARY KEY)");
    let list: Vec<String> = seen.iter().map(i64::to_string).collect();
    client.run(&format!("INSERT INTO seen SELECT unnest('{{{}}}'::bigint[])", list.join(",")));
    let missing = "SELECT concat_ws(' ', first, last, reason) FROM hilo_find_gaps('orders', 'seen', 'id')
                    WHERE reason NOT IN ('slice', 'current', 'standby', 'returned', 'free', 'crash', 'discarded', 'revoked')";
    assert_eq!(client.all::<String>(missing), Vec::<String>::new());
}

fn lost(client: &mut Client, reason: &str) -> i64 {
    client.one(&format!(
        "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps WHERE reason = '{reason}'"
    ))
}

/// Nobody is killed: nothing is lost.
#[test]
fn after_a_clean_end_only_what_is_yet_to_be_served_is_missing() {
    let cluster = cluster();
    let Some(programs) = programs(&cluster) else { return };
    let mut drawn = Vec::new();
    let mut seen = beside_sessions(&cluster, |_| {
        let mut drawers = start(&cluster, programs);
        drawers.iter_mut().for_each(|drawer| drawer.draws(3000));
        drawn.extend(drawers.into_iter().flat_map(Drawer::end));
    });
    seen.extend(drawn);
    assert_explained(&cluster, &seen);
    let mut client = cluster.connect(DATABASE);
    for reason in ["crash", "expired", "revoked", "discarded", "altered"] {
        assert_eq!(lost(&mut client, reason), 0, "{reason}");
    }
    cluster.finish();
}

/// The server is killed twice. The programs serve from memory until it is back, and one of them is killed too.
#[test]
fn nothing_comes_twice_when_the_server_is_killed() {
    let cluster = cluster();
    let Some(programs) = programs(&cluster) else { return };
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

/// The rows of a lease have arrived, and the reply to the commit never comes: nothing of it is served, though the lease
/// has been committed.
#[test]
fn nothing_is_served_before_its_commit_is_confirmed() {
    let cluster = cluster();
    // The worker need not commit, which it could not.
    cluster.connect_as(OWNER, DATABASE).run("SELECT hilo_alter('orders', block_size => 10000000)");
    let Some(programs) = programs(&cluster) else { return };
    let mut drawers = start(&cluster, programs);
    drawers.iter_mut().for_each(|drawer| drawer.draws(1000));
    // From here on no commit returns.
    cluster.configure("synchronous_standby_names", "nobody");
    cluster.reload();
    let mut client = cluster.connect(DATABASE);
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";
    wait_until("all wait for their commits", LONG, || client.one::<i64>(waiting) == 3);
    cluster.kill9_postmaster();
    cluster.configure("synchronous_standby_names", "");
    cluster.start();
    let mut client = cluster.connect(DATABASE);
    let open = client.one::<i64>("SELECT count(*) FROM hilo_leases");
    assert!(open >= 3, "{open} leases have been committed");
    drawers.iter_mut().for_each(|drawer| drawer.draws(10_000));
    let seen: Vec<i64> = drawers.into_iter().flat_map(Drawer::end).collect();
    // At their ends the programs revoke what they have never learned of.
    assert!(lost(&mut client, "revoked") > 0);
    let ranges = client
        .query("SELECT first, last FROM hilo_gaps WHERE reason = 'revoked'", &[])
        .expect("the gaps can be read");
    for range in &ranges {
        let (first, last): (i64, i64) = (range.get(0), range.get(1));
        let served = seen.iter().find(|value| (first..=last).contains(value));
        assert_eq!(
            served, None,
            "it is of the lease {first} to {last}, whose commit nobody confirmed"
        );
    }
    assert_explained(&cluster, &seen);
    cluster.finish();
}
