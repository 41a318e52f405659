//! DETAILs and HINTs that depend on the fields of an error.

use crate::advice::{self, RESTART};
use crate::citus;
use crate::errors::{Code, FaultKind, LONGEST, NameGuess, Unleasable};

pub const ON_COORDINATOR: &str = "Run hilo_create_on_all_nodes(name) on the coordinator: it makes \
    the sequence a branch on each worker.";
pub const NOT_ARRIVED: &str = "Replicate _hilo.hilo_position together with \
    _hilo.hilo_definition, and wait until it has been copied. If that server is lost, \
    SET hilo.on_every_node = on and use hilo_alter(name, restart_with => ...) with a \
    value beyond all that it can have served.";
pub const RESTART_WITH_IT: &str = "Restart the server with the library of the extension's version \
    installed. A server keeps the library that it loaded when it started.";
const SEE_SOURCE: &str = "hilo_stat_sources has the whole error of the source.";
const FIND_TRANSACTION: &str = "A transaction that has set, altered or dropped the sequence, or \
    locked tables of hilo, is still open. docs/operations.md says how to find it.";
const SEE_LOG: &str = "See last_error in hilo_stat_sequences, and the server log.";

impl FaultKind {
    pub fn hint(self) -> String {
        match self {
            FaultKind::Other => SEE_LOG.into(),
            FaultKind::Source | FaultKind::SourceEnded => SEE_SOURCE.into(),
            FaultKind::NotAmongNodes => raise_node_count(),
            FaultKind::NoPosition => NOT_ARRIVED.into(),
            FaultKind::NodeUnset => set_node_id().into(),
            FaultKind::OnWorker => ON_COORDINATOR.into(),
            FaultKind::Locked => FIND_TRANSACTION.into(),
        }
    }
}

impl NameGuess {
    pub fn detail(&self, name: &str) -> Option<String> {
        match self {
            NameGuess::Core(found) => {
                Some(format!("\"{name}\" is a sequence of Postgres: {found}."))
            }
            _ => None,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            NameGuess::Similar(name) => format!("Did you mean \"{name}\"?"),
            NameGuess::Core(_) => {
                "Use nextval and the other commands of Postgres for it, or take over \
                               the column that it feeds with hilo_adopt."
                    .into()
            }
            NameGuess::New => advice::create().into(),
            NameGuess::OfColumn => advice::create_for_column(),
            NameGuess::Unknown => {
                "The view hilo_sequences lists the sequences that you may see.".into()
            }
        }
    }
}

/// How to use a sequence that cannot be leased because of `why`.
pub fn instead_of_leases(name: &str, why: Unleasable) -> String {
    let mut hint = "Draw values with hilo_nextval, hilo_nextvals or hilo_nextrange.".to_owned();
    if why == Unleasable::Ordered {
        hint += " Or give up its order: SELECT hilo_alter(";
        hint += &advice::literal(name);
        hint += ", ordered => false);";
    }
    hint
}

/// Says that a setting leaves hilo out of the libraries of sessions. `whose`: as in ALTER.
pub fn preload_excluded_by(whose: &str) -> String {
    format!("ALTER {whose} SET session_preload_libraries has left hilo out")
}

/// How to let sessions load hilo: those with this setting, as in ALTER, or all.
pub fn load_in_sessions(whose: Option<&str>) -> String {
    let whose = whose.unwrap_or("DATABASE ...");
    format!(
        "Run ALTER {whose} SET session_preload_libraries = 'hilo' (with the libraries that are \
         listed there already)"
    )
}

pub fn load_in_all_sessions(whose: Option<&str>) -> String {
    format!("{}, and connect again, in all sessions.", load_in_sessions(whose))
}

pub fn without_hilo(whose: Option<&str>) -> String {
    let without = "A session that has not loaded hilo drops and truncates the table without regard \
                   to the sequence, and does not protect GENERATED ALWAYS.";
    match whose {
        Some(whose) => format!("{}. {without}", preload_excluded_by(whose)),
        None => without.into(),
    }
}

/// Where to find the error of a source that the current user may not see.
pub fn ask_owner(owner: &str) -> String {
    format!("Role {owner}, which owns the sequence, sees the error in hilo_stat_sources.")
}

pub fn set_node_id() -> &'static str {
    match citus::is_here() {
        true => {
            "Remove hilo.node_id and hilo.node_count from the settings of every node, and let new \
             sequences follow those with stripes: docs/multi-node.md says how."
        }
        false => {
            "Set hilo.node_id to a number from 0 to hilo.node_count - 1 that no other server has, \
             and reload."
        }
    }
}

pub fn move_at_source() -> &'static str {
    match citus::is_here() {
        true => {
            "Move the numbers on the coordinator of Citus, and run hilo_create_on_all_nodes(name) \
             there. For another source, move them there, or use hilo_detach(name, start)."
        }
        false => "Move the numbers at the source, or begin its own: hilo_detach(name, start).",
    }
}

pub fn raise_node_count() -> String {
    format!("Set hilo.node_count higher than every hilo.node_id. {RESTART}")
}

pub fn move_all(name: &str, taken: Option<i64>) -> String {
    let Some(taken) = taken else { return RESTART.into() };
    let pass = advice::pass(name, taken);
    format!("To serve nothing up to there any more: {pass}. To restart it from there: {RESTART}")
}

pub fn lease_counts(most: usize, dead: usize) -> String {
    let taken = "Transactions that have not ended yet have taken";
    match dead {
        0 => format!("{taken} {most} leases."),
        _ => format!(
            "{taken} {} leases, and {dead} that were rolled back are yet to be written off.",
            most - dead
        ),
    }
}

pub fn depend_on(name: &str, dependents: &[String]) -> String {
    let lines = dependents.iter().map(|one| format!("{one} depends on hilo sequence \"{name}\""));
    lines.collect::<Vec<_>>().join("\n")
}

/// How to keep a sequence whose owner column is to be dropped: `successor` is another column that
/// uses it and may own it.
pub fn keep_for(name: &str, successor: Option<&str>) -> String {
    let (name, successor) = (advice::literal(name), advice::literal(successor.unwrap_or("none")));
    format!(
        "Keep the sequence: SELECT hilo_alter({name}, owned_by => {successor}); then drop again. \
         With CASCADE, the columns that are left would lose their defaults."
    )
}

/// A DETAIL with one line for each object, at most as long as core makes it.
pub fn first_lines(lines: &[String]) -> String {
    const MAX_LINES: usize = 100;
    let mut size = 0;
    let fits = |line: &&String| {
        size += line.len() + 1;
        size < LONGEST - 100
    };
    let some: Vec<&str> =
        lines.iter().take(MAX_LINES).take_while(fits).map(String::as_str).collect();
    let mut text = some.join("\n");
    match lines.len() - some.len() {
        0 => {}
        1 => text += "\nand 1 other object",
        more => text += &format!("\nand {more} other objects"),
    }
    text
}

/// A DETAIL with the first lines of a text.
pub fn some_lines(text: &str) -> String {
    first_lines(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

/// The SQLSTATE of this name, which has five letters or digits of six bits each.
pub fn code_of(state: &str) -> Code {
    let packed = state
        .bytes()
        .rev()
        .fold(0, |rest, byte| (rest << 6) | (i32::from(byte.wrapping_sub(b'0')) & 0x3f));
    packed.into()
}
