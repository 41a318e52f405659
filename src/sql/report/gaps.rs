//! The values that will never be served: since when, and for which reason.

use std::ffi::CStr;

use maud::{Markup, html};

use crate::sql::report::chart::{self, Bars, Share};
use crate::sql::report::figures::short;
use crate::sql::report::source::{self, Read, Record};
use crate::sql::report::table::{Table, count, text};
use crate::sql::report::{Part, tile};

const TABLE: Table = Table {
    class: "gaps",
    caption: "Values that will never be served, by reason, since the sequences were created",
    columns: &[
        ("Reason", c"reason", reason),
        ("What it means", c"meaning", text),
        ("Values", c"size", count),
        ("Ranges", c"ranges", count),
        ("Sequences", c"sequences", count),
        ("Last", c"last", text),
    ],
    empty: "None: no value of these sequences is lost.",
    others: "reasons: hilo_gaps has all",
};

pub fn read() -> Read<Part> {
    let mut lost = 0.0;
    let each = |row: &Record| lost = row.size(c"lost");
    let table = TABLE.read(include_str!("gaps.sql"), each)?;
    let body = html! { (over_time()?) (table) };
    Ok(Part { tiles: vec![tile("", "values lost", &short(lost))], body })
}

/// A reason with its colour in the picture.
fn reason(row: &Record, column: &CStr) -> Markup {
    html! { span class=(colour(row)) aria-hidden="true" {} (text(row, column)) }
}

/// The colour of a reason, by its place among all reasons.
fn colour(row: &Record) -> String {
    format!("gap-{}", row.text(c"place").unwrap_or_default())
}

/// The picture of the gaps whose time is known, if there are any.
fn over_time() -> Read<Markup> {
    let (mut columns, mut length) = (Vec::<Bars>::new(), String::new());
    source::rows(include_str!("gaps_over_time.sql"), |row| {
        length = row.text(c"length").unwrap_or_default();
        let name = row.text(c"name").unwrap_or_default();
        if columns.last().is_none_or(|(last, _)| *last != name) {
            columns.push((name, Vec::new()));
        }
        if let (Some(name), Some((_, shares))) = (row.text(c"reason"), columns.last_mut()) {
            shares.push(Share::new(colour(row), &name, row.size(c"size")));
        }
    })?;
    let ([(first, _), ..], [.., (last, _)]) = (&columns[..], &columns[..]) else {
        return Ok(html! {});
    };
    let title = format!(
        "Values lost from {first} to now, by reason; a column for each {length}. \
         The table below has the sums."
    );
    Ok(html! {
        figure {
            (chart::columns(&title, &columns))
            figcaption {
                span { (first) }
                span { "each column " (length) }
                span { (last) }
            }
        }
    })
}
