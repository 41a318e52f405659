//! The parts of the report that are one table each: findings, leases, settings.

use maud::{Markup, html};
use serde::Deserialize;

use crate::sql::report::figures::{duration, short};
use crate::sql::report::queries::{self, Read};
use crate::sql::report::table::{Table, badges, count, text};
use crate::sql::report::{Part, tile};

/// A row of `findings.sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finding {
    severity: String,
    object: Option<String>,
    /// The name of the object as bytes, in hexadecimal.
    object_bytes: String,
    what: Option<String>,
    what_to_do: Option<String>,
    errors: f64,
    warnings: f64,
    all_rows: f64,
}

const FINDINGS: Table<Finding> = Table {
    class: "findings",
    caption: "The findings of hilo_check that this role may see, the worst first",
    columns: &[
        ("Severity", |row| badges(&row.severity)),
        ("Object", |row| text(&row.object)),
        ("What is wrong", |row| text(&row.what)),
        ("What to do", |row| text(&row.what_to_do)),
    ],
    empty: "Nothing: hilo_check has found no problem.",
    others: "findings: SELECT * FROM hilo_check() has all",
};

/// A row of `leases.sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Holder {
    holder: Option<String>,
    role: Option<String>,
    size: String,
    leases: String,
    sequences: String,
    age: f64,
    expires_in: Option<f64>,
    endless: f64,
    leased: f64,
    all_rows: f64,
}

const LEASES: Table<Holder> = Table {
    class: "leases",
    caption: "Who holds values outside of this server, the largest holders first",
    columns: &[
        ("Holder", |row| text(&row.holder)),
        ("Role", |row| text(&row.role)),
        ("Values", |row| count(&row.size)),
        ("Leases", |row| count(&row.leases)),
        ("Sequences", |row| count(&row.sequences)),
        ("Oldest taken", |row| html! { (duration(row.age)) " ago" }),
        ("Next expires", expiry),
    ],
    empty: "None is open.",
    others: "holders: hilo_leases has all",
};

/// A row of `settings.sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    name: Option<String>,
    short_desc: Option<String>,
    value: Option<String>,
    initial: Option<String>,
    source: Option<String>,
}

const SETTINGS: Table<Setting> = Table {
    class: "settings",
    caption: "Settings that differ from their defaults, in this session",
    columns: &[
        ("Setting", |row| text(&row.name)),
        ("Value", |row| text(&row.value)),
        ("Default", |row| text(&row.initial)),
        ("What it does", |row| text(&row.short_desc)),
        ("Set by", |row| text(&row.source)),
    ],
    empty: "All are at their defaults.",
    others: "settings: pg_settings has all",
};

/// Reads the findings. Adds the object and the severity of each shown finding to `shown`, as a row
/// of VALUES.
pub fn findings(shown: &mut String) -> Read<Part> {
    let rows = queries::rows::<Finding>(include_str!("findings.sql"))?;
    for Finding { severity, object_bytes, .. } in &rows {
        *shown += &format!(
            ", (pg_catalog.convert_from(E'\\\\x{object_bytes}', \
             pg_catalog.getdatabaseencoding()), '{severity}')"
        );
    }
    let last = rows.last();
    let [errors, warnings, all] =
        last.map_or([0.0; 3], |row| [row.errors, row.warnings, row.all_rows]);
    let class = match (errors > 0.0, warnings > 0.0) {
        (true, _) => "error",
        (_, true) => "warning",
        _ => "good",
    };
    let tile = tile(class, "errors and warnings", &format!("{errors} + {warnings}"));
    Ok(Part { tiles: vec![tile], body: FINDINGS.show(&rows, all) })
}

/// The values that have left the server, by holder.
pub fn leases() -> Read<Part> {
    let rows = queries::rows::<Holder>(include_str!("leases.sql"))?;
    let [leased, all] = rows.last().map_or([0.0; 2], |row| [row.leased, row.all_rows]);
    let tiles = vec![tile("", "values leased", &short(leased))];
    Ok(Part { tiles, body: LEASES.show(&rows, all) })
}

/// The time until the next lease expires, and how many leases never do.
fn expiry(row: &Holder) -> Markup {
    let time = row.expires_in.map(duration);
    html! {
        @if let Some(time) = &time { "in " (time) } @else { "never" }
        @if time.is_some() && row.endless > 0.0 { "; " (row.endless) " never" }
    }
}

pub fn settings() -> Read<Part> {
    let rows = queries::rows::<Setting>(include_str!("settings.sql"))?;
    Ok(Part { tiles: Vec::new(), body: SETTINGS.show(&rows, 0.0) })
}
