//! How gaps become few rows. Gaps of one numbering that touch become one. If there are too many all
//! the same, the nearest of one numbering and reason become one. Such a gap says only how many
//! values between its ends are lost. Numberings that ended long ago share rows then.

use crate::numbers::{Epoch, Timestamp};

/// Gaps become one only if they came about in the same hour.
const HOUR: i64 = 3_600_000_000;

/// `count` lost values between `first` and `last`, in the order of serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The numbering that the values belong to; `None`: several, or it is not known.
    pub epoch: Option<Epoch>,
    pub first: i64,
    pub last: i64,
    pub count: i64,
    /// The lost values lie whole steps of this size apart.
    pub increment: i64,
    /// The number of the reason.
    pub reason: usize,
    /// When they were lost.
    pub at: Timestamp,
}

fn distance(from: i64, to: i64) -> i128 {
    to as i128 - from as i128
}

pub(crate) fn greatest_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_divisor(other, one % other) }
}

/// The largest step of which both steps and the distance are multiples, with the sign of `one`.
fn common_step(one: i64, other: i64, distance: i128) -> i64 {
    let step = greatest_divisor(one.unsigned_abs(), other.unsigned_abs()).max(1);
    let rest = (distance.unsigned_abs() % u128::from(step)) as u64;
    let step = greatest_divisor(step, rest) as i64;
    if one < 0 { step.wrapping_neg() } else { step }
}

impl Gap {
    fn low(&self) -> i64 {
        self.first.min(self.last)
    }

    fn high(&self) -> i64 {
        self.first.max(self.last)
    }

    /// Whether it has all values in steps of its increment from the first to the last.
    fn is_whole(&self) -> bool {
        distance(self.first, self.last) == (self.count as i128 - 1) * self.increment as i128
    }

    fn touches(&self, next: &Gap) -> bool {
        self.epoch.is_some()
            && (self.epoch, self.increment, self.reason)
                == (next.epoch, next.increment, next.reason)
            && self.at.0.div_euclid(HOUR) == next.at.0.div_euclid(HOUR)
            && distance(self.high(), next.low()) == (self.increment as i128).abs()
            && self.is_whole()
            && next.is_whole()
    }

    fn add(&mut self, other: &Gap) {
        let apart = distance(self.first, other.first);
        self.increment = common_step(self.increment, other.increment, apart);
        let (low, high) = (self.low().min(other.low()), self.high().max(other.high()));
        (self.first, self.last) = if self.increment < 0 { (high, low) } else { (low, high) };
        self.epoch = self.epoch.filter(|_| self.epoch == other.epoch);
        self.count = self.count.saturating_add(other.count);
        self.at = self.at.max(other.at);
    }
}

/// A merged gap, and the input gaps that it replaces.
#[derive(Clone, Debug)]
pub struct Joined {
    pub gap: Gap,
    pub parts: Vec<usize>,
}

impl Joined {
    fn add(&mut self, other: Joined) {
        self.gap.add(&other.gap);
        self.parts.extend(other.parts);
    }
}

/// Merges gaps that continue each other. If more than `most` are left, the nearest are merged until
/// there are `kept`. Where numberings and reasons together are more than half as many, the oldest
/// numberings count as one.
pub fn join(gaps: &[Gap], most: usize, kept: usize) -> Vec<Joined> {
    let mut order: Vec<usize> = (0..gaps.len()).collect();
    order.sort_by_key(|&at| (gaps[at].epoch, gaps[at].reason, gaps[at].low(), gaps[at].high()));
    let single = |at: usize| Joined { gap: gaps[at], parts: vec![at] };
    let mut all: Vec<Joined> = Vec::with_capacity(gaps.len());
    for next in order.into_iter().map(single) {
        match all.last_mut() {
            Some(last) if last.gap.touches(&next.gap) => last.add(next),
            _ => all.push(next),
        }
    }
    if all.len() <= most {
        return all;
    }
    let oldest = oldest_kept(&all, kept / 2);
    let kind = |gap: &Gap| (gap.epoch.filter(|epoch| Some(*epoch) >= oldest), gap.reason);
    all.sort_by_key(|one| (kind(&one.gap), one.gap.low(), one.gap.high()));
    join_nearest(all, kept, |last, next| kind(last) == kind(next))
}

/// The oldest numbering that keeps rows of its own, if numbering and reason together may have
/// `most` different values. `all` is sorted by numbering and reason.
fn oldest_kept(all: &[Joined], most: usize) -> Option<Epoch> {
    let kinds = all.chunk_by(|one, other| {
        (one.gap.epoch, one.gap.reason) == (other.gap.epoch, other.gap.reason)
    });
    let mut newest_first = kinds.rev().map(|kind| kind[0].gap.epoch).skip(most);
    let too_old = newest_first.next()??;
    Some(Epoch(too_old.0 + 1))
}

/// Merges the nearest gaps that belong together until `kept` are left.
fn join_nearest(all: Vec<Joined>, kept: usize, belong: impl Fn(&Gap, &Gap) -> bool) -> Vec<Joined> {
    let mut nearest: Vec<(i128, usize)> = (1..all.len())
        .map(|at| (all[at - 1].gap, all[at].gap, at))
        .filter(|(last, next, _)| belong(last, next))
        .map(|(last, next, at)| (distance(last.high(), next.low()), at))
        .collect();
    nearest.sort_unstable();
    nearest.truncate(all.len() - kept.min(all.len()));
    let mut joins = vec![false; all.len()];
    nearest.into_iter().for_each(|(_, at)| joins[at] = true);
    let mut few: Vec<Joined> = Vec::with_capacity(kept);
    for (next, joins) in all.into_iter().zip(joins) {
        match few.last_mut() {
            Some(last) if joins => last.add(next),
            _ => few.push(next),
        }
    }
    few
}
