//! Measures hilo and others side by side, and writes docs/benchmarks.md: see there.

use std::env::var_os;
use std::path::PathBuf;
use std::process::ExitCode;

use hilo_bench::{Places, Plan, is_process, run, run_only};

fn set(name: &str) -> bool {
    var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

fn main() -> ExitCode {
    if is_process() {
        return ExitCode::SUCCESS;
    }
    let checkout = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let root = var_os("BENCH_OUTPUT").filter(|path| !path.is_empty());
    let places =
        Places { readme: checkout.join("README.md"), root: root.map_or(checkout, PathBuf::from) };
    let plan = if set("QUICK") { Plan::quick() } else { Plan::full() };
    if let Some(only) = std::env::var("ONLY").ok().filter(|only| !only.is_empty()) {
        let samples = places.root.join("target/bench-only.tsv");
        let page = set("KEEP").then_some(&places);
        println!("{}", run_only(plan, &only, &samples, page));
        return ExitCode::SUCCESS;
    }
    let wrong = run(plan, &places, set("AGAIN"));
    wrong.iter().for_each(|what| eprintln!("error: {what}"));
    println!("{}", places.root.join("docs/benchmarks.md").display());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
