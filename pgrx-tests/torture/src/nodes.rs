//! Several servers that serve the same sequences, each with its own accidents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::accidents::{self, snapshots};
use super::figures::Figures;
use super::ledger::{Ledger, Life};
use super::sequences::Servers;
use super::{Plan, Torture, audit, one_server, sequences};
use hilo_tests::ClientExt;

const MAX_NODES: usize = 3;

/// No two of them may serve the same number, and the catalog of each accounts for what it has reserved.
pub fn play(plan: &Plan, time: Duration, seed: u64, figures: &Arc<Figures>) {
    let count = Rng::with_seed(seed).usize(2..=MAX_NODES);
    let mut lives = Vec::new();
    let nodes: Vec<Torture> =
        (0..count).map(|id| node(plan, figures, id, count, &mut lives)).collect();
    thread::scope(|scope| {
        for (id, mut torture) in nodes.into_iter().enumerate() {
            let seed = seed.wrapping_mul(10).wrapping_add(id as u64);
            torture.end = Instant::now() + time;
            scope.spawn(move || {
                one_server::load(&torture, (plan.sessions / count).max(2), seed, |torture| {
                    accidents::run(torture, accidents::LASTING, Rng::with_seed(seed));
                });
                snapshots::end(&torture);
                audit::final_audit(&torture);
                one_server::finish(torture);
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
    let cluster = one_server::builder(plan).node(id, count).start_with_hilo();
    let ledger =
        Arc::new(Ledger::new(sequences::lasting("postgres", Servers::Several), figures.clone()));
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('probe')");
    for sequence in &ledger.sequences {
        if id == 0 {
            lives.push(ledger.begin_life(sequence));
        }
        let life = &lives[sequence.number];
        client.run(&sequence.create(&sequence.name().0, life));
        life.committed.store(true, SeqCst);
        sequence.join(life);
    }
    Torture {
        cluster: Arc::new(cluster),
        ledger,
        databases: vec!["postgres"],
        favourite: 1.0,
        end: Instant::now(),
        batch: plan.batch,
        pause: plan.pause,
        refusing: AtomicBool::new(false),
        connected: AtomicUsize::new(0),
        disk: None,
        refuse_memory: plan.refuse_memory,
        promoted: false,
        scarce: false,
    }
}
