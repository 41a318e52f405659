//! The steps of the centre and of the branches, and accidents.

use crate::state::{
    Books, Branch, COPY, FIRST, LIMIT, REQUESTS, SERVERS, SKIP, State, lowest, one,
};

/// Faults of the protocol, to see that the checker finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The centre forgets that a request was answered.
    AnswerForgotten,
    /// It sees to a request that comes after a later one.
    LateAnswered,
    /// Promoted, it skips nothing.
    NothingSkipped,
    /// A branch makes its request before it is written down.
    NotWrittenDown,
    /// A copy repeats the request that it finds in its books.
    RequestCopied,
    /// It asks under the name of the server that it is a copy of.
    NameCopied,
    /// It serves what it finds free.
    FreeCopied,
}

pub struct Protocol {
    pub branches: usize,
    pub failures: u8,
    pub promotions: bool,
    pub copies: bool,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    // A branch.
    WriteDown(usize),
    Ask(usize),
    Receive(usize),
    Lend(usize),
    Serve(usize),
    TakeOver(usize),
    // The centre.
    Answer(usize),
    AnswerLate(usize, u8),
    Draw,
    // Accidents.
    RollBack,
    CutOff,
    Promote,
    Crash(usize),
    Copy,
    Restore,
    Clone,
}

impl Branch {
    /// The connection is closed. The centre may still see to what was sent.
    fn give_up(&mut self) {
        self.late |= self.asks.take().map_or(0, one);
        self.answer = None;
    }
}

impl Protocol {
    /// The name under which a server asks.
    fn receiver(&self, server: usize) -> usize {
        match self.fault {
            Fault::RequestCopied | Fault::NameCopied if server == COPY => FIRST,
            _ => server,
        }
    }

    /// `hilo_transfer`: one commit. `None`: refused.
    fn transfer(&self, state: &mut State, server: usize, request: u8) -> Option<u8> {
        let centre = &mut state.centre;
        let lease = &mut centre.leases[self.receiver(server)];
        match *lease {
            Some((known, value)) if known == request && self.fault != Fault::AnswerForgotten => {
                return Some(value);
            }
            Some((known, _)) if request < known && self.fault != Fault::LateAnswered => {
                return None;
            }
            _ if centre.next == LIMIT => return None,
            _ => {}
        }
        let value = centre.next;
        *lease = Some((request, value));
        centre.next += 1;
        Some(value)
    }

    /// The steps of the centre. `None`: this one is not possible now.
    pub fn centre(&self, mut next: State, action: Action) -> Option<State> {
        match action {
            Action::Answer(server) => {
                let request = next.branches[server].asks.take()?;
                let value = self.transfer(&mut next, server, request)?;
                next.branches[server].answer = Some((request, value));
            }
            // It stays, because it may have been sent more than once.
            Action::AnswerLate(server, request) => {
                (next.branches[server].late & one(request) != 0).then_some(())?;
                self.transfer(&mut next, server, request)?;
            }
            // Somebody else's.
            Action::Draw if next.centre.next < LIMIT => {
                let value = next.centre.next;
                next.centre.next += 1;
                next.serve(one(value));
            }
            _ => return None,
        }
        Some(next)
    }

    /// The steps of a branch. Each is one commit, or happens in memory.
    pub fn branch(&self, mut next: State, server: usize, action: Action) -> Option<State> {
        let branch = &mut next.branches[server];
        if !branch.is_up || branch.is_ready == matches!(action, Action::TakeOver(_)) {
            return None;
        }
        let books = &mut branch.books;
        match action {
            Action::WriteDown(_) if books.pending.is_none() && books.last < REQUESTS => {
                books.last += 1;
                books.pending = Some(books.last);
            }
            // Again too: then on a connection of its own.
            Action::Ask(_) => {
                let request = books.pending?;
                branch.give_up();
                branch.asks = Some(request);
            }
            Action::Receive(_) => {
                let (request, value) = branch.answer.take()?;
                (books.pending == Some(request)).then_some(())?;
                books.pending = None;
                books.free |= one(value);
            }
            Action::Lend(_) if books.free != 0 && branch.held == 0 => {
                let lent = lowest(books.free);
                books.free &= !lent;
                books.lent |= lent;
                branch.held |= lent;
            }
            Action::Serve(_) if branch.held != 0 => {
                let served = lowest(branch.held);
                branch.held &= !served;
                next.serve(served);
            }
            Action::TakeOver(_) => {
                branch.is_ready = true;
                books.gaps |= books.lent;
                books.lent = 0;
                let written_here = self.fault != Fault::NotWrittenDown;
                books.pending = books.pending.filter(|_| written_here);
                if books.is_copy {
                    self.take_over_copy(branch);
                }
            }
            _ => return None,
        }
        Some(next)
    }

    /// A branch finds that another server has written its books.
    fn take_over_copy(&self, branch: &mut Branch) {
        let books = &mut branch.books;
        if self.fault != Fault::FreeCopied {
            books.gaps |= books.free;
            books.free = 0;
        }
        if self.fault != Fault::RequestCopied {
            books.pending = None;
        }
        if !matches!(self.fault, Fault::RequestCopied | Fault::NameCopied) {
            books.last = 0;
        }
        books.is_copy = false;
    }

    /// Accidents, and what the standby hears.
    pub fn fail(&self, mut next: State, action: Action) -> Option<State> {
        match action {
            Action::CutOff if self.promotions && next.standby.is_none() => {
                next.standby = Some(next.centre);
                return Some(next);
            }
            Action::Copy if self.copies && next.copied.is_none() => {
                let books = next.branches[FIRST].books;
                next.copied = Some(Books { is_copy: true, ..books });
                return Some(next);
            }
            // A transfer that takes a value and does not commit, whatever the reason.
            Action::RollBack if next.centre.next < LIMIT => {
                next.centre.gaps |= one(next.centre.next);
                next.centre.next += 1;
            }
            Action::Promote => self.promote(&mut next)?,
            Action::Crash(server) if next.branches[server].is_up => {
                let branch = &mut next.branches[server];
                branch.give_up();
                (branch.held, branch.is_ready) = (0, false);
            }
            Action::Restore | Action::Clone if !next.branches[COPY].is_up => {
                next.branches[COPY].books = next.copied?;
                next.branches[COPY].is_up = true;
                if action == Action::Restore {
                    next.branches[FIRST].give_up();
                    next.branches[FIRST].is_up = false;
                }
            }
            _ => return None,
        }
        next.failures += 1;
        (next.failures <= self.failures).then_some(next)
    }

    /// The standby takes over. Connections end with the server that they were made to.
    fn promote(&self, next: &mut State) -> Option<()> {
        let standby = next.standby.take()?;
        (next.centre.next - standby.next <= SKIP).then_some(())?;
        next.centre = standby;
        if self.fault != Fault::NothingSkipped {
            let end = (standby.next + SKIP).min(LIMIT);
            next.centre.gaps |= (standby.next..end).map(one).sum::<u8>();
            next.centre.next = end;
        }
        for branch in &mut next.branches[..SERVERS] {
            (branch.asks, branch.late) = (None, 0);
        }
        Some(())
    }
}
