//! The document's sections on numbers in a client's memory.

use super::chart::short;
use super::fleet::PAIRS;
use super::hits::{PERCENTILES, TASKS, WAYS};
use super::results::Results;
use super::table::{Section, Table, cell, spread};

pub fn hits(results: &Results) -> Section {
    let heads: Vec<String> = TASKS.iter().map(usize::to_string).collect();
    let mut head = vec!["thousand numbers/s, by tasks"];
    head.extend(heads.iter().map(String::as_str));
    let mut rates = Table::new(&head);
    for (way, label, ..) in WAYS.iter().filter(|(way, ..)| *way != "clock") {
        let stat = |tasks: &usize| results.stat(&format!("hits/{way}/{tasks}"));
        rates
            .row(label, TASKS.iter().map(|tasks| spread(stat(tasks).map(|stat| stat.times(1e-3)))));
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
        "A process that draws from one sequence with the Rust client (see [clients-rust.md](clients-rust.md)), which \
         leases ranges of values and serves them from its own memory; and the same by round trips of prepared \
         statements. A call of the client takes {} ns of a processor in a loop, and found a number in memory in {} % of all cases. \
         The percentiles include reading a clock once for each call, and what other tasks and the server took of the cores.",
        cell(results.median("hits/ns")),
        results.median("hits/share").map_or_else(|| "–".to_owned(), |share| format!("{share:.5}")),
    );
    let tables = vec![rates, table(1), table(8)];
    Section { title: "Numbers from a client's memory", text, tables, picture: None }
}

pub fn fleet(results: &Results) -> Section {
    let sum = |what: &str| cell(results.sum(what));
    let mut steady = Table::new(&["steady state", "measured"]);
    for (what, label) in [
        ("rate", "numbers a second"),
        ("memory", "% of them from the memory of the client"),
        ("waits", "calls that waited for the server"),
        ("leases", "leases a second, from the server's pool"),
        ("blocks", "blocks a second that the server reserved in the catalog"),
        ("commits", "commits a second on the server, its own reservations included"),
        ("catalog", "commits for a hundred numbers"),
    ] {
        steady.row(label, [sum(&format!("fleet/{what}"))]);
    }
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
         buffer of {} s. Then the server is stopped for {} s, and nobody tells the clients. The last table has the same \
         steady state for both clients, against hilo and against [hilo_lite](lite.md).{}",
        short(results.words("fleet counters").parse().unwrap_or(0.0)),
        results.words("buffer"),
        results.words("outage"),
        match results.words("pairs were measured") {
            "?" => String::new(),
            later => format!(" Its rows but the first were measured {later}."),
        },
    );
    let tables = vec![steady, outage, pairs];
    Section { title: "Many clients, and an outage", text, tables, picture: None }
}

pub fn branches(results: &Results) -> Section {
    let sum = |name: &str, what: &str| cell(results.sum(&format!("branches/{name}/{what}")));
    let mut steady = Table::new(&["steady state", "measured"]);
    for (what, label) in [
        ("rate", "numbers a second that all branches drew"),
        ("received", "numbers a second that they received"),
        ("commits", "commits a second at the centre, its own reservations included"),
        ("writes", "of these, such that have written anything"),
        ("writes for 50k", "such commits for 50,000 numbers that branches received"),
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
    let mut calls = Table::new(&["a call, ns", "median (quartiles)", "times its own"]);
    for (way, label) in [
        ("own", "a sequence without a source"),
        ("far", "a branch's"),
        ("beside", "without a source, while that of another does not answer"),
    ] {
        let name = format!("branches/call/{way}");
        let ratio = cell(results.ratio(&name, "branches/call/own"));
        calls.row(label, [spread(results.stat(&name)), ratio]);
    }
    let text = format!(
        "{} branches draw from {} sequences of one centre ([fleet.md](fleet.md)) at a fixed rate, through links of \
         100 ms a round trip, with a reserve_ahead of {} s. Then the centre is stopped for {} s, killed, frozen \
         (SIGSTOP) as long, and its standby is promoted. The longest is that of a statement with a number of each \
         sequence. All servers share this machine, and none waits for its disk (`fsync = off`): the processors make \
         most of it. A branch asks for a sequence every 400 s or so, and the steady state is shorter: meanwhile branches \
         use what they hold from the start. Calls are measured on one server, interleaved. `make bench ONLY=branch` \
         measures this alone.",
        results.words("branches"),
        results.words("sequences of each"),
        results.words("reserve_ahead"),
        results.words("outage of the centre"),
    );
    let tables = vec![steady, faults, calls];
    Section { title: "Branches", text, tables, picture: None }
}
