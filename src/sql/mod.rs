//! The functions that SQL calls, in rooms by what a user does: they read arguments and return
//! results. The work is done elsewhere.

pub mod call;
pub mod check;
pub mod column;
pub mod define;
pub mod draw;
pub mod node;
pub mod observe;
pub mod report;
pub mod types;
