//! Runs a command on all nodes of Citus, within a time limit.
//!
//! Citus connects to each node, this one too, as the current user, and outside of this transaction.
//! So a command that others must not see before the transaction ends cannot be run like this.

use std::ffi::CStr;
use std::time::Duration;

use pgrx::pg_sys;

use crate::catalog::table::{bytes_of, text_datum};
use crate::errors::OrRaise;
use crate::process::subtransaction;
use crate::process::time_limit::{self, Unfinished};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::call::values;
use crate::sql::define::ddl_checks::{begin_write, require};

sql_functions!(hilo_is_of_callers, hilo_is_outside_block, hilo_node_answers,);

/// How long this session waits for all answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long this session waits for a connection.
const SHORTLY: &CStr = c"2s";

/// `_hilo.hilo_is_outside_block()`
fn hilo_is_outside_block(_: Args) -> pg_sys::Datum {
    // SAFETY: the name is a C string. A rollback here does not undo the work of other nodes, which
    // could wait for this transaction.
    unsafe { pg_sys::PreventInTransactionBlock(true, c"hilo_create_on_all_nodes()".as_ptr()) };
    begin_write(c"hilo_create_on_all_nodes()");
    true.into()
}

/// `_hilo.hilo_is_of_callers(relation)`: whether a query of a table runs no code of others. NULL if
/// Citus does not distribute it.
fn hilo_is_of_callers(args: Args) -> Option<pg_sys::Datum> {
    let relation = args.oid(0).filter(|relation| values::is_distributed(*relation))?;
    Some(values::is_of_callers(relation).or_raise().into())
}

/// `_hilo.hilo_node_answers(command, everywhere)`: what a command that returns one value says on
/// each node of Citus, or on the coordinator alone, or why it says nothing there. It may take as
/// long as a monitoring query may, and fails for no node.
fn hilo_node_answers(args: Args) {
    // SAFETY: the function is declared to take a text and a boolean.
    let command = spi::literal(unsafe { bytes_of(require(args, 0, "command")) });
    let nodes = match require(args, 1, "everywhere").value() != 0 {
        true => "all_nodes",
        false => "coordinator",
    };
    let mut rows = StoredRows::begin(args);
    let function = "SELECT 1 FROM pg_catalog.pg_proc p
                     WHERE p.proname OPERATOR(pg_catalog.=) 'run_command_on_all_nodes'
                       AND p.pronamespace OPERATOR(pg_catalog.=) \
                       'pg_catalog'::pg_catalog.regnamespace";
    if spi::look_up(function, |_| ()).is_empty() {
        return;
    }
    let mut add = |object: &str, group: i32, answer: Option<&[u8]>, failure: Option<&[u8]>| {
        let [answer, failure] = [answer, failure].map(|said| said.map(text_datum));
        let row = [Some(text_datum(object.as_bytes())), Some(group.into()), answer, failure];
        // SAFETY: the function is declared to return a text, an integer and two texts.
        unsafe { rows.add_some(row) };
    };
    let no_answer = match answers(&command, nodes) {
        Ok(answers) => {
            for (node, group, answered, result) in answers {
                let result = result.trim_ascii_end();
                let [answer, failure] = [answered, !answered].map(|of| of.then_some(result));
                add(&format!("node {node}"), group, answer, failure);
            }
            return;
        }
        Err(Unfinished::TooLate) => {
            format!("the nodes have not answered within {} s", PATIENCE.as_secs())
        }
        Err(Unfinished::Failed(error)) => subtransaction::message(&error),
    };
    add("Citus", -1, None, Some(no_answer.as_bytes()));
}

/// A node, as `host:port`, with its group, whether the command was run, and its result or error.
type Answer = (String, i32, bool, Vec<u8>);

fn answers(command: &str, nodes: &str) -> Result<Vec<Answer>, Unfinished> {
    let sql = format!(
        "SELECT CASE WHEN n.nodeid IS NULL THEN pg_catalog.concat('number ', r.nodeid)
                     ELSE pg_catalog.concat(n.nodename, ':', n.nodeport) END, COALESCE(n.groupid, \
                     -1), r.success, r.result
           FROM pg_catalog.run_command_on_{nodes}({command}) r
           LEFT JOIN pg_catalog.pg_dist_node n ON n.nodeid OPERATOR(pg_catalog.=) r.nodeid"
    );
    let answer = |row: spi::Row| {
        (row.text(1), row.int4(2).unwrap_or(-1), row.bool(3), row.bytes(4).unwrap_or_default())
    };
    let settings = [(c"citus.node_connection_timeout", SHORTLY)];
    time_limit::within(PATIENCE, || spi::with_settings(&settings, || spi::rows(&sql, answer)))
}
