//! When to refill a pool and how much to ask for.
//!
//! `rate × buffer` values are what a pool holds: a refill brings it up to that, and the next one
//! begins at half of it. So never more than `buffer` seconds' worth is reserved ahead, and refills
//! come every `buffer / 2` seconds, not all the time. The block (what one reservation takes) follows
//! the same product, at most doubling per refill; where its ceiling is too small for the rate, one
//! reservation takes several. Traffic that comes in bursts has a mean that says little: there block
//! and threshold hold as much as a burst took.

use crate::rate::Demand;

/// The parts of a sequence's whole that one block and a pool may be: a small data type must not be
/// used up by a few of them.
const BLOCKS_IN_WHOLE: i64 = 64;
const POOLS_IN_WHOLE: i64 = 32;
/// A refill begins when less than one part in so many of the block is left.
const THRESHOLD_OF_BLOCK: i64 = 5;
/// What one reservation of many blocks takes: so many seconds' worth, so ten reservations a second
/// are enough for any rate.
const RESERVATION: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// seconds' worth to hold
    pub buffer: f64,
    /// values; refill below this however slow the traffic is
    pub min_threshold: i64,
    /// values, at least 1
    pub min_block: i64,
    /// values, at least min_block
    pub max_block: i64,
    /// the sequence's own block size: no adapting
    pub fixed: Option<i64>,
    /// off: reserve only what somebody waits for
    pub prefetch: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            buffer: 10.0,
            min_threshold: 50,
            min_block: 32,
            max_block: 1_048_576,
            fixed: None,
            prefetch: true,
        }
    }
}

/// How many indexes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// in the whole sequence (the mapping's limit)
    pub whole: i64,
    /// that are not reserved yet
    pub left: i64,
}

impl Settings {
    fn ceiling(&self, room: Remaining) -> i64 {
        self.max_block.min(room.whole / BLOCKS_IN_WHOLE).max(1)
    }

    /// The block that suits the demand, wherever it comes from.
    fn wanted(&self, demand: &Demand, room: Remaining) -> i64 {
        let ceiling = self.ceiling(room);
        let held = ((expected_rate(demand) * self.buffer) as i64).max(demand.burst);
        held.max(self.min_block).min(ceiling)
    }
}

/// How many seconds a standby may lag behind without missing more than [`failover_skip`] covers.
pub const FAILOVER_LAG: f64 = 60.0;

/// How many values a server passes over, by default, that takes over from a copy that may lag: what is
/// reserved ahead of `per_second` values a second within [`FAILOVER_LAG`] and the buffer, should the rate
/// double; and at least the largest adaptive block, whatever size the sequence's own have. Of a
/// sequence with `whole` values.
pub fn failover_skip(whole: i64, per_second: f64, settings: &Settings) -> i64 {
    let ahead = 2.0 * per_second * (settings.buffer + FAILOVER_LAG);
    let block = settings.fixed.unwrap_or(0);
    let least = settings.ceiling(Remaining { whole, left: whole }).max(block);
    (ahead as i64).min(whole / POOLS_IN_WHOLE).max(least)
}

/// The block for a refill now, `previous` being the last one (0: none yet). At least 1; it may be
/// more than is left.
pub fn next_block(previous: i64, demand: &Demand, room: Remaining, settings: &Settings) -> i64 {
    match settings.fixed {
        Some(size) => size.max(1),
        None if previous < 1 => settings.min_block.clamp(1, settings.ceiling(room)),
        None => settings.wanted(demand, room).min(previous.saturating_mul(2)),
    }
}

/// The block after a sample without a refill: it only shrinks, by half at most, so that it has come
/// down when the next refill is far away.
pub fn shrunk_block(previous: i64, demand: &Demand, room: Remaining, settings: &Settings) -> i64 {
    match settings.fixed {
        Some(size) => size.max(1),
        None => previous.min(settings.wanted(demand, room).max(previous / 2)),
    }
}

/// Refill when less than this many values are left in the pool. 0 where there is nothing to refill
/// from, or without prefetching: then a refill begins when somebody waits.
pub fn threshold(block: i64, demand: &Demand, room: Remaining, settings: &Settings) -> i64 {
    if !settings.prefetch || room.left <= 0 {
        return 0;
    }
    let half = (demand.per_second * settings.buffer / 2.0) as i64;
    let wished = half
        .max(demand.burst.min(block))
        .max(settings.min_threshold)
        .max(block / THRESHOLD_OF_BLOCK);
    wished.min(room.whole / POOLS_IN_WHOLE / 2).max(1)
}

/// How many indexes to reserve now: 0 where the pool needs nothing. `available` are in the pool,
/// `need` must be there for the callers who wait now (0: nobody waits), `block` is
/// [`next_block`]'s.
pub fn reservation_size(
    available: i64,
    need: i64,
    block: i64,
    demand: &Demand,
    room: Remaining,
    settings: &Settings,
) -> i64 {
    let threshold = threshold(block, demand, room, settings);
    let missing = need.saturating_sub(available);
    if missing <= 0 && available >= threshold {
        return 0;
    }
    let smallest = settings.min_block.min(block);
    let gap = level(threshold, block, demand, room, settings).saturating_sub(available);
    let several = gap.min(reservation(block, demand));
    let wished = match settings.fixed {
        _ if !settings.prefetch => block,
        Some(_) => whole_blocks(several, block),
        None if block < settings.ceiling(room) => gap.min(block).max(smallest),
        None => several.max(smallest),
    };
    let needed = if settings.fixed.is_some() { whole_blocks(missing, block) } else { missing };
    // What an operator wants to be there at the least is ordered at once, however small the block.
    let least = settings.min_threshold.min(room.whole / POOLS_IN_WHOLE) - available;
    let least = if settings.prefetch && settings.fixed.is_none() { least } else { 0 };
    wished.max(needed).max(least).min(room.left).max(0)
}

/// What a refill brings the pool up to: the buffer, and in any case so far beyond the threshold that
/// the next refill is not due at once.
fn level(threshold: i64, block: i64, demand: &Demand, room: Remaining, settings: &Settings) -> i64 {
    let burst = demand.burst.min(block);
    let held =
        ((expected_rate(demand) * settings.buffer) as i64).max(burst.saturating_add(burst / 2));
    held.min(room.whole / POOLS_IN_WHOLE).max(threshold.saturating_add(settings.min_block))
}

/// The most that one reservation of many blocks takes.
fn reservation(block: i64, demand: &Demand) -> i64 {
    whole_blocks((expected_rate(demand) * RESERVATION) as i64, block)
}

/// At least `count` and at least one block.
fn whole_blocks(count: i64, block: i64) -> i64 {
    let blocks = count.max(1).saturating_add(block - 1) / block;
    blocks.saturating_mul(block)
}

/// Values per second to be ready for: the mean, unless what was dealt since the last refill says
/// clearly that it has been left behind.
fn expected_rate(demand: &Demand) -> f64 {
    if demand.recent > 2.0 * demand.per_second { demand.recent } else { demand.per_second }
}
