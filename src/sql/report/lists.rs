//! The parts that are one table each: findings, leases, settings.

use std::ffi::CStr;

use maud::{Markup, html};

use crate::sql::report::figures::{duration, short};
use crate::sql::report::source::{Read, Record, Source};
use crate::sql::report::table::{Table, badges, count, text};
use crate::sql::report::{Part, tile};

const FINDINGS: Table = Table {
    class: "findings",
    caption: "The findings of hilo_check that this role may see, the worst first",
    columns: &[
        ("Severity", c"severity", badges),
        ("Object", c"object", text),
        ("What is wrong", c"what", text),
        ("What to do", c"what_to_do", text),
    ],
    empty: "Nothing: hilo_check has found no problem.",
    others: "findings: SELECT * FROM hilo_check() has all",
};

const LEASES: Table = Table {
    class: "leases",
    caption: "Who holds values outside of this server, the largest holders first",
    columns: &[
        ("Holder", c"holder", text),
        ("Role", c"role", text),
        ("Values", c"size", count),
        ("Leases", c"leases", count),
        ("Sequences", c"sequences", count),
        ("Oldest taken", c"age", ago),
        ("Next expires", c"expires_in", expiry),
    ],
    empty: "None is open.",
    others: "holders: hilo_leases has all",
};

const SETTINGS: Table = Table {
    class: "settings",
    caption: "Settings that differ from their defaults, in this session",
    columns: &[
        ("Setting", c"name", text),
        ("Value", c"value", text),
        ("Default", c"initial", text),
        ("What it does", c"short_desc", text),
        ("Set by", c"source", text),
    ],
    empty: "All are at their defaults.",
    others: "settings: pg_settings has all",
};

/// An object, and the severity of a finding about it, in the database's encoding.
pub type Finding = (Vec<u8>, Vec<u8>);

/// Reads the findings, and adds those that are shown to `shown`.
pub fn findings(source: &Source, shown: &mut Vec<Finding>) -> Read<Part> {
    let (mut errors, mut warnings) = (0, 0);
    let body = FINDINGS.read(source, include_str!("findings.sql"), |row| {
        (errors, warnings) = (row.int(c"errors"), row.int(c"warnings"));
        shown.extend(row.bytes(c"object").zip(row.bytes(c"severity")));
    })?;
    let class = match (errors, warnings) {
        (1.., _) => "error",
        (_, 1..) => "warning",
        _ => "good",
    };
    let tile = tile(class, "errors and warnings", &format!("{errors} + {warnings}"));
    Ok(Part { tiles: vec![tile], body })
}

/// The values that have left the server, by holder.
pub fn leases(source: &Source) -> Read<Part> {
    let mut leased = 0.0;
    let each = |row: &Record| leased = row.size(c"leased");
    let body = LEASES.read(source, include_str!("leases.sql"), each)?;
    Ok(Part { tiles: vec![tile("", "values leased", &short(leased))], body })
}

fn ago(row: &Record, column: &CStr) -> Markup {
    html! { (duration(row.size(column))) " ago" }
}

/// The time until the next lease expires, and how many leases never do.
fn expiry(row: &Record, column: &CStr) -> Markup {
    let (time, endless) = (row.float(column).map(duration), row.int(c"endless"));
    html! {
        @if let Some(time) = &time { "in " (time) } @else { "never" }
        @if time.is_some() && endless > 0 { "; " (endless) " never" }
    }
}

pub fn settings(source: &Source) -> Read<Part> {
    let body = SETTINGS.read(source, include_str!("settings.sql"), |_| {})?;
    Ok(Part { tiles: Vec::new(), body })
}
