//! The harness itself, on clusters without hilo.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use hilo_tests::{ClientExt, Cluster, LONG, Mode, wait_until};

/// A cluster takes its settings and keeps its rows over every kind of stop, over a killed
/// postmaster, and says of itself what it did.
#[test]
fn starts_and_stops_in_every_way() {
    let cluster = Cluster::builder().config("work_mem", "7MB").start();
    let mut client = cluster.connect("postgres");
    assert_eq!(client.one::<String>("SHOW work_mem"), "7MB");
    client.run("CREATE TABLE kept (n integer)");
    drop(client);

    for mode in [Mode::Smart, Mode::Fast, Mode::Immediate] {
        cluster.connect("postgres").run("INSERT INTO kept VALUES (1)");
        cluster.stop(mode);
        assert!(!cluster.is_running());
        assert!(cluster.try_connect("postgres", "postgres").is_err());
        cluster.start();
    }
    cluster.connect("postgres").run("INSERT INTO kept VALUES (1)");
    cluster.kill9_postmaster();
    cluster.start();
    assert_eq!(cluster.connect("postgres").one::<i64>("SELECT count(*) FROM kept"), 4);
    cluster.finish();
}

/// A smart stop waits for the clients; a fast one does not.
#[test]
fn smart_stops_wait_for_clients() {
    let cluster = Cluster::builder().start();
    let client = cluster.connect("postgres");
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| cluster.stop(Mode::Smart));
        wait_until("the server is shutting down", LONG, || {
            cluster.log_count("received smart shutdown request") == 1
        });
        assert!(!stop.is_finished());
        drop(client);
    });
    cluster.start();
    let _client = cluster.connect("postgres");
    cluster.stop(Mode::Fast);
}

/// A process killed with -9 takes the other sessions with it, and the server comes back.
#[test]
fn recovers_from_a_killed_backend() {
    let cluster = Cluster::builder().start();
    let mut victim = cluster.connect("postgres");
    let mut other = cluster.connect("postgres");
    let postmaster = cluster.postmaster_pid();
    cluster.crash(victim.backend_pid());
    assert!(other.simple_query("SELECT 1").is_err());
    assert_eq!(cluster.connect_when_up("postgres").one::<i32>("SELECT 1"), 1);
    assert_eq!(cluster.postmaster_pid(), postmaster);
}

/// A crash that the test did not ask for fails it.
#[test]
fn reports_a_crash_that_nobody_expected() {
    let outcome = std::panic::catch_unwind(|| {
        let cluster = Cluster::builder().start();
        let mut victim = cluster.connect("postgres");
        let pid = victim.backend_pid();
        kill(Pid::from_raw(pid), Signal::SIGSEGV).unwrap();
        wait_until("the log reports the signal", LONG, || {
            cluster.log_count("was terminated by signal 11") == 1
        });
    });
    let report = outcome.expect_err("the cluster found the crash");
    let report = report.downcast_ref::<String>().expect("it says what it found");
    assert!(report.contains("was terminated by signal 11"), "{report}");
}

/// Every line counts, of every life of the server, also after it was stopped.
#[test]
fn reports_what_stands_in_the_log_of_a_stopped_server() {
    let outcome = std::panic::catch_unwind(|| {
        let cluster = Cluster::builder().start();
        let mut client = cluster.connect("postgres");
        for text in ["PANIC:  written", "TRAP: failed Assert", "thread panicked at"] {
            client.run(&format!("DO $$BEGIN RAISE LOG '{text}'; END$$"));
        }
        client.run("DO $$BEGIN RAISE LOG 'internal' USING ERRCODE = 'XX000'; END$$");
        drop(client);
        cluster.restart();
        cluster.stop(Mode::Fast);
    });
    let report = outcome.expect_err("the cluster read the log");
    let report = report.downcast_ref::<String>().expect("it says what it found");
    for found in ["PANIC:  written", "TRAP: failed Assert", "thread panicked at", "internal"] {
        assert!(report.contains(found), "{report}");
    }
}

/// A transaction that was committed on a primary with a synchronous standby is there after the
/// primary was killed and the standby promoted. The standby refuses writes until then.
#[test]
fn clones_and_promotes() {
    let primary = Cluster::builder().start();
    let standby = primary.clone_synchronously();
    let mut client = primary.connect("postgres");
    client.run("CREATE TABLE kept (n integer); INSERT INTO kept VALUES (1)");
    primary.wait_for_replay(&standby);
    standby.connect("postgres").refusal("INSERT INTO kept VALUES (2)").is("25006");
    client.run("INSERT INTO kept VALUES (3)");
    primary.kill9_postmaster();
    standby.promote();
    let mut client = standby.connect("postgres");
    client.run("INSERT INTO kept VALUES (4)");
    assert_eq!(client.all::<i32>("SELECT n FROM kept ORDER BY n"), [1, 3, 4]);
}

/// Settings change while the server runs.
#[test]
fn reloads() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    cluster.configure("work_mem", "9MB");
    cluster.reload();
    wait_until("the session has the setting", LONG, || {
        client.one::<String>("SHOW work_mem") == "9MB"
    });
}

/// The tools of the installation talk to the cluster, and errors come with all their parts.
#[test]
fn runs_tools_and_reads_errors() {
    let cluster = Cluster::builder().start();
    assert_eq!(cluster.psql("postgres", "SELECT 1, 2"), "1|2");
    let report = cluster.pgbench("postgres", "SELECT 1;", &["-c", "2", "-t", "10"]);
    assert!(report.contains("number of transactions actually processed: 20/20"), "{report}");

    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE dumped (n integer)");
    client.run("CREATE DATABASE copy");
    cluster.restore("copy", &cluster.pg_dump("postgres", &["--table=dumped"]));
    assert_eq!(cluster.connect("copy").one::<i64>("SELECT count(*) FROM dumped"), 0);

    client
        .refusal(
            "DO $$ BEGIN RAISE 'no' USING ERRCODE = '2200H', DETAIL = 'D.', HINT = 'H.'; END $$",
        )
        .is("2200H")
        .says("no")
        .details("D.")
        .hints("H.")
        .helps();
    let waited = std::panic::catch_unwind(|| {
        wait_until("what never happens", Duration::from_millis(20), || false);
    });
    assert!(waited.is_err());
}

/// A standby that does not exist holds up the very next commit, not one that happens to log more than
/// others.
#[test]
fn commits_await_an_absent_standby_at_once() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect("postgres");
    let next_id = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let before: i64 = client.one(next_id);
    cluster.await_absent_standby();
    let used = client.one::<i64>(next_id) - before;
    assert!(used < 1000, "{used} transactions");
    cluster.finish();
}

/// Whether process `pid` runs, or could if it were not stopped.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

/// Runs a program as `make test` runs programs of tests.
fn run_bounded(program: &Path, arguments: &[&str], seconds: &str) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/bounded");
    let mut command = Command::new(script);
    command.env("TEST_TIMEOUT", seconds).arg(program).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("cannot run bounded")
}

/// The first line with `mark` that a child prints, from there on.
fn said(child: &mut Child, mark: &str) -> String {
    let lines = BufReader::new(child.stdout.as_mut().expect("it is a pipe")).lines();
    let found = lines.map_while(Result::ok).find_map(|line| Some(line.split_once(mark)?.1.into()));
    found.unwrap_or_else(|| panic!("it does not say {mark}"))
}

/// A program that takes too long fails, and what it has started ends with it.
#[test]
fn a_program_that_hangs_is_ended() {
    let hang = ["-c", "sleep 1000 & echo pid $!; wait"];
    let mut hanging = run_bounded(Path::new("sh"), &hang, "1");
    let sleep: i32 = said(&mut hanging, "pid ").parse().expect("a pid");
    assert_eq!(hanging.wait().expect("it ends").code(), Some(124));
    wait_until("the program's child has ended", LONG, || !is_alive(sleep));
    let fails = run_bounded(Path::new("sh"), &["-c", "exit 3"], "900").wait();
    assert_eq!(fails.expect("it ends").code(), Some(3));
}

/// Not a test, but a program that the next one kills.
#[test]
#[ignore = "it hangs, for a_killed_program_leaves_no_server"]
fn hangs_with_two_servers() {
    let [whole, torn] = [(), ()].map(|()| Cluster::builder().start());
    let mut client = torn.connect("postgres");
    let deaf = client.backend_pid();
    for (pid, signal) in [(deaf, Signal::SIGSTOP), (torn.postmaster_pid(), Signal::SIGKILL)] {
        kill(Pid::from_raw(pid), signal).expect("it runs");
    }
    println!("servers {} {deaf} {}", whole.postmaster_pid(), whole.socket_directory().display());
    loop {
        std::thread::park();
    }
}

/// Servers run in process groups of their own, and end nevertheless when their program is ended.
/// The rest of a server that was torn, and was stopped meanwhile, ends too.
#[test]
fn a_killed_program_leaves_no_server() {
    let this = std::env::current_exe().expect("it has a name");
    let arguments = ["--ignored", "--exact", "harness::hangs_with_two_servers", "--nocapture"];
    let mut program = run_bounded(&this, &arguments, "900");
    let line = said(&mut program, "servers ");
    let words: Vec<&str> = line.split(' ').collect();
    let [listens, deaf] = [words[0], words[1]].map(|pid| pid.parse::<i32>().expect("a pid"));
    let directory = PathBuf::from(words[2]);
    assert!(is_alive(listens) && is_alive(deaf) && directory.exists());
    // As an interrupt from the terminal would, or the end of the time.
    kill(Pid::from_raw(program.id() as i32), Signal::SIGTERM).expect("it runs");
    assert!(!program.wait().expect("it ends").success());
    wait_until("no server is left", LONG, || {
        !is_alive(listens) && !is_alive(deaf) && !directory.exists()
    });
}
