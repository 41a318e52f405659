//! Every error that hilo raises: its SQLSTATE, its message, its detail and its hint.
//!
//! Messages are lower case without a full stop; details and hints are sentences. A text takes the
//! error's fields, by their names.

use hilo_core::name::NameError;
use hilo_core::options::OptionError;
use hilo_core::source::AnswerError;
use pgrx::PgSqlErrorCode::*;

use crate::advice::{self, RESTART};
use crate::errors::text::*;
use crate::errors::{Cause, Closed, Code, FaultKind, Meant, Unleasable};

const OURS: &str = env!("CARGO_PKG_VERSION");

errors! {
    OutOfMemory = ERRCODE_OUT_OF_MEMORY, "out of memory"
        => detail "The operating system does not give this process more memory.";
    NotPreloaded
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "hilo must be loaded when the server starts"
        => detail "The shared memory of hilo can be set up only at server start."
        => hint "Set shared_preload_libraries = 'hilo' in postgresql.conf (append it after a \
                 comma if other libraries are listed) and restart the server.";
    #[cfg_attr(any(feature = "pg15", feature = "pg16"), expect(dead_code))]
    OtherMemory { maker: String } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "the shared memory of hilo was made by version {maker} of the library, but this session \
         has loaded version {OURS}"
        => detail "Nothing is served unless both have the same version."
        => hint "Restart the server: the shared memory lasts as long as it runs.";
    NotInAllSessions { except: Option<String> } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo must be loaded in all sessions before a column can depend on it"
        => detail { without_hilo(except.as_deref()) }
        => hint { load_in_all_sessions(except.as_deref()) };
    NotInstalled = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "extension \"hilo\" is not installed in this database"
        => hint "Run CREATE EXTENSION hilo.";
    Replaced = ERRCODE_T_R_SERIALIZATION_FAILURE,
        "extension \"hilo\" was dropped and created at the same time"
        => hint "Repeat the transaction.";
    CatalogMismatch(what: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "the catalog of extension \"hilo\" lacks {what}"
        => detail "The objects in schema _hilo are not as this version of the extension created \
                   them."
        => hint "Undo the change that was made to them. Only hilo's library writes to its tables.";
    Version { installed: String, newer: bool } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "extension \"hilo\" is version {installed} in this database, but the library that the \
         server has loaded is version {OURS}"
        => detail "Nothing is served unless both have the same version."
        => hint { if *newer { RESTART_WITH_IT } else { "Run ALTER EXTENSION hilo UPDATE." } };
    NoSuchSequence { name: String, meant: Meant } = ERRCODE_UNDEFINED_OBJECT,
        "hilo sequence \"{name}\" does not exist"
        => detail { meant.detail(name) }
        => hint { meant.hint() };
    RestoreInUse(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" is in use and cannot be restored"
        => detail "A range that was free when the dump was made may have been served since."
        => hint "Restore the data of schema _hilo into a database where these sequences do not \
                 exist, or exclude that data from the restore.";
    Duplicate(name: String) = ERRCODE_DUPLICATE_OBJECT, "hilo sequence \"{name}\" already exists"
        => hint "Choose another name, or keep the existing sequence with if_not_exists => true in \
                 hilo_create.";
    Permission { name: String, user: String, held: String, required: &'static str, grant: String }
        = ERRCODE_INSUFFICIENT_PRIVILEGE, "permission denied for hilo sequence \"{name}\""
        => detail "The operation requires {required}. Role \"{user}\" has {held} on the sequence."
        => hint "The owner of the sequence grants it with: {grant}";
    NoKeys { column: String, others: i64, name: String } = ERRCODE_WARNING,
        "column {column} holds {others} values that are no keys of hilo sequence \"{name}\""
        => hint "If the sequence made them, give it their key_format with hilo_alter, and call \
                 hilo_sync.";
    GeneratedAlways { column: String, message: String } = ERRCODE_GENERATED_ALWAYS, { message }
        => detail "Column \"{column}\" takes its values from a hilo sequence only, by \
                   hilo_nextval_always."
        => hint "Use OVERRIDING SYSTEM VALUE to insert a value of your own.";
    NotMember(role: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied to change the privileges on hilo sequences of role \"{role}\""
        => detail "Only role \"{role}\" and the roles that have its privileges may do so.";
    ResetAll = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied to reset the counters of all hilo sequences"
        => detail "Without a name, hilo_stat_reset requires superuser rights."
        => hint "Name a sequence that you own.";
    NotOwner(name: String)
        = ERRCODE_INSUFFICIENT_PRIVILEGE, "must be owner of hilo sequence \"{name}\"";
    NoCreate { schema: String, user: String } = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied to create hilo sequences"
        => detail "To create or own hilo sequences, role {user} needs INSERT on the view \
                   {schema}.hilo_sequences."
        => hint "The owner of the database grants it with: GRANT INSERT ON \
                 {schema}.hilo_sequences TO {user};";
    Exhausted { name: String, bound: i64, falling: bool }
        = ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED, {
            let end = if *falling { "minimum" } else { "maximum" };
            format!("reached {end} value of hilo sequence \"{name}\" ({bound})")
        }
        => hint "Use hilo_alter to give the sequence a wider data type or wider bounds, which \
                 take effect at commit, or to let it cycle.";
    NearEnd { name: String, level: u8, bound: i64 } = ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        "hilo sequence \"{name}\" has used {level} % of its values, which end at {bound}"
        => hint "Use hilo_alter to give the sequence a wider data type or wider bounds, and give \
                 the columns that it fills a wider type.";
    Skipping { name: String, node: i32, skipped: i64, from: &'static str } = ERRCODE_WARNING,
        "skipping the next {skipped} values of hilo sequence \"{name}\", which {from}"
        => detail "Values may have been served whose reservation has not arrived here. The same \
                   applies to all sequences of node {node} that this server has not used since."
        => hint "If the other server is still running, stop it, or give this server its own \
                 hilo.node_id.";
    SingleUser = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot serve hilo sequences in single-user mode"
        => detail "A background worker reserves the numbers, and this mode has none."
        => hint "Start the server as usual.";
    Recovery(function: &'static str) = ERRCODE_READ_ONLY_SQL_TRANSACTION,
        "cannot execute {function}() during recovery"
        => hint "Only the primary serves sequences.";
    InParallelMode(what: &'static str) = ERRCODE_INVALID_TRANSACTION_STATE,
        "cannot execute {what} during a parallel operation"
        => detail "A transaction cannot write while a parallel query runs."
        => hint "Declare the function that calls it PARALLEL UNSAFE, which is the default.";
    GaplessInParallelMode(name: String) = ERRCODE_INVALID_TRANSACTION_STATE,
        "cannot draw from gapless hilo sequence \"{name}\" during a parallel operation"
        => detail "The first draw of a transaction locks the sequence, and a transaction cannot \
                   lock a row while a parallel query runs."
        => hint "Run the query without workers: SET LOCAL max_parallel_workers_per_gather = 0.";
    ParallelWorker(function: &'static str) = ERRCODE_INVALID_TRANSACTION_STATE,
        "cannot execute {function}() in a parallel worker"
        => detail "The values of a session rise, and currval and lastval know them, because only \
                   the session's own process draws."
        => hint "Declare the function that calls it PARALLEL RESTRICTED, or UNSAFE, which is the \
                 default.";
    NoCurrval(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "currval of hilo sequence \"{name}\" is not yet defined in this session"
        => hint "Call hilo_nextval first.";
    NoLastval
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "lastval is not yet defined in this session"
        => hint "Call hilo_nextval first.";
    SetvalBounds { name: String, value: i64, min: i64, max: i64 }
        = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
        "setval: value {value} is out of bounds for hilo sequence \"{name}\" ({min}..{max})"
        => hint "Specify a value within the bounds, or widen them with hilo_alter.";
    Option(error: OptionError)
        = {
            match error.is_unsupported() {
                true => ERRCODE_FEATURE_NOT_SUPPORTED,
                false => ERRCODE_INVALID_PARAMETER_VALUE,
            }
        },
        { error }
        => detail { error.detail() }
        => hint { error.hint() };
    Answer(error: AnswerError) = ERRCODE_INVALID_PARAMETER_VALUE, { error }
        => detail { error.detail() }
        => hint { error.hint() };
    AnswerType = ERRCODE_DATATYPE_MISMATCH,
        "the source must return two columns of type bigint, which are not null"
        => hint "Return the first and the last of each range: SELECT first::bigint, last::bigint.";
    HasSource(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" has a source, which says which values come"
        => detail "Others use the values between those that it has brought."
        => hint { move_at_source() };
    SourceNodes { name: String, nodes: i32 } = ERRCODE_FEATURE_NOT_SUPPORTED,
        "hilo sequence \"{name}\" cannot have a source while several nodes share it"
        => detail "hilo.node_count is {nodes}, or was when the sequence was numbered."
        => hint "Let each server have the sequence for itself: set hilo.node_count = 1.";
    SourceUsed(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" has received values from its source"
        => hint "Say where its own numbers begin: hilo_detach(name, start).";
    DetachedBefore { name: String, start: i64, last: i64 }
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot detach hilo sequence \"{name}\" with {start}: it may have served up to {last}"
        => hint "Specify a start beyond that, and beyond all values of the source's other users.";
    Barred { name: String, next: i64, last: i64 } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot attach hilo sequence \"{name}\" where its source continues with {next}: it may \
         have served up to {last}"
        => hint "Let the source continue beyond that first: with hilo_advance if it is a sequence \
                 of hilo, with setval if it is one of Postgres.";
    SourceGiven(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" has a source, which would run with the rights of its new owner"
        => hint "Give it numbers of its own first, with hilo_detach(name, start). Then the new \
                 owner can attach it again.";
    SourceUncommitted(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot draw from hilo sequence \"{name}\" in the transaction that has given it a source"
        => hint "Commit first: another process asks the source.";
    NoSource(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" has no source";
    SourceLate(limit: i64) = ERRCODE_LOCK_NOT_AVAILABLE,
        "the source has not answered within {limit} ms"
        => hint "hilo.source_timeout says how long it may take.";
    SourceCut(took: i64) = ERRCODE_LOCK_NOT_AVAILABLE,
        "the source had not answered within {took} ms, and others waited to be asked"
        => hint "hilo asks it again. Let it answer faster, or raise max_worker_processes.";
    AskerEnded = ERRCODE_LOCK_NOT_AVAILABLE,
        "the process that asked the source has ended before it answered"
        => detail "The query has ended it, or did not end when it was to, or somebody has \
                   terminated it.";
    Copied(name: String) = ERRCODE_WARNING,
        "a copy of this server asks for values of hilo sequence \"{name}\" by its name"
        => detail "The copy runs beside it, or this server was set back to an earlier state. What \
                   it held is a gap, as the copy may have served it, and it asks by a new name \
                   from now on."
        => hint "Stop the copy, or attach the sequence again there. What both had when the copy \
                 was made may have been served twice.";
    SourceChanged = ERRCODE_T_R_SERIALIZATION_FAILURE,
        "the sequence was altered while its source was asked";
    Name(error: NameError) = ERRCODE_INVALID_PARAMETER_VALUE, { error }
        => detail { error.detail() }
        => hint { error.hint() };
    Argument(message: String, advice: &'static str) = ERRCODE_INVALID_PARAMETER_VALUE, { message }
        => hint { *advice };
    InUse(table: String)
        = ERRCODE_LOCK_NOT_AVAILABLE, "could not lock table {table} within lock_timeout"
        => hint "See in pg_locks who uses the table, and call again when they have ended, or \
                 raise lock_timeout.";
    Timeout { name: String, cause: Cause } = { cause.code() },
        "timed out waiting for a block of hilo sequence \"{name}\""
        => detail { cause.to_string() }
        => hint { cause.hint() };
    Fault { name: String, sqlstate: i32, kind: FaultKind, message: String }
        = { Code::from(*sqlstate) },
        "could not reserve a block of hilo sequence \"{name}\": {message}"
        => hint { kind.hint() };
    OwnersFault { name: String, sqlstate: i32, owner: String } = { Code::from(*sqlstate) },
        "could not reserve a block of hilo sequence \"{name}\": its source failed"
        => hint { ask_owner(owner) };
    SourceFailed { name: String, message: String, advice: [Option<String>; 2] }
        = ERRCODE_SUCCESSFUL_COMPLETION,
        "hilo sequence \"{name}\" got no values from its source: {message}"
        => detail { advice[0].clone() }
        => hint { advice[1].clone() };
    DirectoryFull(slots: usize) = ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "all {slots} slots for active hilo sequences are taken"
        => detail "Each slot is in use or waits to be flushed to the catalog."
        => hint "Raise hilo.max_sequences.";
    Prepare = ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot prepare a transaction that has created, altered, or set a hilo sequence"
        => detail "This session's memory keeps the values that the transaction has reserved for \
                   itself, until it commits."
        => hint "Commit the change to the sequence before preparing a transaction.";
    NumberingDiffers { name: String, here: String, there: String }
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" is numbered differently on this node"
        => detail "Here it is numbered {here}, there {there}."
        => hint { RESTART };
    HasDependents { name: String, dependents: Vec<String> } = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot drop hilo sequence \"{name}\" because other objects depend on it"
        => detail { depend_on(name, dependents) }
        => hint "Use cascade => true to drop these defaults too.";
    RoleHasDependents { role: String, dependents: Vec<String> }
        = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "role \"{role}\" cannot be dropped because some objects depend on it"
        => detail { first_lines(dependents) }
        => hint "First use REASSIGN OWNED and DROP OWNED in each database.";
    OwnedHasDependents(dependents: Vec<String>) = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot drop desired object(s) because other objects depend on them"
        => detail { first_lines(dependents) }
        => hint "Use DROP OWNED ... CASCADE to drop these defaults too.";
    RangeTooLarge { name: String, count: i64 } = ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        "no contiguous range of {count} values is left in hilo sequence \"{name}\""
        => detail "A range cannot cross the bounds of the sequence or run from one stripe into \
                   another."
        => hint "Ask for fewer values at once.";
    NeedsBlockSize(name: String) = ERRCODE_INVALID_PARAMETER_VALUE,
        "hilo sequence \"{name}\" has no fixed block_size"
        => hint "Set a block_size with hilo_alter(name, block_size => ...).";
    NodeId { id: i32, count: i32 } = ERRCODE_CONFIG_FILE_ERROR,
        "hilo.node_id = {id} must be less than hilo.node_count = {count}"
        => hint "Set hilo.node_id to a value from 0 to hilo.node_count - 1.";
    NodeUnset(nodes: i32) = ERRCODE_CONFIG_FILE_ERROR, "hilo.node_id is not set"
        => detail "Each of the {nodes} nodes that share a sequence needs an id of its own."
        => hint { set_node_id() };
    HasClone = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "this server may be a clone of the coordinator of Citus, which still runs"
        => detail "Both would serve the same values."
        => hint "On a clone, wait until Citus has promoted it. On a standby that replaces the \
                 coordinator, first remove the clone with citus_remove_clone_node.";
    OnWorker(group: i32) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "a worker of Citus cannot number a hilo sequence by itself"
        => detail "This server is node {group}, and the other nodes would serve the same values."
        => hint { ON_COORDINATOR };
    NotAmongNodes { name: String, id: i32, count: i32 } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" is numbered for hilo.node_count = {count}, which does not \
         include hilo.node_id = {id}"
        => hint { raise_node_count() };
    NoPosition(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "no position of hilo sequence \"{name}\" has arrived from the server that created it"
        => detail "It is not known which values that server has served."
        => hint { NOT_ARRIVED };
    BeginsAlone(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot begin hilo sequence \"{name}\" on one node of several: hilo.on_every_node is off"
        => detail "If another node has it already, both could serve the same values."
        => hint { advice::create() };
    MovesAlone { name: String, taken: Option<i64> } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot move hilo sequence \"{name}\" on one node of several: hilo.on_every_node is off"
        => detail "The other nodes would stay where they are, and serve the values that this one \
                   has been moved past or to."
        => hint { move_all(name, *taken) };
    NodesRestart(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "restart_with is required because hilo sequence \"{name}\" is shared by several nodes"
        => detail "Each node is at a different place in the sequence; all of them must renumber \
                   it from the same value."
        => hint "Use restart_with too. {RESTART}";
    Reserved { name: String, node: i32, base: i64, value: i64 }
        = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot number hilo sequence \"{name}\" starting at {base}: node {node} has reserved up \
         to {value}"
        => detail "With this numbering, another node could serve values that have already been \
                   served."
        => hint "Choose a first value beyond that, the same on every node. To begin below it, \
                 drop the sequence on every node and create it again.";
    Renumbered(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "cannot draw from hilo sequence \"{name}\" in the transaction that has advanced it, \
         changed its increment, cycle, or gapless, or numbered it for this node"
        => detail "The sequence continues the values of all sessions, and values drawn now would \
                   be served again after a rollback."
        => hint "Commit the change first, or specify with restart_with where the values of this \
                 transaction begin.";
    GaplessHi(name: String) = ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot reserve a block number of gapless hilo sequence \"{name}\""
        => detail "Which of a block's values are used is up to the caller, so the others would be \
                   missing."
        => hint "Draw values with hilo_nextval, hilo_nextvals or hilo_nextrange.";
    GaplessNodes { name: String, nodes: i32 } = ERRCODE_FEATURE_NOT_SUPPORTED,
        "hilo sequence \"{name}\" cannot be gapless while hilo.node_count = {nodes}"
        => detail "Each node would serve values of its own, and no node knows which of them are \
                   committed on the others."
        => hint "Let one node serve the sequence alone: set hilo.node_count = 1.";
    Cycles(name: String) = ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot find the gaps of hilo sequence \"{name}\" because it cycles"
        => detail "Every value is served again in a later cycle, so none is missing permanently.";
    NoSuchRelation(oid: u32) = ERRCODE_UNDEFINED_TABLE, "relation with OID {oid} does not exist"
        => hint "Specify a table that exists, by its name.";
    NoSuchColumn { column: String, relation: String } = ERRCODE_UNDEFINED_COLUMN,
        "column \"{column}\" of relation {relation} does not exist"
        => hint "Specify one of its columns, by its name.";
    NoSelect { column: String, relation: String } = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for column \"{column}\" of relation {relation}"
        => detail "The operation requires SELECT.";
    NotANumber { column: String, relation: String } = ERRCODE_DATATYPE_MISMATCH,
        "column \"{column}\" of relation {relation} cannot hold values of a sequence"
        => hint "Specify a column of type smallint, integer, bigint, or numeric.";
    NotStored { relation: String, why: &'static str } = ERRCODE_WRONG_OBJECT_TYPE,
        "rows of \"{relation}\" cannot be read where they are stored"
        => detail { *why }
        => hint "Specify the table that stores the rows. For a role that is no superuser, \
                 hilo_find_gaps reads other relations, too.";
    RowSecurity(column: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "row security hides rows of column {column} from the current role"
        => detail "A value that the role cannot see could be served again."
        => hint "Do it as the owner of the table, or as a superuser.";
    NotTableOwner(table: String) = ERRCODE_INSUFFICIENT_PRIVILEGE, "must be owner of table {table}"
        => detail "The operation changes a default of the table."
        => hint "Do it as the owner of the table, or as a superuser.";
    NotTheTables(name: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "hilo sequence \"{name}\" does not belong to the owner of the table"
        => detail "Its numbers may be in use elsewhere."
        => hint "Give the sequence to that role with hilo_set_owner.";
    Distributed(table: String)
        = ERRCODE_FEATURE_NOT_SUPPORTED, "table {table} is distributed by Citus"
        => detail "The other nodes would keep the old default."
        => hint "Use hilo_adopt_on_all_nodes for a serial column: docs/citus.md says more.";
    UsedTwice { name: String, others: Vec<String> } = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence \"{name}\" is used by another column too"
        => detail { first_lines(others) }
        => hint "Give each column a sequence of its own first.";
    FeedsNothing(sequence: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "sequence {sequence} feeds no column"
        => detail "No column default calls nextval for it, and no identity column has it."
        => hint "Use hilo_create for a sequence that programs draw from.";
    NodesShare(name: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence \"{name}\" is shared by several nodes"
        => detail "A sequence of Postgres knows nothing of the values that other nodes serve."
        => hint "Let one node serve it alone: drop it on the others, and set hilo.node_count = 1 \
                 on this one. Then SET hilo.on_every_node = on and run hilo_alter(name, \
                 restart_with => ...), with a value beyond all that any node has reserved.";
    CannotOwn(column: String)
        = ERRCODE_WRONG_OBJECT_TYPE, "column {column} cannot own a hilo sequence"
        => detail "Only a permanent, unlogged, partitioned or foreign table can own a hilo \
                   sequence."
        => hint "Leave out owned_by.";
    OwnersDiffer(column: String) = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        "hilo sequence must have same owner as the table of column {column}"
        => hint "Give the sequence to the owner of the table with hilo_set_owner first.";
    LinkedToTable { name: String, column: String } = ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot change owner of hilo sequence \"{name}\""
        => detail "The sequence is owned by column {column}, and has the owner of its table."
        => hint "Use ALTER TABLE ... OWNER TO, or first hilo_alter(name, owned_by => 'none').";
    OwnedColumnHasDependents { name: String, dependents: Vec<String> }
        = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot drop the column that owns hilo sequence \"{name}\" because other objects depend \
         on the sequence"
        => detail { depend_on(name, dependents) }
        => hint "Use DROP ... CASCADE to drop these defaults too, or keep the sequence with \
                 hilo_alter(name, owned_by => 'none').";
    RoleName(text: String) = ERRCODE_INVALID_NAME, "invalid role name: \"{text}\""
        => detail "The value must be a role name written as an SQL identifier, \"public\", or \
                   \"-\" for no role.";
    /// A warning: the text of a row names what is not there.
    ReadAsNone { state: &'static str, what: String, kind: &'static str } = { code_of(state) },
        "{what} does not exist"
        => detail "The {kind} is read as \"-\", which stands for no {kind}.";
    /// The same as an error.
    NotReadAsNone { state: &'static str, what: String, kind: &'static str } = { code_of(state) },
        "{what} does not exist"
        => detail "The name of a {kind} that does not exist is read only while a dump is restored."
        => hint "Write the name of a {kind} that exists, or \"-\" for none.";
    NoSuchRole(role: String) = ERRCODE_UNDEFINED_OBJECT, "role \"{role}\" does not exist";
    ClosedTable { table: String, statement: &'static str } = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied: \"{table}\" is a table of the extension hilo"
        => detail "Its rows say which numbers have been served. Without them, or after a change \
                   by SQL, numbers would be served again."
        => hint "Use hilo_create, hilo_alter, hilo_drop and the other functions, and leave tables \
                 of schema _hilo out of {statement}. A restore by INSERT sets \
                 check_function_bodies = off, as pg_dump does.";
    InternalsRenamed = ERRCODE_FEATURE_NOT_SUPPORTED, "cannot rename schema \"_hilo\""
        => detail "The extension hilo finds its tables by the name of this schema."
        => hint "The schema of its functions and views can be renamed.";
    OfExtension { name: String, extension: String } = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot drop hilo sequence \"{name}\" because extension {extension} requires it"
        => detail "The script of the extension created the sequence."
        => hint "You can drop extension {extension} instead.";
    ExtensionHasDependents { name: String, extension: String, dependents: Vec<String> }
        = ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
        "cannot drop extension {extension} because other objects depend on its hilo sequence \
         \"{name}\""
        => detail { depend_on(name, dependents) }
        => hint "Use DROP EXTENSION ... CASCADE to drop these defaults too.";
    NoSuchPrivilege(privilege: String) = ERRCODE_INVALID_PARAMETER_VALUE,
        "unrecognized privilege type for a hilo sequence: \"{privilege}\""
        => hint "Use USAGE, SELECT, UPDATE, LEASE, or ALL, or a list of these with commas.";
    Key { key: String, name: String, reason: String } = ERRCODE_INVALID_PARAMETER_VALUE,
        "\"{key}\" is not a key of hilo sequence \"{name}\""
        => detail "The {reason}.";
    /// A report that a query has written.
    Told { state: String, message: String, detail: Option<String>, hint: Option<String> }
        = { code_of(state) }, "{message}"
        => detail { detail.as_deref().map(some_lines) }
        => hint { hint.clone() };
    /// An error that belongs to one place of a document.
    InDocument { path: String, error: Box<HiloError> } = { error.code() }, { error }
        => detail { with_path(error.detail(), path) }
        => hint { error.hint() };
    AdvanceCycling(name: String) = ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot advance hilo sequence \"{name}\" because it cycles"
        => detail "A sequence that cycles serves every value again."
        => hint "Set where it continues with hilo_setval.";
    LeaseUnsupported { name: String, why: Unleasable } = ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot lease values of hilo sequence \"{name}\" because {why}"
        => detail "Leased values are served outside of the server, in no order with others, and \
                   their rest is served later or is lost."
        => hint { instead_of_leases(name, *why) };
    TooManyLeases { most: usize, dead: usize } = ERRCODE_PROGRAM_LIMIT_EXCEEDED,
        "too many leases in open transactions"
        => detail { lease_counts(*most, *dead) }
        => hint {
            match dead {
                0 => "Commit before you take more leases, and end transactions that are idle.",
                _ => "End the transactions that keep rows or tables of hilo locked.",
            }
        };
    PrepareLease = ERRCODE_FEATURE_NOT_SUPPORTED,
        "cannot prepare a transaction that has taken, returned, renewed or revoked a lease of a \
         hilo sequence"
        => detail "This session's memory keeps the leases that the transaction has taken or ended, \
                   until it ends."
        => hint "Take and end leases in a transaction of their own, and commit it.";
    LeaseVoid(name: String) = ERRCODE_T_R_SERIALIZATION_FAILURE,
        "could not lease values of hilo sequence \"{name}\" because it was renumbered or dropped \
         at the same time"
        => detail "The sequence no longer has the values that were leased."
        => hint "Take the lease again.";
    LeaseNotOpen { lease: String, since: Closed } = ERRCODE_UNDEFINED_OBJECT,
        "lease \"{lease}\" is not open"
        => detail { since.to_string() }
        => hint "hilo_leases shows the leases that are open. Take another one with hilo_lease.";
    LeaseTaken { lease: String, why: String } = ERRCODE_DUPLICATE_OBJECT,
        "lease \"{lease}\" was taken before"
        => detail { why.clone() }
        => hint "Name each lease by a random uuid of its own, and repeat a call only as it was.";
    LeaseDenied(lease: String) = ERRCODE_INSUFFICIENT_PRIVILEGE,
        "permission denied for lease \"{lease}\""
        => detail "Only the role that took a lease, the owner of its sequence, and superusers may \
                   return, renew or revoke it."
        => hint "Return it as the role that took it.";
    LeaseValue { lease: String, next: i64, first: i64, last: i64, increment: i64 }
        = ERRCODE_INVALID_PARAMETER_VALUE,
        "value {next} cannot follow the used values of lease \"{lease}\""
        => detail "The lease has the values {first} to {last} in steps of {increment}."
        => hint "Pass the first value that was not used, the one behind the last if all were \
                 used, or null if none was.";
}
