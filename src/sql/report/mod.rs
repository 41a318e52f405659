//! `hilo_report`: the state of hilo as one HTML page, for people who would rather look than read.
//!
//! It reads the extension's functions and views with the rights of the caller, so it shows a role what these show it. The
//! page loads nothing and runs nothing: its policy forbids both.

mod findings;
mod gaps;
mod leases;
mod sequence_table;
mod sequences;
mod settings;
mod source;
mod table;

use hilo_core::figures::{grouped, short};
use hilo_core::html::Html;
use pgrx::pg_sys;

use findings::Findings;
use gaps::Gaps;
use leases::Leases;
use sequences::Sequences;
use settings::Settings;
use source::{Part, Source, text};

use super::args::{Args, sql_functions};
use crate::catalog::node;
use crate::catalog::table::text_datum;
use crate::errors::{HiloError, OrRaise};
use crate::gucs;

sql_functions!(hilo_report);

/// `hilo_report()`: a page of HTML.
fn hilo_report(_: Args) -> pg_sys::Datum {
    let report = Report::read(&Source::new());
    let mut html = Html::new();
    report.write(&mut html);
    let page = html.finish().ok_or(HiloError::OutOfMemory).or_raise();
    text_datum(page.as_bytes())
}

struct Report {
    place: Part<Place>,
    findings: Part<Findings>,
    sequences: Part<Sequences>,
    gaps: Part<Gaps>,
    leases: Part<Leases>,
    settings: Part<Settings>,
}

/// Where and when the report was made.
#[derive(Default)]
struct Place {
    database: String,
    /// What else tells servers apart: name of the cluster, versions, role of the server, reader, time.
    facts: Vec<String>,
}

impl Report {
    fn read(source: &Source) -> Report {
        let findings = findings::read(source);
        Report {
            place: place(source),
            sequences: sequences::read(source, &findings),
            findings,
            gaps: gaps::read(source),
            leases: leases::read(source),
            settings: settings::read(source),
        }
    }

    fn write(&self, html: &mut Html) {
        let database = self.place.as_ref().map_or("", |place| &place.database);
        html.markup(concat!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
            "<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n",
            include_str!("page.css"),
            "</style>\n"
        ));
        html.line("title", &[], &format!("hilo: {database}"));
        html.markup("\n</head>\n<body>\n");
        html.element("header", &[], |html| self.write_header(html));
        html.element("main", &[], |html| {
            section(html, "findings", "What needs attention", &self.findings, Findings::write);
            section(html, "sequences", "Sequences", &self.sequences, Sequences::write);
            section(html, "gaps", "Gaps", &self.gaps, Gaps::write);
            section(html, "leases", "Leases", &self.leases, Leases::write);
            section(html, "settings", "Settings", &self.settings, Settings::write);
        });
        html.markup("\n</body>\n</html>\n");
    }

    fn write_header(&self, html: &mut Html) {
        html.element("h1", &[], |html| {
            html.text("hilo in ");
            html.foreign(self.place.as_ref().map_or("", |place| &place.database));
        });
        html.element("p", &[("class", "facts")], |html| match &self.place {
            Ok(place) => place.facts.iter().for_each(|fact| html.foreign(fact)),
            Err(why) => html.foreign(why),
        });
        html.element("dl", &[("class", "tiles")], |html| self.write_tiles(html));
    }

    fn write_tiles(&self, html: &mut Html) {
        if let Ok(findings) = &self.findings {
            let [errors, warnings, _] = findings.counts;
            let class = match (errors, warnings) {
                (1.., _) => "error",
                (_, 1..) => "warning",
                _ => "good",
            };
            tile(html, class, "errors and warnings", &format!("{errors} + {warnings}"));
        }
        if let Ok(sequences) = &self.sequences {
            let count = |count: i64| grouped(&count.to_string());
            tile(html, "", "sequences", &count(sequences.all));
            tile(html, "", "of them active", &count(sequences.active));
            tile(html, "", "values per second", &short(sequences.rate));
            tile(html, "", "values in memory", &short(sequences.ready));
        }
        if let Ok(leases) = &self.leases {
            tile(html, "", "values leased", &short(leases.values));
        }
        if let Ok(gaps) = &self.gaps {
            tile(html, "", "values lost", &short(gaps.values));
        }
    }
}

fn tile(html: &mut Html, class: &'static str, what: &str, figure: &str) {
    html.element("div", &[("class", class)], |html| {
        html.line("dt", &[], what);
        html.line("dd", &[], figure);
    });
}

fn section<T>(
    html: &mut Html,
    id: &'static str,
    title: &'static str,
    part: &Part<T>,
    write: impl FnOnce(&T, &mut Html),
) {
    let heading = format!("{id}-title");
    html.markup("\n");
    html.element("section", &[("id", id), ("aria-labelledby", &heading)], |html| {
        html.line("h2", &[("id", &heading)], title);
        match part {
            Ok(part) => write(part, html),
            Err(why) => html.element("p", &[("class", "unreadable")], |html| {
                html.text("This part cannot be read: ");
                html.foreign(why);
            }),
        }
    });
}

fn place(source: &Source) -> Part<Place> {
    let nodes = gucs::node_count();
    let node = node::known().map_or_else(|| "?".into(), |node| node.to_string());
    let found = source.rows(
        "SELECT current_database()::text, 'cluster ' || NULLIF(current_setting('cluster_name'), ''),
                'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1),
                'hilo ' || (SELECT extversion FROM pg_extension WHERE extname = 'hilo'),
                CASE WHEN pg_is_in_recovery() THEN 'standby' END,
                'seen by ' || current_user,
                to_char(clock_timestamp(), 'YYYY-MM-DD HH24:MI:SS TZ')",
        |row| {
            let mut facts: Vec<String> = (2..=7).filter_map(|column| text(&row, column)).collect();
            if nodes > 1 {
                facts.push(format!("node {node} of {nodes}"));
            }
            Place { database: text(&row, 1).unwrap_or_default(), facts }
        },
    )?;
    Ok(found.into_iter().next().unwrap_or_default())
}
