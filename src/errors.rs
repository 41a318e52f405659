//! Every error that hilo raises, and the one place that turns it into a Postgres report.

use std::fmt;

use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use thiserror::Error;

use hilo_core::mapping::Mapping;
use hilo_core::name::NameError;
use hilo_core::options::OptionError;

use crate::{citus, gucs};

/// What the worker meets when a sequence is not dealt to this node.
const NOT_SO_NUMBERED: i32 = Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE as i32;
const NUMBER_ANEW: &str = "With hilo.node_count greater than every hilo.node_id, number it anew on every node: hilo_alter(name, restart_with => ...), with the same value beyond all that any node has reserved.";
const NOT_ARRIVED: &str = "Replicate hilo.position with hilo.sequence, and wait until it is copied. If that server is lost, hilo_alter(name, restart_with => ...) with a value beyond all that it can have dealt.";

/// Messages are lower case without a full stop, details and hints are sentences.
#[derive(Debug, Error)]
pub enum HiloError {
    #[error("out of memory")]
    OutOfMemory,
    #[error("hilo must be loaded when the server starts")]
    NotPreloaded,
    #[error("extension \"hilo\" is not installed in this database")]
    NotInstalled,
    #[error("the catalog of extension \"hilo\" lacks {0}")]
    CatalogMismatch(String),
    #[error(
        "extension \"hilo\" is version {installed} in this database, but the library in the server's memory is version {}",
        env!("CARGO_PKG_VERSION")
    )]
    Version { installed: String, newer: bool },
    #[error("hilo sequence \"{0}\" does not exist")]
    NoSuchSequence(String),
    #[error("hilo sequence \"{0}\" is in use and cannot be restored")]
    RestoreInUse(String),
    #[error("hilo sequence \"{0}\" already exists")]
    Duplicate(String),
    #[error("permission denied for hilo sequence \"{name}\"")]
    Permission { name: String, needs: &'static str },
    #[error("must be owner of hilo sequence \"{0}\"")]
    NotOwner(String),
    #[error("permission denied for schema {0}")]
    NoCreate(String),
    #[error("reached {} value of hilo sequence \"{name}\" ({bound})", if *.falling { "minimum" } else { "maximum" })]
    Exhausted { name: String, bound: i64, falling: bool },
    #[error("cannot execute {0}() during recovery")]
    Recovery(&'static str),
    #[error("currval of hilo sequence \"{0}\" is not yet defined in this session")]
    NoCurrval(String),
    #[error("lastval is not yet defined in this session")]
    NoLastval,
    #[error("setval: value {value} is out of bounds for hilo sequence \"{name}\" ({min}..{max})")]
    SetvalBounds { name: String, value: i64, min: i64, max: i64 },
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("{0}")]
    Argument(String, &'static str),
    #[error("timed out waiting for a block of hilo sequence \"{name}\"")]
    Timeout { name: String, cause: Cause },
    #[error("could not reserve a block of hilo sequence \"{name}\": {message}")]
    Fault { name: String, sqlstate: i32, message: String },
    #[error("all {0} places for active hilo sequences are taken")]
    DirectoryFull(usize),
    #[error("cannot prepare a transaction that has created, altered or set a hilo sequence")]
    Prepare,
    #[error("cannot prepare a transaction that has dropped extension \"hilo\"")]
    PrepareDrop,
    #[error("cannot drop hilo sequence \"{name}\" because other objects depend on it")]
    HasDependents { name: String, dependents: Vec<String> },
    #[error("role \"{role}\" cannot be dropped because some objects depend on it")]
    RoleHasDependents { role: String, dependents: Vec<String> },
    #[error("cannot drop desired object(s) because other objects depend on them")]
    OwnedHasDependents(Vec<String>),
    #[error("no contiguous range of {count} values is left in hilo sequence \"{name}\"")]
    RangeTooLarge { name: String, count: i64 },
    #[error("hilo sequence \"{0}\" has no fixed block_size")]
    NeedsBlockSize(String),
    #[error("setting hilo.node_id = {id} does not fit hilo.node_count = {count}")]
    NodeId { id: i32, count: i32 },
    #[error(
        "hilo sequence \"{name}\" is dealt among {count} nodes, and hilo.node_id = {id} is none of them"
    )]
    NotAmongNodes { name: String, id: i32, count: i32 },
    #[error("no position of hilo sequence \"{0}\" has arrived from the server that created it")]
    NoPosition(String),
    #[error(
        "hilo sequence \"{0}\" is dealt among several nodes, so that it must be said where it goes on"
    )]
    NodesRestart(String),
    #[error(
        "cannot number hilo sequence \"{name}\" from {base} on: node {node} has reserved up to {value}"
    )]
    Reserved { name: String, node: i32, base: i64, value: i64 },
    #[error(
        "cannot draw from hilo sequence \"{0}\" in the transaction that has changed its increment or its cycle"
    )]
    Renumbered(String),
    #[error("cannot find the gaps of hilo sequence \"{0}\" because it cycles")]
    Cycles(String),
    #[error("relation with OID {0} does not exist")]
    NoSuchRelation(u32),
    #[error("column \"{column}\" of relation {relation} does not exist")]
    NoSuchColumn { column: String, relation: String },
    #[error("permission denied for column \"{column}\" of relation {relation}")]
    NoSelect { column: String, relation: String },
    #[error("column \"{column}\" of relation {relation} does not hold numbers of a sequence")]
    NotANumber { column: String, relation: String },
    #[error("role \"{0}\" does not exist")]
    NoSuchRole(String),
    #[error("unrecognized privilege type for a hilo sequence: \"{0}\"")]
    NoSuchPrivilege(String),
    #[error("\"{key}\" is not a key of hilo sequence \"{name}\"")]
    Key { key: String, name: String, reason: String },
    #[error("server prefix \"{prefix}\" cannot be used: {message}")]
    Prefix { prefix: String, message: String, detail: Option<String>, hint: Option<String> },
}

/// Why a caller waited in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No background worker could be registered or started.
    NoWorker,
    /// The worker is there and has not answered.
    Slow,
    /// The worker has met this and keeps trying.
    Fault { sqlstate: i32, message: String },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NoWorker => f.write_str("No background worker was free to reserve one."),
            Cause::Slow => f.write_str("The worker has not yet committed the reservation."),
            Cause::Fault { message, .. } => {
                write!(f, "The worker could not reserve one: {message}.")
            }
        }
    }
}

impl HiloError {
    /// The last value that `mapping` allows has been drawn.
    pub fn exhausted(name: String, mapping: &Mapping) -> HiloError {
        let falling = mapping.increment < 0;
        let bound = if falling { mapping.min_value } else { mapping.max_value };
        HiloError::Exhausted { name, bound, falling }
    }

    fn code(&self) -> Code {
        match self {
            Self::OutOfMemory => Code::ERRCODE_OUT_OF_MEMORY,
            Self::NotPreloaded
            | Self::NotInstalled
            | Self::CatalogMismatch(_)
            | Self::RestoreInUse(_)
            | Self::Version { .. } => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::NoSuchSequence(_) | Self::NoSuchRole(_) => Code::ERRCODE_UNDEFINED_OBJECT,
            Self::Duplicate(_) => Code::ERRCODE_DUPLICATE_OBJECT,
            Self::Permission { .. }
            | Self::NoSelect { .. }
            | Self::NotOwner(_)
            | Self::NoCreate(_) => Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            Self::Exhausted { .. } | Self::RangeTooLarge { .. } => {
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED
            }
            Self::Recovery(_) => Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            Self::NoCurrval(_) | Self::NoLastval => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::SetvalBounds { .. } => Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            Self::Option(_)
            | Self::Name(_)
            | Self::Argument(..)
            | Self::NeedsBlockSize(_)
            | Self::Key { .. }
            | Self::Prefix { .. } => Code::ERRCODE_INVALID_PARAMETER_VALUE,
            Self::Timeout { cause: Cause::NoWorker, .. } => {
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED
            }
            Self::Timeout { cause: Cause::Fault { sqlstate, .. }, .. }
            | Self::Fault { sqlstate, .. } => Code::from(*sqlstate),
            Self::Timeout { .. } => Code::ERRCODE_LOCK_NOT_AVAILABLE,
            Self::DirectoryFull(_) => Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            Self::Prepare | Self::PrepareDrop | Self::Cycles(_) => {
                Code::ERRCODE_FEATURE_NOT_SUPPORTED
            }
            Self::NoSuchRelation(_) => Code::ERRCODE_UNDEFINED_TABLE,
            Self::NoSuchColumn { .. } => Code::ERRCODE_UNDEFINED_COLUMN,
            Self::NotANumber { .. } => Code::ERRCODE_DATATYPE_MISMATCH,
            Self::HasDependents { .. }
            | Self::RoleHasDependents { .. }
            | Self::OwnedHasDependents(_) => Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            Self::NodeId { .. } => Code::ERRCODE_CONFIG_FILE_ERROR,
            Self::NotAmongNodes { .. }
            | Self::NoPosition(_)
            | Self::NodesRestart(_)
            | Self::Renumbered(_)
            | Self::Reserved { .. } => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::NoSuchPrivilege(_) => Code::ERRCODE_INVALID_PARAMETER_VALUE,
        }
    }

    /// As the number that Postgres packs a SQLSTATE into.
    pub fn sqlstate(&self) -> i32 {
        self.code() as i32
    }

    fn detail(&self) -> Option<String> {
        match self {
            Self::OutOfMemory => Some("The operating system gives no more to this process.".into()),
            Self::Option(error) => error.detail(),
            Self::Name(error) => error.detail(),
            Self::Key { reason, .. } => Some(format!("The {reason}.")),
            Self::Prefix { detail, .. } => detail.clone(),
            Self::Cycles(_) => Some("Each of its values comes again, so that none is missing for good.".into()),
            Self::NotPreloaded => Some("Its shared memory can only be set up then.".into()),
            Self::CatalogMismatch(_) => {
                Some("Its tables are not as its version made them.".into())
            }
            Self::RestoreInUse(_) => Some("A range that was free when the dump was made may have been served since.".into()),
            Self::Version { .. } => Some("Nothing is served unless both are of one version.".into()),
            Self::NoSelect { .. } => Some("The operation needs SELECT.".into()),
            Self::Permission { needs, .. } => Some(format!("The operation needs {needs}.")),
            Self::Timeout { cause, .. } => Some(cause.to_string()),
            Self::HasDependents { name, dependents } => Some(
                dependents
                    .iter()
                    .map(|object| format!("{object} depends on hilo sequence \"{name}\""))
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
            Self::RoleHasDependents { dependents, .. } | Self::OwnedHasDependents(dependents) => {
                Some(some_of(dependents))
            }
            Self::RangeTooLarge { .. } => Some("A range does not run over the bounds or from one stripe into another.".into()),
            Self::DirectoryFull(_) => Some("All of them are in use or wait to be put back to the catalog.".into()),
            Self::NoPosition(_) => Some("It cannot be told which values were dealt there.".into()),
            Self::NodesRestart(_) => {
                Some("Each node stands elsewhere in the sequence; all must number it from the same value on.".into())
            }
            Self::Reserved { .. } => {
                Some("Numbered so, another node could deal values that were dealt before.".into())
            }
            Self::Renumbered(_) => Some("It continues the numbers of all sessions, which would be served again after a rollback.".into()),
            Self::PrepareDrop => {
                Some("Its sequences end in the memory of the server when the session that drops it commits.".into())
            }
            Self::Prepare => {
                Some("What it has reserved for itself is kept in this session's memory until it commits.".into())
            }
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Option(error) => return error.hint(),
            Self::Name(error) => return error.hint(),
            Self::NotPreloaded => "Add \"shared_preload_libraries = 'hilo'\" to postgresql.conf (after a comma, if others stand there) and restart the server.".into(),
            Self::NotInstalled => "Run CREATE EXTENSION hilo.".into(),
            Self::CatalogMismatch(_) => "Undo the change that was made to them; hilo's tables are written by its library only.".into(),
            Self::RestoreInUse(_) => "Restore the data of schema hilo into a database where these sequences do not exist, or leave it out.".into(),
            Self::Version { newer: true, .. } => "Restart the server with the library of that version installed. A server keeps the library that it has loaded at its start.".into(),
            Self::Version { newer: false, .. } => "Run ALTER EXTENSION hilo UPDATE.".into(),
            Self::NoSuchSequence(_) => where_to_create().into(),
            Self::Duplicate(_) => "Choose another name; or keep the one that exists, with if_not_exists => true for hilo_create.".into(),
            Self::Exhausted { .. } => "Give it a wider data type or bounds with hilo_alter, which take effect when that commits; or let it cycle.".into(),
            Self::Recovery(_) => "Sequences are served by the primary only.".into(),
            Self::NotANumber { .. } => "Name a column of type smallint, integer, bigint or numeric.".into(),
            Self::NoCurrval(_) => "Call hilo_nextval first.".into(),
            Self::NoLastval => "Call hilo_nextval first.".into(),
            Self::Argument(_, hint) => (*hint).into(),
            Self::Timeout { cause: Cause::NoWorker, .. } => "Raise max_worker_processes.".into(),
            Self::Timeout { cause: Cause::Slow, .. } => "Snapshot what the process \"hilo worker\" waits for in pg_stat_activity; with synchronous replication a reservation waits for the standby.".into(),
            Self::Fault { sqlstate, message, .. }
                if *sqlstate == NOT_SO_NUMBERED && message.contains("hilo.node_id") =>
            {
                NUMBER_ANEW.into()
            }
            Self::Fault { sqlstate, message, .. }
                if *sqlstate == NOT_SO_NUMBERED && message.starts_with("no position of ") =>
            {
                NOT_ARRIVED.into()
            }
            Self::NoPosition(_) => NOT_ARRIVED.into(),
            Self::Timeout { cause: Cause::Fault { .. }, .. } | Self::Fault { .. } => "Snapshot last_error in hilo_stat_sequences and the server's log.".into(),
            Self::DirectoryFull(_) => "Raise hilo.max_sequences.".into(),
            Self::Renumbered(_) => "Commit the change first; or say with restart_with where this transaction's numbers begin.".into(),
            Self::Prepare => "Commit the change to the sequence before you prepare a transaction.".into(),
            Self::PrepareDrop => "Drop it in a transaction that is not prepared. With Citus, on every node: SET citus.enable_ddl_propagation = off; DROP EXTENSION hilo.".into(),
            Self::HasDependents { .. } => "Use cascade => true to drop these defaults too.".into(),
            Self::RoleHasDependents { .. } => "Use REASSIGN OWNED and DROP OWNED in each database before.".into(),
            Self::OwnedHasDependents(_) => "Use DROP OWNED ... CASCADE to drop these defaults too.".into(),
            Self::NeedsBlockSize(_) => "Set one with hilo_alter(name, block_size => ...).".into(),
            Self::RangeTooLarge { .. } => "Ask for fewer values at once.".into(),
            Self::NotAmongNodes { .. } => NUMBER_ANEW.into(),
            Self::NodesRestart(_) => "Use restart_with, with the same value beyond all that any node has reserved, on every node.".into(),
            Self::Reserved { .. } => "Choose a first value beyond that, the same on every node. To begin below it, drop the sequence and create it anew.".into(),
            Self::NodeId { .. } => "Set hilo.node_id to 0 to hilo.node_count - 1.".into(),
            Self::NoSuchPrivilege(_) => "Use USAGE, SELECT, UPDATE or ALL.".into(),
            Self::Prefix { hint, .. } => return hint.clone(),
            _ => return None,
        })
    }

    /// Raises it as a Postgres ERROR.
    pub fn raise(self) -> ! {
        let mut report = ErrorReport::new(self.code(), self.to_string(), "hilo");
        if let Some(detail) = self.detail() {
            report = report.set_detail(detail);
        }
        if let Some(hint) = self.hint() {
            report = report.set_hint(hint);
        }
        report.report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }
}

/// What would have each of several servers make a sequence of its own, which deals the same numbers, is
/// no advice for them.
fn where_to_create() -> &'static str {
    if citus::is_here() {
        "Create it with hilo_create on every node of Citus, each of which needs a hilo.node_id of its own."
    } else if gucs::node().1 > 1 {
        "Create it with hilo_create: on one server where hilo's tables are replicated, else with the same options on every one."
    } else {
        "Create it with hilo_create. Where no other server deals the same numbers, hilo.auto_create = on does so at the first use."
    }
}

/// A DETAIL of a line each, no longer than core makes it.
fn some_of(lines: &[String]) -> String {
    const MOST: usize = 100;
    let mut text = lines.iter().take(MOST).cloned().collect::<Vec<_>>().join("\n");
    if lines.len() > MOST {
        text += &format!("\nand {} other objects", lines.len() - MOST);
    }
    text
}

/// `?` for functions that Postgres calls.
pub trait OrRaise<T> {
    /// The value, or its error as a Postgres ERROR.
    fn or_raise(self) -> T;
}

impl<T, E: Into<HiloError>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> T {
        self.unwrap_or_else(|error| error.into().raise())
    }
}
