//! What `hilo_check` has found.

use hilo_core::html::Html;

use super::source::{Part, Source, text};
use super::table::{Heading, MOST, Table, more};

pub struct Finding {
    severity: String,
    object: String,
    what: String,
    what_to_do: String,
    /// The name of the sequence that it is about, in the database's encoding.
    sequence: Option<Vec<u8>>,
}

#[derive(Default)]
pub struct Findings {
    /// The worst first.
    worst: Vec<Finding>,
    /// How many there are of each severity: errors, warnings, notes.
    pub counts: [i64; 3],
}

/// The severities that call for something to be done.
const URGENT: [&str; 2] = ["error", "warning"];

pub fn read(source: &Source) -> Part<Findings> {
    // The order of hilo_check is kept: the worst come first.
    let sql = format!(
        "SELECT severity, object, what, what_to_do,
                count(*) FILTER (WHERE severity = 'error') OVER (),
                count(*) FILTER (WHERE severity = 'warning') OVER (),
                count(*) FILTER (WHERE severity NOT IN ('error', 'warning')) OVER ()
           FROM @hilo_check() WITH ORDINALITY AS c (object, severity, what, what_to_do, at)
          ORDER BY at LIMIT {MOST}"
    );
    let mut counts = [0; 3];
    let worst = source.rows(&sql, |row| {
        counts = [5, 6, 7].map(|column| row.int8(column).unwrap_or(0));
        let column = |number| text(&row, number).unwrap_or_default();
        let name = row.bytes(2).and_then(|object| {
            Some(object.strip_prefix(b"sequence \"")?.strip_suffix(b"\"")?.to_vec())
        });
        Finding {
            severity: column(1),
            object: column(2),
            what: column(3),
            what_to_do: column(4),
            sequence: name,
        }
    })?;
    Ok(Findings { worst, counts })
}

impl Findings {
    /// The sequences about which there is an error (0) or a warning (1).
    pub fn sequences(&self) -> impl Iterator<Item = (&[u8], usize)> {
        self.worst.iter().filter_map(|finding| {
            let rank = URGENT.iter().position(|urgent| *urgent == finding.severity)?;
            Some((finding.sequence.as_deref()?, rank))
        })
    }

    pub fn write(&self, html: &mut Html) {
        if self.worst.is_empty() {
            html.line("p", &[("class", "good")], "Nothing: hilo_check has found no problem.");
            return;
        }
        let table = Table {
            class: "findings",
            caption: "The findings of hilo_check that this role may see, the worst first".into(),
            headings: &[
                Heading("Severity", false),
                Heading("Object", false),
                Heading("What is wrong", false),
                Heading("What to do", false),
            ],
        };
        table.write(html, &self.worst, |cells, finding| {
            cells.next(|html| badge(html, &finding.severity));
            for column in [&finding.object, &finding.what, &finding.what_to_do] {
                cells.foreign(Some(column));
            }
        });
        more(html, self.counts.iter().sum(), "findings: SELECT * FROM hilo_check() has all");
    }
}

/// A severity, with a colour of its own.
pub fn badge(html: &mut Html, severity: &str) {
    let class = match severity {
        "error" => "badge error",
        "warning" => "badge warning",
        _ => "badge",
    };
    html.line("span", &[("class", class)], severity);
}
