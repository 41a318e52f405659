//! Which slot serves which sequence: a hash table that links the slots by their numbers. So it can
//! lie at another address in each process. It also finds the slot that may have the shared name for
//! a name.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering::*};

use pgrx::pg_sys::LWLockMode::{LW_EXCLUSIVE, LW_SHARED};
use rustc_hash::FxHasher;

use crate::shared::Shared;
use crate::shared::key::{AtomicKey, Key};
use crate::shared::pin::Pinned;
use crate::shared::shared_name::SharedName;
use crate::shared::slot::{Locked, Slot};

/// The sequence that the slot of the same number belongs to, and the next slot whose key has the
/// same bucket. Changed only under `directory`.
#[repr(C)]
pub struct Entry {
    key: AtomicKey,
    /// Plus one; 0: there is none.
    next: AtomicU32,
}

/// Whether no process is in the middle of using a slot. A session with a cached name pins first and
/// then compares the version. So after this, either the session sees the new version, or its pin is
/// seen here.
fn is_unused(locked: &mut Locked) -> bool {
    locked.outdate();
    locked.slot.pins.load(SeqCst) == 0
}

impl Shared {
    /// The bucket of a key. It has a slot's number plus one, or 0.
    fn bucket(&self, key: &Key) -> &AtomicU32 {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        &self.buckets[(hasher.finish() % self.buckets.len() as u64) as usize]
    }

    /// The link that leads to the slot of `key`, or the one at the end, and that slot's number. The
    /// caller holds the directory's lock.
    fn search(&self, key: &Key) -> (&AtomicU32, Option<usize>) {
        let mut link = self.bucket(key);
        while let Some(number) = (link.load(Relaxed) as usize).checked_sub(1) {
            let entry = &self.entries[number];
            if entry.key.load() == *key {
                return (link, Some(number));
            }
            link = &entry.next;
        }
        (link, None)
    }

    /// The slot of `key`, with a pin, if there is one.
    pub fn find(&'static self, key: &Key) -> Option<Pinned> {
        let _lock = self.lock_directory(LW_SHARED);
        self.search(key).1.map(|number| Pinned::new(&self.slots[number]))
    }

    /// The slot of `key`, with a pin. A key without a slot gets a free one. `None`: no slot is
    /// free.
    pub fn find_or_add(&'static self, key: &Key) -> Option<Pinned> {
        self.find(key).or_else(|| self.add(key)).or_else(|| self.find(key))
    }

    /// A free slot for `key`, with a pin. `None`: it has a slot, or no slot is free.
    pub fn add(&'static self, key: &Key) -> Option<Pinned> {
        let _lock = self.lock_directory(LW_EXCLUSIVE);
        let (link, None) = self.search(key) else { return None };
        let number = self.used.set_first(self.slots.len())?;
        let entry = &self.entries[number];
        entry.key.store(key);
        entry.next.store(0, Relaxed);
        link.store(number as u32 + 1, Relaxed);
        let slot = &self.slots[number];
        let pinned = Pinned::new(slot);
        self.lock_slot(number).assign(*key);
        self.count_return(key);
        Some(pinned)
    }

    /// How many slots are free.
    pub fn free_slots(&self) -> usize {
        self.slots.len() - self.used.count()
    }

    /// Whether sessions will soon find no free slot.
    pub fn is_nearly_full(&self) -> bool {
        self.free_slots() <= self.slots.len() / 64
    }

    /// Frees a slot that is done and that no process is in the middle of using. Returns whether it
    /// was freed.
    pub fn free(&'static self, number: usize) -> bool {
        self.free_if(number, |locked| locked.is_done() && is_unused(locked))
    }

    /// Frees a slot like [`free`](Self::free), for other sequences that need it.
    pub fn take_away(&'static self, number: usize) -> bool {
        self.free_if(number, |locked| {
            let free = locked.is_done() && is_unused(locked);
            if free {
                self.note_loss(&locked.key);
            }
            free
        })
    }

    /// Frees a slot and all that it holds, if `may` allows it.
    fn free_if(&'static self, number: usize, may: impl FnOnce(&mut Locked) -> bool) -> bool {
        let _lock = self.lock_directory(LW_EXCLUSIVE);
        let mut locked = self.lock_slot(number);
        if locked.key == Key::NONE || !may(&mut locked) {
            return false;
        }
        let key = locked.key;
        locked.assign(Key::NONE);
        drop(locked);
        let (link, found) = self.search(&key);
        debug_assert_eq!(found, Some(number));
        link.store(self.entries[number].next.load(Relaxed), Relaxed);
        self.wanted.clear(number);
        self.used.clear(number);
        true
    }

    /// Whether a database has a slot, an orphaned slice or a lease to write off in memory.
    pub fn is_in_memory(&self, database: u32) -> bool {
        self.slots.iter().any(|slot| slot.database.load(Acquire) == database)
            || self.orphans().any(|slice| slice.index_space().key.database == database)
            || self.dead_pending().any(|held| held.index_space.key.database == database)
    }

    /// Frees the slots of a database with all that they hold.
    pub(super) fn free_all(&'static self, database: u32) {
        for (number, slot) in self.slots.iter().enumerate() {
            if slot.database.load(Acquire) == database {
                self.free_if(number, |locked| locked.key.database == database);
            }
        }
    }

    /// Frees memory that no worker will free: that of databases that do not exist any more, as
    /// `exists` says, and empty slots.
    pub fn free_dropped_databases(&'static self, exists: impl Fn(u32) -> bool) {
        let mut last = 0;
        let mut look = |database: u32| {
            // Neighbours are mostly of one database.
            if last != database && database != 0 {
                last = database;
                if !exists(database) {
                    self.forget_deserted(database);
                }
            }
        };
        for (number, slot) in self.slots.iter().enumerate() {
            look(slot.database.load(Acquire));
            if slot.pins.load(SeqCst) == 0 && slot.waiting.load(SeqCst) == 0 {
                self.free_if(number, |locked| {
                    locked.is_done() && locked.catalog.reserved_to.is_none() && is_unused(locked)
                });
            }
        }
        self.orphans().for_each(|slice| look(slice.index_space().key.database));
        self.dead_pending().for_each(|held| look(held.index_space.key.database));
    }
}

impl Shared {
    /// The place of a name in `names`.
    fn place_of_name(&self, database: u32, name: &[u8]) -> usize {
        let mut hasher = FxHasher::default();
        (database, name).hash(&mut hasher);
        (hasher.finish() % self.names.len() as u64) as usize
    }

    /// The shared name of a name of `database`, with the key of the sequence and its slot, if there
    /// is one and it is valid.
    pub fn shared_name_of(
        &'static self,
        database: u32,
        name: &[u8],
    ) -> Option<(&'static Slot, Key, SharedName)> {
        let place = &self.names[self.place_of_name(database, name)];
        let number = (place.load(Acquire) as usize).checked_sub(1)?;
        let locked = self.lock_slot(number);
        let (key, shared_name) = (locked.key, locked.shared_name);
        let valid = key.database == database
            && shared_name.name() == name
            && shared_name.version() == locked.slot.version.load(Relaxed);
        valid.then_some((locked.slot, key, shared_name))
    }

    /// Stores the result of a look-up as the shared name, for a slot of this version.
    pub fn put_up(
        &'static self,
        database: u32,
        slot: &'static Slot,
        version: u64,
        found: SharedName,
    ) {
        let number = self.number_of(slot);
        let mut locked = self.lock_slot(number);
        if locked.slot.version.load(Relaxed) != version || locked.key.database != database {
            return;
        }
        locked.shared_name = found.at(version);
        drop(locked);
        let place = &self.names[self.place_of_name(database, found.name())];
        place.store(number as u32 + 1, Release);
    }
}
