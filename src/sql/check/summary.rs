//! The summary of a node says which it is and how it numbers its sequences. `hilo_compare` takes
//! that of any server.

use pgrx::pg_sys;
use serde_json::{Value, json};

use hilo_core::document::all_options;
use hilo_core::options::Definition;

use crate::errors::{HiloError, OrRaise};
use crate::process::memory;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::define::ddl_checks::require;
use crate::sql::node::json;

sql_functions!(hilo_read_summary);

/// `hilo.read_summary(summary)`: checks a summary, and says of each sequence all of its options,
/// and whether several nodes share it.
fn hilo_read_summary(args: Args) -> pg_sys::Datum {
    let summary = json::read(require(args, 0, "summary")).or_raise();
    if summary.node.is_none() {
        HiloError::Argument(
            "the document is not the summary of a node".into(),
            "Pass what hilo_node_summary() returns on the other server.",
        )
        .raise()
    }
    let sequences = summary.sequences.iter().map(|sequence| {
        // `None`: no sequence can have such options.
        let options = Definition::create(&sequence.options()).ok().map(|definition| {
            let mut options = all_options(&definition);
            options.insert("owned_by".into(), json!(sequence.owned_by));
            options
        });
        json!({
            "name": sequence.name,
            "owner": sequence.owner,
            "privileges": sequence.privileges,
            "options": options,
            "numbering": sequence.numbering.map(|numbering| numbering.to_string()),
            "shared": sequence.numbering.is_some_and(|numbering| numbering.nodes > 1),
        })
    });
    let sequences: Vec<Value> = memory::try_collect(sequences).or_raise();
    json::write(&json!({ "node": summary.node, "sequences": sequences })).or_raise()
}
