//! The pictures of the document, each from the samples of one measurement.

use std::fs;
use std::path::Path;

use super::chart::{Bar, Line, Scale, bars, lines};
use super::contenders::*;
use super::results::{Results, Stat};
use super::{calls, copies, first, footprint, inserts, latency, throughput};

/// Every picture that a document has.
pub const PICTURES: [&str; 11] = [
    "call",
    "bulk",
    "throughput",
    "statements",
    "insert",
    "copy",
    "latency",
    "wal",
    "burned",
    "many",
    "first",
];

/// Draws all pictures into `folder`.
pub fn draw(results: &Results, folder: &Path) {
    fs::create_dir_all(folder).expect("cannot create the folder of the pictures");
    let file = |name: &str| folder.join(format!("{name}.svg"));
    let drawn = [
        call(results, &file("call")),
        bulk(results, &file("bulk")),
        sessions(results, &file("throughput"), "throughput", &throughput::SESSIONS),
        sessions(results, &file("statements"), "statements", &throughput::PGBENCH_SESSIONS),
        insert(results, &file("insert")),
        copy(results, &file("copy")),
        long_calls(results, &file("latency")),
        wal(results, &file("wal")),
        gaps_per_connection(results, &file("burned")),
        many(results, &file("many")),
        first_calls(results, &file("first")),
    ];
    for (name, drawn) in PICTURES.iter().zip(drawn) {
        drawn.unwrap_or_else(|error| panic!("cannot draw {name}: {error}"));
    }
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn bar(contender: &Contender, stat: Option<Stat>) -> Option<Bar> {
    let Contender { label, colour, .. } = contender;
    stat.map(|stat| Bar { label: (*label).to_owned(), stat, colour: *colour })
}

fn call(results: &Results, file: &Path) -> Drawn {
    let over = |contender: &&Contender| {
        let floor = format!("call/{}", contender.floor);
        bar(contender, results.over(&format!("call/{}", contender.id), &floor))
    };
    // The bar of a uuid would make all others small.
    let shown = CALLED.iter().filter(|contender| contender.id != "uuid");
    let all: Vec<Bar> = shown.filter_map(over).collect();
    let unit = "nanoseconds over a function that does nothing, in a long SELECT";
    bars(file, "What a number costs", unit, Scale::Linear, &all)
}

fn bulk(results: &Results, file: &Path) -> Drawn {
    let ways = [
        ("nextval", "n calls", HILO.colour),
        ("nextvals", "hilo_nextvals(n)", ORDERED.colour),
        ("nextrange_rows", "hilo_nextrange(n) as rows", KEYS.colour),
        ("nextrange", "hilo_nextrange(n)", CORE_1.colour),
        ("generate_series", "generate_series(1, n)", FLOOR_HILO.colour),
    ];
    let sizes = bulk_sizes(results);
    let line = |(way, label, colour): (&str, &str, [u8; 3])| {
        let stat = |size: &u64| results.stat(&format!("bulk/{way}/{size}"));
        let stats = sizes.iter().map(|size| Some(stat(size)?.times(1e-3))).collect();
        Line { label: label.to_owned(), stats, colour }
    };
    let words = ("Many numbers at once", "microseconds for a statement", "numbers");
    let places: Vec<String> = sizes.iter().map(u64::to_string).collect();
    lines(file, words, Scale::Log, &places, &ways.map(line))
}

/// The sizes that were measured: a quick run has smaller ones.
pub fn bulk_sizes(results: &Results) -> Vec<u64> {
    let most = results.words("calls").parse().unwrap_or(u64::MAX);
    calls::BULK_SIZES.map(|size| size.min(most)).to_vec()
}

fn sessions(results: &Results, file: &Path, key: &str, sessions: &[usize]) -> Drawn {
    let single = key == "statements";
    let shown: &[&Contender] = if single {
        &[&CORE_1, &CORE_1000, &HILO, &ORDERED, &COUNTER, &FLOOR_HILO]
    } else {
        &[&CORE_1, &CORE_32, &CORE_100, &CORE_1000, &HILO, &ORDERED, &KEYS, &UUID, &FLOOR_HILO]
    };
    let factor = if single { 1e-3 } else { 1e-6 };
    let line = |contender: &&Contender| {
        let stat = |count: &usize| results.stat(&format!("{key}/{}/{count}", contender.id));
        let stats = sessions.iter().map(|count| Some(stat(count)?.times(factor))).collect();
        let label = contender.label.replace("floor of hilo", "floor: does nothing");
        Line { label, stats, colour: contender.colour }
    };
    let all: Vec<Line> = shown.iter().map(line).collect();
    let places: Vec<String> = sessions.iter().map(usize::to_string).collect();
    let words = if single {
        ("One statement for each number", "thousands a second of all sessions", "sessions")
    } else {
        ("Sessions that draw from one sequence", "millions a second of all sessions", "sessions")
    };
    lines(file, words, Scale::Linear, &places, &all)
}

fn insert(results: &Results, file: &Path) -> Drawn {
    let row = |contender: &&Contender| {
        let stat = results.stat(&format!("insert/{}", contender.id))?;
        bar(contender, Some(stat.times(1e-3)))
    };
    let floor = results.stat("insert/floor").map(|stat| Bar {
        label: "no default".to_owned(),
        stat: stat.times(1e-3),
        colour: FLOOR_HILO.colour,
    });
    let all: Vec<Bar> = inserts::DEFAULTS.iter().filter_map(row).chain(floor).collect();
    let title = "INSERT … SELECT with the number as the primary key's default";
    bars(file, title, "microseconds for a row", Scale::Linear, &all)
}

fn copy(results: &Results, file: &Path) -> Drawn {
    let row = |contender: &&Contender| {
        let stat = results.stat(&format!("copy/table/{}", contender.id))?;
        bar(contender, Some(stat.times(1e-3)))
    };
    let floor = results.stat("copy/table/floor").map(|stat| Bar {
        label: "no default".to_owned(),
        stat: stat.times(1e-3),
        colour: FLOOR_HILO.colour,
    });
    // The bar of a uuid would make all others small.
    let shown = copies::LOADED.iter().filter(|contender| contender.id != "uuid");
    let all: Vec<Bar> = shown.filter_map(row).chain(floor).collect();
    let title = "COPY with the number as a column default";
    bars(file, title, "microseconds for a row", Scale::Linear, &all)
}

fn long_calls(results: &Results, file: &Path) -> Drawn {
    let colours = [
        FLOOR_HILO.colour,
        CORE_1.colour,
        CORE_100.colour,
        CORE_1000.colour,
        HILO.colour,
        ORDERED.colour,
        UUID.colour,
        CORE_32.colour,
    ];
    let line = |((id, label, _), colour): (&(&str, &str, &str), [u8; 3])| {
        let stat = |name| results.stat(&format!("latency/8/{id}/{name}"));
        // The clock's resolution is one.
        let shown = |stat: Stat| Stat { median: stat.median.max(1.0), ..stat };
        let stats = latency::PERCENTILES.iter().map(|(name, _)| stat(name).map(shown)).collect();
        Line { label: (*label).to_owned(), stats, colour }
    };
    let all: Vec<Line> = latency::TIMED.iter().zip(colours).map(line).collect();
    let places = latency::PERCENTILES.map(|(name, _)| name.to_owned());
    let words =
        ("How long a call takes, of eight sessions", "microseconds", "calls that take no longer");
    lines(file, words, Scale::Log, &places, &all)
}

fn wal(results: &Results, file: &Path) -> Drawn {
    let all: Vec<Bar> = CALLED
        .iter()
        .chain(&[&COUNTER])
        .filter_map(|contender| {
            let stat = results.stat(&format!("wal/bytes/{}", contender.id))?;
            bar(contender, Some(stat.times(1e-3)))
        })
        .collect();
    bars(file, "WAL for a million numbers", "kB", Scale::Log, &all)
}

fn gaps_per_connection(results: &Results, file: &Path) -> Drawn {
    let all: Vec<Bar> = footprint::SHORT
        .iter()
        .filter_map(|contender| bar(contender, results.stat(&format!("burned/{}", contender.id))))
        .collect();
    let count = results.words("connections");
    let unit = format!("numbers that none got, of {count} connections that take one each");
    bars(file, "What short connections burn", &unit, Scale::Linear, &all)
}

fn many(results: &Results, file: &Path) -> Drawn {
    let crowds = crowds(results);
    let line = |(way, label, colour): (&str, &str, [u8; 3])| {
        let stat =
            |n: &u64| results.over(&format!("many/{way}/{n}"), &format!("many/floor_{way}/{n}"));
        Line { label: label.to_owned(), stats: crowds.iter().map(stat).collect(), colour }
    };
    let ways = [("hilo", "hilo", HILO.colour), ("core", "core, CACHE 32", CORE_32.colour)];
    let words = (
        "Sequences drawn from at random, by names made at run time",
        "nanoseconds for a call, over making the name",
        "sequences",
    );
    let places: Vec<String> = crowds.iter().map(u64::to_string).collect();
    lines(file, words, Scale::Linear, &places, &ways.map(line))
}

/// The numbers of sequences that were measured.
pub fn crowds(results: &Results) -> [u64; 4] {
    [1, 64, 1_000, results.words("sequences").parse().unwrap_or(10_000)]
}

fn first_calls(results: &Results, file: &Path) -> Drawn {
    let one = |when: &str, key: &str, contender: &Contender| {
        let stat = results.stat(&format!("first/{key}/{}", contender.id))?.times(1e-3);
        let label = contender.label.replace("floor of hilo", "floor");
        Some(Bar { label: format!("{label}, {when}"), stat, colour: contender.colour })
    };
    let after = |when, key| first::FIRST.into_iter().filter_map(move |who| one(when, key, who));
    let all: Vec<Bar> = after("connect", "connect").chain(after("start", "start")).collect();
    let unit = "milliseconds: a session's first call, and the first after the server's start";
    bars(file, "First calls", unit, Scale::Log, &all)
}
