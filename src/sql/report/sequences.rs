//! The report's table of sequences, in which those that need attention come first.

use maud::{Markup, html};
use serde::Deserialize;

use crate::gucs;
use crate::sql::report::chart::{self, RateStep, Share};
use crate::sql::report::figures::{duration, group_digits, percent, short};
use crate::sql::report::queries::{self, Read};
use crate::sql::report::table::{Table, badges, dash, text};
use crate::sql::report::{Part, tile};

/// A row of `sequences.sql`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    name: Option<String>,
    leased: f64,
    used: f64,
    served: f64,
    rate: Option<f64>,
    steps: String,
    badges: String,
    in_slices: f64,
    in_current: f64,
    in_standby: f64,
    in_returned: f64,
    waits: Option<String>,
    waited: f64,
    waited_at_most: f64,
    refills: Option<String>,
    ahead: Option<f64>,
    failure: Option<String>,
    exhausted_in: Option<f64>,
    restarts: String,
    used_class: String,
    total: f64,
    total_active: f64,
    total_rate: f64,
    total_ready: f64,
    all_rows: f64,
}

const TABLE: Table<Shown> = Table {
    class: "sequences",
    caption: "The sequences that this role may read. First come those with findings and with \
              reservations that failed; then by tenths of the range used, seconds that callers \
              waited, and rate. Each line of a rate has a scale of its own and covers hilo.window.",
    columns: &[
        ("Sequence", name),
        ("Values per second", rate),
        ("In memory and leased", values),
        ("Range used", usage_cell),
        ("Waits", waits),
        ("Refills", refills),
    ],
    empty: "There is no sequence that this role may read.",
    others: "sequences: hilo_sequences and hilo_stat_sequences have all",
};

/// Where values of a sequence are: how many are there, the class of the colour, and the meaning.
type Tier = (fn(&Shown) -> f64, &'static str, &'static str);

const TIERS: [Tier; 5] = [
    (|row| row.in_slices, "tier-slices", "in slices of sessions"),
    (|row| row.in_current, "tier-current", "in the current block"),
    (|row| row.in_standby, "tier-standby", "in standby"),
    (|row| row.in_returned, "tier-returned", "returned"),
    (|row| row.leased, "tier-leased", "leased"),
];

pub fn read(findings: &str) -> Read<Part> {
    let rows = |in_memory: bool| {
        queries::rows::<Shown>(&format!(
            include_str!("sequences.sql"),
            in_memory = in_memory,
            findings = findings
        ))
    };
    let (rows, lacking) = match rows(true) {
        Ok(found) => (found, None),
        Err(why) => (rows(false)?, Some(why)),
    };
    let totals =
        |row: &Shown| [row.total, row.total_active, row.total_rate, row.total_ready, row.all_rows];
    let [sequences, active, rate, ready, all] = rows.last().map_or([0.0; 5], totals);
    let body = html! {
        @if let Some(why) = lacking {
            p.unreadable { bdi { "What is in memory cannot be read: " (why) } }
        }
        @if !rows.is_empty() {
            ul.legend aria-label="Where the values are" {
                @for (_, class, name) in TIERS {
                    li { span class=(class) aria-hidden="true" {} (name) }
                }
            }
        }
        (TABLE.show(&rows, all))
    };
    let tiles = vec![
        tile("", "sequences", &group_digits(sequences)),
        tile("", "of them active", &group_digits(active)),
        tile("", "values per second", &short(rate)),
        tile("", "values in memory", &short(ready)),
    ];
    Ok(Part { tiles, body })
}

fn name(row: &Shown) -> Markup {
    html! {
        (text(&row.name))
        span.marks { (badges(&row.badges)) }
        @if let Some(failure) = &row.failure { small.failure { bdi { (failure) } } }
    }
}

/// A step of a line of rates, from its three numbers.
fn step(text: &str) -> Option<RateStep> {
    let numbers: Option<Vec<f64>> = text.split(' ').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

fn rate(row: &Shown) -> Markup {
    let Some(rate) = row.rate else { return dash() };
    let steps: Vec<RateStep> = row.steps.split(',').filter_map(step).collect();
    let line = chart::sparkline(&steps, gucs::window().as_secs_f64());
    let served = format!("{} served", short(row.served));
    pair(line, figure(format!("{}/s", short(rate)), served))
}

fn values(row: &Shown) -> Markup {
    let shares = TIERS.map(|(size, class, name)| Share::new(class, name, size(row)));
    let leased = match row.leased {
        0.0 if row.rate.is_none() => return dash(),
        0.0 => String::new(),
        leased => format!("+ {} leased", short(leased)),
    };
    let in_memory = shares[..4].iter().map(|share| share.size).sum();
    let bar = chart::bar(&chart::list_text("Values", &shares), &shares);
    pair(bar, figure(short(in_memory), leased))
}

fn usage_cell(row: &Shown) -> Markup {
    let used = row.used;
    let (class, rest) = (row.used_class.as_str(), 1.0 - used);
    let shares = [Share::new(class, "used", used), Share::new("rest", "not used", rest)];
    let lasts = row.exhausted_in.map(|seconds| format!("lasts {}", duration(seconds)));
    let bar = chart::bar(&format!("Used: {}", percent(used)), &shares);
    pair(bar, figure(percent(used), lasts.unwrap_or_else(|| row.restarts.clone())))
}

/// A picture, and its figures beside it.
fn pair(picture: Markup, figures: Markup) -> Markup {
    html! { div.pair { (picture) div { (figures) } } }
}

fn waits(row: &Shown) -> Markup {
    let at_most = row.waited_at_most;
    let time = format!("{}, at most {}", duration(row.waited), duration(at_most));
    count_cell(&row.waits, if at_most > 0.0 { time } else { String::new() })
}

fn refills(row: &Shown) -> Markup {
    let ahead = row.ahead.map(|ahead| format!("{} ahead", percent(ahead)));
    count_cell(&row.refills, ahead.unwrap_or_default())
}

/// A number of an active sequence, with something smaller below it.
fn count_cell(number: &Option<String>, below: String) -> Markup {
    match number {
        Some(number) => figure(group_digits(number), below),
        None => dash(),
    }
}

fn figure(figure: String, below: String) -> Markup {
    html! { span.figure { (figure) } small { (below) } }
}
