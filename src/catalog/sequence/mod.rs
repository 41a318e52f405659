//! The definition of a sequence, its numbering among nodes, and the position that each node has
//! reached.

pub mod definitions;
pub mod gapless;
pub mod gaps;
pub mod membership;
pub mod node;
pub mod numbering;
pub mod places;
pub mod positions;
pub mod takeover;
