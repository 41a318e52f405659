//! How far another node has come.

use hilo_core::mapping::Mapping;
use hilo_core::numbers::Index;

pub struct Reach {
    pub node: i32,
    pub mapping: Mapping,
    pub next_index: Index,
}

impl Reach {
    pub fn is_to_serve(&self, value: i64) -> bool {
        self.mapping.index_of(value).is_some_and(|index| index >= self.next_index)
    }
}
