//! Every error that hilo raises: its message, DETAIL, HINT and SQLSTATE.
//!
//! Messages are lower case without a full stop; details and hints are sentences.

use hilo_core::document::Numbering;
use hilo_core::error_table;
use hilo_core::name::NameError;
use hilo_core::options::OptionError;
use hilo_core::source::AnswerError;
use pgrx::PgSqlErrorCode::*;

use crate::advice::{self, RESTART};
use crate::errors::text::*;
use crate::errors::{Cause, Closed, Code, DocumentError, FaultKind, NameGuess, Unleasable};

const OURS: &str = env!("CARGO_PKG_VERSION");

error_table! {
/// An error that hilo raises.
#[derive(Debug, thiserror::Error)]
pub enum HiloError: Code {
    #[error("out of memory")]
    #[detail("The operating system does not give this process more memory.")]
    OutOfMemory = ERRCODE_OUT_OF_MEMORY,
    #[error("hilo must be loaded when the server starts")]
    #[detail("The shared memory of hilo can be set up only at server start.")]
    #[hint("Set shared_preload_libraries = 'hilo' in postgresql.conf (append it after a comma if \
            other libraries are listed) and restart the server.")]
    NotPreloaded = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("the shared memory of hilo was made by version {maker} of the library, but this \
             session has loaded version {OURS}")]
    #[detail("Nothing is served unless both have the same version.")]
    #[hint("Restart the server: the shared memory lasts as long as it runs.")]
    OtherMemory { maker: String } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo must be loaded in all sessions before a column can depend on it")]
    #[detail("{}", without_hilo(except.as_deref()))]
    #[hint("{}", load_in_all_sessions(except.as_deref()))]
    NotInAllSessions { except: Option<String> } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("extension \"hilo\" is not installed in this database")]
    #[hint("Run CREATE EXTENSION hilo.")]
    NotInstalled = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("extension \"hilo\" was dropped and created at the same time")]
    #[hint("Repeat the transaction.")]
    Replaced = ERRCODE_T_R_SERIALIZATION_FAILURE,
    #[error("the catalog of extension \"hilo\" lacks {0}")]
    #[detail("The objects in schema _hilo are not as this version of the extension created them.")]
    #[hint("Undo the change that was made to them. Only hilo's library writes to its tables.")]
    CatalogMismatch(what: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("extension \"hilo\" is version {installed} in this database, but the library that the \
             server has loaded is version {OURS}")]
    #[detail("Nothing is served unless both have the same version.")]
    #[hint("{}", if *newer { RESTART_WITH_IT } else { "Run ALTER EXTENSION hilo UPDATE." })]
    Version { installed: String, newer: bool } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo sequence \"{name}\" does not exist")]
    #[detail("{}", meant.detail(name)?)]
    #[hint("{}", meant.hint())]
    NoSuchSequence { name: String, meant: NameGuess } = ERRCODE_UNDEFINED_OBJECT,
    #[error("hilo sequence \"{0}\" is in use and cannot be restored")]
    #[detail("A range that was free when the dump was made may have been served since.")]
    #[hint("Restore the data of schema _hilo into a database where these sequences do not exist, \
            or exclude that data from the restore.")]
    RestoreInUse(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo sequence \"{0}\" already exists")]
    #[hint("Choose another name, or keep the existing sequence with if_not_exists => true in \
            hilo_create.")]
    Duplicate(name: String) = ERRCODE_DUPLICATE_OBJECT,
    #[error("permission denied for hilo sequence \"{name}\"")]
    #[detail("The operation requires {required}. Role \"{user}\" has {held} on the sequence.")]
    #[hint("The owner of the sequence grants it with: {grant}")]
    Permission { name: String, user: String, held: String, required: &'static str, grant: String }
        = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("column {column} holds {others} values that are no keys of hilo sequence \"{name}\"")]
    #[hint("If the sequence made them, give it their key_format with hilo_alter, and call \
            hilo_sync.")]
    NoKeys { column: String, others: i64, name: String } = ERRCODE_WARNING,
    #[error("{message}")]
    #[detail("Column \"{column}\" takes its values from a hilo sequence only, by \
              hilo_nextval_always.")]
    #[hint("Use OVERRIDING SYSTEM VALUE to insert a value of your own.")]
    GeneratedAlways { column: String, message: String } = ERRCODE_GENERATED_ALWAYS,
    #[error("permission denied to change the privileges on hilo sequences of role \"{0}\"")]
    #[detail("Only role \"{role}\" and the roles that have its privileges may do so.")]
    NotMember(role: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("permission denied to reset the counters of all hilo sequences")]
    #[detail("Without a name, hilo_stat_reset requires superuser rights.")]
    #[hint("Name a sequence that you own.")]
    ResetAll = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("must be owner of hilo sequence \"{0}\"")]
    NotOwner(name: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("permission denied to create hilo sequences")]
    #[detail("To create or own hilo sequences, role {user} needs INSERT on the view \
              {schema}.hilo_sequences.")]
    #[hint("The owner of the database grants it with: GRANT INSERT ON {schema}.hilo_sequences TO \
            {user};")]
    NoCreate { schema: String, user: String } = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("reached {end} value of hilo sequence \"{name}\" ({bound})")]
    #[hint("Use hilo_alter to give the sequence a wider data type or wider bounds, which take \
            effect at commit, or to let it cycle.")]
    Exhausted { name: String, bound: i64, end: &'static str }
        = ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
    #[error("hilo sequence \"{name}\" has used {level} % of its values, which end at {bound}")]
    #[hint("Use hilo_alter to give the sequence a wider data type or wider bounds, and give the \
            columns that it fills a wider type.")]
    NearEnd { name: String, level: u8, bound: i64 } = ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
    #[error("skipping the next {skipped} values of hilo sequence \"{name}\", which {from}")]
    #[detail("Values may have been served whose reservation has not arrived here. The same applies \
              to all sequences of node {node} that this server has not used since.")]
    #[hint("If the other server is still running, stop it, or give this server its own \
            hilo.node_id.")]
    Skipping { name: String, node: i32, skipped: i64, from: &'static str } = ERRCODE_WARNING,
    #[error("cannot serve hilo sequences in single-user mode")]
    #[detail("A background worker reserves the numbers, and this mode has none.")]
    #[hint("Start the server as usual.")]
    SingleUser = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot execute {0}() during recovery")]
    #[hint("Only the primary serves sequences.")]
    Recovery(function: &'static str) = ERRCODE_READ_ONLY_SQL_TRANSACTION,
    #[error("cannot execute {0} during a parallel operation")]
    #[detail("A transaction cannot write while a parallel query runs.")]
    #[hint("Declare the function that calls it PARALLEL UNSAFE, which is the default.")]
    InParallelMode(what: &'static str) = ERRCODE_INVALID_TRANSACTION_STATE,
    #[error("cannot draw from gapless hilo sequence \"{0}\" during a parallel operation")]
    #[detail("The first draw of a transaction locks the sequence, and a transaction cannot lock a \
              row while a parallel query runs.")]
    #[hint("Run the query without workers: SET LOCAL max_parallel_workers_per_gather = 0.")]
    GaplessInParallelMode(name: String) = ERRCODE_INVALID_TRANSACTION_STATE,
    #[error("cannot execute {0}() in a parallel worker")]
    #[detail("The values of a session rise, and currval and lastval know them, because only the \
              session's own process draws.")]
    #[hint("Declare the function that calls it PARALLEL RESTRICTED, or UNSAFE, which is the \
            default.")]
    ParallelWorker(function: &'static str) = ERRCODE_INVALID_TRANSACTION_STATE,
    #[error("currval of hilo sequence \"{0}\" is not yet defined in this session")]
    #[hint("Call hilo_nextval first.")]
    NoCurrval(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("lastval is not yet defined in this session")]
    #[hint("Call hilo_nextval first.")]
    NoLastval = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("setval: value {value} is out of bounds for hilo sequence \"{name}\" ({min}..{max})")]
    #[hint("Specify a value within the bounds, or widen them with hilo_alter.")]
    SetvalBounds { name: String, value: i64, min: i64, max: i64 }
        = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
    #[error(transparent)]
    #[detail("{}", error.detail()?)]
    #[hint("{}", error.hint()?)]
    Option(#[from] error: OptionError) = code_of(error.code()),
    #[error(transparent)]
    #[detail("{}", error.detail()?)]
    #[hint("{}", error.hint()?)]
    Answer(#[from] error: AnswerError) = ERRCODE_INVALID_PARAMETER_VALUE,
    #[error("the source must return two columns of type bigint, which are not null")]
    #[hint("Return the first and the last of each range: SELECT first::bigint, last::bigint.")]
    AnswerType = ERRCODE_DATATYPE_MISMATCH,
    #[error("hilo sequence \"{0}\" has a source, which says which values come")]
    #[detail("Others use the values between those that it has brought.")]
    #[hint("{}", move_at_source())]
    HasSource(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo sequence \"{name}\" cannot have a source while several nodes share it")]
    #[detail("hilo.node_count is {nodes}, or was when the sequence was numbered.")]
    #[hint("Let each server have the sequence for itself: set hilo.node_count = 1.")]
    SourceNodes { name: String, nodes: i32 } = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("hilo sequence \"{0}\" has received values from its source")]
    #[hint("Say where its own numbers begin: hilo_detach(name, start).")]
    SourceUsed(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot detach hilo sequence \"{name}\" with {start}: it may have served up to {last}")]
    #[hint("Specify a start beyond that, and beyond all values of the source's other users.")]
    DetachedBefore { name: String, start: i64, last: i64 }
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot attach hilo sequence \"{name}\" where its source continues with {next}: it may \
             have served up to {last}")]
    #[hint("Let the source continue beyond that first: with hilo_advance if it is a sequence of \
            hilo, with setval if it is one of Postgres.")]
    Barred { name: String, next: i64, last: i64 } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo sequence \"{0}\" has a source, which would run with the rights of its new owner")]
    #[hint("Give it numbers of its own first, with hilo_detach(name, start). Then the new owner \
            can attach it again.")]
    SourceGiven(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot draw from hilo sequence \"{0}\" in the transaction that has given it a source")]
    #[hint("Commit first: another process asks the source.")]
    SourceUncommitted(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo sequence \"{0}\" has no source")]
    NoSource(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("the source has not answered within {0} ms")]
    #[hint("hilo.source_timeout says how long it may take.")]
    SourceLate(limit: i64) = ERRCODE_LOCK_NOT_AVAILABLE,
    #[error("the source had not answered within {0} ms, and others waited to be asked")]
    #[hint("hilo asks it again. Let it answer faster, or raise max_worker_processes.")]
    SourceCut(took: i64) = ERRCODE_LOCK_NOT_AVAILABLE,
    #[error("the process that asked the source has ended before it answered")]
    #[detail("The query has ended it, or did not end when it was to, or somebody has terminated \
              it.")]
    AskerEnded = ERRCODE_LOCK_NOT_AVAILABLE,
    #[error("a copy of this server asks for values of hilo sequence \"{0}\" by its name")]
    #[detail("The copy runs beside it, or this server was set back to an earlier state. What it \
              held is a gap, as the copy may have served it, and it asks by a new name from now \
              on.")]
    #[hint("Stop the copy, or attach the sequence again there. What both had when the copy was \
            made may have been served twice.")]
    Copied(name: String) = ERRCODE_WARNING,
    #[error("the sequence was altered while its source was asked")]
    SourceChanged = ERRCODE_T_R_SERIALIZATION_FAILURE,
    #[error(transparent)]
    #[detail("{}", error.detail()?)]
    #[hint("{}", error.hint()?)]
    Name(#[from] error: NameError) = ERRCODE_INVALID_PARAMETER_VALUE,
    #[error("{0}")]
    #[hint("{advice}")]
    Argument(message: String, advice: &'static str) = ERRCODE_INVALID_PARAMETER_VALUE,
    #[error("could not lock table {0} within lock_timeout")]
    #[hint("See in pg_locks who uses the table, and call again when they have ended, or raise \
            lock_timeout.")]
    InUse(table: String) = ERRCODE_LOCK_NOT_AVAILABLE,
    #[error("timed out waiting for a block of hilo sequence \"{name}\"")]
    #[detail("{cause}")]
    #[hint("{}", cause.hint()?)]
    Timeout { name: String, cause: Cause } = cause.code(),
    #[error("could not reserve a block of hilo sequence \"{name}\": {message}")]
    #[hint("{}", kind.hint())]
    Fault { name: String, sqlstate: i32, kind: FaultKind, message: String } = Code::from(*sqlstate),
    #[error("could not reserve a block of hilo sequence \"{name}\": its source failed")]
    #[hint("{}", ask_owner(owner))]
    OwnersFault { name: String, sqlstate: i32, owner: String } = Code::from(*sqlstate),
    #[error("hilo sequence \"{name}\" got no values from its source: {message}")]
    #[detail("{}", advice[0].as_ref()?)]
    #[hint("{}", advice[1].as_ref()?)]
    SourceFailed { name: String, message: String, advice: [Option<String>; 2] }
        = ERRCODE_SUCCESSFUL_COMPLETION,
    #[error("all {0} slots for active hilo sequences are taken")]
    #[detail("Each slot is in use or waits to be flushed to the catalog.")]
    #[hint("Raise hilo.max_sequences.")]
    DirectoryFull(slots: usize) = ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
    #[error("cannot prepare a transaction that has created, altered, or set a hilo sequence")]
    #[detail("This session's memory keeps the values that the transaction has reserved for itself, \
              until it commits.")]
    #[hint("Commit the change to the sequence before preparing a transaction.")]
    Prepare = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("hilo sequence \"{name}\" is numbered differently on this node")]
    #[detail("Here it is numbered {here}, there {there}.")]
    #[hint("{RESTART}")]
    NumberingDiffers { name: String, here: Numbering, there: Numbering }
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot drop hilo sequence \"{name}\" because other objects depend on it")]
    #[detail("{}", depend_on(name, dependents))]
    #[hint("Change the defaults, or drop them too with hilo_drop(name, cascade => true).")]
    HasDependents { name: String, dependents: Vec<String> } = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
    #[error("role \"{role}\" cannot be dropped because some objects depend on it")]
    #[detail("{}", first_lines(dependents))]
    #[hint("First use REASSIGN OWNED and DROP OWNED in each database.")]
    RoleHasDependents { role: String, dependents: Vec<String> }
        = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
    #[error("cannot drop desired object(s) because other objects depend on them")]
    #[detail("{}", first_lines(dependents))]
    #[hint("Give the sequences to another role first, with hilo_set_owner. With CASCADE, these \
            columns would lose their defaults.")]
    OwnedHasDependents(dependents: Vec<String>) = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
    #[error("no contiguous range of {count} values is left in hilo sequence \"{name}\"")]
    #[detail("A range cannot cross the bounds of the sequence or run from one stripe into \
              another.")]
    #[hint("Ask for fewer values at once.")]
    RangeTooLarge { name: String, count: i64 } = ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
    #[error("hilo sequence \"{0}\" has no fixed block_size")]
    #[hint("Set a block_size with hilo_alter(name, block_size => ...).")]
    NeedsBlockSize(name: String) = ERRCODE_INVALID_PARAMETER_VALUE,
    #[error("hilo.node_id = {id} must be less than hilo.node_count = {count}")]
    #[hint("Set hilo.node_id to a value from 0 to hilo.node_count - 1.")]
    NodeId { id: i32, count: i32 } = ERRCODE_CONFIG_FILE_ERROR,
    #[error("hilo.node_id is not set")]
    #[detail("Each of the {nodes} nodes that share a sequence needs an id of its own.")]
    #[hint("{}", set_node_id())]
    NodeUnset(nodes: i32) = ERRCODE_CONFIG_FILE_ERROR,
    #[error("this server may be a clone of the coordinator of Citus, which still runs")]
    #[detail("Both would serve the same values.")]
    #[hint("On a clone, wait until Citus has promoted it. On a standby that replaces the \
            coordinator, first remove the clone with citus_remove_clone_node.")]
    HasClone = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("a worker of Citus cannot number a hilo sequence by itself")]
    #[detail("This server is node {group}, and the other nodes would serve the same values.")]
    #[hint("{ON_COORDINATOR}")]
    OnWorker(group: i32) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo sequence \"{name}\" is numbered for hilo.node_count = {count}, which does not \
             include hilo.node_id = {id}")]
    #[hint("{}", raise_node_count())]
    NotAmongNodes { name: String, id: i32, count: i32 } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("no position of hilo sequence \"{0}\" has arrived from the server that created it")]
    #[detail("It is not known which values that server has served.")]
    #[hint("{NOT_ARRIVED}")]
    NoPosition(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot begin hilo sequence \"{0}\" on one node of several: hilo.on_every_node is off")]
    #[detail("If another node has it already, both could serve the same values.")]
    #[hint("{}", advice::create())]
    BeginsAlone(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot move hilo sequence \"{name}\" on one node of several: hilo.on_every_node is \
             off")]
    #[detail("The other nodes would stay where they are, and serve the values that this one has \
              been moved past or to.")]
    #[hint("{}", move_all(name, *taken))]
    MovesAlone { name: String, taken: Option<i64> } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("restart_with is required because hilo sequence \"{0}\" is shared by several nodes")]
    #[detail("Each node is at a different place in the sequence; all of them must renumber it from \
              the same value.")]
    #[hint("Use restart_with too. {RESTART}")]
    NodesRestart(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot number hilo sequence \"{name}\" starting at {base}: node {node} has reserved \
             up to {value}")]
    #[detail("With this numbering, another node could serve values that have already been served.")]
    #[hint("Choose a first value beyond that, the same on every node. To begin below it, drop the \
            sequence on every node and create it again.")]
    Reserved { name: String, node: i32, base: i64, value: i64 }
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot draw from hilo sequence \"{0}\" in the transaction that has advanced it, \
             changed its increment, cycle, or gapless, or numbered it for this node")]
    #[detail("The sequence continues the values of all sessions, and values drawn now would be \
              served again after a rollback.")]
    #[hint("Commit the change first, or specify with restart_with where the values of this \
            transaction begin.")]
    Renumbered(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot reserve a block number of gapless hilo sequence \"{0}\"")]
    #[detail("Which of a block's values are used is up to the caller, so the others would be \
              missing.")]
    #[hint("Draw values with hilo_nextval, hilo_nextvals or hilo_nextrange.")]
    GaplessHi(name: String) = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("hilo sequence \"{name}\" cannot be gapless while hilo.node_count = {nodes}")]
    #[detail("Each node would serve values of its own, and no node knows which of them are \
              committed on the others.")]
    #[hint("Let one node serve the sequence alone: set hilo.node_count = 1.")]
    GaplessNodes { name: String, nodes: i32 } = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("cannot find the gaps of hilo sequence \"{0}\" because it cycles")]
    #[detail("Every value is served again in a later cycle, so none is missing permanently.")]
    Cycles(name: String) = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("relation with OID {0} does not exist")]
    #[hint("Specify a table that exists, by its name.")]
    NoSuchRelation(oid: u32) = ERRCODE_UNDEFINED_TABLE,
    #[error("column \"{column}\" of relation {relation} does not exist")]
    #[hint("Specify one of its columns, by its name.")]
    NoSuchColumn { column: String, relation: String } = ERRCODE_UNDEFINED_COLUMN,
    #[error("permission denied for column \"{column}\" of relation {relation}")]
    #[detail("The operation requires SELECT.")]
    NoSelect { column: String, relation: String } = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("column \"{column}\" of relation {relation} cannot hold values of a sequence")]
    #[hint("Specify a column of type smallint, integer, bigint, or numeric.")]
    NotANumber { column: String, relation: String } = ERRCODE_DATATYPE_MISMATCH,
    #[error("rows of \"{relation}\" cannot be read where they are stored")]
    #[detail("{why}")]
    #[hint("Specify the table that stores the rows. For a role that is no superuser, \
            hilo_find_gaps reads other relations, too.")]
    NotStored { relation: String, why: &'static str } = ERRCODE_WRONG_OBJECT_TYPE,
    #[error("row security hides rows of column {0} from the current role")]
    #[detail("A value that the role cannot see could be served again.")]
    #[hint("Do it as the owner of the table, or as a superuser.")]
    RowSecurity(column: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("must be owner of table {0}")]
    #[detail("The operation changes a default of the table.")]
    #[hint("Do it as the owner of the table, or as a superuser.")]
    NotTableOwner(table: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("hilo sequence \"{0}\" does not belong to the owner of the table")]
    #[detail("Its numbers may be in use elsewhere.")]
    #[hint("Give the sequence to that role with hilo_set_owner.")]
    NotTheTables(name: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("table {0} is distributed by Citus")]
    #[detail("The other nodes would keep the old default.")]
    #[hint("Use hilo_adopt_on_all_nodes for a serial column: docs/multi-node.md says more.")]
    Distributed(table: String) = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("sequence \"{name}\" is used by another column too")]
    #[detail("{}", first_lines(others))]
    #[hint("Give each column a sequence of its own first.")]
    UsedTwice { name: String, others: Vec<String> } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("sequence {0} feeds no column")]
    #[detail("No column default calls nextval for it, and no identity column has it.")]
    #[hint("For a sequence that programs draw from, use hilo_create, with its next value as \
            start_value, and ordered => true unless its CACHE is larger than 1.")]
    FeedsNothing(sequence: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("hilo sequence \"{0}\" is shared by several nodes")]
    #[detail("A sequence of Postgres knows nothing of the values that other nodes serve.")]
    #[hint("Let one node serve it alone: drop it on the others, and set hilo.node_count = 1 on \
            this one. Then SET hilo.on_every_node = on and run hilo_alter(name, restart_with => \
            ...), with a value beyond all that any node has reserved.")]
    NodesShare(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("column {0} cannot own a hilo sequence")]
    #[detail("Only a permanent, unlogged, partitioned or foreign table can own a hilo sequence.")]
    #[hint("Leave out owned_by.")]
    CannotOwn(column: String) = ERRCODE_WRONG_OBJECT_TYPE,
    #[error("hilo sequence must have same owner as the table of column {0}")]
    #[hint("Give the sequence to the owner of the table with hilo_set_owner first.")]
    OwnersDiffer(column: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    #[error("cannot change owner of hilo sequence \"{name}\"")]
    #[detail("The sequence is owned by column {column}, and has the owner of its table.")]
    #[hint("Use ALTER TABLE ... OWNER TO, or first hilo_alter(name, owned_by => 'none').")]
    LinkedToTable { name: String, column: String } = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("cannot drop the column that owns hilo sequence \"{name}\" because other objects \
             depend on the sequence")]
    #[detail("{}", depend_on(name, dependents))]
    #[hint("{}", keep_for(name, successor.as_deref()))]
    OwnedColumnHasDependents { name: String, dependents: Vec<String>, successor: Option<String> }
        = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
    #[error("invalid role name: \"{0}\"")]
    #[detail("The value must be a role name written as an SQL identifier, \"public\", or \"-\" for \
              no role.")]
    RoleName(text: String) = ERRCODE_INVALID_NAME,
    /// A warning: the text of a row names what is not there.
    #[error("{what} does not exist")]
    #[detail("The {kind} is read as \"-\", which stands for no {kind}.")]
    ReadAsNone { state: &'static str, what: String, kind: &'static str } = code_of(state),
    /// The same as an error.
    #[error("{what} does not exist")]
    #[detail("The name of a {kind} that does not exist is read only while a dump is restored.")]
    #[hint("Write the name of a {kind} that exists, or \"-\" for none.")]
    NotReadAsNone { state: &'static str, what: String, kind: &'static str } = code_of(state),
    #[error("role \"{0}\" does not exist")]
    NoSuchRole(role: String) = ERRCODE_UNDEFINED_OBJECT,
    #[error("permission denied: \"{table}\" is a table of the extension hilo")]
    #[detail("Its rows say which numbers have been served. Without them, or after a change by SQL, \
              numbers would be served again.")]
    #[hint("Use hilo_create, hilo_alter, hilo_drop and the other functions, and leave tables of \
            schema _hilo out of {statement}. A restore by INSERT sets check_function_bodies = off, \
            as pg_dump does.")]
    ClosedTable { table: String, statement: &'static str } = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("cannot rename schema \"_hilo\"")]
    #[detail("The extension hilo finds its tables by the name of this schema.")]
    #[hint("The schema of its functions and views can be renamed.")]
    InternalsRenamed = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("cannot drop hilo sequence \"{name}\" because extension {extension} requires it")]
    #[detail("The script of the extension created the sequence.")]
    #[hint("You can drop extension {extension} instead.")]
    OfExtension { name: String, extension: String } = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
    #[error("cannot drop extension {extension} because other objects depend on its hilo sequence \
             \"{name}\"")]
    #[detail("{}", depend_on(name, dependents))]
    #[hint("Give these columns other defaults first. With CASCADE, they would lose theirs.")]
    ExtensionHasDependents { name: String, extension: String, dependents: Vec<String> }
        = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
    #[error("unrecognized privilege type for a hilo sequence: \"{0}\"")]
    #[hint("Use USAGE, SELECT, UPDATE, LEASE, or ALL, or a list of these with commas.")]
    NoSuchPrivilege(privilege: String) = ERRCODE_INVALID_PARAMETER_VALUE,
    #[error("\"{key}\" is not a key of hilo sequence \"{name}\"")]
    #[detail("The {reason}.")]
    Key { key: String, name: String, reason: String } = ERRCODE_INVALID_PARAMETER_VALUE,
    /// A report that a query has written.
    #[error("{message}")]
    #[detail("{}", detail.as_deref().map(some_lines)?)]
    #[hint("{}", hint.as_ref()?)]
    Told { state: String, message: String, detail: Option<String>, hint: Option<String> }
        = code_of(state),
    #[error(transparent)]
    #[detail("{}", error.detail()?)]
    #[hint("{}", error.hint()?)]
    Document(#[from] error: DocumentError) = error.code(),
    #[error("cannot advance hilo sequence \"{0}\" because it cycles")]
    #[detail("A sequence that cycles serves every value again.")]
    #[hint("Set where it continues with hilo_setval.")]
    AdvanceCycling(name: String) = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("cannot lease values of hilo sequence \"{name}\" because {why}")]
    #[detail("Leased values are served outside of the server, in no order with others, and their \
              rest is served later or is lost.")]
    #[hint("{}", instead_of_leases(name, *why))]
    LeaseUnsupported { name: String, why: Unleasable } = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("too many leases in open transactions")]
    #[detail("{}", lease_counts(*most, *dead))]
    #[hint("{}", match dead {
        0 => "Commit before you take more leases, and end transactions that are idle.",
        _ => "End the transactions that keep rows or tables of hilo locked.",
    })]
    TooManyLeases { most: usize, dead: usize } = ERRCODE_PROGRAM_LIMIT_EXCEEDED,
    #[error("cannot prepare a transaction that has taken, returned, renewed or revoked a lease of \
             a hilo sequence")]
    #[detail("This session's memory keeps the leases that the transaction has taken or ended, \
              until it ends.")]
    #[hint("Take and end leases in a transaction of their own, and commit it.")]
    PrepareLease = ERRCODE_FEATURE_NOT_SUPPORTED,
    #[error("could not lease values of hilo sequence \"{0}\" because it was renumbered or dropped \
             at the same time")]
    #[detail("The sequence no longer has the values that were leased.")]
    #[hint("Take the lease again.")]
    LeaseVoid(name: String) = ERRCODE_T_R_SERIALIZATION_FAILURE,
    #[error("lease \"{lease}\" is not open")]
    #[detail("{since}")]
    #[hint("hilo_leases shows the leases that are open. Take another one with hilo_lease.")]
    LeaseNotOpen { lease: String, since: Closed } = ERRCODE_UNDEFINED_OBJECT,
    #[error("lease \"{lease}\" was taken before")]
    #[detail("{why}")]
    #[hint("Name each lease by a random uuid of its own, and repeat a call only as it was.")]
    LeaseTaken { lease: String, why: String } = ERRCODE_DUPLICATE_OBJECT,
    #[error("permission denied for lease \"{0}\"")]
    #[detail("Only the role that took a lease, the owner of its sequence, and superusers may \
              return, renew or revoke it.")]
    #[hint("Return it as the role that took it.")]
    LeaseDenied(lease: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
    #[error("value {next} cannot follow the used values of lease \"{lease}\"")]
    #[detail("The lease has the values {first} to {last} in steps of {increment}.")]
    #[hint("Pass the first value that was not used, the one behind the last if all were used, or \
            null if none was.")]
    LeaseValue { lease: String, next: i64, first: i64, last: i64, increment: i64 }
        = ERRCODE_INVALID_PARAMETER_VALUE,
}
}
