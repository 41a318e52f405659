//! The steps of the server and of the processes, and accidents.

use crate::state::{
    File, Kind, Lease, NAMES_OF, Origin, Process, RECORDS, Record, SIZE, SYNC_EVERY, State, Step,
    count, first, last, one,
};

/// Faults, to see that the checker finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A value goes to its caller before the file says so.
    HandedFirst,
    /// A return is sent before the file says so.
    ReturnedUnwritten,
    /// The same, on the disk.
    ReturnedUnsynced,
    /// A lease has come, and the disk does not say that all of it is left.
    HeldUnsynced,
    /// A lease enters the lane, and the disk says that all of it is left.
    FilledUnsynced,
    /// More is served than the disk says.
    ServedUnsynced,
    /// A filling is published before its record names it.
    FilledUnwritten,
    /// A lane is closed, and its record does not have how many values were left.
    ClosedUnwritten,
    /// A copy goes on with what it finds.
    CopyGoesOn,
    /// A process without `sync_every` leaves what the disk promises.
    FloorStays,
    /// After a crash of the machine, the holder keeps its name.
    NameStays,
}

pub struct Protocol {
    pub failures: u8,
    /// How many leases a file has at once, and a process takes.
    pub records: usize,
    pub names: u8,
    /// With `sync_every`.
    pub syncs: bool,
    /// Some processes are begun without it.
    pub mixes: bool,
    pub crashes: bool,
    pub copies: bool,
    /// A copy is a clone of the machine, which looks like one that was started again.
    pub clones: bool,
    /// The server knows the name of a lease that has ended while the same question is on its way.
    pub prompt: bool,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    // A process.
    Open(usize),
    /// Without `sync_every`.
    OpenOtherwise(usize),
    WriteDown(usize),
    Revoke(usize),
    Ask(usize, usize),
    Receive(usize, usize),
    Fill(usize, usize),
    GoOn(usize),
    Take(usize),
    Hand(usize),
    Release(usize),
    Close(usize),
    Return(usize, usize),
    SendBack(usize, usize),
    Free(usize, usize),
    // The server.
    Answer(usize),
    AnswerLate(usize),
    End(usize),
    EndLate(usize),
    AnswerRevocation(usize),
    RevokeLate(usize),
    Expire(usize),
    File(usize),
    Draw,
    // Accidents.
    Kill(usize),
    Crash,
    WriteBack(usize),
    Copy,
}

impl Protocol {
    /// `hilo_lease` by a name: the lease that it has, or a new one.
    fn lease(&self, state: &mut State, name: usize) -> Option<Lease> {
        let server = &mut state.server;
        if server.leases[name] == Lease::None {
            // A value that was returned is a lease of its own.
            let is_new = server.free == 0;
            let mut values = one(server.take()?);
            if is_new {
                values |= server.take().map_or(0, one);
            }
            server.leases[name] = Lease::Open(values);
        }
        Some(server.leases[name])
    }

    /// `hilo_lease_return`: the values from `next` on are served again. It is refused unless the
    /// lease has this value, or the one before it.
    fn give_back(&self, state: &mut State, name: usize, next: u8) {
        if let Lease::Open(all) = state.server.leases[name] {
            let rest = all & !(one(next) - 1);
            if rest & one(next) == 0 && one(next) >> 1 & all == 0 {
                return;
            }
            state.server.free |= rest;
            state.server.counted |= all & !rest;
            state.server.leases[name] = Lease::Ended;
        }
    }

    pub fn server(&self, mut next: State, action: Action) -> Option<State> {
        match action {
            Action::Answer(name) if next.messages[name].ask => {
                let lease = self.lease(&mut next, name)?;
                next.messages[name].ask = false;
                next.messages[name].answer = Some(lease);
            }
            Action::AnswerLate(name) if next.messages[name].late_ask => {
                self.lease(&mut next, name)?;
                next.messages[name].late_ask = false;
            }
            Action::End(name) => {
                let value = next.messages[name].back.take()?;
                self.give_back(&mut next, name, value);
                next.messages[name].done = true;
            }
            Action::EndLate(name) => {
                let value = next.messages[name].late_back.take()?;
                self.give_back(&mut next, name, value);
            }
            // A revocation whose answer is lost is sent again, and ends nothing more.
            Action::AnswerRevocation(at) if next.processes[at].revokes => {
                let File { holder, is_other, .. } = next.files[at];
                let is_other = is_other != (self.fault != Fault::NameStays);
                next.revoke(NAMES_OF[holder], is_other);
                (next.processes[at].revokes, next.files[at].revokes) = (false, false);
            }
            Action::RevokeLate(other) if next.late_revocations[other] => {
                next.late_revocations[other] = false;
                next.revoke(NAMES_OF[0], other == 1);
            }
            Action::Expire(name) => {
                let Lease::Open(all) = next.server.leases[name] else { return None };
                next.server.gaps |= all;
                next.server.leases[name] = Lease::Ended;
                next.failures += 1;
            }
            Action::File(name) if next.server.leases[name] == Lease::Ended => {
                (!self.prompt || !next.messages[name].late_ask).then_some(())?;
                next.server.leases[name] = Lease::None;
            }
            // Others draw what was returned.
            Action::Draw if next.server.free != 0 => {
                let value = next.server.take()?;
                next.serve(value);
            }
            _ => return None,
        }
        (next.failures <= self.failures).then_some(next)
    }

    pub fn process(&self, mut next: State, at: usize, action: Action) -> Option<State> {
        let is_idle = next.processes[at].step == Step::Idle;
        match action {
            Action::Open(_) => self.open(&mut next, at)?,
            Action::OpenOtherwise(_) => {
                (self.mixes && next.processes[at].step == Step::Down).then_some(())?;
                self.open(&mut next, at)?;
                next.processes[at].syncs = false;
            }
            Action::GoOn(_) => self.go_on(&mut next, at)?,
            Action::Take(_) | Action::Hand(_) | Action::Release(_) => {
                self.draw(&mut next, at, action)?;
            }
            _ if !is_idle => return None,
            Action::WriteDown(_) => {
                let file = &mut next.files[at];
                (!file.revokes).then_some(())?;
                let free = |record: &Record| record.kind == Kind::Free;
                let record = file.records[..self.records].iter().position(free)?;
                let name = file.names;
                (name < NAMES_OF[at][1].min(NAMES_OF[at][0] + self.names)).then_some(())?;
                file.names += 1;
                file.records[record] = Record { kind: Kind::Asked, name, ..Record::default() };
                next.is_others[usize::from(name)] = file.is_other;
                next.processes[at].confirmed[record] = false;
                next.processes[at].resumed[record] = false;
            }
            Action::Revoke(_) => {
                let process = &mut next.processes[at];
                (next.files[at].revokes && !process.revokes).then_some(())?;
                process.revokes = true;
            }
            Action::Ask(_, record) => {
                let Record { kind, name, .. } = next.files[at].records[record];
                let is_open = next.processes[at].confirmed[record];
                (!is_open && matches!(kind, Kind::Asked | Kind::Held)).then_some(())?;
                let messages = &mut next.messages[name as usize];
                (!messages.ask && messages.answer.is_none()).then_some(())?;
                messages.ask = true;
            }
            Action::Receive(_, record) => self.receive(&mut next, at, record)?,
            Action::Fill(_, record) => {
                let (file, process) = (&mut next.files[at], &mut next.processes[at]);
                let one = &mut file.records[record];
                let is_free = one.kind == Kind::Held && one.left > 0 && file.lane.1 == 0;
                let may = is_free && process.confirmed[record];
                (may && process.lane.is_none()).then_some(())?;
                if self.fault != Fault::FilledUnwritten {
                    one.kind = Kind::InLane(file.lane.0 + 1);
                }
                if process.syncs {
                    one.floor = one.left.saturating_sub(SYNC_EVERY);
                    process.floor = one.floor;
                    if self.fault != Fault::FilledUnsynced {
                        file.disk[record] = *one;
                    }
                }
                process.step = Step::Placed(record);
            }
            Action::Close(_) => {
                let process = &mut next.processes[at];
                let (record, left) = (process.lane?, next.files[at].lane.1);
                if self.fault != Fault::ClosedUnwritten {
                    next.files[at].records[record].left = left;
                }
                process.step = Step::Noted(left);
            }
            Action::Return(_, record) => self.give_up(&mut next, at, record)?,
            Action::SendBack(_, record) => {
                let Record { kind, name, all, left, .. } = next.files[at].records[record];
                let messages = &mut next.messages[name as usize];
                let is_unsent = messages.back.is_none() && !messages.done;
                (kind == Kind::Returned && is_unsent).then_some(())?;
                messages.back = Some(first(all, left));
            }
            Action::Free(_, record) => {
                let one = &mut next.files[at].records[record];
                let done = &mut next.messages[one.name as usize].done;
                (one.kind == Kind::Returned && std::mem::take(done)).then_some(())?;
                one.kind = Kind::Free;
            }
            _ => return None,
        }
        Some(next)
    }

    /// The next part of taking a file over.
    fn open(&self, next: &mut State, at: usize) -> Option<()> {
        let (file, process) = (&mut next.files[at], &mut next.processes[at]);
        match process.step {
            Step::Down if at == 0 || next.is_copied => {
                (process.step, process.syncs) = (Step::Opening(0), self.syncs);
            }
            Step::Opening(record) if record < RECORDS => {
                let left = file.resolve(record);
                let one = &mut file.records[record];
                let origin = match file.origin {
                    Origin::Copied if self.fault == Fault::CopyGoesOn => Origin::Same,
                    origin => origin,
                };
                match (origin, one.kind) {
                    (Origin::Same, Kind::Held | Kind::InLane(_)) => {
                        (one.kind, one.left) = (Kind::Held, left);
                    }
                    (Origin::Same, _) => {}
                    (Origin::Restarted, Kind::Held | Kind::InLane(_) | Kind::Returned) => {
                        let seen = next.used | next.on_the_way | next.skipped;
                        let lost = one.all & !last(one.all, one.floor) & !seen;
                        // A lease that was being returned is given up. Without
                        // `sync_every`, each is.
                        let is_kept = self.syncs && !self.mixes && one.kind != Kind::Returned;
                        let is_known = one.floor > 0 || is_kept;
                        next.too_many_skipped |= is_known && count(lost) > SYNC_EVERY;
                        if one.floor > 0 {
                            (one.kind, one.left) = (Kind::Held, one.floor);
                            next.skipped |= lost;
                        } else {
                            one.kind = Kind::Free;
                        }
                    }
                    _ => one.kind = Kind::Free,
                }
                if !process.syncs && one.floor > 0 && self.fault != Fault::FloorStays {
                    one.floor = 0;
                    file.disk[record] = *one;
                }
                process.step = Step::Opening(record + 1);
            }
            Step::Opening(RECORDS) => {
                file.lane = (file.lane.0 + 1, 0);
                process.step = Step::Opening(RECORDS + 1);
            }
            Step::Opening(_) => {
                let is_empty = file.records.iter().all(|record| record.kind == Kind::Free);
                if file.origin == Origin::Restarted && is_empty && !file.revokes {
                    file.revokes = true;
                    file.is_other ^= self.fault != Fault::NameStays;
                }
                if file.origin == Origin::Copied {
                    (file.holder, file.is_other, file.revokes) = (at, false, false);
                }
                file.names = file.names.max(NAMES_OF[at][0]);
                file.origin = Origin::Same;
                let (step, syncs, resumed) = (Step::Idle, process.syncs, [true; RECORDS]);
                *process = Process { step, syncs, resumed, ..Process::default() };
            }
            _ => return None,
        }
        Some(())
    }

    /// The next write of a filling or a closing.
    fn go_on(&self, next: &mut State, at: usize) -> Option<()> {
        let (file, process) = (&mut next.files[at], &mut next.processes[at]);
        process.step = match process.step {
            Step::Placed(record) => {
                file.lane = (file.lane.0 + 1, file.records[record].left);
                process.lane = Some(record);
                Step::Filled(record)
            }
            Step::Filled(record) => {
                let one = &mut file.records[record];
                one.kind = Kind::InLane(file.lane.0);
                one.left = 0;
                Step::Idle
            }
            // Somebody has taken a value meanwhile: once more.
            Step::Noted(left) if left != file.lane.1 => Step::Idle,
            Step::Noted(_) => {
                file.lane = (file.lane.0 + 1, 0);
                process.lane = None;
                Step::Idle
            }
            _ => return None,
        };
        Some(())
    }

    /// A caller takes a value from the lane; gets it; or finds that more may be taken.
    fn draw(&self, next: &mut State, at: usize, action: Action) -> Option<()> {
        let (file, process) = (&mut next.files[at], &mut next.processes[at]);
        let is_up = !matches!(process.step, Step::Down | Step::Opening(_));
        let record = process.lane.filter(|_| is_up)?;
        let left = file.lane.1;
        match action {
            Action::Take(_) if left > process.floor && process.hand.is_none() => {
                let all = last(file.records[record].all, left);
                process.hand = Some(all.trailing_zeros() as u8);
                if self.fault == Fault::HandedFirst {
                    let (value, resumed) = (process.hand.take()?, process.resumed[record]);
                    next.serve(value);
                    next.went_on |= resumed;
                    next.processes[at].step = Step::Noted(left - 1);
                    return Some(());
                }
                file.lane.1 -= 1;
            }
            Action::Hand(_) => {
                let value = process.hand.take()?;
                next.went_on |= process.resumed[record];
                next.serve(value);
            }
            Action::Release(_) if left > 0 && left == process.floor => {
                let one = &mut file.records[record];
                one.floor = left.saturating_sub(SYNC_EVERY);
                process.floor = one.floor;
                if self.fault != Fault::ServedUnsynced {
                    file.disk[record] = *one;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The server's answer to a lease that was asked for.
    fn receive(&self, next: &mut State, at: usize, record: usize) -> Option<()> {
        let (file, process) = (&mut next.files[at], &mut next.processes[at]);
        let one = &mut file.records[record];
        let is_asked = matches!(one.kind, Kind::Asked | Kind::Held);
        (is_asked && !process.confirmed[record]).then_some(())?;
        match next.messages[one.name as usize].answer.take()? {
            Lease::Open(all) => {
                if one.kind == Kind::Asked || one.all != all {
                    (one.kind, one.all, one.left, one.floor) = (Kind::Held, all, count(all), 0);
                    process.resumed[record] = false;
                }
                if process.syncs && self.fault != Fault::HeldUnsynced {
                    one.floor = one.left;
                    file.disk[record] = *one;
                }
                process.confirmed[record] = true;
            }
            _ => one.kind = Kind::Free,
        }
        Some(())
    }

    /// A lease that nobody takes from any more is to be returned.
    fn give_up(&self, next: &mut State, at: usize, record: usize) -> Option<()> {
        let (file, process) = (&mut next.files[at], &mut next.processes[at]);
        let left = file.resolve(record);
        let is_in_lane = process.lane == Some(record);
        let is_over = left == 0 || !is_in_lane;
        let one = &mut file.records[record];
        let is_held = matches!(one.kind, Kind::Held | Kind::InLane(_));
        (is_held && is_over && process.confirmed[record]).then_some(())?;
        if is_in_lane {
            process.lane = None;
        }
        if self.fault == Fault::ReturnedUnwritten {
            next.messages[one.name as usize].back = Some(first(one.all, left));
            return Some(());
        }
        (one.kind, one.left) = (Kind::Returned, left);
        if one.floor > 0 && self.fault != Fault::ReturnedUnsynced {
            one.floor = 0;
            file.disk[record] = *one;
        }
        Some(())
    }

    pub fn fail(&self, mut next: State, action: Action) -> Option<State> {
        match action {
            Action::Kill(at) if next.processes[at].step != Step::Down => self.kill(&mut next, at),
            Action::Crash if self.crashes => {
                self.kill(&mut next, 0);
                let file = &mut next.files[0];
                // The disk may have anything of the lane.
                *file = File { records: file.disk, lane: (file.lane.0, SIZE), ..*file };
                file.origin = Origin::Restarted;
            }
            // At any time, in any order.
            Action::WriteBack(record) if self.crashes => {
                let file = &mut next.files[0];
                (file.disk[record] != file.records[record]).then_some(())?;
                file.disk[record] = file.records[record];
                return Some(next);
            }
            Action::Copy if self.copies && !next.is_copied => {
                next.is_copied = true;
                let origin = if self.clones { Origin::Restarted } else { Origin::Copied };
                next.files[1] = File { origin, ..next.files[0] };
            }
            _ => return None,
        }
        next.failures += 1;
        (next.failures <= self.failures).then_some(next)
    }

    /// Its connection is closed. The server may still see to what was sent.
    fn kill(&self, next: &mut State, at: usize) {
        let process = std::mem::take(&mut next.processes[at]);
        next.on_the_way |= process.hand.map_or(0, one);
        let [from, to] = NAMES_OF[at];
        for messages in &mut next.messages[from as usize..to as usize] {
            messages.late_ask |= std::mem::take(&mut messages.ask);
            messages.late_back = messages.back.take().or(messages.late_back);
            (messages.answer, messages.done) = (None, false);
        }
        if process.revokes {
            let is_other = next.files[at].is_other != (self.fault != Fault::NameStays);
            next.late_revocations[usize::from(is_other)] = true;
        }
    }
}
