//! What the clients saw, by sequence and life.
//!
//! Every renumbering (create, setval, restart) begins in a region of numbers that the sequence has
//! never had, so a number itself says which *life* of its sequence it is of: nothing has to be
//! guessed from times, and draws need not be kept away from a setval. A sequence too small for that
//! is never numbered anew: it is followed by another one of a new name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock};
use std::time::Instant;

use super::bits::Bits;
use super::figures::{Figures, add};

/// hilo.max_slice_size.
const SLICE: u64 = 256;

/// Numbers in a region, as a power of two.
const REGION: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// bigint, whose lives have regions of their own.
    Wide,
    /// smallint that begins so many numbers before its last one.
    Small(i64),
    /// Cycles through so many numbers; used by one session at a time.
    Cycle(i64),
}

/// From a renumbering to the next.
pub struct Life {
    pub key: i64,
    pub first: i64,
    pub increment: i64,
    /// From one number to the next. The sets below count these steps, from the first number on.
    step: i64,
    pub seen: Mutex<Bits>,
    /// What the books of a clean stop have written off, or could not explain: none of it may come.
    pub closed: Mutex<Bits>,
    /// How many numbers its gaps had when it was over and its books were checked for the last time.
    pub settled: OnceLock<i64>,
    /// When it was known that it is over, in nanoseconds of the book's clock.
    died: AtomicU64,
    /// The furthest value that a call has returned, times the sign of the increment.
    furthest: AtomicI64,
    /// Whether the server has confirmed its beginning, and no drop has deleted its gaps since.
    pub committed: AtomicBool,
}

impl Life {
    /// Which number of it this is; `None`: none.
    pub fn place(&self, value: i64) -> Option<i64> {
        let distance = value - self.first;
        (distance % self.step == 0).then(|| distance / self.step)
    }

    pub fn value(&self, place: i64) -> i64 {
        self.first + place * self.step
    }

    /// Whether another one is served, or none.
    pub fn is_over(&self) -> bool {
        self.died.load(SeqCst) != u64::MAX
    }
}

pub struct Sequence {
    pub number: usize,
    pub database: &'static str,
    pub kind: Kind,
    pub increment: i64,
    pub ordered: bool,
    /// Of a classic Hi/Lo sequence: its options never change.
    pub hi_block: Option<i64>,
    /// More options for hilo_create.
    pub options: &'static str,
    /// Whether clients may set, alter, rename and drop it.
    pub mutable: bool,
    /// Whether a table takes its default from it.
    pub inserted: bool,
    /// Whether several servers deal it, so that nobody knows an order over all of them.
    pub apart: bool,
    /// Whether its increment changes within a life, whose numbers are then no grid.
    pub uneven: bool,
    name: RwLock<(String, i64)>,
    /// Held by whoever defines it.
    pub definer: Mutex<()>,
    /// Held by whoever draws, where only one may.
    pub alone: Mutex<()>,
    lives: RwLock<HashMap<i64, Arc<Life>>>,
    current: RwLock<Option<Arc<Life>>>,
    regions: AtomicI64,
    /// What was done to its lives, for whoever has to find out why.
    history: Mutex<Vec<String>>,
    /// The most values that statements with a lost result can have drawn.
    pub lost: AtomicU64,
}

/// What was known when a call began.
pub struct Ticket {
    pub name: String,
    generation: i64,
    began: u64,
    current: Option<(Arc<Life>, i64)>,
}

/// The last value of each life that one connection has seen.
pub type Last = HashMap<(usize, i64), i64>;

pub struct Book {
    clock: Instant,
    pub sequences: Vec<Sequence>,
    pub figures: Arc<Figures>,
}

impl Book {
    pub fn new(sequences: Vec<Sequence>, figures: Arc<Figures>) -> Book {
        Book { clock: Instant::now(), sequences, figures }
    }

    pub fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Taken before a statement is sent.
    pub fn ticket(&self, sequence: &Sequence) -> Ticket {
        let (name, generation) = sequence.name();
        let current = sequence.current.read().unwrap().clone();
        let current = current.map(|life| {
            let furthest = life.furthest.load(SeqCst);
            (life, furthest)
        });
        Ticket { name, generation, began: self.now(), current }
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
        if let Kind::Cycle(lap) = sequence.kind {
            return self.saw_lap(&ticket.name, lap, values);
        }
        for values in values.chunk_by(|a, b| sequence.key(*a) == sequence.key(*b)) {
            let key = match sequence.kind {
                Kind::Small(_) => ticket.generation,
                _ => sequence.key(values[0]),
            };
            let Some(life) = sequence.life(key) else {
                self.figures.wrong(format!("{}: {} is of no life", ticket.name, values[0]));
                continue;
            };
            self.saw_in(sequence, &life, ticket, last, values, rising);
        }
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
                "{} is of a life that had ended before the call began at {}: {:?}",
                values[0],
                ticket.began,
                sequence.lately()
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
                        sequence.lately()
                    ));
                }
                *before = value;
            }
        }
        if sequence.ordered
            && !sequence.apart
            && rising
            && let Some((current, furthest)) = &ticket.current
            && Arc::ptr_eq(current, life)
            && values[0] * sign <= *furthest
        {
            wrong(format!("{} after a call had returned {}", values[0], furthest * sign));
        }
        let (mut seen, closed) = (life.seen.lock().unwrap(), life.closed.lock().unwrap());
        for &value in values {
            match life.place(value) {
                None => wrong(format!("{value} is between the steps of {}", life.increment)),
                Some(place) if !seen.insert(place) => {
                    add(&self.figures.duplicates, 1);
                    wrong(format!("{value} twice: {:?}", sequence.lately()));
                }
                Some(place) if closed.contains(place) => {
                    wrong(format!("{value} came after the books had closed on it"));
                }
                Some(_) => {}
            }
        }
        drop((seen, closed));
        if let Some(furthest) = values.iter().map(|value| value * sign).max() {
            life.furthest.fetch_max(furthest, SeqCst);
        }
    }

    /// A lap keeps within its bounds. Its order tells nothing: what a crash skips may be longer than
    /// a lap.
    fn saw_lap(&self, name: &str, lap: i64, values: &[i64]) {
        if values.iter().any(|value| !(1..=lap).contains(value)) {
            self.figures.wrong(format!("{name}: out of a lap of {lap}: {values:?}"));
        }
    }

    /// A statement that may have drawn `count` values, and a slice beyond them, did not say which.
    pub fn lost(&self, sequence: &Sequence, count: u64) {
        add(&self.figures.lost_statements, 1);
        add(&sequence.lost, count + SLICE);
    }

    /// Begins a life, before the server is told.
    pub fn begin_life(&self, sequence: &Sequence) -> Arc<Life> {
        add(&self.figures.lives, 1);
        let number = sequence.regions.fetch_add(1, SeqCst) + 1;
        let increment = sequence.increment;
        let (key, first) = match sequence.kind {
            Kind::Wide => {
                // Up and down, so that a setval goes backwards as often as forwards. Not below the
                // first block of classic Hi/Lo, which would come again.
                let key = if sequence.hi_block.is_some() {
                    number
                } else if number % 2 == 0 {
                    number / 2
                } else {
                    -(number / 2) - 1
                };
                let low = key << REGION;
                (key, if increment > 0 { low } else { low + (1 << REGION) - 1 })
            }
            Kind::Small(count) if increment > 0 => (number, 32_767 - count),
            Kind::Small(count) => (number, -32_768 + count),
            Kind::Cycle(_) => (number, 1),
        };
        let life = Arc::new(Life {
            key,
            first,
            increment,
            step: if sequence.uneven { increment.signum() } else { increment },
            seen: Mutex::default(),
            closed: Mutex::default(),
            settled: OnceLock::new(),
            died: AtomicU64::new(u64::MAX),
            furthest: AtomicI64::new(i64::MIN),
            committed: AtomicBool::new(false),
        });
        sequence.lives.write().unwrap().insert(key, life.clone());
        life
    }

    /// What the catalog knew of the lives before this one went with a drop.
    pub fn forgotten(&self, sequence: &Sequence, next: i64) {
        for life in sequence.lives().iter().filter(|life| life.key != next) {
            life.committed.store(false, SeqCst);
        }
    }

    /// A sequence is dropped; `next` is what it begins when it is created again.
    pub fn dropped(&self, sequence: &Sequence, next: &Life) {
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

    /// The life with this key, or none, is the one that is served since `since`: all the others are over.
    pub fn settle(&self, sequence: &Sequence, key: Option<i64>, since: u64) {
        if matches!(sequence.kind, Kind::Small(_)) {
            return;
        }
        self.note(sequence, format!("in life {key:?} since {since}"));
        let lives = sequence.lives.read().unwrap();
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
        kind: Kind,
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
            apart: false,
            uneven: false,
            name: RwLock::new((name.to_owned(), 0)),
            definer: Mutex::default(),
            alone: Mutex::default(),
            lives: RwLock::default(),
            current: RwLock::default(),
            regions: AtomicI64::new(0),
            history: Mutex::default(),
            lost: AtomicU64::new(0),
        }
    }

    /// Holds whoever else would draw off, where only one may.
    pub fn alone_if_needed(&self) -> Result<Option<MutexGuard<'_, ()>>, ()> {
        match self.kind {
            Kind::Cycle(_) => self.alone.try_lock().map(Some).map_err(drop),
            _ => Ok(None),
        }
    }

    /// Its name now, and how many there were before it.
    pub fn name(&self) -> (String, i64) {
        self.name.read().unwrap().clone()
    }

    /// Whether it is made ordered now and then: one without slices of its own.
    pub fn may_be_ordered(&self) -> bool {
        !self.ordered && self.options.is_empty() && self.number.is_multiple_of(2)
    }

    /// Deals the numbers of a life that began elsewhere, too.
    pub fn join(&self, life: &Arc<Life>) {
        self.lives.write().unwrap().insert(life.key, life.clone());
        *self.current.write().unwrap() = Some(life.clone());
    }

    /// Whether it was there when this was last known.
    pub fn is_there(&self) -> bool {
        self.current.read().unwrap().is_some()
    }

    /// The end of its history.
    pub fn lately(&self) -> Vec<String> {
        let history = self.history.lock().unwrap();
        history[history.len().saturating_sub(8)..].to_vec()
    }

    pub fn set_name(&self, name: String, generation: i64) {
        *self.name.write().unwrap() = (name, generation);
    }

    pub fn key(&self, value: i64) -> i64 {
        if self.kind == Kind::Wide { value >> REGION } else { 0 }
    }

    pub fn life(&self, key: i64) -> Option<Arc<Life>> {
        self.lives.read().unwrap().get(&key).cloned()
    }

    pub fn lives(&self) -> Vec<Arc<Life>> {
        self.lives.read().unwrap().values().cloned().collect()
    }

    /// The statement that creates it for a new life.
    pub fn create(&self, name: &str, life: &Life) -> String {
        let kind = match self.kind {
            Kind::Wide if self.increment < 0 => {
                "min_value => -9223372036854775807, max_value => 9223372036854775807".to_owned()
            }
            Kind::Wide => "min_value => -9223372036854775807".to_owned(),
            Kind::Small(_) => "data_type => 'smallint'".to_owned(),
            Kind::Cycle(lap) => format!("max_value => {lap}, cycle => true"),
        };
        format!(
            "SELECT hilo_create('{name}', start_value => {}, increment => {}, ordered => {}, {kind} {})",
            life.first, self.increment, self.ordered, self.options
        )
    }
}
