//! How the report shows the sequences.

use hilo_core::chart::{self, Share};
use hilo_core::figures::{duration, grouped, percent, short};
use hilo_core::html::Html;

use super::findings::badge;
use super::sequences::{Active, Sequence, Sequences};
use super::table::{Cells, Heading, Table, dash, more, small};
use crate::gucs;

/// Where the values of a sequence are: the class of the colour, and what stands in the legend.
const TIERS: [(&str, &str); 5] = [
    ("tier-slices", "in slices of sessions"),
    ("tier-current", "in the current block"),
    ("tier-standby", "in standby"),
    ("tier-returned", "returned"),
    ("tier-leased", "leased"),
];

impl Sequences {
    pub fn write(&self, html: &mut Html) {
        for lacking in &self.lacking {
            html.element("p", &[("class", "unreadable")], |html| html.foreign(lacking));
        }
        if self.first.is_empty() {
            html.line("p", &[], "There is no sequence that this role may read.");
            return;
        }
        legend(html, "Where the values are", &TIERS);
        let window = gucs::window().as_secs_f64();
        let table = Table {
            class: "sequences",
            caption: format!(
                "{} of {} sequences that this role may read. First come those with findings and with reservations that \
                 failed; then by tenths of the range used, seconds that callers waited, and rate. Each line of a rate \
                 has a scale of its own and covers {} ({}).",
                grouped(&self.first.len().to_string()),
                grouped(&self.all.to_string()),
                duration(window),
                "hilo.window"
            ),
            headings: &[
                Heading("Sequence", false),
                Heading("Values per second", false),
                Heading("In memory and leased", false),
                Heading("Range used", false),
                Heading("Waits", true),
                Heading("Refills", true),
            ],
        };
        table.write(html, &self.first, |cells, sequence| row(cells, sequence, window));
        more(html, self.all, "sequences: hilo_sequences and hilo_stat_sequences have all");
    }
}

/// What the colours of a picture mean.
pub fn legend(html: &mut Html, title: &'static str, entries: &[(&'static str, &'static str)]) {
    html.element("ul", &[("class", "legend"), ("aria-label", title)], |html| {
        for (class, what) in entries {
            html.element("li", &[], |html| {
                html.line("span", &[("class", class), ("aria-hidden", "true")], "");
                html.text(what);
            });
        }
    });
}

fn row(cells: &mut Cells, sequence: &Sequence, window: f64) {
    cells.next(|html| name(html, sequence));
    cells.next(|html| match &sequence.active {
        Some(active) => rate(html, active, window),
        None => dash(html),
    });
    cells.next(|html| values(html, sequence));
    cells.next(|html| used(html, sequence));
    cells.next(|html| match &sequence.active {
        Some(active) => waits(html, active),
        None => dash(html),
    });
    cells.next(|html| match &sequence.active {
        Some(active) => refills(html, active),
        None => dash(html),
    });
}

fn name(html: &mut Html, sequence: &Sequence) {
    html.foreign(&sequence.name);
    html.element("span", &[("class", "marks")], |html| {
        match sequence.rank {
            Some(0) => badge(html, "error"),
            Some(_) => badge(html, "warning"),
            None => {}
        }
        let kinds = [
            (sequence.gapless, "gapless"),
            (sequence.ordered, "ordered"),
            (sequence.cycle, "cycles"),
            (sequence.active.is_none() && !sequence.gapless, "not active"),
        ];
        for (_, kind) in kinds.iter().filter(|(is, _)| *is) {
            badge(html, kind);
        }
    });
    let Some(active) = sequence.active.as_ref().filter(|active| active.errors > 0) else { return };
    html.element("small", &[("class", "failure")], |html| {
        html.text(&grouped(&active.errors.to_string()));
        html.text(" reservations failed");
        if let (Some(at), Some(error)) = (&active.last_error_at, &active.last_error) {
            html.text(&format!("; the last on {at}: "));
            html.foreign(error);
        }
    });
}

fn rate(html: &mut Html, active: &Active, window: f64) {
    pair(
        html,
        |html| chart::sparkline(html, &active.course, window),
        |html| {
            figure(html, &format!("{}/s", short(active.rate)));
            small(html, &format!("{} served", short(active.served as f64)));
        },
    );
}

fn values(html: &mut Html, sequence: &Sequence) {
    let tiers = sequence.active.as_ref().map_or([0.0; 4], |active| active.tiers);
    if sequence.active.is_none() && sequence.leased == 0.0 {
        return dash(html);
    }
    let sizes = tiers.into_iter().chain([sequence.leased]);
    let shares: Vec<Share> =
        TIERS.iter().zip(sizes).map(|((class, what), size)| Share { class, what, size }).collect();
    pair(
        html,
        |html| chart::bar(html, "Values", &shares),
        |html| {
            figure(html, &short(tiers.iter().sum()));
            if sequence.leased > 0.0 {
                small(html, &format!("+ {} leased", short(sequence.leased)));
            }
        },
    );
}

fn used(html: &mut Html, sequence: &Sequence) {
    // Where hilo_check warns, and where it speaks of an error.
    let class = match sequence.used {
        _ if sequence.cycle => "used",
        0.95.. => "used error",
        0.8.. => "used warning",
        _ => "used",
    };
    let rest = match sequence.active.as_ref().and_then(|active| active.exhausted_in) {
        Some(seconds) => format!("lasts {}", duration(seconds)),
        None if sequence.cycle => "starts again".into(),
        None => String::new(),
    };
    pair(
        html,
        |html| chart::gauge(html, "Used", class, sequence.used),
        |html| {
            figure(html, &percent(sequence.used));
            small(html, &rest);
        },
    );
}

fn waits(html: &mut Html, active: &Active) {
    figure(html, &grouped(&active.waits.to_string()));
    if active.waits > 0 {
        let [total, longest] = active.wait_time.map(|milliseconds| duration(milliseconds / 1000.0));
        small(html, &format!("{total}, at most {longest}"));
    }
}

fn refills(html: &mut Html, active: &Active) {
    figure(html, &grouped(&active.blocks_reserved.to_string()));
    if active.blocks_reserved > 0 {
        let ahead = active.blocks_prefetched as f64 / active.blocks_reserved as f64;
        small(html, &format!("{} ahead", percent(ahead)));
    }
}

/// A picture, and beside it what it says in figures.
fn pair(html: &mut Html, picture: impl FnOnce(&mut Html), figures: impl FnOnce(&mut Html)) {
    html.element("div", &[("class", "pair")], |html| {
        picture(html);
        html.element("div", &[], figures);
    });
}

fn figure(html: &mut Html, text: &str) {
    html.line("span", &[("class", "figure")], text);
}
