//! Does what the scenes ask of a client (`clients/scenes/README.md`), with the Rust client: `drive
//! seconds-a-caller-waits seconds-a-statement-takes`. `STATE` in the environment names a state file.

use std::env::{args, var};
use std::io::stdin;
use std::time::Duration;

use hilo_client::{Client, Error, Sequence};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use tokio::task::JoinSet;

fn seconds(number: usize) -> Duration {
    let seconds = args().nth(number).and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.expect("seconds"))
}

fn failed(error: &Error) -> String {
    let kind = match error {
        Error::Refused { source, .. } => source.code.as_ref().map_or("none", |code| code.code()),
        Error::Timeout { .. } | Error::Unreachable { .. } => "timeout",
        Error::Closed => "closed",
        Error::Forked => "forked",
        Error::State { .. } => "state",
        _ => "other",
    };
    format!("error {kind} {error}").replace('\n', " ")
}

async fn drawn(sequence: Sequence) -> String {
    sequence.next().await.map_or_else(|error| failed(&error), |value| format!("value {value}"))
}

async fn closed(client: &Client) -> String {
    client.shutdown().await.map_or_else(|error| failed(&error), |_| "closed".into())
}

/// The values that tasks draw while the client closes.
async fn raced(client: &Client, name: &str) -> String {
    let mut drawing = JoinSet::new();
    for _ in 0..4 {
        let sequence = client.sequence(name);
        drawing.spawn(async move {
            let mut values = Vec::new();
            while let Ok(value) = sequence.next().await {
                values.push(value.to_string());
                tokio::task::yield_now().await;
            }
            values
        });
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let end = closed(client).await;
    let values = drawing.join_all().await.concat().join(" ");
    if end == "closed" { format!("values {values}") } else { end }
}

async fn answer(client: &Client, line: &str) -> String {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("next", name) => drawn(client.sequence(name)).await,
        ("race", name) => raced(client, name).await,
        ("close", _) => closed(client).await,
        _ => "error other unknown".into(),
    }
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut builder = Client::builder(hilo_tests::example::config());
    if let Ok(path) = var("STATE") {
        builder = builder.state(path);
    }
    let connecting = builder
        .lease_size(10, 10)
        .buffer(Duration::from_secs(1))
        .ttl(Duration::from_secs(600))
        .patience(seconds(1))
        .timeout(seconds(2))
        .connect();
    let client = runtime.block_on(connecting).expect("a client");
    for line in stdin().lines() {
        let line = line.expect("a line");
        let Some(name) = line.strip_prefix("fork ") else {
            println!("{}", runtime.block_on(answer(&client, &line)));
            continue;
        };
        let sequence = client.sequence(name);
        // SAFETY: the child only asks for a value that is refused, writes a line, and ends.
        match unsafe { fork() }.expect("a child") {
            ForkResult::Child => {
                println!(
                    "{}",
                    sequence
                        .try_next()
                        .map_or_else(|error| failed(&error), |value| format!("value {value:?}"))
                );
                // SAFETY: it leaves all that it has inherited alone.
                unsafe { nix::libc::_exit(0) }
            }
            ForkResult::Parent { child } => {
                waitpid(child, None).expect("it ends");
            }
        }
    }
    // Without a shutdown, as a program that is killed.
    std::process::exit(0)
}
