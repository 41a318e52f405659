//! Leases: what is in somebody's hands comes to nobody, unless it comes back.

use std::collections::BTreeSet;

use super::{Changes, Model, Sequence, Verdict, Wait, expect_refusal, is_refused, must};
use crate::model::statement::{Answer, Given, Statement};

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// Only the transaction that takes it knows of it, or nobody.
    Unknown,
    /// `brief`: it may have expired.
    Open { brief: bool },
    /// The values from this one on, if any, may be served again.
    Ended { back: Option<usize> },
}

#[derive(Debug)]
pub struct Lease {
    token: String,
    holder: usize,
    id: u32,
    line: usize,
    increment: i64,
    values: Vec<i64>,
    /// For all to see.
    fate: Fate,
}

impl Model {
    /// The lease that a number stands for, and which of its values are used.
    pub(super) fn lease_facts(&self, lease: usize, used: usize) -> Given {
        let lease = &self.leases[lease % self.leases.len()];
        let used = (used % (lease.values.len() + 1)) as i64;
        let next = lease.values[0] + used * lease.increment;
        Given { lease: lease.token.clone(), next, ..Given::default() }
    }

    fn fate(&self, who: usize, at: usize) -> Fate {
        let own = self.sessions[who].transaction.as_ref().and_then(|own| own.leases.get(&at));
        own.copied().unwrap_or(self.leases[at].fate)
    }

    /// Whether a transaction has done anything to leases of a sequence.
    pub(super) fn leases_of(&self, changes: &Changes, id: u32) -> bool {
        changes.leases.keys().any(|at| self.leases[*at].id == id)
    }

    /// The leases that a statement ends.
    fn ending_leases(&self, who: usize, statement: &Statement) -> Vec<usize> {
        use Statement::*;
        match statement {
            Return { lease, .. } | Renew { lease, .. } | Revoke { lease } => {
                vec![lease % self.leases.len()]
            }
            RevokeAll { holder } => (0..self.leases.len())
                .filter(|at| self.leases[*at].holder == *holder)
                .filter(|at| matches!(self.fate(who, *at), Fate::Open { .. }))
                .collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn lease_waits(&self, others: &Changes, who: usize, statement: &Statement) -> Wait {
        self.leases_wait(others, self.ending_leases(who, statement).iter())
    }

    /// A transaction's change to leases is noted for its commit, and locks none of them. But a
    /// lease ends with its sequence, or is passed with it.
    fn leases_wait<'a>(
        &self,
        others: &Changes,
        mut leases: impl Iterator<Item = &'a usize>,
    ) -> Wait {
        let waits = leases.any(|at| {
            let Lease { id, fate, .. } = &self.leases[*at];
            *fate != Fate::Unknown && (others.locked.contains(id) || others.touched.contains(id))
        });
        if waits { Wait::Perhaps } else { Wait::No }
    }

    /// Whether a commit has to wait, to write what the transaction does to leases.
    pub(super) fn commit_waits(&self, others: &Changes, who: usize) -> Wait {
        let own = self.sessions[who].transaction.iter();
        self.leases_wait(others, own.flat_map(|own| own.leases.keys()))
    }

    fn is_brief(&self, who: usize, at: usize) -> bool {
        self.fate(who, at) == Fate::Open { brief: true }
    }

    /// A draw that takes a lease was answered.
    pub(super) fn judge_lease(
        &mut self,
        who: usize,
        sequence: &Sequence,
        statement: &Statement,
        token: &str,
        values: &[i64],
    ) {
        let brief = matches!(statement, Statement::Lease { brief: true, .. });
        let Sequence { id, line, increment, .. } = *sequence;
        let (token, values) = (token.to_owned(), values.to_vec());
        let fate = Fate::Unknown;
        self.leases.push(Lease { token, holder: who, id, line, increment, values, fate });
        self.set_fate(who, self.leases.len() - 1, Fate::Open { brief });
    }

    fn set_fate(&mut self, who: usize, at: usize, fate: Fate) {
        self.sessions[who].unpreparable = true;
        self.apply(who, |changes| {
            changes.leases.insert(at, fate);
        });
    }

    pub(super) fn settle_lease(&mut self, at: usize, fate: Fate) {
        let lease = &mut self.leases[at];
        lease.fate = fate;
        if let Fate::Ended { back: Some(used) } = fate {
            let seen = &mut self.lines[lease.line].seen;
            seen.retain(|value| !lease.values[used..].contains(value));
        }
    }

    /// All brief leases have expired.
    pub(super) fn expire(&mut self) {
        for lease in &mut self.leases {
            if lease.fate == (Fate::Open { brief: true }) {
                lease.fate = Fate::Ended { back: None };
            }
        }
    }

    /// A commit has renumbered or dropped sequences, or may have: what other transactions have
    /// leased of them may be void.
    pub(super) fn note_renumbering(&mut self, ids: &BTreeSet<u32>) {
        for session in &mut self.sessions {
            let open = session.transaction.iter().flat_map(|own| own.leases.keys());
            let void = open.filter(|at| {
                let Lease { id, fate, .. } = &self.leases[**at];
                *fate == Fate::Unknown && ids.contains(id)
            });
            session.void.extend(void);
        }
    }

    /// Whether the session cannot commit, surely and perhaps, because leases that it ends or renews
    /// have ended since.
    pub(super) fn may_be_gone(&self, who: usize) -> (bool, bool) {
        let Some(own) = &self.sessions[who].transaction else { return (false, false) };
        let gone = |at: &usize| matches!(self.leases[*at].fate, Fate::Ended { .. });
        // To revoke it comes to the same.
        let counts = |fate: &Fate| *fate != Fate::Ended { back: None };
        let is_there = |id: u32| {
            self.committed.values().any(|found| found.id == id) && !self.is_dropped(who, id)
        };
        let all = || own.leases.iter().filter(|(at, _)| gone(at));
        let surely = all().any(|(at, fate)| counts(fate) && is_there(self.leases[*at].id));
        let brief = own.leases.keys().any(|at| self.leases[*at].fate == Fate::Open { brief: true });
        (surely, brief || all().next().is_some())
    }

    /// Whether the session cannot commit, surely and perhaps, because of what it leases.
    pub(super) fn void(&self, who: usize) -> (bool, bool) {
        let session = &self.sessions[who];
        let Some(own) = &session.transaction else { return (false, false) };
        let mut pending = own.leases.keys().map(|at| &self.leases[*at]);
        let perhaps = own.leases.keys().any(|at| session.void.contains(at));
        let surely = pending.any(|lease| {
            let now = self.committed.values().find(|found| found.id == lease.id);
            lease.fate == Fate::Unknown
                && !own.locked.contains(&lease.id)
                && now.is_none_or(|now| now.line != lease.line)
        });
        (surely, perhaps)
    }

    pub(super) fn judge_end(
        &mut self,
        who: usize,
        statement: &Statement,
        answer: &Answer,
    ) -> Verdict {
        let concerned = self.ending_leases(who, statement);
        let open = |at: &&usize| matches!(self.fate(who, **at), Fate::Open { .. });
        if let Statement::RevokeAll { .. } = statement {
            let all = concerned.len() as i64;
            let is_there =
                |at: &usize| !self.is_brief(who, *at) && !self.is_dropped(who, self.leases[*at].id);
            let sure = concerned.iter().filter(|at| is_there(at)).count() as i64;
            must(
                matches!(answer, Answer::Values(count) if (sure..=all).contains(&count[0])),
                format!("{answer:?}, not {sure} to {all}"),
            )?;
            concerned.iter().for_each(|at| self.set_fate(who, *at, Fate::Ended { back: None }));
            return Ok(());
        }
        let Some(&at) = concerned.iter().find(open) else {
            return expect_refusal(answer, &["42704"]);
        };
        if is_refused(answer, &["42704"]) {
            let gone = self.is_brief(who, at) || self.is_dropped(who, self.leases[at].id);
            return must(gone, "the lease is open");
        }
        match (statement, answer) {
            (Statement::Return { used, .. }, Answer::Values(count)) => {
                let lease = &self.leases[at];
                let used = used % (lease.values.len() + 1);
                let rest = (lease.values.len() - used) as i64;
                let back = match count[0] {
                    0 => None,
                    count if count == rest => Some(used),
                    count => return Err(format!("{count} of {rest} came back")),
                };
                self.set_fate(who, at, Fate::Ended { back });
            }
            (Statement::Renew { brief, .. }, Answer::Done) => {
                self.set_fate(who, at, Fate::Open { brief: *brief });
            }
            (Statement::Revoke { .. }, Answer::Values(count)) if *count == [1] => {
                self.set_fate(who, at, Fate::Ended { back: None });
            }
            _ => return Err(format!("{answer:?}")),
        }
        Ok(())
    }

    /// Whether a sequence is there no more.
    fn is_dropped(&self, who: usize, id: u32) -> bool {
        let is_it = |name: u8| self.find(who, name).is_some_and(|found| found.id == id);
        !(0..3).any(is_it)
    }
}
