//! A set of numbers that are mostly dense: an eighth of a byte for each.

use std::collections::HashMap;

const WORDS: usize = 256;
const WIDTH: i64 = WORDS as i64 * 64;

#[derive(Default)]
pub struct Bits {
    chunks: HashMap<i64, Box<[u64; WORDS]>>,
}

fn place(number: i64) -> (i64, usize, u64) {
    let inside = number.rem_euclid(WIDTH);
    (number.div_euclid(WIDTH), (inside / 64) as usize, 1 << (inside % 64))
}

impl Bits {
    /// Adds `number`. Whether it is new.
    pub fn insert(&mut self, number: i64) -> bool {
        let (chunk, word, bit) = place(number);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; WORDS]));
        let new = chunk[word] & bit == 0;
        chunk[word] |= bit;
        new
    }

    pub fn contains(&self, number: i64) -> bool {
        let (chunk, word, bit) = place(number);
        self.chunks.get(&chunk).is_some_and(|chunk| chunk[word] & bit != 0)
    }

    /// The smallest and the largest.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        let lowest = self.chunks.keys().min()?;
        let highest = self.chunks.keys().max()?;
        let low = (lowest * WIDTH..(lowest + 1) * WIDTH).find(|&number| self.contains(number))?;
        let mut down = (highest * WIDTH..(highest + 1) * WIDTH).rev();
        Some((low, down.find(|&number| self.contains(number))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_it_holds() {
        let mut bits = Bits::default();
        assert_eq!(bits.bounds(), None);
        for number in [-1, 0, 63, 64, -16_385, 1 << 40] {
            assert!(bits.insert(number));
            assert!(!bits.insert(number));
            assert!(bits.contains(number) && !bits.contains(number + 2));
        }
        assert_eq!(bits.bounds(), Some((-16_385, 1 << 40)));
    }
}
