//! A sequence that must exist, and the error for a name that no sequence has, with what its caller
//! may have meant. The error names only sequences that the views show to the current user.

use pgrx::pg_sys;

use crate::catalog::columns::{column_defaults, core_sequences};
use crate::catalog::rights::privileges::{self, Privileges};
use crate::catalog::rows::catalog_tables::{self, CatalogTable};
use crate::catalog::rows::columns::sequence as column;
use crate::catalog::rows::name::{Name, escape_for_message};
use crate::catalog::rows::table::Row;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::errors::{HiloError, NameGuess};
use crate::process::ffi;

/// The most insertions, deletions and replacements of characters that count as a slip, as in core's
/// hints.
const FURTHEST: i32 = 3;

/// The most names, and column defaults, that are compared: an error must not take long where there
/// are a million sequences.
const MAX_COMPARED: usize = 10_000;

/// The sequence that has this name now.
///
/// # Errors
/// `NoSuchSequence`.
pub fn require(name: &[u8]) -> Result<Sequence, HiloError> {
    definitions::by_name(name)?.ok_or_else(|| to_use(name))
}

/// The sequence of this name, if the current user has one of `needs` on it.
pub fn require_allowed(name: &[u8], needs: Privileges) -> Result<Sequence, HiloError> {
    let sequence = require(name)?;
    privileges::allow(&sequence, needs)?;
    Ok(sequence)
}

/// The error for a call that needs an existing sequence.
pub fn to_use(name: &[u8]) -> HiloError {
    error(name, NameGuess::Unknown)
}

/// The error for a call before which the caller may have forgotten to create the sequence.
pub fn to_create(name: &[u8]) -> HiloError {
    error(name, NameGuess::New)
}

fn error(name: &[u8], otherwise: NameGuess) -> HiloError {
    match meaning(name) {
        Ok(found) => {
            let meant = found.unwrap_or(otherwise);
            HiloError::NoSuchSequence { name: escape_for_message(name), meant }
        }
        Err(error) => error,
    }
}

fn meaning(name: &[u8]) -> Result<Option<NameGuess>, HiloError> {
    // A column needs the sequence, even if others have similar names.
    if column_defaults::is_used(name, MAX_COMPARED)? {
        return Ok(Some(NameGuess::OfColumn));
    }
    let folded = fold(name);
    let unquoted: Vec<u8> = name.iter().copied().filter(|byte| *byte != b'"').collect();
    let (whole, parts) = ([&unquoted[..], &folded], [last_part(&unquoted), last_part(&folded)]);
    if let Some(found) = by_spelling(name, whole)? {
        return Ok(Some(found));
    }
    if let Some(found) = core_sequences::by_name(name) {
        return Ok(Some(NameGuess::Core(found)));
    }
    match similar(name)? {
        Some((distance, found)) if !distance.of_parts => Ok(Some(found)),
        found => Ok(by_spelling(name, parts)?.or(found.map(|(_, found)| found))),
    }
}

fn may_see(sequence: &Sequence) -> Result<bool, HiloError> {
    privileges::may_see(sequence, ffi::current_user())
}

/// The sequence that the name means if it is spelled as an SQL identifier: in double quotes, in
/// another case, or after a schema.
fn by_spelling(name: &[u8], spellings: [&[u8]; 2]) -> Result<Option<NameGuess>, HiloError> {
    for spelling in spellings {
        if !spelling.is_empty()
            && spelling != name
            && let Some(sequence) = definitions::by_name(spelling)?
            && may_see(&sequence)?
        {
            return Ok(Some(NameGuess::Similar(sequence.name.to_string())));
        }
    }
    Ok(None)
}

/// The sequence whose name is nearest: by its whole name, else by what follows the last period,
/// best in a schema of the search path.
fn similar(name: &[u8]) -> Result<Option<(Distance, NameGuess)>, HiloError> {
    let wanted = fold(name);
    let limit = FURTHEST.min(wanted.len() as i32 / 2);
    let mut best: Option<(Distance, Name)> = None;
    let mut left = MAX_COMPARED;
    let visit = |row: Row| {
        left -= 1;
        let name = row.name(column::NAME);
        if let Some(distance) = distance(&wanted, &fold(&name), limit)
            && best.as_ref().is_none_or(|(least, _)| distance < *least)
            && may_see(&Sequence::from_row(&row))?
        {
            best = Some((distance, name));
        }
        let is_best = |(distance, _): &(Distance, _)| *distance == Distance::default();
        Ok(left > 0 && !best.as_ref().is_some_and(is_best))
    };
    CatalogTable::Definition.read()?.scan(catalog_tables::DEFINITION_NAME_KEY, &[], visit)?;
    Ok(best.map(|(distance, name)| (distance, NameGuess::Similar(name.to_string()))))
}

/// How far two names are apart. The lesser distance is the nearer name.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Distance {
    /// Only parts of the names were compared.
    of_parts: bool,
    changes: i32,
    /// The found name begins with a schema that is not in the search path.
    elsewhere: bool,
}

/// The text that is compared: without double quotes, and without the case of ASCII letters.
fn fold(name: &[u8]) -> Vec<u8> {
    name.iter().filter(|byte| **byte != b'"').map(u8::to_ascii_lowercase).collect()
}

/// The part behind the last period.
fn last_part(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'.').next().unwrap_or(name)
}

/// How many insertions, deletions and replacements lead from one name, or its part behind the last
/// period, to the other. `None`: more than `limit`.
fn distance(wanted: &[u8], name: &[u8], limit: i32) -> Option<Distance> {
    if let Some(changes) = levenshtein(wanted, name, limit) {
        return Some(Distance { changes, ..Distance::default() });
    }
    let changes = [(last_part(wanted), name), (wanted, last_part(name))]
        .into_iter()
        .filter_map(|(from, to)| levenshtein(from, to, limit))
        .min()?;
    Some(Distance { of_parts: true, changes, elsewhere: !core_sequences::is_on_path(name) })
}

fn levenshtein(from: &[u8], to: &[u8], limit: i32) -> Option<i32> {
    // A character has at most four bytes.
    if limit < 0 || from.len().abs_diff(to.len()) > 4 * limit as usize {
        return None;
    }
    // SAFETY: both are texts of the given lengths in the database's encoding. Core limits the
    // characters to 255, which is the most bytes that a name has.
    let distance = unsafe {
        pg_sys::varstr_levenshtein_less_equal(
            from.as_ptr().cast(),
            from.len() as i32,
            to.as_ptr().cast(),
            to.len() as i32,
            1,
            1,
            1,
            limit,
            false,
        )
    };
    (distance <= limit).then_some(distance)
}
