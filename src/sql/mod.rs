//! The functions that SQL calls, in folders by what a user does with them.

pub mod call;
pub mod check;
pub mod column;
pub mod define;
pub mod draw;
pub mod node;
pub mod observe;
pub mod report;
pub mod types;
