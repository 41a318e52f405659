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
    let only = std::env::var("ONLY").unwrap_or_default();
    let beside = std::env::var("BESIDE").ok();
    if !only.is_empty() {
        println!("{}", run_only(plan, &only, &places, beside.as_deref(), set("KEEP")));
        return ExitCode::SUCCESS;
    }
    let wrong = run(plan, &places, beside.as_deref(), set("AGAIN"));
    wrong.iter().for_each(|what| eprintln!("error: {what}"));
    println!("{}", places.root.join("docs/benchmarks.md").display());
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
