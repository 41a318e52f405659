//! Text keys: a value set into the sequence's key format.

use std::cell::RefCell;

use pgrx::pg_sys;

use hilo_core::key_format::KeyFormat;
use hilo_core::options::{Definition, OptionError};

use super::args::{Args, sql_functions};
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::privileges::Privileges;
use crate::catalog::table::text_datum;
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::session::{draw, memo};

sql_functions!(hilo_nextkey, hilo_key, hilo_key_value);

/// The key format of a definition; a stored one has been checked.
pub fn format_of(definition: &Definition) -> KeyFormat {
    definition
        .key_format
        .as_deref()
        .and_then(|text| KeyFormat::parse(text).ok())
        .unwrap_or_default()
}

/// Whether a definition's key format makes different keys of different values, with the prefix of now.
pub fn check(definition: &Definition, name: &str) -> Result<(), HiloError> {
    let format = match &definition.key_format {
        Some(text) => KeyFormat::parse(text).map_err(OptionError::from)?,
        None => KeyFormat::default(),
    };
    let prefix = gucs::server_prefix_bytes();
    check_prefix(&format, name.as_bytes(), prefix, definition.min_value < 0)
}

fn check_prefix(
    format: &KeyFormat,
    name: &[u8],
    prefix: &[u8],
    negative: bool,
) -> Result<(), HiloError> {
    if prefix.is_empty() || !format.has_server() {
        return Ok(());
    }
    format.check_prefix(name, prefix, negative).map_err(|error| HiloError::Prefix {
        prefix: String::from_utf8_lossy(prefix).into_owned(),
        message: error.to_string(),
        detail: error.detail(),
        hint: error.hint(),
    })
}

fn key(
    format: &KeyFormat,
    name: &[u8],
    value: i64,
    negative: bool,
) -> Result<pg_sys::Datum, HiloError> {
    thread_local! {
        // Kept, so that a key allocates nothing but its datum.
        static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let prefix = gucs::server_prefix_bytes();
    check_prefix(format, name, prefix, negative)?;
    KEY.with_borrow_mut(|key| {
        key.clear();
        format.format_into(name, prefix, value, key);
        Ok(text_datum(key))
    })
}

/// `hilo_nextkey(name)`: the next value as a key.
fn hilo_nextkey(args: Args) -> pg_sys::Datum {
    let name = args.name(0);
    let known = memo::find(name).and_then(|memo| Some((memo, draw::hit(memo)?)));
    let (memo, value) = match known {
        Some(found) => found,
        None => draw::next(name).or_raise(),
    };
    let negative = memo.entry().is_some_and(|entry| entry.mapping().min_value < 0);
    key(&memo.key_format(), name, value, negative).or_raise()
}

fn readable(name: &[u8]) -> Result<Sequence, HiloError> {
    let sequence = definitions::existing(name)?;
    super::serve::allow(&sequence, Privileges::USAGE.or(Privileges::SELECT))?;
    Ok(sequence)
}

/// `hilo_key(name, value)`: a value as a key, as this server would make it.
fn hilo_key(args: Args) -> pg_sys::Datum {
    let sequence = readable(args.name(0)).or_raise();
    let negative = sequence.definition.min_value < 0;
    key(&format_of(&sequence.definition), args.name(0), args.int8(1).unwrap_or(0), negative)
        .or_raise()
}

/// `hilo_key_value(name, key)`: the value in a key that this server has made.
fn hilo_key_value(args: Args) -> i64 {
    let name = args.name(0);
    let sequence = readable(name).or_raise();
    let key = args.text(1).unwrap_or_default();
    let prefix = gucs::server_prefix();
    format_of(&sequence.definition)
        .read(name, prefix.as_bytes(), key.as_bytes())
        .map_err(|error| HiloError::Key { key, name: sequence.name, reason: error.to_string() })
        .or_raise()
}
