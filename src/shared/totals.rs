//! The counts of a sequence on a node that outlive its slot. They are written with its position,
//! and the next slot of the sequence continues them.

/// The counters, each a column of `_hilo.hilo_position`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Totals {
    pub served: i64,
    pub slices: i64,
    pub blocks_reserved: i64,
    pub blocks_prefetched: i64,
    pub waits: i64,
    /// In microseconds.
    pub wait_time: i64,
    pub recycled: i64,
    pub lost: i64,
    pub errors: i64,
}

impl Totals {
    pub fn plus(&self, more: &Totals) -> Totals {
        let sum = |of: fn(&Totals) -> i64| of(self).saturating_add(of(more));
        Totals {
            served: sum(|of| of.served),
            slices: sum(|of| of.slices),
            blocks_reserved: sum(|of| of.blocks_reserved),
            blocks_prefetched: sum(|of| of.blocks_prefetched),
            waits: sum(|of| of.waits),
            wait_time: sum(|of| of.wait_time),
            recycled: sum(|of| of.recycled),
            lost: sum(|of| of.lost),
            errors: sum(|of| of.errors),
        }
    }
}
