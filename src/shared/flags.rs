//! One flag for each slot, or for each place of another table.

use std::sync::atomic::{AtomicU64, Ordering::*};

/// Flags by number, 64 to a word.
pub struct Flags(pub(super) &'static [AtomicU64]);

impl Flags {
    /// How many words have this many flags.
    pub const fn words(flags: usize) -> usize {
        flags.div_ceil(64)
    }

    fn place(&self, number: usize) -> (&AtomicU64, u64) {
        (&self.0[number / 64], 1 << (number % 64))
    }

    /// Sets a flag. Returns whether it was not set before.
    pub fn set(&self, number: usize) -> bool {
        let (word, bit) = self.place(number);
        word.load(Relaxed) & bit == 0 && word.fetch_or(bit, AcqRel) & bit == 0
    }

    /// Clears a flag. All that was written before the flag was last set is visible to the caller
    /// afterwards.
    pub fn clear(&self, number: usize) {
        let (word, bit) = self.place(number);
        word.fetch_and(!bit, AcqRel);
    }

    pub fn is_set(&self, number: usize) -> bool {
        let (word, bit) = self.place(number);
        word.load(Acquire) & bit != 0
    }

    /// Sets the lowest flag below `end` that is not set.
    pub fn set_first(&self, end: usize) -> Option<usize> {
        self.0
            .iter()
            .enumerate()
            .find_map(|(at, word)| {
                loop {
                    let number = match word.load(Relaxed).trailing_ones() {
                        64 => return None,
                        first => at * 64 + first as usize,
                    };
                    if number >= end || self.set(number) {
                        return Some(number);
                    }
                }
            })
            .filter(|number| *number < end)
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.load(Acquire).count_ones() as usize).sum()
    }

    /// The flags that are set, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut bits = word.load(Acquire);
            std::iter::from_fn(move || {
                (bits != 0).then(|| {
                    let bit = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    at * 64 + bit
                })
            })
        })
    }
}
