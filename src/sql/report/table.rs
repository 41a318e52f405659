//! Tables of the report. On a narrow screen each row becomes a block, in which every cell names its
//! column.

use maud::{Markup, html};

use crate::errors::OrRaise;
use crate::process::memory;
use crate::sql::report::figures::group_digits;

/// The maximum number of rows that a table shows. The queries end there.
const MAX_ROWS: f64 = 200.0;

/// A heading, and how a row's cell below it is shown.
type Column<R> = (&'static str, fn(&R) -> Markup);

pub struct Table<R: 'static> {
    pub class: &'static str,
    pub caption: &'static str,
    /// The first cell is the heading of its row.
    pub columns: &'static [Column<R>],
    /// A sentence instead of a table without rows.
    pub empty: &'static str,
    /// The name of the rows, and where all of them can be seen.
    pub others: &'static str,
}

impl<R> Table<R> {
    /// The table with the rows of a query; `all` also counts the rows that it does not return.
    pub fn show(&self, rows: &[R], all: f64) -> Markup {
        let rows: Vec<_> = rows.iter().map(|row| self.row(row)).collect();
        check_memory(&rows);
        html! {
            @if rows.is_empty() {
                p.none { (self.empty) }
            } @else {
                table class=(self.class) {
                    caption { (self.caption) }
                    thead { tr { @for (name, _) in self.columns { th scope="col" { (name) } } } }
                    tbody { @for row in rows { (row) } }
                }
            }
            @if all > MAX_ROWS {
                p.more { (group_digits(all - MAX_ROWS)) " more " (self.others) }
            }
        }
    }

    fn row(&self, row: &R) -> Markup {
        let ((_, first), others) = self.columns.split_first().expect("a table has columns");
        html! {
            tr {
                th scope="row" { (first(row)) }
                @for (name, cell) in others {
                    td data-label=(name) { (cell(row)) }
                }
            }
        }
    }
}

/// A name or message of somebody else's, or a dash. Its direction does not reach the text around
/// it.
pub fn text(text: &Option<String>) -> Markup {
    html! {
        @match text {
            Some(text) => bdi { (text) },
            None => (dash()),
        }
    }
}

/// A whole number, which the query returns as text.
pub fn count(number: &str) -> Markup {
    html! { (group_digits(number)) }
}

/// A list of words, each with a background: severities, kinds of sequences.
pub fn badges(words: &str) -> Markup {
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
/// fail. Called in the midst of a page, where a part that fails is shown as its reason.
pub fn check_memory<'a>(pieces: impl IntoIterator<Item = &'a Markup>) {
    const COPIES: usize = 8;
    let size: usize = pieces.into_iter().map(|piece| piece.0.len()).sum();
    memory::check_available(size * COPIES).or_raise();
}
