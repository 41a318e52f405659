//! The writes of a centre, its standby and its branches, and the messages on their way between
//! them.

/// So many values the sequence has, and so many a promotion of the centre skips.
pub const LIMIT: u8 = 4;
pub const SKIP: u8 = 1;
/// So many requests each server makes.
pub const REQUESTS: u8 = 2;

/// The servers that receive: a branch, another one, and a copy of the first.
pub const SERVERS: usize = 3;
pub const FIRST: usize = 0;
pub const COPY: usize = 2;

/// A set of values.
pub type Set = u8;

pub fn one(value: u8) -> Set {
    1 << value
}

pub fn lowest(set: Set) -> Set {
    set & set.wrapping_neg()
}

/// The centre's committed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Centre {
    pub next: u8,
    /// The latest request of each receiver, and the value that it was given: an open lease.
    pub leases: [Option<(u8, u8)>; SERVERS],
    pub gaps: Set,
}

/// A branch's committed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Books {
    pub free: Set,
    /// In the memory of the life that has written it.
    pub lent: Set,
    pub gaps: Set,
    /// The request that is written down and has no answer yet, and the last one of all.
    pub pending: Option<u8>,
    pub last: u8,
    /// Another server has written them, as their identity tells.
    pub is_copy: bool,
}

impl Books {
    pub fn all(&self) -> Set {
        self.free | self.lent | self.gaps
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Branch {
    /// Whether it runs, and, if so, has taken its books over since it started.
    pub is_up: bool,
    pub is_ready: bool,
    pub books: Books,
    /// Its memory: what it may serve at any moment.
    pub held: Set,
    /// Its connection: a request that the centre has not seen to yet, and an answer that the branch
    /// has not read yet.
    pub asks: Option<u8>,
    pub answer: Option<(u8, u8)>,
    /// Requests on connections that it has given up, which the centre may see to at any time.
    pub late: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub centre: Centre,
    /// The standby's rows, since it hears nothing any more; `None`: all.
    pub standby: Option<Centre>,
    pub branches: [Branch; SERVERS],
    /// The first branch's books, as they were once.
    pub copied: Option<Books>,
    /// The values that clients have used, here and there.
    pub used: Set,
    /// Whether a client got what a client had used.
    pub twice: bool,
    pub failures: u8,
}

impl State {
    pub fn serve(&mut self, values: Set) {
        self.twice |= values & self.used != 0;
        self.used |= values;
    }

    /// Each value that the centre has passed was served, or is somebody's. It is in a gap, held at
    /// the centre by a receiver's name, or in a branch's books. The books of a server that is gone
    /// count too: nobody else can know what became of it.
    pub fn has_an_owner_each(&self) -> bool {
        let leased = self.centre.leases.iter().flatten().map(|(_, value)| one(*value)).sum::<Set>();
        let books = self.branches.iter().fold(0, |all, branch| all | branch.books.all());
        let owned = self.centre.gaps | leased | books | self.used;
        (0..self.centre.next).all(|value| owned & one(value) != 0)
    }

    /// Nothing that one may serve was used, or may be served by another, or is yet to be given out.
    pub fn has_one_owner_each(&self) -> bool {
        let ready = |branch: &&Branch| branch.is_up && branch.is_ready;
        let mut taken = self.used;
        self.branches.iter().filter(ready).all(|branch| {
            let own = branch.books.free | branch.held;
            let is_alone = own & taken == 0 && own >> self.centre.next == 0;
            taken |= own;
            is_alone
        })
    }
}
