//! The sequences: those that need attention first.

use std::ffi::CStr;

use maud::{Markup, html};

use crate::gucs;
use crate::sql::report::chart::{self, RateStep, Share};
use crate::sql::report::figures::{duration, group_digits, percent, short};
use crate::sql::report::source::{Read, Record};
use crate::sql::report::table::{Table, badges, dash, text};
use crate::sql::report::{Part, tile};

const TABLE: Table = Table {
    class: "sequences",
    caption: "The sequences that this role may read. First come those with findings and with \
              reservations that failed; then by tenths of the range used, seconds that callers \
              waited, and rate. Each line of a rate has a scale of its own and covers hilo.window.",
    columns: &[
        ("Sequence", c"name", name),
        ("Values per second", c"rate", rate),
        ("In memory and leased", c"leased", values),
        ("Range used", c"used", usage_cell),
        ("Waits", c"waits", waits),
        ("Refills", c"refills", refills),
    ],
    empty: "There is no sequence that this role may read.",
    others: "sequences: hilo_sequences and hilo_stat_sequences have all",
};

/// Where the values of a sequence are: the column of the query, the class of the colour, and the
/// meaning.
const TIERS: [(&CStr, &str, &str); 5] = [
    (c"in_slices", "tier-slices", "in slices of sessions"),
    (c"in_current", "tier-current", "in the current block"),
    (c"in_standby", "tier-standby", "in standby"),
    (c"in_returned", "tier-returned", "returned"),
    (c"leased", "tier-leased", "leased"),
];

pub fn read(findings: &str) -> Read<Part> {
    let mut totals = [0.0; 4];
    let mut table = |in_memory: bool| {
        let sql =
            format!(include_str!("sequences.sql"), in_memory = in_memory, findings = findings);
        let columns = [c"total", c"total_active", c"total_rate", c"total_ready"];
        TABLE.read(&sql, |row| totals = columns.map(|column| row.size(column)))
    };
    let (table, lacking) = match table(true) {
        Ok(table) => (table, None),
        Err(why) => (table(false)?, Some(why)),
    };
    let body = html! {
        @if let Some(why) = lacking {
            p.unreadable { bdi { "What is in memory cannot be read: " (why) } }
        }
        @if totals[0] > 0.0 {
            ul.legend aria-label="Where the values are" {
                @for (_, class, name) in TIERS {
                    li { span class=(class) aria-hidden="true" {} (name) }
                }
            }
        }
        (table)
    };
    let [all, active, rate, ready] = totals;
    let tiles = vec![
        tile("", "sequences", &group_digits(all)),
        tile("", "of them active", &group_digits(active)),
        tile("", "values per second", &short(rate)),
        tile("", "values in memory", &short(ready)),
    ];
    Ok(Part { tiles, body })
}

fn name(row: &Record, column: &CStr) -> Markup {
    html! {
        (text(row, column))
        span.marks { (badges(row, c"badges")) }
        @if let Some(failure) = row.text(c"failure") { small.failure { bdi { (failure) } } }
    }
}

/// A step of a line of rates, from its three numbers.
fn step(text: &str) -> Option<RateStep> {
    let numbers: Option<Vec<f64>> = text.split(' ').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

fn rate(row: &Record, column: &CStr) -> Markup {
    let Some(rate) = row.float(column) else { return dash() };
    let steps = row.text(c"steps").unwrap_or_default();
    let steps: Vec<RateStep> = steps.split(',').filter_map(step).collect();
    let line = chart::sparkline(&steps, gucs::window().as_secs_f64());
    let served = format!("{} served", short(row.size(c"served")));
    pair(line, figure(format!("{}/s", short(rate)), served))
}

fn values(row: &Record, leased: &CStr) -> Markup {
    let shares = TIERS.map(|(column, class, name)| Share::new(class, name, row.size(column)));
    let leased = match row.size(leased) {
        0.0 if row.float(c"rate").is_none() => return dash(),
        0.0 => String::new(),
        leased => format!("+ {} leased", short(leased)),
    };
    let in_memory = shares[..4].iter().map(|share| share.size).sum();
    let bar = chart::bar(&chart::list_text("Values", &shares), &shares);
    pair(bar, figure(short(in_memory), leased))
}

fn usage_cell(row: &Record, column: &CStr) -> Markup {
    let (used, class) = (row.size(column), row.text(c"used_class").unwrap_or_default());
    let shares = [Share::new(class, "used", used), Share::new("rest", "not used", 1.0 - used)];
    let lasts = row.float(c"exhausted_in").map(|seconds| format!("lasts {}", duration(seconds)));
    let rest = lasts.or_else(|| row.text(c"restarts")).unwrap_or_default();
    let bar = chart::bar(&format!("Used: {}", percent(used)), &shares);
    pair(bar, figure(percent(used), rest))
}

/// A picture, and beside it the same in figures.
fn pair(picture: Markup, figures: Markup) -> Markup {
    html! { div.pair { (picture) div { (figures) } } }
}

fn waits(row: &Record, column: &CStr) -> Markup {
    let [waited, at_most] = [c"waited", c"waited_at_most"].map(|column| row.size(column));
    let time = format!("{}, at most {}", duration(waited), duration(at_most));
    count_cell(row, column, if at_most > 0.0 { time } else { String::new() })
}

fn refills(row: &Record, column: &CStr) -> Markup {
    let ahead = row.float(c"ahead").map(|ahead| format!("{} ahead", percent(ahead)));
    count_cell(row, column, ahead.unwrap_or_default())
}

/// A number of an active sequence, with something smaller below it.
fn count_cell(row: &Record, column: &CStr, below: String) -> Markup {
    match row.text(column) {
        Some(number) => figure(group_digits(number), below),
        None => dash(),
    }
}

fn figure(figure: String, below: String) -> Markup {
    html! { span.figure { (figure) } small { (below) } }
}
