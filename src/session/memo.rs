//! What a name means to this backend: which sequence, how it is numbered, what the user may do.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::*};

use pgrx::pg_sys;
use rustc_hash::FxHashMap;

use hilo_core::key_format::{Frame, KeyFormat};
use hilo_core::mapping::Mapping;
use hilo_core::options::Definition;

use super::{GENERATION, Global, ask, lines, own, wait};
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::name::shown;
use crate::catalog::privileges::{self, Privileges};
use crate::errors::HiloError;
use crate::ffi;
use crate::gucs;
use crate::shared;
use crate::shared::directory::Key;
use crate::shared::slices::{Counting, Slice};
use crate::shared::slot::{Slot, Terms};
use crate::sql::keys;

/// A sequence that this backend has used. Made once and never freed: what a session was told last is
/// remembered for as long as it lasts, as core does. What a call needs lies together, since who uses
/// thousands of sequences pays for each cache line.
#[repr(C, align(64))]
pub struct Entry {
    /// Where it is served from; `None` while the transaction that defined it serves itself.
    pub slot: Cell<Option<&'static Slot>>,
    pub serial: Cell<i64>,
    /// Where the next value comes from; an empty one where this backend holds no slice.
    pub slice: Cell<&'static Slice>,
    pub last: Cell<Option<i64>>,
    /// The smallest index that this session may still be served of the epoch.
    pub floor: Cell<i64>,
    /// When it last took from the pool, counted in draws of this backend.
    pub drawn_at: Cell<u64>,
    pub terms: Cell<Terms>,
    /// The size of the last slice.
    pub grown: Cell<i32>,
    extension: pg_sys::Oid,
    pub epoch: Cell<i64>,
    pub id: i64,
}

/// A name, as looked up by one user. Laid out as an entry is.
#[repr(C, align(64))]
pub struct Memo {
    pub name: Box<[u8]>,
    entry: Cell<Option<&'static Entry>>,
    version_at: Cell<*const AtomicU64>,
    version: Cell<u64>,
    generation: Cell<u64>,
    user: Cell<pg_sys::Oid>,
    privileges: Cell<Privileges>,
    pub key_format: RefCell<KeyFormat>,
    /// The prefix, and all of a key but its value.
    keys: RefCell<Option<(Box<[u8]>, Frame)>>,
}

/// The version of what only this transaction knows.
static OWN_VERSION: AtomicU64 = AtomicU64::new(0);

type Memos = FxHashMap<&'static [u8], &'static Memo>;
type Entries = FxHashMap<(pg_sys::Oid, i64), &'static Entry>;

static MEMOS: Global<RefCell<Option<Memos>>> = Global::new(RefCell::new(None));
static ENTRIES: Global<RefCell<Option<Entries>>> = Global::new(RefCell::new(None));
static LAST: Global<Cell<Option<(&'static Memo, &'static Entry)>>> = Global::new(Cell::new(None));

impl Memo {
    /// Whether it still holds, for the user of now.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        // SAFETY: points to a slot's version or to `OWN_VERSION`, both there for good; null only while
        // the generation is 0.
        self.generation.get() == GENERATION.get()
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

    pub fn name(&self) -> String {
        shown(&self.name)
    }

    /// What the keys are made with under this server prefix, if that was asked for last.
    #[inline(always)]
    pub fn key_frame(&'static self, prefix: &[u8]) -> Option<&'static Frame> {
        // SAFETY: replaced by `frame_keys` and `resolve` only, and no caller keeps it as far as there.
        let (made_with, frame) = unsafe { self.keys.try_borrow_unguarded() }.ok()?.as_ref()?;
        (**made_with == *prefix).then_some(frame)
    }

    /// Makes what the keys are made with under this prefix, which has been checked.
    pub fn frame_keys(&self, format: &KeyFormat, prefix: &[u8]) {
        self.keys.replace(Some((prefix.into(), format.frame(&self.name, prefix))));
    }

    /// The version of the slot that it was made with; for a pin to be compared with.
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// The next call looks the name up again.
    pub fn forget(&self) {
        self.generation.set(0);
    }

    /// Remembers a value as the last of this session.
    #[inline(always)]
    pub fn served(&'static self, entry: &'static Entry, value: i64) {
        entry.last.set(Some(value));
        LAST.set(Some((self, entry)));
    }
}

/// What `hilo_lastval` asks for.
pub fn last_used() -> Option<(&'static Memo, &'static Entry)> {
    LAST.get()
}

/// The value that this session was given last of a sequence.
pub fn last_of(id: i64) -> Option<i64> {
    let key = (crate::catalog::ids().ok()?.extension, id);
    ENTRIES.borrow().as_ref()?.get(&key)?.last.get()
}

/// Remembers a value as the one given last, as setval does; `hilo_lastval` does not tell it.
pub fn set_last(id: i64, value: i64) {
    let Ok(ids) = crate::catalog::ids() else { return };
    if let Ok(entry) = entry_for((ids.extension, id)) {
        entry.last.set(Some(value));
    }
}

/// As DISCARD SEQUENCES: currval and lastval are undefined again.
pub fn forget_last() {
    LAST.set(None);
    if let Some(entries) = ENTRIES.borrow().as_ref() {
        entries.values().for_each(|entry| entry.last.set(None));
    }
}

/// The memo of a name, which may be out of date. Calls nothing of Postgres.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Memo> {
    MEMOS.try_borrow().ok()?.as_ref()?.get(name).copied()
}

/// The memo of a name, good for the user of now, who has one of `needs`.
///
/// # Errors
/// `NotPreloaded`, `NotInstalled`, `Recovery`, `NoSuchSequence`, `Permission`, and what waiting for the
/// worker can end with.
pub fn look_up(
    name: &[u8],
    needs: Privileges,
) -> Result<(&'static Memo, &'static Entry), HiloError> {
    let memo = match find(name) {
        Some(memo) if memo.is_good() => memo,
        known => resolve(name, known)?,
    };
    match memo.entry() {
        Some(entry) if memo.allows(needs) => Ok((memo, entry)),
        _ => Err(HiloError::Permission { name: memo.name(), needs: needs.needed() }),
    }
}

fn find_sequence(name: &[u8]) -> Result<Sequence, HiloError> {
    if let Some(found) = definitions::by_name(name)? {
        return Ok(found);
    }
    if gucs::auto_create() {
        privileges::may_create()?;
        ask::create(name)?;
    }
    definitions::existing(name)
}

fn resolve(name: &[u8], known: Option<&'static Memo>) -> Result<&'static Memo, HiloError> {
    let shared = shared::get()?;
    super::prepare();
    // SAFETY: reads a flag of shared memory.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(HiloError::Recovery("hilo_nextval"));
    }
    loop {
        // Read before the look-up: a definition that changes meanwhile raises it.
        let definitions_at = shared.control.definitions.load(SeqCst);
        let generation = GENERATION.get();
        let user = ffi::current_user();
        let sequence = find_sequence(name)?;
        let privileges = privileges::of(&sequence, user)?;
        if privileges == Privileges::NONE {
            let needs = Privileges::ALL.needed();
            return Err(HiloError::Permission { name: sequence.name.to_string(), needs });
        }
        let entry = entry_for((crate::catalog::ids()?.extension, sequence.id))?;
        let (version_at, version, narrowed) = if own::adopt(entry, &sequence)? {
            (&raw const OWN_VERSION, 0, false)
        } else {
            let Attached { slot, version, narrowed } = attach(entry, &sequence)?;
            (&raw const slot.version, version, narrowed)
        };
        if shared.control.definitions.load(SeqCst) != definitions_at
            || GENERATION.get() != generation
        {
            continue;
        }
        let memo = match known.or_else(|| find(name)) {
            Some(memo) => memo,
            None => remember(name)?,
        };
        memo.entry.set(Some(entry));
        memo.version_at.set(version_at);
        memo.version.set(version);
        memo.user.set(user);
        memo.privileges.set(privileges);
        memo.key_format.replace(keys::format_of(&sequence.definition));
        memo.keys.replace(None);
        // One that is narrowed is good for this call alone.
        memo.generation.set(if narrowed { 0 } else { generation });
        return Ok(memo);
    }
}

/// Memory that is never freed. The standard library would end the process, and so the server, where
/// there is none.
fn kept<T>(value: T) -> Result<&'static T, HiloError> {
    // SAFETY: neither type that is kept is of size 0; what was allocated is written before it is read.
    unsafe {
        let place = std::alloc::alloc(std::alloc::Layout::new::<T>()) as *mut T;
        if place.is_null() {
            return Err(HiloError::OutOfMemory);
        }
        place.write(value);
        Ok(&*place)
    }
}

fn remember(name: &[u8]) -> Result<&'static Memo, HiloError> {
    let mut memos = MEMOS.borrow_mut();
    let memos = memos.get_or_insert_default();
    memos.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
    let memo = kept(Memo {
        name: name.into(),
        entry: Cell::new(None),
        version_at: Cell::new(&raw const OWN_VERSION),
        version: Cell::new(0),
        generation: Cell::new(0),
        user: Cell::new(pg_sys::InvalidOid),
        privileges: Cell::new(Privileges::NONE),
        key_format: RefCell::default(),
        keys: RefCell::default(),
    })?;
    memos.insert(&memo.name, memo);
    Ok(memo)
}

fn entry_for(key: (pg_sys::Oid, i64)) -> Result<&'static Entry, HiloError> {
    let mut entries = ENTRIES.borrow_mut();
    let entries = entries.get_or_insert_default();
    if let Some(entry) = entries.get(&key) {
        return Ok(entry);
    }
    entries.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
    let entry = kept(Entry {
        id: key.1,
        slot: Cell::new(None),
        serial: Cell::new(0),
        terms: Cell::new(Terms::UNKNOWN),
        slice: Cell::new(lines::empty()),
        grown: Cell::new(0),
        drawn_at: Cell::new(0),
        floor: Cell::new(0),
        extension: key.0,
        epoch: Cell::new(0),
        last: Cell::new(None),
    })?;
    entries.insert(key, entry);
    Ok(entry)
}

/// The key of a sequence of this database.
pub fn key_of(id: i64) -> Result<Key, HiloError> {
    // SAFETY: a static set when the backend connected.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    Ok(Key { database, extension: crate::catalog::ids()?.extension.to_u32(), sequence: id })
}

/// Where a memo that is served from the pool has attached to.
struct Attached {
    slot: &'static Slot,
    version: u64,
    /// The definition allows less than the pool deals, as that of a transaction that has changed the
    /// bounds and has not committed: each value must be looked at.
    narrowed: bool,
}

/// Finds the sequence's slot, waits until the worker has read its terms, and takes them over.
fn attach(entry: &'static Entry, sequence: &Sequence) -> Result<Attached, HiloError> {
    let shared = shared::get()?;
    wait::wake_once(shared);
    let (slot, _pin) = wait::for_slot(shared, &key_of(sequence.id)?)?;
    let (mut terms, epoch, serial, version) =
        wait::for_terms(shared, slot, &sequence.name.to_string())?;
    let narrowed = narrow(&mut terms.mapping, &sequence.definition);
    let known = entry.terms.get().mapping;
    // The slot may have been put back and filled again meanwhile: the numbers are the same ones.
    let same = entry.epoch.get() == epoch && known.stripes.node == terms.mapping.stripes.node;
    if lines::has_line(entry) && (!same || narrowed || terms.ordered || known != terms.mapping) {
        lines::let_go(entry);
    }
    if !same {
        entry.floor.set(0);
        entry.grown.set(0);
    }
    entry.slot.set(Some(slot));
    entry.serial.set(serial);
    entry.epoch.set(epoch);
    entry.terms.set(terms);
    Ok(Attached { slot, version, narrowed })
}

/// Leaves of a mapping what a definition allows, too. Whether that is less.
fn narrow(mapping: &mut Mapping, definition: &Definition) -> bool {
    let before = *mapping;
    if !mapping.cycle {
        mapping.min_value = mapping.min_value.max(definition.min_value);
        mapping.max_value = mapping.max_value.min(definition.max_value);
    }
    *mapping != before
}

impl Entry {
    #[inline(always)]
    pub fn increment(&self) -> i64 {
        self.terms.get().mapping.increment
    }

    pub fn mapping(&self) -> Mapping {
        self.terms.get().mapping
    }

    /// How the indexes are counted that it is dealt from its slot.
    pub fn counting(&self) -> Option<Counting> {
        self.slot.get()?;
        // SAFETY: a static set when the backend connected.
        let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
        Some(Counting {
            key: Key { database, extension: self.extension.to_u32(), sequence: self.id },
            node: self.terms.get().mapping.stripes.node as i32,
            epoch: self.epoch.get(),
        })
    }
}
