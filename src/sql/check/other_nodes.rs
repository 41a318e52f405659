//! The summaries of other nodes: each says in it who it is and how it numbers its sequences. On
//! Citus `hilo_check` asks all nodes; `hilo_compare` takes the summary of any server.

use pgrx::pg_sys;
use serde_json::{Value, json};

use hilo_core::document::{Described, Document, all_options};
use hilo_core::node_id::NodeId;
use hilo_core::numbers::Index;
use hilo_core::options::Definition;
use hilo_core::summary::Numbering;

use crate::catalog::definitions::Sequence;
use crate::catalog::node;
use crate::catalog::positions::Position;
use crate::catalog::table::{bytes_of, text_datum};
use crate::citus;
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::process::memory;
use crate::process::subtransaction;
use crate::process::time_limit::Unfinished;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::check::reach::Reach;
use crate::sql::define::ddl_checks::require;
use crate::sql::node::all_nodes::{self, Answer};
use crate::sql::node::{export, json};

sql_functions!(hilo_node_answers, hilo_node_summaries, hilo_read_summary);

/// `hilo.node_summaries()`: what the other nodes of Citus say, or why they do not. It may take as
/// long as a monitoring query may, and fails for no node.
fn hilo_node_summaries(args: Args) {
    let mut rows = StoredRows::begin(args);
    if !all_nodes::can_ask() || gucs::node_id() == NodeId::Unset {
        return;
    }
    let mut add = |object: &str, said: Result<Document, String>| {
        let summary = said.as_ref().ok().map(|summary| json::write(summary).or_raise());
        let failure = said.as_ref().err().map(|why| text_datum(why.as_bytes()));
        // SAFETY: the function is declared to return a text, a jsonb and a text.
        unsafe { rows.add_some([Some(text_datum(object.as_bytes())), summary, failure]) };
    };
    let no_answer = |why: String| Err(format!("could not ask the other nodes: {why}"));
    match all_nodes::summaries() {
        Err(Unfinished::TooLate) => add("Citus", no_answer(all_nodes::late())),
        Err(Unfinished::Failed(error)) => add("Citus", no_answer(subtransaction::message(&error))),
        Ok(answers) => {
            let own = node::group();
            let others = answers.into_iter().filter(|answer| Some(answer.group) != own);
            for Answer { node, result, .. } in others {
                let said = match result.map(|text| Document::parse(&text)) {
                    Ok(summary) => {
                        summary.map_err(|error| format!("could not read its summary: {error}"))
                    }
                    Err(why) => Err(format!("could not ask it: {}", why.trim_end())),
                };
                add(&format!("node {node}"), said);
            }
        }
    }
}

/// `hilo.node_answers(command)`: what a command that returns one value says on each node of Citus,
/// or why it says nothing there.
fn hilo_node_answers(args: Args) {
    // SAFETY: the function is declared to take a text.
    let command = json::utf8(unsafe { bytes_of(require(args, 0, "command")) });
    let mut rows = StoredRows::begin(args);
    if !all_nodes::can_ask() || gucs::node_id() != NodeId::Unset {
        return;
    }
    let mut add = |object: &str, group: i32, said: Result<&str, &str>| {
        let texts =
            [said.ok(), said.err()].map(|said| said.map(|said| text_datum(said.as_bytes())));
        let [answer, failure] = texts;
        // SAFETY: the function is declared to return a text, an integer and two texts.
        unsafe {
            rows.add_some([
                Some(text_datum(object.as_bytes())),
                Some(group.into()),
                answer,
                failure,
            ])
        };
    };
    match all_nodes::run(&command) {
        Err(Unfinished::TooLate) => add("Citus", -1, Err(&all_nodes::late())),
        Err(Unfinished::Failed(error)) => add("Citus", -1, Err(&subtransaction::message(&error))),
        Ok(answers) => {
            for Answer { node, group, result } in answers {
                let said = result.as_deref().map_err(|why| why.trim_end());
                add(&format!("node {node}"), group, said);
            }
        }
    }
}

/// The summaries of the nodes that answer.
pub(super) fn answers() -> Vec<Document> {
    if gucs::node_id() == NodeId::Unset {
        return Vec::new();
    }
    let answers = all_nodes::summaries().unwrap_or_default().into_iter();
    answers.filter_map(|answer| Document::parse(&answer.result.ok()?).ok()).collect()
}

/// `hilo.read_summary(summary)`: checks a summary, and says of each sequence all of its options,
/// and how several nodes share it.
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
        let definition = Definition::create(&sequence.options()).ok();
        json!({
            "name": sequence.name,
            "owner": sequence.owner,
            "privileges": sequence.privileges,
            "options": definition.as_ref().map(|of| {
                let mut options = all_options(of);
                options.insert("owned_by".into(), json!(sequence.owned_by));
                options
            }),
            "low": definition.as_ref().map(|of| of.min_value),
            "high": definition.as_ref().map(|of| of.max_value),
            "numbering": sequence.numbering.map(|numbering| numbering.to_string()),
            "shared": sharing(sequence, definition.as_ref()),
        })
    });
    let sequences: Vec<Value> = memory::try_collect(sequences).or_raise();
    json::write(&json!({ "node": summary.node, "sequences": sequences })).or_raise()
}

/// How several nodes share a sequence: in stripes, or as Citus numbers core's sequences on its
/// workers: with bounds of each node's own.
fn sharing(sequence: &Described, definition: Option<&Definition>) -> Option<&'static str> {
    if sequence.numbering.is_some_and(|numbering| numbering.nodes > 1) {
        return Some("stripes");
    }
    // An integer sequence lies within the bounds of group 0, and is no sign of anything.
    let whole = definition.filter(|of| of.max_value % (1 << 48) == 0)?;
    (citus::is_here() && node::group_by_bounds(whole).is_some()).then_some("bounds")
}

/// How far the other nodes have come that number a sequence as this one.
pub(super) fn reaches(sequence: &Sequence, summaries: &[Document]) -> Vec<Reach> {
    let Some(here) = node::id_if_known() else { return Vec::new() };
    let Some(own) = export::numbering(sequence, here).or_raise() else { return Vec::new() };
    let name = json::utf8(&sequence.name);
    let reach = |summary: &Document| {
        let node = summary.node.as_ref()?.id.filter(|id| *id != here && *id < own.nodes)?;
        let there = summary.sequences.iter().find(|there| there.name == name)?;
        let numbering = there.numbering.filter(|there| there.is_as(&own))?;
        // Some options decide which values there are.
        let deciding = |of: &Definition| (of.increment, of.cycle);
        let alike = Definition::create(&there.options())
            .is_ok_and(|there| deciding(&there) == deciding(&sequence.definition));
        let first = Position::first(sequence, node);
        let Numbering { base, nodes, stripe, .. } = numbering;
        let mapping = Position { base, nodes, stripe, ..first }.mapping(&sequence.definition);
        let next_index =
            numbering.reserved_to.map_or(Index::ZERO, |to| mapping.first_index_beyond(to));
        alike.then_some(Reach { node, mapping, next_index })
    };
    memory::try_collect(summaries.iter().filter_map(reach)).or_raise()
}
