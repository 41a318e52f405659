//! When to refill a pool and how much to ask for.
//!
//! A pool holds `rate × buffer` values: a refill brings it up to that, and the next one begins at
//! half of it. So at most `buffer` seconds' worth is reserved ahead, and refills come every `buffer
//! / 2` seconds, not all the time. The block (what one reservation takes) follows the same product
//! and at most doubles per refill. If its ceiling is too small for the rate, one reservation takes
//! several. The mean says little about traffic that comes in bursts: there, block and threshold
//! hold as much as a burst took.

use crate::rate::Demand;

/// One block, and one pool, are at most one part in this many of the whole sequence. A few of them
/// must not use up a small data type.
const BLOCKS_IN_WHOLE: i64 = 64;
const POOLS_IN_WHOLE: i64 = 32;
/// A refill begins when less than one part in this many of the block is left.
const THRESHOLD_OF_BLOCK: i64 = 5;
/// The size kept ready for a lease loses one part in this many with every sample.
const FADING: i64 = 64;
/// How many seconds' worth one reservation of many blocks takes: ten reservations a second are
/// enough for any rate.
const RESERVATION: f64 = 0.1;
/// How many seconds' worth one request to a source takes, so that many slow sequences together cost
/// it few requests.
const REQUEST: f64 = 400.0;

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
    /// off: reserve only what a caller waits for
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
    /// not reserved yet
    pub left: i64,
}

impl Settings {
    fn ceiling(&self, room: Remaining) -> i64 {
        self.max_block.min(room.whole / BLOCKS_IN_WHOLE).max(1)
    }

    /// The block that suits the demand, whatever the last block was.
    fn suitable_block(&self, demand: &Demand, room: Remaining) -> i64 {
        let ceiling = self.ceiling(room);
        let held = ((expected_rate(demand) * self.buffer) as i64).max(demand.burst);
        held.max(self.min_block).min(ceiling)
    }
}

/// The most values of one lease: more is a mistake, and would use up most sequences at once.
pub const MAX_LEASE_SIZE: i64 = 1_000_000_000;

/// How many seconds a standby may lag behind without missing more than [`failover_skip`] covers.
pub const FAILOVER_LAG: f64 = 60.0;

/// How many values a server skips, by default, when it takes over from a copy that may lag. It is
/// what may be reserved ahead within [`FAILOVER_LAG`] and the buffer, if the rate of `per_second`
/// values a second doubles. It is limited by a pool's part of the whole, and is at least the
/// largest adaptive block and the sequence's own block size. `whole` is how many values the
/// sequence has. It is also the most values of one lease, since the first thing that such a copy
/// lacks may be that lease.
pub fn failover_skip(whole: i64, per_second: f64, settings: &Settings) -> i64 {
    let ahead = 2.0 * per_second * (settings.buffer + FAILOVER_LAG);
    let block = settings.fixed.unwrap_or(0);
    let least = settings.ceiling(Remaining { whole, left: whole }).max(block);
    (ahead as i64).min(whole / POOLS_IN_WHOLE).max(least)
}

/// The block for a refill now. `previous` is the last one (0: none yet). At least 1; it may be more
/// than is left.
pub fn next_block(previous: i64, demand: &Demand, room: Remaining, settings: &Settings) -> i64 {
    match settings.fixed {
        Some(size) => size.max(1),
        None if previous < 1 => settings.min_block.clamp(1, settings.ceiling(room)),
        None => settings.suitable_block(demand, room).min(previous.saturating_mul(2)),
    }
}

/// How many values to keep ready after a lease of `count`, so that the next lease need not wait. It
/// is as many again, within the limits of a block and of a pool.
pub fn lease_ahead(count: i64, whole: i64, settings: &Settings) -> i64 {
    match settings.prefetch {
        true => count.min(settings.max_block).min(whole / POOLS_IN_WHOLE),
        false => 0,
    }
}

/// The first values of a sequence that nobody may ever use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// how many values
    pub count: i64,
    /// the first refill begins below so many
    pub threshold: i64,
}

/// How much of a sequence to read ahead: its first block, of `block` values, so that a crash loses
/// little. `None`: nothing, because the sequence's own blocks are large.
pub fn ahead(block: i64, settings: &Settings) -> Option<Ahead> {
    let small = settings.fixed.is_none_or(|size| size <= settings.min_block);
    small.then_some(Ahead { count: block, threshold: (block / 2).max(1) })
}

/// How much a pool with `available` values needs for a next lease of `ahead` values; 0: nothing. It
/// adds half as much again, so that the next refill is not due at once.
pub fn refill_for_lease(available: i64, ahead: i64) -> i64 {
    if available < ahead { ahead.saturating_add(ahead / 2) } else { 0 }
}

/// The value of [`lease_ahead`] after a sample: it halves with every 44 samples or so.
pub fn fade_lease_ahead(ahead: i64) -> i64 {
    ahead - (ahead + FADING - 1) / FADING
}

/// How many values a lease should take, by what the whole server draws: as much as a pool holds.
pub fn lease_size(demand: &Demand, room: Remaining, settings: &Settings) -> i64 {
    settings.suitable_block(demand, room)
}

/// The block after a sample without a refill. It only shrinks, by half at most, so that it has
/// become small when the next refill is far away.
pub fn shrunk_block(previous: i64, demand: &Demand, room: Remaining, settings: &Settings) -> i64 {
    match settings.fixed {
        Some(size) => size.max(1),
        None => previous.min(settings.suitable_block(demand, room).max(previous / 2)),
    }
}

/// The number of values left in the pool below which a refill begins. 0 if there is nothing to
/// refill from, or without prefetching: then a refill begins when a caller waits.
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

/// How many indexes to reserve now; 0: the pool needs nothing. The pool has `available`, the
/// callers who wait now need `need` (0: none waits), and `block` is what [`next_block`] returned.
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
    // The minimum that an operator wants in the pool is reserved at once, however small the block
    // is. Enough is added that the next refill is not due at once.
    let least = settings.min_threshold.saturating_add(settings.min_block);
    let least = least.min(room.whole / POOLS_IN_WHOLE) - available;
    let least = if settings.prefetch && settings.fixed.is_none() { least } else { 0 };
    wished.max(needed).max(least).min(room.left).max(0)
}

/// How the source of a sequence answers, for [`request_size`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourcePace {
    /// seconds' worth of values to hold, for an outage; None: the buffer
    pub ahead: Option<i64>,
    /// seconds that the last answer took
    pub latency: f64,
}

/// How many microseconds the query of a source may take while other sources wait. `failures`: how
/// often it has failed since its last answer, which took `latency` microseconds. It gets more time
/// after each failure, so that a slow query comes to its end.
pub fn patience(failures: u32, latency: i64) -> i64 {
    const FIRST: i64 = 1_000_000;
    const LAST: i64 = 2_000_000;
    let grown = FIRST.checked_shl(failures.min(8)).unwrap_or(LAST).min(LAST);
    grown.max(latency.saturating_mul(2))
}

/// How many values to ask a source for; 0: none. `held` are received and not served, `unmet` is
/// what callers wait for and find nowhere. The held values must last through an outage at any
/// moment. So the request is made early, and for half as many again, so that the next one is not
/// due at once.
pub fn request_size(
    held: i64,
    unmet: i64,
    block: i64,
    demand: &Demand,
    pace: &SourcePace,
    whole: i64,
    settings: &Settings,
) -> i64 {
    let rate = expected_rate(demand);
    let outage = pace.ahead.map_or(settings.buffer, |seconds| seconds as f64);
    // The worker looks again when it lends the next block.
    let low = rate * (outage.max(settings.buffer) + settings.buffer / 2.0 + pace.latency);
    let most = (whole / POOLS_IN_WHOLE).max(1);
    let least = settings.min_threshold.saturating_add(settings.min_block);
    let low = (low as i64).max(demand.burst).max(least).min(most);
    // Does not pile up ranges that are too small for the waiting caller.
    let enough = if unmet > 0 { low.saturating_add(unmet.saturating_mul(16)) } else { low };
    if held >= enough || (unmet <= 0 && !settings.prefetch) {
        return 0;
    }
    // A source that counts one by one still answers in time.
    let usual = ((demand.per_second * REQUEST) as i64).min(most.min(settings.max_block) / 8);
    let gap = low.saturating_add((low / 2).max(usual)).saturating_sub(held);
    // The rate may have been a momentary one: the next answer asks for more.
    let several = usual.max(8 * block.max(1)).max(held.min(settings.max_block));
    let wished = if settings.prefetch { gap.min(several).max(unmet) } else { unmet };
    match settings.fixed {
        Some(_) => whole_blocks(wished, block.max(1)),
        None => wished.max(settings.min_block.min(most)),
    }
}

/// The size that a refill brings the pool up to. It is the buffer, and in any case so far beyond
/// the threshold that the next refill is not due at once.
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

/// `count` rounded up to whole blocks, at least one.
fn whole_blocks(count: i64, block: i64) -> i64 {
    let blocks = count.max(1).saturating_add(block - 1) / block;
    blocks.saturating_mul(block)
}

/// How many values per second to be ready for. It is the mean, unless the takes since the last
/// refill show clearly that the rate has risen above it.
fn expected_rate(demand: &Demand) -> f64 {
    if demand.recent > 2.0 * demand.per_second { demand.recent } else { demand.per_second }
}
