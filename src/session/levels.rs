//! Each item that comes up in a transaction belongs to a level of it. The transaction itself is
//! level 1, and a savepoint or a block with exceptions is one level deeper.

use pgrx::pg_sys;

use crate::errors::HiloError;
use crate::process::memory::TryGrow;

/// The level that is open.
pub fn current() -> i32 {
    // SAFETY: reads a static of xact.c.
    unsafe { pg_sys::GetCurrentTransactionNestLevel() }
}

/// Items with the levels at which they came up, which rise along the list. A later item belongs to
/// the same level or to a deeper one.
pub struct Levels<T>(Vec<(T, i32)>);

impl<T> Levels<T> {
    pub const fn new() -> Levels<T> {
        Levels(Vec::new())
    }

    /// Adds an item to the level that is open.
    ///
    /// # Errors
    /// `OutOfMemory`; nothing has changed.
    pub fn push(&mut self, item: T) -> Result<(), HiloError> {
        self.0.try_push((item, current()))
    }

    /// Makes room, so that the next [`push`](Self::push) needs no memory.
    ///
    /// # Errors
    /// `OutOfMemory`
    pub fn make_room(&mut self) -> Result<(), HiloError> {
        self.0.try_reserve(1).map_err(|_| HiloError::OutOfMemory)
    }

    pub fn get(&self, at: usize) -> Option<&T> {
        self.0.get(at).map(|(item, _)| item)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(item, _)| item)
    }

    /// Takes out the last item of `level`, which is rolled back, or of one inside it.
    pub fn pop_from(&mut self, level: i32) -> Option<T> {
        self.0.pop_if(|(_, at)| *at >= level).map(|(item, _)| item)
    }

    /// Rolls `level` back, with all levels inside it.
    pub fn roll_back(&mut self, level: i32) {
        while self.pop_from(level).is_some() {}
    }

    /// Commits `level`: its items belong to the level around it.
    pub fn commit(&mut self, level: i32) {
        for (_, at) in self.0.iter_mut().rev().take_while(|(_, at)| *at >= level) {
            *at = level - 1;
        }
    }

    /// Takes out all items.
    pub fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.0).into_iter().map(|(item, _)| item)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}
