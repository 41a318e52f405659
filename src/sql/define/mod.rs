//! Definitions: create, alter, drop, renumber, grant, own.

pub mod advance;
pub mod ddl;
pub mod ddl_checks;
pub mod function_grants;
pub mod grants;
pub mod loads_hilo;
pub mod numbering_change;
pub mod open_leases;
pub mod options;
pub mod owned_by;
pub mod owners;
pub mod prefix;
pub mod redefine;
pub mod renumber;
pub mod source;
pub mod unserved;
