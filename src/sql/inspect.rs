//! What the views show of shared memory. Each reads one slot or line at a time and stops nobody.

use std::collections::HashMap;
use std::sync::atomic::Ordering::*;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::pg_sys;
use pgrx::prelude::*;

use hilo_core::mapping::Mapping;
use hilo_core::range::Range;

use super::args::{Args, sql_functions};
use crate::catalog::{definitions, privileges};
use crate::errors::{HiloError, OrRaise};
use crate::ffi;
use crate::gucs;
use crate::memory::{self, Grow};
use crate::session::memo;
use crate::shared::slot::{DROPPED, Fault, Locked};
use crate::shared::{self, Shared};

sql_functions!(hilo_stat_reset);

/// Visits the slots of this database's sequences, each locked in its turn. Nothing may be allocated by
/// `visit` that could fail under a lock.
fn each_slot<T>(visit: impl Fn(usize, &mut Locked) -> Option<T>) -> Vec<T> {
    let Ok(shared) = shared::get() else { return Vec::new() };
    let key = memo::key_of(0).or_raise();
    let ours = |number: &usize| shared.slots[*number].database.load(Acquire) == key.database;
    let numbers = memory::collected((0..shared.slots.len()).filter(ours)).or_raise();
    let mut all = memory::with_capacity(numbers.len()).or_raise();
    for number in numbers {
        let mut locked = shared.lock_slot(number);
        let mine = locked.key.database == key.database && locked.key.extension == key.extension;
        if mine && locked.epoch != DROPPED {
            all.extend(visit(number, &mut locked));
        }
    }
    all
}

/// What a slot holds, read under its lock.
#[derive(Clone, Copy)]
struct Stat {
    number: usize,
    sequence: i64,
    epoch: i64,
    serial: i64,
    dealt: i64,
    current: i64,
    standby: i64,
    returned: i64,
    recycled: i64,
    lost: i64,
    reserved: u64,
    prefetched: u64,
    errors: u64,
    rate: f64,
    fault: Fault,
}

fn stat(number: usize, locked: &mut Locked) -> Option<Stat> {
    let dealt = locked.dealt();
    let current = locked.slot.cursor().peek().0.len();
    Some(Stat {
        number,
        sequence: locked.key.sequence,
        epoch: locked.epoch,
        serial: locked.serial(),
        dealt: dealt - locked.dealt_at_reset,
        current,
        standby: locked.pool.queue().total(),
        returned: locked.pool.returned().total(),
        recycled: locked.pool.recycled() - locked.recycled_at_reset,
        lost: locked.lost,
        reserved: locked.blocks_reserved,
        prefetched: locked.blocks_prefetched,
        errors: locked.errors,
        rate: locked.rate.per_second(ffi::now(), dealt, gucs::window().as_micros() as i64),
        fault: locked.fault,
    })
}

/// What the sessions hold of a slot.
#[derive(Clone, Copy, Default)]
struct InSlices {
    /// Under the serial of now.
    good: i64,
    /// Under an earlier one: dealt, and never to be served.
    void: i64,
}

/// What the sessions hold, by slot, given the serial of each.
fn in_slices(shared: &'static Shared, serials: &HashMap<usize, i64>) -> HashMap<usize, InSlices> {
    let slices = slices(shared);
    let mut sums = memory::mapped(slices.len(), []).or_raise();
    for (_, (number, serial, rest)) in slices {
        let sum: &mut InSlices = sums.entry(number).or_default();
        match serials.get(&number) {
            Some(current) if *current == serial => sum.good += rest.len(),
            _ => sum.void += rest.len(),
        }
    }
    sums
}

/// `hilo.stat_slots()`: a row for each sequence that has a slot. Times in milliseconds.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn stat_slots() -> TableIterator<
    'static,
    (
        name!(sequence, i64),
        name!(epoch, i64),
        name!(served, i64),
        name!(slices, i64),
        name!(blocks_reserved, i64),
        name!(blocks_prefetched, i64),
        name!(refill_wanted, bool),
        name!(waits, i64),
        name!(wait_time_total, f64),
        name!(wait_time_max, f64),
        name!(rate, f64),
        name!(in_slices, i64),
        name!(in_current, i64),
        name!(in_standby, i64),
        name!(in_returned, i64),
        name!(recycled, i64),
        name!(lost, i64),
        name!(errors, i64),
        name!(last_error, Option<String>),
        name!(last_error_at, Option<TimestampWithTimeZone>),
    ),
> {
    let shared = shared::get().or_raise();
    let slots = each_slot(stat);
    let serials = slots.iter().map(|stat| (stat.number, stat.serial));
    let held = in_slices(shared, &memory::mapped(slots.len(), serials).or_raise());
    TableIterator::new(slots.into_iter().map(move |stat| {
        let slot = &shared.slots[stat.number];
        let in_slices = held.get(&stat.number).copied().unwrap_or_default();
        let faulty = stat.fault.at != 0;
        (
            stat.sequence,
            stat.epoch,
            (stat.dealt - in_slices.good - in_slices.void).max(0),
            slot.dealing.slices.load(Relaxed) as i64,
            stat.reserved as i64,
            stat.prefetched as i64,
            shared.is_wanted(stat.number) || slot.waiting.load(Relaxed) != 0,
            slot.waits.load(Relaxed) as i64,
            slot.wait_total.load(Relaxed) as f64 / 1000.0,
            slot.wait_max.load(Relaxed) as f64 / 1000.0,
            stat.rate,
            in_slices.good,
            stat.current,
            stat.standby,
            stat.returned,
            stat.recycled,
            stat.lost,
            stat.errors as i64,
            faulty.then(|| stat.fault.message().to_string()),
            faulty.then(|| TimestampWithTimeZone::try_from(stat.fault.at).ok()).flatten(),
        )
    }))
}

/// The mapping of each slot that has one, by number.
fn mappings() -> HashMap<usize, (i64, i64, Mapping)> {
    let known = each_slot(|number, locked| {
        let (terms, serial) = locked.terms()?;
        Some((number, (locked.key.sequence, serial, terms.mapping)))
    });
    memory::mapped(known.len(), known).or_raise()
}

/// `hilo.stat_slices()`: a row for each slice that a session holds.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn stat_slices() -> TableIterator<
    'static,
    (
        name!(sequence, i64),
        name!(pid, i32),
        name!(next_value, Option<i64>),
        name!(last_value, Option<i64>),
        name!(left_in_slice, i64),
    ),
> {
    let shared = shared::get().or_raise();
    let mappings = mappings();
    let slices = slices(shared);
    TableIterator::new(slices.into_iter().filter_map(move |(pid, (number, serial, rest))| {
        let (sequence, current, mapping) = *mappings.get(&number)?;
        let rest = if serial == current { rest } else { Range::EMPTY };
        let next = if rest.is_empty() { None } else { mapping.value(rest.start) };
        let last =
            if serial == current && rest.start > 0 { mapping.value(rest.start - 1) } else { None };
        Some((sequence, pid, next, last, rest.len()))
    }))
}

/// `hilo.stat_ranges()`: every range in memory, with the tier that holds it.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn stat_ranges() -> TableIterator<
    'static,
    (
        name!(sequence, i64),
        name!(first_value, i64),
        name!(last_value, i64),
        name!(count, i64),
        name!(tier, String),
        name!(pid, Option<i32>),
    ),
> {
    let shared = shared::get().or_raise();
    let slices = slices(shared);
    let pools = each_slot(|number, locked| {
        let (terms, serial) = locked.terms()?;
        let current = locked.slot.cursor().peek().0;
        Some((number, (locked.key.sequence, serial, terms.mapping), current, locked.pool))
    });
    let known: HashMap<usize, (i64, i64, Mapping)> =
        memory::mapped(pools.len(), pools.iter().map(|pool| (pool.0, pool.1))).or_raise();
    let of_slices = slices.into_iter().filter_map(|(pid, (number, serial, rest))| {
        let (sequence, current, mapping) = *known.get(&number)?;
        (serial == current).then_some((sequence, rest, mapping, "slice", Some(pid)))
    });
    let mut rows: Vec<(i64, Range, Mapping, &'static str, Option<i32>)> =
        memory::collected(of_slices).or_raise();
    for (_, (sequence, _, mapping), current, pool) in pools {
        let row = |range: &Range, tier| (sequence, *range, mapping, tier, None);
        let standby = pool.queue().as_slice().iter().map(|range| row(range, "standby"));
        let returned = pool.returned().as_slice().iter().map(|range| row(range, "returned"));
        let all = std::iter::once(row(&current, "current")).chain(standby).chain(returned);
        rows.grow_by(all).or_raise();
    }
    apart(&mut rows);
    TableIterator::new(rows.into_iter().filter_map(|(sequence, range, mapping, tier, pid)| {
        let (first, last) = (mapping.value(range.start)?, mapping.value(range.end - 1)?);
        Some((sequence, first, last, range.len(), tier.to_string(), pid))
    }))
}

/// What the sessions hold, with their pids.
fn slices(shared: &'static Shared) -> Vec<(i32, (usize, i64, Range))> {
    let held = shared.all_slices().filter_map(|(pid, slice)| Some((pid, slice.observe()?)));
    memory::collected(held).or_raise()
}

/// The slots and lines are looked at one after the other, and a range may change hands meanwhile: what
/// was seen twice is shown once.
fn apart<M>(rows: &mut Vec<(i64, Range, M, &'static str, Option<i32>)>) {
    rows.sort_unstable_by_key(|row| (row.0, row.1));
    let (mut sequence, mut end) = (0, i64::MIN);
    for row in rows.iter_mut() {
        if row.0 != sequence {
            (sequence, end) = (row.0, i64::MIN);
        }
        row.1 = row.1.from(end);
        end = end.max(row.1.end);
    }
    rows.retain(|row| !row.1.is_empty());
}

/// What is in memory of one sequence under `epoch`: ranges of indexes, each with its tier. One that
/// changes hands meanwhile may be there twice, or not at all.
pub fn held(id: i64, epoch: i64) -> Result<Vec<(&'static str, Range)>, HiloError> {
    let Ok(shared) = shared::get() else { return Ok(Vec::new()) };
    let key = memo::key_of(id)?;
    // Nothing may fail while the slot is pinned.
    let before = slices(shared);
    let Some(slot) = shared.find(&key) else { return Ok(Vec::new()) };
    let number = shared.number_of(slot);
    let locked = shared.lock_slot(number);
    let (serial, pool, current) = (locked.serial(), locked.pool, locked.slot.cursor().peek().0);
    let same = locked.epoch == epoch;
    drop(locked);
    slot.pins.fetch_sub(1, SeqCst);
    if !same {
        return Ok(Vec::new());
    }
    let mine = |(_, (at, under, rest)): (i32, (usize, i64, Range))| {
        (at == number && under == serial).then_some(("slice", rest))
    };
    let standby = pool.queue().as_slice().iter().map(|range| ("standby", *range));
    let returned = pool.returned().as_slice().iter().map(|range| ("returned", *range));
    let pooled = std::iter::once(("current", current)).chain(standby).chain(returned);
    memory::collected(before.into_iter().chain(slices(shared)).filter_map(mine).chain(pooled))
}

/// The sequences whose last reservation has failed.
pub fn failing() -> Vec<i64> {
    each_slot(|_, locked| (locked.fault.at > locked.block_at).then_some(locked.key.sequence))
}

/// `hilo.node_id()`: this server's node.
#[pg_extern(sql = false)]
fn node_id() -> i32 {
    gucs::node().0
}

/// `hilo_stat_reset(name)`: counts from zero again; NULL: for every sequence of this database. Needs
/// ownership; for all of them, to be superuser.
fn hilo_stat_reset(args: Args) {
    let shared = shared::get().or_raise();
    let one = args.datum(0).map(|_| {
        let sequence = definitions::existing(args.name(0)).or_raise();
        if !privileges::acts_as(ffi::current_user(), sequence.owner) {
            HiloError::NotOwner(sequence.name.to_string()).raise();
        }
        sequence.id
    });
    // SAFETY: a catalog look-up.
    if one.is_none() && !unsafe { pg_sys::superuser() } {
        HiloError::Permission { name: "*".into(), needs: "to be superuser, without a name" }
            .raise();
    }
    let serials = each_slot(|number, locked| Some((number, locked.serial())));
    let held = in_slices(shared, &memory::mapped(serials.len(), serials).or_raise());
    for number in each_slot(|number, locked| {
        let wanted = one.is_none_or(|id| locked.key.sequence == id);
        if wanted {
            let held = held.get(&number).copied().unwrap_or_default();
            locked.reset_counters(held.good + held.void);
        }
        wanted.then_some(number)
    }) {
        shared.slots[number].reset_counters();
    }
}
