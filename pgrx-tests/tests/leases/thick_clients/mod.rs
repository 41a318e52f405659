//! Processes that serve from their own memory, by clients/protocol.md: no value comes twice, and when they have
//! ended, each number is explained.

mod ends;
mod killed;
mod programs;
mod scenes;
mod statements;

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use hilo_tests::example::{DATABASE, Example, OWNER, at, prepare};
use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until, while_another};

/// A process that draws from sequence `orders`. It prints each value in a line of its own, until its standard input
/// ends; then it returns what it holds, and exits with 0.
struct Drawer {
    child: Child,
    printed: PathBuf,
}

impl Drawer {
    fn start(cluster: &Cluster, number: usize, mut command: Command) -> Drawer {
        let printed = cluster.file(&format!("drawn-{number}"));
        let file = File::create(&printed).expect("cannot create a file");
        let child = command.stdin(Stdio::piped()).stdout(file).spawn();
        Drawer { child: child.expect("the program starts"), printed }
    }

    /// The lines that it has printed so far, without a line that is not complete.
    fn values(&self) -> Vec<i64> {
        let text = fs::read_to_string(&self.printed).expect("cannot read what it printed");
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(|line| line.parse().expect("it prints numbers")).collect()
    }

    /// Waits until it has printed this many values more.
    #[track_caller]
    fn draws(&mut self, count: usize) {
        let before = self.values().len();
        self.prints("more", |values| values.len() >= before + count);
    }

    /// Waits until what it has printed so far is such.
    #[track_caller]
    fn prints(&mut self, what: &str, holds: impl Fn(&[i64]) -> bool) {
        wait_until(&format!("the program has printed {what}"), LONG, || {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                panic!("the program has ended: {status}");
            }
            holds(&self.values())
        });
    }

    /// Sends it a text.
    fn tell(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("it has an input");
        input.write_all(text.as_bytes()).expect("it reads its input");
    }

    /// Tells it to end, waits until it has, and returns all that it has drawn.
    #[track_caller]
    fn end(mut self) -> Vec<i64> {
        drop(self.child.stdin.take());
        let mut status = None;
        wait_until("the program has ended", LONG, || {
            status = self.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "the program failed: {status:?}");
        self.values()
    }
}

impl Drop for Drawer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The programs that can run here, each twice. Clients in another language belong here too: any
/// command that does what [`Drawer`] says.
fn programs(cluster: &Cluster) -> Vec<Command> {
    let mut programs = Vec::new();
    for _ in 0..2 {
        let mut rust = Command::new(env!("CARGO_BIN_EXE_draw"));
        at(cluster, &mut rust);
        programs.push(rust);
    }
    if let Some(python) = Example::find("python") {
        let python = |_| python.command(cluster, &["python3", "tests/draw.py", "orders", "4"]);
        programs.extend((0..2).map(python));
    }
    programs
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
    let pause = Mutex::new(());
    let mut drawn: Vec<i64> = Vec::new();
    let draw = || {
        let Ok(mut client) = cluster.try_connect(OWNER, DATABASE) else { return };
        let _drawing = pause.lock();
        let draw = "SELECT hilo_nextval('orders') FROM generate_series(1, 50)";
        match client.query(draw, &[]) {
            Ok(rows) => drawn.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            Err(error) => assert!(client.is_closed(), "{error:?}"),
        }
    };
    while_another(draw, || work(&pause));
    drawn
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

fn count_lost(client: &mut Client, reason: &str) -> i64 {
    client.one(&format!(
        "SELECT coalesce(sum(count), 0)::bigint FROM hilo_gaps WHERE reason = '{reason}'"
    ))
}
