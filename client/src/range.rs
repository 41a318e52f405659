//! [`IdRange`]: consecutive values that one call has taken.

/// Consecutive values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdRange {
    /// The first value.
    pub first: i64,
    /// The last value.
    pub last: i64,
    /// From one value to the next; negative in a descending sequence.
    pub increment: i64,
    /// How many values there are, at least 1.
    pub count: i64,
}

impl IdRange {
    pub(crate) fn new(first: i64, increment: i64, count: i64) -> IdRange {
        let last = first.wrapping_add(increment.wrapping_mul(count - 1));
        IdRange { first, last, increment, count }
    }

    /// All values, in order.
    pub fn values(&self) -> Values {
        Values { next: self.first, increment: self.increment, left: self.count }
    }
}

impl IntoIterator for IdRange {
    type Item = i64;
    type IntoIter = Values;

    fn into_iter(self) -> Values {
        self.values()
    }
}

/// The values of an [`IdRange`].
#[derive(Clone, Debug)]
pub struct Values {
    next: i64,
    increment: i64,
    left: i64,
}

impl Iterator for Values {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.left == 0 {
            return None;
        }
        let value = self.next;
        self.left -= 1;
        // After the last value there may be none.
        self.next = value.wrapping_add(self.increment);
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Values {}
