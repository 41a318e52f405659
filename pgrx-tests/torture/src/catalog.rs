//! The rows of the catalog about one sequence on one server.

use std::fmt;

use postgres::Client;

use super::bits::Bits;
use super::ledger::Life;

/// No sequence may have more rows in _hilo.hilo_free_range.
const MOST_RANGES: usize = 5_000;

/// Nor more in _hilo.hilo_gap.
const MOST_GAPS: usize = 1_000;

/// A row of `_hilo.hilo_gap`.
#[derive(Clone, Debug)]
pub struct Gap {
    /// `None`: of several numberings.
    pub epoch: Option<i64>,
    pub first: i64,
    pub last: i64,
    pub count: i64,
    pub increment: i64,
    pub reason: String,
}

impl Gap {
    /// Whether all numbers of its numbering from the first to the last are lost.
    pub fn is_whole(&self) -> bool {
        self.epoch.is_some() && self.last - self.first == (self.count - 1) * self.increment
    }

    /// Whether it can be a gap of a sequence that has this epoch now.
    fn is_sound(&self, now: i64) -> bool {
        let way = i128::from(self.last) - i128::from(self.first);
        let steps = way / i128::from(self.increment);
        way % i128::from(self.increment) == 0
            && (1..=steps + 1).contains(&i128::from(self.count))
            && self.epoch.is_some_and(|epoch| epoch <= now)
            || self.epoch.is_none() && steps >= 0 && self.count >= 1
    }
}

/// The row of `_hilo.hilo_position`, and the free ranges and gaps of the same sequence.
#[derive(Default)]
pub struct CatalogState {
    epoch: i64,
    pub base: i64,
    pub next_index: i64,
    pub increment: i64,
    /// The life of the server that may have in memory what is not settled.
    pub incarnation: i64,
    settled_index: i64,
    node: i64,
    nodes: i64,
    stripe: i64,
    /// Which number of its life the base is: others before an advance.
    pub begins_at: i64,
    /// First and end index, and the life of the server that has it in memory: 0 if none has.
    ranges: Vec<(i64, i64, i64)>,
    pub gaps: Vec<Gap>,
    /// First value and count of the leases that the worker has not filed.
    pub leases: Vec<(i64, i64)>,
}

pub fn read(client: &mut Client, name: &str) -> Option<CatalogState> {
    let row = client
        .query_opt(
            "SELECT s.id, s.increment, p.epoch, p.base, p.next_index, p.settled_index,
                    p.incarnation, p.node::bigint, p.nodes::bigint, p.stripe
             FROM _hilo.hilo_definition s JOIN _hilo.hilo_position p ON p.sequence = s.id WHERE s.name = $1::text",
            &[&name],
        )
        .expect("the catalog can be read")?;
    let (id, epoch): (i64, i64) = (row.get(0), row.get(2));
    let ranges = client
        .query(
            "SELECT first_index, end_index, incarnation FROM _hilo.hilo_free_range
             WHERE sequence = $1 AND epoch = $2 ORDER BY 1",
            &[&id, &epoch],
        )
        .expect("the catalog can be read");
    let gaps = client
        .query(
            "SELECT first_value, last_value, count, reason, epoch, increment
             FROM _hilo.hilo_gap WHERE sequence = $1 ORDER BY recorded_at",
            &[&id],
        )
        .expect("the catalog can be read");
    let leases = client
        .query(
            "SELECT first_value, end_index - first_index FROM _hilo.hilo_lease WHERE sequence = $1",
            &[&id],
        )
        .expect("the catalog can be read");
    Some(CatalogState {
        epoch,
        increment: row.get(1),
        base: row.get(3),
        next_index: row.get(4),
        settled_index: row.get(5),
        incarnation: row.get(6),
        node: row.get(7),
        nodes: row.get(8),
        stripe: row.get(9),
        begins_at: 0,
        ranges: ranges.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect(),
        leases: leases.iter().map(|row| (row.get(0), row.get(1))).collect(),
        gaps: gaps
            .iter()
            .map(|row| Gap {
                first: row.get(0),
                last: row.get(1),
                count: row.get(2),
                reason: row.get(3),
                epoch: row.get(4),
                increment: row.get(5),
            })
            .collect(),
    })
}

impl fmt::Display for CatalogState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CatalogState { base, next_index, settled_index, incarnation, .. } = self;
        let lent: Vec<_> = self.ranges.iter().filter(|range| range.2 != 0).collect();
        write!(
            out,
            "base {base}, next {next_index}, settled {settled_index}, life {incarnation}, lent {lent:?}"
        )
    }
}

impl CatalogState {
    /// The steps from the life's first number that these indexes mean, as contiguous parts.
    fn steps(&self, first: i64, end: i64) -> Vec<(i64, i64)> {
        if self.nodes <= 1 {
            return vec![(first + self.begins_at, end + self.begins_at)];
        }
        let mut parts = Vec::new();
        let mut at = first;
        while at < end {
            let (round, inside) = (at / self.stripe, at % self.stripe);
            let count = (self.stripe - inside).min(end - at);
            let step = (round * self.nodes + self.node) * self.stripe + inside;
            parts.push((step, step + count));
            at += count;
        }
        parts
    }

    fn bits(&self, ranges: impl Iterator<Item = (i64, i64)>) -> (Bits, Option<i64>) {
        let mut bits = Bits::default();
        let mut twice = None;
        for (first, end) in ranges {
            for (first, end) in self.steps(first, end) {
                twice = twice.or(bits.insert_range(first, end));
            }
        }
        (bits, twice)
    }

    /// All that has been reserved, and all before that.
    pub fn reserved_bits(&self) -> Bits {
        self.bits([(-self.begins_at, self.next_index)].into_iter()).0
    }

    /// The free ranges, and the first number that is in two of them.
    pub fn free(&self) -> (Bits, Option<i64>) {
        self.bits(self.ranges.iter().filter(|range| range.2 == 0).map(|range| (range.0, range.1)))
    }

    /// The ranges that may be, or have been, in a server's memory: lent to it, or not settled.
    pub fn in_memory(&self) -> Bits {
        let lent = self.ranges.iter().filter(|range| range.2 != 0).map(|range| (range.0, range.1));
        let rest = (self.incarnation != 0).then_some((self.settled_index, self.next_index));
        let mut bits = self.bits(lent.chain(rest)).0;
        bits.remove(&self.free().0);
        bits
    }

    /// The lives of servers that hold something.
    pub fn lives(&self) -> impl Iterator<Item = i64> + '_ {
        let lent = self.ranges.iter().map(|range| range.2);
        lent.chain([self.incarnation]).filter(|life| *life != 0)
    }

    /// The rows nearest to a number of this life: gaps by their values, ranges by their places.
    pub fn beside(&self, life: &Life, place: i64) -> String {
        /// How many of each.
        const NEAREST: usize = 4;
        let value = life.value(place);
        let mut gaps: Vec<_> = self.gaps.iter().collect();
        gaps.sort_by_key(|gap| gap.first.abs_diff(value).min(gap.last.abs_diff(value)));
        gaps.truncate(NEAREST);
        let begins = self.begins_at;
        let in_places = |&(start, end, life)| (start + begins, end + begins, life);
        let mut ranges: Vec<_> = self.ranges.iter().map(in_places).collect();
        ranges.sort_by_key(|range| range.0.abs_diff(place).min(range.1.abs_diff(place)));
        ranges.truncate(NEAREST);
        format!("{gaps:?}, {ranges:?}")
    }

    /// The fault of its rows, if they have one.
    pub fn fault(&self) -> Option<String> {
        if self.ranges.len() > MOST_RANGES {
            return Some(format!("{} rows in _hilo.hilo_free_range", self.ranges.len()));
        }
        if self.gaps.len() > MOST_GAPS {
            return Some(format!("{} rows in _hilo.hilo_gap", self.gaps.len()));
        }
        let unsound = self.gaps.iter().find(|gap| !gap.is_sound(self.epoch))?;
        Some(format!("{unsound:?}, although the epoch is {}", self.epoch))
    }
}
