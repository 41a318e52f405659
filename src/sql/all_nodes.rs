//! Runs a command on all nodes of Citus, and `hilo_create_on_all_nodes`.
//!
//! Citus connects to each node, this one too, as the current user, and outside of this transaction. So a command that
//! others must not see before the transaction ends cannot be run like this.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::time::Duration;

use pgrx::pg_sys;
use serde_json::{Value, json};

use hilo_core::document::{Described, Document, VERSION};
use hilo_core::summary::Numbering;

use super::args::{Args, sql_functions};
use super::definer::{begin_write, required};
use super::document::json;
use super::document::wanted::wanted;
use super::owned_by::Purpose;
use super::spi;
use super::stored_rows::StoredRows;
use crate::catalog::catalog_oids;
use crate::catalog::name::Name;
use crate::catalog::positions;
use crate::catalog::table::text_datum;
use crate::errors::{HiloError, OrRaise};
use crate::memory::Grow;
use crate::time_limit::{self, Unfinished};
use crate::{citus, gucs};

sql_functions!(hilo_create_on_all_nodes);

/// How long this session waits for all answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long each node waits for a lock, and this session for a connection.
const SHORTLY: &CStr = c"2s";

/// What one node says.
pub struct Answer {
    /// `host:port`
    pub node: String,
    pub group: i32,
    /// What the command returns, or why there is nothing.
    pub result: Result<String, String>,
}

/// Whether this is one of several nodes of Citus that can be asked.
pub fn can_ask() -> bool {
    let function = "SELECT 1 FROM pg_catalog.pg_proc p
                     WHERE p.proname OPERATOR(pg_catalog.=) 'run_command_on_all_nodes'
                       AND p.pronamespace OPERATOR(pg_catalog.=) 'pg_catalog'::pg_catalog.regnamespace";
    citus::is_here() && !spi::look_up(function, |_| ()).is_empty()
}

/// Asks all nodes for their summaries, of one sequence or of all, and waits for a moment.
pub fn summaries(of: Option<&Name>) -> Result<Vec<Answer>, Unfinished> {
    let schema = spi::quoted(&schema());
    let name = of.map(|name| format!("CAST({} AS {schema}.hilo_sequence)", spi::literal(name)));
    run(&format!(
        "SELECT {schema}.hilo_node_summary({}) FROM pg_catalog.set_config('lock_timeout', '{}', true)",
        name.unwrap_or_default(),
        SHORTLY.to_string_lossy()
    ))
}

/// Runs a command that returns one value on all nodes, and waits for a moment.
fn run(command: &str) -> Result<Vec<Answer>, Unfinished> {
    let sql = format!(
        "SELECT pg_catalog.concat(n.nodename, ':', n.nodeport), COALESCE(n.groupid, -1), r.success, r.result
           FROM pg_catalog.run_command_on_all_nodes({}) r
           LEFT JOIN pg_catalog.pg_dist_node n ON n.nodeid OPERATOR(pg_catalog.=) r.nodeid",
        pgrx::spi::quote_literal(command)
    );
    let answer = |row: spi::Row| {
        let result = json::utf8(&row.bytes(4).unwrap_or_default());
        let result = if row.bool(3) { Ok(result) } else { Err(result) };
        Answer { node: row.text(1), group: row.int4(2).unwrap_or(-1), result }
    };
    time_limit::within(PATIENCE, || with_patience(|| spi::rows(&sql, answer)))
}

/// The schema of the extension's functions, which is the same on all nodes.
fn schema() -> String {
    let extension = catalog_oids().or_raise().extension.to_u32();
    let sql = format!(
        "SELECT n.nspname::pg_catalog.text FROM pg_catalog.pg_extension e
           JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
          WHERE e.oid OPERATOR(pg_catalog.=) {extension}::pg_catalog.oid"
    );
    spi::look_up(&sql, |row| row.text(1)).into_iter().next().unwrap_or_default()
}

/// Lets Citus wait for a connection only for a moment. After an error the transaction's end restores that.
fn with_patience<T>(work: impl FnOnce() -> T) -> T {
    let setting = c"citus.node_connection_timeout";
    // SAFETY: the names and the value are C strings; the level that is opened is closed.
    unsafe {
        let level = pg_sys::NewGUCNestLevel();
        if !pg_sys::GetConfigOption(setting.as_ptr(), true, false).is_null() {
            pg_sys::set_config_option(
                setting.as_ptr(),
                SHORTLY.as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
        }
        let result = work();
        pg_sys::AtEOXact_GUC(false, level);
        result
    }
}

/// `hilo_create_on_all_nodes(name, options)`: a row for each node on which the sequence was created.
fn hilo_create_on_all_nodes(args: Args) {
    // SAFETY: the name is a C string. What other nodes do is not undone by a rollback here, and could wait for this
    // transaction.
    unsafe { pg_sys::PreventInTransactionBlock(true, c"hilo_create_on_all_nodes()".as_ptr()) };
    begin_write(c"hilo_create_on_all_nodes()");
    if !can_ask() {
        HiloError::NeedsCitus.raise();
    }
    required(args, 0, "name of a hilo sequence");
    let name: Name = args.new_name(0);
    let described = described(&name, args).or_raise();
    let failed = |failures| HiloError::NotOnAllNodes { name: name.to_string(), failures };
    let found = all(summaries(Some(&name))).map_err(failed).or_raise();
    let parsed = |(node, text): (String, String)| match Document::parse(&text) {
        Ok(summary) => Ok((node, summary)),
        Err(error) => Err(vec![format!("node {node}: {error}")]),
    };
    let found: Result<Vec<_>, _> = found.into_iter().map(parsed).collect();
    let found = found.map_err(failed).or_raise();
    let agreed = agreed(&name, &found, described).map_err(failed).or_raise();
    let document = Document { hilo: VERSION, node: None, sequences: vec![agreed.sequence] };
    let document = serde_json::to_string(&document).map_err(|_| HiloError::OutOfMemory).or_raise();
    for id in agreed.untold {
        tell(id, &name, &document).map_err(failed).or_raise();
    }
    let mut rows = StoredRows::begin(args);
    for (node, summary) in found {
        let action = match summary.sequences.first() {
            None => "create",
            Some(Described { numbering: None, .. }) => "number",
            Some(_) => "exists",
        };
        // SAFETY: the function is declared to return two texts.
        unsafe { rows.add([text_datum(node.as_bytes()), text_datum(action.as_bytes())]) };
    }
}

/// The sequence that the caller describes, numbered from its start value on.
fn described(name: &Name, args: Args) -> Result<Described, HiloError> {
    let options =
        json::text(required(args, 1, "options")).map(|text| serde_json::from_str(&text))?;
    let Ok(Value::Object(mut options)) = options else {
        let what = "options of a hilo sequence must be an object".to_owned();
        return Err(HiloError::Argument(
            what,
            "Use the fields that hilo_export returns, such as {\"ordered\": true}.",
        ));
    };
    options.insert("name".into(), Value::String(json::utf8(name)));
    let document = json!({"hilo": VERSION, "sequences": [options]}).to_string();
    let mut document = Document::parse(&document).map_err(HiloError::Document)?;
    let definition = wanted(&document, Purpose::Look)?.pop().map(|wanted| wanted.definition);
    let (Some(described), Some(definition)) = (document.sequences.pop(), definition) else {
        return Err(HiloError::OutOfMemory);
    };
    let numbering = described.numbering.or(Some(Numbering {
        base: definition.start_value,
        nodes: gucs::node_count(),
        stripe: positions::stripe(definition.block_size),
        reserved_to: None,
    }));
    Ok(Described { numbering, ..described })
}

type Failures = Vec<String>;

/// What all nodes say, each with its name; or why some do not.
fn all(answers: Result<Vec<Answer>, Unfinished>) -> Result<Vec<(String, String)>, Failures> {
    let answers = match answers {
        Ok(answers) => answers,
        Err(Unfinished::TooLate) => return Err(vec![late()]),
        Err(Unfinished::Failed(error)) => error.rethrow(),
    };
    let mut failures = Vec::new();
    let mut all = Vec::new();
    for Answer { node, result, .. } in answers {
        match result {
            Ok(text) => all.grow((node, text)).or_raise(),
            Err(why) => failures.grow(format!("node {node}: {why}")).or_raise(),
        }
    }
    if failures.is_empty() { Ok(all) } else { Err(failures) }
}

/// Says that the nodes have not answered in time.
pub fn late() -> String {
    format!("the nodes have not answered within {} s", PATIENCE.as_secs())
}

/// Creates the sequence of a document on the node with this id, or tells that node how it is numbered.
fn tell(id: i32, name: &Name, document: &str) -> Result<(), Failures> {
    let schema = spi::quoted(&schema());
    let name = spi::literal(name);
    let done = all(run(&format!(
        "SELECT CASE WHEN {schema}.hilo_node_summary(CAST({name} AS {schema}.hilo_sequence)) OPERATOR(pg_catalog.#>>) '{{node,id}}' OPERATOR(pg_catalog.=) '{id}'
                     THEN (SELECT pg_catalog.count(*) FROM {schema}.hilo_apply({}::pg_catalog.jsonb)) END",
        spi::literal(&json::in_encoding(document))
    )))?;
    match done.iter().any(|(_, count)| !count.is_empty()) {
        true => Ok(()),
        false => Err(vec![format!("node {id} is another node now")]),
    }
}

/// What the nodes agree on.
struct Agreed {
    sequence: Described,
    /// The nodes that lack the sequence, or are yet to be told how it is numbered, in the order of their ids: of each that
    /// has the sequence, all with lower ids have it too. So a failure leaves out none that [`numbering::check_not_had`]
    /// refuses afterwards.
    untold: BTreeSet<i32>,
}

/// The sequence as the nodes that have it agree on it; else as it is `new`. A node that has been added again has it, and is
/// yet to be told how it is numbered.
fn agreed(name: &Name, found: &[(String, Document)], new: Described) -> Result<Agreed, Failures> {
    let here = gucs::node_count();
    let mut failures = Vec::new();
    let mut agreed: Option<Described> = None;
    let mut numbering: Option<Numbering> = None;
    let mut untold = BTreeMap::new();
    let mut highest = None;
    for (node, summary) in found {
        let who = summary.node.as_ref();
        if let Some(count) = who.map(|who| who.count).filter(|count| *count != here) {
            failures.push(format!(
                "node {node}: its hilo.node_count is {count}, and here it is {here}"
            ));
        }
        let Some(id) = who.and_then(|who| who.id) else {
            failures.push(format!("node {node}: it is not known which node it is"));
            continue;
        };
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
            failures.push(format!(
                "node {node}: its sequence of this name differs from that of another node"
            ));
        }
        numbering = numbering.or(there);
        agreed = agreed.or(Some(sequence));
    }
    if agreed.is_some() && numbering.is_none() {
        failures.push("no node knows how the sequence is numbered: run hilo_alter(name, restart_with => ...) on each that has it, with the same value beyond all that any node has reserved".into());
    }
    if let (Some((&id, node)), Some(highest)) = (untold.first_key_value(), highest)
        && id <= highest
        && numbering.is_some()
    {
        let error = HiloError::NodeHad { name: name.to_string(), node: id, highest };
        let hint = error.hint().unwrap_or_default();
        failures.push(format!("node {node}: {error}. {hint}"));
    }
    let sequence = match agreed {
        _ if !failures.is_empty() => return Err(failures),
        None => new,
        Some(agreed) => Described { numbering, highest_node: highest, ..agreed },
    };
    Ok(Agreed { sequence, untold: untold.into_keys().collect() })
}
