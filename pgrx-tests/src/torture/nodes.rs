//! Several servers that deal the same sequences, each with accidents of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::book::{Book, Life};
use super::figures::Figures;
use super::{Plan, Torture, accidents, market, reckoning, sequences};
use crate::client::ClientExt;

const MOST: usize = 3;

/// No number may be dealt by two of them, and each one's books hold what it owns.
pub fn play(plan: &Plan, time: Duration, seed: u64, figures: &Arc<Figures>) {
    let count = Rng::with_seed(seed).usize(2..=MOST);
    let mut lives = Vec::new();
    let nodes: Vec<Torture> =
        (0..count).map(|id| node(plan, figures, id, count, &mut lives)).collect();
    thread::scope(|scope| {
        for (id, mut torture) in nodes.into_iter().enumerate() {
            let seed = seed.wrapping_mul(10).wrapping_add(id as u64);
            torture.end = Instant::now() + time;
            scope.spawn(move || {
                market::load(&torture, (plan.sessions / count).max(2), seed, |torture| {
                    accidents::run(torture, accidents::LASTING, Rng::with_seed(seed));
                });
                reckoning::settle_accounts(&torture);
                market::finish(torture);
            });
        }
    });
}

/// One of `count` nodes. The first begins the lives, and the others join them.
fn node(
    plan: &Plan,
    figures: &Arc<Figures>,
    id: usize,
    count: usize,
    lives: &mut Vec<Arc<Life>>,
) -> Torture {
    let cluster = market::builder(plan).node(id, count).start_with_hilo();
    let book = Arc::new(Book::new(sequences::lasting("postgres", true), figures.clone()));
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('probe')");
    for sequence in &book.sequences {
        if id == 0 {
            lives.push(book.begin_life(sequence));
        }
        let life = &lives[sequence.number];
        client.run(&sequence.create(&sequence.name().0, life));
        life.committed.store(true, SeqCst);
        sequence.join(life);
    }
    Torture {
        cluster: Arc::new(cluster),
        book,
        databases: vec!["postgres"],
        favourite: 1.0,
        end: Instant::now(),
        batch: plan.batch,
        pause: plan.pause,
        away: AtomicBool::new(false),
        inside: AtomicUsize::new(0),
        disk: None,
        promoted: false,
        scarce: false,
    }
}
