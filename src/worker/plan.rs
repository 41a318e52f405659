//! The plan of a refill: what a slot needs, read under its lock before the worker's transaction.

use std::sync::atomic::Ordering::*;

use hilo_core::numbers::{Index, SequenceId, Serial, Timestamp};
use hilo_core::policy;
use hilo_core::pool::{RETURNED, Ranges};
use hilo_core::rate::Demand;

use crate::gucs;
use crate::process::ffi;
use crate::shared::content::Counted;
use crate::shared::pin::Pinned;
use crate::shared::shared_name::SharedName;
use crate::shared::slices::IndexSpace;
use crate::shared::slot::{DROPPED, LEAVING, Locked, UNKNOWN};
use crate::worker::Worker;

/// How many returned ranges stay in memory when there are too many of them, and up to how many are
/// reloaded from the catalog.
const KEPT: usize = RETURNED / 2;

/// The refill of a slot.
pub struct Plan {
    pub number: usize,
    pub index_space: IndexSpace,
    pub seen: Seen,
    pub needs: Needs,
    pub room: Room,
    pub counted: Counted,
    /// Ranges on their way to the catalog.
    pub leaving: Ranges<LEAVING>,
    /// The sequence is to be created.
    pub create: Option<SharedName>,
    _pin: Pinned,
}

/// The state of the slot when the plan was made, which tells what has changed meanwhile.
pub struct Seen {
    pub serial: Serial,
    pub version: u64,
    /// How often the pool had been frozen.
    pub freezes: u64,
    /// How often something had become free.
    pub freed: u64,
    /// How much could be taken in order.
    pub available: i64,
    /// Whether the slot held anything.
    pub holds: bool,
}

/// The numbers from which the policy finds how much to reserve.
pub struct Needs {
    /// How many indexes a session waits for.
    pub count: i64,
    pub demand: Demand,
    /// The last block.
    pub block: i64,
}

/// How much the slot has room for.
pub struct Room {
    /// How many ranges it can reload from the catalog, and from which index on they are of use.
    pub ranges: usize,
    pub from: Index,
    pub blocks: usize,
}

impl Plan {
    /// Whether it is to be read ahead: no session waits.
    pub fn is_ahead(&self) -> bool {
        self.index_space.epoch == UNKNOWN && self.needs.count == 0
    }

    /// The sequence, if a session waits to use it for the first time since it has this slot, and it
    /// was there before.
    pub fn first_use(&self) -> Option<SequenceId> {
        let waits = self.index_space.epoch == UNKNOWN && self.needs.count > 0;
        (waits && self.create.is_none()).then_some(self.index_space.key.sequence)
    }
}

/// How many indexes the callers of a slot need at once.
fn need(locked: &Locked, waited_for: bool) -> i64 {
    let (slot, available) = (locked.slot, locked.available());
    let ahead = match locked.is_at_end() {
        true => 0,
        false => policy::refill_for_lease(available, slot.lease_ahead.load(Relaxed)),
    };
    // A waiter that finds nothing to take needs at least one.
    slot.demand.load(Relaxed).max((waited_for && available == 0) as i64).max(ahead)
}

/// Whether nothing is to be done for a slot that is to hold `wanted` indexes.
fn needs_nothing(locked: &Locked, wanted: i64, waited_for: bool, now: Timestamp) -> bool {
    let (available, frozen) = (locked.available(), locked.pool.is_frozen());
    let crowded = locked.pool.returned_ranges().is_crowded();
    let reloads = locked.is_to_reload() || locked.is_bare();
    let content = available >= wanted && !(locked.is_at_end() && waited_for) && !reloads;
    let known = locked.terms().is_some();
    let calm = known && !crowded && !frozen && locked.leaving.is_empty();
    let full = !locked.pool.has_room() && available > 0 && !frozen;
    full || (calm && (content || locked.awaits_source(now)))
}

impl Worker {
    pub(super) fn plan(&mut self, number: usize) -> Option<Plan> {
        let mut locked = self.shared.lock_slot(number);
        let slot = locked.slot;
        if slot.database.load(Relaxed) != self.database.to_u32() {
            return None;
        }
        let waited_for = slot.waiting.load(SeqCst) > 0;
        let request = Some(locked.shared_name).filter(SharedName::asks_for_creation);
        if request.is_some() && !waited_for {
            locked.mark_dropped();
        }
        if locked.epoch == DROPPED {
            drop(locked);
            self.shared.free(number);
            return None;
        }
        if !locked.claim_for_worker(self.place.generation) {
            return None;
        }
        let (now, available, taken) = (ffi::now(), locked.available(), locked.taken_count());
        // Nothing more can be reserved: the free ranges in the catalog are all that is left.
        let at_end = locked.is_at_end();
        let need = need(&locked, waited_for);
        let crowded = locked.pool.returned_ranges().is_crowded();
        if needs_nothing(&locked, need.max(slot.threshold.load(Relaxed)), waited_for, now) {
            return None;
        }
        if at_end && waited_for && !locked.pool.is_frozen() {
            // The sessions that wait can be served none of these: they leave for the catalog, which
            // may have others.
            locked.clear_returned(0);
        } else if crowded {
            locked.clear_returned(KEPT);
        }
        let from = if at_end { slot.take_wanted_from() } else { Index::ZERO };
        let returned = locked.pool.returned_ranges().len();
        slot.reserving.store(1, Release);
        let start = locked.terms().map_or(Index::ZERO, |(terms, _)| terms.mapping.indexes().start);
        Some(Plan {
            number,
            index_space: locked.index_space(),
            seen: Seen {
                serial: locked.serial(),
                version: slot.version.load(Relaxed),
                freezes: locked.freezes,
                freed: locked.catalog.freed,
                available,
                holds: !locked.is_empty(),
            },
            needs: Needs {
                count: need,
                demand: locked.pace.rate.refill(now, taken, gucs::window().into()),
                block: locked.pace.block,
            },
            room: Room {
                ranges: if crowded { 0 } else { KEPT.saturating_sub(returned) },
                from: from.max(start),
                blocks: locked.pool.places(),
            },
            counted: locked.counters(),
            leaving: locked.leaving,
            create: request,
            _pin: Pinned::new(slot),
        })
    }
}
