//! A pin: while a slot has one, it is not given to another sequence.

use std::ops::Deref;
use std::sync::atomic::Ordering::*;

use super::slot::Slot;

/// A slot that is pinned until this is dropped.
pub struct Pinned(&'static Slot);

impl Pinned {
    pub fn new(slot: &'static Slot) -> Pinned {
        slot.pins.fetch_add(1, SeqCst);
        Pinned(slot)
    }

    /// The slot, with a pin that the caller must release with [`unpin`].
    pub fn into_slot(self) -> &'static Slot {
        let slot = self.0;
        std::mem::forget(self);
        slot
    }

    /// The slot, with a lifetime that does not depend on the pin.
    pub fn slot(&self) -> &'static Slot {
        self.0
    }
}

impl Deref for Pinned {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        self.0
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        unpin(self.0);
    }
}

/// Releases a pin that [`Pinned::into_slot`] has left to the caller.
pub fn unpin(slot: &Slot) {
    slot.pins.fetch_sub(1, SeqCst);
}
