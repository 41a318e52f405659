//! The numbers that a column holds: as its table stores them, or as a query finds them where only a
//! query can.
//!
//! A query may run code of the owner of the relation: the functions of a view, the expressions of
//! an index. So it is run for nobody who would lend rights to that code. Either all that is read
//! belongs to the caller and to superusers, or the caller is no superuser and has asked for what
//! SELECT shows.

use std::ffi::CStr;

use pgrx::pg_sys;

use hilo_core::direction::Direction;
use hilo_core::key_format::Frame;

use crate::catalog::columns::column_ref::ColumnRef;
use crate::catalog::rights::privileges;
use crate::catalog::rows::name::{escape_for_message, quote};
use crate::catalog::rows::relations;
use crate::citus;
use crate::errors::HiloError;
use crate::process::ffi;
use crate::sql::call::spi;
use crate::sql::column::stored::{Fraction, Numbers, Stored, base_type};

/// The way in which the numbers are read.
enum ReadBy {
    Stored(Stored),
    Queried(Query),
}

/// The numbers of a column.
pub struct Values {
    column: ColumnRef,
    /// The form of the keys, if the column holds keys instead of numbers.
    keys: Option<Frame>,
    read_by: ReadBy,
}

impl Values {
    /// All numbers, whatever row security there is; the caller may read the column. With `keys`,
    /// the numbers in keys of that form.
    ///
    /// # Errors
    /// `NotStored`, `RowSecurity`.
    pub fn all(column: ColumnRef, keys: Option<Frame>) -> Result<Values, HiloError> {
        let user = ffi::current_user();
        if !privileges::acts_as(user, relations::owner(column.relid)) && has_policies(column.relid)
        {
            return Err(HiloError::RowSecurity(column.describe()));
        }
        let read_by = match open_stored(column) {
            Err(HiloError::NotStored { .. })
                if keys.is_none()
                    && is_of_callers(column.relid)?
                    && !has_policies(column.relid) =>
            {
                ReadBy::Queried(Query::new(column))
            }
            stored => ReadBy::Stored(stored?),
        };
        Ok(Values { column, keys, read_by })
    }

    /// The numbers that SELECT shows the caller, who may read the column.
    ///
    /// # Errors
    /// `NotStored` for a superuser.
    pub fn by_select(column: ColumnRef) -> Result<Values, HiloError> {
        // SAFETY: it looks up the current user.
        let superuser = unsafe { pg_sys::superuser() };
        let read_by = match open_stored(column) {
            Ok(stored) if !has_policies(column.relid) => ReadBy::Stored(stored),
            Err(error @ HiloError::NotStored { .. })
                if superuser && !is_of_callers(column.relid)? =>
            {
                return Err(error);
            }
            Ok(_) | Err(HiloError::NotStored { .. }) => ReadBy::Queried(Query::new(column)),
            Err(error) => return Err(error),
        };
        Ok(Values { column, keys: None, read_by })
    }

    fn numbers(&self, fraction: Fraction) -> Numbers {
        Numbers::new(self.column, self.keys.as_ref(), fraction)
    }

    /// The furthest number up to `bound`.
    pub fn furthest(&self, direction: Direction, bound: i64) -> Result<Option<i64>, HiloError> {
        let numbers = self.numbers(match direction {
            Direction::Ascending => Fraction::Lower,
            Direction::Descending => Fraction::Upper,
        });
        match &self.read_by {
            ReadBy::Stored(stored) => stored.furthest(direction, bound, &numbers),
            ReadBy::Queried(query) => {
                let (low, high) = match direction {
                    Direction::Ascending => (i64::MIN, bound),
                    Direction::Descending => (bound, i64::MAX),
                };
                let sql = [query.sql(low, high, direction.reverse()), b" LIMIT 1".to_vec()];
                let read = |row: spi::Row| row.datum(1).and_then(|value| numbers.read(value));
                Ok(spi::latest(&sql.concat(), read)?.pop().flatten())
            }
        }
    }

    /// The numbers within spans, each from its lowest to its highest number; sorted. However many
    /// spans there are, stored values are read once at most.
    pub fn within(&self, spans: Vec<(i64, i64)>) -> Result<Vec<i64>, HiloError> {
        let numbers = self.numbers(Fraction::Nothing);
        let mut found = match &self.read_by {
            _ if spans.is_empty() => Vec::new(),
            ReadBy::Stored(stored) => stored.within(spans, &numbers)?,
            ReadBy::Queried(query) => {
                let mut found = Vec::new();
                for (low, high) in spans {
                    let sql = query.sql(low, high, Direction::Ascending);
                    let read = |row: spi::Row| row.datum(1).and_then(|value| numbers.read(value));
                    found.extend(spi::latest(&sql, read)?.into_iter().flatten());
                }
                found
            }
        };
        found.sort_unstable();
        Ok(found)
    }

    /// How many values are not keys of the expected form.
    pub fn other_keys(&self) -> Result<i64, HiloError> {
        let (numbers, mut others) = (self.numbers(Fraction::Nothing), 0);
        if let (Some(_), ReadBy::Stored(stored)) = (&self.keys, &self.read_by) {
            stored.each(|value| others += i64::from(numbers.read(value).is_none()))?;
        }
        Ok(others)
    }

    /// Visits the numbers from `low` to `high` in the direction of the numbers, as often as the
    /// column has them.
    pub fn in_order(
        &self,
        (low, high): (i64, i64),
        direction: Direction,
        mut visit: impl FnMut(i64),
    ) -> Result<(), HiloError> {
        let numbers = self.numbers(Fraction::Nothing);
        match &self.read_by {
            ReadBy::Stored(stored) => stored.in_order((low, high), direction, &numbers, visit),
            ReadBy::Queried(query) => spi::for_each(&query.sql(low, high, direction), |row| {
                let number = row.datum(1).and_then(|value| numbers.read(value));
                number.into_iter().for_each(&mut visit);
            }),
        }
    }
}

/// The purpose that a column is looked up for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The column gets another sequence.
    Move,
    /// The numbers or keys of the column are read.
    Read,
    /// The numbers of the column are read.
    Search,
}

/// A column of this name, of numbers or, for reading, of keys.
///
/// # Errors
/// `NoSuchRelation`, `NoSuchColumn`, `NoSelect`, `NotANumber`
pub fn find_column(relid: pg_sys::Oid, name: &CStr, purpose: Use) -> Result<ColumnRef, HiloError> {
    let missing = || HiloError::NoSuchRelation(relid.to_u32());
    let relation = escape_for_message(&relations::identifier(relid).ok_or_else(missing)?);
    let column = escape_for_message(name.to_bytes());
    let Some(found) = ColumnRef::by_name(relid, name) else {
        return Err(HiloError::NoSuchColumn { column, relation });
    };
    if purpose != Use::Move && !may_select(found)? {
        return Err(HiloError::NoSelect { column, relation });
    }
    match Numbers::are_in(found) || purpose == Use::Read && Numbers::may_be_keys_in(found) {
        true => Ok(found),
        false => Err(HiloError::NotANumber { column, relation }),
    }
}

/// Whether SELECT would show the current user a column.
pub fn may_select(column: ColumnRef) -> Result<bool, HiloError> {
    let (user, id) = (ffi::current_user().to_u32(), column.relid.to_u32());
    let sql = format!(
        "SELECT has_schema_privilege({user}::oid, relnamespace, 'USAGE')
            AND has_column_privilege({user}::oid, oid, {}::smallint, 'SELECT')
           FROM pg_class WHERE oid = {id}::oid",
        column.attnum
    );
    Ok(spi::look_up(&sql, |row| row.bool(1))?.pop().unwrap_or(false))
}

/// The column as this database stores it, with no part of it on other nodes of Citus.
pub fn open_stored(column: ColumnRef) -> Result<Stored, HiloError> {
    match is_distributed(column.relid)? {
        true => {
            let why = "Citus distributes it among its nodes.";
            Err(HiloError::NotStored { relation: column.describe(), why })
        }
        false => Stored::open(column),
    }
}

/// Whether Citus distributes a table among its nodes.
pub fn is_distributed(relid: pg_sys::Oid) -> Result<bool, HiloError> {
    let id = relid.to_u32();
    let sql = format!("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = {id}::oid::regclass");
    Ok(citus::is_here() && !spi::look_up(&sql, |_| ())?.is_empty())
}

/// Whether a relation that is no view, and all that inherits from it, belong to the caller or to
/// superusers.
pub fn is_of_callers(relid: pg_sys::Oid) -> Result<bool, HiloError> {
    // SAFETY: look-ups in system caches, inside a transaction.
    let kind = unsafe { pg_sys::get_rel_relkind(relid) } as u8;
    // SAFETY: as above.
    let superuser = |role| unsafe { pg_sys::superuser_arg(role) };
    let trusted = |owner| owner == ffi::current_user() || superuser(owner);
    Ok(kind != pg_sys::RELKIND_VIEW
        && relations::with_children(relid)?.into_iter().all(|one| trusted(relations::owner(one))))
}

/// Whether policies hide rows of the relation from the current user.
pub fn has_policies(relid: pg_sys::Oid) -> bool {
    // SAFETY: look-ups in system caches, inside a transaction; no error is asked for.
    let security = unsafe { pg_sys::check_enable_rls(relid, pg_sys::InvalidOid, true) };
    security == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
}

/// A query of the values of a column.
struct Query {
    column: Vec<u8>,
    from: Vec<u8>,
    numeric: bool,
}

impl Query {
    fn new(column: ColumnRef) -> Query {
        let [_, _, name] = column.names().unwrap_or_default();
        Query {
            column: quote(&name).into_bytes(),
            from: relations::identifier(column.relid).unwrap_or_default(),
            numeric: base_type(column) == pg_sys::NUMERICOID,
        }
    }

    /// The text of the query, valid under any search_path. The column is compared without a cast,
    /// so that an index on it can be used.
    fn sql(&self, low: i64, high: i64, direction: Direction) -> Vec<u8> {
        let kind = if self.numeric { "numeric" } else { "int8" };
        let order = match direction {
            Direction::Ascending => "",
            Direction::Descending => " DESC",
        };
        let compared = |sign: &str, value: i64| {
            let tail = format!(" OPERATOR(pg_catalog.{sign}) '{value}'::pg_catalog.{kind}");
            [b"t.", &self.column[..], tail.as_bytes()].concat()
        };
        [
            b"SELECT t.",
            &self.column[..],
            b" FROM ",
            &self.from,
            b" AS t WHERE ",
            &compared(">=", low),
            b" AND ",
            &compared("<=", high),
            b" ORDER BY t.",
            &self.column,
            order.as_bytes(),
        ]
        .concat()
    }
}
