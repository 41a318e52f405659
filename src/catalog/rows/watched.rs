//! The relations whose INSERT privilege has let this session draw. After a change of one of them
//! the session checks its rights again.

use std::cell::RefCell;

use pgrx::pg_sys;
use rustc_hash::FxHashSet;

use crate::backend::Global;
use crate::errors::HiloError;

static WATCHED: Global<RefCell<Option<FxHashSet<u32>>>> = Global::new(RefCell::new(None));

pub fn contains(relid: pg_sys::Oid) -> bool {
    let watched = WATCHED.try_borrow();
    watched.is_ok_and(|watched| watched.as_ref().is_some_and(|all| all.contains(&relid.to_u32())))
}

/// Adds a relation. To be called before its privileges are read.
pub fn add(relid: pg_sys::Oid) -> Result<(), HiloError> {
    let mut watched = WATCHED.borrow_mut();
    let watched = watched.get_or_insert_default();
    watched.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
    watched.insert(relid.to_u32());
    Ok(())
}
