//! Compares two servers by their summaries, for `hilo_compare`.

use crate::document::{Node, Numbering};
use crate::plan::{Described, by_name};

/// A row of `hilo_compare`.
#[derive(Debug)]
pub struct Finding {
    pub object: String,
    pub severity: &'static str,
    pub what: String,
    pub what_to_do: String,
}

const ALTER: &str = "Alter the sequence on one of the two nodes with hilo_alter.";
const COUNT: &str = "Set hilo.node_count to the same number on every node, more than there will \
    ever be nodes, and reload.";
const GRANT: &str =
    "Repeat hilo_grant, hilo_revoke or hilo_set_owner on the node where it was left out.";
const IDS: &str = "Give each server its own hilo.node_id, and renumber the sequences that both \
    have served.";
const PASS: &str = "Pass what hilo_node_summary() returns on the server that has them to \
    hilo_apply() on the other.";

/// The differences between this server and another one. `restart`: how sequences are renumbered.
pub fn differences(
    (me, mine): (&Node, &[Described]),
    (other, theirs): (&Node, &[Described]),
    restart: &str,
) -> Vec<Finding> {
    if me.server == other.server {
        return Vec::new();
    }
    let node = &format!("node {}", other.id);
    let mut found = Vec::new();
    let mut add = |object: &str, severity, what, what_to_do: &str| {
        let (object, what_to_do) = (object.to_owned(), what_to_do.to_owned());
        found.push(Finding { object, severity, what, what_to_do });
    };
    let pairs = by_name(mine.iter().map(named), theirs.iter().map(named));
    let (mut rivals, mut lacking, mut lacked) = (Vec::new(), Vec::new(), Vec::new());
    for (&name, &pair) in &pairs {
        if let (Some(mine), Some(theirs)) = pair
            && are_rivals(mine, theirs)
        {
            rivals.push(name);
        }
        // A server refuses to serve a sequence whose numbering it does not know.
        match [pair.0, pair.1].map(|one| one?.entry.numbering) {
            [mine, None] if is_shared(mine) => lacking.push(name),
            [None, theirs] if is_shared(theirs) => lacked.push(name),
            _ => {}
        }
    }
    if me.count != other.count {
        let what = format!("its hilo.node_count is {}, and here it is {}", other.count, me.count);
        add(node, "warning", what, COUNT);
    }
    if me.id == other.id {
        let what = format!("its node id is {}, as that of this server", me.id);
        let what_to_do = &format!("{IDS} {restart}");
        match such(&rivals) {
            Some(such) => {
                let what = format!("{what}: both serve the same values of {such}");
                add(node, "error", what, what_to_do);
            }
            None if me.count > 1 => add(node, "warning", what, what_to_do),
            // A server that shares no sequence needs no id.
            None => {}
        }
    }
    if let Some(such) = such(&lacking) {
        let what = format!("does not serve {such}, which several nodes serve");
        add(node, "warning", what, PASS);
    }
    if let Some(such) = such(&lacked) {
        let what = format!("serves {such}, which this server does not serve");
        add(node, "warning", what, PASS);
    }
    for &pair in pairs.values() {
        if let (Some(mine), Some(theirs)) = pair {
            of_sequence(mine, theirs, node, restart, &mut add);
        }
    }
    found
}

/// Adds the differences of a sequence that both servers have.
fn of_sequence(
    mine: &Described,
    theirs: &Described,
    node: &str,
    restart: &str,
    add: &mut impl FnMut(&str, &'static str, String, &str),
) {
    let object = &format!("sequence \"{}\"", mine.entry.name);
    let [here, there] = [mine, theirs].map(|one| (&one.entry.owner, &one.entry.privileges));
    let numberings = [mine, theirs].map(|one| one.entry.numbering);
    if here != there && numberings.into_iter().any(is_shared) {
        add(object, "warning", format!("owner or privileges differ on {node}"), GRANT);
    }
    match numberings {
        [Some(here), Some(there)] if here != there && are_rivals(mine, theirs) => {
            let what = format!(
                "numbered {here} here, and {there} by {node}: both may serve the same values"
            );
            add(object, "error", what, restart);
        }
        _ => {}
    }
    let differ = theirs.differences(mine);
    let mut differ: Vec<_> = differ.keys().map(String::as_str).collect();
    // A source gives each server other values, so these options may differ.
    differ.retain(|option| !["source", "reserve_ahead"].contains(option));
    if !differ.is_empty() && have_common_values(mine, theirs) {
        // These options decide which values there are.
        let decides = |option: &&str| ["increment", "cycle"].contains(option);
        let severity = if differ.iter().any(decides) { "error" } else { "warning" };
        add(object, severity, format!("{} differs on {node}", differ.join(", ")), ALTER);
    }
}

fn named(one: &Described) -> (&str, &Described) {
    (&one.entry.name, one)
}

/// Whether several nodes serve the sequence.
fn is_shared(numbering: Option<Numbering>) -> bool {
    numbering.is_some_and(|numbering| numbering.nodes > 1)
}

/// Whether both serve the same values by themselves.
fn are_rivals(mine: &Described, theirs: &Described) -> bool {
    !mine.entry.is_fed() && !theirs.entry.is_fed() && have_common_values(mine, theirs)
}

fn have_common_values(mine: &Described, theirs: &Described) -> bool {
    let (mine, theirs) = (&mine.definition, &theirs.definition);
    mine.min_value <= theirs.max_value && theirs.min_value <= mine.max_value
}

/// The names as a list; `None`: there are none.
fn such(names: &[&str]) -> Option<String> {
    let first = names.first()?;
    Some(format!("{} sequences, such as \"{first}\"", names.len()))
}
