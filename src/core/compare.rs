//! Compares two servers by their summaries, for `hilo_compare`.

use crate::document::{Described, Node, by_name};

/// A row of `hilo_compare`.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    let node = format!("node {}", other.id);
    let mut of_sequences = Vec::new();
    let (mut rivals, mut lacking, mut lacked) = (Vec::new(), Vec::new(), Vec::new());
    let (mut unknown_here, mut unknown_there) = (Vec::new(), Vec::new());
    for (name, pair) in by_name(mine.iter().map(named), theirs.iter().map(named)) {
        match pair {
            (Some(mine), Some(theirs)) => {
                of_sequences.extend(other_roles(mine, theirs, &node));
                if !have_common_values(mine, theirs) {
                    continue;
                }
                match [mine, theirs].map(|one| one.entry.numbering) {
                    [None, Some(_)] if is_shared(theirs) => unknown_here.push(name),
                    [Some(_), None] if is_shared(mine) => unknown_there.push(name),
                    _ => {}
                }
                if !mine.entry.is_fed() && !theirs.entry.is_fed() {
                    rivals.push(name);
                    of_sequences.extend(other_numbering(mine, theirs, &node, restart));
                }
                of_sequences.extend(other_options(mine, theirs, &node));
            }
            (Some(mine), None) if is_shared(mine) => lacking.push(name),
            (None, Some(theirs)) if is_shared(theirs) => lacked.push(name),
            _ => {}
        }
    }
    let mut of_node = settings(me, other, &rivals, restart);
    for (does, names, why) in [
        ("lacks", lacking, " that several nodes serve"),
        ("has", lacked, " that this server lacks"),
        ("refuses to serve", unknown_there, ": it does not know how the others number them"),
        ("serves", unknown_here, " that this server refuses: it does not know their numbering"),
    ] {
        if let Some(such) = such(&names) {
            of_node.push(of_server(other, "warning", format!("{does} {such}{why}"), PASS));
        }
    }
    of_node.extend(of_sequences);
    of_node
}

/// Faults of the settings of the two servers. `rivals`: sequences that both serve by themselves.
fn settings(me: &Node, other: &Node, rivals: &[&str], restart: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if me.count != other.count {
        let what = format!("its hilo.node_count is {}, and here it is {}", other.count, me.count);
        found.push(of_server(other, "warning", what, COUNT));
    }
    if me.id == other.id {
        let what = format!("its node id is {}, as that of this server", me.id);
        let ids = format!("{IDS} {restart}");
        match such(rivals) {
            Some(such) => {
                let what = format!("{what}: both serve the same values of {such}");
                found.push(of_server(other, "error", what, &ids));
            }
            None if me.count > 1 => found.push(of_server(other, "warning", what, &ids)),
            // A server that shares no sequence needs no id.
            None => {}
        }
    }
    found
}

fn of_server(other: &Node, severity: &'static str, what: String, what_to_do: &str) -> Finding {
    let object = format!("node {}", other.id);
    Finding { object, severity, what, what_to_do: what_to_do.to_owned() }
}

/// The names as a list; `None`: there are none.
fn such(names: &[&str]) -> Option<String> {
    let first = names.first()?;
    Some(format!("{} sequences, such as \"{first}\"", names.len()))
}

fn have_common_values(mine: &Described, theirs: &Described) -> bool {
    let (mine, theirs) = (&mine.definition, &theirs.definition);
    mine.min_value <= theirs.max_value && theirs.min_value <= mine.max_value
}

fn named(one: &Described) -> (&str, &Described) {
    (&one.entry.name, one)
}

/// Whether several nodes serve the sequence.
fn is_shared(one: &Described) -> bool {
    one.entry.numbering.is_some_and(|numbering| numbering.nodes > 1)
}

fn of_sequence(one: &Described, severity: &'static str, what: String, what_to_do: &str) -> Finding {
    let object = format!("sequence \"{}\"", one.entry.name);
    Finding { object, severity, what, what_to_do: what_to_do.to_owned() }
}

fn other_roles(mine: &Described, theirs: &Described, node: &str) -> Option<Finding> {
    let [here, there] = [mine, theirs].map(|one| (&one.entry.owner, &one.entry.privileges));
    let what = format!("owner or privileges differ on {node}");
    let differ = here != there && (is_shared(mine) || is_shared(theirs));
    differ.then(|| of_sequence(mine, "warning", what, GRANT))
}

fn other_numbering(
    mine: &Described,
    theirs: &Described,
    node: &str,
    restart: &str,
) -> Option<Finding> {
    let (here, there) = (mine.entry.numbering?, theirs.entry.numbering?);
    let what =
        format!("numbered {here} here, and {there} by {node}: both may serve the same values");
    (here != there).then(|| of_sequence(mine, "error", what, restart))
}

fn other_options(mine: &Described, theirs: &Described, node: &str) -> Option<Finding> {
    let differ = theirs.differences(mine);
    // A source gives each server other values, so these options may differ.
    let is_own = |option: &str| ["source", "reserve_ahead"].contains(&option);
    let differ: Vec<_> = differ.keys().map(String::as_str).filter(|one| !is_own(one)).collect();
    // These options decide which values there are.
    let decides = |option: &&str| ["increment", "cycle"].contains(option);
    let severity = if differ.iter().any(decides) { "error" } else { "warning" };
    let what = format!("{} differs on {node}", differ.join(", "));
    (!differ.is_empty()).then(|| of_sequence(mine, severity, what, ALTER))
}
