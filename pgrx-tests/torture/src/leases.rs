//! Holders of leases: they use some of what they took and return the rest, at once, late, twice or
//! never. Let leases expire, renew and revoke them; and take them in transactions that roll back or
//! end with their server.
//!
//! A holder outlives its connection and the server, so the ledger keeps what it holds. Values that
//! a holder has not used must not be served as long as it has not returned them. At each audit they
//! must be returned or leased or a gap.

use fastrand::Rng;

use super::figures::add;
use super::ledger::{HeldLease, Sequence, SequenceKind, Ticket};
use super::session::{ClientSession, End, Failure, Outcome};

/// The most leases of a sequence whose holders are still there.
const MAX_HELD: usize = 100;

impl HeldLease {
    /// From now on the rest may be served to others, or never, as `holds` says.
    fn set(&self, holds: Holds) {
        let mut leased = self.life.leased.lock().unwrap();
        let rest = self.place..self.place + self.count;
        match holds {
            Holds::Everything => drop(leased.insert_range(rest.start, rest.end)),
            Holds::Nothing => leased.remove_range(rest.start, rest.end),
        }
    }
}

enum Holds {
    Everything,
    Nothing,
}

impl Sequence {
    fn is_leasable(&self) -> bool {
        !matches!(self.kind, SequenceKind::Cycle(_)) && !self.ordered && !self.uneven
    }
}

impl ClientSession<'_> {
    /// Takes a lease, or does something with one that a holder has.
    pub(super) fn lease(&mut self, sequence: &Sequence, rng: &mut Rng) -> Outcome<()> {
        if !sequence.is_leasable() {
            return Ok(());
        }
        let held = {
            let mut held = sequence.held.lock().unwrap();
            let full = held.len() >= MAX_HELD;
            (!held.is_empty() && (full || rng.bool()))
                .then(|| rng.usize(..held.len()))
                .map(|at| held.swap_remove(at))
        };
        match held {
            Some(held) => self.meet(sequence, held, rng),
            None => self.take(sequence, rng),
        }
    }

    fn take(&mut self, sequence: &Sequence, rng: &mut Rng) -> Outcome<()> {
        let ticket = self.ledger().ticket(sequence);
        let count = match sequence.kind {
            SequenceKind::Small(_) => rng.i64(1..20),
            _ => rng.i64(1..400),
        };
        let ttl = match rng.u32(..3) {
            0 => format!(", ttl => '{} ms'", rng.u32(20..5_000)),
            _ => String::new(),
        };
        let sql = format!(
            "SELECT lease::text, first, last, increment, count FROM hilo_lease('{}', {count}, 'torture'{ttl})",
            ticket.name
        );
        let taken = match rng.u32(..10) {
            ..5 => self.query(&sql)?,
            5 => {
                let body = self.run("BEGIN").and_then(|()| self.query(&sql).map(drop));
                return self.finish(body, End::RollBack);
            }
            _ => {
                let mut taken = Vec::new();
                let body = self.run("BEGIN").and_then(|()| {
                    if rng.bool() {
                        self.run("SAVEPOINT l")?;
                        self.query(&sql)?;
                        self.run("ROLLBACK TO l")?;
                    }
                    taken = self.query(&sql)?;
                    self.draw_some(sequence, rng)
                });
                self.finish(body, End::Commit)?;
                taken
            }
        };
        add(&self.ledger().figures.leases, 1);
        let token: String = taken[0].get(0);
        let [first, last, increment, got] =
            [1, 2, 3, 4].map(|column| taken[0].get::<_, i64>(column));
        if got < 1 || got > count || last != first + (got - 1) * increment {
            self.ledger().figures.wrong(format!("{sql}: {got} from {first} to {last}"));
            return Ok(());
        }
        let used = if rng.bool() { got } else { rng.i64(0..=got) };
        let values: Vec<i64> = (0..got).map(|at| first + at * increment).collect();
        self.use_some(sequence, &ticket, token, &values, used as usize);
        Ok(())
    }

    /// The holder uses the first values, and keeps the others.
    fn use_some(
        &mut self,
        sequence: &Sequence,
        ticket: &Ticket,
        token: String,
        values: &[i64],
        used: usize,
    ) {
        let Some(life) = self.ledger().life_of(sequence, ticket, values[0]) else { return };
        let next = values[0] + used as i64 * life.increment;
        if let Some(place) = life.place(next) {
            let count = (values.len() - used) as i64;
            let held = HeldLease { token, life, next, place, count, tried: false };
            held.set(Holds::Everything);
            sequence.held.lock().unwrap().push(held);
        }
        if used > 0 {
            let ledger = self.ledger();
            ledger.saw(sequence, ticket, &mut Default::default(), &values[..used], false);
        }
    }

    fn meet(&mut self, sequence: &Sequence, held: HeldLease, rng: &mut Rng) -> Outcome<()> {
        let token = held.token.clone();
        match rng.u32(..12) {
            // It is never heard of again.
            0 => Ok(()),
            1 => {
                let revoked = self.run(&format!("SELECT hilo_lease_revoke('{token}')"));
                self.allow_refusal(revoked)
            }
            2 | 3 => {
                let ttl = if rng.bool() { "'1 hour'" } else { "NULL" };
                let renewed = self.run(&format!("SELECT hilo_lease_renew('{token}', {ttl})"));
                sequence.held.lock().unwrap().push(held);
                self.allow_refusal(renewed)
            }
            4 => {
                sequence.held.lock().unwrap().push(held);
                let stranger = format!("{:032x}", rng.u128(..));
                self.must_refuse(&format!("SELECT hilo_lease_return('{stranger}')"), "42704")
            }
            kind => self.give_back(sequence, held, kind == 5, rng),
        }
    }

    fn give_back(
        &mut self,
        sequence: &Sequence,
        mut held: HeldLease,
        twice: bool,
        rng: &mut Rng,
    ) -> Outcome<()> {
        let sql = format!("SELECT hilo_lease_return('{}', {})", held.token, held.next);
        if rng.u32(..8) == 0 {
            let body = self.run("BEGIN").and_then(|()| self.query(&sql).map(drop));
            sequence.held.lock().unwrap().push(held);
            let undone = self.finish(body, End::RollBack);
            return self.allow_refusal(undone);
        }
        held.set(Holds::Nothing);
        match self.query(&sql) {
            Ok(rows) => {
                let back = rows[0].get::<_, i64>(0);
                add(&self.ledger().figures.returned, back as u64);
                if back == 0 {
                    held.set(Holds::Everything);
                } else if back != held.count {
                    let HeldLease { count, .. } = held;
                    self.ledger().figures.wrong(format!("{sql}: {back} of {count} came back"));
                }
                if twice { self.must_refuse(&sql, "42704") } else { Ok(()) }
            }
            Err(Failure::Refused(state)) if state == "42704" => {
                // It has expired, or was dropped with its sequence, or a promotion has lost it.
                if !held.tried {
                    held.set(Holds::Everything);
                }
                Ok(())
            }
            Err(failure) => {
                held.tried = true;
                sequence.held.lock().unwrap().push(held);
                Err(failure)
            }
        }
    }

    /// A lease may have ended before.
    fn allow_refusal(&self, done: Outcome<()>) -> Outcome<()> {
        match done {
            Err(Failure::Refused(state)) if state == "42704" => Ok(()),
            done => done,
        }
    }
}
