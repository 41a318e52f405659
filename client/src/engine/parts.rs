//! A plan that the server refuses because of one call in it.

use super::Plan;

/// A plan in parts, of which each is sent by itself. The call that the server refuses is found by a
/// binary search, in at most two statements more than the logarithm of the number of calls; all
/// others are in parts that are accepted.
#[derive(Debug)]
pub struct Parts {
    /// What is to be sent, the next one last; whether it is the first half of a part that was
    /// refused, and the second half comes before it here.
    rest: Vec<(Plan, bool)>,
    /// The part that is being sent is such a half.
    is_half: bool,
    /// A call that the server refuses was found before.
    has_found: bool,
}

impl Parts {
    /// All of a plan in one part.
    pub fn new(plan: Plan) -> Parts {
        Parts { rest: vec![(plan, false)], is_half: false, has_found: false }
    }

    /// What to send next.
    pub fn take(&mut self) -> Option<Plan> {
        loop {
            let (part, is_half) = self.rest.pop()?;
            self.is_half = is_half;
            if !part.is_empty() {
                return Some(part);
            }
        }
    }

    /// The part is to be sent again, perhaps with less in it.
    pub fn again(&mut self, part: Plan) {
        self.rest.push((part, self.is_half));
    }

    /// The server has done the part. If it has refused the other half of it together with this one,
    /// that need not be sent as a whole.
    pub fn accepted(&mut self) {
        if std::mem::take(&mut self.is_half)
            && let Some((other, _)) = self.rest.pop()
        {
            match other.len() {
                0 | 1 => self.rest.push((other, false)),
                _ => self.halve(other),
            }
        }
    }

    /// The server refuses the part, which has several calls: sends halves.
    pub fn halve(&mut self, part: Plan) {
        let (first, second) = part.split();
        self.rest.push((second, false));
        self.rest.push((first, true));
    }

    /// The server refuses the part, and it is not looked for one of several calls. Mostly there is
    /// one that it refuses: so the rest is sent together, the first time.
    pub fn found(&mut self) {
        if !std::mem::replace(&mut self.has_found, true) {
            let rest = self.rest();
            self.rest.push((rest, false));
        }
    }

    /// Takes all that is left, in order.
    pub fn rest(&mut self) -> Plan {
        let mut all = Plan::default();
        self.rest.drain(..).rev().for_each(|(part, _)| all.extend(part));
        all
    }

    /// What is left, to leave something of it out.
    pub fn plans_mut(&mut self) -> impl Iterator<Item = &mut Plan> {
        self.rest.iter_mut().map(|(part, _)| part)
    }
}
