//! How to deal with a sequence that several nodes share, as errors and `hilo_check` advise it.
//! Whoever follows the advice on one node only must get an error, and not values that another node
//! serves too.

use crate::{citus, gucs};

/// How to restart a sequence on all nodes.
pub const RESTART: &str = "On every node, SET hilo.on_every_node = on and run hilo_alter(name, \
    restart_with => ...) with the same value. It must be beyond all that any node reserves until \
    the last one has done it.";

/// How to create a sequence.
pub fn create() -> &'static str {
    match (citus::is_here(), gucs::node_count()) {
        (true, _) => {
            "Run hilo_create_on_all_nodes on the coordinator of Citus, which makes it a branch on \
             each worker, or completes a later one. If rows have numbers already, give it a \
             start_value beyond these."
        }
        (false, 2..) => {
            "If another node has it, pass what hilo_node_summary() returns there to hilo_apply() \
             here. Otherwise SET hilo.on_every_node = on, create it here with hilo_create, beyond \
             the numbers that rows have already, and let the others join in the same way."
        }
        _ => {
            "Create it with hilo_create. If rows have numbers of it already, give it a start_value \
             beyond these. If no other server serves the same values, hilo.auto_create = on \
             creates it at the first use."
        }
    }
}

/// Whether no other server can serve the same sequences, as far as the settings say.
pub fn is_alone() -> bool {
    gucs::node_count() == 1 && !citus::is_here()
}

/// How to create the sequence that a column's default uses.
pub fn create_for_column() -> String {
    let how = match is_alone() {
        true => {
            "The owner of the table creates it with hilo_create_missing(), beyond what the column \
             holds."
        }
        false => create(),
    };
    format!("{how} Or give the column another default.")
}

/// How to make a sequence skip the values up to a given one, on all nodes. `format` of SQL fills in
/// the name and the value.
pub const PASS: &str = "On every node: SET hilo.on_every_node = on; SELECT hilo_advance(%L, %s)";

/// How to make a sequence skip the values up to `taken`, on all nodes.
pub fn pass(name: &str, taken: i64) -> String {
    PASS.replace("%s", &taken.to_string()).replace("%L", &literal(name))
}

/// A string constant of SQL, as it is usually written.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
