//! Values that follow the savepoints of a transaction: what a level has changed is undone when it
//! is rolled back.
//!
//! Levels are numbered from 1, the transaction itself; a savepoint or a block with exceptions is
//! one level deeper. A value is saved once for each level, before that level changes it for the
//! first time. So thousands of nested levels cost as much as their changes.

use std::collections::{HashMap, TryReserveError};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

#[derive(Debug)]
pub struct Nested<K, V> {
    values: HashMap<K, Current<V>, BuildHasherDefault<DefaultHasher>>,
    /// Sorted by level, and within a level in the order of the changes.
    saved: Vec<Saved<K, V>>,
}

#[derive(Debug)]
struct Current<V> {
    value: V,
    /// The deepest level that has saved the value.
    level: i32,
}

#[derive(Debug)]
struct Saved<K, V> {
    key: K,
    /// The level that has changed the value.
    level: i32,
    /// The value before, and the level for which that was saved; `None`: there was none.
    before: Option<(V, i32)>,
}

impl<K: Copy + Eq + Hash, V: Clone> Nested<K, V> {
    pub const fn empty() -> Nested<K, V> {
        Nested { values: HashMap::with_hasher(BuildHasherDefault::new()), saved: Vec::new() }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key).map(|current| &current.value)
    }

    /// The value, for a change that is not saved.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key).map(|current| &mut current.value)
    }

    /// Whether a rollback of `level` already brings the value back as it was when the level began.
    pub fn is_saved(&self, level: i32, key: &K) -> bool {
        self.values.get(key).is_some_and(|current| current.level >= level)
    }

    /// Sets a value at `level`, the deepest open level. Saves its current value if necessary.
    ///
    /// # Errors
    /// Memory is out; nothing has changed.
    pub fn set(&mut self, level: i32, key: K, value: V) -> Result<(), TryReserveError> {
        self.make_room()?;
        let known = self.values.insert(key, Current { value, level });
        match known {
            Some(known) if known.level >= level => {}
            known => {
                let before = known.map(|known| (known.value, known.level));
                self.saved.push(Saved { key, level, before });
            }
        }
        Ok(())
    }

    /// Makes room, so that the next [`set`](Self::set) needs no memory.
    ///
    /// # Errors
    /// Memory is out.
    pub fn make_room(&mut self) -> Result<(), TryReserveError> {
        self.saved.try_reserve(1)?;
        self.values.try_reserve(1)
    }

    /// Ends `level`: it is committed, or rolled back as [`abort`](Self::abort) does it.
    pub fn end(&mut self, level: i32, commits: bool, undone: impl FnMut(V, Option<&V>)) {
        if commits { self.commit(level) } else { self.abort(level, undone) }
    }

    /// Commits `level`: what it has changed belongs to the level around it.
    pub fn commit(&mut self, level: i32) {
        let first = self.saved.partition_point(|saved| saved.level < level);
        let mut to = first;
        for at in first..self.saved.len() {
            let saved = &mut self.saved[at];
            saved.level = level - 1;
            if let Some(current) = self.values.get_mut(&saved.key) {
                current.level = level - 1;
            }
            // If the level around it has saved the value too, its rollback restores that value.
            let known = saved.before.as_ref().is_some_and(|(_, before)| *before == level - 1);
            if !known {
                self.saved.swap(to, at);
                to += 1;
            }
        }
        self.saved.truncate(to);
    }

    /// Rolls back `level` and all levels inside it. `undone` is called for each value with the
    /// undone and the restored value, the last change first.
    pub fn abort(&mut self, level: i32, mut undone: impl FnMut(V, Option<&V>)) {
        while self.saved.last().is_some_and(|saved| saved.level >= level) {
            let Some(saved) = self.saved.pop() else { break };
            let was = match saved.before {
                Some((value, level)) => self.values.insert(saved.key, Current { value, level }),
                None => self.values.remove(&saved.key),
            };
            if let Some(was) = was {
                undone(was.value, self.get(&saved.key));
            }
        }
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.values.values_mut().map(|current| &mut current.value)
    }

    /// Forgets everything, as at the end of the transaction.
    pub fn clear(&mut self) {
        self.values.clear();
        self.saved.clear();
    }

    /// How many saved values are kept.
    pub fn saved_count(&self) -> usize {
        self.saved.len()
    }
}

/// A list, by positions: rolling back a level removes what it has added.
impl<V: Clone> Nested<usize, V> {
    /// Adds a value to the end, at `level`.
    ///
    /// # Errors
    /// Memory is out; nothing has changed.
    pub fn push(&mut self, level: i32, value: V) -> Result<(), TryReserveError> {
        self.set(level, self.values.len(), value)
    }

    /// The values in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        (0..self.values.len()).filter_map(|at| self.get(&at))
    }
}
