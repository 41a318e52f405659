//! The server, the files and their processes, and the messages on their way.

/// So many values the sequence has, and so many a lease.
pub const LIMIT: u8 = 4;
pub const SIZE: u8 = 2;
/// The file of a process, and a copy of it.
pub const FILES: usize = 2;
/// How many leases a file has at once.
pub const RECORDS: usize = 2;
/// Leases have names: the first process has two of them, and the copy one.
pub const NAMES: usize = 3;
pub const NAMES_OF: [[u8; 2]; FILES] = [[0, 2], [2, 3]];
/// So many values of a lease may be lost when the machine crashes.
pub const SYNC_EVERY: u8 = 1;

/// A set of values.
pub type Set = u8;

pub fn one(value: u8) -> Set {
    1 << value
}

pub fn count(set: Set) -> u8 {
    set.count_ones() as u8
}

/// The last so many values of a lease.
pub fn last(mut all: Set, left: u8) -> Set {
    while count(all) > left {
        all &= all - 1;
    }
    all
}

/// The first of the last so many values of a lease, or the one behind all.
pub fn first(all: Set, left: u8) -> u8 {
    match last(all, left) {
        0 => (all.ilog2() + 1) as u8,
        rest => rest.trailing_zeros() as u8,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lease {
    #[default]
    None,
    Open(Set),
    /// Its name is still known.
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    pub next: u8,
    pub free: Set,
    pub gaps: Set,
    /// Values that a return has said were used.
    pub counted: Set,
    pub leases: [Lease; NAMES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    #[default]
    Free,
    Asked,
    Held,
    /// In the lane, by a filling of this number.
    InLane(u8),
    Returned,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    pub kind: Kind,
    pub name: u8,
    pub all: Set,
    pub left: u8,
    /// So many are left at least after a crash of the machine.
    pub floor: u8,
}

/// Whether what a file says of its place is the place where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The same file, since the same start of the machine.
    #[default]
    Same,
    /// The same file, but the machine has started anew; or a clone of the whole machine.
    Restarted,
    /// A copy.
    Copied,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct File {
    pub records: [Record; RECORDS],
    /// The records as the disk has them.
    pub disk: [Record; RECORDS],
    /// The number of its filling, and how many values are left.
    pub lane: (u8, u8),
    pub origin: Origin,
    /// The next name for a lease.
    pub names: u8,
    /// The file whose holder's name it has, and whether with a `+` at its end.
    pub holder: usize,
    pub is_other: bool,
    /// It revokes the leases of the holder's other name before it asks for any.
    pub revokes: bool,
}

/// How far a process is in what takes several writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Step {
    #[default]
    Down,
    /// Taking over records from this one on; then the lane, and the header.
    Opening(usize),
    Idle,
    /// Filling the lane from a record: it says so; the lane has it.
    Placed(usize),
    Filled(usize),
    /// Closing the lane: so many were left.
    Noted(u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Process {
    pub step: Step,
    /// It was begun with `sync_every`.
    pub syncs: bool,
    /// It has sent a revocation.
    pub revokes: bool,
    /// The record in the lane.
    pub lane: Option<usize>,
    /// Takers leave so many values.
    pub floor: u8,
    /// A value on its way to a caller.
    pub hand: Option<u8>,
    /// The server has answered since the process began.
    pub confirmed: [bool; RECORDS],
    /// It was begun by another process.
    pub resumed: [bool; RECORDS],
}

/// About one lease: what was sent on the connection that is open, on those that are not, and the
/// answer. A return has the first value that was not used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Messages {
    pub ask: bool,
    pub late_ask: bool,
    pub answer: Option<Lease>,
    pub back: Option<u8>,
    pub late_back: Option<u8>,
    pub done: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub server: Server,
    pub files: [File; FILES],
    pub processes: [Process; FILES],
    pub messages: [Messages; NAMES],
    /// Revocations, by [`File::is_other`] of the leases that they end, on connections that are not
    /// open any more.
    pub late_revocations: [bool; 2],
    /// [`File::is_other`] of the file when it asked for the lease.
    pub is_others: [bool; NAMES],
    pub is_copied: bool,
    /// The values that callers, and others, have got.
    pub used: Set,
    /// Values that were on their way to a caller when the process was killed.
    pub on_the_way: Set,
    /// Values that a crash of the machine has cost.
    pub skipped: Set,
    pub twice: bool,
    pub too_many_skipped: bool,
    /// A revocation has ended a lease that a process was using.
    pub cut_off: bool,
    /// A value was served of a lease that an earlier process had.
    pub went_on: bool,
    pub failures: u8,
}

impl Server {
    /// A value that was returned, or the next one.
    pub fn take(&mut self) -> Option<u8> {
        if self.free != 0 {
            let value = self.free.trailing_zeros() as u8;
            self.free &= !one(value);
            return Some(value);
        }
        let value = self.next;
        self.next += u8::from(value < LIMIT);
        (value < LIMIT).then_some(value)
    }
}

impl File {
    /// How many values of a record are left, wherever that is written.
    pub fn resolve(&self, record: usize) -> u8 {
        match self.records[record].kind {
            Kind::InLane(filling) if filling == self.lane.0 => self.lane.1,
            _ => self.records[record].left,
        }
    }
}

impl State {
    pub fn serve(&mut self, value: u8) {
        self.twice |= one(value) & self.used != 0;
        self.used |= one(value);
    }

    /// Ends the leases of these names whose holder's name is this one.
    pub fn revoke(&mut self, names: [u8; 2], is_other: bool) {
        for name in (names[0]..names[1]).map(usize::from) {
            let Lease::Open(all) = self.server.leases[name] else { continue };
            if self.is_others[name] == is_other {
                self.server.gaps |= all;
                self.server.leases[name] = Lease::Ended;
                self.cut_off |= self.is_in_use(name);
            }
        }
    }

    /// Whether a process has the lease, and knows it.
    fn is_in_use(&self, name: usize) -> bool {
        let has = |(file, process): (&File, &Process)| {
            file.records.iter().zip(process.confirmed).any(|(record, is_confirmed)| {
                let is_held = matches!(record.kind, Kind::Held | Kind::InLane(_));
                is_held && usize::from(record.name) == name && is_confirmed
            })
        };
        self.files.iter().zip(&self.processes).any(has)
    }

    fn in_hand(&self) -> Set {
        self.processes.iter().filter_map(|process| process.hand).map(one).sum()
    }

    /// Whatever a return counts as used was served, or is a caller's.
    pub fn loses_nothing(&self) -> bool {
        let explained = self.used | self.on_the_way | self.in_hand() | self.skipped;
        self.server.counted & !explained == 0
    }

    /// A file has a record of each lease that is open.
    pub fn has_no_lease_without_a_record(&self) -> bool {
        let has = |name: usize| {
            let records = self.files.iter().flat_map(|file| &file.records);
            let mut known = records.filter(|record| record.kind != Kind::Free);
            known.any(|record| usize::from(record.name) == name)
        };
        let is_open = |name: &usize| matches!(self.server.leases[*name], Lease::Open(_));
        (0..NAMES).filter(is_open).all(has)
    }

    pub fn has_an_owner_each(&self) -> bool {
        let open = self.server.leases.iter().fold(0, |all, lease| match lease {
            Lease::Open(values) => all | values,
            _ => all,
        });
        let owned = self.server.free | self.server.gaps | self.server.counted | open | self.used;
        (0..self.server.next).all(|value| owned & one(value) != 0)
    }
}
