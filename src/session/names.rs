//! The meaning of a name for this backend: which sequence, how it is numbered, what the user may
//! do.

use std::cell::{Cell, Ref, RefCell};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::*};

use pgrx::pg_sys;
use rustc_hash::{FxHashMap, FxHashSet};

use hilo_core::key_format::{Frame, KeyFormat};
use hilo_core::mapping::Mapping;
use hilo_core::numbers::{Epoch, Index, SequenceId, Serial};

use crate::backend::{Global, names_version};
use crate::catalog::rights::privileges::Privileges;
use crate::catalog::rows::name::escape_for_message;
use crate::errors::HiloError;
use crate::process::arena::{alloc_static, alloc_static_bytes, prefetch_two_lines};
use crate::process::ffi;
use crate::shared::key::Key;
use crate::shared::slices::{IndexSpace, Slice};
use crate::shared::slot::{Slot, Terms};

/// The place from which this session gets numbers of a sequence: see `supply`.
#[derive(Clone, Copy)]
pub enum Supply {
    /// The pool of a slot, which all sessions share.
    Pool(&'static Slot),
    /// Numbers that are this transaction's alone.
    Own(Own),
}

/// The numbers that only this transaction takes.
#[derive(Clone, Copy)]
pub enum Own {
    /// Its count of a gapless sequence, whose position it locks.
    Gapless,
    /// The numbers of a sequence that it has defined; none before the first look-up.
    Defined,
}

/// A sequence that this backend has used. An entry is made once and never freed. Like core, hilo
/// remembers the value that a session was given last for as long as the session lasts.
///
/// A session that draws from thousands of sequences pays for each cache line that a call touches.
/// All that it needs is in the first two lines of an entry, those of a slot, and the one line of a
/// cached name.
#[repr(C, align(64))]
pub struct Entry {
    pub supply: Cell<Supply>,
    pub serial: Cell<Serial>,
    /// Where the next value comes from: an empty slice while this backend holds none.
    pub slice: Cell<&'static Slice>,
    pub last: Cell<Option<i64>>,
    /// The smallest index of the epoch that this session may still get.
    pub floor: Cell<Index>,
    /// When this backend last drew from the pool, counted in its draws; 0: never.
    pub drawn_at: Cell<u64>,
    /// The size of the last slice.
    pub grown: Cell<i32>,
    pub terms: Cell<Terms>,
    extension: pg_sys::Oid,
    pub epoch: Cell<Epoch>,
    pub id: SequenceId,
    /// The slice of a gapless sequence during a transaction.
    own_slice: Cell<Option<&'static Slice>>,
    /// The root of the HOT chain of its position.
    pub root: Cell<Option<pg_sys::ItemPointerData>>,
    /// How often a range did not fit into the rest of a slice, and after how many draws of this
    /// backend slices are taken again.
    pub rests: Cell<u32>,
    pub slices_from: Cell<u64>,
}

/// The currval and lastval of a session, as far as a draw from one sequence changes them.
#[derive(Clone, Copy)]
pub struct Last {
    value: Option<i64>,
    used: Option<(&'static CachedName, &'static Entry)>,
    /// How often values had been discarded by then.
    discards: u64,
}

impl Last {
    pub fn for_entry(entry: &Entry) -> Last {
        Last { value: entry.last.get(), used: LAST.get(), discards: DISCARDS.get() }
    }

    /// Restores currval of this sequence, and lastval too if it refers to this sequence. Values
    /// that were discarded since then stay undefined.
    pub fn bring_back(self, entry: &'static Entry) {
        let kept = self.discards == DISCARDS.get();
        entry.last.set(self.value.filter(|_| kept));
        if LAST.get().is_some_and(|(_, used)| std::ptr::eq(used, entry)) {
            LAST.set(self.used.filter(|_| kept));
        }
    }
}

/// A name as one user has looked it up. Its layout follows the same rule as an entry's.
#[repr(C, align(64))]
pub struct CachedName {
    entry: Cell<Option<&'static Entry>>,
    version_at: Cell<*const AtomicU64>,
    version: Cell<u64>,
    names_version: Cell<u64>,
    user: Cell<pg_sys::Oid>,
    privileges: Cell<Privileges>,
    name_len: u16,
    name: NamePlace,
    /// `None`: the sequence has the default format, and no key was asked for.
    keys: Cell<Option<&'static Keys>>,
}

// One cache line, and the mapping of an entry ends with its second one.
const _: () = assert!(size_of::<CachedName>() == 64);
const _: () = assert!(std::mem::offset_of!(Entry, terms) + size_of::<Mapping>() <= 128);

/// A name: in the cached name itself if it is short.
union NamePlace {
    short: [u8; SHORT_NAME],
    long: *const u8,
}

const SHORT_NAME: usize = 16;

/// The parts that only text keys need.
#[derive(Default)]
struct Keys {
    format: RefCell<KeyFormat>,
    /// The server prefix, and all of a key but its value.
    frame: RefCell<Option<(Box<[u8]>, Frame)>>,
}

/// A name that was looked up, with its meaning and how long that holds.
pub struct ResolvedName {
    pub entry: &'static Entry,
    pub version_at: *const AtomicU64,
    pub version: u64,
    pub names_version: u64,
    pub user: pg_sys::Oid,
    pub privileges: Privileges,
    /// `None`: the default.
    pub key_format: Option<KeyFormat>,
}

/// The version that cached names of this transaction's own definitions point to. It never changes.
pub static OWN_VERSION: AtomicU64 = AtomicU64::new(0);

/// A cached name, found by its name. The table is small enough to stay in the caches, so it also
/// says where the entry and the slot lie.
struct ByName {
    cached: &'static CachedName,
    entry: Cell<*const Entry>,
    slot: Cell<*const AtomicU64>,
}

impl std::borrow::Borrow<[u8]> for ByName {
    /// Compared with the name that is looked for, so this is probably the cached name that it has.
    /// All that a draw will need is fetched at once, and not one thing after the other.
    #[inline(always)]
    fn borrow(&self) -> &[u8] {
        prefetch_two_lines(self.entry.get());
        prefetch_two_lines(self.slot.get());
        self.cached.name_bytes()
    }
}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cached.name_bytes().hash(state);
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &ByName) -> bool {
        self.cached.is_of(other.cached.name_bytes())
    }
}

impl Eq for ByName {}

type Names = FxHashSet<ByName>;
type Entries = FxHashMap<(pg_sys::Oid, SequenceId), &'static Entry>;

static NAMES: Global<RefCell<Option<Names>>> = Global::new(RefCell::new(None));
static ENTRIES: Global<RefCell<Option<Entries>>> = Global::new(RefCell::new(None));
/// How often this session has discarded currval and lastval.
static DISCARDS: Global<Cell<u64>> = Global::new(Cell::new(0));
static LAST: Global<Cell<Option<(&'static CachedName, &'static Entry)>>> =
    Global::new(Cell::new(None));

impl CachedName {
    /// Whether the cached name is still good, for the current user.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        // SAFETY: the pointer is to a slot's version or to `OWN_VERSION`. Shared memory and statics
        // are valid for the life of the process.
        self.names_version.get() == names_version()
            && self.user.get() == ffi::current_user()
            && unsafe { (*self.version_at.get()).load(Relaxed) } == self.version.get()
    }

    #[inline(always)]
    pub fn entry(&self) -> Option<&'static Entry> {
        self.entry.get()
    }

    #[inline(always)]
    pub fn allows(&self, needs: Privileges) -> bool {
        self.privileges.get().any_of(needs)
    }

    pub fn privileges(&self) -> Privileges {
        self.privileges.get()
    }

    /// Whether it is this name.
    #[inline(always)]
    pub fn is_of(&self, name: &[u8]) -> bool {
        *self.name_bytes() == *name
    }

    #[inline(always)]
    pub fn name_bytes(&self) -> &[u8] {
        let len = self.name_len as usize;
        // SAFETY: `remember` has written the one that the length says, and what is long is never
        // freed.
        unsafe {
            match len <= SHORT_NAME {
                true => &self.name.short[..len],
                false => std::slice::from_raw_parts(self.name.long, len),
            }
        }
    }

    /// The parts that keys need, made if there are none.
    fn keys(&self) -> Result<&'static Keys, HiloError> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let keys = alloc_static(Keys::default())?;
        self.keys.set(Some(keys));
        Ok(keys)
    }

    /// # Errors
    /// `OutOfMemory`
    pub fn key_format(&self) -> Result<Ref<'static, KeyFormat>, HiloError> {
        Ok(self.keys()?.format.borrow())
    }

    pub fn name(&self) -> String {
        escape_for_message(self.name_bytes())
    }

    /// The frame of the keys under this server prefix, if that prefix was the last one asked for.
    #[inline(always)]
    pub fn key_frame(&'static self, prefix: &[u8]) -> Option<&'static Frame> {
        // SAFETY: only `frame_keys` and `renew` replace it, and no caller keeps the result until
        // either is called.
        let (made_with, frame) =
            unsafe { self.keys.get()?.frame.try_borrow_unguarded() }.ok()?.as_ref()?;
        (**made_with == *prefix).then_some(frame)
    }

    /// Makes the frame of the keys under this prefix, which has been checked.
    ///
    /// # Errors
    /// `OutOfMemory`
    pub fn frame_keys(&self, format: &KeyFormat, prefix: &[u8]) -> Result<(), HiloError> {
        let frame = (prefix.into(), format.frame(self.name_bytes(), prefix));
        self.keys()?.frame.replace(Some(frame));
        Ok(())
    }

    /// The version of the slot that the cached name was made with. A session compares it after it
    /// has pinned the slot.
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Enters the meaning that was found for the name.
    ///
    /// # Errors
    /// `OutOfMemory`
    pub fn renew(&self, found: ResolvedName) -> Result<(), HiloError> {
        if found.key_format.is_some() || self.keys.get().is_some() {
            let keys = self.keys()?;
            keys.format.replace(found.key_format.unwrap_or_default());
            keys.frame.replace(None);
        }
        self.entry.set(Some(found.entry));
        self.version_at.set(found.version_at);
        self.version.set(found.version);
        self.user.set(found.user);
        self.privileges.set(found.privileges);
        self.names_version.set(found.names_version);
        if let Some(names) = NAMES.borrow().as_ref()
            && let Some(by_name) = names.get(self.name_bytes())
        {
            by_name.entry.set(found.entry);
            by_name.slot.set(found.version_at);
        }
        Ok(())
    }

    /// Makes the next call look the name up again.
    pub fn forget(&self) {
        self.names_version.set(0);
    }

    /// Remembers a value as the last one of this session.
    #[inline(always)]
    pub fn note_value(&'static self, entry: &'static Entry, value: i64) {
        entry.last.set(Some(value));
        LAST.set(Some((self, entry)));
    }
}

/// The last use, which `hilo_lastval` refers to.
pub fn last_use() -> Option<(&'static CachedName, &'static Entry)> {
    LAST.get()
}

/// The last value of a sequence that this session was given.
pub fn last_of(id: SequenceId) -> Option<i64> {
    let key = (crate::catalog::rows::catalog_tables::catalog_oids().ok()?.extension, id);
    ENTRIES.borrow().as_ref()?.get(&key)?.last.get()
}

/// Remembers a value as the last one of a sequence, as core's setval does. The sequence that
/// `hilo_lastval` refers to stays the same.
pub fn set_last(id: SequenceId, value: i64) {
    let Ok(ids) = crate::catalog::rows::catalog_tables::catalog_oids() else { return };
    if let Ok(entry) = entry_for((ids.extension, id)) {
        entry.last.set(Some(value));
    }
}

/// Makes currval and lastval undefined again, as DISCARD SEQUENCES does.
pub fn forget_last() {
    LAST.set(None);
    DISCARDS.set(DISCARDS.get() + 1);
    if let Some(entries) = ENTRIES.borrow().as_ref() {
        entries.values().for_each(|entry| entry.last.set(None));
    }
}

/// The cached name, which may be out of date. Calls no function of Postgres.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static CachedName> {
    NAMES.try_borrow().ok()?.as_ref()?.get(name).map(|found| found.cached)
}

/// Caches a name that is not cached, out of date.
///
/// # Errors
/// `OutOfMemory`
#[expect(clippy::mutable_key_type, reason = "the name, which is what is hashed, never changes")]
pub fn remember(name: &[u8]) -> Result<&'static CachedName, HiloError> {
    let mut names = NAMES.borrow_mut();
    let names = names.get_or_insert_default();
    names.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
    // No sequence has a name that long.
    let name_len = u16::try_from(name.len()).map_err(|_| HiloError::OutOfMemory)?;
    let mut short = [0; SHORT_NAME];
    let place = match short.get_mut(..name.len()) {
        Some(bytes) => {
            bytes.copy_from_slice(name);
            NamePlace { short }
        }
        None => NamePlace { long: alloc_static_bytes(name)?.as_ptr() },
    };
    let cached = alloc_static(CachedName {
        entry: Cell::new(None),
        version_at: Cell::new(&raw const OWN_VERSION),
        version: Cell::new(0),
        names_version: Cell::new(0),
        user: Cell::new(pg_sys::InvalidOid),
        privileges: Cell::new(Privileges::NONE),
        name_len,
        name: place,
        keys: Cell::new(None),
    })?;
    let (entry, slot) = (Cell::new(std::ptr::null()), Cell::new(std::ptr::null()));
    names.insert(ByName { cached, entry, slot });
    Ok(cached)
}

pub fn entry_for(key: (pg_sys::Oid, SequenceId)) -> Result<&'static Entry, HiloError> {
    let mut entries = ENTRIES.borrow_mut();
    let entries = entries.get_or_insert_default();
    if let Some(entry) = entries.get(&key) {
        return Ok(entry);
    }
    entries.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
    let entry = alloc_static(Entry {
        id: key.1,
        supply: Cell::new(Supply::Own(Own::Defined)),
        serial: Cell::default(),
        terms: Cell::default(),
        slice: Cell::new(Slice::empty()),
        grown: Cell::new(0),
        drawn_at: Cell::new(0),
        floor: Cell::default(),
        extension: key.0,
        epoch: Cell::default(),
        last: Cell::new(None),
        own_slice: Cell::new(None),
        root: Cell::new(None),
        rests: Cell::new(0),
        slices_from: Cell::new(0),
    })?;
    entries.insert(key, entry);
    Ok(entry)
}

/// The key of a sequence of this database.
pub fn key_of(id: SequenceId) -> Result<Key, HiloError> {
    Ok(Key::here(crate::catalog::rows::catalog_tables::catalog_oids()?.extension, id))
}

impl Entry {
    #[inline(always)]
    pub fn increment(&self) -> i64 {
        self.terms.get().mapping.increment
    }

    /// Whether it is served from [`own_slice`](Self::own_slice) now.
    pub fn has_own_slice(&self) -> bool {
        self.own_slice.get().is_some_and(|own| std::ptr::eq(own, self.slice.get()))
    }

    /// A slice in this process's memory, which no other process sees.
    pub fn own_slice(&self) -> Result<&'static Slice, HiloError> {
        if let Some(slice) = self.own_slice.get() {
            return Ok(slice);
        }
        let slice = alloc_static(Slice::new())?;
        self.own_slice.set(Some(slice));
        Ok(slice)
    }

    /// The slot whose pool serves it.
    #[inline(always)]
    pub fn slot(&self) -> Option<&'static Slot> {
        match self.supply.get() {
            Supply::Pool(slot) => Some(slot),
            Supply::Own(_) => None,
        }
    }

    pub fn mapping(&self) -> Mapping {
        self.terms.get().mapping
    }

    /// The index space of what the entry's slot serves; `None` while it has no slot.
    pub fn index_space(&self) -> Option<IndexSpace> {
        self.slot()?;
        Some(IndexSpace {
            key: Key::here(self.extension, self.id),
            node: self.terms.get().mapping.stripes.node as i32,
            epoch: self.epoch.get(),
        })
    }
}
