//! A column that is to change from one kind of sequence to the other: what it is, and what feeds
//! it.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;
use pgrx::pg_sys::DependencyType;

use hilo_core::direction::Direction;
use hilo_core::options::DataType;

use crate::catalog::column_defaults;
use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::data_type_from;
use crate::catalog::name::{Name, escape_for_message, quote};
use crate::catalog::privileges;
use crate::catalog::relations;
use crate::catalog::stored::{Numbers, base_type};
use crate::errors::{HiloError, OrRaise};
use crate::process::ffi;
use crate::sql::call::spi;
use crate::sql::call::values::{self, Values};
use crate::sql::column::core_sequence::{Feed, rights};
use crate::sql::column::generated_always;

/// A column of a table that the current user owns.
pub struct FedColumn {
    pub place: ColumnRef,
    pub name: CString,
    pub table_owner: pg_sys::Oid,
    /// `None`: the column is of type numeric, or of a type that holds keys.
    pub data_type: Option<DataType>,
}

/// Whether an identity column refuses values of the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    Always,
    ByDefault,
}

/// The purpose that a column is looked up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It gets another sequence: the table must be one that the current user owns, and no
    /// partition.
    Move,
    /// Its numbers or keys are read.
    Read,
    /// Its numbers are read.
    Search,
}

/// Where the values of a column come from that is not given one.
pub enum Source {
    /// A sequence of core's, by the default or as an identity column.
    Core { sequence: pg_sys::Oid, identity: Option<Identity> },
    /// A sequence of hilo's.
    Hilo(Name),
    /// Something else: the default, or nothing.
    Other(Option<String>),
}

impl FedColumn {
    /// Looks up a column, and checks that it may be moved.
    ///
    /// # Errors
    /// `NoSuchRelation`, `NotATable`, `NotTableOwner`, `NoSuchColumn`, `NoSelect`, `NotANumber`.
    pub fn find(relid: pg_sys::Oid, column: &CStr, purpose: Use) -> Result<FedColumn, HiloError> {
        let missing = || HiloError::NoSuchRelation(relid.to_u32());
        let table_sql = relations::identifier(relid).ok_or_else(missing)?;
        let (table_owner, relation) = (relations::owner(relid), escape_for_message(&table_sql));
        if purpose == Use::Move {
            check_movable(relid, table_owner, &relation)?;
        }
        let name = || escape_for_message(column.to_bytes());
        let Some(place) = ColumnRef::by_name(relid, column) else {
            return Err(HiloError::NoSuchColumn { column: name(), relation });
        };
        let has_keys = purpose == Use::Read && Numbers::may_be_keys_in(place);
        if purpose != Use::Move && !values::may_select(place) {
            return Err(HiloError::NoSelect { column: name(), relation });
        }
        if !Numbers::are_in(place) && !has_keys {
            return Err(HiloError::NotANumber { column: name(), relation });
        }
        let data_type = data_type_from(base_type(place));
        Ok(FedColumn { place, name: column.to_owned(), table_owner, data_type })
    }

    /// `schema.table` for messages.
    pub fn table(&self) -> String {
        escape_for_message(&relations::identifier(self.place.relid).unwrap_or_default())
    }

    /// `schema.table.column` for messages.
    pub fn describe(&self) -> String {
        self.place.describe()
    }

    /// The table, and all tables that inherit from it.
    pub fn tables(&self) -> Vec<pg_sys::Oid> {
        relations::with_children(self.place.relid).or_raise()
    }

    /// The sequences of core's that feed this column of any of the tables.
    pub fn core_sequences(&self) -> Vec<pg_sys::Oid> {
        let sequences = self.tables().into_iter().filter_map(|table| match self.source(table) {
            Source::Core { sequence, .. } => Some(sequence),
            _ => None,
        });
        sequences.filter(|sequence| rights(self.table_owner, *sequence).is_some()).collect()
    }

    /// Whether the column is this one, or inherits from it.
    pub fn covers(&self, fed: &Feed) -> bool {
        self.name == fed.column && self.tables().contains(&fed.relid)
    }

    pub fn identity(&self) -> Option<Identity> {
        match self.source(self.place.relid) {
            Source::Core { identity, .. } => identity,
            _ => None,
        }
    }

    /// The source that feeds this column of a table: the column's own, or one that inherits from
    /// it.
    pub fn source(&self, table: pg_sys::Oid) -> Source {
        let (id, name) = (table.to_u32(), spi::literal(self.name.to_bytes()));
        let sql = format!(
            "SELECT a.attidentity::text, d.adbin::text, pg_get_expr(d.adbin, d.adrelid),
                    (SELECT s.objid FROM pg_depend s
                      WHERE s.classid = 'pg_class'::regclass AND s.refclassid = 'pg_class'::regclass
                        AND s.refobjid = a.attrelid AND s.refobjsubid = a.attnum AND s.deptype = 'i'
                        AND a.attidentity <> ''),
                    a.attgenerated <> ''
               FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = \
               a.attnum
              WHERE a.attrelid = {id}::oid AND a.attname = {name} AND NOT a.attisdropped"
        );
        let found = spi::look_up(&sql, |row| {
            let identity = match row.text(1).as_str() {
                "a" => Some(Identity::Always),
                "d" => Some(Identity::ByDefault),
                _ => None,
            };
            let sequence = row.oid(4);
            (identity, sequence, row.bytes(2), row.bytes(3), row.bool(5))
        });
        let Some((identity, sequence, tree, text, generated)) = found.into_iter().next() else {
            return Source::Other(None);
        };
        if sequence != pg_sys::InvalidOid {
            return Source::Core { sequence, identity };
        }
        let text = text.map(|text| escape_for_message(&text));
        let parsed = tree.filter(|_| !generated).and_then(|tree| CString::new(tree).ok());
        match parsed.map(|tree| source_of(&tree)) {
            Some(Source::Other(_)) | None => Source::Other(text),
            Some(source) => source,
        }
    }

    /// The furthest value that the tables hold up to `bound`, in the direction of the sequence: it
    /// serves nothing beyond. Every committed row counts, and no row is hidden from this.
    pub fn furthest(&self, direction: Direction, bound: i64) -> Option<i64> {
        let all = Values::all(self.place, None).or_raise();
        all.furthest(direction, bound).or_raise()
    }

    /// Executes ALTER TABLE … ALTER COLUMN … with these actions on the column, in all tables
    /// that inherit too.
    pub fn alter(&self, actions: &[Vec<u8>]) {
        let table = relations::identifier(self.place.relid).unwrap_or_default();
        let (mut sql, column) = ([b"ALTER TABLE ".as_slice(), &table].concat(), quote(&self.name));
        for (at, action) in actions.iter().enumerate() {
            sql.extend_from_slice(if at == 0 { b" ALTER COLUMN " } else { b", ALTER COLUMN " });
            sql.extend_from_slice(column.to_bytes());
            sql.push(b' ');
            sql.extend_from_slice(action);
        }
        spi::execute(&sql);
    }

    /// Columns of other tables whose defaults use the sequence of hilo's too, for messages.
    pub fn other_columns_of(&self, name: &Name) -> Vec<String> {
        let tables = self.tables();
        let own = |relid, attnum| {
            tables.contains(&relid)
                && ColumnRef::by_name(relid, &self.name).is_some_and(|c| c.attnum == attnum)
        };
        let mut found = column_defaults::using(name);
        found.retain(|default| !own(default.relid, default.attnum));
        found.iter().map(column_defaults::describe).collect()
    }

    /// Whether the column owns the sequence of core's, as that of a serial or identity column.
    pub fn owns(&self, sequence: pg_sys::Oid) -> bool {
        let (mut relid, mut attnum) = (pg_sys::InvalidOid, 0);
        let mut owned_as = |kind: DependencyType::Type| {
            // SAFETY: reads core's record of dependencies into two variables.
            let owned =
                unsafe { pg_sys::sequenceIsOwned(sequence, kind as _, &mut relid, &mut attnum) };
            owned && (relid, attnum) == (self.place.relid, i32::from(self.place.attnum))
        };
        owned_as(DependencyType::DEPENDENCY_AUTO) || owned_as(DependencyType::DEPENDENCY_INTERNAL)
    }
}

/// Checks that the columns of a relation may get another sequence.
fn check_movable(relid: pg_sys::Oid, owner: pg_sys::Oid, relation: &str) -> Result<(), HiloError> {
    // SAFETY: look-ups in system caches, inside a transaction.
    let (kind, persistence, is_partition) = unsafe {
        (
            pg_sys::get_rel_relkind(relid) as u8,
            pg_sys::get_rel_persistence(relid) as u8,
            pg_sys::get_rel_relispartition(relid),
        )
    };
    let unfit = |why| Err(HiloError::NotATable { relation: relation.into(), why });
    if ![pg_sys::RELKIND_RELATION, pg_sys::RELKIND_PARTITIONED_TABLE].contains(&kind) {
        return unfit("It is not a table.");
    }
    if persistence == pg_sys::RELPERSISTENCE_TEMP {
        return unfit("It is a temporary table.");
    }
    if is_partition {
        return unfit("It is a partition, and has the defaults of its partitioned table.");
    }
    if !privileges::acts_as(ffi::current_user(), owner) {
        return Err(HiloError::NotTableOwner(relation.into()));
    }
    if values::is_distributed(relid) {
        return Err(HiloError::Distributed(relation.into()));
    }
    Ok(())
}

/// The functions of the extension that draw a value for a column.
const DRAWING: [&CStr; 2] = [c"hilo_nextval", generated_always::FUNCTION];

/// The source that a stored default expression draws from: `nextval` of a known sequence, or
/// `hilo_nextval` of a constant, perhaps in a cast.
fn source_of(tree: &CStr) -> Source {
    const NEXTVAL: u32 = 1574;
    // SAFETY: what Postgres has stored is a valid tree. The tag of a node tells its type, and the
    // arguments of a function are nodes. It is parsed into the current memory context.
    unsafe {
        let mut node: *mut pg_sys::Node = pg_sys::stringToNode(tree.as_ptr()).cast();
        loop {
            node = match (*node).type_ {
                pg_sys::NodeTag::T_RelabelType => (*node.cast::<pg_sys::RelabelType>()).arg.cast(),
                pg_sys::NodeTag::T_CoerceToDomain => {
                    (*node.cast::<pg_sys::CoerceToDomain>()).arg.cast()
                }
                pg_sys::NodeTag::T_FuncExpr => {
                    let call = &*node.cast::<pg_sys::FuncExpr>();
                    if call.funcid.to_u32() == NEXTVAL || pg_sys::list_length(call.args) == 0 {
                        break;
                    }
                    if call.funcformat == pg_sys::CoercionForm::COERCE_EXPLICIT_CALL {
                        break;
                    }
                    pg_sys::list_nth(call.args, 0).cast()
                }
                _ => return Source::Other(None),
            };
        }
        let call = &*node.cast::<pg_sys::FuncExpr>();
        if pg_sys::list_length(call.args) != 1 {
            return Source::Other(None);
        }
        let argument = constant(pg_sys::list_nth(call.args, 0).cast());
        if argument.is_null() || (*argument).constisnull {
            return Source::Other(None);
        }
        let constant = &*argument;
        if call.funcid.to_u32() == NEXTVAL {
            let sequence = pg_sys::Oid::from_u32(constant.constvalue.value() as u32);
            return Source::Core { sequence, identity: None };
        }
        if column_defaults::name_type().ok() == Some(constant.consttype)
            && generated_always::is_of_extension(call.funcid, &DRAWING)
        {
            let name = pgrx::varlena::varlena_to_byte_slice(constant.constvalue.cast_mut_ptr());
            return Source::Hilo(name.into());
        }
        Source::Other(None)
    }
}

/// A constant, or a constant text that is cast to regclass at each call, as it is now; null for
/// anything else. No function of a user's is run.
unsafe fn constant(node: *mut pg_sys::Node) -> *mut pg_sys::Const {
    const TEXT_TO_REGCLASS: u32 = 1079;
    let is_const = |node: *mut pg_sys::Node| {
        // SAFETY: the callers pass nodes, each of which has its tag.
        unsafe { (*node).type_ == pg_sys::NodeTag::T_Const }
    };
    // SAFETY: the tag of a node tells its type. Evaluating the cast looks up a name; one that does
    // not exist is core's error, as in an INSERT.
    unsafe {
        if is_const(node) {
            return node.cast();
        }
        if (*node).type_ == pg_sys::NodeTag::T_FuncExpr {
            let cast = &*node.cast::<pg_sys::FuncExpr>();
            if cast.funcid.to_u32() == TEXT_TO_REGCLASS
                && is_const(pg_sys::list_nth(cast.args, 0).cast())
            {
                let (regclass, none) = (pg_sys::REGCLASSOID, pg_sys::InvalidOid);
                return pg_sys::evaluate_expr(node.cast(), regclass, -1, none).cast();
            }
        }
        std::ptr::null_mut()
    }
}
