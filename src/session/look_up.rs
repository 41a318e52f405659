//! Looks a name up: finds the sequence in the catalog, and attaches to its slot or to what this
//! transaction has defined.

use std::sync::atomic::{AtomicU64, Ordering::*};

use pgrx::pg_sys;

use hilo_core::key_format::KeyFormat;
use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::options::Definition;

use crate::backend::names_version;
use crate::catalog::rights::missing;
use crate::catalog::rights::privileges::{self, HeldPrivileges, Privileges};
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::catalog::sequence::{node, numbering};
use crate::citus;
use crate::errors::HiloError;
use crate::gucs;
use crate::process::ffi;
use crate::session::names::{
    CachedName, Entry, OWN_VERSION, ResolvedName, Supply, entry_for, find, key_of, remember,
};
use crate::session::wait::{Learned, Pin};
use crate::session::{
    auto_create, gapless, in_doubt, invalidation, slice_table, uncommitted, wait,
};
use crate::shared;
use crate::shared::pin::Pinned;
use crate::shared::shared_name::SharedName;
use crate::shared::slot::Slot;

/// The cached name, good for the current user, who has one of the privileges in `needs`.
///
/// # Errors
/// `NotPreloaded`, `ParallelWorker`, `NotInstalled`, `Recovery`, `NoSuchSequence`, `Permission`,
/// and the errors of waiting for the worker.
pub fn look_up(
    name: &[u8],
    needs: Privileges,
) -> Result<(&'static CachedName, &'static Entry), HiloError> {
    let cached = match find(name) {
        Some(cached) if cached.is_good() => cached,
        known => resolve(name, known, needs)?,
    };
    match cached.entry() {
        Some(entry) if cached.allows(needs) => Ok((cached, entry)),
        _ => {
            let needs = needs.without(Privileges::INSERT);
            Err(privileges::denial(cached.name_bytes(), needs, cached.privileges()))
        }
    }
}

fn find_sequence(name: &[u8]) -> Result<Sequence, HiloError> {
    if let Some(found) = definitions::by_name(name)? {
        return Ok(found);
    }
    // Without shared memory no sequence can be created either, so that is the error to report.
    shared::get()?;
    if gucs::auto_create() {
        privileges::may_create()?;
        node::LocalNode::read()?;
        node::check_set(gucs::node_count())?;
        numbering::check_begins(name, gucs::node_count())?;
        // The new sequence may be dropped or renamed at once.
        const ATTEMPTS: usize = 3;
        for _ in 0..ATTEMPTS {
            auto_create::create(name)?;
            if let Some(found) = definitions::by_name(name)? {
                return Ok(found);
            }
        }
    }
    Err(missing::to_create(name))
}

fn resolve(
    name: &[u8],
    known: Option<&'static CachedName>,
    needs: Privileges,
) -> Result<&'static CachedName, HiloError> {
    crate::session::refuse_parallel_worker("hilo_nextval")?;
    crate::session::prepare();
    // SAFETY: reads a flag in shared memory, to which every backend is attached.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(HiloError::Recovery("hilo_nextval"));
    }
    if !invalidation::in_progress()
        && let Some(cached) = by_shared_name(name, known, needs)?
    {
        return Ok(cached);
    }
    loop {
        pgrx::check_for_interrupts!();
        // Read before the look-up: a definition that changes in between raises the counter.
        let definitions = definitions_version();
        let definitions_at = definitions.load(SeqCst);
        let names_at = names_version();
        let user = ffi::current_user();
        let sequence = match find_sequence(name) {
            Err(HiloError::Replaced) => continue,
            found => found?,
        };
        if in_doubt::wait(sequence.id)? {
            continue;
        }
        let held = HeldPrivileges::read(&sequence, user)?;
        let privileges = held.with_inserts(&sequence, user)?;
        if privileges == Privileges::NONE {
            let none = Privileges::NONE;
            let insert = if sequence.owned_by.is_some() { none } else { Privileges::INSERT };
            return Err(privileges::denial(&sequence.name, needs.without(insert), none));
        }
        let node = node::serves(&sequence)?.id;
        let entry = entry_for((
            crate::catalog::rows::catalog_tables::catalog_oids()?.extension,
            sequence.id,
        ))?;
        let Some(validity) = attach(entry, &sequence, node, definitions_at)? else { continue };
        let shared_name = shared_name_of(entry, &sequence, &validity, &held);
        if definitions.load(SeqCst) != definitions_at || names_version() != names_at {
            continue;
        }
        if let Some((slot, shared_name)) = shared_name {
            shared::get()?.put_up(ffi::database().to_u32(), slot, validity.version, shared_name);
        }
        let definition = &sequence.definition;
        let resolved = ResolvedName {
            entry,
            version_at: validity.version_at,
            version: validity.version,
            // A narrowed one is good for this call only.
            names_version: if validity.narrowed { 0 } else { names_at },
            user,
            privileges,
            key_format: definition.key_format.as_ref().map(|_| definition.parsed_key_format()),
        };
        return renew(name, known, resolved);
    }
}

/// The version that says how long what was attached to an entry is good.
struct Validity {
    version_at: *const AtomicU64,
    version: u64,
    /// The definition allows less than the pool serves, as in a transaction that has changed the
    /// bounds and not committed: each value must be checked.
    narrowed: bool,
}

/// Attaches the entry to the count of a gapless sequence, to what this transaction has defined, or
/// to the slot. `definitions_at`: the version of all definitions before the look-up. `None`: the
/// name is to be looked up again.
fn attach(
    entry: &'static Entry,
    sequence: &Sequence,
    node: i32,
    definitions_at: u64,
) -> Result<Option<Validity>, HiloError> {
    if sequence.definition.gapless {
        if invalidation::in_progress() {
            uncommitted::refuse_made_gapless(sequence)?;
        }
        gapless::attach(entry, sequence);
        let version_at = std::ptr::from_ref(definitions_version());
        return Ok(Some(Validity { version_at, version: definitions_at, narrowed: false }));
    }
    if invalidation::in_progress() && uncommitted::adopt(entry, sequence)? {
        let version_at = &raw const OWN_VERSION;
        return Ok(Some(Validity { version_at, version: 0, narrowed: false }));
    }
    attach_to_slot(entry, sequence, node)
}

fn renew(
    name: &[u8],
    known: Option<&'static CachedName>,
    resolved: ResolvedName,
) -> Result<&'static CachedName, HiloError> {
    let cached = match known.or_else(|| find(name)) {
        Some(cached) => cached,
        None => remember(name)?,
    };
    cached.renew(resolved)?;
    Ok(cached)
}

/// The shared name for other sessions. `None`: they might find something else, or it has no room.
fn shared_name_of(
    entry: &Entry,
    sequence: &Sequence,
    validity: &Validity,
    held: &HeldPrivileges,
) -> Option<(&'static Slot, SharedName)> {
    let Supply::Pool(slot) = entry.supply.get() else { return None };
    // SAFETY: reads a static of xact.c.
    let wrote = unsafe { pg_sys::GetTopTransactionIdIfAny() } != pg_sys::InvalidTransactionId;
    // Where Citus may make this server a worker, each session looks whether that serves it.
    let may_end = citus::is_here() && sequence.definition.source.is_none();
    if wrote || validity.narrowed || invalidation::in_progress() || may_end {
        return None;
    }
    // The owner has not read the grants to others; a session of theirs will.
    let granted = held.granted.as_ref().map(|granted| {
        granted.iter().map(|(role, set)| (role.to_u32(), set.bits())).collect::<Vec<_>>()
    });
    let key_format = sequence.definition.key_format.as_deref();
    let owner = sequence.owner.to_u32();
    Some((slot, SharedName::new(&sequence.name, owner, key_format, granted.as_deref())?))
}

/// A cached name made by the shared name of another session, without the catalog of hilo. `None`:
/// there is no shared name, or it does not say that the user may do what is needed.
fn by_shared_name(
    name: &[u8],
    known: Option<&'static CachedName>,
    needs: Privileges,
) -> Result<Option<&'static CachedName>, HiloError> {
    let Ok(shared) = shared::get() else { return Ok(None) };
    let (names_at, user) = (names_version(), ffi::current_user());
    let Some((slot, key, shared_name)) = shared.shared_name_of(ffi::database().to_u32(), name)
    else {
        return Ok(None);
    };
    let Some(held) =
        privileges::of_shared_name(&shared_name, user).filter(|held| held.any_of(needs))
    else {
        return Ok(None);
    };
    let entry = entry_for((pg_sys::Oid::from_u32(key.extension), key.sequence))?;
    slice_table::register_session(shared);
    wait::ensure_worker(shared);
    let _pin = Pin::keep(Pinned::new(slot));
    let locked = shared.lock_slot(shared.number_of(slot));
    let learned =
        Learned::from_locked(&locked).filter(|learned| learned.version == shared_name.version());
    drop(locked);
    let Some(learned) = learned.filter(|_| names_version() == names_at) else { return Ok(None) };
    let validity = attach_entry(entry, slot, learned, false);
    let format = shared_name.key_format().and_then(|text| KeyFormat::parse(text).ok());
    let resolved = ResolvedName {
        entry,
        version_at: validity.version_at,
        version: validity.version,
        names_version: names_at,
        user,
        privileges: held,
        key_format: format,
    };
    renew(name, known, resolved).map(Some)
}

/// Raised by every commit that changes a definition. Without shared memory no definition is
/// changed.
fn definitions_version() -> &'static AtomicU64 {
    shared::get().map_or(&OWN_VERSION, |shared| &shared.control.definitions)
}

/// Finds the sequence's slot, waits until the worker has read its terms, and copies them into the
/// entry. `None`: the worker no longer serves the sequence, which has been dropped or become
/// gapless. Ranges of another node than `node`, which this server is now, are given back first.
fn attach_to_slot(
    entry: &'static Entry,
    sequence: &Sequence,
    node: i32,
) -> Result<Option<Validity>, HiloError> {
    shared::refuse_single_user()?;
    let shared = shared::get()?;
    slice_table::register_session(shared);
    wait::ensure_worker(shared);
    let (slot, pin) = wait::for_slot(shared, &key_of(sequence.id)?)?;
    let name = sequence.name.to_string();
    let number = shared.number_of(slot);
    let mut locked = shared.lock_slot(number);
    if locked.node >= 0 && locked.node != node {
        // The worker decides. It may know of a later change than this session.
        locked.forget_terms();
    }
    drop(locked);
    let mut learned = match wait::for_terms(shared, slot, &name) {
        Err(HiloError::NoSuchSequence { .. }) => {
            drop(pin);
            shared.free(number);
            return Ok(None);
        }
        learned => learned?,
    };
    let narrowed = narrow(&mut learned.terms.mapping, &sequence.definition);
    Ok(Some(attach_entry(entry, slot, learned, narrowed)))
}

/// Copies what the worker has read into the entry.
fn attach_entry(
    entry: &'static Entry,
    slot: &'static Slot,
    learned: Learned,
    narrowed: bool,
) -> Validity {
    let Learned { terms, epoch, serial, version } = learned;
    let known = entry.terms.get().mapping;
    // The slot may have been evicted and filled again in between. With the same epoch and node, the
    // numbers are the same.
    let same = entry.epoch.get() == epoch && known.stripes.node == terms.mapping.stripes.node;
    if slice_table::has_slice(entry)
        && (!same || narrowed || terms.ordered || known != terms.mapping)
    {
        slice_table::return_slice(entry);
    }
    if !same {
        entry.floor.set(Index::ZERO);
        entry.grown.set(0);
    }
    entry.supply.set(Supply::Pool(slot));
    entry.serial.set(serial);
    entry.epoch.set(epoch);
    entry.terms.set(terms);
    Validity { version_at: &raw const slot.version, version, narrowed }
}

/// Narrows a mapping to the values that the definition also allows. Returns whether that is less.
fn narrow(mapping: &mut Mapping, definition: &Definition) -> bool {
    let before = *mapping;
    if !mapping.cycle {
        mapping.min_value = mapping.min_value.max(definition.min_value);
        mapping.max_value = mapping.max_value.min(definition.max_value);
    }
    *mapping != before
}
