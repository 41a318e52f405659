//! Which way the values of a sequence go.

/// The sign of the increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    pub const fn from_increment(increment: i64) -> Direction {
        if increment > 0 { Direction::Ascending } else { Direction::Descending }
    }

    pub const fn reverse(self) -> Direction {
        match self {
            Direction::Ascending => Direction::Descending,
            Direction::Descending => Direction::Ascending,
        }
    }

    /// Whether `value` comes after `other`.
    pub const fn is_beyond(self, value: i64, other: i64) -> bool {
        match self {
            Direction::Ascending => value > other,
            Direction::Descending => value < other,
        }
    }

    /// The one of both values that comes later.
    pub fn further(self, a: i64, b: i64) -> i64 {
        if self.is_beyond(a, b) { a } else { b }
    }
}
