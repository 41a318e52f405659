//! The document's sections on numbers in a client's memory.

use super::chart::short;
use super::fleet::PAIRS;
use super::hits::{PERCENTILES, TASKS, WAYS};
use super::results::Results;
use super::table::{Section, Table, cell, median};

pub fn hits(results: &Results) -> Section {
    let heads: Vec<String> = TASKS.iter().map(usize::to_string).collect();
    let mut head = vec!["thousand numbers/s, by tasks"];
    head.extend(heads.iter().map(String::as_str));
    let mut rates = Table::new(&head);
    for (way, label, ..) in WAYS.iter().filter(|(way, ..)| *way != "clock") {
        let stat = |tasks: &usize| results.stat(&format!("hits/{way}/{tasks}"));
        rates
            .row(label, TASKS.iter().map(|tasks| median(stat(tasks).map(|stat| stat.times(1e-3)))));
    }
    let table = |tasks: usize| {
        let first = format!("{tasks} task{}, ns for a call", if tasks == 1 { "" } else { "s" });
        let mut head = vec![first.as_str()];
        head.extend(PERCENTILES.map(|(name, _)| name));
        let mut table = Table::new(&head);
        for (way, label, ..) in WAYS {
            let time = |name| results.median(&format!("hits/{way}/{tasks}/{name}"));
            table.row(label, PERCENTILES.map(|(name, _)| cell(time(name))));
        }
        table
    };
    let text = format!(
        "A process that draws from one sequence with the Rust client, which leases ranges of values and serves them from its \
         own memory; and the same by round trips of prepared statements. A call of the client takes {} ns of a processor in a \
         loop, and found a number in memory in {} % of all cases. The percentiles include reading a clock for each call.",
        cell(results.median("hits/ns")),
        results.median("hits/share").map_or_else(|| "–".to_owned(), |share| format!("{share:.5}")),
    );
    let tables = vec![rates, table(8)];
    Section { title: "Numbers from a client's memory", text, tables, picture: None }
}

pub fn fleet(results: &Results) -> Section {
    let sum = |what: &str| cell(results.sum(what));
    let mut outage = Table::new(&["outage", "measured"]);
    for (what, label) in [
        ("numbers", "numbers drawn meanwhile"),
        ("waits", "calls that waited"),
        ("longest", "longest wait, ms"),
    ] {
        outage.row(label, [sum(&format!("outage/{what}"))]);
    }
    let mut pairs = Table::new(&[
        "steady state",
        "numbers a second",
        "calls that waited",
        "commits a second",
        "commits for a hundred numbers",
    ]);
    let has_run = |key: &str| results.sum(&format!("{key}/rate")).is_some();
    for (key, label, ..) in PAIRS.iter().filter(|(key, ..)| has_run(key)) {
        let figures = ["rate", "waits", "commits", "catalog"];
        pairs.row(label, figures.map(|what| sum(&format!("{key}/{what}"))));
    }
    let text = format!(
        "Eight processes with a client each draw from the same {} counters at random, at a fixed rate; each holds a \
         buffer of {} s. Then the server is stopped for {} s, and nobody tells the clients. The first table \
         has the steady state of both clients, against hilo and against [hilo_lite](install.md#managed-clouds).",
        short(results.words("fleet counters").parse().unwrap_or(0.0)),
        results.words("buffer"),
        results.words("outage"),
    );
    let tables = vec![pairs, outage];
    Section { title: "Many clients, and an outage", text, tables, picture: None }
}

pub fn branches(results: &Results) -> Section {
    let sum = |name: &str, what: &str| cell(results.sum(&format!("branches/{name}/{what}")));
    let mut steady = Table::new(&["steady state", "measured"]);
    for (what, label) in [
        ("rate", "numbers a second that all branches drew"),
        ("received", "numbers a second that they received"),
        ("commits", "commits a second at the centre, its own reservations included"),
        ("waits", "calls that waited"),
    ] {
        steady.row(label, [sum("steady", what)]);
    }
    let mut faults = Table::new(&[
        "the centre is",
        "numbers drawn",
        "calls that waited",
        "failed",
        "longest, ms",
    ]);
    for fault in ["stopped", "killed", "frozen", "promoted"] {
        let cells = ["numbers", "waits", "failed", "longest"].map(|what| sum(fault, what));
        faults.row(fault, cells);
    }
    let text = format!(
        "{} branches draw from {} sequences of one centre ([multi-node.md](multi-node.md#branches)) at a fixed rate, through links of \
         100 ms a round trip, with a reserve_ahead of {} s. Then the centre is stopped for {} s, killed, frozen \
         (SIGSTOP) as long, and its standby is promoted. The longest is that of a statement with a number of each \
         sequence. All servers share this machine, with `fsync = off`.",
        results.words("branches"),
        results.words("sequences of each"),
        results.words("reserve_ahead"),
        results.words("outage of the centre"),
    );
    let tables = vec![steady, faults];
    Section { title: "Branches", text, tables, picture: None }
}
