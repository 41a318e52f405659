//! Whether the indexes that are available have room for what a caller wants.

use crate::numbers::Index;

/// The room in a run of indexes that may still grow at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit<T> {
    /// The caller can have this.
    Here(T),
    /// The run would have to reach up to this index (exclusive).
    Needs(Index),
    /// There is none, however far the run reaches.
    Never,
}

impl<T> Fit<T> {
    /// The same, with what `part` makes of the room that was found.
    pub fn map<U>(self, part: impl FnOnce(T) -> U) -> Fit<U> {
        match self {
            Fit::Here(found) => Fit::Here(part(found)),
            Fit::Needs(end) => Fit::Needs(end),
            Fit::Never => Fit::Never,
        }
    }
}
