//! The scenes of clients/scenes: a server misbehaves on purpose, and a client keeps to the rules of clients/protocol.md.

use std::env::var;
use std::path::Path;
use std::thread;

use hilo_tests::example::Example;
use hilo_tests::run;

use super::cluster;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The clients in Rust and Python, or the one whose program `HILO_CLIENT` names, see nothing in any scene but what the rules
/// allow.
#[test]
fn every_scene_ends_well_with_every_client() {
    let Some(python) = Example::find("python") else { return };
    let cluster = cluster();
    let play = format!("{ROOT}/clients/scenes/play.py");
    let script = python.command(&cluster, &["python3", "tests/drive.py"]);
    let script =
        [script.get_program().to_str().expect("a path"), "tests/drive.py"].map(String::from);
    let clients = match var("HILO_CLIENT") {
        Ok(program) => vec![program.split_whitespace().map(String::from).collect()],
        Err(_) => vec![vec![env!("CARGO_BIN_EXE_drive").to_owned()], script.to_vec()],
    };
    thread::scope(|scope| {
        for client in &clients {
            let mut command = python.command(&cluster, &["python3", &play]);
            scope.spawn(move || print!("{}", run(command.args(client))));
        }
    });
    cluster.finish();
}

/// Each scene names a rule of the page, and each numbered rule has a scene.
#[test]
fn every_rule_has_a_scene() {
    let read =
        |file: &str| std::fs::read_to_string(Path::new(ROOT).join(file)).expect("it is there");
    let page = read("clients/protocol.md");
    let scenes: Vec<serde_json::Value> =
        serde_json::from_str(&read("clients/scenes/scenes.json")).expect("the scenes");
    let rules = || scenes.iter().map(|scene| scene["rule"].as_str().expect("a rule"));
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for rule in rules() {
        assert!(text.contains(rule), "the page has no rule {rule:?}");
    }
    for number in 1..=7 {
        let (_, rule) = page.split_once(&format!("\n{number}. **")).expect("a rule");
        assert!(rules().any(|named| rule.starts_with(named)), "rule {number} has no scene");
    }
}
