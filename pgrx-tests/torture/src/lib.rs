//! Many sessions, many sequences of all kinds, accidents of all kinds. Every value that a client ever saw
//! is recorded here, outside the server, and compared with the catalog at each clean stop.

mod accidents;
mod audit;
mod bits;
mod branches;
mod catalog;
mod condensed;
mod define;
mod disk;
mod figures;
mod gapless;
mod leases;
mod ledger;
mod life;
mod moves;
mod nodes;
mod one_server;
mod promotions;
mod scenes;
mod sequences;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use self::disk::SmallDisk;
use self::figures::Figures;
use self::ledger::{Ledger, Sequence};
pub use self::scenes::Scene;
use hilo_tests::Cluster;
use hilo_tests::came_true;

/// The parameters of a run.
pub struct Plan {
    pub time: Duration,
    pub sessions: usize,
    /// Repeats the choices of a run, not the interleaving of its sessions.
    pub seed: u64,
    /// The most values in a statement.
    pub batch: i64,
    /// The most milliseconds between two accidents.
    pub pause: u64,
    /// Whether processes are refused memory.
    pub refuse_memory: bool,
    /// Only this scene; if `None`, the mixed one for half of the time, then the others by the seed.
    pub scene: Option<Scene>,
}

/// A server under torture.
struct Torture {
    cluster: Arc<Cluster>,
    ledger: Arc<Ledger>,
    databases: Vec<&'static str>,
    /// The share of sessions that use the first database.
    favourite: f32,
    end: Instant,
    batch: i64,
    pause: u64,
    /// Whether sessions must disconnect and no new ones may connect.
    refusing: AtomicBool,
    /// How many sessions have not disconnected yet.
    connected: AtomicUsize,
    /// A database that has its own disk.
    disk: Option<(&'static str, SmallDisk)>,
    refuse_memory: bool,
    /// Whether values may have been served whose reservation was lost in a promotion.
    promoted: bool,
    /// Whether some databases may have no worker when the server stops.
    scarce: bool,
}

/// A session that has not disconnected yet.
struct Registration<'a>(&'a AtomicUsize);

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Torture {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Makes all sessions disconnect; wait_until_disconnected waits for it.
    fn disconnect_all(&self) {
        self.refusing.store(true, SeqCst);
    }

    /// Sessions may connect again.
    fn allow_sessions(&self) {
        self.refusing.store(false, SeqCst);
    }

    fn allows_sessions(&self) -> bool {
        !self.refusing.load(SeqCst)
    }

    /// Counts a session that is about to connect; `None` if it may not.
    fn register(&self) -> Option<Registration<'_>> {
        self.connected.fetch_add(1, SeqCst);
        let registration = Registration(&self.connected);
        self.allows_sessions().then_some(registration)
    }

    /// Waits until all sessions have disconnected; the server must be running.
    fn wait_until_disconnected(&self) {
        const PATIENCE: Duration = Duration::from_secs(200);
        if !came_true(PATIENCE, || self.connected.load(SeqCst) == 0) {
            self.ledger.figures.wrong("sessions do not end".into());
        }
        // The clients are done; their backends exit by themselves.
        thread::sleep(Duration::from_millis(20));
    }

    fn sequences_of(&self, database: &str) -> Vec<&Sequence> {
        self.ledger.sequences.iter().filter(|sequence| sequence.database == database).collect()
    }
}

/// The result of a run.
pub struct Verdict {
    figures: Arc<Figures>,
}

impl Verdict {
    /// The figures, as a table in Markdown.
    pub fn table(&self) -> String {
        format!("| | |\n| --- | ---: |\n{}", self.figures)
    }

    /// The violations that were found; empty after a good run.
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

/// Runs a plan on its own clusters.
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
