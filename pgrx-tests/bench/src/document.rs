//! docs/benchmarks.md, and its short table in the README.

use std::fs;

use super::Places;
use super::machine::SETTINGS;
use super::pictures::PICTURES;
use super::results::{Results, write as write_file};
use super::sections;
use super::table::{Section, Table};
use super::targets::{TARGETS, Verdict};

const BEGIN: &str = "<!-- make bench writes what follows -->";
const END: &str = "<!-- make bench wrote what stands above -->";

const INTRODUCTION: &str = "# What a number costs

Measured beside core's sequences, counter tables and UUIDs, on one throwaway server. `make bench` takes all of it and writes this
page, its pictures and all samples ([benchmarks.tsv](benchmarks.tsv)): do not edit it. `make bench AGAIN=1` writes it from the samples, and
`make bench ONLY=… KEEP=1` measures one section again, and says so here. `make bench PG=18` puts its short table beside that of 15.

Each round measures all contenders, and starts with a different one each time. Numbers are medians, ratios are ratios of medians of this
run. Clients and server share the cores. The page leaves out [many numbers at once](images/bulk.svg), [a statement for each
number](images/statements.svg), [short connections](images/burned.svg) and parallel queries, of which only hilo's stay parallel.
";

/// The output of `make bench-refill`, copied by hand.
const REFILLS: &str = "## Refills at full speed

`make bench-refill STEADY_SECONDS=30` measures how the worker keeps up, with PostgreSQL 15.20 and `fsync = off` on two cores that other
work kept busy. Eight sessions draw 100,000 values in each statement for 30 s. Two hundred sessions that find the pool dry at once cause one
reservation. On virtual time, with 10 ms for a reservation, nobody waits at 10 million values a second from the third second on.

| `hilo.prefetch` | million/s | reservations for a million values | waits | longest wait, ms |
| --- | ---: | ---: | ---: | ---: |
| on | 7.9 | 0.85 | 0 | 0 |
| off | 7.7 | 0.95 | 578 | 288 |
";

/// Writes the documents. Returns what is missing in them.
pub fn write(results: &Results, places: &Places) -> Vec<String> {
    let verdicts: Vec<Verdict> = TARGETS.iter().map(|target| target.judge(results)).collect();
    results.take_later();
    let text = [
        INTRODUCTION.to_owned(),
        format!("## In short\n\n{}", sections::summary(results).markdown()),
        beside(places),
        machine(results),
        to_reach(&verdicts),
        sections::ON_PAGE.map(|section| markdown(&dated(results, section))).join("\n"),
        REFILLS.to_owned(),
    ]
    .join("\n");
    write_file(&places.root.join("docs/benchmarks.md"), &text);
    let readme = fs::read_to_string(&places.readme).expect("cannot read the README");
    let mut wrong = Vec::new();
    match with_block(&readme, &block(results)) {
        Some(readme) => write_file(&places.root.join("README.md"), &readme),
        None => wrong.push(format!("README.md has no line {BEGIN:?} before a line {END:?}")),
    }
    wrong.extend(missing(results, &verdicts, places));
    wrong
}

/// The sections that have a number.
pub fn numbered_sections(results: &Results) -> String {
    let all = sections::ON_PAGE.iter().chain(&sections::PRINTED);
    all.map(|section| section(results))
        .filter(|section| section.tables.iter().any(|table| table.has_number()))
        .map(|section| markdown(&section))
        .collect::<Vec<_>>()
        .join("\n")
}

/// A section, with the time of its measurement if that was later than the others.
fn dated(results: &Results, section: fn(&Results) -> Section) -> Section {
    let mut section = section(results);
    if let Some(when) = results.take_later() {
        section.text += &format!(" *Measured later: {when}.*");
    }
    section
}

/// The short table of a run with PostgreSQL 18, where there is one.
fn beside(places: &Places) -> String {
    let samples = places.beside("18");
    if !samples.is_file() {
        return String::new();
    }
    let results = Results::load(&samples);
    format!(
        "The same with {} and hilo {}, {}, on {} ([all samples](benchmarks-18.tsv)):\n\n{}",
        results.words("postgres"),
        results.words("hilo"),
        results.words("date"),
        results.words("processor"),
        sections::summary(&results).markdown()
    )
}

fn missing(results: &Results, verdicts: &[Verdict], places: &Places) -> Vec<String> {
    let failed = results.words("failed");
    let failed = (!failed.is_empty()).then(|| format!("not measured: {failed}"));
    let unknown = verdicts.iter().filter(|verdict| verdict.reached.is_none());
    let unknown = unknown.map(|verdict| format!("not measured: {}", verdict.goal));
    let pictures = PICTURES.iter().map(|name| places.root.join(format!("docs/images/{name}.svg")));
    let pictures = pictures.filter(|file| !file.is_file());
    let pictures = pictures.map(|file| format!("not drawn: {}", file.display()));
    failed.into_iter().chain(unknown).chain(pictures).collect()
}

fn machine(results: &Results) -> String {
    let mut table = Table::new(&["", "of the run"]);
    let said = |name: &str| results.words(name).to_owned();
    table.row(
        "machine",
        [format!("{}, {} cores, {}", said("processor"), said("cores"), said("memory"))],
    );
    table.row("system", [said("system")]);
    table.row(
        "versions",
        [format!("{}, hilo {}, {}", said("postgres"), said("hilo"), said("rustc"))],
    );
    table.row("run", [format!("{}, {} of measuring", said("date"), said("time"))]);
    let rounds = |key| results.samples(key).len();
    let rounds = [rounds("call/hilo"), rounds("throughput/hilo/8"), rounds("insert/hilo")];
    let [calls, sessions, inserts] = rounds;
    table
        .row("rounds", [format!("{calls} of calls, {sessions} of sessions, {inserts} of inserts")]);
    let settings = SETTINGS.map(|(name, value)| format!("`{name} = {value}`")).join(", ");
    format!(
        "## Where and when\n\n{}\nSettings: {settings}; all others have their defaults.\n",
        table.markdown()
    )
}

/// Which goals the run has missed, and why.
fn to_reach(verdicts: &[Verdict]) -> String {
    let mut table = Table::new(&["target that is not reached", "limit", "measured"]);
    let missed = verdicts.iter().filter(|verdict| verdict.reached == Some(false));
    let mut why: Vec<&str> = Vec::new();
    for verdict in missed {
        table.row(verdict.goal, [verdict.limit.clone(), verdict.measured.clone()]);
        let reason = if verdict.why.is_empty() { "Not yet explained." } else { verdict.why };
        if !why.contains(&reason) {
            why.push(reason);
        }
    }
    let reached = verdicts.iter().filter(|verdict| verdict.reached == Some(true)).count();
    let reached = format!("{reached} of {} targets are reached.", verdicts.len());
    format!("## Targets\n\n{reached}\n\n{}\n{}\n", table.markdown(), why.join("\n"))
}

fn markdown(section: &Section) -> String {
    let tables: Vec<String> = section.tables.iter().map(Table::markdown).collect();
    let picture = section.picture.map(|(file, alt)| format!("\n![{alt}](images/{file}.svg)\n"));
    let picture = picture.unwrap_or_default();
    format!("## {}\n\n{}\n\n{}{picture}", section.title, section.text, tables.join("\n"))
}

/// The part for the README.
fn block(results: &Results) -> String {
    format!(
        "{}\nMedians of one run on {} cores ({}); *ns for a call* is the time beyond that of a function that does nothing.\n\n\
         ![Microseconds for a row, by the default of its key](docs/images/insert.svg)\n\n\
         ![Numbers a second by the number of sessions](docs/images/throughput.svg)\n",
        sections::summary(results).markdown(),
        results.words("cores"),
        results.words("processor"),
    )
}

/// The README with `block` between its marks.
fn with_block(readme: &str, block: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{block}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_changes_between_its_marks_only() {
        let readme = format!("a\n{BEGIN}\nold\n{END}\nb");
        let new = with_block(&readme, "new\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb"));
        assert_eq!(with_block("no marks", "new"), None);
    }

    #[test]
    fn a_run_that_measured_nothing_is_complete_in_nothing() {
        let verdicts: Vec<Verdict> =
            TARGETS.iter().map(|target| target.judge(&Results::default())).collect();
        let places = Places { root: "/nowhere".into(), readme: "/nowhere".into() };
        let wrong = missing(&Results::default(), &verdicts, &places);
        assert_eq!(wrong.len(), 1 + TARGETS.len() + PICTURES.len());
    }
}
