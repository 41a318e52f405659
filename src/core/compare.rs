//! The differences between two servers, as the summaries of both say.

use std::collections::BTreeMap;

use crate::document::{Described, Node};
use crate::node_numbers::Numbering;

/// A row of `hilo_compare`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub object: String,
    pub severity: &'static str,
    pub what: String,
    pub what_to_do: String,
}

/// A sequence on both servers; `None`: it lacks it.
struct Pair<'a> {
    name: &'a str,
    mine: Option<&'a Described>,
    theirs: Option<&'a Described>,
}

impl<'a> Pair<'a> {
    /// Whether several nodes serve it.
    fn is_shared(&self) -> bool {
        self.mine
            .or(self.theirs)
            .is_some_and(|one| one.entry.numbering.is_some_and(|numbering| numbering.nodes.0 > 1))
    }

    fn both(&self) -> Option<[&'a Described; 2]> {
        Some([self.mine?, self.theirs?])
    }

    /// Both, if some of their values are the same.
    fn alike(&self) -> Option<[&'a Described; 2]> {
        self.both().filter(|both| {
            let [mine, theirs] = both.map(|one| &one.definition);
            mine.min_value <= theirs.max_value && theirs.min_value <= mine.max_value
        })
    }

    /// Both, if they number themselves the same values.
    fn rivals(&self) -> Option<[&'a Described; 2]> {
        self.alike().filter(|both| !both.iter().any(|one| one.entry.is_fed()))
    }

    /// Returns what is wrong with it.
    fn findings(&self, node: &str, restart: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut add = |severity, what, what_to_do: &str| {
            let object = format!("sequence \"{}\"", self.name);
            found.push(Finding { object, severity, what, what_to_do: what_to_do.to_owned() });
        };
        let roles = |one: &'a Described| (&one.entry.owner, &one.entry.privileges);
        if let Some([mine, theirs]) = self.both()
            && self.is_shared()
            && roles(mine) != roles(theirs)
        {
            add("warning", format!("owner or privileges differ on {node}"), GRANT);
        }
        if let Some(both) = self.rivals()
            && let [Some(here), Some(there)] =
                both.map(|one| one.entry.numbering.map(Numbering::from))
            && here != there
        {
            let what = format!(
                "numbered {here} here, and {there} by {node}: both may serve the same values"
            );
            add("error", what, restart);
        }
        if let Some([mine, theirs]) = self.alike() {
            let mut differ: Vec<_> =
                theirs.changes(mine).into_iter().map(|(option, _)| option).collect();
            // A source says which values come, and to no two servers the same.
            differ.retain(|option| !["source", "reserve_ahead"].contains(&option.as_str()));
            // Some options decide which values there are.
            let decides = |option: &String| ["increment", "cycle"].contains(&option.as_str());
            let severity = if differ.iter().any(decides) { "error" } else { "warning" };
            if !differ.is_empty() {
                add(severity, format!("{} differs on {node}", differ.join(", ")), ALTER);
            }
        }
        found
    }
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
pub fn differences(
    (me, mine): (&Node, &[Described]),
    (other, theirs): (&Node, &[Described]),
    restart: &str,
) -> Vec<Finding> {
    if me.server == other.server {
        return Vec::new();
    }
    let mut pairs = BTreeMap::new();
    for (is_mine, sequences) in [(true, mine), (false, theirs)] {
        for one in sequences {
            let name = one.entry.name.as_str();
            let pair = pairs.entry(name).or_insert(Pair { name, mine: None, theirs: None });
            *(if is_mine { &mut pair.mine } else { &mut pair.theirs }) = Some(one);
        }
    }
    let pairs: Vec<_> = pairs.into_values().collect();
    let node = format!("node {}", other.id.0);
    let mut found = of_nodes(me, other, &node, &pairs, restart);
    found.extend(pairs.iter().flat_map(|pair| pair.findings(&node, restart)));
    found
}

/// A way in which one of the two does not serve a sequence: its test, its verb, and its reason.
type Kind<'a> = (&'a dyn Fn(&Pair) -> bool, &'static str, &'static str);

/// Returns what is wrong with the nodes themselves, and what one of them does not serve.
fn of_nodes(me: &Node, other: &Node, node: &str, pairs: &[Pair], restart: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |severity, what, what_to_do: &str| {
        let (object, what_to_do) = (node.to_owned(), what_to_do.to_owned());
        found.push(Finding { object, severity, what, what_to_do });
    };
    let [here, there] = [me, other].map(|node| node.count.0);
    if here != there {
        add("warning", format!("its hilo.node_count is {there}, and here it is {here}"), COUNT);
    }
    let such = |is_so: &dyn Fn(&Pair) -> bool| {
        let mut such = pairs.iter().filter(|pair| is_so(pair));
        such.next().map(|first| (1 + such.count(), first.name))
    };
    let rivals = such(&|pair| pair.rivals().is_some());
    // A server that shares no sequence needs no id.
    if me.id == other.id && (rivals.is_some() || here > 1) {
        let mut what = format!("its node id is {}, as that of this server", me.id.0);
        let mut severity = "warning";
        if let Some((count, first)) = rivals {
            severity = "error";
            what +=
                &format!(": both serve the same values of {count} sequences, such as \"{first}\"");
        }
        add(severity, what, &format!("{IDS} {restart}"));
    }
    let unnumbered =
        |pair: &Pair| pair.alike().is_some_and(|[_, theirs]| theirs.entry.numbering.is_none());
    let kinds: [Kind; 3] = [
        (&|pair| pair.theirs.is_none(), "lacks", " that several nodes serve"),
        (&|pair| pair.mine.is_none(), "has", " that this server lacks"),
        (&unnumbered, "refuses to serve", ": it does not know how the others number them"),
    ];
    for (is_so, does, why) in kinds {
        if let Some((count, first)) = such(&|pair| pair.is_shared() && is_so(pair)) {
            let what = format!("{does} {count} sequences, such as \"{first}\"{why}");
            add("warning", what, PASS);
        }
    }
    found
}
