//! A pin: while a slot has one, it is not given to another sequence.

use std::ops::Deref;
use std::sync::atomic::Ordering::*;

use crate::shared::slot::Slot;

/// A slot that is pinned until this is dropped.
pub struct Pinned(&'static Slot);

impl Pinned {
    pub fn new(slot: &'static Slot) -> Pinned {
        slot.pins.fetch_add(1, SeqCst);
        Pinned(slot)
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
        self.0.pins.fetch_sub(1, SeqCst);
    }
}
