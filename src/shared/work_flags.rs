//! One flag per slot: its worker has something to do there. Setting it is one atomic operation, so
//! of a thousand callers that want a block at the same time one wakes the worker.

use std::sync::atomic::Ordering::*;

use crate::shared::Shared;

impl Shared {
    /// Sets the flag of a slot. Returns whether it was not set before; then the caller wakes the
    /// worker.
    pub fn want(&self, number: usize) -> bool {
        let bit = 1u64 << (number % 64);
        let word = &self.wanted[number / 64];
        word.load(Relaxed) & bit == 0 && word.fetch_or(bit, AcqRel) & bit == 0
    }

    /// Clears the flag. What was written before the flag was last set is visible to what the worker
    /// reads afterwards.
    pub fn take_want(&self, number: usize) -> bool {
        let bit = 1u64 << (number % 64);
        self.wanted[number / 64].fetch_and(!bit, AcqRel) & bit != 0
    }

    pub fn is_wanted(&self, number: usize) -> bool {
        self.wanted[number / 64].load(Acquire) & (1u64 << (number % 64)) != 0
    }

    /// The slots whose flag is set, in the order of their numbers.
    pub fn all_wanted(&self) -> impl Iterator<Item = usize> + '_ {
        self.wanted.iter().enumerate().flat_map(|(at, word)| {
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
