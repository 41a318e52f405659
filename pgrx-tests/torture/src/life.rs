//! One life of a sequence: the numbers from a renumbering to the next.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

use super::bits::Bits;

/// Numbers in a region, as a power of two.
const REGION: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceKind {
    /// bigint; each of its lives has its own region.
    Wide,
    /// smallint that starts this many numbers before its last one.
    Small(i64),
    /// Cycles through this many numbers; one session at a time uses it.
    Cycle(i64),
}

/// From a renumbering to the next.
pub struct Life {
    pub key: i64,
    pub first: i64,
    pub increment: i64,
    /// From one number to the next. The sets below count these steps, from the first number on.
    pub(super) step: i64,
    pub seen: Mutex<Bits>,
    /// The numbers that an audit found in a gap or could not explain: none of them may be served.
    pub closed: Mutex<Bits>,
    /// The numbers that holders of leases have not used and not returned: none of them may be
    /// served.
    pub leased: Mutex<Bits>,
    /// How many numbers its gaps had at the last audit, when it was over.
    pub settled: Mutex<Option<i64>>,
    /// When it was known to be over, in nanoseconds of the ledger's clock.
    pub(super) died: AtomicU64,
    /// The furthest value that a call has returned, times the sign of the increment.
    pub(super) furthest: AtomicI64,
    /// The place to which it has been advanced.
    pub(super) floor: AtomicI64,
    /// Whether the server has confirmed its beginning, and no drop has deleted its gaps since.
    pub committed: AtomicBool,
}

impl SequenceKind {
    /// The life that a value belongs to, if the sequence has kept its name.
    pub fn key(self, value: i64) -> i64 {
        if self == SequenceKind::Wide { value >> REGION } else { 0 }
    }
}

impl Life {
    /// The life with this number. `goes_back`: whether it may be below others.
    pub fn new(kind: SequenceKind, number: i64, increment: i64, goes_back: bool) -> Life {
        let (key, first) = match kind {
            SequenceKind::Wide => {
                // Alternating, so that a setval goes backwards as often as forwards. Not below the
                // first block of classic Hi/Lo, which would be served again.
                let key = match number % 2 {
                    _ if !goes_back => number,
                    0 => number / 2,
                    _ => -(number / 2) - 1,
                };
                let low = key << REGION;
                (key, if increment > 0 { low } else { low + (1 << REGION) - 1 })
            }
            SequenceKind::Small(count) if increment > 0 => (number, 32_767 - count),
            SequenceKind::Small(count) => (number, -32_768 + count),
            SequenceKind::Cycle(_) => (number, 1),
        };
        Life {
            key,
            first,
            increment,
            step: increment,
            seen: Mutex::default(),
            closed: Mutex::default(),
            leased: Mutex::default(),
            settled: Mutex::default(),
            died: AtomicU64::new(u64::MAX),
            furthest: AtomicI64::new(i64::MIN),
            floor: AtomicI64::new(-1),
            committed: AtomicBool::new(false),
        }
    }

    /// Which number of this life `value` is; `None` if it is none.
    pub fn place(&self, value: i64) -> Option<i64> {
        let distance = value - self.first;
        (distance % self.step == 0).then(|| distance / self.step)
    }

    pub fn value(&self, place: i64) -> i64 {
        self.first + place * self.step
    }

    /// A place that no call has reached yet, as far as is known, so many ahead.
    pub fn place_ahead(&self, count: i64) -> i64 {
        let furthest = self.furthest.load(SeqCst);
        let reached = (furthest != i64::MIN).then(|| furthest * self.increment.signum());
        reached.and_then(|value| self.place(value)).unwrap_or(0) + count
    }

    /// From now on nothing up to this place may be served.
    pub fn advance(&self, place: i64) {
        self.floor.fetch_max(place, SeqCst);
    }

    /// Whether another life is served, or none.
    pub fn is_over(&self) -> bool {
        self.died.load(SeqCst) != u64::MAX
    }
}
