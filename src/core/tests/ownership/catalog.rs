//! The sequence in the catalog, in memory and in the hands of clients, and how the catalog is kept
//! up to date with memory.

/// So many indexes the sequence has, a block has, and a promotion skips.
pub const LIMIT: u8 = 3;
pub const BLOCK: u8 = 2;
pub const SKIP: u8 = 2;

/// A set of indexes.
pub type Set = u8;

pub fn range(start: u8, end: u8) -> Set {
    (0..LIMIT).filter(|at| (start..end).contains(at)).map(|at| 1 << at).sum()
}

pub fn lowest(set: Set) -> Set {
    set & set.wrapping_neg()
}

/// The parts of `set` without an index between them, as the rows of a table.
pub fn rows(set: Set) -> impl Iterator<Item = Set> {
    let starts = (0..LIMIT).filter(move |&at| set & !(set << 1) & range(at, at + 1) != 0);
    starts.map(move |start| {
        let end = (start..LIMIT).find(|&at| set & range(at, at + 1) == 0).unwrap_or(LIMIT);
        range(start, end)
    })
}

/// `_hilo.hilo_position`, of one node and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    pub next: u8,
    pub settled: u8,
    /// The life whose memory may hold what is lent, and what lies from `settled` to `next`; 0:
    /// none.
    pub life: u8,
    pub timeline: u8,
}

/// A row of `_hilo.hilo_lease`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub range: Set,
    /// The part that its holder says it has not used.
    pub rest: Set,
    pub ended: Option<Ended>,
    pub timeline: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    Returned,
    /// Or expired.
    Revoked,
}

/// The committed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Catalog {
    pub position: Position,
    /// `_hilo.hilo_free_range`: the rows of no life, and those of one.
    pub free: Set,
    pub lent: Set,
    /// `_hilo.hilo_gap`: how many rows have each index.
    pub gaps: [u8; LIMIT as usize],
    pub lease: Option<Lease>,
}

/// The lease of an open transaction (`shared::pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pending {
    None,
    Open(Set),
    /// It has committed, and has not freed its place yet.
    Committed(Set),
    /// It was rolled back.
    Dead(Set),
}

/// Shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    pub life: u8,
    /// The server's.
    pub timeline: u8,
    /// The pool: what nobody has taken yet, and what came back.
    pub block: Set,
    pub returned: Set,
    pub frozen: bool,
    pub leaving: Set,
    /// The slices of sessions, and those without one.
    pub slices: Set,
    pub orphans: Set,
    pub pending: Pending,
    /// A session has locked the row of the lease, for example to renew it.
    pub lease_locked: bool,
}

/// A transaction of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Work {
    /// The next state of the catalog, but for the lease, which is another's row unless it is filed.
    pub writes: Catalog,
    pub files: bool,
    pub to: Effect,
}

/// The part that memory learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    Reserved { block: Set, lent: Set, left: Set },
    Flushed(Set),
    WroteOrphans(Set),
    WroteOff(Set),
    Filed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Worker {
    Idle,
    Begun(Work),
    Committed { to: Effect, acknowledged: bool },
}

/// A copy of the database, made by TEMPLATE, and what had been used of the original by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Copied {
    pub catalog: Catalog,
    pub used: Set,
    pub leased: bool,
    pub said: Option<Set>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub catalog: Catalog,
    pub copied: Option<Copied>,
    /// The state of the standby, since it hears nothing any more; `None`: all.
    pub standby: Option<Catalog>,
    pub memory: Memory,
    pub worker: Worker,
    /// The indexes that clients have used, or may have.
    pub used: Set,
    /// There is one lease in all.
    pub leased: bool,
    /// The part that its holder has given back. It says the same again if it hears no answer.
    pub said: Option<Set>,
    /// Whether a client got what a client had used.
    pub twice: bool,
    pub failures: u8,
}

impl Memory {
    pub fn new(life: u8, timeline: u8) -> Memory {
        Memory {
            life,
            timeline,
            block: 0,
            returned: 0,
            frozen: false,
            leaving: 0,
            slices: 0,
            orphans: 0,
            pending: Pending::None,
            lease_locked: false,
        }
    }

    pub fn pending(&self) -> Set {
        match self.pending {
            Pending::None => 0,
            Pending::Open(set) | Pending::Committed(set) | Pending::Dead(set) => set,
        }
    }

    /// The indexes that may still be served.
    pub fn may_serve(&self) -> Set {
        self.block | self.returned | self.leaving | self.slices | self.orphans
    }

    /// `Shared::in_memory`
    pub fn all(&self) -> Set {
        self.may_serve() | self.pending()
    }
}

impl Catalog {
    /// `gaps::record`: one row.
    pub fn write_off(&mut self, lost: Set) {
        for at in 0..LIMIT {
            self.gaps[at as usize] += u8::from(lost & range(at, at + 1) != 0);
        }
    }

    pub fn lease_set(&self) -> Set {
        self.lease.map_or(0, |lease| lease.range)
    }

    /// The indexes that the memory of the position's life may hold, for all that the catalog knows.
    pub fn in_memory(&self) -> Set {
        let Position { settled, next, life, .. } = self.position;
        let held = if life == 0 { 0 } else { self.lent | range(settled, next) };
        held & !self.free & !self.lease_set()
    }

    /// `Owned::take_over` with `ranges::write_off_memory`, `ranges::write_off` and `takeover::skip`
    pub fn take_over(&mut self, memory: &Memory, skip: u8) {
        let lacks = self.position.timeline != memory.timeline;
        if self.position.life != memory.life {
            self.write_off(self.in_memory());
            self.lent = 0;
            if lacks && skip > 0 {
                self.write_off(self.free);
                self.free = 0;
            }
            self.position.life = memory.life;
            self.position.settled = self.position.next;
        }
        if lacks {
            let end = (self.position.next + skip).min(LIMIT);
            self.write_off(range(self.position.next, end));
            (self.position.next, self.position.settled) = (end, end);
            self.position.timeline = memory.timeline;
        }
    }

    /// `Owned::account`; `always` is `LentRows::Always`.
    pub fn account(&mut self, held: Set, untaken: Set, always: bool) {
        let Position { next, settled, .. } = self.position;
        let start = |set: Set| if set == 0 { next } else { set.trailing_zeros() as u8 };
        let taken_to = start(untaken).min(next).max(settled);
        let lowest = start(held & range(settled, next));
        let held_back = lowest == settled && lowest < taken_to;
        if always || held_back {
            self.position.settled = taken_to;
            self.lent = held & range(0, taken_to);
        } else {
            self.position.settled = lowest;
            self.lent = rows(self.lent).filter(|row| row & held != 0).sum();
        }
    }

    /// `ranges::lower`
    pub fn lower(&mut self) {
        if let Some(top) = rows(self.free).find(|row| {
            row & range(0, self.position.next) == *row
                && row & range(self.position.next.wrapping_sub(1), self.position.next) != 0
        }) {
            self.free &= !top;
            self.position.next = top.trailing_zeros() as u8;
            self.position.settled = self.position.settled.min(self.position.next);
        }
    }
}
