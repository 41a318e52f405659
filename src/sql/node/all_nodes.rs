//! Runs a command on all nodes of Citus, within a time limit.
//!
//! Citus connects to each node, this one too, as the current user, and outside of this transaction.
//! So a command that others must not see before the transaction ends cannot be run like this.

use std::ffi::CStr;
use std::time::Duration;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReport};
use pgrx::prelude::*;

use crate::catalog::rows::name::escape_for_message;
use crate::process::subtransaction;
use crate::process::time_limit::{self, TooLate};
use crate::sql::call::border::Call;
use crate::sql::call::spi;
use crate::sql::call::stored_rows::{Rows, row};
use crate::sql::call::text::{Text, Written};
use crate::sql::column::values;
use crate::sql::define::ddl_checks::begin_write;

/// How long this session waits for all answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long this session waits for a connection.
const SHORTLY: &CStr = c"2s";

/// `_hilo.hilo_is_outside_block()`
#[pg_extern(sql = false)]
fn hilo_is_outside_block(_call: Call) -> Result<bool, ErrorReport> {
    // SAFETY: the name is a C string. A rollback here does not undo the work of other nodes, which
    // could wait for this transaction.
    unsafe { pg_sys::PreventInTransactionBlock(true, c"hilo_create_on_all_nodes()".as_ptr()) };
    begin_write(c"hilo_create_on_all_nodes()")?;
    Ok(true)
}

/// `_hilo.hilo_is_of_callers(relation)`: whether a query of a table runs no code of other roles.
/// NULL if Citus does not distribute it.
#[pg_extern(sql = false)]
fn hilo_is_of_callers(_call: Call, relation: pg_sys::Oid) -> Result<Option<bool>, ErrorReport> {
    match values::is_distributed(relation)? {
        true => Ok(Some(values::is_of_callers(relation)?)),
        false => Ok(None),
    }
}

row! {
    struct NodeAnswer {
        object: String,
        node: i32,
        answer: Option<Written>,
        failure: Option<Written>,
    }
}

/// `_hilo.hilo_node_answers(command, everywhere)`: what a command that returns one value returns on
/// each node of Citus, or on the coordinator alone, or why it returns nothing. It may take as long
/// as a monitoring query may, and a node that fails does not fail the call.
#[pg_extern(sql = false)]
fn hilo_node_answers(
    call: Call,
    command: Text,
    everywhere: bool,
) -> Result<Rows<NodeAnswer>, ErrorReport> {
    let command = spi::literal(&command);
    let nodes = if everywhere { "all_nodes" } else { "coordinator" };
    let mut rows = Rows::begin(call);
    let function = "SELECT 1 FROM pg_catalog.pg_proc p
                     WHERE p.proname OPERATOR(pg_catalog.=) 'run_command_on_all_nodes'
                       AND p.pronamespace OPERATOR(pg_catalog.=) \
                       'pg_catalog'::pg_catalog.regnamespace";
    if spi::look_up(function, |_| ())?.is_empty() {
        return Ok(rows);
    }
    let no_answer = match subtransaction::run(is_of_nodes, || Ok(answers(&command, nodes))) {
        Ok(Ok(answers)) => {
            for (node, group, answered, mut result) in answers {
                result.truncate(result.trim_ascii_end().len());
                let said = Some(Written(result));
                let (answer, failure) = if answered { (said, None) } else { (None, said) };
                rows.add(NodeAnswer {
                    object: format!("node {node}"),
                    node: group,
                    answer,
                    failure,
                });
            }
            return Ok(rows);
        }
        Ok(Err(TooLate)) => {
            format!("the nodes have not answered within {} s", PATIENCE.as_secs())
        }
        Err(report) => report.message().to_owned(),
    };
    let failure = Some(Written(escape_for_message(no_answer.as_bytes()).into_bytes()));
    rows.add(NodeAnswer { object: "Citus".into(), node: -1, answer: None, failure });
    Ok(rows)
}

/// A node, as `host:port`, with its group, whether the command was run, and its result or error.
type Answer = (String, i32, bool, Vec<u8>);

/// Whether an error is neither a cancellation that somebody asked for nor the end of the session.
fn is_of_nodes(error: &CaughtError) -> bool {
    use PgSqlErrorCode::{ERRCODE_ADMIN_SHUTDOWN, ERRCODE_QUERY_CANCELED};
    ![ERRCODE_QUERY_CANCELED, ERRCODE_ADMIN_SHUTDOWN].contains(&subtransaction::sqlstate(error))
}

fn answers(command: &str, nodes: &str) -> Result<Vec<Answer>, TooLate> {
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
