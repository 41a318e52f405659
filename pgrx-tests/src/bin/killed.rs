//! Draws from sequence `orders` with the Rust client and a state file, until the standard input ends. It appends each
//! value to a file, 8 bytes each. The same as clients/python/tests/stored.py.
//!
//! Arguments: the state file, the file for the values, the number of threads, and `sync_every` if it is to be set.

use std::fs::OpenOptions;
use std::io::{Read, Write, stdin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hilo_client::{Client, Sequence};
use tokio::runtime::Runtime;

fn draw(runtime: &Runtime, orders: &Sequence, path: &str, ended: &AtomicBool) {
    let mut seen = OpenOptions::new().append(true).open(path).expect("a file");
    while !ended.load(Relaxed) {
        let value = match orders.try_next().expect("a value") {
            Some(value) => value,
            None => runtime.block_on(orders.next()).expect("a value"),
        };
        seen.write_all(&value.to_ne_bytes()).expect("it is written");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [state, seen, threads, ..] = &arguments[..] else { panic!("three arguments") };
    let runtime = Runtime::new().expect("a runtime");
    let config = hilo_tests::example::config();
    let mut builder = Client::builder(config).state(state).ttl(Duration::from_secs(600));
    if let Some(values) = arguments.get(3) {
        builder = builder.sync_every(values.parse().expect("a number"));
    }
    let client = runtime.block_on(builder.connect()).expect("a client");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads.parse().expect("a number") {
            scope.spawn(|| draw(&runtime, &client.sequence("orders"), seen, &ended));
        }
        stdin().read_to_end(&mut Vec::new()).expect("the input ends");
        ended.store(true, Relaxed);
    });
    runtime.block_on(client.shutdown()).expect("all is returned");
}
