//! `hilo_report`: the state of hilo as one HTML page, for people who would rather look than read.
//!
//! It reads the extension's functions and views with the rights of the caller, so it shows a role
//! the same as these. The page loads nothing and runs nothing: its policy forbids both. maud writes
//! it, and escapes every text.

mod chart;
mod figures;
mod gaps;
mod lists;
mod queries;
mod sequences;
mod table;
mod text;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde::Deserialize;

use queries::Read;
use table::check_memory;
use text::ascii;

use crate::catalog::rows::catalog_tables::catalog_oids;
use crate::sql::call::border::Call;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A part of the page, with its figures at the top of the page.
struct Part {
    tiles: Vec<Markup>,
    body: Markup,
}

fn tile(class: &str, name: &str, figure: &str) -> Markup {
    html! { div class=(class) { dt { (name) } dd { (figure) } } }
}

/// A row of `facts.sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    fact: String,
}

/// The id of a part, its title, and the part.
type Section = (&'static str, &'static str, Read<Part>);

/// `hilo_report()`: a page of HTML.
#[pg_extern(sql = false)]
fn hilo_report(_call: Call) -> Result<String, ErrorReport> {
    // An extension of another version is refused by an error, as in every function, not part by
    // part.
    catalog_oids()?;
    let mut shown = String::new();
    let sections = [
        ("findings", "What needs attention", lists::findings(&mut shown)),
        ("sequences", "Sequences", sequences::read(&shown)),
        ("gaps", "Gaps", gaps::read()),
        ("leases", "Leases", lists::leases()),
        ("settings", "Settings", lists::settings()),
    ];
    // The name of the database, and the other facts that tell servers and readers apart.
    let facts = queries::rows::<Fact>(include_str!("facts.sql"))
        .map(|facts| facts.into_iter().map(|Fact { fact }| fact).collect())
        .unwrap_or_else(|why| vec![String::new(), why]);
    check_memory(sections.iter().flat_map(|(.., part)| part).map(|part| &part.body));
    Ok(ascii(&page(&facts, &sections).0))
}

fn page(facts: &[String], sections: &[Section]) -> Markup {
    let (database, facts) = (facts.first().map_or("", String::as_str), facts.iter().skip(1));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                style { (PreEscaped(include_str!("page.css"))) }
                title { "hilo: " (database) }
            }
            body {
                header {
                    h1 { "hilo in " bdi { (database) } }
                    p.facts { @for fact in facts { bdi { (fact) } } }
                    dl.tiles {
                        @for part in sections.iter().flat_map(|(.., part)| part) {
                            @for tile in &part.tiles { (tile) }
                        }
                    }
                }
                main { @for section in sections { "\n" (self::section(section)) } }
            }
        }
        "\n"
    }
}

fn section((id, title, part): &Section) -> Markup {
    let heading = format!("{id}-title");
    html! {
        section id=(id) aria-labelledby=(heading) {
            h2 id=(heading) { (title) }
            @match part {
                Ok(part) => (part.body),
                Err(why) => p.unreadable { "This part cannot be read: " bdi { (why) } },
            }
        }
    }
}
