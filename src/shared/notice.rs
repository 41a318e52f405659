//! Notices: what a name means, for sessions that have not used it yet.
//!
//! The session that looks a name up in the catalog leaves what it found in the slot of the sequence, with the version
//! of the slot that its own memo has. While the slot has that version, every memo of the name is valid, and so is the
//! notice: whatever changes what the name means raises the version (`session/invalidation.rs`). So a notice has no owner,
//! nobody has to remove it, and it ends with the slot, or with the memory after a crash.
//!
//! `names` leads from a name to the slot that may have its notice. A name that finds another one's place there takes it;
//! the notice itself says for which name and database it is.

use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering::*;

use rustc_hash::FxHasher;

use super::Shared;
use super::key::Key;
use super::slot::Slot;

/// The longest name, and the longest key format, in bytes: others are looked up in the catalog each time.
const NAME: usize = 96;
const FORMAT: usize = 48;
/// The most roles. If more have a privilege, the notice knows of none.
const GRANTS: usize = 6;
/// Instead of a number of roles: what was granted is not known.
const UNKNOWN: u8 = u8::MAX;
/// Instead of a length: the sequence has no key format of its own.
const DEFAULT: u8 = u8::MAX;

/// A short text.
#[derive(Clone, Copy)]
#[repr(C)]
struct Text<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

impl<const N: usize> Text<N> {
    const EMPTY: Text<N> = Text { bytes: [0; N], len: 0 };

    /// `None`: it is too long.
    fn new(text: &[u8]) -> Option<Text<N>> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Text { bytes, len: text.len() as u8 })
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// What the slot's lock guards of a notice.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Notice {
    /// The version of the slot with which it is valid; 0: there is no notice.
    version: u64,
    owner: u32,
    granted: [(u32, u8); GRANTS],
    grants: u8,
    name: Text<NAME>,
    key_format: Text<FORMAT>,
}

impl Notice {
    pub const NONE: Notice = Notice {
        version: 0,
        owner: 0,
        granted: [(0, 0); GRANTS],
        grants: UNKNOWN,
        name: Text::EMPTY,
        key_format: Text::EMPTY,
    };

    /// `granted`: the roles with a privilege, as OIDs and sets of bits; `None`: not known. `None` is returned for what
    /// has no room in a notice.
    pub fn new(
        name: &[u8],
        owner: u32,
        key_format: Option<&str>,
        granted: Option<&[(u32, u8)]>,
    ) -> Option<Notice> {
        let key_format = match key_format {
            Some(text) => Text::new(text.as_bytes())?,
            None => Text { len: DEFAULT, ..Text::EMPTY },
        };
        let mut notice = Notice { owner, key_format, name: Text::new(name)?, ..Notice::NONE };
        if let Some(granted) = granted
            && let Some(room) = notice.granted.get_mut(..granted.len())
        {
            room.copy_from_slice(granted);
            notice.grants = granted.len() as u8;
        }
        Some(notice)
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// What was granted to whom; `None`: not known.
    pub fn granted(&self) -> Option<&[(u32, u8)]> {
        self.granted.get(..self.grants as usize)
    }

    pub fn key_format(&self) -> Option<&str> {
        let text = (self.key_format.len != DEFAULT).then(|| self.key_format.get())?;
        std::str::from_utf8(text).ok()
    }
}

impl Shared {
    /// The place of a name in `names`.
    fn place_of_name(&self, database: u32, name: &[u8]) -> usize {
        let mut hasher = FxHasher::default();
        (database, name).hash(&mut hasher);
        (hasher.finish() % self.names.len() as u64) as usize
    }

    /// The notice of a name of `database`, with the key of the sequence and its slot, if there is one and it is valid.
    pub fn noticed(
        &'static self,
        database: u32,
        name: &[u8],
    ) -> Option<(&'static Slot, Key, Notice)> {
        let place = &self.names[self.place_of_name(database, name)];
        let number = (place.load(Acquire) as usize).checked_sub(1)?;
        let locked = self.lock_slot(number);
        let (key, notice) = (locked.key, locked.notice);
        let valid = key.database == database
            && notice.name.get() == name
            && notice.version == locked.slot.version.load(Relaxed);
        valid.then_some((locked.slot, key, notice))
    }

    /// Leaves a notice of what a look-up has found in a slot of this version.
    pub fn notice(&'static self, database: u32, slot: &'static Slot, version: u64, found: Notice) {
        let number = self.number_of(slot);
        let mut locked = self.lock_slot(number);
        if locked.slot.version.load(Relaxed) != version || locked.key.database != database {
            return;
        }
        locked.notice = Notice { version, ..found };
        drop(locked);
        let place = &self.names[self.place_of_name(database, found.name.get())];
        place.store(number as u32 + 1, Release);
    }

    /// Makes all notices of a database invalid, as another may have its OID.
    pub fn forget_notices(&'static self, database: u32) {
        for (number, slot) in self.slots.iter().enumerate() {
            if slot.database.load(Acquire) == database {
                self.lock_slot(number).outdate();
            }
        }
    }
}
