//! Numbers of the same size that must not be mistaken for each other.

use std::fmt;
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
    /// One numbering of a sequence: raised by setval, restart, and a change of increment or cycle.
    Epoch
);
number!(
    /// The id of a sequence in the catalog: random, so that no later sequence has it.
    SequenceId
);

number!(
    /// A time by the wall clock, in microseconds since 2000-01-01, as Postgres counts. It can be set back.
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
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}
