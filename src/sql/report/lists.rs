//! The parts that are one table each: findings, leases, settings.

use std::ffi::CStr;

use maud::{Markup, html};

use crate::sql::call::spi;
use crate::sql::report::figures::{duration, short};
use crate::sql::report::source::{Read, Record};
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

/// Reads the findings. Adds the object and the severity of each that is shown to `shown`, as a row
/// of VALUES.
pub fn findings(shown: &mut String) -> Read<Part> {
    let (mut errors, mut warnings) = (0.0, 0.0);
    let body = FINDINGS.read(include_str!("findings.sql"), |row| {
        (errors, warnings) = (row.size(c"errors"), row.size(c"warnings"));
        let [object, severity] = [c"object", c"severity"]
            .map(|column| spi::literal(&row.bytes(column).unwrap_or_default()));
        *shown += &format!(", ({object}, {severity})");
    })?;
    let class = match (errors > 0.0, warnings > 0.0) {
        (true, _) => "error",
        (_, true) => "warning",
        _ => "good",
    };
    let tile = tile(class, "errors and warnings", &format!("{errors} + {warnings}"));
    Ok(Part { tiles: vec![tile], body })
}

/// The values that have left the server, by holder.
pub fn leases() -> Read<Part> {
    let mut leased = 0.0;
    let each = |row: &Record| leased = row.size(c"leased");
    let body = LEASES.read(include_str!("leases.sql"), each)?;
    Ok(Part { tiles: vec![tile("", "values leased", &short(leased))], body })
}

fn ago(row: &Record, column: &CStr) -> Markup {
    html! { (duration(row.size(column))) " ago" }
}

/// The time until the next lease expires, and how many leases never do.
fn expiry(row: &Record, column: &CStr) -> Markup {
    let (time, endless) = (row.float(column).map(duration), row.size(c"endless"));
    html! {
        @if let Some(time) = &time { "in " (time) } @else { "never" }
        @if time.is_some() && endless > 0.0 { "; " (endless) " never" }
    }
}

pub fn settings() -> Read<Part> {
    let body = SETTINGS.read(include_str!("settings.sql"), |_| {})?;
    Ok(Part { tiles: Vec::new(), body })
}
