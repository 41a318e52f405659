//! C functions whose work SQL has done since. Only the SQL objects of older versions name them, and
//! the library refuses these objects.

use pgrx::pg_sys;

use crate::catalog::catalog_oids;
use crate::errors::OrRaise;
use crate::sql::call::args::{Args, sql_functions};

macro_rules! replaced_functions {
    ($($name:ident),+ $(,)?) => {
        sql_functions!($($name),+);
        $(fn $name(args: Args) -> pg_sys::Datum {
            catalog_oids().or_raise();
            args.null()
        })+
    };
}

replaced_functions!(
    hilo_apply,
    hilo_check,
    hilo_compare,
    hilo_create_missing,
    hilo_create_on_all_nodes,
    hilo_export,
    hilo_find_gaps,
    hilo_node_summary,
    stat_rates,
);
