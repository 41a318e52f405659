//! A type for each kind of number, such as an index, an epoch or a time, so that none is taken for
//! another.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Names one epoch of one sequence in one slot. Never used twice in a slot.
    Serial
);
number!(
    /// One numbering of a sequence: raised by setval, restart, and a change of increment or cycle,
    /// and any alteration of a gapless sequence.
    Epoch
);
number!(
    /// The id of a sequence in the catalog: random, so that no later sequence has it.
    SequenceId
);
number!(
    /// An index, which a node counts within an epoch of a sequence: 0, 1, 2, … A mapping turns it
    /// into a value. That is a bare `i64`, as is the number of indexes between two.
    Index
);

number!(
    /// A time by the wall clock, in microseconds since 2000-01-01, as Postgres counts. It can be
    /// set back.
    Timestamp
);
number!(
    /// A time by the clock that is never set back, in microseconds since some moment in the past.
    Monotonic
);
number!(
    /// A span of time in microseconds.
    Micros
);

impl Timestamp {
    /// How long ago `earlier` was.
    pub fn since(self, earlier: Timestamp) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

impl Monotonic {
    /// How long ago `earlier` was.
    pub fn since(self, earlier: Monotonic) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Micros {
    fn from(span: Duration) -> Micros {
        Micros(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Epoch {
    /// The next epoch, whose numbers continue those of this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }

    /// The next epoch, whose numbers begin where a user says. The bits above 24 count such restarts
    /// (`numbering` in `sql/views.sql`).
    pub fn restart(self) -> Epoch {
        Epoch((self.restarts() + 1) << 24)
    }

    /// How many restarts there were up to this one.
    pub fn restarts(self) -> i64 {
        self.0 >> 24
    }

    /// The epoch so many restarts before.
    pub fn lowered(self, restarts: i64) -> Epoch {
        Epoch(self.0 - (restarts << 24))
    }

    /// Whether no restart lies between the two, so that no number of one is served in the other.
    pub fn continues(self, other: Epoch) -> bool {
        self.restarts() == other.restarts()
    }
}

impl Index {
    /// The first one.
    pub const ZERO: Index = Index(0);
    /// Ends every range; no sequence serves it.
    pub const MAX: Index = Index(i64::MAX);

    #[inline]
    pub const fn next(self) -> Index {
        Index(self.0 + 1)
    }

    /// The index `count` further on, but at most [`MAX`](Self::MAX).
    #[inline]
    pub const fn saturating_add(self, count: i64) -> Index {
        Index(self.0.saturating_add(count))
    }
}

impl Add<i64> for Index {
    type Output = Index;

    #[inline]
    fn add(self, count: i64) -> Index {
        Index(self.0 + count)
    }
}

impl AddAssign<i64> for Index {
    #[inline]
    fn add_assign(&mut self, count: i64) {
        self.0 += count;
    }
}

impl Sub<i64> for Index {
    type Output = Index;

    #[inline]
    fn sub(self, count: i64) -> Index {
        Index(self.0 - count)
    }
}

impl Sub<Index> for Index {
    type Output = i64;

    /// How many indexes there are from `other` to this one.
    #[inline]
    fn sub(self, other: Index) -> i64 {
        self.0 - other.0
    }
}
