//! Tables of the report. On a narrow screen each row becomes a block, in which every cell names its
//! column.

use std::ffi::CStr;

use maud::{Markup, html};

use crate::errors::OrRaise;
use crate::process::memory;
use crate::sql::report::figures::group_digits;
use crate::sql::report::source::{self, Read, Record};

/// The maximum number of rows that a table shows. The queries end there.
const MAX_ROWS: f64 = 200.0;

/// Makes a cell of a column of a row.
type Cell = fn(&Record, &CStr) -> Markup;

pub struct Table {
    pub class: &'static str,
    pub caption: &'static str,
    /// The headings, each with the query's column and how it is shown. The first cell is the
    /// heading of its row.
    pub columns: &'static [(&'static str, &'static CStr, Cell)],
    /// A sentence instead of a table without rows.
    pub empty: &'static str,
    /// The name of the rows, and where all of them are.
    pub others: &'static str,
}

impl Table {
    /// The table with the rows of a query, whose column `all_rows` counts also those that it does
    /// not return. `each` is called with every row.
    pub fn read(&self, sql: &str, mut each: impl FnMut(&Record)) -> Read<Markup> {
        let mut all = 0.0;
        let rows = source::rows(sql, |row| {
            each(row);
            all = row.size(c"all_rows");
            self.row(row)
        })?;
        check_memory(&rows);
        Ok(html! {
            @if rows.is_empty() {
                p.none { (self.empty) }
            } @else {
                table class=(self.class) {
                    caption { (self.caption) }
                    thead { tr { @for (name, ..) in self.columns { th scope="col" { (name) } } } }
                    tbody { @for row in rows { (row) } }
                }
            }
            @if all > MAX_ROWS {
                p.more { (group_digits(all - MAX_ROWS)) " more " (self.others) }
            }
        })
    }

    fn row(&self, row: &Record) -> Markup {
        let (first, others) = self.columns.split_first().expect("a table has columns");
        html! {
            tr {
                th scope="row" { (first.2(row, first.1)) }
                @for (name, column, cell) in others {
                    td data-label=(name) { (cell(row, column)) }
                }
            }
        }
    }
}

/// A name or message of somebody else's, or a dash if there is none. Its direction does not reach
/// the text around it.
pub fn text(row: &Record, column: &CStr) -> Markup {
    html! {
        @match row.text(column) {
            Some(text) => bdi { (text) },
            None => (dash()),
        }
    }
}

/// A whole number, which the query returns as text.
pub fn count(row: &Record, column: &CStr) -> Markup {
    html! { (group_digits(row.text(column).unwrap_or_default())) }
}

/// A list of words, each with a background: severities, kinds of sequences.
pub fn badges(row: &Record, column: &CStr) -> Markup {
    let words = row.text(column).unwrap_or_default();
    html! {
        @for word in words.split(',').filter(|word| !word.is_empty()) {
            span class={ "badge badge-" (word) } { (word) }
        }
    }
}

pub fn dash() -> Markup {
    html! { span.none { "\u{2013}" } }
}

/// Raises 53200 now if there is no memory to put these pieces together, because a `String` cannot
/// fail.
pub fn check_memory<'a>(pieces: impl IntoIterator<Item = &'a Markup>) {
    const COPIES: usize = 8;
    let size: usize = pieces.into_iter().map(|piece| piece.0.len()).sum();
    memory::check_available(size * COPIES).or_raise();
}
