//! Prints values of sequence `orders`, one in a line, until the standard input ends; then returns what is left. The
//! same as clients/python/tests/draw.py, with the Rust client.

use std::io::{Read, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hilo_client::{Client, Sequence};
use tokio::task::{JoinSet, spawn_blocking};

async fn draw(orders: Sequence, ended: Arc<AtomicBool>) {
    while !ended.load(Relaxed) {
        println!("{}", orders.next().await.expect("a value"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::main]
async fn main() {
    let client = Client::builder(hilo_tests::example::config())
        .buffer(Duration::from_secs(2))
        .ttl(Duration::from_secs(600))
        .connect()
        .await
        .expect("a client");
    let ended = Arc::new(AtomicBool::new(false));
    let mut drawing = JoinSet::new();
    for _ in 0..4 {
        drawing.spawn(draw(client.sequence("orders"), ended.clone()));
    }
    spawn_blocking(|| stdin().read_to_end(&mut Vec::new()).expect("the input ends"))
        .await
        .expect("it is read");
    ended.store(true, Relaxed);
    drawing.join_all().await;
    client.shutdown().await.expect("all is returned");
}
