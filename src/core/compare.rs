//! The differences between two servers, as the summaries of both say.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::document::{Document, Entry, Fault, Node};
use crate::options::Definition;

/// A row of `hilo_compare`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub object: String,
    pub severity: &'static str,
    pub what: String,
    pub what_to_do: String,
}

/// A sequence of one of the two.
struct Side<'a> {
    entry: &'a Entry,
    definition: Definition,
}

impl Side<'_> {
    fn is_shared(&self) -> bool {
        self.entry.numbering.is_some_and(|numbering| numbering.nodes.0 > 1)
    }

    /// All options but those of a source, which says which values come, and to no two servers the
    /// same.
    fn options(&self) -> Map<String, Value> {
        let mut options = all(&self.definition, self.entry.owned_by.as_deref());
        options.retain(|option, _| !["source", "reserve_ahead"].contains(&option.as_str()));
        options
    }

    fn roles(&self) -> (&Option<String>, &Option<Vec<crate::document::Grant>>) {
        (&self.entry.owner, &self.entry.privileges)
    }
}

/// All options, each with its value.
pub fn all(definition: &Definition, owned_by: Option<&str>) -> Map<String, Value> {
    let Ok(Value::Object(mut options)) = serde_json::to_value(definition) else {
        unreachable!("a definition is an object")
    };
    options.insert("owned_by".into(), owned_by.into());
    options
}

/// The same sequence on both.
struct Pair<'a> {
    name: &'a str,
    mine: Option<Side<'a>>,
    theirs: Option<Side<'a>>,
}

impl Pair<'_> {
    fn is_shared(&self) -> bool {
        let mut sides = [&self.mine, &self.theirs].into_iter().flatten();
        sides.next().is_some_and(Side::is_shared)
    }

    /// Both, unless one lacks it.
    fn both(&self) -> Option<[&Side<'_>; 2]> {
        Some([self.mine.as_ref()?, self.theirs.as_ref()?])
    }

    /// Both, if some of their values are the same.
    fn alike(&self) -> Option<[&Side<'_>; 2]> {
        self.both().filter(|[mine, theirs]| {
            let (mine, theirs) = (&mine.definition, &theirs.definition);
            mine.min_value <= theirs.max_value && theirs.min_value <= mine.max_value
        })
    }

    /// Both, if they number themselves the same values.
    fn rivals(&self) -> Option<[&Side<'_>; 2]> {
        self.alike().filter(|both| both.iter().all(|side| !side.entry.is_fed()))
    }

    fn object(&self) -> String {
        format!("sequence \"{}\"", self.name)
    }
}

fn pairs<'a>(mine: &'a Document, theirs: &'a Document) -> Result<Vec<Pair<'a>>, Fault> {
    let mut pairs = BTreeMap::new();
    for (is_mine, document) in [(true, mine), (false, theirs)] {
        for (at, entry) in document.sequences.iter().enumerate() {
            let definition = entry.definition(at, entry.name.as_bytes())?;
            let (name, side) = (entry.name.as_str(), Some(Side { entry, definition }));
            let pair = pairs.entry(name).or_insert(Pair { name, mine: None, theirs: None });
            *(if is_mine { &mut pair.mine } else { &mut pair.theirs }) = side;
        }
    }
    Ok(pairs.into_values().collect())
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

/// Returns what is wrong between this server and another one. `restart`: how sequences are
/// renumbered.
///
/// # Errors
/// The fault of a sequence of theirs.
pub fn differences(
    (me, mine): (&Node, &Document),
    (other, theirs): (&Node, &Document),
    restart: &str,
) -> Result<Vec<Finding>, Fault> {
    if me.server == other.server {
        return Ok(Vec::new());
    }
    let (pairs, node) = (pairs(mine, theirs)?, format!("node {}", other.id.0));
    let mut found = of_nodes(me, other, &node, &pairs, restart);
    let sequence = |pair: &Pair, severity, what, what_to_do: &str| Finding {
        object: pair.object(),
        severity,
        what,
        what_to_do: what_to_do.to_owned(),
    };
    for pair in &pairs {
        if let Some([mine, theirs]) = pair.both()
            && pair.is_shared()
            && mine.roles() != theirs.roles()
        {
            let what = format!("owner or privileges differ on {node}");
            found.push(sequence(pair, "warning", what, GRANT));
        }
        if let Some(both) = pair.rivals()
            && let [Some(here), Some(there)] = both.map(|side| side.entry.numbering)
            && !here.is_like(&there)
        {
            let what = format!(
                "numbered {here} here, and {there} by {node}: both may serve the same values"
            );
            found.push(sequence(pair, "error", what, restart));
        }
        if let Some([mine, theirs]) = pair.alike() {
            let there = theirs.options();
            let differ: Vec<_> = (mine.options().into_iter())
                .filter(|(option, value)| there.get(option) != Some(value))
                .map(|(option, _)| option)
                .collect();
            // Some options decide which values there are.
            let decides = |option: &String| ["increment", "cycle"].contains(&option.as_str());
            let severity = if differ.iter().any(decides) { "error" } else { "warning" };
            if !differ.is_empty() {
                let what = format!("{} differs on {node}", differ.join(", "));
                found.push(sequence(pair, severity, what, ALTER));
            }
        }
    }
    found.extend(lacking(&node, &pairs));
    Ok(found)
}

/// Returns what is wrong with the nodes themselves.
fn of_nodes(me: &Node, other: &Node, node: &str, pairs: &[Pair], restart: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |severity, what, what_to_do| {
        found.push(Finding { object: node.to_owned(), severity, what, what_to_do });
    };
    let [here, there] = [me, other].map(|node| node.count.0);
    if here != there {
        let what = format!("its hilo.node_count is {there}, and here it is {here}");
        add("warning", what, COUNT.to_owned());
    }
    let (rivals, first) = count(pairs, |pair| pair.rivals().is_some());
    // A server that shares no sequence needs no id.
    if me.id == other.id && (rivals > 0 || here > 1) {
        let mut what = format!("its node id is {}, as that of this server", me.id.0);
        if rivals > 0 {
            what +=
                &format!(": both serve the same values of {rivals} sequences, such as \"{first}\"");
        }
        let severity = if rivals > 0 { "error" } else { "warning" };
        add(severity, what, format!("{IDS} {restart}"));
    }
    found
}

/// Returns what one of the two does not serve.
fn lacking(node: &str, pairs: &[Pair]) -> Vec<Finding> {
    type IsSo = fn(&Pair) -> bool;
    let kinds: [(IsSo, _, _); 3] = [
        (|pair| pair.theirs.is_none(), "lacks", " that several nodes serve"),
        (|pair| pair.mine.is_none(), "has", " that this server lacks"),
        (
            |pair| pair.alike().is_some_and(|[_, theirs]| theirs.entry.numbering.is_none()),
            "refuses to serve",
            ": it does not know how the others number them",
        ),
    ];
    let finding = |(is_so, does, why): (IsSo, &str, &str)| {
        let (count, first) = count(pairs, |pair| pair.is_shared() && is_so(pair));
        (count > 0).then(|| Finding {
            object: node.to_owned(),
            severity: "warning",
            what: format!("{does} {count} sequences, such as \"{first}\"{why}"),
            what_to_do: PASS.to_owned(),
        })
    };
    kinds.into_iter().filter_map(finding).collect()
}

/// How many there are, and the first of them by name.
fn count<'a>(pairs: &[Pair<'a>], is_so: impl Fn(&Pair<'a>) -> bool) -> (usize, &'a str) {
    let mut names = pairs.iter().filter(|pair| is_so(pair)).map(|pair| pair.name).peekable();
    let first = names.peek().copied().unwrap_or_default();
    (names.count(), first)
}
