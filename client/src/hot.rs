//! What a hit touches: the lanes of a sequence.
//!
//! A sequence begins with one lane. Threads that get into each other's way widen it to four lanes for each
//! processor; each thread then has a lane of its own, with a lease of its own, so that no cache line is written by two
//! of them, and what is not used can still be returned value by value.

use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, OnceLock, RwLock};

use hilo_core::key_format::Frame;
use hilo_core::lane::Lane;
use tokio::sync::Notify;

use crate::engine::Id;

/// The most lanes of one sequence.
const MOST_LANES: usize = 64;
/// A sequence is widened when one of its lanes has seen this many lost races.
const RACES: u32 = 64;

/// Two cache lines: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

#[derive(Debug)]
pub struct Hot {
    lane: Padded<Lane>,
    /// Which part of a thread's number says which lane is its own.
    mask: AtomicU32,
    /// The generation of the process that may take.
    pub generation: u32,
    pub id: Id,
    more: OnceLock<Box<[Padded<Lane>]>>,
    pub name: Arc<str>,
    /// Values have come, or an error.
    pub changed: Notify,
    /// How keys look; none until the first lease has said it.
    keys: RwLock<Option<Arc<Keys>>>,
}

/// How keys of a sequence look, and from what that was made.
#[derive(Debug)]
pub struct Keys {
    pub format: String,
    pub prefix: String,
    /// The least value for which it was checked.
    pub least: i64,
    pub frame: Result<Frame, crate::Error>,
}

thread_local! {
    static THREAD: u32 = {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        NEXT.fetch_add(1, Relaxed)
    };
}

impl Hot {
    pub fn new(id: Id, name: Arc<str>, generation: u32) -> Hot {
        Hot {
            lane: Padded::default(),
            mask: AtomicU32::new(0),
            generation,
            id,
            more: OnceLock::new(),
            name,
            changed: Notify::new(),
            keys: RwLock::new(None),
        }
    }

    /// The number of this thread's lane.
    #[inline]
    pub fn own(&self) -> usize {
        // Acquire: who sees the mask sees the lanes.
        match self.mask.load(Acquire) {
            0 => 0,
            mask => THREAD.with(|thread| thread & mask) as usize,
        }
    }

    #[inline]
    pub fn lane(&self, number: usize) -> &Lane {
        match number {
            0 => &self.lane.0,
            _ => self.more.get().map_or(&self.lane.0, |more| &more[number - 1].0),
        }
    }

    /// How keys look.
    pub fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub fn set_keys(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Arc::new(keys));
    }

    pub fn lanes(&self) -> usize {
        1 + self.more.get().map_or(0, |more| more.len())
    }

    /// How many values are in its lanes.
    pub fn left(&self) -> i64 {
        (0..self.lanes()).map(|number| self.lane(number).left()).sum()
    }

    /// Has the lanes speak up when fewer than `mark` of all `total` values are left. They are emptied at about the same
    /// speed.
    pub fn set_mark(&self, total: i64, mark: i64) {
        let lanes = self.lanes();
        let each = (total - mark) / lanes as i64;
        for number in 0..lanes {
            let lane = self.lane(number);
            lane.set_mark(lane.left() - each);
        }
    }

    /// Widens the sequence if its threads are in each other's way. Returns how many lanes it has then, if it did.
    pub fn widen(&self) -> Option<usize> {
        if self.mask.load(Relaxed) != 0 || self.lane.0.lost() < RACES {
            return None;
        }
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        // More than processors, so that two threads that run at the same time seldom share one.
        let lanes = (4 * processors).next_power_of_two().clamp(2, MOST_LANES);
        let more = || (1..lanes).map(|_| Padded::default()).collect();
        self.more.get_or_init(more);
        self.mask.store(lanes as u32 - 1, Release);
        Some(lanes)
    }
}
