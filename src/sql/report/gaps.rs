//! What will never be served: when, and for which reason.

use hilo_core::chart::{self, Column, Share};
use hilo_core::figures::{duration, grouped};
use hilo_core::html::Html;

use super::sequence_table::legend;
use super::source::{Part, Source, text};
use super::table::{Heading, Table};

/// The reasons, each with the class of its colour and what it means.
const REASONS: [(&str, &str, &str); 5] = [
    ("crash", "gap-crash", "the server died with the values in memory"),
    (
        "discarded",
        "gap-discarded",
        "returned where nothing could take them, or leased by a transaction that was rolled back",
    ),
    ("altered", "gap-altered", "made invalid by hilo_alter or hilo_setval"),
    ("expired", "gap-expired", "their lease expired"),
    ("revoked", "gap-revoked", "their lease was revoked"),
];

struct Gap {
    reason: String,
    ranges: i64,
    values: String,
    sequences: i64,
    last: Option<String>,
}

#[derive(Default)]
pub struct Gaps {
    by_reason: Vec<Gap>,
    /// How many values there are in all.
    pub values: f64,
    /// The length of a column, in seconds.
    step: i64,
    columns: Vec<Column>,
}

pub fn read(source: &Source) -> Part<Gaps> {
    let mut gaps = Gaps::default();
    let mut ages = Vec::new();
    gaps.by_reason = source.rows(
        "SELECT reason, count(*), sum(count)::text, count(DISTINCT name), sum(count)::float8,
                to_char(max(recorded_at), 'YYYY-MM-DD HH24:MI:SS'),
                extract(epoch FROM min(recorded_at) FILTER (WHERE isfinite(recorded_at)))::float8,
                extract(epoch FROM clock_timestamp())::float8
           FROM @hilo_gaps GROUP BY reason ORDER BY sum(count) DESC, reason",
        |row| {
            gaps.values += row.float8(5).unwrap_or(0.0);
            ages.extend(row.float8(7).zip(row.float8(8)));
            Gap {
                reason: text(&row, 1).unwrap_or_default(),
                ranges: row.int8(2).unwrap_or(0),
                values: text(&row, 3).unwrap_or_default(),
                sequences: row.int8(4).unwrap_or(0),
                last: text(&row, 6),
            }
        },
    )?;
    let oldest = ages.iter().map(|(oldest, _)| *oldest).reduce(f64::min);
    if let (Some(oldest), Some((_, now))) = (oldest, ages.first()) {
        over_time(source, &mut gaps, oldest, *now)?;
    }
    Ok(gaps)
}

/// Adds the columns, from the oldest gap until now, each as long as makes them few enough.
fn over_time(source: &Source, gaps: &mut Gaps, oldest: f64, now: f64) -> Part<()> {
    const MOST: f64 = 48.0;
    const STEPS: [i64; 8] =
        [60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400];
    let few = |step: &&i64| (now - oldest) / (**step as f64) < MOST;
    let step = *STEPS.iter().find(few).unwrap_or(&STEPS[STEPS.len() - 1]);
    let place = |seconds: f64| (seconds / step as f64).floor() as i64;
    let until = place(now);
    // At least as many as make a picture.
    let since = place(oldest).clamp(until - MOST as i64, until - 11);
    gaps.step = step;
    let sql = format!(
        "SELECT to_char(to_timestamp(at * {step}::float8), 'YYYY-MM-DD HH24:MI'), g.reason, g.values
           FROM generate_series({since}::bigint, {until}::bigint) AS at
           LEFT JOIN (SELECT floor(extract(epoch FROM recorded_at) / {step})::bigint AS place, reason,
                             sum(count)::float8 AS values
                        FROM @hilo_gaps
                       WHERE isfinite(recorded_at) AND recorded_at >= to_timestamp({since} * {step}::float8)
                       GROUP BY 1, 2) g ON g.place = at
          ORDER BY at"
    );
    let columns = &mut gaps.columns;
    source.rows(&sql, |row| {
        let name = text(&row, 1).unwrap_or_default();
        if columns.last().is_none_or(|last| last.name != name) {
            columns.push(Column { name, shares: Vec::new() });
        }
        let reason = row.text(2);
        let (what, class, _) =
            REASONS.into_iter().find(|known| known.0 == reason).unwrap_or(REASONS[0]);
        if let (Some(size), Some(column)) = (row.float8(3), columns.last_mut()) {
            column.shares.push(Share { class, what, size });
        }
    })?;
    Ok(())
}

impl Gaps {
    pub fn write(&self, html: &mut Html) {
        if self.by_reason.is_empty() {
            html.line("p", &[("class", "good")], "None: no value of these sequences is lost.");
            return;
        }
        self.write_columns(html);
        let table = Table {
            class: "gaps",
            caption:
                "Values that will never be served, by reason, since the sequences were created"
                    .into(),
            headings: &[
                Heading("Reason", false),
                Heading("What it means", false),
                Heading("Values", true),
                Heading("Ranges", true),
                Heading("Sequences", true),
                Heading("Last", true),
            ],
        };
        table.write(html, &self.by_reason, |cells, gap| {
            let known = REASONS.iter().find(|(name, ..)| *name == gap.reason);
            cells.foreign(Some(&gap.reason));
            cells.foreign(known.map(|(.., meaning)| *meaning));
            cells.text(&grouped(&gap.values));
            cells.count(gap.ranges);
            cells.count(gap.sequences);
            cells.foreign(gap.last.as_deref());
        });
    }

    fn write_columns(&self, html: &mut Html) {
        let (Some(first), Some(last)) = (self.columns.first(), self.columns.last()) else { return };
        let shown = |name: &str| self.by_reason.iter().any(|gap| gap.reason == name);
        let entries = REASONS.iter().filter(|(name, ..)| shown(name));
        let entries: Vec<_> = entries.map(|(name, class, _)| (*class, *name)).collect();
        legend(html, "Reasons", &entries);
        let title = format!(
            "Values lost from {} to now, by reason; a column for each {}. The table below has the sums.",
            first.name,
            length(self.step)
        );
        html.element("figure", &[], |html| {
            chart::columns(html, &title, &self.columns);
            html.element("figcaption", &[], |html| {
                for text in [&first.name, &format!("each column {}", length(self.step)), &last.name]
                {
                    html.line("span", &[], text);
                }
            });
        });
    }
}

/// The length of a column.
fn length(step: i64) -> String {
    match step {
        60 => "1 min".into(),
        3600 => "1 h".into(),
        86_400 => "1 day".into(),
        31_536_000 => "1 year".into(),
        _ => duration(step as f64),
    }
}
