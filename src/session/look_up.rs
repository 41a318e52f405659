//! Looks a name up: finds the sequence in the catalog, and attaches to its slot or to what this transaction
//! has defined.

use std::sync::atomic::{AtomicU64, Ordering::*};

use pgrx::pg_sys;

use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::options::Definition;

use super::memo::{Entry, Meaning, Memo, OWN_VERSION, entry_for, find, key_of, remember};
use super::wait::Learned;
use super::{auto_create, gapless, invalidation, slice_table, uncommitted, wait};
use crate::backend::names_version;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::missing;
use crate::catalog::privileges::{self, Privileges};
use crate::errors::HiloError;
use crate::ffi;
use crate::gucs;
use crate::shared;
use crate::shared::slot::Slot;

/// The memo of a name, good for the current user, who has one of the privileges in `needs`.
///
/// # Errors
/// `NotPreloaded`, `NotInstalled`, `Recovery`, `NoSuchSequence`, `Permission`, and the errors of waiting for
/// the worker.
pub fn look_up(
    name: &[u8],
    needs: Privileges,
) -> Result<(&'static Memo, &'static Entry), HiloError> {
    let memo = match find(name) {
        Some(memo) if memo.is_good() => memo,
        known => resolve(name, known, needs)?,
    };
    match memo.entry() {
        Some(entry) if memo.allows(needs) => Ok((memo, entry)),
        _ => Err(privileges::denied(&memo.name, needs, memo.privileges())),
    }
}

fn find_sequence(name: &[u8]) -> Result<Sequence, HiloError> {
    if let Some(found) = definitions::by_name(name)? {
        return Ok(found);
    }
    if gucs::auto_create() {
        privileges::may_create()?;
        auto_create::create(name)?;
    }
    definitions::by_name(name)?.ok_or_else(|| missing::to_create(name))
}

fn resolve(
    name: &[u8],
    known: Option<&'static Memo>,
    needs: Privileges,
) -> Result<&'static Memo, HiloError> {
    super::prepare();
    // SAFETY: reads a flag in shared memory, to which every backend is attached.
    if unsafe { pg_sys::RecoveryInProgress() } {
        return Err(HiloError::Recovery("hilo_nextval"));
    }
    loop {
        pgrx::check_for_interrupts!();
        // Read before the look-up: a definition that changes meanwhile raises the counter.
        let definitions = definitions_version();
        let definitions_at = definitions.load(SeqCst);
        let names_at = names_version();
        let user = ffi::current_user();
        let sequence = find_sequence(name)?;
        let held = privileges::of(&sequence, user)?;
        if held == Privileges::NONE {
            return Err(privileges::denied(&sequence.name, needs, held));
        }
        let entry = entry_for((crate::catalog::catalog_oids()?.extension, sequence.id))?;
        let (version_at, version, narrowed) = if sequence.definition.gapless {
            gapless::attach(entry, &sequence);
            (std::ptr::from_ref(definitions), definitions_at, false)
        } else if invalidation::in_progress() && uncommitted::adopt(entry, &sequence)? {
            (&raw const OWN_VERSION, 0, false)
        } else {
            let attached = attach(entry, &sequence)?;
            let Some(Attached { slot, version, narrowed }) = attached else { continue };
            (&raw const slot.version, version, narrowed)
        };
        if definitions.load(SeqCst) != definitions_at || names_version() != names_at {
            continue;
        }
        let memo = match known.or_else(|| find(name)) {
            Some(memo) => memo,
            None => remember(name)?,
        };
        memo.renew(Meaning {
            entry,
            version_at,
            version,
            // A narrowed memo is good for this call only.
            names_version: if narrowed { 0 } else { names_at },
            user,
            privileges: held,
            key_format: sequence.definition.parsed_key_format(),
        });
        return Ok(memo);
    }
}

/// Raised by every commit that changes a definition. Without shared memory no definition is changed.
fn definitions_version() -> &'static AtomicU64 {
    shared::get().map_or(&OWN_VERSION, |shared| &shared.control.definitions)
}

/// What a memo that is served from the pool is attached to.
struct Attached {
    slot: &'static Slot,
    version: u64,
    /// The definition allows less than the pool serves, as in a transaction that has changed the bounds and
    /// not committed: each value must be checked.
    narrowed: bool,
}

/// Finds the sequence's slot, waits until the worker has read its terms, and copies them into the entry. `None`: the
/// worker no longer serves the sequence, which has been dropped or become gapless.
fn attach(entry: &'static Entry, sequence: &Sequence) -> Result<Option<Attached>, HiloError> {
    let shared = shared::get()?;
    slice_table::register_session(shared);
    wait::wake_once(shared);
    let (slot, pin) = wait::for_slot(shared, &key_of(sequence.id)?)?;
    let name = sequence.name.to_string();
    let learned = match wait::for_terms(shared, slot, &name) {
        Err(HiloError::NoSuchSequence { .. }) => {
            drop(pin);
            shared.free(shared.number_of(slot));
            return Ok(None);
        }
        learned => learned?,
    };
    let Learned { mut terms, epoch, serial, version } = learned;
    let narrowed = narrow(&mut terms.mapping, &sequence.definition);
    let known = entry.terms.get().mapping;
    // The slot may have been evicted and filled again meanwhile. With the same epoch and node, the numbers
    // are the same.
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
    entry.slot.set(Some(slot));
    entry.gapless.set(false);
    entry.serial.set(serial);
    entry.epoch.set(epoch);
    entry.terms.set(terms);
    Ok(Some(Attached { slot, version, narrowed }))
}

/// Narrows a mapping to what a definition allows too. Returns whether that is less.
fn narrow(mapping: &mut Mapping, definition: &Definition) -> bool {
    let before = *mapping;
    if !mapping.cycle {
        mapping.min_value = mapping.min_value.max(definition.min_value);
        mapping.max_value = mapping.max_value.min(definition.max_value);
    }
    *mapping != before
}
