//! C functions that only the SQL objects of older releases call: a later release has replaced them by others
//! that take other arguments. Such objects are refused, with how to update them.

use super::args::{Args, sql_functions};
use crate::catalog::catalog_oids;
use crate::errors::{HiloError, OrRaise};
use crate::shared;

sql_functions!(hilo_create, hilo_alter);

/// `hilo_create` up to 0.2.0.
fn hilo_create(_args: Args) {
    refuse("hilo_create");
}

/// `hilo_alter` up to 0.2.0.
fn hilo_alter(_args: Args) {
    refuse("hilo_alter");
}

/// The version of the objects is what differs, unless somebody has created such a function by hand.
fn refuse(function: &str) -> ! {
    shared::get().or_raise();
    catalog_oids().or_raise();
    HiloError::CatalogMismatch(format!("its own function {function}")).raise()
}
