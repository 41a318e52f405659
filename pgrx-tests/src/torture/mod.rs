//! Many sessions, many sequences of all kinds, accidents of all kinds; every value that a client ever
//! saw is kept here, outside of the server, and held against what the catalog says at each clean stop.

mod accidents;
mod bits;
mod book;
mod catalog;
mod define;
mod disk;
mod figures;
mod market;
mod nodes;
mod promotions;
mod reckoning;
mod scenes;
mod sequences;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use self::book::{Book, Sequence};
use self::disk::SmallDisk;
use self::figures::Figures;
pub use self::scenes::Scene;
use crate::cluster::Cluster;
use crate::wait::came_true;

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
    /// Only this one; else half of the time the mixed one, and the others by the seed.
    pub scene: Option<Scene>,
}

/// A server under torture.
struct Torture {
    cluster: Arc<Cluster>,
    book: Arc<Book>,
    databases: Vec<&'static str>,
    /// How much of the visits go to the first database.
    favourite: f32,
    end: Instant,
    batch: i64,
    pause: u64,
    away: AtomicBool,
    inside: AtomicUsize,
    /// A database that lies on a disk of its own.
    disk: Option<(&'static str, SmallDisk)>,
    /// Where values may have been served whose reservation is missing.
    promoted: bool,
    /// Where not each database can have a worker when the server stops.
    scarce: bool,
}

/// A session that has not left yet.
struct Visit<'a>(&'a AtomicUsize);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Torture {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Asks all sessions to leave.
    fn send_away(&self) {
        self.away.store(true, SeqCst);
    }

    fn let_in(&self) {
        self.away.store(false, SeqCst);
    }

    fn may_enter(&self) -> bool {
        !self.away.load(SeqCst)
    }

    fn enter(&self) -> Option<Visit<'_>> {
        self.inside.fetch_add(1, SeqCst);
        let visit = Visit(&self.inside);
        self.may_enter().then_some(visit)
    }

    /// Waits until those that were sent away have left; the server must be up.
    fn wait_until_empty(&self) {
        const PATIENCE: Duration = Duration::from_secs(200);
        if !came_true(PATIENCE, || self.inside.load(SeqCst) == 0) {
            self.book.figures.wrong("sessions do not come to an end".into());
        }
        // What they do here they have done; their backends leave by themselves.
        thread::sleep(Duration::from_millis(20));
    }

    fn sequences_of(&self, database: &str) -> Vec<&Sequence> {
        self.book.sequences.iter().filter(|sequence| sequence.database == database).collect()
    }
}

/// What came of it.
pub struct Verdict {
    figures: Arc<Figures>,
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

/// Runs a plan, on clusters of its own.
pub fn torture(plan: &Plan) -> Verdict {
    let figures = Arc::new(Figures::default());
    for (number, (scene, time)) in scenes::programme(plan).into_iter().enumerate() {
        let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        eprintln!("{scene:?} for {} s, by {seed}", time.as_secs());
        scene.play(plan, time, seed, &figures);
        figures.scene(scene.name());
    }
    Verdict { figures }
}
