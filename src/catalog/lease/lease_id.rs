//! The names of leases: random uuids.

use pgrx::pg_sys;

use crate::catalog::rows::record::Field;

/// The name of a lease, which nobody can guess.
pub type LeaseId = [u8; 16];

/// A random version 4 uuid.
pub fn random() -> LeaseId {
    let mut id = [0u8; 16];
    // SAFETY: it writes as many bytes as the array has.
    if !unsafe { pg_sys::pg_strong_random(id.as_mut_ptr().cast(), id.len()) } {
        pgrx::error!("could not generate a random number");
    }
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    id
}

/// The name in a uuid datum.
pub fn id_of(datum: pg_sys::Datum) -> LeaseId {
    let mut id = [0; 16];
    // SAFETY: the callers pass a uuid: 16 bytes, passed by reference.
    unsafe { std::ptr::copy_nonoverlapping(datum.cast_mut_ptr::<u8>(), id.as_mut_ptr(), 16) };
    id
}

/// A uuid datum in the current memory context.
pub fn uuid_datum(id: &LeaseId) -> pg_sys::Datum {
    // SAFETY: the copy has as many bytes as a uuid.
    unsafe {
        let copy = pg_sys::palloc(id.len()).cast::<u8>();
        std::ptr::copy_nonoverlapping(id.as_ptr(), copy, id.len());
        copy.into()
    }
}

impl Field for LeaseId {
    fn read(datum: pg_sys::Datum) -> Option<LeaseId> {
        Some(id_of(datum))
    }

    fn datum(&self) -> Option<pg_sys::Datum> {
        Some(uuid_datum(self))
    }
}

/// The name of a lease, as SQL prints it.
pub fn display(id: &LeaseId) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    [&id[..4], &id[4..6], &id[6..8], &id[8..10], &id[10..]].map(hex).join("-")
}
