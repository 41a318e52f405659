//! The rows of shared memory that the views show. They read one slot or slice at a time and stop no
//! session.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId};
use hilo_core::range::Range;

use crate::catalog::table::text_datum;
use crate::catalog::{definitions, missing, node, positions, privileges};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::session::memo;
use crate::shared::content::Tier;
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::pending::Place;
use crate::shared::slices::IndexSpace;
use crate::shared::slot::{DROPPED, HELD, Locked};
use crate::shared::totals::Totals;
use crate::shared::{self, Shared};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::define::ddl_checks::check_owner;
use crate::sql::observe::visibility::Visible;

sql_functions!(hilo_stat_reset, node_id, rate_samples, stat_slots, stat_slices, stat_ranges);

/// Visits the slots of this database's sequences, each under its lock. `visit` must not allocate
/// memory, because an allocation could fail under the lock.
pub fn each_slot<T>(visit: impl Fn(usize, &mut Locked) -> Option<T>) -> Vec<T> {
    let Ok(shared) = shared::get() else { return Vec::new() };
    let (is_here, database) = (is_here(), ffi::database().to_u32());
    let ours = |number: &usize| shared.slots[*number].database.load(Acquire) == database;
    let numbers = memory::try_collect((0..shared.slots.len()).filter(ours)).or_raise();
    let mut all = memory::with_capacity(numbers.len()).or_raise();
    for number in numbers {
        let mut locked = shared.lock_slot(number);
        if is_here(&locked.key) && locked.epoch != DROPPED {
            all.extend(visit(number, &mut locked));
        }
    }
    all
}

/// The content of a slot, read under its lock.
#[derive(Clone, Copy)]
struct Stat {
    number: usize,
    index_space: IndexSpace,
    totals: Totals,
    current: i64,
    standby: i64,
    returned: i64,
    rate: f64,
    fault: Fault,
}

fn stat(number: usize, locked: &mut Locked) -> Option<Stat> {
    let taken = locked.taken_count();
    let current = locked.slot.cursor().peek().0.len();
    Some(Stat {
        number,
        index_space: locked.index_space(),
        totals: locked.counters().total(),
        current,
        standby: locked.pool.queue().total(),
        returned: locked.pool.returned_ranges().total(),
        rate: locked.rate.per_second(ffi::now(), taken, gucs::window().into()),
        fault: locked.fault,
    })
}

/// The number of values of a sequence that the sessions hold.
#[derive(Clone, Copy, Default)]
struct InSlices {
    /// In the sequence's current index space.
    good: i64,
    /// In an earlier index space: taken from the pool, and never to be served.
    void: i64,
}

/// The values that the sessions hold, by sequence. `now` names the current index space of each
/// sequence.
fn in_slices(shared: &'static Shared, now: &[IndexSpace]) -> HashMap<SequenceId, InSlices> {
    let now = memory::try_map(now.len(), now.iter().map(|of| (of.key.sequence, of))).or_raise();
    let slices = slices(shared);
    let mut sums: HashMap<SequenceId, InSlices> = memory::try_map(slices.len(), []).or_raise();
    for Held { index_space, range, .. } in slices {
        let sum = sums.entry(index_space.key.sequence).or_default();
        match now.get(&index_space.key.sequence) {
            Some(current) if **current == index_space => sum.good += range.len(),
            _ => sum.void += range.len(),
        }
    }
    sums
}

/// `_hilo.hilo_stat_slots()`: one row for each sequence that has a slot. Times are in milliseconds.
fn stat_slots(args: Args) {
    let shared = shared::get().or_raise();
    let slots = each_slot(stat);
    let now = memory::try_collect(slots.iter().map(|stat| stat.index_space)).or_raise();
    let held = in_slices(shared, &now);
    let (mut visible, mut rows) = (Visible::of_caller(), StoredRows::begin(args));
    for stat in slots.iter().filter(|stat| visible.contains(stat.index_space.key.sequence)) {
        let slot = &shared.slots[stat.number];
        let in_slices = held.get(&stat.index_space.key.sequence).copied().unwrap_or_default();
        let fault = Some(stat.fault).filter(|fault| fault.at.0 != 0);
        let totals = stat.totals;
        let wanted = shared.wanted.is_set(stat.number) || slot.waiting.load(Relaxed) != 0;
        let milliseconds = |micros: i64| (micros as f64 / 1000.0).into_datum();
        let row = [
            stat.index_space.key.sequence.0.into_datum(),
            stat.index_space.epoch.0.into_datum(),
            (totals.served - in_slices.good - in_slices.void).max(0).into_datum(),
            totals.slices.into_datum(),
            totals.blocks_reserved.into_datum(),
            totals.blocks_prefetched.into_datum(),
            wanted.into_datum(),
            totals.waits.into_datum(),
            milliseconds(totals.wait_time),
            milliseconds(slot.wait_max.load(Relaxed) as i64),
            stat.rate.into_datum(),
            in_slices.good.into_datum(),
            stat.current.into_datum(),
            stat.standby.into_datum(),
            stat.returned.into_datum(),
            totals.recycled.into_datum(),
            totals.lost.into_datum(),
            totals.errors.into_datum(),
            fault.map(|fault| text_datum(what(&fault, stat).as_bytes())),
            fault.map(|fault| fault.at.0.into()),
            fault.is_some_and(|fault| fault.kind.is_of_source()).into_datum(),
        ];
        // SAFETY: the function is declared to return columns of these types.
        unsafe { rows.add_some(row) };
    }
}

/// The message of a failure. The owner alone sees that of a source.
fn what(fault: &Fault, stat: &Stat) -> String {
    let is_of_source = fault.kind.is_of_source();
    let owner = is_of_source.then(|| privileges::other_owner(stat.index_space.key.sequence));
    match owner.and_then(|owner| owner.or_raise()) {
        None => fault.message().to_owned(),
        Some(owner) => format!(
            "its source failed: role {owner}, which owns the sequence, sees the error in \
             hilo_stat_sources"
        ),
    }
}

/// `_hilo.hilo_rate_samples()`: a row for each sample of each sequence that has a slot, with its
/// time and how many values were taken by then.
fn rate_samples(args: Args) {
    shared::get().or_raise();
    let sampled = each_slot(|_, locked| {
        Some((locked.key.sequence, locked.rate, ffi::now(), locked.taken_count()))
    });
    let (mut visible, mut rows) = (Visible::of_caller(), StoredRows::begin(args));
    for (id, rate, now, taken) in sampled.into_iter().filter(|(id, ..)| visible.contains(*id)) {
        for (at, taken) in rate.history(now, taken) {
            // SAFETY: the function is declared to return a bigint, a timestamptz and a bigint.
            unsafe { rows.add([id.0.into(), at.0.into(), taken.into()]) };
        }
    }
}

/// How indexes map to values: for sequences that have a slot, as the slot says; for the others, as
/// the catalog says.
struct Mappings(HashMap<SequenceId, (IndexSpace, Mapping)>);

impl Mappings {
    fn new() -> Mappings {
        let known = each_slot(|_, locked| {
            let (terms, _) = locked.terms()?;
            Some((locked.key.sequence, (locked.index_space(), terms.mapping)))
        });
        Mappings(memory::try_map(known.len(), known).or_raise())
    }

    /// The mapping of the indexes in this index space; `None` if it is no longer the current one of
    /// its sequence.
    fn get(&mut self, index_space: &IndexSpace) -> Option<Mapping> {
        let id = index_space.key.sequence;
        let known = match self.0.get(&id) {
            Some(known) => *known,
            None => *self.0.entry(id).or_insert(from_catalog(index_space)?),
        };
        (known.0 == *index_space).then_some(known.1)
    }
}

fn from_catalog(index_space: &IndexSpace) -> Option<(IndexSpace, Mapping)> {
    let sequence = definitions::by_id(index_space.key.sequence).or_raise()?;
    let position = positions::find(sequence.id, index_space.node).or_raise()?;
    let mapping = position.mapping(&sequence.definition);
    Some((IndexSpace { epoch: position.epoch, ..*index_space }, mapping))
}

/// `_hilo.hilo_stat_slices()`: one row for each slice that a session holds.
fn stat_slices(args: Args) {
    let shared = shared::get().or_raise();
    let (mut mappings, mut visible) = (Mappings::new(), Visible::of_caller());
    let mut rows = StoredRows::begin(args);
    for Held { index_space, range, pid, .. } in slices(shared) {
        let id = index_space.key.sequence;
        if !visible.contains(id) {
            continue;
        }
        let mapping = mappings.get(&index_space);
        let rest = if mapping.is_some() { range } else { Range::EMPTY };
        let pid = pid.unwrap_or(0);
        let value = |at| mapping.and_then(|mapping| mapping.value(at)).map(Into::into);
        let next = if rest.is_empty() { None } else { value(rest.start) };
        let last = if rest.start > Index::ZERO { value(rest.start - 1) } else { None };
        let row = [Some(id.0.into()), Some(pid.into()), next, last, Some(rest.len().into())];
        // SAFETY: the function is declared to return a bigint, an integer and three bigints.
        unsafe { rows.add_some(row) };
    }
}

/// `_hilo.hilo_stat_ranges()`: every range in memory, with the tier that holds it.
fn stat_ranges(args: Args) {
    let held = held(shared::get().or_raise());
    let mut mappings = Mappings::new();
    let known = held.into_iter().filter_map(|held| Some((mappings.get(&held.index_space)?, held)));
    let mut all = memory::try_collect(known).or_raise();
    make_disjoint(&mut all);
    let (mut visible, mut rows) = (Visible::of_caller(), StoredRows::begin(args));
    for (mapping, Held { index_space, range, tier, pid }) in all {
        let sequence = index_space.key.sequence;
        if let (Some(first), Some(last)) = (mapping.value(range.start), mapping.value(range.last()))
            && visible.contains(sequence)
        {
            let numbers = [sequence.0, first, last, range.len()];
            let [id, first, last, count] = numbers.map(|number| Some(number.into()));
            let tier = Some(text_datum(tier.name().as_bytes()));
            // SAFETY: the function is declared to return four bigints, a text and an integer.
            unsafe { rows.add_some([id, first, last, count, tier, pid.map(Into::into)]) };
        }
    }
}

/// A range in memory.
struct Held {
    index_space: IndexSpace,
    range: Range,
    tier: Tier,
    /// The session that holds the slice.
    pid: Option<i32>,
}

/// Every range of this database that is in memory. A range that moves meanwhile may appear twice.
fn held(shared: &'static Shared) -> Vec<Held> {
    let mut all = slices(shared);
    let pools = each_slot(|_, locked| {
        let mut held = [(Tier::Current, Range::EMPTY); HELD];
        held.iter_mut().zip(locked.tiers()).for_each(|(place, tier)| *place = tier);
        Some((locked.index_space(), held))
    });
    for (index_space, held) in pools {
        let held = held.into_iter().filter(|(_, range)| !range.is_empty());
        let held = held.map(|(tier, range)| Held { index_space, range, tier, pid: None });
        all.try_extend(held).or_raise();
    }
    // A session may have taken one from a pool after it was looked at.
    all.try_extend(slices(shared)).or_raise();
    let is_here = is_here();
    let pending = shared.all_pending().filter(|pending| is_here(&pending.index_space.key));
    let leased = pending.map(|Place { index_space, range, .. }| Held {
        index_space,
        range,
        tier: Tier::Leased,
        pid: None,
    });
    all.try_extend(leased).or_raise();
    all
}

/// Tells whether a key is of this database.
fn is_here() -> impl Fn(&Key) -> bool {
    let here = memo::key_of(SequenceId::default()).or_raise();
    move |key| key.database == here.database && key.extension == here.extension
}

/// The slices that the sessions of this database hold, or have left behind.
fn slices(shared: &'static Shared) -> Vec<Held> {
    let is_here = is_here();
    let held = shared.all_slices().filter_map(|(pid, slice)| {
        let (index_space, range) = slice.observe()?.ok()?;
        // An orphaned slice is on its way to the pool or the catalog.
        let (tier, pid) = if pid == 0 { (Tier::Returned, None) } else { (Tier::Slice, Some(pid)) };
        is_here(&index_space.key).then_some(Held { index_space, range, tier, pid })
    });
    memory::try_collect(held).or_raise()
}

/// Makes the ranges disjoint: an index that was seen twice is shown once.
fn make_disjoint<M>(all: &mut Vec<(M, Held)>) {
    all.sort_unstable_by_key(|(_, held)| (held.index_space.key.sequence, held.range));
    let (mut sequence, mut end) = (SequenceId::default(), Index::ZERO);
    for (_, held) in all.iter_mut() {
        if held.index_space.key.sequence != sequence {
            (sequence, end) = (held.index_space.key.sequence, Index::ZERO);
        }
        held.range = held.range.from(end);
        end = end.max(held.range.end);
    }
    all.retain(|(_, held)| !held.range.is_empty());
}

/// The sequences whose last reservation failed.
pub fn failing() -> Vec<i64> {
    each_slot(|_, locked| (locked.fault.at > locked.block_at).then_some(locked.key.sequence.0))
}

/// `_hilo.hilo_node_id()`: this server's node.
fn node_id(_args: Args) -> pg_sys::Datum {
    node::id().into()
}

/// `hilo_stat_reset(name)`: sets the counters of a sequence to zero; with NULL, those of every
/// sequence of this database. Requires ownership of the sequence; with NULL, superuser rights.
fn hilo_stat_reset(args: Args) {
    let shared = shared::get().or_raise();
    let one = args.datum(0).map(|_| {
        let sequence = missing::require(args.name(0)).or_raise();
        check_owner(&sequence).or_raise();
        sequence.id
    });
    // SAFETY: a catalog look-up inside a transaction.
    if one.is_none() && !unsafe { pg_sys::superuser() } {
        HiloError::ResetAll.raise();
    }
    let held = in_slices(shared, &each_slot(|_, locked| Some(locked.index_space())));
    each_slot(|_, locked| {
        if one.is_none_or(|id| locked.key.sequence == id) {
            let held = held.get(&locked.key.sequence).copied().unwrap_or_default();
            locked.reset_counters(held.good + held.void);
        }
        None::<()>
    });
}
