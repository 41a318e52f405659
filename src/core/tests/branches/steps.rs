//! The steps of the centre and of the branches, and accidents.

use crate::state::{
    ANOTHER, Asked, Books, Branch, COPY, FIRST, LIMIT, REQUESTS, SERVERS, SKIP, State, lowest, one,
    request,
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
    /// A copy repeats the request that it finds in its books.
    RequestCopied,
    /// It serves what it finds free.
    FreeCopied,
    /// The centre counts the value of a request that was given up as used.
    GivenUpCounted,
    /// It gives that value to somebody else.
    GivenUpReturned,
}

pub struct Protocol {
    pub branches: usize,
    pub failures: u8,
    pub promotions: bool,
    pub copies: bool,
    /// Copies are twins: they run beside the original, and cannot tell that they are copies.
    pub twins: bool,
    /// Branches give requests up.
    pub gives_up: bool,
    /// The centre refuses the first request of each branch for ever.
    pub refuses: bool,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    // A branch.
    WriteDown(usize),
    Ask(usize),
    Receive(usize),
    GiveUp(usize),
    Lend(usize),
    Serve(usize),
    TakeOver(usize),
    // The centre.
    Answer(usize),
    AnswerLate(usize, usize),
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
    fn hang_up(&mut self) {
        self.answer = None;
        let Some(asked) = self.asks.take() else { return };
        if !self.late.contains(&Some(asked)) {
            let place = self.late.iter_mut().find(|place| place.is_none());
            *place.expect("there is a place for each request") = Some(asked);
            self.late.sort();
            self.late.reverse();
        }
    }
}

impl Protocol {
    /// `hilo_transfer`: one commit. `None`: refused; `Some(None)`: since there is a later request.
    fn transfer(&self, state: &mut State, asked: Asked) -> Option<Option<u8>> {
        let Asked { name, request, answered } = asked;
        let centre = &mut state.centre;
        let lease = &mut centre.leases[name as usize];
        let earlier = match *lease {
            _ if self.refuses && request >> 1 == 1 => return None,
            Some((known, value)) if known == request && self.fault != Fault::AnswerForgotten => {
                state.note_common(asked, value);
                return Some(Some(value));
            }
            Some((known, _)) if request < known && self.fault != Fault::LateAnswered => {
                return Some(None);
            }
            _ if centre.next == LIMIT => return None,
            earlier => earlier,
        };
        let value = centre.next;
        *lease = Some((request, value));
        centre.next += 1;
        // Without its answer the receiver has given it up, or another server has made it.
        if let Some((known, value)) = earlier.filter(|(known, _)| *known != answered) {
            match self.fault {
                Fault::GivenUpReturned => state.serve(one(value)),
                Fault::GivenUpCounted => {}
                Fault::AnswerForgotten | Fault::LateAnswered if known >= request => {}
                _ => centre.gaps |= one(value),
            }
        }
        state.note_common(asked, value);
        Some(Some(value))
    }

    /// The steps of the centre. `None`: this one is not possible now.
    pub fn centre(&self, mut next: State, action: Action) -> Option<State> {
        match action {
            Action::Answer(server) => {
                let asked = next.branches[server].asks.take()?;
                let value = self.transfer(&mut next, asked)?;
                next.branches[server].answer = Some((asked.request, value));
            }
            // It stays, because it may have been sent more than once.
            Action::AnswerLate(server, at) => {
                let asked = next.branches[server].late[at]?;
                self.transfer(&mut next, asked)??;
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
                books.pending = Some(request(books.last, server));
            }
            // Again too: then on a connection of its own.
            Action::Ask(_) => {
                let Books { name, answered, .. } = *books;
                let asked = Asked { name, request: books.pending?, answered };
                branch.hang_up();
                branch.asks = Some(asked);
            }
            Action::Receive(_) => {
                let (request, value) = branch.answer.take()?;
                (books.pending == Some(request)).then_some(())?;
                match value {
                    Some(value) => {
                        books.pending = None;
                        books.answered = request;
                        books.free |= one(value);
                    }
                    None => self.part(branch, server),
                }
            }
            // At any time: the next one may be asked while the centre sees to this one.
            Action::GiveUp(_) if self.gives_up && next.failures < self.failures => {
                books.pending.take()?;
                next.failures += 1;
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
                if books.is_copy {
                    self.take_over_copy(branch);
                }
            }
            _ => return None,
        }
        Some(next)
    }

    /// A branch finds that another copy of it asks under its name.
    fn part(&self, branch: &mut Branch, server: usize) {
        let books = &mut branch.books;
        books.gaps |= books.free | books.lent;
        (books.free, books.lent, branch.held) = (0, 0, 0);
        books.name = if server == FIRST { ANOTHER } else { server as u8 };
        (books.pending, books.last, books.answered) = (None, 0, 0);
        branch.has_parted = true;
    }

    /// A branch finds that another server has written its books.
    fn take_over_copy(&self, branch: &mut Branch) {
        let books = &mut branch.books;
        if self.fault != Fault::FreeCopied {
            books.gaps |= books.free;
            books.free = 0;
        }
        if self.fault != Fault::RequestCopied {
            books.name = COPY as u8;
            (books.pending, books.last, books.answered) = (None, 0, 0);
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
                next.copied = Some(Books { is_copy: !self.twins, ..books });
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
                branch.hang_up();
                (branch.held, branch.is_ready) = (0, false);
            }
            Action::Restore if self.twins => return None,
            Action::Restore | Action::Clone if !next.branches[COPY].is_up => {
                let books = next.copied?;
                next.branches[COPY].books = books;
                next.branches[COPY].is_up = true;
                next.common |= if self.twins { books.free } else { 0 };
                if action == Action::Restore {
                    next.branches[FIRST].hang_up();
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
            (branch.asks, branch.late) = (None, Default::default());
        }
        Some(())
    }
}
