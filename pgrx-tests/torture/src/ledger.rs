//! The numbers that clients have seen, by sequence and life.
//!
//! Every renumbering (create, setval, restart) starts in a region of numbers that the sequence has
//! never had. So a number itself says which *life* of its sequence it belongs to. Nothing has to be
//! guessed from times, and sessions can draw during a setval. A sequence too small for that is
//! never renumbered: another one with a new name follows it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Instant;

use super::figures::{Figures, add};
pub use super::life::{Life, SequenceKind};

/// The rest of a lease.
pub struct HeldLease {
    pub(super) token: String,
    pub(super) life: Arc<Life>,
    /// The first value that was not used, the place of that value, and how many there are.
    pub(super) next: i64,
    pub(super) place: i64,
    pub(super) count: i64,
    /// Whether a return was sent whose result was lost.
    pub(super) tried: bool,
}

/// hilo.max_slice_size.
const SLICE: u64 = 256;

/// The lives of a sequence by their keys, since its database was made the last time from a template.
type Lives = RwLock<HashMap<i64, Arc<Life>>>;

pub struct Sequence {
    pub number: usize,
    pub database: &'static str,
    pub kind: SequenceKind,
    pub increment: i64,
    pub ordered: bool,
    /// The block of a classic Hi/Lo sequence, whose options never change.
    pub hi_block: Option<i64>,
    /// More options for hilo_create.
    pub options: &'static str,
    /// Whether clients may set, alter, rename and drop it.
    pub mutable: bool,
    /// Whether a table takes its default from it.
    pub inserted: bool,
    /// Whether several servers serve it, so that no order over all of them is known.
    pub multi_node: bool,
    /// Whether its increment changes within a life, whose numbers are then no grid.
    pub uneven: bool,
    name: RwLock<(String, i64)>,
    /// Held by the session that defines it.
    pub definer: Mutex<()>,
    /// Held by the session that draws, if only one may.
    pub alone: Mutex<()>,
    lives: RwLock<Arc<Lives>>,
    current: RwLock<Option<Arc<Life>>>,
    regions: AtomicI64,
    /// The changes of its lives, for the search for a cause.
    history: Mutex<Vec<String>>,
    /// The most values that statements with a lost result can have drawn.
    pub lost: AtomicU64,
    /// Leases whose holders are still there.
    pub held: Mutex<Vec<HeldLease>>,
}

/// The state when a call began.
pub struct Ticket {
    pub name: String,
    generation: i64,
    began: u64,
    /// A connection is to one database: another one with the same name has other lives.
    lives: Arc<Lives>,
    /// The life, the furthest value, and where the life was advanced to.
    current: Option<(Arc<Life>, i64, i64)>,
}

impl Ticket {
    /// The fault of a value of a call that began in this state.
    fn outran(&self, sequence: &Sequence, life: &Arc<Life>, value: i64) -> Option<String> {
        let (current, furthest, floor) = self.current.as_ref()?;
        if !Arc::ptr_eq(current, life) {
            return None;
        }
        let sign = life.increment.signum();
        if sequence.ordered && !sequence.multi_node && value * sign <= *furthest {
            return Some(format!("{value} after a call had returned {}", furthest * sign));
        }
        let passed = life.place(value).is_some_and(|place| place <= *floor);
        passed.then(|| format!("{value} although it was advanced to {}", life.value(*floor)))
    }
}

/// The last value of each life that one connection has seen.
pub type Last = HashMap<(usize, i64), i64>;

pub struct Ledger {
    clock: Instant,
    pub sequences: Vec<Sequence>,
    pub figures: Arc<Figures>,
}

impl Ledger {
    pub fn new(sequences: Vec<Sequence>, figures: Arc<Figures>) -> Ledger {
        Ledger { clock: Instant::now(), sequences, figures }
    }

    pub fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Taken before a statement is sent.
    pub fn ticket(&self, sequence: &Sequence) -> Ticket {
        let (name, generation) = sequence.name();
        let current = sequence.current.read().unwrap().clone();
        let current = current.map(|life| {
            let (furthest, floor) = (life.furthest.load(SeqCst), life.floor.load(SeqCst));
            (life, furthest, floor)
        });
        let lives = sequence.lives.read().unwrap().clone();
        Ticket { name, generation, began: self.now(), lives, current }
    }

    /// Records what a statement returned. `rising`: whether it takes part in the order of its session.
    pub fn saw(
        &self,
        sequence: &Sequence,
        ticket: &Ticket,
        last: &mut Last,
        values: &[i64],
        rising: bool,
    ) {
        add(&self.figures.values, values.len() as u64);
        if let SequenceKind::Cycle(lap) = sequence.kind {
            return self.saw_lap(&ticket.name, lap, values);
        }
        for values in values.chunk_by(|a, b| sequence.key(*a) == sequence.key(*b)) {
            let Some(life) = self.life_of(sequence, ticket, values[0]) else {
                self.figures.wrong(format!("{}: {} belongs to no life", ticket.name, values[0]));
                continue;
            };
            self.saw_in(sequence, &life, ticket, last, values, rising);
        }
    }

    /// The life that a value belongs to which a statement returned.
    pub fn life_of(&self, sequence: &Sequence, ticket: &Ticket, value: i64) -> Option<Arc<Life>> {
        let key = match sequence.kind {
            SequenceKind::Small(_) => ticket.generation,
            _ => sequence.key(value),
        };
        ticket.lives.read().unwrap().get(&key).cloned()
    }

    fn saw_in(
        &self,
        sequence: &Sequence,
        life: &Arc<Life>,
        ticket: &Ticket,
        last: &mut Last,
        values: &[i64],
        rising: bool,
    ) {
        let wrong = |what: String| self.figures.wrong(format!("{}: {what}", ticket.name));
        if life.died.load(SeqCst) < ticket.began {
            wrong(format!(
                "{} belongs to a life that had ended before the call began at {}: {:?}",
                values[0],
                ticket.began,
                sequence.recent_history()
            ));
        }
        let sign = life.increment.signum();
        if rising {
            let before = last.entry((sequence.number, life.key)).or_insert(i64::MIN);
            for &value in values {
                if *before != i64::MIN && value * sign <= *before * sign {
                    wrong(format!(
                        "{value} after {before} in one session, which took {} at once: {:?}",
                        values.len(),
                        sequence.recent_history()
                    ));
                }
                *before = value;
            }
        }
        if rising && let Some(what) = ticket.outran(sequence, life, values[0]) {
            wrong(what);
        }
        let (mut seen, closed) = (life.seen.lock().unwrap(), life.closed.lock().unwrap());
        let leased = life.leased.lock().unwrap();
        for &value in values {
            match life.place(value) {
                None => wrong(format!("{value} is between the steps of {}", life.increment)),
                Some(place) if !seen.insert(place) => {
                    add(&self.figures.duplicates, 1);
                    wrong(format!("{value} twice: {:?}", sequence.recent_history()));
                }
                Some(place) if closed.contains(place) => {
                    wrong(format!("{value} was served after an audit had closed it"));
                }
                Some(place) if leased.contains(place) => {
                    wrong(format!("{value} was served while a holder had it"));
                }
                Some(_) => {}
            }
        }
        drop((seen, closed, leased));
        if let Some(furthest) = values.iter().map(|value| value * sign).max() {
            life.furthest.fetch_max(furthest, SeqCst);
        }
    }

    /// A lap keeps within its bounds. Its order is not checked: what a crash skips may be longer than
    /// a lap.
    fn saw_lap(&self, name: &str, lap: i64, values: &[i64]) {
        if values.iter().any(|value| !(1..=lap).contains(value)) {
            self.figures.wrong(format!("{name}: out of a lap of {lap}: {values:?}"));
        }
    }

    /// A statement that may have drawn `count` values, and a slice beyond them, did not say which.
    pub fn note_lost(&self, sequence: &Sequence, count: u64) {
        add(&self.figures.lost_statements, 1);
        add(&sequence.lost, count + SLICE);
    }

    /// Begins a life, before the statement is sent to the server.
    pub fn begin_life(&self, sequence: &Sequence) -> Arc<Life> {
        add(&self.figures.lives, 1);
        let number = sequence.regions.fetch_add(1, SeqCst) + 1;
        let goes_back = sequence.hi_block.is_none();
        let mut life = Life::new(sequence.kind, number, sequence.increment, goes_back);
        if sequence.uneven {
            life.step = life.increment.signum();
        }
        let life = Arc::new(life);
        sequence.add_life(&life);
        life
    }

    /// A template has the sequence in its first life, and its database is made from that: here the
    /// life begins anew. The lives that were there before are gone.
    pub fn begin_copy(&self, sequence: &Sequence) -> Arc<Life> {
        *sequence.lives.write().unwrap() = Arc::default();
        sequence.held.lock().unwrap().clear();
        sequence.regions.store(0, SeqCst);
        sequence.set_name(sequence.first_name(), 0);
        self.begin_life(sequence)
    }

    /// A drop deleted what the catalog knew of the lives before this one.
    pub fn forgotten(&self, sequence: &Sequence, next: i64) {
        for life in sequence.lives().iter().filter(|life| life.key != next) {
            life.committed.store(false, SeqCst);
        }
    }

    /// A sequence is dropped; `next` is its life when it is created again.
    pub fn note_drop(&self, sequence: &Sequence, next: &Life) {
        let since = self.now();
        for life in sequence.lives().iter().filter(|life| life.key != next.key) {
            life.died.fetch_min(since, SeqCst);
        }
        *sequence.current.write().unwrap() = None;
    }

    /// Notes what was done to a sequence.
    pub fn note(&self, sequence: &Sequence, what: String) {
        sequence.history.lock().unwrap().push(format!("{}: {what}", self.now()));
    }

    /// The life with this key, or none, has been served since `since`: all others are over.
    pub fn close_other_lives(&self, sequence: &Sequence, key: Option<i64>, since: u64) {
        if matches!(sequence.kind, SequenceKind::Small(_)) {
            return;
        }
        self.note(sequence, format!("in life {key:?} since {since}"));
        let lives = sequence.lives.read().unwrap().clone();
        let lives = lives.read().unwrap();
        for life in lives.values().filter(|life| Some(life.key) != key) {
            life.died.fetch_min(since, SeqCst);
        }
        let current = key.and_then(|key| lives.get(&key).cloned());
        if let Some(life) = &current {
            life.committed.store(true, SeqCst);
        }
        *sequence.current.write().unwrap() = current;
    }
}

impl Sequence {
    pub fn new(
        number: usize,
        database: &'static str,
        name: &str,
        kind: SequenceKind,
        increment: i64,
    ) -> Sequence {
        Sequence {
            number,
            database,
            kind,
            increment,
            ordered: false,
            hi_block: None,
            options: "",
            mutable: true,
            inserted: false,
            multi_node: false,
            uneven: false,
            name: RwLock::new((name.to_owned(), 0)),
            definer: Mutex::default(),
            alone: Mutex::default(),
            lives: RwLock::default(),
            current: RwLock::default(),
            regions: AtomicI64::new(0),
            history: Mutex::default(),
            lost: AtomicU64::new(0),
            held: Mutex::default(),
        }
    }

    /// Keeps other sessions from drawing, if only one may.
    pub fn lock_alone(&self) -> Result<Option<MutexGuard<'_, ()>>, ()> {
        match self.kind {
            SequenceKind::Cycle(_) => self.alone.try_lock().map(Some).map_err(drop),
            _ => Ok(None),
        }
    }

    /// Its current name, and how many names it had before.
    pub fn name(&self) -> (String, i64) {
        self.name.read().unwrap().clone()
    }

    /// The name that it was created with.
    pub fn first_name(&self) -> String {
        self.name().0.trim_end_matches(" renamed").to_owned()
    }

    /// Whether alterations may make it ordered: a sequence without options of its own.
    pub fn may_be_ordered(&self) -> bool {
        !self.ordered && self.options.is_empty() && self.number.is_multiple_of(2)
    }

    /// Also serves the numbers of a life that began on another server.
    pub fn join(&self, life: &Arc<Life>) {
        self.add_life(life);
        *self.current.write().unwrap() = Some(life.clone());
    }

    fn add_life(&self, life: &Arc<Life>) {
        self.lives.read().unwrap().write().unwrap().insert(life.key, life.clone());
    }

    /// The life that is served, if that is known.
    pub fn current(&self) -> Option<Arc<Life>> {
        self.current.read().unwrap().clone()
    }

    /// Whether it existed when that was last known.
    pub fn exists(&self) -> bool {
        self.current.read().unwrap().is_some()
    }

    /// The end of its history.
    pub fn recent_history(&self) -> Vec<String> {
        let history = self.history.lock().unwrap();
        history[history.len().saturating_sub(8)..].to_vec()
    }

    pub fn set_name(&self, name: String, generation: i64) {
        *self.name.write().unwrap() = (name, generation);
    }

    pub fn key(&self, value: i64) -> i64 {
        self.kind.key(value)
    }

    /// The start value of a classic Hi/Lo sequence: that of its first life, which all others keep.
    pub fn start_value(&self) -> i64 {
        self.life(1).expect("it has been created").first
    }

    pub fn life(&self, key: i64) -> Option<Arc<Life>> {
        self.lives.read().unwrap().read().unwrap().get(&key).cloned()
    }

    pub fn lives(&self) -> Vec<Arc<Life>> {
        self.lives.read().unwrap().read().unwrap().values().cloned().collect()
    }

    /// The statement that creates it for a new life.
    pub fn create(&self, name: &str, life: &Life) -> String {
        let kind = match self.kind {
            SequenceKind::Wide if self.increment < 0 => {
                "min_value => -9223372036854775807, max_value => 9223372036854775807".to_owned()
            }
            SequenceKind::Wide => "min_value => -9223372036854775807".to_owned(),
            SequenceKind::Small(_) => "data_type => 'smallint'".to_owned(),
            SequenceKind::Cycle(lap) => format!("max_value => {lap}, cycle => true"),
        };
        format!(
            "SELECT hilo_create('{name}', start_value => {}, increment => {}, ordered => {}, {kind} {})",
            life.first, self.increment, self.ordered, self.options
        )
    }
}
