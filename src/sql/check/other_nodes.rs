//! What `hilo_check` finds when it compares this node with others: each says in a summary who it is and how it numbers
//! its sequences. On Citus it asks all nodes; `hilo_compare` takes the summary of any server.

use std::cell::{Cell, RefCell};

use hilo_core::document::{Described, Document, changes};
use hilo_core::numbers::Index;
use hilo_core::options::Definition;
use hilo_core::summary::Numbering;

use super::columns::{Column, Reach};
use super::finding::{Findings, Severity, finding};
use crate::catalog::definitions::Sequence;
use crate::catalog::node;
use crate::catalog::positions::Position;
use crate::catalog::table::text_datum;
use crate::errors::{HiloError, OrRaise};
use crate::memory::{self, Grow};
use crate::sql::all_nodes::{self, Answer};
use crate::sql::args::{Args, sql_functions};
use crate::sql::definer::required;
use crate::sql::document::{export, json};
use crate::sql::stored_rows::StoredRows;
use crate::subtransaction;
use crate::time_limit::Unfinished;

sql_functions!(hilo_compare);

/// `hilo_compare(summary)`: what is wrong between this server and another one.
fn hilo_compare(args: Args) {
    let other = json::read(required(args, 0, "summary")).or_raise();
    let Some(id) = other.node.as_ref().map(|node| node.id) else {
        HiloError::Argument(
            "the document is not the summary of a node".into(),
            "Pass what hilo_node_summary() returns on the other server.",
        )
        .raise()
    };
    let name = id.map_or("node unknown".into(), |id| format!("node {id}"));
    let mut found = Vec::new();
    if !is_own(&other) {
        found = compare(&name, &other);
    }
    let mut rows = StoredRows::begin(args);
    for found in found {
        let text = |text: &str| text_datum(text.as_bytes());
        // SAFETY: the function is declared to return four texts.
        unsafe {
            rows.add([
                text(&found.object),
                text(found.severity.name()),
                text(&found.what),
                text(&found.what_to_do),
            ])
        };
    }
}

fn is_own(summary: &Document) -> bool {
    summary.node.as_ref().is_some_and(|other| other.server == export::server())
}

/// Asks the other nodes of Citus and compares each with this one. It may take as long as a monitoring query may, and
/// fails for no node.
pub(super) fn all(columns: &[Column]) -> Findings {
    if !all_nodes::can_ask() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut silent = |object: String, why: String| {
        let to_do = "Find out why: the node must be running, and the role that calls hilo_check must be able to log in there. Until then, what that node serves is not compared.";
        found.push(finding(object, Severity::Warning, why, to_do));
    };
    let mut summaries = Vec::new();
    match all_nodes::summaries(None) {
        Err(Unfinished::TooLate) => {
            silent("Citus".into(), format!("could not ask the other nodes: {}", all_nodes::late()))
        }
        Err(Unfinished::Failed(error)) => {
            let why = subtransaction::message(&error);
            silent("Citus".into(), format!("could not ask the other nodes: {why}"));
        }
        Ok(answers) => {
            let own = node::group();
            for Answer { node, result, .. } in
                answers.into_iter().filter(|answer| Some(answer.group) != own)
            {
                let object = format!("node {node}");
                match result.map(|text| Document::parse(&text)) {
                    Ok(Ok(summary)) if is_own(&summary) => {}
                    Ok(Ok(summary)) => summaries.push((object, summary)),
                    Ok(Err(error)) => {
                        silent(object, format!("could not read its summary: {error}"))
                    }
                    Err(why) => silent(object, format!("could not ask it: {}", why.trim_end())),
                }
            }
        }
    }
    for (object, summary) in &summaries {
        found.grow_by(compare(object, summary)).or_raise();
    }
    let summaries =
        RefCell::new(summaries.into_iter().map(|(_, summary)| summary).collect::<Vec<_>>());
    for column in columns {
        let looks = Cell::new(0);
        let reach = |sequence: &Sequence| {
            // The second look is after that at the rows, and needs to know what the nodes have reserved since.
            if looks.replace(looks.get() + 1) > 0 {
                summaries.replace(again());
            }
            reaches(sequence, &summaries.borrow())
        };
        found.grow_by(column.check_rows_of(&reach)).or_raise();
    }
    found
}

/// The summaries of the nodes that answer.
fn again() -> Vec<Document> {
    let answers = all_nodes::summaries(None).unwrap_or_default().into_iter();
    answers.filter_map(|answer| Document::parse(&answer.result.ok()?).ok()).collect()
}

/// How far the other nodes have come that number a sequence as this one.
fn reaches(sequence: &Sequence, summaries: &[Document]) -> Vec<Reach> {
    let Some(here) = node::known() else { return Vec::new() };
    let Some(own) = export::numbering(sequence, here).or_raise() else { return Vec::new() };
    let name = json::utf8(&sequence.name);
    let reach = |summary: &Document| {
        let node = summary.node.as_ref()?.id.filter(|id| *id != here && *id < own.nodes)?;
        let there = summary.sequences.iter().find(|there| there.name == name)?;
        let numbering = there.numbering.filter(|there| there.is_as(&own))?;
        let alike = Definition::create(&there.options()).is_ok_and(|there| {
            difference(&sequence.definition, &there)
                .is_none_or(|(severity, _)| severity != Severity::Error)
        });
        let first = Position::first(sequence, node);
        let Numbering { base, nodes, stripe, .. } = numbering;
        let mapping = Position { base, nodes, stripe, ..first }.mapping(&sequence.definition);
        let next_index =
            numbering.reserved_to.map_or(Index::ZERO, |to| mapping.first_index_beyond(to));
        alike.then_some(Reach { node, mapping, next_index })
    };
    memory::collected(summaries.iter().filter_map(reach)).or_raise()
}

/// Compares another node with this one.
fn compare(other: &str, summary: &Document) -> Findings {
    let mut found = Vec::new();
    let mut add = |object: &str, severity, what: String, to_do: &str| {
        found.push(finding(object, severity, what, to_do));
    };
    let sequences = export::readable().or_raise();
    let own = export::summary(&sequences).or_raise();
    let (Some(here), Some(there)) = (&own.node, &summary.node) else { return found };
    if there.id.is_none() {
        add(
            other,
            Severity::Warning,
            "it is not known which node it is, so it serves nothing".into(),
            "Run hilo_check there.",
        );
    }
    if here.count != there.count {
        let what = format!("its hilo.node_count is {}, and here it is {}", there.count, here.count);
        add(
            other,
            Severity::Warning,
            what,
            "Set hilo.node_count to the same number on every node, more than there will ever be nodes, and reload.",
        );
    }
    let same_id = here.id.is_some() && here.id == there.id;
    let mut alike: Vec<&str> = Vec::new();
    let mut missing: Vec<&str> = Vec::new();
    let mut untold: Vec<&str> = Vec::new();
    for sequence in &own.sequences {
        let Some(theirs) = summary.sequences.iter().find(|theirs| theirs.name == sequence.name)
        else {
            if is_shared(sequence) {
                missing.push(&sequence.name);
            }
            continue;
        };
        let pair = (Definition::create(&sequence.options()), Definition::create(&theirs.options()));
        let (Ok(mine), Ok(other_definition)) = pair else { continue };
        // As Citus numbers sequences of core's on its workers.
        if mine.min_value > other_definition.max_value
            || other_definition.min_value > mine.max_value
        {
            continue;
        }
        if same_id {
            alike.push(&sequence.name);
        }
        if is_shared(sequence) && there.id.is_some() && theirs.numbering.is_none() {
            untold.push(&sequence.name);
        }
        let object = super::finding::sequence(&sequence.name);
        if let (Some(mine), Some(theirs)) = (sequence.numbering, theirs.numbering)
            && !mine.is_as(&theirs)
        {
            let what = format!(
                "numbered {mine} here, and {theirs} by {other}: both may serve the same values"
            );
            add(&object, Severity::Error, what, RENUMBER);
        }
        if let Some((severity, what)) = difference(&mine, &other_definition) {
            add(&object, severity, format!("{what} differs on {other}"), MAKE_EQUAL);
        }
    }
    // One that shares no sequence needs no id.
    if same_id && (here.count > 1 || !alike.is_empty()) {
        let id = here.id.unwrap_or_default();
        let (severity, what) = match alike.first() {
            Some(name) => (
                Severity::Error,
                format!(
                    "its node id is {id}, as that of this server: both serve the same values of {} sequences, such as \"{name}\"",
                    alike.len()
                ),
            ),
            None => (Severity::Warning, format!("its node id is {id}, as that of this server")),
        };
        add(
            other,
            severity,
            what,
            "Give each server its own hilo.node_id, and renumber the sequences that both have served: hilo_alter(..., restart_with => ...) on every node, with the same value beyond all that any node has reserved.",
        );
    }
    let some = |names: &[&str]| format!("{} sequences, such as \"{}\"", names.len(), names[0]);
    if !missing.is_empty() {
        add(
            other,
            Severity::Warning,
            format!("lacks {} that several nodes serve", some(&missing)),
            COMPLETE,
        );
    }
    if !untold.is_empty() {
        add(
            other,
            Severity::Warning,
            format!(
                "refuses to serve {}: it does not know how the others number them",
                some(&untold)
            ),
            COMPLETE,
        );
    }
    let unknown = |theirs: &&Described| {
        is_shared(theirs) && !own.sequences.iter().any(|mine| mine.name == theirs.name)
    };
    let unknown: Vec<&str> =
        summary.sequences.iter().filter(unknown).map(|theirs| theirs.name.as_str()).collect();
    if !unknown.is_empty() {
        add(
            other,
            Severity::Warning,
            format!("has {} that this server lacks", some(&unknown)),
            COMPLETE,
        );
    }
    found
}

/// Whether several nodes serve it.
fn is_shared(sequence: &Described) -> bool {
    sequence.numbering.is_some_and(|numbering| numbering.nodes > 1)
}

const RENUMBER: &str = "Run hilo_alter(..., restart_with => ...) on every node, with the same value beyond all that any node has reserved.";
const MAKE_EQUAL: &str = "Alter the sequence on one of the two nodes with hilo_alter.";
const COMPLETE: &str = "On Citus run hilo_create_on_all_nodes(name) for each of them; elsewhere pass what hilo_node_summary() returns on the server that has them to hilo_apply() on the other.";

/// Which options differ, if any. Some of them decide which values there are.
fn difference(here: &Definition, there: &Definition) -> Option<(Severity, String)> {
    let names: Vec<String> = changes(here, there).keys().cloned().collect();
    let severity = match names.iter().any(|name| name == "increment" || name == "cycle") {
        true => Severity::Error,
        false => Severity::Warning,
    };
    (!names.is_empty()).then(|| (severity, names.join(", ")))
}
