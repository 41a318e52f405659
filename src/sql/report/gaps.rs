//! The report's part about values that will never be served: since when, and for which reason.

use maud::{Markup, html};
use serde::Deserialize;

use crate::sql::report::chart::{self, Bars, Share};
use crate::sql::report::figures::short;
use crate::sql::report::queries::{self, Read};
use crate::sql::report::table::{Table, count, text};
use crate::sql::report::{Part, tile};

/// A row of `gaps.sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lost {
    reason: Option<String>,
    size: String,
    ranges: String,
    sequences: String,
    last: Option<String>,
    meaning: Option<String>,
    place: String,
    lost: f64,
}

const TABLE: Table<Lost> = Table {
    class: "gaps",
    caption: "Values that will never be served, by reason, since the sequences were created",
    columns: &[
        ("Reason", reason),
        ("What it means", |row| text(&row.meaning)),
        ("Values", |row| count(&row.size)),
        ("Ranges", |row| count(&row.ranges)),
        ("Sequences", |row| count(&row.sequences)),
        ("Last", |row| text(&row.last)),
    ],
    empty: "None: no value of these sequences is lost.",
    others: "reasons: hilo_gaps has all",
};

pub fn read() -> Read<Part> {
    let rows = queries::rows::<Lost>(include_str!("gaps.sql"))?;
    let lost = rows.last().map_or(0.0, |row| row.lost);
    let body = html! { (over_time()?) (TABLE.show(&rows, 0.0)) };
    Ok(Part { tiles: vec![tile("", "values lost", &short(lost))], body })
}

/// A reason with its colour in the picture.
fn reason(row: &Lost) -> Markup {
    html! { span class=(colour(&row.place)) aria-hidden="true" {} (text(&row.reason)) }
}

/// The colour of a reason, by its place among all reasons.
fn colour(place: &str) -> String {
    format!("gap-{place}")
}

/// A row of `gaps_over_time.sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LostThen {
    name: String,
    length: String,
    reason: Option<String>,
    place: String,
    size: f64,
}

/// The picture of the gaps whose time is known, if there are any.
fn over_time() -> Read<Markup> {
    let (mut columns, mut length) = (Vec::<Bars>::new(), String::new());
    for row in queries::rows::<LostThen>(include_str!("gaps_over_time.sql"))? {
        length = row.length;
        if columns.last().is_none_or(|(last, _)| *last != row.name) {
            columns.push((row.name, Vec::new()));
        }
        if let (Some(name), Some((_, shares))) = (row.reason, columns.last_mut()) {
            shares.push(Share::new(colour(&row.place), &name, row.size));
        }
    }
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
