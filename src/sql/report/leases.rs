//! What has left the server, by holder.

use hilo_core::figures::{duration, grouped};
use hilo_core::html::Html;

use super::source::{Part, Source, text};
use super::table::{Heading, MOST, Table, more};

struct Holder {
    name: Option<String>,
    role: Option<String>,
    leases: i64,
    values: String,
    sequences: i64,
    /// Seconds since its oldest lease was taken, and until the next one expires.
    oldest: f64,
    expires_in: Option<f64>,
    /// How many of its leases never expire.
    endless: i64,
}

#[derive(Default)]
pub struct Leases {
    first: Vec<Holder>,
    holders: i64,
    /// How many values there are in all.
    pub values: f64,
}

pub fn read(source: &Source) -> Part<Leases> {
    let sql = format!(
        "SELECT holder, usename::text, count(*), sum(count)::text, count(DISTINCT name),
                extract(epoch FROM clock_timestamp())::float8 - extract(epoch FROM min(leased_at))::float8,
                extract(epoch FROM min(expires_at))::float8 - extract(epoch FROM clock_timestamp())::float8,
                count(*) FILTER (WHERE expires_at IS NULL),
                count(*) OVER (), sum(sum(count)) OVER ()::float8
           FROM @hilo_leases GROUP BY holder, usename
          ORDER BY sum(count) DESC, holder COLLATE \"C\", usename LIMIT {MOST}"
    );
    let mut leases = Leases::default();
    leases.first = source.rows(&sql, |row| {
        leases.holders = row.int8(9).unwrap_or(0);
        leases.values = row.float8(10).unwrap_or(0.0);
        Holder {
            name: text(&row, 1),
            role: text(&row, 2),
            leases: row.int8(3).unwrap_or(0),
            values: text(&row, 4).unwrap_or_default(),
            sequences: row.int8(5).unwrap_or(0),
            oldest: row.float8(6).unwrap_or(0.0),
            expires_in: row.float8(7),
            endless: row.int8(8).unwrap_or(0),
        }
    })?;
    Ok(leases)
}

impl Leases {
    pub fn write(&self, html: &mut Html) {
        if self.first.is_empty() {
            html.line("p", &[], "None is open.");
            return;
        }
        let table = Table {
            class: "leases",
            caption: "Who holds values outside of this server, the largest holders first".into(),
            headings: &[
                Heading("Holder", false),
                Heading("Role", false),
                Heading("Values", true),
                Heading("Leases", true),
                Heading("Sequences", true),
                Heading("Oldest taken", true),
                Heading("Next expires", true),
            ],
        };
        table.write(html, &self.first, |cells, holder| {
            cells.next(|html| match &holder.name {
                Some(name) => html.foreign(name),
                None => html.line("span", &[("class", "none")], "not stated"),
            });
            cells.foreign(holder.role.as_deref());
            cells.text(&grouped(&holder.values));
            cells.count(holder.leases);
            cells.count(holder.sequences);
            cells.text(&format!("{} ago", duration(holder.oldest)));
            cells.text(&match (holder.expires_in, holder.endless) {
                (Some(seconds), 0) => format!("in {}", duration(seconds)),
                (Some(seconds), endless) => format!("in {}; {endless} never", duration(seconds)),
                (None, _) => "never".into(),
            });
        });
        more(html, self.holders, "holders: hilo_leases has all");
    }
}
