//! The functions with an argument for each option: `hilo_create` and `hilo_alter`.

use pgrx::pg_sys;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::options::{DataType, Definition, Options};

use crate::catalog::rows::name::{self, Name};
use crate::catalog::sequence::definitions;
use crate::errors::HiloError;
use crate::sql::call::border::Call;
use crate::sql::call::text::Text;
use crate::sql::define::ddl::{self, Duplicate};
use crate::sql::define::ddl_checks::{begin_with_name, lock_owned};
use crate::sql::define::owned_by::{self, Purpose};
use crate::sql::define::redefine::Alteration;
use crate::sql::define::renumber;
use crate::sql::types::sequence_type::SequenceName;

/// An argument that specifies an option.
trait Argument<T> {
    /// Returns the value for the option of this name.
    fn says(self, option: &str) -> Result<T, HiloError>;
}

impl<T> Argument<T> for T {
    fn says(self, _: &str) -> Result<T, HiloError> {
        Ok(self)
    }
}

impl Argument<DataType> for pg_sys::Oid {
    fn says(self, _: &str) -> Result<DataType, HiloError> {
        definitions::data_type_from(self).ok_or_else(|| {
            HiloError::Argument(
                "data type of a hilo sequence must be smallint, integer, or bigint".into(),
                "Use one of these three types.",
            )
        })
    }
}

impl Argument<String> for Text<'_> {
    fn says(self, option: &str) -> Result<String, HiloError> {
        Ok(stored(option, &self)?.to_owned())
    }
}

/// Whole seconds, at least 1 unless it is 0.
impl Argument<i64> for Interval {
    fn says(self, _: &str) -> Result<i64, HiloError> {
        let days = i64::from(self.months()) * 30 + i64::from(self.days());
        Ok(days
            .saturating_mul(86_400)
            .saturating_add(self.micros().div_euclid(1_000_000))
            .saturating_add(i64::from(self.micros().rem_euclid(1_000_000) > 0)))
    }
}

/// Text of the database as an option. Names and prefixes are joined with it byte by byte, so it
/// must be in their encoding.
pub fn stored<'a>(option: &str, text: &'a [u8]) -> Result<&'a str, HiloError> {
    name::utf8(text).ok_or_else(|| {
        HiloError::Argument(
            format!("{option} contains non-ASCII characters"),
            "Use ASCII only, or a database whose encoding is UTF8.",
        )
    })
}

/// The options in arguments of the same names; there is an argument for each.
macro_rules! options {
    ($($option:ident),+ $(,)?) => {
        Options {$(
            $option: $option
                .map(|argument| Argument::says(argument, stringify!($option)))
                .transpose()?,
        )+}
    };
}

/// `hilo_create(name, …)`: a new sequence, owned by the current user. Returns its name.
#[pg_extern(sql = false)]
#[expect(clippy::too_many_arguments, reason = "SQL has an argument for each option")]
fn hilo_create(
    _call: Call,
    name: Option<SequenceName>,
    start_value: Option<i64>,
    increment: Option<i64>,
    min_value: Option<i64>,
    max_value: Option<i64>,
    data_type: Option<pg_sys::Oid>,
    cycle: Option<bool>,
    ordered: Option<bool>,
    block_size: Option<i64>,
    slice_size: Option<i64>,
    key_format: Option<Text>,
    if_not_exists: Option<bool>,
    gapless: Option<bool>,
    owned_by: Option<Text>,
    source: Option<Text>,
    reserve_ahead: Option<Interval>,
    description: Option<Text>,
) -> Result<Name, ErrorReport> {
    let name = begin_with_name(name, c"hilo_create()")?.new_name()?;
    let options = options! {
        data_type, start_value, increment, min_value, max_value, cycle, ordered, block_size,
        slice_size, key_format, gapless, source, reserve_ahead, description,
    };
    let definition = Definition::create(&options).map_err(HiloError::from)?;
    let duplicate = match if_not_exists {
        Some(true) => Duplicate::Skip,
        _ => Duplicate::Refuse,
    };
    let owned_by = match owned_by {
        Some(column) => owned_by::parse(&column, Purpose::Own)?,
        None => None,
    };
    if ddl::create(name.clone(), definition, owned_by, None, duplicate)?.is_none() {
        ereport!(
            PgLogLevel::NOTICE,
            PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
            format!("hilo sequence \"{name}\" already exists, skipping")
        );
    }
    Ok(name)
}

/// `hilo_alter(name, …)`: changes the options that are not null. Only the owner may do so.
#[pg_extern(sql = false)]
#[expect(clippy::too_many_arguments, reason = "SQL has an argument for each option")]
fn hilo_alter(
    _call: Call,
    name: Option<SequenceName>,
    start_value: Option<i64>,
    increment: Option<i64>,
    min_value: Option<i64>,
    max_value: Option<i64>,
    data_type: Option<pg_sys::Oid>,
    cycle: Option<bool>,
    ordered: Option<bool>,
    block_size: Option<i64>,
    slice_size: Option<i64>,
    key_format: Option<Text>,
    restart_with: Option<i64>,
    gapless: Option<bool>,
    owned_by: Option<Text>,
    source: Option<Text>,
    reserve_ahead: Option<Interval>,
    description: Option<Text>,
) -> Result<(), ErrorReport> {
    let name = begin_with_name(name, c"hilo_alter()")?;
    let options = options! {
        data_type, start_value, increment, min_value, max_value, cycle, ordered, block_size,
        slice_size, key_format, gapless, source, reserve_ahead, description,
    };
    let owned_by = owned_by.map(|column| owned_by::parse(&column, Purpose::Own)).transpose()?;
    let locked = &lock_owned(&name)?;
    let owned_by = owned_by.unwrap_or(locked.sequence.owned_by);
    let alteration = Alteration { locked, options: &options, owned_by, restart: restart_with };
    Ok(renumber::alter(&alteration, false)?)
}
