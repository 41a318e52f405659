//! Tortures hilo for some minutes and prints the figures: see docs/reliability.md.

use std::process::ExitCode;
use std::time::Duration;

use hilo_torture::{Plan, Scene, torture};

fn number(name: &str, default: f64) -> f64 {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => {
            text.parse().unwrap_or_else(|_| panic!("{name} is to be a number, not {text:?}"))
        }
        _ => default,
    }
}

/// The one scene that is asked for, if any.
fn scene() -> Option<Scene> {
    let name = std::env::var("SCENE").ok().filter(|name| !name.is_empty())?;
    Some(Scene::by_name(&name).unwrap_or_else(|| {
        panic!("SCENE is to be one of {:?}, not {name:?}", Scene::ALL.map(Scene::name))
    }))
}

fn main() -> ExitCode {
    let plan = Plan {
        time: Duration::from_secs_f64(number("MINUTES", 5.0) * 60.0),
        sessions: number("SESSIONS", 24.0) as usize,
        seed: number("SEED", f64::from(std::process::id())) as u64,
        batch: number("BATCH", 2_000.0) as i64,
        pause: number("PAUSE", 2_000.0) as u64,
        refuse_memory: std::env::var("REFUSE_MEMORY").as_deref() != Ok("no"),
        scene: scene(),
    };
    let only = plan.scene.map_or(String::new(), |scene| format!(" SCENE={}", scene.name()));
    let command =
        format!("make torture MINUTES={} SEED={}{only}", plan.time.as_secs_f64() / 60.0, plan.seed);
    eprintln!("{command}: {} sessions", plan.sessions);
    let verdict = torture(&plan);
    println!("`{command}`\n\n{}", verdict.table());
    let findings = verdict.findings();
    findings.iter().for_each(|finding| println!("* {finding}"));
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
