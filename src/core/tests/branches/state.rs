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
/// The names under which they ask: each has its own, and the first may take another one.
pub const NAMES: usize = 4;
pub const ANOTHER: u8 = 3;
/// So many requests of one server may be on connections that it has given up.
pub const LATE: usize = 4;

/// A set of values.
pub type Set = u8;

pub fn one(value: u8) -> Set {
    1 << value
}

pub fn lowest(set: Set) -> Set {
    set & set.wrapping_neg()
}

/// A request rises with its number, and two servers never make the same one.
pub type Request = u8;

pub fn request(number: u8, server: usize) -> Request {
    2 * number + u8::from(server == COPY)
}

/// A request on its way: who makes it, and the last one of which it has the answer (0: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked {
    pub name: u8,
    pub request: Request,
    pub answered: Request,
}

/// The centre's committed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Centre {
    pub next: u8,
    /// The latest request of each receiver, and the value that it was given: an open lease.
    pub leases: [Option<(Request, u8)>; NAMES],
    pub gaps: Set,
}

/// A branch's committed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Books {
    pub free: Set,
    /// In the memory of the life that has written it.
    pub lent: Set,
    pub gaps: Set,
    /// The name under which it asks.
    pub name: u8,
    /// The request that is written down and has no answer yet.
    pub pending: Option<Request>,
    /// The number of the last one of all, and the last one that was answered.
    pub last: u8,
    pub answered: Request,
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
    /// has not read yet. No value: the centre has seen a later request of this name.
    pub asks: Option<Asked>,
    pub answer: Option<(Request, Option<u8>)>,
    /// Requests on connections that it has given up, which the centre may see to at any time.
    pub late: [Option<Asked>; LATE],
    /// Whether it has found that another server asks by its name.
    pub has_parted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub centre: Centre,
    /// The standby's rows, since it hears nothing any more; `None`: all.
    pub standby: Option<Centre>,
    pub branches: [Branch; SERVERS],
    /// The first branch's books, as they were once.
    pub copied: Option<Books>,
    /// The values that a server and its twin both have in their books. A twin runs beside it and
    /// cannot tell that it is a copy, so no protocol keeps the two from serving these twice.
    pub common: Set,
    /// The values that clients have used, here and there.
    pub used: Set,
    /// Whether a client got what a client had used.
    pub twice: bool,
    pub failures: u8,
}

impl State {
    pub fn serve(&mut self, values: Set) {
        self.twice |= values & self.used & !self.common != 0;
        self.used |= values;
    }

    /// Notes that a value was given by a request that a twin has in its books, too.
    pub fn note_common(&mut self, asked: Asked, value: u8) {
        let twin = self.copied.filter(|books| !books.is_copy);
        let is_both =
            |books: Books| books.pending == Some(asked.request) && books.name == asked.name;
        if twin.is_some_and(is_both) {
            self.common |= one(value);
        }
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
            let is_alone = own & taken & !self.common == 0 && own >> self.centre.next == 0;
            taken |= own;
            is_alone
        })
    }
}
