//! What `hilo_check` finds when it compares this node with others: each says in a summary who it is and how it numbers
//! its sequences. On Citus it asks all nodes; `hilo_compare` takes the summary of any server.

use std::cell::{Cell, RefCell};

use hilo_core::document::{Described, Document, changes};
use hilo_core::numbers::Index;
use hilo_core::options::Definition;
use hilo_core::summary::{Node, Numbering};

use super::columns::{Column, Reach};
use super::finding::{Finding, Findings, Severity, finding};
use crate::advice::{COMPLETE, RESTART, WITHIN_BOUNDS};
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
use crate::time_limit::Unfinished;
use crate::{citus, subtransaction};

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
    match all_nodes::summaries() {
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
    let answers = all_nodes::summaries().unwrap_or_default().into_iter();
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
    let sequences = export::readable().or_raise();
    let own = export::summary(&sequences).or_raise();
    let (Some(here), Some(there)) = (&own.node, &summary.node) else { return Vec::new() };
    let mut found = compare_nodes(other, here, there);
    let mut lists = Lists::default();
    for sequence in &own.sequences {
        match summary.sequences.iter().find(|theirs| theirs.name == sequence.name) {
            Some(theirs) => found.grow_by(lists.compare(other, sequence, theirs)).or_raise(),
            None => lists.lacks.extend(shared(sequence).map(|how| (how, sequence.name.as_str()))),
        }
    }
    let theirs = summary.sequences.iter();
    let unknown =
        theirs.filter(|theirs| !own.sequences.iter().any(|mine| mine.name == theirs.name));
    lists.has.extend(unknown.filter_map(|theirs| Some((shared(theirs)?, theirs.name.as_str()))));
    found.extend(same_id(other, here, there, &lists.alike));
    found.grow_by(lists.findings(other, there)).or_raise();
    found
}

fn compare_nodes(other: &str, here: &Node, there: &Node) -> Findings {
    let mut found = Vec::new();
    if there.id.is_none() {
        found.push(finding(
            other,
            Severity::Warning,
            "it is not known which node it is, so it serves nothing",
            "Run hilo_check there.",
        ));
    }
    if here.count != there.count {
        found.push(finding(
            other,
            Severity::Warning,
            format!("its hilo.node_count is {}, and here it is {}", there.count, here.count),
            "Set hilo.node_count to the same number on every node, more than there will ever be nodes, and reload.",
        ));
    }
    found
}

/// Reports that another node has the id of this server, which serves the sequences that are `alike` too.
fn same_id(other: &str, here: &Node, there: &Node, alike: &[&str]) -> Option<Finding> {
    let id = here.id.filter(|id| there.id == Some(*id))?;
    let (severity, what) = match alike.first() {
        Some(name) => (
            Severity::Error,
            format!(
                "its node id is {id}, as that of this server: both serve the same values of {} sequences, such as \"{name}\"",
                alike.len()
            ),
        ),
        // One that shares no sequence needs no id.
        None if here.count == 1 => return None,
        None => (Severity::Warning, format!("its node id is {id}, as that of this server")),
    };
    let to_do = format!(
        "Give each server its own hilo.node_id, and renumber the sequences that both have served. {RESTART}"
    );
    Some(finding(other, severity, what, to_do))
}

/// How several nodes share a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shared {
    InStripes,
    /// As Citus numbers core's sequences on its workers: the bounds of each node are its own.
    WithinBounds,
}

fn shared(sequence: &Described) -> Option<Shared> {
    if sequence.numbering.is_some_and(|numbering| numbering.nodes > 1) {
        return Some(Shared::InStripes);
    }
    let definition = Definition::create(&sequence.options()).ok()?;
    // An integer sequence lies within the bounds of group 0, and is no sign of anything.
    let whole = definition.max_value % (1 << 48) == 0;
    (whole && citus::is_here() && node::group_by_bounds(&definition).is_some())
        .then_some(Shared::WithinBounds)
}

/// The names of sequences, by what is to be said of all of them together.
#[derive(Default)]
struct Lists<'a> {
    /// The other node has them too, with values that this one has.
    alike: Vec<&'a str>,
    /// The other node has them and refuses to serve them.
    untold: Vec<&'a str>,
    /// The other node lacks them.
    lacks: Vec<(Shared, &'a str)>,
    /// This server lacks them.
    has: Vec<(Shared, &'a str)>,
}

impl<'a> Lists<'a> {
    /// Compares what two nodes have under one name.
    fn compare(&mut self, other: &str, mine: &'a Described, theirs: &Described) -> Findings {
        let mut found = Vec::new();
        let pair = (Definition::create(&mine.options()), Definition::create(&theirs.options()));
        let (Ok(here), Ok(there)) = pair else { return found };
        let object = super::finding::sequence(&mine.name);
        let differ = mine.privileges != theirs.privileges || mine.owner != theirs.owner;
        if differ && shared(mine).is_some() {
            found.push(finding(
                &object,
                Severity::Warning,
                format!("owner or privileges differ on {other}"),
                "Repeat hilo_grant, hilo_revoke or hilo_set_owner on the node where it was left out.",
            ));
        }
        if here.min_value > there.max_value || there.min_value > here.max_value {
            return found;
        }
        self.alike.push(&mine.name);
        if shared(mine) == Some(Shared::InStripes) && theirs.numbering.is_none() {
            self.untold.push(&mine.name);
        }
        if let (Some(mine), Some(theirs)) = (mine.numbering, theirs.numbering)
            && !mine.is_as(&theirs)
        {
            let what = format!(
                "numbered {mine} here, and {theirs} by {other}: both may serve the same values"
            );
            found.push(finding(&object, Severity::Error, what, RESTART));
        }
        if let Some((severity, what)) = difference(&here, &there) {
            found.push(finding(object, severity, format!("{what} differs on {other}"), MAKE_EQUAL));
        }
        found
    }

    fn findings(&self, other: &str, there: &Node) -> Findings {
        let mut found = Vec::new();
        let mut add = |names: &[&str], before: &str, after: &str, to_do| {
            if let Some(first) = names.first() {
                let what =
                    format!("{before} {} sequences, such as \"{first}\"{after}", names.len());
                found.push(finding(other, Severity::Warning, what, to_do));
            }
        };
        for (how, to_do) in [(Shared::InStripes, COMPLETE), (Shared::WithinBounds, WITHIN_BOUNDS)] {
            let of = |list: &[(Shared, &'a str)]| -> Vec<&'a str> {
                list.iter().filter(|(shared, _)| *shared == how).map(|(_, name)| *name).collect()
            };
            add(&of(&self.lacks), "lacks", " that several nodes serve", to_do);
            add(&of(&self.has), "has", " that this server lacks", to_do);
        }
        if there.id.is_some() {
            let after = ": it does not know how the others number them";
            add(&self.untold, "refuses to serve", after, COMPLETE);
        }
        found
    }
}

const MAKE_EQUAL: &str = "Alter the sequence on one of the two nodes with hilo_alter.";

/// Which options differ, if any. Some of them decide which values there are.
fn difference(here: &Definition, there: &Definition) -> Option<(Severity, String)> {
    let names: Vec<String> = changes(here, there).keys().cloned().collect();
    let severity = match names.iter().any(|name| name == "increment" || name == "cycle") {
        true => Severity::Error,
        false => Severity::Warning,
    };
    (!names.is_empty()).then(|| (severity, names.join(", ")))
}
