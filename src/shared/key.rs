//! What a slot belongs to.

use hilo_core::numbers::SequenceId;

/// What a slot belongs to. What is left over from a dropped database, extension or sequence never
/// has the key of a later one, because sequence ids are random and not used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Key {
    pub database: u32,
    pub extension: u32,
    pub sequence: SequenceId,
}

impl Key {
    /// No sequence's key.
    pub const NONE: Key = Key { database: 0, extension: 0, sequence: SequenceId(0) };
}
