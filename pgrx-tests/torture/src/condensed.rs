//! Gaps that stand for several: they say how many numbers between their ends are lost, not which.
//!
//! If a sequence has had very many lives, such a gap may be of several.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::bits::Bits;
use super::ledger::Life;

/// The gaps of one sequence. Bounds are values times the sign of the increment, so that they rise
/// in the order of serving.
#[derive(Default)]
pub struct Condensed(Vec<Gap>);

struct Gap {
    first: i64,
    last: i64,
    /// How many lost numbers are not found yet.
    left: i64,
    /// The life that it is of; `None`: several.
    life: Option<i64>,
}

impl Condensed {
    pub fn add(&mut self, life: Option<i64>, ends: (i64, i64), count: i64, increment: i64) {
        let sign = increment.signum();
        let (first, last) = (ends.0 * sign, ends.1 * sign);
        self.0.push(Gap { first, last, left: count, life });
    }

    /// Removes from `open` the numbers that these gaps explain. Each is one of the gap that ends
    /// first, of all that have room for it: then as many as possible are explained. So the lives
    /// come in the order of their numbers.
    pub fn explain(&mut self, life: &Life, open: &mut Bits) {
        self.0.sort_by_key(|gap| gap.first);
        let mut begun = BinaryHeap::new();
        let mut next = 0;
        let mut explained = Bits::default();
        for place in open.iter() {
            let value = life.value(place) * life.increment.signum();
            while let Some(gap) = self.0.get(next).filter(|gap| gap.first <= value) {
                if gap.life.is_none_or(|key| key == life.key) {
                    begun.push(Reverse((gap.last, next)));
                }
                next += 1;
            }
            while let Some(Reverse((last, at))) = begun.peek().copied() {
                if last >= value && self.0[at].left > 0 {
                    self.0[at].left -= 1;
                    explained.insert(place);
                    break;
                }
                begun.pop();
            }
        }
        open.remove(&explained);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::figures::Figures;
    use super::super::ledger::{Ledger, Sequence, SequenceKind};
    use super::*;

    fn bits(numbers: &[i64]) -> Bits {
        let mut bits = Bits::default();
        assert!(numbers.iter().all(|number| bits.insert(*number)));
        bits
    }

    /// The first gap counts 4 numbers and is of both lives. Numbers that the others, which end before, have room
    /// for are not among them. The last one is of the first life, though it ends in the second.
    #[test]
    fn a_gap_explains_numbers_of_several_lives_and_no_more_than_it_counts() {
        for increment in [1, -1] {
            let sequence = Sequence::new(0, "postgres", "s", SequenceKind::Wide, increment);
            let ledger = Ledger::new(Vec::new(), Arc::new(Figures::default()));
            let lives = [ledger.begin_life(&sequence), ledger.begin_life(&sequence)];
            let (first, second) = match increment {
                1 => (&lives[0], &lives[1]),
                _ => (&lives[1], &lives[0]),
            };
            let (mut in_first, mut in_second) =
                (bits(&[5, 6, 45, 50, 55, 90, 95]), bits(&[1, 2, 3]));
            let mut condensed = Condensed::default();
            let key = Some(first.key);
            condensed.add(None, (first.value(0), second.value(2)), 4, increment);
            condensed.add(key, (first.value(40), first.value(60)), 3, increment);
            condensed.add(key, (first.value(60), first.value(100)), 1, increment);
            condensed.add(key, (first.value(200), second.value(50)), 9, increment);
            condensed.explain(first, &mut in_first);
            condensed.explain(second, &mut in_second);
            assert_eq!(in_first.count(), 0);
            assert_eq!(in_second.iter().collect::<Vec<_>>(), [2, 3]);
        }
    }
}
