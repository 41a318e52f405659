//! Numbers of the same size that must not be mistaken for each other.

use std::fmt;

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

impl Epoch {
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}
