//! Warns in the server's log when a sequence comes near its end.

use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;
use hilo_core::range::Range;

use crate::shared::slot::Locked;

/// Percentages of the range; each is reported once.
const LEVELS: [u8; 3] = [80, 90, 95];

/// The percentage of a sequence's range that is reserved if `next` is the next index, rounded down.
fn percent(mapping: &Mapping, next: Index) -> u8 {
    let Some(value) = mapping.value(next) else { return 100 };
    let whole = mapping.max_value as i128 - mapping.min_value as i128 + 1;
    let used = match mapping.increment > 0 {
        true => value as i128 - mapping.min_value as i128,
        false => mapping.max_value as i128 - value as i128,
    };
    (used * 100 / whole) as u8
}

fn level(percent: u8) -> u8 {
    LEVELS.into_iter().rev().find(|level| percent >= *level).unwrap_or(0)
}

/// The level that a block passes, if it is to be warned of. Levels below the block were reported
/// when they were reserved, perhaps in an earlier life.
pub fn new_level(locked: &mut Locked, mapping: &Mapping, block: Range) -> Option<u8> {
    if mapping.cycle || block.is_empty() {
        return None;
    }
    // A numbering that begins beyond a level has just passed it.
    let before = if block.start <= Index(1) { 0 } else { level(percent(mapping, block.start)) };
    let now = level(percent(mapping, block.end));
    if now <= locked.warned.max(before) {
        return None;
    }
    locked.warned = now;
    Some(now)
}
