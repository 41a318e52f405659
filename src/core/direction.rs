//! Which way the values of a sequence go.

/// The sign of the increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Rising,
    Falling,
}

impl Direction {
    pub const fn of(increment: i64) -> Direction {
        if increment > 0 { Direction::Rising } else { Direction::Falling }
    }

    pub const fn reverse(self) -> Direction {
        match self {
            Direction::Rising => Direction::Falling,
            Direction::Falling => Direction::Rising,
        }
    }

    /// Whether `value` comes after `other`.
    pub const fn is_beyond(self, value: i64, other: i64) -> bool {
        match self {
            Direction::Rising => value > other,
            Direction::Falling => value < other,
        }
    }

    /// The one of both values that comes later.
    pub fn further(self, a: i64, b: i64) -> i64 {
        if self.is_beyond(a, b) { a } else { b }
    }
}
