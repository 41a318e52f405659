//! Programs with a state file are killed again and again, and go on with what they had.

use std::collections::BTreeMap;
use std::env::var;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hilo_tests::example::{DATABASE, Example, OWNER, at};
use hilo_tests::{ClientExt, Cluster, LONG, assert_unique, wait_until};
use nix::libc;

use super::cluster;
use crate::wait_until_back;

/// How often a program is killed: `HILO_KILLS`, or a few times.
fn kills() -> usize {
    var("HILO_KILLS").map_or(6, |kills| kills.parse().expect("HILO_KILLS is a number"))
}

/// A program that draws in so many threads, and where it writes what it has drawn.
struct Program<'a> {
    name: &'static str,
    threads: usize,
    command: Box<dyn Fn() -> Command + 'a>,
    seen: PathBuf,
}

impl<'a> Program<'a> {
    fn rust(cluster: &'a Cluster, threads: usize, sync_every: Option<&str>) -> Program<'a> {
        let seen = cluster.file("seen");
        let files = [cluster.file("state"), seen.clone()];
        let arguments: Vec<String> =
            [threads.to_string()].into_iter().chain(sync_every.map(str::to_owned)).collect();
        let command = move || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_killed"));
            at(cluster, &mut command);
            command.args(&files).args(&arguments);
            command
        };
        File::create(&seen).expect("a file");
        Program { name: "rust", threads, command: Box::new(command), seen }
    }

    fn python(python: &'a Example, cluster: &'a Cluster, sync_every: Option<&str>) -> Program<'a> {
        let seen = cluster.file("seen");
        let files = [cluster.file("state"), seen.clone()];
        let arguments: Vec<String> =
            ["2"].into_iter().chain(sync_every).map(str::to_owned).collect();
        let command = move || {
            let mut command = python.command(cluster, &["python3", "tests/stored.py"]);
            command.args(&files).args(&arguments);
            command
        };
        File::create(&seen).expect("a file");
        Program { name: "python", threads: 2, command: Box::new(command), seen }
    }

    fn start(&self) -> Child {
        (self.command)().stdin(Stdio::piped()).spawn().expect("the program starts")
    }

    fn count(&self) -> u64 {
        fs::metadata(&self.seen).expect("it is there").len() / 8
    }

    fn values(&self) -> Vec<i64> {
        let bytes = fs::read(&self.seen).expect("it can be read");
        let value = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
        bytes.chunks_exact(8).map(value).collect()
    }

    /// Kills it so often, at some moment each time: mostly while it draws, and sometimes while it begins.
    fn kill(&self, times: usize) {
        for _ in 0..times {
            let (mut child, before) = (self.start(), self.count());
            let (began, at_once) = (Instant::now(), fastrand::u8(0..4) == 0);
            let (wanted, pause) = (fastrand::u64(1..1000), fastrand::u64(0..100));
            wait_until("it draws", LONG, || {
                let is_time = began.elapsed() > Duration::from_millis(pause);
                assert!(child.try_wait().expect("it can be waited for").is_none(), "it has ended");
                at_once && is_time || self.count() >= before + wanted
            });
            child.kill().expect("it can be killed");
            child.wait().expect("it can be waited for");
        }
    }

    /// Lets it draw once more, and end.
    fn end(&self) {
        let (mut child, before) = (self.start(), self.count());
        wait_until("it draws", LONG, || self.count() >= before + 1000);
        drop(child.stdin.take());
        assert!(child.wait().expect("it can be waited for").success());
    }
}

/// Nothing is missing but a value for each thread that was on its way from the client to its caller at a kill. At one kill in
/// a hundred at most, an unused lease is missing. The server has seen the killed program's question too late: the next one
/// had asked for that lease again, and had used it up.
#[track_caller]
fn assert_nothing_is_lost(cluster: &Cluster, program: &Program, kills: usize) {
    let seen = program.values();
    assert_unique("orders", &seen);
    let mut client = cluster.connect(DATABASE);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 0, "leases are open");
    client.run("CREATE TABLE seen (id bigint PRIMARY KEY)");
    client.execute("INSERT INTO seen SELECT unnest($1::bigint[])", &[&seen]).expect("values");
    client.run(
        "CREATE TABLE missing AS SELECT * FROM hilo_find_gaps('orders', 'seen', 'id')
          WHERE reason NOT IN ('slice', 'current', 'standby', 'returned', 'free')",
    );
    let mut sum = |what: &str| client.one::<i64>(&format!("SELECT coalesce(sum({what}"));
    let on_the_way = sum("count), 0)::bigint FROM missing WHERE reason LIKE 'rolled back%'");
    let others = sum("1), 0)::bigint FROM missing WHERE reason NOT LIKE 'rolled back%'");
    let unused = sum("1), 0)::bigint FROM missing JOIN hilo_gaps g USING (first, last)
          WHERE missing.reason = 'revoked' AND g.reason = 'revoked'");
    let (name, values, most) = (program.name, seen.len(), kills * program.threads);
    println!(
        "{name}: {kills} kills, {values} values, {on_the_way} on their way, {unused} leases late"
    );
    assert!(on_the_way <= most as i64, "{on_the_way} values are missing");
    assert!(others == unused && unused <= kills as i64 / 100, "{others} ranges are lost");
    client.run("DROP TABLE seen, missing");
}

/// Kills a program again and again, and looks what has become of its values.
#[track_caller]
fn assert_goes_on(cluster: &Cluster, program: &Program) {
    program.kill(kills());
    program.end();
    assert_nothing_is_lost(cluster, program, kills());
}

/// A process that is killed and starts again goes on with its leases. So does one that waits for the disk.
#[test]
fn a_client_in_rust_that_is_killed_loses_nothing_and_repeats_nothing() {
    let cluster = cluster();
    assert_goes_on(&cluster, &Program::rust(&cluster, 2, Some("200")));
    cluster.connect_as(OWNER, DATABASE).run("SELECT hilo_drop('orders'), hilo_create('orders')");
    assert_goes_on(&cluster, &Program::rust(&cluster, 2, None));
    cluster.finish();
}

#[test]
fn a_client_in_python_that_is_killed_loses_nothing_and_repeats_nothing() {
    let Some(python) = Example::find("python") else { return };
    let cluster = cluster();
    assert_goes_on(&cluster, &Program::python(&python, &cluster, Some("200")));
    python.run(&cluster, &[], &[&["python3", "tests/state.py"]]);
    cluster.finish();
}

/// Either client goes on with what the other one has left.
#[test]
fn a_state_file_is_for_clients_in_every_language() {
    let Some(python) = Example::find("python") else { return };
    let cluster = cluster();
    let (rust, by_python) =
        (Program::rust(&cluster, 2, None), Program::python(&python, &cluster, None));
    for program in [&rust, &by_python, &rust, &by_python] {
        program.kill(1);
    }
    rust.end();
    assert_nothing_is_lost(&cluster, &rust, 4);
    drop((rust, by_python));
    cluster.finish();
}

/// Has a client do what the lines say, one after the other, and returns its answers. It ends without closing.
fn answers(mut command: Command, lines: &[String]) -> Vec<String> {
    let command = command.args(["30", "30"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("it has an input");
    input.write_all((lines.join("\n") + "\n").as_bytes()).expect("it reads its input");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text").lines().map(str::to_owned).collect()
}

/// Files of this process cannot grow beyond the first part of a state file, as on a full disk.
fn limit(command: &mut Command) {
    let most = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
    // SAFETY: the child only makes system calls before it becomes the program.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            match libc::setrlimit(libc::RLIMIT_FSIZE, &most) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    };
}

/// More sequences than a state file has room for on a full disk: the others are an error that names the file. When there is
/// room again, the next process goes on with all.
#[track_caller]
fn assert_a_full_disk_loses_nothing(cluster: &Cluster, command: impl Fn() -> Command) {
    let state = cluster.file("full").display().to_string();
    let mut client = cluster.connect_as(OWNER, DATABASE);
    client.run("SELECT hilo_create('s' || n) FROM generate_series(1, 140) n");
    let each = || (1..=140).map(|number| format!("next s{number}"));
    let lines: Vec<String> = each().chain(vec!["next s1".to_owned(); 14]).collect();
    let mut limited = command();
    limit(limited.env("STATE", &state));
    let mut said: Vec<_> = lines.iter().cloned().zip(answers(limited, &lines)).collect();
    let is_value = |(_, answer): &&(String, String)| answer.starts_with("value ");
    let refused: Vec<_> = said.iter().filter(|one| !is_value(one)).collect();
    let is_clear = |answer: &str| answer.starts_with("error state ") && answer.contains(&state);
    assert!(refused.len() >= 13 && refused.iter().all(|one| is_clear(&one.1)), "{refused:?}");
    let lines: Vec<String> = each().chain(["close".to_owned()]).collect();
    let mut unlimited = command();
    unlimited.env("STATE", &state);
    said.extend(lines.iter().cloned().zip(answers(unlimited, &lines)));
    assert_eq!(said.last().map(|(_, answer)| &**answer), Some("closed"));
    let mut drawn = BTreeMap::<String, Vec<i64>>::new();
    for (line, answer) in said.iter().filter(is_value) {
        let value = answer["value ".len()..].parse().expect("a number");
        drawn.entry(line.clone()).or_default().push(value);
    }
    assert_eq!(drawn.len(), 140, "{said:?}");
    for (line, mut values) in drawn {
        values.sort_unstable();
        assert_eq!(values, (1..=values.len() as i64).collect::<Vec<_>>(), "{line}");
    }
    let left = "SELECT (SELECT count(*) FROM hilo_leases) + (SELECT count(*) FROM hilo_gaps)";
    assert_eq!(client.one::<i64>(left), 0, "something is left");
    client.run("SELECT hilo_drop('s' || n) FROM generate_series(1, 140) n");
    fs::remove_file(state).expect("it is there");
}

/// A process is killed, and its sequence gets another name. The next process returns what it finds of it.
#[track_caller]
fn assert_a_renamed_sequence_loses_nothing(cluster: &Cluster, command: impl Fn() -> Command) {
    let state = cluster.file("renamed").display().to_string();
    let mut client = cluster.connect_as(OWNER, DATABASE);
    client.run("SELECT hilo_create('before')");
    let play = |lines: &[String]| {
        let mut program = command();
        program.env("STATE", &state);
        answers(program, lines)
    };
    assert!(play(&["next before"; 3].map(str::to_owned)).contains(&"value 3".to_owned()));
    client.run("SELECT hilo_rename('before', 'after')");
    let said = play(&["next before".to_owned(), "close".to_owned()]);
    assert!(said[0].starts_with("error 42704 ") && said[1] == "closed", "{said:?}");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_leases"), 0, "a lease is left");
    wait_until_back(&mut client, 4);
    assert_eq!(client.draw("after", 1), [4]);
    client.run("SELECT hilo_drop('after')");
}

#[test]
fn a_client_with_a_state_file_loses_nothing_on_a_full_disk_or_when_a_sequence_is_renamed() {
    let cluster = cluster();
    let rust = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drive"));
        at(&cluster, &mut command);
        command
    };
    assert_a_full_disk_loses_nothing(&cluster, rust);
    assert_a_renamed_sequence_loses_nothing(&cluster, rust);
    if let Some(python) = Example::find("python") {
        let drive = || python.command(&cluster, &["python3", "tests/drive.py"]);
        assert_a_full_disk_loses_nothing(&cluster, drive);
        assert_a_renamed_sequence_loses_nothing(&cluster, drive);
    }
    cluster.finish();
}
