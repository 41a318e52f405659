//! Rows of hilo's tables, and of core's catalogs: how they are found, read and written.

pub mod catalog_tables;
pub mod chain;
pub mod columns;
pub mod dependents;
pub mod encoding;
pub mod kept_indexes;
pub mod name;
pub mod object_lock;
pub mod record;
pub mod relations;
pub mod restore;
pub mod roles;
pub mod scan;
pub mod script;
pub mod table;
pub mod version;
pub mod watched;
