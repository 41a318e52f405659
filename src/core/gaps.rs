//! How gaps become few rows. Gaps that touch become one. If there are too many all the same, those
//! of one reason that lie nearest to each other become one. That says only how many values between
//! its ends are lost.

use crate::numbers::Timestamp;

/// Gaps become one only if they came about in the same hour.
const HOUR: i64 = 3_600_000_000;

/// `count` values from `first` to `last`, in the order of serving, that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub first: i64,
    pub last: i64,
    pub count: i64,
    /// The number of the reason.
    pub reason: usize,
    /// Since when.
    pub at: Timestamp,
}

fn distance(from: i64, to: i64) -> i128 {
    to as i128 - from as i128
}

impl Gap {
    fn low(&self) -> i64 {
        self.first.min(self.last)
    }

    fn high(&self) -> i64 {
        self.first.max(self.last)
    }

    /// Whether it is all values in steps of `increment` from the first to the last.
    fn is_whole(&self, increment: i64) -> bool {
        distance(self.first, self.last) == (self.count as i128 - 1) * increment as i128
    }

    fn touches(&self, next: &Gap, increment: i64) -> bool {
        self.reason == next.reason
            && self.at.0.div_euclid(HOUR) == next.at.0.div_euclid(HOUR)
            && distance(self.high(), next.low()) == (increment as i128).abs()
            && self.is_whole(increment)
            && next.is_whole(increment)
    }

    fn add(&mut self, other: &Gap, increment: i64) {
        let (low, high) = (self.low().min(other.low()), self.high().max(other.high()));
        (self.first, self.last) = if increment < 0 { (high, low) } else { (low, high) };
        self.count = self.count.saturating_add(other.count);
        self.at = self.at.max(other.at);
    }
}

/// A gap, and which of those that were given it is made of.
#[derive(Clone, Debug)]
pub struct Joined {
    pub gap: Gap,
    pub parts: Vec<usize>,
}

impl Joined {
    fn add(&mut self, other: Joined, increment: i64) {
        self.gap.add(&other.gap, increment);
        self.parts.extend(other.parts);
    }
}

/// The same gaps in fewer: where one continues another in steps of `increment`. If there are still
/// more than `most`, as `kept` of them, or one for each reason.
pub fn join(gaps: &[Gap], increment: i64, most: usize, kept: usize) -> Vec<Joined> {
    let mut order: Vec<usize> = (0..gaps.len()).collect();
    order.sort_by_key(|&at| (gaps[at].reason, gaps[at].low(), gaps[at].high()));
    let single = |at: usize| Joined { gap: gaps[at], parts: vec![at] };
    let mut all: Vec<Joined> = Vec::with_capacity(gaps.len());
    for next in order.into_iter().map(single) {
        match all.last_mut() {
            Some(last) if last.gap.touches(&next.gap, increment) => last.add(next, increment),
            _ => all.push(next),
        }
    }
    if all.len() <= most {
        return all;
    }
    let mut nearest: Vec<(i128, usize)> = (1..all.len())
        .map(|at| (all[at - 1].gap, all[at].gap, at))
        .filter(|(last, next, _)| last.reason == next.reason)
        .map(|(last, next, at)| (distance(last.high(), next.low()), at))
        .collect();
    nearest.sort_unstable();
    nearest.truncate(all.len() - kept.min(all.len()));
    let mut joins = vec![false; all.len()];
    nearest.into_iter().for_each(|(_, at)| joins[at] = true);
    let mut few: Vec<Joined> = Vec::with_capacity(kept);
    for (next, joins) in all.into_iter().zip(joins) {
        match few.last_mut() {
            Some(last) if joins => last.add(next, increment),
            _ => few.push(next),
        }
    }
    few
}
