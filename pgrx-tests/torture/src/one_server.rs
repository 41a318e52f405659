//! The scenes with one server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::accidents::{self, Choices, databases, snapshots};
use super::disk::SmallDisk;
use super::figures::Figures;
use super::ledger::{Ledger, SequenceKind};
use super::{Plan, Scene, Torture, audit, sequences, session};
use hilo_tests::ClientExt;
use hilo_tests::{Builder, Cluster, Mode};

/// The common part of the servers of all scenes.
pub fn builder(plan: &Plan) -> Builder {
    Cluster::builder()
        .preload(true)
        .config("max_connections", &(plan.sessions + 64).to_string())
        .config("statement_timeout", "60s")
        .config("log_min_error_statement", "panic")
        .config("max_prepared_transactions", "2")
        // Smart and fast stops write a checkpoint; there are many.
        .config("checkpoint_timeout", "1h")
}

/// The differences between scenes; some of them depend on the seed.
struct Setting {
    builder: Builder,
    databases: Vec<&'static str>,
    favourite: f32,
    sequences: Vec<super::ledger::Sequence>,
    accidents: Choices,
}

fn setting(scene: Scene, plan: &Plan, rng: &mut Rng) -> Setting {
    let builder = builder(plan);
    match scene {
        Scene::Crowd => {
            let (places, slices) = (rng.i64(12..60), [1, 2, 8, 64][rng.usize(..4)]);
            Setting {
                builder: builder
                    .config("hilo.max_sequences", &places.to_string())
                    .config("hilo.max_backend_slices", &slices.to_string()),
                databases: vec!["postgres"],
                favourite: 1.0,
                sequences: sequences::many("postgres", 140),
                accidents: accidents::ANYWHERE,
            }
        }
        Scene::Databases => {
            const SHOPS: [&str; 25] = [
                "postgres", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "d11",
                "d12", "d13", "d14", "d15", "d16", "d17", "d18", "d19", "d20", "d21", "d22", "d23",
                "d24",
            ];
            let idle = ["0", "50ms", "2s"][rng.usize(..3)];
            Setting {
                builder: builder
                    .config("max_worker_processes", "8")
                    .config("hilo.worker_idle_timeout", idle),
                databases: SHOPS.to_vec(),
                favourite: 0.0,
                sequences: sequences::in_each(&SHOPS),
                accidents: accidents::DATABASES,
            }
        }
        Scene::Disk => {
            let idle = ["50ms", "2s"][rng.usize(..2)];
            Setting {
                builder: builder.config("hilo.worker_idle_timeout", idle),
                databases: vec!["shop", "postgres"],
                favourite: 0.9,
                sequences: sequences::many("shop", 60),
                accidents: accidents::DISK,
            }
        }
        _ => Setting {
            builder,
            databases: vec!["postgres", "shop", "stall"],
            favourite: 0.7,
            sequences: sequences::mix(),
            accidents: accidents::MIXED,
        },
    }
}

/// Runs a scene on its own cluster.
pub fn play(scene: Scene, plan: &Plan, time: Duration, seed: u64, figures: &Arc<Figures>) {
    let Setting { builder, databases, favourite, sequences, accidents } =
        setting(scene, plan, &mut Rng::with_seed(seed));
    let cluster = Arc::new(builder.start());
    let disk = match scene {
        Scene::Disk => match SmallDisk::mount(&cluster, 40) {
            Some(disk) => {
                let place = disk.tablespace();
                cluster
                    .connect("postgres")
                    .run(&format!("CREATE TABLESPACE small LOCATION '{}'", place.display()));
                Some(("shop", disk))
            }
            None => {
                eprintln!("{scene:?}: nothing can be mounted here, so the disk will never be full");
                None
            }
        },
        _ => None,
    };
    let mut torture = Torture {
        cluster,
        ledger: Arc::new(Ledger::new(sequences, figures.clone())),
        databases,
        favourite,
        end: Instant::now() + time,
        batch: plan.batch,
        pause: plan.pause,
        refusing: AtomicBool::new(false),
        connected: AtomicUsize::new(0),
        disk,
        refuse_memory: plan.refuse_memory,
        promoted: false,
        scarce: scene == Scene::Databases,
    };
    databases::create_all(&torture);
    for sequence in &torture.ledger.sequences {
        if matches!(sequence.kind, SequenceKind::Small(_)) {
            sequence.set_name(sequence.name().0, 1);
        }
        if sequence.inserted {
            torture.cluster.connect(sequence.database).run(&format!(
                "CREATE UNLOGGED TABLE inserted (n integer, value bigint DEFAULT hilo_nextval('{}'))",
                sequence.name().0
            ));
        }
    }
    torture.end = Instant::now() + time;
    load(&torture, plan.sessions, seed, |torture| {
        accidents::run(torture, accidents, Rng::with_seed(seed));
    });
    snapshots::end(&torture);
    audit::final_audit(&torture);
    finish(torture);
}

/// Runs sessions, and `beside` at the same time, until the time is up.
pub fn load(torture: &Torture, sessions: usize, seed: u64, beside: impl FnOnce(&Torture) + Send) {
    thread::scope(|scope| {
        for number in 0..sessions {
            let rng = Rng::with_seed(seed.wrapping_mul(1_000).wrapping_add(number as u64));
            scope.spawn(move || session::run(torture, rng));
        }
        scope.spawn(move || beside(torture));
    });
}

/// Stops the server, and checks that its log has no forbidden message.
pub fn finish(torture: Torture) {
    torture.cluster.stop(Mode::Fast);
    let recoveries = torture.cluster.log_count("automatic recovery in progress");
    torture.ledger.figures.recovered(recoveries);
    let Torture { cluster, disk, .. } = torture;
    drop(disk);
    Arc::into_inner(cluster).expect("no other owner is left").finish();
}
