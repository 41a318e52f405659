//! The errors that hilo raises, and the one place that turns them into Postgres reports.

mod documents;
mod reasons;
mod table;
mod text;

use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use hilo_core::mapping::Mapping;

pub use documents::DocumentError;
pub use reasons::{Cause, Closed, Unleasable};
pub use table::HiloError;
pub use text::{load_in_sessions, preload_excluded_by};

/// The most bytes of a message, a DETAIL or a HINT. So much memory is set aside, and a longer piece
/// of a memory context never comes from a block that exists already.
pub const LONGEST: usize = 8000;

/// The kind of an error that the worker has met, which decides the HINT of the session that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FaultKind {
    #[default]
    Other,
    NotAmongNodes,
    NoPosition,
    NodeUnset,
    OnWorker,
    /// Another transaction has locked a row or a table that the worker needs.
    Locked,
    /// The source of a sequence has failed. Only its owner may see the error.
    Source,
    /// The process that asked the source has ended.
    SourceEnded,
}

impl FaultKind {
    pub fn is_of_source(self) -> bool {
        matches!(self, FaultKind::Source | FaultKind::SourceEnded)
    }
}

/// A message, then its DETAIL and its HINT, as in the log.
pub fn in_full(message: &str, [detail, hint]: &[Option<String>; 2]) -> String {
    let line = |name, text: &Option<String>| {
        text.as_ref().map_or_else(String::new, |text| format!("\n{name}:  {text}"))
    };
    format!("{message}{}{}", line("DETAIL", detail), line("HINT", hint))
}

/// The likely meaning of a name that no sequence has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameGuess {
    /// A hilo sequence with a similar name.
    Similar(String),
    /// One of core's sequences, by its schema and name.
    Core(String),
    /// A sequence that is yet to be created.
    New,
    /// A sequence that is yet to be created, and that a column's default uses.
    OfColumn,
    Unknown,
}

impl HiloError {
    /// The last value that `mapping` allows has been drawn.
    pub fn exhaustion(name: String, mapping: &Mapping) -> HiloError {
        let (end, bound) = match mapping.increment < 0 {
            true => ("minimum", mapping.min_value),
            false => ("maximum", mapping.max_value),
        };
        HiloError::Exhausted { name, bound, end }
    }

    /// The SQLSTATE, packed into a number as Postgres packs it.
    pub fn sqlstate(&self) -> i32 {
        self.code() as i32
    }

    /// Whether it is an ERROR, rather than a notice or a warning.
    pub fn is_error(&self) -> bool {
        ![Code::ERRCODE_SUCCESSFUL_COMPLETION, Code::ERRCODE_WARNING].contains(&self.code())
    }

    pub fn kind(&self) -> FaultKind {
        match self {
            Self::NotAmongNodes { .. } => FaultKind::NotAmongNodes,
            Self::NoPosition(_) => FaultKind::NoPosition,
            Self::NodeUnset(_) => FaultKind::NodeUnset,
            Self::OnWorker(_) => FaultKind::OnWorker,
            _ => FaultKind::Other,
        }
    }

    /// Its message, DETAIL and HINT.
    pub fn in_full(&self) -> String {
        in_full(&self.to_string(), &[self.detail(), self.hint()])
    }

    /// Raises it as a Postgres ERROR.
    pub fn raise(self) -> ! {
        self.report(PgLogLevel::ERROR);
        unreachable!("an ERROR does not return")
    }

    /// Sends the error to the client and the log, as a WARNING.
    pub fn warn(self) {
        self.report(PgLogLevel::WARNING);
    }

    /// Sends the error to the client, and to the log if its settings want this level there.
    pub fn report(self, level: PgLogLevel) {
        ErrorReport::from(self).report(level);
    }
}

/// The error of a function that SQL calls, as pgrx raises it.
impl From<HiloError> for ErrorReport {
    fn from(error: HiloError) -> ErrorReport {
        let mut report = ErrorReport::new(error.code(), shorten(error.to_string()), "hilo");
        if let Some(detail) = error.detail() {
            report = report.set_detail(shorten(detail));
        }
        if let Some(hint) = error.hint() {
            report = report.set_hint(shorten(hint));
        }
        report
    }
}

/// The error of an argument that does not fit.
pub fn check_argument(
    fits: bool,
    message: impl FnOnce() -> String,
    advice: &'static str,
) -> Result<(), HiloError> {
    if fits { Ok(()) } else { Err(HiloError::Argument(message(), advice)) }
}

/// Cuts a text to the greatest length that a report may have.
pub fn shorten(mut text: String) -> String {
    const MARK: &str = "...";
    if text.len() > LONGEST {
        let fits = (0..=LONGEST - MARK.len()).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(fits.unwrap_or_default());
        text.push_str(MARK);
    }
    text
}

/// `?` where an error cannot be returned. These are the boundaries to Postgres:
///
/// * its callbacks, hooks and triggers;
/// * functions that do without `#[pg_extern]`, and arguments, which pgrx makes;
/// * work that runs under a catch, as in `process/subtransaction.rs`.
///
/// Elsewhere, functions that make a datum, a tuple or markup raise `OutOfMemory`. Core does so too,
/// in `palloc`.
pub trait OrRaise<T> {
    /// Returns the value, or raises its error as a Postgres ERROR.
    fn or_raise(self) -> T;
}

impl<T, E: Into<HiloError>> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> T {
        self.unwrap_or_else(|error| error.into().raise())
    }
}
