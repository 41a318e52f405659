//! The bounds of a sequence, and the values between them.

use crate::data_type::DataType;
use crate::direction::Direction;
use crate::options::{Definition, OptionError, Options};

impl Definition {
    /// The changes that follow when the column that owns the sequence gets a wider type. A bound at
    /// the limit of the old type moves to the limit of the new one; a bound that a user chose
    /// stays. `None`: no change.
    pub fn widening(&self, old: DataType, new: DataType) -> Option<Options> {
        let options = Options {
            data_type: (new.max() > self.data_type.max()).then_some(new),
            min_value: (self.min_value == old.min()).then_some(new.min()),
            max_value: (self.max_value == old.max()).then_some(new.max()),
            ..Options::default()
        };
        (new.max() > old.max() && options != Options::default()).then_some(options)
    }

    pub fn direction(&self) -> Direction {
        Direction::from_increment(self.increment)
    }

    /// The bound from which it can run furthest.
    pub(crate) fn first_bound(&self) -> i64 {
        match self.direction() {
            Direction::Ascending => self.min_value,
            Direction::Descending => self.max_value,
        }
    }

    /// The bound that the values go towards.
    pub fn last_bound(&self) -> i64 {
        match self.direction() {
            Direction::Ascending => self.max_value,
            Direction::Descending => self.min_value,
        }
    }

    /// How many values lie between the bounds, counted from where a lap starts.
    pub fn values(&self) -> i128 {
        (self.max_value as i128 - self.min_value as i128) / (self.increment as i128).abs().max(1)
            + 1
    }

    /// A bound that is no narrower than in `old` is as far beyond what a crash has lost as before.
    pub(crate) fn check_current(
        &self,
        old: &Definition,
        last: Option<i64>,
        restart: Option<i64>,
    ) -> Result<(), OptionError> {
        let (min, max) = (self.min_value, self.max_value);
        match (restart, last) {
            (Some(restart), _) if restart < min => {
                Err(OptionError::RestartBelowMin { restart, min })
            }
            (Some(restart), _) if restart > max => {
                Err(OptionError::RestartAboveMax { restart, max })
            }
            (None, Some(current)) if current < min && min > old.min_value => {
                Err(OptionError::CurrentBelowMin { current, min })
            }
            (None, Some(current)) if current > max && max < old.max_value => {
                Err(OptionError::CurrentAboveMax { current, max })
            }
            _ => Ok(()),
        }
    }

    /// The value of index 0 of a sequence with a source. It is the first value of the grid within
    /// the bounds, so each value has an index.
    pub fn grid_base(&self) -> i64 {
        let (start, step) = (i128::from(self.start_value), i128::from(self.increment));
        // Between the bounds, so it fits.
        (start - (start - i128::from(self.first_bound())) / step * step) as i64
    }
}
