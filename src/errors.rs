//! Every error that hilo raises, and the one place that turns it into a Postgres report.

use std::fmt;

use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use thiserror::Error;

use hilo_core::document::DocumentError;
use hilo_core::mapping::Mapping;
use hilo_core::name::NameError;
use hilo_core::options::OptionError;

use crate::advice::{self, FOLLOW_CITUS, RESTART, literal};
use crate::citus;

const WITHOUT_HILO: &str = "A session that has not loaded hilo drops and truncates the table without regard to the sequence, and does not protect GENERATED ALWAYS.";
const SET_NODE_ID: &str = "Set hilo.node_id to a number from 0 to hilo.node_count - 1 that no other server has, and reload.";
const JOIN_CITUS: &str = "Let this server join the cluster: SELECT citus_set_coordinator_host(...) on the coordinator, then SELECT citus_add_node(...) there for this server. A server without Citus needs a number in hilo.node_id.";
const NOT_ARRIVED: &str = "Replicate hilo.position together with hilo.sequence, and wait until it has been copied. If that server is lost, SET hilo.on_every_node = on and use hilo_alter(name, restart_with => ...) with a value beyond all that it can have served.";

/// The most bytes of a message, a DETAIL or a HINT. Memory is set aside for as many, and no longer piece of a
/// memory context comes from a block that is there already.
pub const LONGEST: usize = 8000;

/// What kind of error the worker has met, for the hint of the session that it tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FaultKind {
    #[default]
    Other,
    NotAmongNodes,
    NoPosition,
    NodeUnset,
    NotTheGroup,
    NoGroup,
    NotNumbered,
}

/// Messages are lower case without a full stop; details and hints are sentences.
#[derive(Debug, Error)]
pub enum HiloError {
    #[error("out of memory")]
    OutOfMemory,
    #[error("hilo must be loaded when the server starts")]
    NotPreloaded,
    #[error(
        "the shared memory of hilo was made by version {maker} of the library, but this session has loaded version {}",
        env!("CARGO_PKG_VERSION")
    )]
    #[cfg_attr(any(feature = "pg15", feature = "pg16"), expect(dead_code))]
    OtherMemory { maker: String },
    #[error("hilo must be loaded in all sessions before a column can depend on it")]
    NotInAllSessions { except: Option<String> },
    #[error("extension \"hilo\" is not installed in this database")]
    NotInstalled,
    #[error("extension \"hilo\" was dropped and created at the same time")]
    Replaced,
    #[error("the catalog of extension \"hilo\" lacks {0}")]
    CatalogMismatch(String),
    #[error(
        "extension \"hilo\" is version {installed} in this database, but the library that the server has loaded is version {}",
        env!("CARGO_PKG_VERSION")
    )]
    Version { installed: String, newer: bool },
    #[error("hilo sequence \"{name}\" does not exist")]
    NoSuchSequence { name: String, meant: Meant },
    #[error("hilo sequence \"{0}\" is in use and cannot be restored")]
    RestoreInUse(String),
    #[error("hilo sequence \"{0}\" already exists")]
    Duplicate(String),
    #[error("permission denied for hilo sequence \"{}\"", .0.name)]
    Permission(Box<Denied>),
    #[error("permission denied to change the privileges on hilo sequences of role \"{0}\"")]
    NotMember(String),
    #[error("permission denied to reset the counters of all hilo sequences")]
    ResetAll,
    #[error("must be owner of hilo sequence \"{0}\"")]
    NotOwner(String),
    #[error("permission denied for schema {schema}")]
    NoCreate { schema: String, user: String },
    #[error("reached {} value of hilo sequence \"{name}\" ({bound})", if *.falling { "minimum" } else { "maximum" })]
    Exhausted { name: String, bound: i64, falling: bool },
    #[error("cannot serve hilo sequences in single-user mode")]
    SingleUser,
    #[error("cannot execute {0}() during recovery")]
    Recovery(&'static str),
    #[error("cannot execute {0} during a parallel operation")]
    InParallelMode(&'static str),
    #[error("cannot draw from gapless hilo sequence \"{0}\" during a parallel operation")]
    GaplessInParallelMode(String),
    #[error("cannot execute {0}() in a parallel worker")]
    ParallelWorker(&'static str),
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
    #[error("could not lock table {0} within lock_timeout")]
    InUse(String),
    #[error("timed out waiting for a block of hilo sequence \"{name}\"")]
    Timeout { name: String, cause: Cause },
    #[error("could not reserve a block of hilo sequence \"{name}\": {message}")]
    Fault { name: String, sqlstate: i32, kind: FaultKind, message: String },
    #[error("all {0} slots for active hilo sequences are taken")]
    DirectoryFull(usize),
    #[error("cannot prepare a transaction that has created, altered, or set a hilo sequence")]
    Prepare,
    #[error("hilo sequence \"{name}\" is numbered differently on this node")]
    Numbered { name: String, here: String, there: String },
    #[error("node {0} is another server")]
    SameNode(i32),
    #[error("could not create hilo sequence \"{name}\"{} on all nodes", and_others(*.others))]
    NotOnAllNodes { name: String, others: usize, failures: Vec<String>, hint: Option<String> },
    #[error("Citus is not in this database")]
    NeedsCitus,
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
    #[error("hilo.node_id = {id} must be less than hilo.node_count = {count}")]
    NodeId { id: i32, count: i32 },
    #[error("hilo.node_id is not set")]
    NodeUnset(i32),
    #[error("it is not known which node this server is")]
    NoGroup(NoGroup),
    #[error("hilo.node_id = {id} is not the group of this node in Citus, which is {group}")]
    NotTheGroup { id: i32, group: i32 },
    #[error(
        "hilo sequence \"{name}\" is numbered for hilo.node_count = {count}, which does not include hilo.node_id = {id}"
    )]
    NotAmongNodes { name: String, id: i32, count: i32 },
    #[error("no position of hilo sequence \"{0}\" has arrived from the server that created it")]
    NoPosition(String),
    #[error("hilo sequence \"{name}\" is not numbered for node {node}, which this server is now")]
    NotNumbered { name: String, node: i32 },
    #[error(
        "cannot number hilo sequence \"{name}\" for node {node}, since a node has had the id {highest}"
    )]
    NodeHad { name: String, node: i32, highest: i32 },
    #[error("it is not known how hilo sequence \"{0}\" is numbered")]
    Unnumbered(String),
    #[error("cannot begin hilo sequence \"{0}\" on one node of several: hilo.on_every_node is off")]
    BeginsAlone(String),
    #[error(
        "cannot move hilo sequence \"{name}\" on one node of several: hilo.on_every_node is off"
    )]
    MovesAlone { name: String, taken: Option<i64> },
    #[error("restart_with is required because hilo sequence \"{0}\" is shared by several nodes")]
    NodesRestart(String),
    #[error(
        "cannot number hilo sequence \"{name}\" starting at {base}: node {node} has reserved up to {value}"
    )]
    Reserved { name: String, node: i32, base: i64, value: i64 },
    #[error(
        "cannot draw from hilo sequence \"{0}\" in the transaction that has advanced it, changed its increment, cycle, or gapless, or numbered it for this node"
    )]
    Renumbered(String),
    #[error("cannot reserve a block number of gapless hilo sequence \"{0}\"")]
    GaplessHi(String),
    #[error("hilo sequence \"{name}\" cannot be gapless while hilo.node_count = {nodes}")]
    GaplessNodes { name: String, nodes: i32 },
    #[error("cannot find the gaps of hilo sequence \"{0}\" because it cycles")]
    Cycles(String),
    #[error("relation with OID {0} does not exist")]
    NoSuchRelation(u32),
    #[error("column \"{column}\" of relation {relation} does not exist")]
    NoSuchColumn { column: String, relation: String },
    #[error("permission denied for column \"{column}\" of relation {relation}")]
    NoSelect { column: String, relation: String },
    #[error("column \"{column}\" of relation {relation} cannot hold values of a sequence")]
    NotANumber { column: String, relation: String },
    #[error("\"{relation}\" cannot be moved from one kind of sequence to the other")]
    NotATable { relation: String, why: &'static str },
    #[error("rows of \"{relation}\" cannot be read where they are stored")]
    NotStored { relation: String, why: &'static str },
    #[error("row security hides rows of column {0} from the current role")]
    RowSecurity(String),
    #[error("must be owner of table {0}")]
    NotTableOwner(String),
    #[error("column {column} has no sequence of Postgres")]
    NoCoreSequence { column: String, default: Option<String> },
    #[error("the owner of the table may not draw from what column {0} draws from")]
    CannotDraw(String),
    #[error("hilo sequence \"{0}\" does not belong to the owner of the table")]
    NotTheTables(String),
    #[error("table {0} is distributed by Citus")]
    Distributed(String),
    #[error("column {0} cannot become an identity column of its partitions or children")]
    NoIdentityBelow(String),
    #[error("cannot drop identity sequence {sequence} because other objects depend on it")]
    IdentityInUse { sequence: String, others: Vec<String> },
    #[error("column {column} uses hilo sequence \"{name}\" already")]
    UsesHilo { column: String, name: String },
    #[error("column {column} does not use a hilo sequence")]
    NoHiloSequence { column: String, default: Option<String> },
    #[error("sequence {sequence} is used by another column too")]
    UsedTwice { sequence: String, others: Vec<String> },
    #[error("hilo sequence \"{0}\" is shared by several nodes")]
    NodesShare(String),
    #[error("column {0} must be NOT NULL to become an identity column")]
    Nullable(String),
    #[error("column {0} cannot own a hilo sequence")]
    CannotOwn(String),
    #[error("hilo sequence must have same owner as the table of column {0}")]
    OwnersDiffer(String),
    #[error("cannot change owner of hilo sequence \"{name}\"")]
    LinkedToTable { name: String, column: String },
    #[error(
        "cannot drop the column that owns hilo sequence \"{name}\" because other objects depend on the sequence"
    )]
    OwnedColumnHasDependents { name: String, dependents: Vec<String> },
    #[error("role \"{0}\" does not exist")]
    NoSuchRole(String),
    #[error("unrecognized privilege type for a hilo sequence: \"{0}\"")]
    NoSuchPrivilege(String),
    #[error("\"{key}\" is not a key of hilo sequence \"{name}\"")]
    Key { key: String, name: String, reason: String },
    #[error("invalid document of hilo sequences: {0}")]
    Document(DocumentError),
    /// An error that belongs to one place of a document.
    #[error("{error}")]
    At { path: String, error: Box<HiloError> },
    #[error(
        "cannot drop hilo sequences that the document does not contain because other objects depend on them"
    )]
    PruneHasDependents(Vec<String>),
    #[error("cannot advance hilo sequence \"{0}\" because it cycles")]
    AdvanceOf(String),
    #[error("cannot lease values of hilo sequence \"{name}\" because it {why}")]
    LeaseOf { name: String, why: &'static str },
    #[error("too many leases in open transactions")]
    TooManyLeases { most: usize, dead: usize },
    #[error(
        "cannot prepare a transaction that has taken, returned, renewed or revoked a lease of a hilo sequence"
    )]
    PrepareLease,
    #[error(
        "could not lease values of hilo sequence \"{0}\" because it was renumbered or dropped at the same time"
    )]
    LeaseVoid(String),
    #[error("lease \"{lease}\" is not open")]
    LeaseNotOpen { lease: String, since: Closed },
    #[error("permission denied for lease \"{0}\"")]
    LeaseDenied(String),
    #[error("value {next} cannot follow the used values of lease \"{lease}\"")]
    LeaseValue { lease: String, next: i64, first: i64, last: i64, increment: i64 },
    #[error("server prefix \"{prefix}\" cannot be used: {message}")]
    Prefix { prefix: String, message: String, detail: Option<String>, hint: Option<String> },
}

/// What is known of a lease that is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    Unknown,
    Returned(String),
    Revoked(String),
    Expired(String),
}

/// Why Citus does not say which node this server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGroup {
    /// The database has no Citus.
    NoCitus,
    /// `pg_dist_local_group` is empty.
    Unknown,
    /// The group is not among those of the cluster.
    NoMember(i32),
}

/// What the caller may have meant by a name that no sequence has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// A hilo sequence with a similar name.
    Similar(String),
    /// One of core's sequences, by its schema and name.
    Core(String),
    /// A sequence that is yet to be created.
    New,
    Unknown,
}

/// A privilege that the user lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub name: String,
    pub user: String,
    /// What the operation requires.
    pub needs: &'static str,
    /// What the user has: empty for nothing.
    pub held: String,
    /// The privilege that the owner should grant.
    pub wanted: &'static str,
}

/// Why a caller waited without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// No background worker could be registered or started.
    NoWorker,
    /// The worker is running and has not answered.
    Slow,
    /// There is no worker, and processes have loaded another version of the library: a worker may, too.
    OtherLibrary { version: String },
    /// The worker got this error and keeps trying.
    Fault { sqlstate: i32, message: String },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NoWorker => f.write_str("No background worker was free to reserve a block."),
            Cause::Slow => f.write_str("The worker has not yet committed the reservation."),
            Cause::OtherLibrary { version } => {
                write!(
                    f,
                    "There is no worker. Processes have loaded version {version} of the library, which cannot use the shared memory: if that is the version that is installed, none can start."
                )
            }
            Cause::Fault { message, .. } => {
                write!(f, "The worker could not reserve a block: {message}.")
            }
        }
    }
}

/// That a setting leaves hilo out of the libraries of sessions. `whose`: as in ALTER.
pub fn left_out(whose: &str) -> String {
    format!("ALTER {whose} SET session_preload_libraries has left hilo out")
}

/// How to let sessions load hilo: those whose setting it is, as in ALTER, or else all.
pub fn load_in_sessions(whose: Option<&str>) -> String {
    let whose = whose.unwrap_or("DATABASE …");
    format!(
        "Run ALTER {whose} SET session_preload_libraries = 'hilo' (with the libraries that are listed there already)"
    )
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
            Self::SingleUser
            | Self::NotPreloaded
            | Self::OtherMemory { .. }
            | Self::NotInAllSessions { .. }
            | Self::NotInstalled
            | Self::CatalogMismatch(_)
            | Self::RestoreInUse(_)
            | Self::Version { .. } => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::NoSuchSequence { .. } | Self::NoSuchRole(_) => Code::ERRCODE_UNDEFINED_OBJECT,
            Self::Duplicate(_) => Code::ERRCODE_DUPLICATE_OBJECT,
            Self::Permission(_)
            | Self::ResetAll
            | Self::NotMember(_)
            | Self::NoSelect { .. }
            | Self::NotOwner(_)
            | Self::NoCreate { .. } => Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            Self::Exhausted { .. } | Self::RangeTooLarge { .. } => {
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED
            }
            Self::Recovery(_) => Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            Self::InParallelMode(_) | Self::GaplessInParallelMode(_) | Self::ParallelWorker(_) => {
                Code::ERRCODE_INVALID_TRANSACTION_STATE
            }
            Self::NoCurrval(_) | Self::NoLastval => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::SetvalBounds { .. } => Code::ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
            Self::Option(error) if error.is_unsupported() => Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            Self::GaplessHi(_) | Self::GaplessNodes { .. } | Self::LeaseOf { .. } => {
                Code::ERRCODE_FEATURE_NOT_SUPPORTED
            }
            Self::PrepareLease | Self::AdvanceOf(_) => Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            Self::TooManyLeases { .. } => Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            Self::LeaseVoid(_) | Self::Replaced => Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
            Self::LeaseNotOpen { .. } => Code::ERRCODE_UNDEFINED_OBJECT,
            Self::LeaseDenied(_) => Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            Self::LeaseValue { .. } => Code::ERRCODE_INVALID_PARAMETER_VALUE,
            Self::Option(_)
            | Self::Name(_)
            | Self::Argument(..)
            | Self::NeedsBlockSize(_)
            | Self::Key { .. }
            | Self::Document(_)
            | Self::Prefix { .. } => Code::ERRCODE_INVALID_PARAMETER_VALUE,
            Self::Timeout { cause: Cause::NoWorker, .. } => {
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED
            }
            Self::Timeout { cause: Cause::Fault { sqlstate, .. }, .. }
            | Self::Fault { sqlstate, .. } => Code::from(*sqlstate),
            Self::Timeout { .. } | Self::InUse(_) => Code::ERRCODE_LOCK_NOT_AVAILABLE,
            Self::DirectoryFull(_) => Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            Self::Prepare | Self::NeedsCitus | Self::Cycles(_) => {
                Code::ERRCODE_FEATURE_NOT_SUPPORTED
            }
            Self::NoSuchRelation(_) => Code::ERRCODE_UNDEFINED_TABLE,
            Self::NoSuchColumn { .. } => Code::ERRCODE_UNDEFINED_COLUMN,
            Self::NotANumber { .. } => Code::ERRCODE_DATATYPE_MISMATCH,
            Self::At { error, .. } => error.code(),
            Self::NotTableOwner(_)
            | Self::RowSecurity(_)
            | Self::CannotDraw(_)
            | Self::NotTheTables(_) => Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            Self::Distributed(_) | Self::NoIdentityBelow(_) => Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            Self::NoCoreSequence { .. }
            | Self::UsesHilo { .. }
            | Self::NoHiloSequence { .. }
            | Self::UsedTwice { .. }
            | Self::NodesShare(_)
            | Self::Nullable(_) => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::CannotOwn(_) | Self::NotATable { .. } | Self::NotStored { .. } => {
                Code::ERRCODE_WRONG_OBJECT_TYPE
            }
            Self::OwnersDiffer(_) => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::LinkedToTable { .. } => Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            Self::HasDependents { .. }
            | Self::IdentityInUse { .. }
            | Self::OwnedColumnHasDependents { .. }
            | Self::PruneHasDependents(_)
            | Self::RoleHasDependents { .. }
            | Self::OwnedHasDependents(_) => Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            Self::NodeId { .. } | Self::NodeUnset(_) | Self::NotTheGroup { .. } => {
                Code::ERRCODE_CONFIG_FILE_ERROR
            }
            Self::NoGroup(_)
            | Self::Numbered { .. }
            | Self::SameNode(_)
            | Self::NotOnAllNodes { .. } => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::NotAmongNodes { .. }
            | Self::NoPosition(_)
            | Self::NotNumbered { .. }
            | Self::NodeHad { .. }
            | Self::Unnumbered(_)
            | Self::BeginsAlone(_)
            | Self::MovesAlone { .. }
            | Self::NodesRestart(_)
            | Self::Renumbered(_)
            | Self::Reserved { .. } => Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Self::NoSuchPrivilege(_) => Code::ERRCODE_INVALID_PARAMETER_VALUE,
        }
    }

    /// The SQLSTATE, packed into a number as Postgres packs it.
    pub fn sqlstate(&self) -> i32 {
        self.code() as i32
    }

    pub fn detail(&self) -> Option<String> {
        match self {
            Self::OutOfMemory => Some("The operating system does not give this process more memory.".into()),
            Self::Option(error) => error.detail(),
            Self::Name(error) => error.detail(),
            Self::Key { reason, .. } => Some(format!("The {reason}.")),
            Self::Prefix { detail, .. } => detail.clone(),
            Self::Cycles(_) => Some("Every value is served again in a later cycle, so none is missing permanently.".into()),
            Self::NotInAllSessions { except: Some(whose) } => Some(format!("{}. {WITHOUT_HILO}", left_out(whose))),
            Self::NotInAllSessions { except: None } => Some(WITHOUT_HILO.into()),
            Self::SingleUser => Some("A background worker reserves the numbers, and this mode has none.".into()),
            Self::NotPreloaded => Some("The shared memory of hilo can be set up only at server start.".into()),
            Self::GaplessHi(_) => Some("Which of a block's values are used is up to the caller, so the others would be missing.".into()),
            Self::GaplessNodes { .. } => Some("Each node would serve values of its own, and no node knows which of them are committed on the others.".into()),
            Self::CatalogMismatch(_) => {
                Some("The objects in schema hilo are not as this version of the extension created them.".into())
            }
            Self::RestoreInUse(_) => Some("A range that was free when the dump was made may have been served since.".into()),
            Self::Version { .. } | Self::OtherMemory { .. } => Some("Nothing is served unless both have the same version.".into()),
            Self::NoSelect { .. } => Some("The operation requires SELECT.".into()),
            Self::Permission(denied) => {
                let Denied { user, needs, held, .. } = &**denied;
                let held = if held.is_empty() { "no privilege" } else { held };
                Some(format!("The operation requires {needs}. Role \"{user}\" has {held} on the sequence."))
            }
            Self::NotMember(role) => Some(format!("Only role \"{role}\" and the roles that have its privileges may do so.")),
            Self::ResetAll => Some("Without a name, hilo_stat_reset requires superuser rights.".into()),
            Self::NoCreate { user, .. } => Some(format!("To own a hilo sequence, role \"{user}\" needs CREATE on the schema that extension \"hilo\" was created in, whatever schema the tables are in.")),
            Self::NoSuchSequence { name, meant: Meant::Core(found) } => {
                Some(format!("\"{name}\" is a sequence of Postgres: {found}."))
            }
            Self::Timeout { cause, .. } => Some(cause.to_string()),
            Self::NotATable { why, .. } | Self::NotStored { why, .. } => Some((*why).into()),
            Self::CannotDraw(_) => Some("Its default names no sequence on which that role has USAGE or UPDATE.".into()),
            Self::NotTheTables(_) => Some("Its numbers may be in use elsewhere.".into()),
            Self::Distributed(_) => Some("The other nodes would keep the old default.".into()),
            Self::NoIdentityBelow(_) => Some("What is inserted directly into one of them would get no number: tables that inherit have no identity of their parent, nor have partitions before PostgreSQL 17.".into()),
            Self::RowSecurity(_) => Some("A value that the role cannot see could be served again.".into()),
            Self::NotTableOwner(_) => Some("The operation changes a default of the table.".into()),
            Self::NoCoreSequence { default, .. } | Self::NoHiloSequence { default, .. } => {
                Some(match default {
                    Some(default) => format!("Its default is {default}."),
                    None => "It has no default.".into(),
                })
            }
            Self::UsesHilo { .. } => Some("Its default calls hilo_nextval.".into()),
            Self::UsedTwice { others, .. } | Self::IdentityInUse { others, .. } => Some(some_of(others)),
            Self::NodesShare(_) => Some("A sequence of Postgres knows nothing of the values that other nodes serve.".into()),
            Self::Nullable(_) => Some("Postgres requires it of every identity column.".into()),
            Self::CannotOwn(_) => Some("Only a permanent, unlogged, partitioned or foreign table can own a hilo sequence.".into()),
            Self::LinkedToTable { column, .. } => Some(format!("The sequence is owned by column {column}, and has the owner of its table.")),
            Self::HasDependents { name, dependents }
            | Self::OwnedColumnHasDependents { name, dependents } => Some(
                dependents
                    .iter()
                    .map(|object| format!("{object} depends on hilo sequence \"{name}\""))
                    .collect::<Vec<_>>()
                    .join("\n"),
            ),
            Self::RoleHasDependents { dependents, .. }
            | Self::OwnedHasDependents(dependents)
            | Self::PruneHasDependents(dependents) => Some(some_of(dependents)),
            Self::Document(error) => Some(located(None, &error.path)),
            Self::At { path, error } => Some(located(error.detail(), path)),
            Self::RangeTooLarge { .. } => Some("A range cannot cross the bounds of the sequence or run from one stripe into another.".into()),
            Self::DirectoryFull(_) => Some("Each slot is in use or waits to be flushed to the catalog.".into()),
            Self::NodeUnset(nodes) => Some(format!("Each of the {nodes} nodes that share a sequence needs an id of its own.")),
            Self::NoGroup(NoGroup::NoCitus) => Some("hilo.node_id is citus, and this database has no Citus.".into()),
            Self::NoGroup(NoGroup::Unknown) => Some("The table pg_dist_local_group of Citus is empty.".into()),
            Self::NoGroup(NoGroup::NoMember(group)) => Some(format!("Its group is {group}, which is not in the table pg_dist_node of Citus: it has not joined a cluster, or has left it.")),
            Self::NotTheGroup { .. } => Some("Another node may have this id and serve the same values.".into()),
            Self::NoPosition(_) => Some("It is not known which values that server has served.".into()),
            Self::NotNumbered { .. } | Self::Fault { kind: FaultKind::NotNumbered, .. } => {
                Some("The other nodes may have renumbered the sequence while this server was none of them, or another one.".into())
            }
            Self::NodeHad { node, .. } => {
                Some(format!("Citus gives new nodes higher groups, unless it has lost count: another server may have served the numbers of node {node}."))
            }
            Self::Unnumbered(_) => Some("The server that the summary is of refuses to serve it.".into()),
            Self::BeginsAlone(_) => Some("If another node has it already, both could serve the same values.".into()),
            Self::MovesAlone { .. } => Some("The other nodes would stay where they are, and serve the values that this one has been moved past or to.".into()),
            Self::NodesRestart(_) => {
                Some("Each node is at a different place in the sequence; all of them must renumber it from the same value.".into())
            }
            Self::Reserved { .. } => {
                Some("With this numbering, another node could serve values that have already been served.".into())
            }
            Self::Renumbered(_) => Some("The sequence continues the values of all sessions, and values drawn now would be served again after a rollback.".into()),
            Self::InParallelMode(_) => Some("A transaction cannot write while a parallel query runs.".into()),
            Self::GaplessInParallelMode(_) => Some("The first draw of a transaction locks the sequence, and a transaction cannot lock a row while a parallel query runs.".into()),
            Self::ParallelWorker(_) => Some("The values of a session rise, and currval and lastval know them, because only the session's own process draws.".into()),
            Self::AdvanceOf(_) => Some("A sequence that cycles serves every value again.".into()),
            Self::LeaseOf { .. } => Some("What is leased is served outside of the server, in no order with other values, and its rest is served later or is lost.".into()),
            Self::TooManyLeases { most, dead: 0 } => Some(format!("Transactions that have not ended yet have taken {most} leases.")),
            Self::TooManyLeases { most, dead } => Some(format!("Transactions that have not ended yet have taken {} leases, and {dead} that were rolled back are yet to be written off.", most - dead)),
            Self::PrepareLease => Some("What a transaction has done with leases is kept in this session's memory until the transaction ends.".into()),
            Self::LeaseVoid(_) => Some("The lease would be one of values that the sequence no longer has.".into()),
            Self::LeaseNotOpen { since, .. } => Some(match since {
                Closed::Unknown => "It was never taken, or it has been returned, was revoked, or has expired.".into(),
                Closed::Returned(at) => format!("It was returned at {at}."),
                Closed::Revoked(at) => format!("It was revoked at {at}. Its values are a gap and are not served again."),
                Closed::Expired(at) => format!("It expired at {at}. Its values are a gap and are not served again."),
            }),
            Self::LeaseDenied(_) => Some("Only the role that took a lease, the owner of its sequence, and superusers may return, renew or revoke it.".into()),
            Self::LeaseValue { first, last, increment, .. } => Some(format!("The lease has the values {first} to {last} in steps of {increment}.")),
            Self::Numbered { here, there, .. } => Some(format!("Here it is numbered {here}, there {there}.")),
            Self::SameNode(_) => Some("The summary is of a server that has the hilo.node_id of this one.".into()),
            Self::NotOnAllNodes { failures, .. } => Some(some_of(failures)),
            Self::NeedsCitus => Some("It says which nodes there are.".into()),
            Self::Prepare => {
                Some("What the transaction has reserved for itself is kept in this session's memory until the transaction commits.".into())
            }
            _ => None,
        }
    }

    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Option(error) => return error.hint(),
            Self::Name(error) => return error.hint(),
            Self::At { error, .. } => return error.hint(),
            Self::Document(_) => "Compare the document with what hilo_export() returns, or check it against docs/hilo.schema.json.".into(),
            Self::PruneHasDependents(_) => "Add these sequences to the document, change the defaults, or drop the sequences with hilo_drop(name, cascade => true).".into(),
            Self::NotInAllSessions { except } => format!("{}, and connect again, in all sessions.", load_in_sessions(except.as_deref())),
            Self::SingleUser => "Start the server as usual.".into(),
            Self::NotPreloaded => "Set shared_preload_libraries = 'hilo' in postgresql.conf (append it after a comma if other libraries are listed) and restart the server.".into(),
            Self::NotInstalled => "Run CREATE EXTENSION hilo.".into(),
            Self::Replaced => "Repeat the transaction.".into(),
            Self::CatalogMismatch(_) => "Undo the change that was made to them. Only hilo's library writes to its tables.".into(),
            Self::RestoreInUse(_) => "Restore the data of schema hilo into a database where these sequences do not exist, or exclude that data from the restore.".into(),
            Self::Timeout { cause: Cause::OtherLibrary { .. }, .. } => "Restart the server with the version that is to be used: the shared memory lasts as long as it runs.".into(),
            Self::OtherMemory { .. } => "Restart the server: the shared memory lasts as long as it runs.".into(),
            Self::Version { newer: true, .. } => "Restart the server with the library of the extension's version installed. A server keeps the library that it loaded when it started.".into(),
            Self::Version { newer: false, .. } => "Run ALTER EXTENSION hilo UPDATE.".into(),
            Self::NoSuchSequence { meant, .. } => match meant {
                Meant::Similar(name) => format!("Did you mean \"{name}\"?"),
                Meant::Core(_) => "Use nextval and the other commands of Postgres for it, or take over the column that it feeds with hilo_adopt.".into(),
                Meant::New => advice::create().into(),
                Meant::Unknown => "The view hilo_sequences lists the sequences that you may see.".into(),
            },
            Self::Permission(denied) => {
                let Denied { name, user, wanted, .. } = &**denied;
                format!("The owner of the sequence grants it with: SELECT hilo_grant({}, {}, '{wanted}');", literal(name), literal(user))
            }
            Self::ResetAll => "Name a sequence that you own.".into(),
            Self::NoCreate { schema, user } => format!("The owner of the schema grants it with: GRANT CREATE ON SCHEMA {schema} TO {user};"),
            Self::GaplessHi(_) => "Draw values with hilo_nextval, hilo_nextvals or hilo_nextrange.".into(),
            Self::GaplessNodes { .. } => "Let one node serve the sequence alone: set hilo.node_count = 1.".into(),
            Self::Duplicate(_) => "Choose another name, or keep the existing sequence with if_not_exists => true in hilo_create.".into(),
            Self::Exhausted { .. } => "Use hilo_alter to give the sequence a wider data type or wider bounds, which take effect at commit, or to let it cycle.".into(),
            Self::Recovery(_) => "Only the primary serves sequences.".into(),
            Self::InParallelMode(_) => "Declare the function that calls it PARALLEL UNSAFE, which is the default.".into(),
            Self::GaplessInParallelMode(_) => "Let the query run without workers: SET LOCAL max_parallel_workers_per_gather = 0.".into(),
            Self::ParallelWorker(_) => "Declare the function that calls it PARALLEL RESTRICTED, or UNSAFE, which is the default.".into(),
            Self::NotANumber { .. } => "Specify a column of type smallint, integer, bigint, or numeric.".into(),
            Self::NoCurrval(_) => "Call hilo_nextval first.".into(),
            Self::NoLastval => "Call hilo_nextval first.".into(),
            Self::Argument(_, hint) => (*hint).into(),
            Self::InUse(_) => "See in pg_locks who uses the table, and call again when they have ended, or raise lock_timeout.".into(),
            Self::Timeout { cause: Cause::NoWorker, .. } => "Raise max_worker_processes.".into(),
            Self::Timeout { cause: Cause::Slow, .. } => "Check in pg_stat_activity what the process \"hilo worker\" is waiting for. With synchronous replication, a reservation waits for the standby.".into(),
            Self::NodeUnset(_) | Self::Fault { kind: FaultKind::NodeUnset, .. } => SET_NODE_ID.into(),
            Self::NotTheGroup { .. } | Self::Fault { kind: FaultKind::NotTheGroup, .. } => FOLLOW_CITUS.into(),
            Self::NoGroup(_) | Self::Fault { kind: FaultKind::NoGroup, .. } => JOIN_CITUS.into(),
            Self::Fault { kind: FaultKind::NotAmongNodes, .. } => format!("Set hilo.node_count higher than every hilo.node_id. {RESTART}"),
            Self::Fault { kind: FaultKind::NoPosition, .. } => NOT_ARRIVED.into(),
            Self::NoPosition(_) => NOT_ARRIVED.into(),
            Self::NotNumbered { name, .. } | Self::Fault { kind: FaultKind::NotNumbered, name, .. } => {
                format!("Run hilo_create_on_all_nodes({}): it gives this node the numbering that the others have.", literal(name))
            }
            Self::NodeHad { .. } => format!("{RESTART} On a node that lacks the sequence, first run hilo_create(name) in the same transaction."),
            Self::Unnumbered(_) => "Pass the summary of a server that serves it.".into(),
            Self::Timeout { cause: Cause::Fault { .. }, .. } | Self::Fault { .. } => "See last_error in hilo_stat_sequences, and the server log.".into(),
            Self::DirectoryFull(_) => "Raise hilo.max_sequences.".into(),
            Self::Renumbered(_) => "Commit the change first, or specify with restart_with where the values of this transaction begin.".into(),
            Self::AdvanceOf(_) => "Set where it continues with hilo_setval.".into(),
            Self::LeaseOf { .. } => "Draw values with hilo_nextval, hilo_nextvals or hilo_nextrange.".into(),
            Self::TooManyLeases { dead: 1.., .. } => "End the transactions that keep rows or tables of hilo locked.".into(),
            Self::TooManyLeases { .. } => "Commit before you take more leases, and end transactions that are idle.".into(),
            Self::PrepareLease => "Take and end leases in a transaction of their own, and commit it.".into(),
            Self::LeaseVoid(_) => "Take the lease again.".into(),
            Self::LeaseNotOpen { .. } => "hilo_leases shows the leases that are open. Take another one with hilo_lease.".into(),
            Self::LeaseDenied(_) => "Return it as the role that took it.".into(),
            Self::LeaseValue { .. } => "Pass the first value that was not used, the one behind the last if all were used, or null if none was.".into(),
            Self::Prepare => "Commit the change to the sequence before preparing a transaction.".into(),
            Self::Numbered { .. } => RESTART.into(),
            Self::SameNode(_) => "Give each server its own hilo.node_id.".into(),
            Self::NotOnAllNodes { hint: Some(hint), .. } => hint.clone(),
            Self::NotOnAllNodes { .. } => "Remove the cause and call it again: nodes that have the sequence keep it as it is.".into(),
            Self::NeedsCitus => "On each of the other servers, pass what hilo_node_summary() returns here to hilo_apply().".into(),
            Self::HasDependents { .. } => "Use cascade => true to drop these defaults too.".into(),
            Self::NoSuchColumn { .. } => "Specify one of its columns, by its name.".into(),
            Self::NoSuchRelation(_) => "Specify a table that exists, by its name.".into(),
            Self::CannotDraw(_) => "Grant the role USAGE on the sequence, or give the column another default.".into(),
            Self::NotTheTables(_) => "Give the sequence to that role with hilo_set_owner.".into(),
            Self::Distributed(_) => "Create the sequence with hilo_create_on_all_nodes and set the default with ALTER TABLE: docs/citus.md says how.".into(),
            Self::NoIdentityBelow(_) => "Use identity => NULL for a column with a default.".into(),
            Self::NotATable { .. } => "Specify an ordinary or a partitioned table.".into(),
            Self::NotStored { .. } => "Specify the table that stores the rows. For a role that is no superuser, hilo_find_gaps reads other relations, too.".into(),
            Self::RowSecurity(_) | Self::NotTableOwner(_) => "Do it as the owner of the table, or as a superuser.".into(),
            Self::NoCoreSequence { .. } => "hilo_adopt takes over serial and identity columns, and those whose default is nextval(...). For any other column, create a sequence with hilo_create and set the default to hilo_nextval.".into(),
            Self::UsesHilo { .. } => "There is nothing to take over. hilo_sync moves the sequence beyond the values of the column.".into(),
            Self::NoHiloSequence { .. } => "hilo_release takes columns whose default is hilo_nextval of a constant name.".into(),
            Self::IdentityInUse { .. } => "Drop these objects, or let them draw from elsewhere.".into(),
            Self::UsedTwice { .. } => "Give each column a sequence of its own first.".into(),
            Self::NodesShare(_) => "Let one node serve it alone: drop it on the others, and on this one set hilo.node_count = 1, SET hilo.on_every_node = on and run hilo_alter(name, restart_with => ...), with a value beyond all that any node has reserved.".into(),
            Self::Nullable(_) => "Use ALTER TABLE ... ALTER COLUMN ... SET NOT NULL first, or identity => NULL for a column with a default.".into(),
            Self::CannotOwn(_) => "Leave out owned_by.".into(),
            Self::OwnersDiffer(_) => "Give the sequence to the owner of the table with hilo_set_owner first.".into(),
            Self::LinkedToTable { .. } => "Use ALTER TABLE ... OWNER TO, or first hilo_alter(name, owned_by => 'none').".into(),
            Self::OwnedColumnHasDependents { .. } => "Use DROP ... CASCADE to drop these defaults too, or keep the sequence with hilo_alter(name, owned_by => 'none').".into(),
            Self::RoleHasDependents { .. } => "First use REASSIGN OWNED and DROP OWNED in each database.".into(),
            Self::OwnedHasDependents(_) => "Use DROP OWNED ... CASCADE to drop these defaults too.".into(),
            Self::NeedsBlockSize(_) => "Set a block_size with hilo_alter(name, block_size => ...).".into(),
            Self::RangeTooLarge { .. } => "Ask for fewer values at once.".into(),
            Self::NotAmongNodes { .. } => format!("Set hilo.node_count higher than every hilo.node_id. {RESTART}"),
            Self::BeginsAlone(_) => advice::create().into(),
            Self::MovesAlone { name, taken } => format!("To serve nothing up to there any more: {}. To restart it from there: {RESTART}", advice::pass(name, *taken)),
            Self::NodesRestart(_) => format!("Use restart_with too. {RESTART}"),
            Self::Reserved { .. } => "Choose a first value beyond that, the same on every node. To begin below it, drop the sequence on every node and create it again.".into(),
            Self::NodeId { .. } if citus::is_here() => FOLLOW_CITUS.into(),
            Self::NodeId { .. } => "Set hilo.node_id to a value from 0 to hilo.node_count - 1.".into(),
            Self::NoSuchPrivilege(_) => "Use USAGE, SELECT, UPDATE, or ALL, or a list of these with commas.".into(),
            Self::Prefix { hint, .. } => return hint.clone(),
            _ => return None,
        })
    }

    pub fn kind(&self) -> FaultKind {
        match self {
            Self::NotAmongNodes { .. } => FaultKind::NotAmongNodes,
            Self::NoPosition(_) => FaultKind::NoPosition,
            Self::NodeUnset(_) => FaultKind::NodeUnset,
            Self::NotTheGroup { .. } => FaultKind::NotTheGroup,
            Self::NoGroup(_) => FaultKind::NoGroup,
            Self::NotNumbered { .. } => FaultKind::NotNumbered,
            _ => FaultKind::Other,
        }
    }

    /// Raises it as a Postgres ERROR.
    pub fn raise(self) -> ! {
        self.report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }

    /// Tells the client and the log, as a WARNING.
    pub fn warn(self) {
        self.report(PgLogLevel::WARNING);
    }

    fn report(self, level: PgLogLevel) {
        let mut report = ErrorReport::new(self.code(), shortened(self.to_string()), "hilo");
        if let Some(detail) = self.detail() {
            report = report.set_detail(shortened(detail));
        }
        if let Some(hint) = self.hint() {
            report = report.set_hint(shortened(hint));
        }
        report.report(level);
    }
}

impl From<DocumentError> for HiloError {
    fn from(error: DocumentError) -> HiloError {
        match error.is_out_of_memory() {
            true => HiloError::OutOfMemory,
            false => HiloError::Document(error),
        }
    }
}

/// A text of a report, as long as one may be.
fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        let fits = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(fits.unwrap_or_default());
    }
    text
}

/// A DETAIL that ends with the place in a document that an error belongs to.
pub fn located(detail: Option<String>, path: &str) -> String {
    let place = match path {
        "." => "The error is at the top level of the document.".to_owned(),
        _ => format!("The error is at {path} of the document."),
    };
    detail.map_or(place.clone(), |detail| format!("{detail} {place}"))
}

fn and_others(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} others") }
}

/// A DETAIL with one line for each object, and no longer than core makes it.
fn some_of(lines: &[String]) -> String {
    const MOST: usize = 100;
    let mut size = 0;
    let fits = |line: &&String| {
        size += line.len() + 1;
        size < LONGEST - 100
    };
    let some: Vec<&str> = lines.iter().take(MOST).take_while(fits).map(String::as_str).collect();
    let mut text = some.join("\n");
    if lines.len() > some.len() {
        text += &format!("\nand {} other objects", lines.len() - some.len());
    }
    text
}

/// `?` for functions that Postgres calls.
pub trait OrRaise<T> {
    /// Returns the value, or raises its error as a Postgres ERROR.
    fn or_raise(self) -> T;
}

impl<T, E: Into<HiloError>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> T {
        self.unwrap_or_else(|error| error.into().raise())
    }
}
