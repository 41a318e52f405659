//! Runs a command on all nodes of Citus, and `hilo_create_on_all_nodes`.
//!
//! Citus connects to each node, this one too, as the current user, and outside of this transaction.
//! So a command that others must not see before the transaction ends cannot be run like this.
//!
//! This is no SQL: time limits and the checks of a document are Rust in any case. And the body of a
//! function that runs as its caller cannot name what lies in schema `hilo`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fmt::Display;
use std::time::Duration;

use pgrx::pg_sys;
use pgrx::prelude::*;
use serde_json::{Map, Value, json};

use hilo_core::document::{Described, Document, VERSION};
use hilo_core::name as names;
use hilo_core::summary::Numbering;

use crate::advice::{FOLLOW_CITUS, RESTART};
use crate::catalog::name::{Name, escape_for_message};
use crate::catalog::table::{bytes_of, text_datum};
use crate::catalog::{positions, version};
use crate::errors::{HiloError, OrRaise};
use crate::process::memory::TryGrow;
use crate::process::time_limit::{self, Unfinished};
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::call::spi;
use crate::sql::call::stored_rows::StoredRows;
use crate::sql::define::ddl_checks::{begin_write, require};
use crate::sql::define::owned_by::Purpose;
use crate::sql::node::json;
use crate::sql::node::wanted::wishes;
use crate::{citus, gucs};

sql_functions!(hilo_create_many_on_all_nodes, hilo_is_outside_block);

/// How long this session waits for all answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long each node waits for a lock, and this session for a connection.
const SHORTLY: &CStr = c"2s";

/// The answer of one node.
pub struct Answer {
    /// `host:port`
    pub node: String,
    pub group: i32,
    /// The result of the command, or why there is none.
    pub result: Result<String, String>,
}

/// Whether this is one of several nodes of Citus that can be asked.
pub fn can_ask() -> bool {
    let function = "SELECT 1 FROM pg_catalog.pg_proc p
                     WHERE p.proname OPERATOR(pg_catalog.=) 'run_command_on_all_nodes'
                       AND p.pronamespace OPERATOR(pg_catalog.=) \
                       'pg_catalog'::pg_catalog.regnamespace";
    citus::is_here() && !spi::look_up(function, |_| ()).is_empty()
}

/// Asks all nodes for their summaries of all sequences, and waits for a moment.
pub fn summaries() -> Result<Vec<Answer>, Unfinished> {
    let schema = schema();
    run(&format!("SELECT {schema}.hilo_node_summary() FROM {}", shortly()))
}

/// The same, of each of these names by itself: a JSON array.
fn summaries_of(names: &[Name]) -> Result<Vec<Answer>, Unfinished> {
    let schema = schema();
    let names = names.iter().map(|name| spi::literal(name)).collect::<Vec<_>>().join(",");
    run(&format!(
        "SELECT pg_catalog.jsonb_agg({schema}.hilo_node_summary(CAST(n.name AS \
         {schema}.hilo_sequence)) ORDER BY n.at)
           FROM {} CROSS JOIN pg_catalog.unnest(ARRAY[{names}]) WITH ORDINALITY AS n (name, at)",
        shortly()
    ))
}

/// A FROM item that limits how long the command waits for a lock.
fn shortly() -> String {
    format!("pg_catalog.set_config('lock_timeout', '{}', true)", SHORTLY.to_string_lossy())
}

/// Runs a command that returns one value on all nodes, and waits for a moment.
pub fn run(command: &str) -> Result<Vec<Answer>, Unfinished> {
    let sql = format!(
        "SELECT CASE WHEN n.nodeid IS NULL THEN pg_catalog.concat('number ', r.nodeid)
                     ELSE pg_catalog.concat(n.nodename, ':', n.nodeport) END, COALESCE(n.groupid, \
                     -1), r.success, r.result
           FROM pg_catalog.run_command_on_all_nodes({}) r
           LEFT JOIN pg_catalog.pg_dist_node n ON n.nodeid OPERATOR(pg_catalog.=) r.nodeid",
        pgrx::spi::quote_literal(command)
    );
    let answer = |row: spi::Row| {
        let result = json::utf8(&row.bytes(4).unwrap_or_default());
        let result = if row.bool(3) { Ok(result) } else { Err(result) };
        Answer { node: row.text(1), group: row.int4(2).unwrap_or(-1), result }
    };
    let settings = [(c"citus.node_connection_timeout", SHORTLY)];
    time_limit::within(PATIENCE, || spi::with_settings(&settings, || spi::rows(&sql, answer)))
}

/// The schema of the extension's functions, which is the same on all nodes, quoted.
fn schema() -> String {
    escape_for_message(&version::schema_identifier().or_raise())
}

/// `hilo_create_on_all_nodes(names, options)`: a row for each sequence and node. The function for
/// one name is SQL, and calls this one.
fn hilo_create_many_on_all_nodes(args: Args) {
    /// The nodes get as many at a time.
    const AT_ONCE: usize = 100;
    begin();
    let names = names(require(args, 0, "names of hilo sequences"));
    let options = options(args);
    let mut rows = StoredRows::begin(args);
    for some in names.chunks(AT_ONCE) {
        check_for_interrupts!();
        for Done { name, node, action } in create(some, &options).or_raise() {
            let [name, node, action] = [&*name, node.as_bytes(), action.as_bytes()].map(text_datum);
            // SAFETY: the function is declared to return three texts.
            unsafe { rows.add([name, node, action]) };
        }
    }
}

/// `hilo.is_outside_block()`
fn hilo_is_outside_block(_: Args) -> pg_sys::Datum {
    // SAFETY: the name is a C string. A rollback here does not undo the work of other nodes, which
    // could wait for this transaction.
    unsafe { pg_sys::PreventInTransactionBlock(true, c"hilo_create_on_all_nodes()".as_ptr()) };
    begin_write(c"hilo_create_on_all_nodes()");
    true.into()
}

fn begin() {
    // SAFETY: as above.
    unsafe { pg_sys::PreventInTransactionBlock(true, c"hilo_create_on_all_nodes()".as_ptr()) };
    begin_write(c"hilo_create_on_all_nodes()");
    if !can_ask() {
        HiloError::NeedsCitus.raise();
    }
}

/// The names in an array of texts, each once, in their order.
fn names(array: pg_sys::Datum) -> Vec<Name> {
    let kind = pg_sys::TEXTARRAYOID;
    // SAFETY: the function is declared to take an array of texts.
    let texts = unsafe { Array::<pg_sys::Datum>::from_polymorphic_datum(array, false, kind) };
    let mut names = Vec::new();
    for text in texts.into_iter().flatten() {
        let Some(text) = text else {
            let what = "name of a hilo sequence must not be null".into();
            HiloError::Argument(what, "Specify a value that is not null.").raise()
        };
        // SAFETY: as above.
        let name = unsafe { bytes_of(text) };
        names::validate(name).or_raise();
        names.try_push(Name::from(name)).or_raise();
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn options(args: Args) -> Map<String, Value> {
    let text = json::text(require(args, 1, "options")).or_raise();
    match serde_json::from_str(&text) {
        Ok(Value::Object(options)) => options,
        _ => HiloError::Argument(
            "options of a hilo sequence must be an object".into(),
            "Use the fields that hilo_export returns, such as {\"ordered\": true}.",
        )
        .raise(),
    }
}

/// The action for a sequence on a node.
struct Done {
    name: Name,
    node: String,
    action: &'static str,
}

/// Creates sequences on the nodes that lack them: asks all, lets each of these try it, and only
/// then does it.
fn create(names: &[Name], options: &Map<String, Value>) -> Result<Vec<Done>, HiloError> {
    let failed = |failed: Failed| HiloError::NotOnAllNodes {
        name: names.first().map(Name::to_string).unwrap_or_default(),
        others: names.len().saturating_sub(1),
        failures: failed.failures,
        hint: failed.hint,
    };
    let found = summaries_by_node(names).map_err(failed)?;
    let (mut done, mut sequences, mut untold) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (at, name) in names.iter().enumerate() {
        let of_name: Vec<(&str, &Document)> =
            found.iter().map(|(node, all)| (node.as_str(), &all[at])).collect();
        let agreed = agreement(name, &of_name, describe(name, options)?).map_err(failed)?;
        sequences.try_push(agreed.sequence)?;
        untold.extend(agreed.untold);
        for (node, summary) in of_name {
            let (name, node) = (name.clone(), node.to_owned());
            done.try_push(Done { name, node, action: action(summary) })?;
        }
    }
    let ids: BTreeSet<i32> =
        found.iter().filter_map(|(_, all)| all.first()?.node.as_ref()?.id).collect();
    let knows = |one: &Document| {
        one.sequences.first().is_some_and(|sequence| sequence.highest_node >= ids.last().copied())
    };
    if !found.iter().all(|(_, all)| all.iter().all(knows)) {
        complete(&names[0], sequences, untold, &ids).map_err(failed)?;
    }
    Ok(done)
}

/// The summaries that each node makes, one for each of these names.
fn summaries_by_node(names: &[Name]) -> Result<Vec<(String, Vec<Document>)>, Failed> {
    let parsed = |(node, text): (String, String)| {
        let summaries: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        if summaries.len() != names.len() {
            return Err(Failed::because(format!("node {node}: its answer is no summary")));
        }
        let documents = summaries.iter().map(|one| Document::parse(&one.to_string())).collect();
        match documents {
            Ok(documents) => Ok((node, documents)),
            Err(error) => Err(Failed::because(format!("node {node}: {error}"))),
        }
    };
    all(summaries_of(names))?.into_iter().map(parsed).collect()
}

/// Lets those nodes of all that are `untold` have the sequences, `one` among them, and then
/// all know who has had them. A node that drops one of them has no row any more that would say it.
fn complete(
    one: &Name,
    mut sequences: Vec<Described>,
    untold: BTreeSet<i32>,
    ids: &BTreeSet<i32>,
) -> Result<(), Failed> {
    let written = |sequences| {
        let document = Document { hilo: VERSION, node: None, sequences };
        serde_json::to_string(&document).map_err(|_| HiloError::OutOfMemory).or_raise()
    };
    if !untold.is_empty() {
        let document = written(sequences.clone());
        tell(&untold, one, &document, true)?;
        for id in untold {
            tell(&BTreeSet::from([id]), one, &document, false)?;
        }
    }
    sequences.iter_mut().for_each(|sequence| {
        sequence.highest_node = sequence.highest_node.max(ids.last().copied());
    });
    tell(ids, one, &written(sequences), false)
}

/// The action for a sequence on the node that this is the summary of.
fn action(summary: &Document) -> &'static str {
    match summary.sequences.first() {
        None => "create",
        Some(Described { numbering: None, .. }) => "number",
        Some(_) => "exists",
    }
}

/// The sequence that the caller describes, numbered from its start value on.
fn describe(name: &Name, options: &Map<String, Value>) -> Result<Described, HiloError> {
    let mut options = options.clone();
    options.insert("name".into(), Value::String(json::utf8(name)));
    let document = json!({"hilo": VERSION, "sequences": [options]}).to_string();
    let mut document = Document::parse(&document)?;
    let definition = wishes(&document, Purpose::Look)?.pop().map(|wanted| wanted.definition);
    let (Some(described), Some(definition)) = (document.sequences.pop(), definition) else {
        return Err(HiloError::OutOfMemory);
    };
    let nodes = gucs::node_count();
    if definition.gapless && nodes > 1 {
        return Err(HiloError::GaplessNodes { name: name.to_string(), nodes });
    }
    let numbering = described.numbering.or(Some(Numbering {
        base: definition.start_value,
        nodes,
        stripe: positions::stripe(definition.block_size),
        reserved_to: None,
    }));
    Ok(Described { numbering, ..described })
}

/// Why it is not done, each with its node, and what to do about it if that is not evident.
#[derive(Default)]
struct Failed {
    failures: Vec<String>,
    hint: Option<String>,
}

impl Failed {
    fn because(why: String) -> Failed {
        Failed { failures: vec![why], hint: None }
    }

    fn add(&mut self, node: &str, why: impl Display, hint: Option<String>) {
        self.failures.push(format!("node {node}: {why}"));
        self.hint = hint.or(self.hint.take());
    }

    fn or<T>(self, done: T) -> Result<T, Failed> {
        if self.failures.is_empty() { Ok(done) } else { Err(self) }
    }
}

/// The answers of all nodes, each with its name; or why some have none.
fn all(answers: Result<Vec<Answer>, Unfinished>) -> Result<Vec<(String, String)>, Failed> {
    let answers = match answers {
        Ok(answers) => answers,
        Err(Unfinished::TooLate) => return Err(Failed::because(late())),
        Err(Unfinished::Failed(error)) => error.rethrow(),
    };
    let (mut all, mut failed) = (Vec::new(), Failed::default());
    for Answer { node, result, .. } in answers {
        match result {
            Ok(text) => all.try_push((node, text)).or_raise(),
            Err(why) => failed.add(&node, why.trim_end(), None),
        }
    }
    failed.or(all)
}

/// Says that the nodes have not answered in time.
pub fn late() -> String {
    format!("the nodes have not answered within {} s", PATIENCE.as_secs())
}

/// Creates the sequences of a document on the nodes with these ids, and tells those that have them
/// how they are numbered. `one`: the name of one of them. `try_it`: changes nothing.
fn tell(ids: &BTreeSet<i32>, one: &Name, document: &str, try_it: bool) -> Result<(), Failed> {
    let schema = schema();
    let one = spi::literal(one);
    let list = ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",");
    let done = all(run(&format!(
        "SELECT CASE WHEN {schema}.hilo_node_summary(CAST({one} AS {schema}.hilo_sequence)) \
         OPERATOR(pg_catalog.#>>) '{{node,id}}'
                          OPERATOR(pg_catalog.=) ANY ('{{{list}}}')
                     THEN (SELECT pg_catalog.count(*) FROM \
                     {schema}.hilo_apply({}::pg_catalog.jsonb, dry_run => {try_it})) END
           FROM {}",
        spi::literal(&json::in_encoding(document)),
        shortly()
    )))?;
    match done.iter().filter(|(_, count)| !count.is_empty()).count() == ids.len() {
        true => Ok(()),
        false => Err(Failed::because(format!("node {list} is another node now"))),
    }
}

/// The agreement of the nodes.
struct Agreed {
    sequence: Described,
    /// The nodes that lack the sequence, or are yet to be told how it is numbered, in the order of
    /// their ids. So of each that has the sequence, all with lower ids have it too. So a failure
    /// leaves out none that [`numbering::check_not_had`] refuses afterwards.
    untold: BTreeSet<i32>,
}

/// The sequence as the nodes that have it agree on it; else as it is `new`. A node that has been
/// added again has it, and is yet to be told how it is numbered.
fn agreement(name: &Name, found: &[(&str, &Document)], new: Described) -> Result<Agreed, Failed> {
    let mut failed = Failed::default();
    let mut agreed: Option<Described> = None;
    let mut numbering: Option<Numbering> = None;
    let mut untold = BTreeMap::new();
    let mut highest = None;
    for (node, id, summary) in identify(found, &mut failed) {
        if summary.sequences.first().is_none_or(|sequence| sequence.numbering.is_none()) {
            untold.insert(id, node);
        }
        let Some(sequence) = summary.sequences.first() else { continue };
        let mut sequence = sequence.clone();
        highest = highest.max(sequence.highest_node.take());
        // How far it has come is each node's own.
        let there = sequence.numbering.take().map(|there| Numbering { reserved_to: None, ..there });
        let differs = agreed.as_ref().is_some_and(|first| *first != sequence)
            || matches!((&numbering, &there), (Some(first), Some(there)) if first != there);
        if differs {
            failed.add(node, "its sequence of this name differs from that of another node", None);
        }
        numbering = numbering.or(there);
        agreed = agreed.or(Some(sequence));
    }
    if agreed.is_some() && numbering.is_none() {
        failed.failures.push("no node knows how the sequence is numbered".into());
        failed.hint = Some(RESTART.into());
    }
    let name = || name.to_string();
    if let (Some((&id, node)), Some(highest), Some(_)) =
        (untold.first_key_value(), highest, numbering)
        && id <= highest
    {
        let error = HiloError::NodeHad { name: name(), node: id, highest };
        failed.add(node, &error, error.hint());
    }
    let count = numbering.or(new.numbering).map_or(1, |numbering| numbering.nodes);
    if let Some((&id, node)) = untold.last_key_value().filter(|(id, _)| **id >= count) {
        let error = match agreed.is_some() {
            true => HiloError::NotAmongNodes { name: name(), id, count },
            false => HiloError::NodeId { id, count },
        };
        failed.add(node, &error, error.hint());
    }
    let sequence =
        agreed.map_or(new, |agreed| Described { numbering, highest_node: highest, ..agreed });
    failed.or(Agreed { sequence, untold: untold.into_keys().collect() })
}

/// Each node with its id. Notes what is wrong with their settings.
fn identify<'a>(
    found: &[(&'a str, &'a Document)],
    failed: &mut Failed,
) -> Vec<(&'a str, i32, &'a Document)> {
    let here = gucs::node_count();
    let mut nodes: Vec<(&str, i32, &Document)> = Vec::new();
    for (node, summary) in found {
        let who = summary.node.as_ref();
        let fault = match who.and_then(|who| Some((who.id?, who.count))) {
            None => "it is not known which node it is".to_owned(),
            Some((_, count)) if count != here => {
                format!("its hilo.node_count is {count}, and here it is {here}")
            }
            Some((id, _)) => match nodes.iter().find(|(_, other, _)| *other == id) {
                Some((other, ..)) => format!("its id is {id}, as that of node {other}"),
                None => {
                    nodes.push((node, id, summary));
                    continue;
                }
            },
        };
        failed.add(node, fault, Some(FOLLOW_CITUS.into()));
    }
    nodes
}
