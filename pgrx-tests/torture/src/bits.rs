//! A set of places that are mostly dense: an eighth of a byte for each.

use std::collections::BTreeMap;

const WORDS: usize = 256;
const WIDTH: i64 = WORDS as i64 * 64;

type Chunk = [u64; WORDS];

#[derive(Default)]
pub struct Bits {
    chunks: BTreeMap<i64, Box<Chunk>>,
}

fn place(number: i64) -> (i64, usize, u64) {
    let inside = number.rem_euclid(WIDTH);
    (number.div_euclid(WIDTH), (inside / 64) as usize, 1 << (inside % 64))
}

impl Bits {
    fn chunk(&mut self, chunk: i64) -> &mut Chunk {
        self.chunks.entry(chunk).or_insert_with(|| Box::new([0; WORDS]))
    }

    /// Adds `number`. Returns whether it is new.
    pub fn insert(&mut self, number: i64) -> bool {
        let (chunk, word, bit) = place(number);
        let word = &mut self.chunk(chunk)[word];
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Adds the numbers from `start` to `end`. Returns the first that was there already.
    pub fn insert_range(&mut self, start: i64, end: i64) -> Option<i64> {
        let mut twice = None;
        let mut at = start;
        while at < end {
            let (chunk, word, _) = place(at);
            let inside = at.rem_euclid(64);
            let count = (64 - inside).min(end - at);
            let bits = (u64::MAX >> (64 - count)) << inside;
            let word = &mut self.chunk(chunk)[word];
            if twice.is_none() && *word & bits != 0 {
                twice = Some(at - inside + i64::from((*word & bits).trailing_zeros()));
            }
            *word |= bits;
            at += count;
        }
        twice
    }

    /// Adds every `step`-th of the numbers from `start` to `end`. Returns one that was there
    /// already.
    pub fn insert_steps(&mut self, start: i64, end: i64, step: i64) -> Option<i64> {
        if step == 1 {
            return self.insert_range(start, end);
        }
        let numbers = std::iter::successors(Some(start), |number| Some(number + step));
        numbers.take_while(|number| *number < end).filter(|number| !self.insert(*number)).last()
    }

    /// Removes the numbers from `start` to `end`.
    pub fn remove_range(&mut self, start: i64, end: i64) {
        let mut range = Bits::default();
        range.insert_range(start, end);
        self.remove(&range);
    }

    pub fn contains(&self, number: i64) -> bool {
        let (chunk, word, bit) = place(number);
        self.chunks.get(&chunk).is_some_and(|chunk| chunk[word] & bit != 0)
    }

    pub fn add(&mut self, other: &Bits) {
        for (&chunk, words) in &other.chunks {
            self.chunk(chunk).iter_mut().zip(words.iter()).for_each(|(to, from)| *to |= from);
        }
    }

    pub fn remove(&mut self, other: &Bits) {
        for (chunk, words) in &mut self.chunks {
            if let Some(other) = other.chunks.get(chunk) {
                words.iter_mut().zip(other.iter()).for_each(|(to, from)| *to &= !from);
            }
        }
    }

    /// The first number that is in both.
    pub fn common(&self, other: &Bits) -> Option<i64> {
        self.chunks.iter().find_map(|(&chunk, words)| {
            let others = other.chunks.get(&chunk)?;
            let both = words.iter().zip(others.iter()).map(|(a, b)| a & b);
            first(chunk, both)
        })
    }

    /// The numbers that are in both.
    pub fn both(&self, other: &Bits) -> Bits {
        let mut both = Bits::default();
        for (&chunk, words) in &self.chunks {
            if let Some(others) = other.chunks.get(&chunk) {
                let common = both.chunk(chunk);
                (0..WORDS).for_each(|at| common[at] = words[at] & others[at]);
            }
        }
        both
    }

    pub fn count(&self) -> u64 {
        self.chunks.values().flat_map(|words| words.iter()).map(|w| u64::from(w.count_ones())).sum()
    }

    /// The numbers, rising.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        self.chunks.iter().flat_map(|(&chunk, words)| {
            words.iter().enumerate().flat_map(move |(at, word)| {
                let word = *word;
                let has = move |bit: &i64| word & (1 << bit) != 0;
                (0..64).filter(has).map(move |bit| chunk * WIDTH + at as i64 * 64 + bit)
            })
        })
    }

    pub fn lowest(&self) -> Option<i64> {
        self.chunks.iter().find_map(|(&chunk, words)| first(chunk, words.iter().copied()))
    }

    pub fn highest(&self) -> Option<i64> {
        self.chunks.iter().rev().find_map(|(&chunk, words)| {
            let (at, word) = words.iter().enumerate().rev().find(|(_, word)| **word != 0)?;
            Some(chunk * WIDTH + at as i64 * 64 + 63 - i64::from(word.leading_zeros()))
        })
    }
}

fn first(chunk: i64, words: impl Iterator<Item = u64>) -> Option<i64> {
    let (at, word) = words.enumerate().find(|(_, word)| *word != 0)?;
    Some(chunk * WIDTH + at as i64 * 64 + i64::from(word.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_it_holds() {
        let mut bits = Bits::default();
        assert_eq!((bits.lowest(), bits.highest()), (None, None));
        for number in [-1, 0, 63, 64, -16_385, 1 << 40] {
            assert!(bits.insert(number));
            assert!(!bits.insert(number));
            assert!(bits.contains(number) && !bits.contains(number + 2));
        }
        assert_eq!((bits.lowest(), bits.highest()), (Some(-16_385), Some(1 << 40)));
        assert_eq!(bits.count(), 6);
        assert!(bits.iter().eq([-16_385, -1, 0, 63, 64, 1 << 40]));
    }

    #[test]
    fn takes_ranges_as_it_takes_numbers() {
        for (start, end) in [(0, 64), (-70, 3), (16_380, 16_390), (5, 5), (63, 64), (1, 40_000)] {
            let mut bits = Bits::default();
            assert_eq!(bits.insert_range(start, end), None);
            assert_eq!(bits.count(), (end - start) as u64);
            assert!((start..end).all(|number| bits.contains(number)));
            assert!(!bits.contains(start - 1) && !bits.contains(end));
            if start < end {
                assert_eq!(bits.insert_range(end - 1, end + 1), Some(end - 1));
                assert_eq!(bits.insert_range(start - 9, end), Some(start));
                let count = bits.count();
                assert_eq!(bits.insert_steps(end + 1, end + 8, 3), None);
                assert_eq!(bits.insert_steps(end + 1, end + 8, 6), Some(end + 7));
                assert_eq!(bits.count(), count + 3);
            }
        }
    }

    #[test]
    fn adds_and_removes() {
        let (mut a, mut b) = (Bits::default(), Bits::default());
        a.insert_range(0, 100);
        b.insert_range(100, 30_000);
        assert_eq!((a.common(&b), a.both(&b).count()), (None, 0));
        a.add(&b);
        assert_eq!((a.count(), a.common(&b)), (30_000, Some(100)));
        assert!(a.both(&b).iter().eq(100..30_000));
        a.remove(&b);
        assert_eq!((a.count(), a.highest()), (100, Some(99)));
    }
}
