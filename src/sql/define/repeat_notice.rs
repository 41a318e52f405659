//! The notice that a sequence goes back to values that it may have served.

use pgrx::prelude::*;

use hilo_core::mapping::{Mapping, first_repeat};
use hilo_core::numbers::Index;

use crate::catalog::definitions::Sequence;
use crate::catalog::positions::Position;

/// Tells the client which values may be served again if `position`, the end of a numbering of
/// `old`, is followed by index `next_index` of `new`. A sequence that has served nothing yet has
/// nothing to repeat.
pub fn notice(old: &Sequence, position: &Position, new: &Mapping, next_index: Index) {
    if position.is_first() && position.next_index == Index::ZERO {
        return;
    }
    let mapping = position.mapping(&old.definition);
    if let Some((first, last)) = first_repeat(&mapping, position.next_index, new, next_index) {
        notice!(
            "values from {first} to {last} of hilo sequence \"{}\" may be served again",
            old.name
        );
    }
}
