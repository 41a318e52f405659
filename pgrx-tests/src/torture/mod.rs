//! Many sessions, many sequences of all kinds, accidents of all kinds; every value that a client ever
//! saw is kept here, outside of the server, and held against what the catalog says in the end.

mod accidents;
mod bits;
mod book;
mod define;
mod figures;
mod reckoning;
mod session;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use self::book::{Book, Kind, Sequence};
use self::figures::Figures;
use crate::client::ClientExt;
use crate::cluster::{Cluster, Mode};

/// How long, how many, and by which choices.
pub struct Plan {
    pub time: Duration,
    pub sessions: usize,
    /// Repeats the choices of a run, not how its sessions interleave.
    pub seed: u64,
    /// The most values in a statement.
    pub batch: i64,
    /// The most milliseconds between two accidents.
    pub pause: u64,
}

struct Torture {
    cluster: Cluster,
    book: Book,
    databases: [&'static str; 3],
    end: Instant,
    batch: i64,
    pause: u64,
    away: AtomicBool,
}

impl Torture {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// A smart stop waits for all to leave.
    fn send_away(&self) {
        self.away.store(true, SeqCst);
    }

    fn let_in(&self) {
        self.away.store(false, SeqCst);
    }

    fn may_enter(&self) -> bool {
        !self.away.load(SeqCst)
    }

    fn sequences_of(&self, database: &str) -> Vec<&Sequence> {
        self.book.sequences.iter().filter(|sequence| sequence.database == database).collect()
    }
}

/// What came of it.
pub struct Verdict {
    figures: Figures,
}

impl Verdict {
    /// The figures, as a table in Markdown.
    pub fn table(&self) -> String {
        format!("| | |\n| --- | ---: |\n{}", self.figures)
    }

    /// What must not be; empty after a good run.
    pub fn findings(&self) -> Vec<String> {
        self.figures.findings()
    }

    pub fn values(&self) -> u64 {
        self.figures.values.load(SeqCst)
    }

    pub fn crashes(&self) -> u64 {
        self.figures.crashes()
    }
}

/// One of each kind, and more of those that are used most.
fn sequences() -> Vec<Sequence> {
    let mut all = Vec::new();
    let mut add = |database, name: &str, kind, increment, change: fn(&mut Sequence)| {
        let mut sequence = Sequence::new(all.len(), database, name, kind, increment);
        change(&mut sequence);
        all.push(sequence);
    };
    for name in ["adaptive a", "adaptive b", "adaptive c"] {
        add("postgres", name, Kind::Wide, 1, |_| {});
    }
    for name in ["ordered a", "ordered b"] {
        add("postgres", name, Kind::Wide, 1, |sequence| sequence.ordered = true);
    }
    add("postgres", "ordered falling", Kind::Wide, -2, |sequence| sequence.ordered = true);
    add("postgres", "falling", Kind::Wide, -3, |sequence| sequence.options = ", block_size => 20");
    add("postgres", "blocks and hi", Kind::Wide, 1, |sequence| {
        sequence.hi_block = Some(64);
        sequence.options = ", block_size => 64";
    });
    add("postgres", "slices of one", Kind::Wide, 7, |sequence| {
        sequence.options = ", slice_size => 1"
    });
    add("postgres", "slices of four", Kind::Wide, 1, |sequence| {
        sequence.options = ", slice_size => 4"
    });
    add("postgres", "altered", Kind::Wide, 2, |sequence| sequence.uneven = true);
    add("postgres", "inserted", Kind::Wide, 1, |sequence| sequence.mutable = false);
    add("postgres", "small-1", Kind::Small(2_000), 1, |_| {});
    add("postgres", "small falling-1", Kind::Small(1_500), -1, |_| {});
    add("postgres", "cycle", Kind::Cycle(100_000), 1, |_| {});
    for database in ["shop", "stall"] {
        add(database, "adaptive a", Kind::Wide, 1, |_| {});
        add(database, "ordered a", Kind::Wide, 1, |sequence| sequence.ordered = true);
        add(database, "falling", Kind::Wide, -3, |_| {});
        add(database, "blocks", Kind::Wide, 1, |sequence| sequence.options = ", block_size => 100");
    }
    all
}

/// Runs a plan on a cluster of its own.
pub fn torture(plan: &Plan) -> Verdict {
    let cluster = Cluster::builder()
        .preload(true)
        .config("max_connections", &(plan.sessions + 16).to_string())
        .config("statement_timeout", "60s")
        .config("log_min_error_statement", "panic")
        // Smart and fast stops write a checkpoint; there are many.
        .config("checkpoint_timeout", "1h")
        .start();
    let torture = Torture {
        cluster,
        book: Book::new(sequences()),
        databases: ["postgres", "shop", "stall"],
        end: Instant::now() + plan.time,
        batch: plan.batch,
        pause: plan.pause,
        away: AtomicBool::new(false),
    };
    for database in torture.databases {
        if database != "postgres" {
            torture.cluster.connect("postgres").run(&format!("CREATE DATABASE {database}"));
        }
        let mut client = torture.cluster.connect(database);
        client.run("CREATE EXTENSION hilo");
        accidents::populate(&torture, &mut client, &torture.sequences_of(database));
    }
    for sequence in
        torture.book.sequences.iter().filter(|found| matches!(found.kind, Kind::Small(_)))
    {
        sequence.set_name(sequence.name().0, 1);
    }
    torture.cluster.connect("postgres").run(
        "CREATE UNLOGGED TABLE inserted (n integer, value bigint DEFAULT hilo_nextval('inserted'))",
    );
    thread::scope(|scope| {
        let torture = &torture;
        for number in 0..plan.sessions {
            let rng = Rng::with_seed(plan.seed.wrapping_mul(1_000).wrapping_add(number as u64));
            scope.spawn(move || session::run(torture, rng));
        }
        scope.spawn(move || accidents::run(torture, Rng::with_seed(plan.seed)));
    });
    reckoning::settle_accounts(&torture);
    torture.cluster.stop(Mode::Fast);
    let recoveries = torture.cluster.logged("automatic recovery in progress");
    figures::add(&torture.book.figures.recoveries, recoveries as u64);
    let Torture { cluster, book, .. } = torture;
    cluster.finish();
    Verdict { figures: book.figures }
}
