//! The counts of a sequence on a node that are kept for good: written with its position, from which
//! a slot counts on.

/// How many counters there are.
pub const COUNT: usize = 9;

/// The counters, in the order of the columns of `_hilo.position` from `served` on.
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
    pub fn of(counters: [i64; COUNT]) -> Totals {
        let [served, slices, blocks_reserved, blocks_prefetched, waits, ..] = counters;
        let [.., wait_time, recycled, lost, errors] = counters;
        Totals {
            served,
            slices,
            blocks_reserved,
            blocks_prefetched,
            waits,
            wait_time,
            recycled,
            lost,
            errors,
        }
    }

    pub fn counters(&self) -> [i64; COUNT] {
        let Totals { served, slices, blocks_reserved, blocks_prefetched, .. } = *self;
        let Totals { waits, wait_time, recycled, lost, errors, .. } = *self;
        [
            served,
            slices,
            blocks_reserved,
            blocks_prefetched,
            waits,
            wait_time,
            recycled,
            lost,
            errors,
        ]
    }

    pub fn plus(&self, more: &Totals) -> Totals {
        let (mine, more) = (self.counters(), more.counters());
        Totals::of(std::array::from_fn(|counter| mine[counter].saturating_add(more[counter])))
    }
}
