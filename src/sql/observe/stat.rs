//! The rows of shared memory that the views show. They read one slot or slice at a time and stop no
//! session.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Index, SequenceId, Timestamp};
use hilo_core::range::Range;

use crate::catalog::sequence::{definitions, node, positions};

use crate::catalog::rights::{missing, privileges};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::session::names;
use crate::shared::content::Tier;
use crate::shared::fault::Fault;
use crate::shared::key::Key;
use crate::shared::pending::Place;
use crate::shared::slices::IndexSpace;
use crate::shared::slot::{DROPPED, HELD, Locked};
use crate::shared::totals::Totals;
use crate::shared::{self, Shared};
use crate::sql::call::border::Call;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::define::ddl_checks::check_owner;
use crate::sql::observe::visibility::Visible;
use crate::sql::types::sequence_type::SequenceName;

/// Visits the slots of this database's sequences, each under its lock. `visit` must not allocate
/// memory, because an allocation could fail under the lock.
pub fn each_slot<T>(visit: impl Fn(usize, &mut Locked) -> Option<T>) -> Result<Vec<T>, HiloError> {
    let Ok(shared) = shared::get() else { return Ok(Vec::new()) };
    let (is_here, database) = (is_here()?, ffi::database().to_u32());
    let ours = |number: &usize| shared.slots[*number].database.load(Acquire) == database;
    let numbers = memory::try_collect((0..shared.slots.len()).filter(ours))?;
    let mut all = memory::with_capacity(numbers.len())?;
    for number in numbers {
        let mut locked = shared.lock_slot(number);
        if is_here(&locked.key) && locked.epoch != DROPPED {
            all.extend(visit(number, &mut locked));
        }
    }
    Ok(all)
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
        rate: locked.pace.rate.per_second(ffi::now(), taken, gucs::window().into()),
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
fn in_slices(
    shared: &'static Shared,
    now: &[IndexSpace],
) -> Result<HashMap<SequenceId, InSlices>, HiloError> {
    let now = memory::try_map(now.len(), now.iter().map(|of| (of.key.sequence, of)))?;
    let slices = slices(shared)?;
    let mut sums: HashMap<SequenceId, InSlices> = memory::try_map(slices.len(), [])?;
    for Held { index_space, range, .. } in slices {
        let sum = sums.entry(index_space.key.sequence).or_default();
        match now.get(&index_space.key.sequence) {
            Some(current) if **current == index_space => sum.good += range.len(),
            _ => sum.void += range.len(),
        }
    }
    Ok(sums)
}

row! {
    struct StatSlot {
        sequence: SequenceId,
        epoch: i64,
        served: i64,
        slices: i64,
        blocks_reserved: i64,
        blocks_prefetched: i64,
        refill_wanted: bool,
        waits: i64,
        wait_time_total: f64,
        wait_time_max: f64,
        rate: f64,
        in_slices: i64,
        in_current: i64,
        in_standby: i64,
        in_returned: i64,
        recycled: i64,
        lost: i64,
        errors: i64,
        last_error: Option<String>,
        last_error_at: Option<Timestamp>,
        source_failed: bool,
    }
}

/// `_hilo.hilo_stat_slots()`: one row for each sequence that has a slot. Times are in milliseconds.
#[pg_extern(sql = false)]
fn stat_slots(call: Call) -> Result<Rows<StatSlot>, ErrorReport> {
    let shared = shared::get()?;
    let slots = each_slot(stat)?;
    let now = memory::try_collect(slots.iter().map(|stat| stat.index_space))?;
    let held = in_slices(shared, &now)?;
    let (mut visible, mut rows) = (Visible::of_caller(), Rows::begin(call));
    for stat in &slots {
        if !visible.contains(stat.index_space.key.sequence)? {
            continue;
        }
        let slot = &shared.slots[stat.number];
        let in_slices = held.get(&stat.index_space.key.sequence).copied().unwrap_or_default();
        let fault = Some(stat.fault).filter(|fault| fault.at.0 != 0);
        let totals = stat.totals;
        let milliseconds = |micros: i64| micros as f64 / 1000.0;
        rows.add(StatSlot {
            sequence: stat.index_space.key.sequence,
            epoch: stat.index_space.epoch.0,
            served: (totals.served - in_slices.good - in_slices.void).max(0),
            slices: totals.slices,
            blocks_reserved: totals.blocks_reserved,
            blocks_prefetched: totals.blocks_prefetched,
            refill_wanted: shared.wanted.is_set(stat.number) || slot.waiting.load(Relaxed) != 0,
            waits: totals.waits,
            wait_time_total: milliseconds(totals.wait_time),
            wait_time_max: milliseconds(slot.wait_max.load(Relaxed) as i64),
            rate: stat.rate,
            in_slices: in_slices.good,
            in_current: stat.current,
            in_standby: stat.standby,
            in_returned: stat.returned,
            recycled: totals.recycled,
            lost: totals.lost,
            errors: totals.errors,
            last_error: fault.map(|fault| what(&fault, stat)).transpose()?,
            last_error_at: fault.map(|fault| fault.at),
            source_failed: fault.is_some_and(|fault| fault.kind.is_of_source()),
        });
    }
    Ok(rows)
}

/// The message of a failure. Only the owner sees that of a source.
fn what(fault: &Fault, stat: &Stat) -> Result<String, HiloError> {
    let owner = match fault.kind.is_of_source() {
        true => privileges::other_owner(stat.index_space.key.sequence)?,
        false => None,
    };
    Ok(match owner {
        None => fault.message().to_owned(),
        Some(owner) => format!(
            "its source failed: role {owner}, which owns the sequence, sees the error in \
             hilo_stat_sources"
        ),
    })
}

row! {
    struct Sample {
        sequence: SequenceId,
        at: Timestamp,
        taken: i64,
    }
}

/// `_hilo.hilo_rate_samples()`: a row for each sample of each sequence that has a slot, with its
/// time and how many values were taken by then.
#[pg_extern(sql = false)]
fn rate_samples(call: Call) -> Result<Rows<Sample>, ErrorReport> {
    shared::get()?;
    let sampled = each_slot(|_, locked| {
        Some((locked.key.sequence, locked.pace.rate, ffi::now(), locked.taken_count()))
    })?;
    let (mut visible, mut rows) = (Visible::of_caller(), Rows::begin(call));
    for (sequence, rate, now, taken) in sampled {
        if !visible.contains(sequence)? {
            continue;
        }
        for (at, taken) in rate.history(now, taken) {
            rows.add(Sample { sequence, at, taken });
        }
    }
    Ok(rows)
}

/// How indexes map to values: for sequences that have a slot, as the slot says; for the others, as
/// the catalog says.
struct Mappings(HashMap<SequenceId, (IndexSpace, Mapping)>);

impl Mappings {
    fn new() -> Result<Mappings, HiloError> {
        let known = each_slot(|_, locked| {
            let (terms, _) = locked.terms()?;
            Some((locked.key.sequence, (locked.index_space(), terms.mapping)))
        })?;
        Ok(Mappings(memory::try_map(known.len(), known)?))
    }

    /// The mapping of the indexes in this index space; `None` if it is no longer the current one of
    /// its sequence.
    fn get(&mut self, index_space: &IndexSpace) -> Result<Option<Mapping>, HiloError> {
        let id = index_space.key.sequence;
        if !self.0.contains_key(&id)
            && let Some(known) = from_catalog(index_space)?
        {
            self.0.try_push((id, known))?;
        }
        let known = self.0.get(&id).filter(|known| known.0 == *index_space);
        Ok(known.map(|known| known.1))
    }
}

fn from_catalog(index_space: &IndexSpace) -> Result<Option<(IndexSpace, Mapping)>, HiloError> {
    let Some(sequence) = definitions::by_id(index_space.key.sequence)? else { return Ok(None) };
    let position = positions::find(sequence.id, index_space.node)?;
    Ok(position.map(|position| {
        let mapping = position.mapping(&sequence.definition);
        (IndexSpace { epoch: position.epoch, ..*index_space }, mapping)
    }))
}

row! {
    struct StatSlice {
        sequence: SequenceId,
        pid: i32,
        next_value: Option<i64>,
        last_value: Option<i64>,
        left_in_slice: i64,
    }
}

/// `_hilo.hilo_stat_slices()`: one row for each slice that a session holds.
#[pg_extern(sql = false)]
fn stat_slices(call: Call) -> Result<Rows<StatSlice>, ErrorReport> {
    let shared = shared::get()?;
    let (mut mappings, mut visible) = (Mappings::new()?, Visible::of_caller());
    let mut rows = Rows::begin(call);
    for Held { index_space, range, pid, .. } in slices(shared)? {
        let sequence = index_space.key.sequence;
        if !visible.contains(sequence)? {
            continue;
        }
        let mapping = mappings.get(&index_space)?;
        let rest = if mapping.is_some() { range } else { Range::EMPTY };
        let value = |at| mapping.and_then(|mapping| mapping.value(at));
        rows.add(StatSlice {
            sequence,
            pid: pid.unwrap_or(0),
            next_value: if rest.is_empty() { None } else { value(rest.start) },
            last_value: if rest.start > Index::ZERO { value(rest.start - 1) } else { None },
            left_in_slice: rest.len(),
        });
    }
    Ok(rows)
}

row! {
    struct StatRange {
        sequence: SequenceId,
        first_value: i64,
        last_value: i64,
        count: i64,
        tier: &'static str,
        pid: Option<i32>,
    }
}

/// `_hilo.hilo_stat_ranges()`: every range in memory, with the tier that holds it.
#[pg_extern(sql = false)]
fn stat_ranges(call: Call) -> Result<Rows<StatRange>, ErrorReport> {
    let held = held(shared::get()?)?;
    let (mut mappings, mut all) = (Mappings::new()?, Vec::new());
    for one in held {
        let mapping = mappings.get(&one.index_space)?;
        all.try_extend(mapping.map(|mapping| (mapping, one)))?;
    }
    make_disjoint(&mut all);
    let (mut visible, mut rows) = (Visible::of_caller(), Rows::begin(call));
    for (mapping, Held { index_space, range, tier, pid }) in all {
        let sequence = index_space.key.sequence;
        if let (Some(first_value), Some(last_value)) =
            (mapping.value(range.start), mapping.value(range.last()))
            && visible.contains(sequence)?
        {
            let (count, tier) = (range.len(), tier.name());
            rows.add(StatRange { sequence, first_value, last_value, count, tier, pid });
        }
    }
    Ok(rows)
}

/// A range in memory.
struct Held {
    index_space: IndexSpace,
    range: Range,
    tier: Tier,
    /// The session that holds the slice.
    pid: Option<i32>,
}

/// Every range of this database in memory. A range that moves now may appear twice.
fn held(shared: &'static Shared) -> Result<Vec<Held>, HiloError> {
    let mut all = slices(shared)?;
    let pools = each_slot(|_, locked| {
        let mut held = [(Tier::Current, Range::EMPTY); HELD];
        held.iter_mut().zip(locked.tiers()).for_each(|(place, tier)| *place = tier);
        Some((locked.index_space(), held))
    })?;
    for (index_space, held) in pools {
        let held = held.into_iter().filter(|(_, range)| !range.is_empty());
        let held = held.map(|(tier, range)| Held { index_space, range, tier, pid: None });
        all.try_extend(held)?;
    }
    // A session may have taken a range from a pool after the pool was read.
    all.try_extend(slices(shared)?)?;
    let is_here = is_here()?;
    let pending = shared.all_pending().filter(|pending| is_here(&pending.index_space.key));
    let leased = pending.map(|Place { index_space, range, .. }| Held {
        index_space,
        range,
        tier: Tier::Leased,
        pid: None,
    });
    all.try_extend(leased)?;
    Ok(all)
}

/// Returns a function that tells whether a key is of this database.
fn is_here() -> Result<impl Fn(&Key) -> bool, HiloError> {
    let here = names::key_of(SequenceId::default())?;
    Ok(move |key: &Key| key.database == here.database && key.extension == here.extension)
}

/// The slices that the sessions of this database hold, or have left behind.
fn slices(shared: &'static Shared) -> Result<Vec<Held>, HiloError> {
    let is_here = is_here()?;
    let held = shared.all_slices().filter_map(|(pid, slice)| {
        let (index_space, range) = slice.observe()?.ok()?;
        // An orphaned slice is on its way to the pool or the catalog.
        let (tier, pid) = if pid == 0 { (Tier::Returned, None) } else { (Tier::Slice, Some(pid)) };
        is_here(&index_space.key).then_some(Held { index_space, range, tier, pid })
    });
    memory::try_collect(held)
}

/// Makes the ranges disjoint: an index that was read twice is shown once.
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
pub fn failing() -> Result<Vec<i64>, HiloError> {
    each_slot(|_, locked| (locked.fault.at > locked.pace.block_at).then_some(locked.key.sequence.0))
}

/// `_hilo.hilo_node_id()`: this server's node.
#[pg_extern(sql = false)]
fn node_id(_call: Call) -> i32 {
    node::id()
}

/// `hilo_stat_reset(name)`: sets the counters of a sequence to zero; with NULL, those of every
/// sequence of this database. Requires ownership of the sequence; with NULL, superuser rights.
#[pg_extern(sql = false)]
fn hilo_stat_reset(_call: Call, name: Option<SequenceName>) -> Result<(), ErrorReport> {
    let shared = shared::get()?;
    let one = match name {
        Some(name) => {
            let sequence = missing::require(&name)?;
            check_owner(&sequence)?;
            Some(sequence.id)
        }
        // SAFETY: a catalog look-up inside a transaction.
        None if unsafe { pg_sys::superuser() } => None,
        None => return Err(HiloError::ResetAll.into()),
    };
    let held = in_slices(shared, &each_slot(|_, locked| Some(locked.index_space()))?)?;
    each_slot(|_, locked| {
        if one.is_none_or(|id| locked.key.sequence == id) {
            let held = held.get(&locked.key.sequence).copied().unwrap_or_default();
            locked.reset_counters(held.good + held.void);
        }
        None::<()>
    })?;
    Ok(())
}
