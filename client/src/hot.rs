//! The memory that a hit touches: the lanes of a sequence.
//!
//! A sequence begins with one lane. If its threads get into each other's way, the next refill takes
//! several leases. From then on each thread has a lane and a lease of its own. So no two threads
//! write the same cache line, and unused values can still be returned one by one.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use std::sync::{Arc, OnceLock, RwLock};

use hilo_core::key_format::Frame;
use tokio::sync::Notify;

use crate::engine::Id;
use crate::fork;
use crate::lane::{Lane, Took};
use crate::store::Store;

/// The most lanes of one sequence.
const MOST_LANES: usize = 64;
/// Threads are in each other's way after this many lost races in one filling of their only lane.
/// There must also be one lost race for this many values.
const RACES_PER_TAKEN: (u32, u32) = (64, 64);

/// Two cache lines: processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// The place of a lane: here, or in the state file.
#[derive(Debug, Default)]
struct Place {
    own: Padded<Lane>,
    /// Points into the state file.
    stored: AtomicPtr<Lane>,
}

impl Place {
    #[inline]
    fn lane(&self) -> &Lane {
        match NonNull::new(self.stored.load(Acquire)) {
            None => &self.own.0,
            // SAFETY: only `Hot::store_lane` writes it. The store that it came from keeps its file
            // mapped, and lives as long as the sequence.
            Some(stored) => unsafe { stored.as_ref() },
        }
    }
}

#[derive(Debug, Default)]
pub struct Hot {
    place: Place,
    /// The state file, if lanes are in one.
    store: OnceLock<Arc<Store>>,
    /// The part of a thread's number that chooses its lane.
    mask: AtomicU32,
    /// Whether its threads have been in each other's way.
    crowded: AtomicBool,
    /// The generation of the process that may take.
    pub generation: u32,
    pub id: Id,
    more: OnceLock<Box<[Place]>>,
    pub name: Arc<str>,
    /// Notified when values or an error have come.
    pub changed: Notify,
    /// The form of the keys; none until the first lease has come. Whoever holds this lock takes no
    /// values of another form, and must not wait for the lock of the client.
    pub keys: RwLock<Option<Keys>>,
}

/// The form of the keys of a sequence, and the settings that it was made from.
#[derive(Debug)]
pub struct Keys {
    pub format: String,
    pub prefix: String,
    /// The smallest value for which the form was checked.
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
            place: Place::default(),
            store: OnceLock::new(),
            mask: AtomicU32::new(0),
            crowded: AtomicBool::new(false),
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
        // Acquire: a thread that sees the mask also sees the lanes.
        match self.mask.load(Acquire) {
            0 => 0,
            mask => THREAD.with(|thread| thread & mask) as usize,
        }
    }

    #[inline]
    pub fn lane(&self, number: usize) -> &Lane {
        match number {
            0 => self.place.lane(),
            _ => self.more.get().map_or(self.place.lane(), |more| more[number - 1].lane()),
        }
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.place).chain(self.more.get().into_iter().flatten())
    }

    /// Gives a lane that was never filled a place in the state file, if it has none yet.
    pub fn store_lane(&self, number: usize, store: &Arc<Store>) -> std::io::Result<()> {
        let place = self.places().nth(number).unwrap_or(&self.place);
        if place.stored.load(Acquire).is_null() {
            let store = self.store.get_or_init(|| store.clone());
            place.stored.store(store.take_lane()?.as_ptr(), Release);
        }
        Ok(())
    }

    /// Takes from any lane, this thread's first, and returns from which.
    pub fn take(&self, count: u32) -> Option<(Took, usize)> {
        let (own, lanes) = (self.own(), self.lanes());
        let from = |number| self.lane(number).take(count).map(|took| (took, number));
        (0..lanes).map(|step| (own + step) % lanes).find_map(from)
    }

    pub fn lanes(&self) -> usize {
        1 + self.more.get().map_or(0, |more| more.len())
    }

    /// How many values are in its lanes.
    pub fn remaining(&self) -> i64 {
        (0..self.lanes()).map(|number| self.lane(number).remaining()).sum()
    }

    /// Makes the lanes report when fewer than `mark` of all `total` values are left. They are
    /// emptied at about the same speed.
    pub fn set_mark(&self, total: i64, mark: i64) {
        let lanes = self.lanes();
        let each = (total - mark) / lanes as i64;
        for number in 0..lanes {
            let lane = self.lane(number);
            lane.set_mark(lane.remaining() - each);
        }
    }

    /// Whether its threads are in each other's way in its only lane. Returns `true` once.
    pub fn is_crowded(&self) -> bool {
        let (races, taken) = self.place.lane().races();
        self.mask.load(Relaxed) == 0 && is_crowd(races, taken) && !self.crowded.swap(true, Relaxed)
    }

    /// Gives each thread a lane of its own, if it has none yet.
    pub fn widen(&self) {
        let lanes = most_lanes();
        self.more.get_or_init(|| (1..lanes).map(|_| Place::default()).collect());
        self.mask.store(lanes as u32 - 1, Release);
    }
}

impl Drop for Hot {
    fn drop(&mut self) {
        let Some(store) = self.store.get() else { return };
        // In a child of the process, a thread of the parent may hold the lock.
        if fork::generation() == self.generation {
            let stored = self.places().map(|place| place.stored.load(Acquire));
            stored.filter_map(NonNull::new).for_each(|lane| store.give_lane_back(lane));
        }
    }
}

/// The number of lanes of a wide sequence. It is larger than the number of processors, so that two
/// threads that run at the same time seldom share one.
pub fn most_lanes() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    (4 * processors).next_power_of_two().clamp(2, MOST_LANES)
}

fn is_crowd(races: u32, taken: u32) -> bool {
    let (least, per) = RACES_PER_TAKEN;
    races >= least.max(taken / per)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A race now and then, over millions of values, is no reason to take more leases.
    #[test]
    fn a_crowd_is_measured_by_what_was_taken() {
        assert!(!is_crowd(0, 0) && !is_crowd(63, 100), "too few to tell");
        assert!(is_crowd(64, 100) && is_crowd(1_000, 64_000));
        assert!(!is_crowd(999, 64_000) && !is_crowd(100_000, 16_000_000));
    }

    /// Leases for several lanes are asked for once, and threads keep to the one lane until they
    /// have come.
    #[test]
    fn a_sequence_is_widened_once() {
        let hot = Hot::new(Id(0), "s".into(), 0);
        assert!(!hot.is_crowded());
        assert_eq!((hot.own(), hot.lanes()), (0, 1));
        hot.widen();
        hot.widen();
        assert_eq!(hot.lanes(), most_lanes());
        assert!(hot.own() < most_lanes());
        hot.lane(hot.own()).fill(10, 1, 10);
        assert_eq!(hot.take(3).map(|(took, number)| (took.first, number)), Some((1, hot.own())));
        assert_eq!(hot.remaining(), 7);
    }
}
