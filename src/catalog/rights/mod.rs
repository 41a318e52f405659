//! Who owns a sequence, who may do what with it, and which privileges a new one starts with.

pub mod creation;
pub mod default_privileges;
pub mod insert_rights;
pub mod missing;
pub mod privileges;
pub mod role_references;
