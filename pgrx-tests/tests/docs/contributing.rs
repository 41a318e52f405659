//! The statements of CONTRIBUTING.md about the repository are true: its files exist, it lists every
//! switch, and
//! `make test` says what can be tested.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use yaml_rust2::YamlLoader;

/// The system's own, which are not set for hilo.
const FOREIGN: [&str; 7] =
    ["BASH_SOURCE", "CARGO_HOME", "PATH", "PGHOST", "RUST_FLAG", "TERM", "VERSION_CODENAME"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The texts of all files below a folder.
fn texts(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = entries.map(|entry| entry.expect("cannot read an entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => texts(&path),
            false => fs::read_to_string(path).into_iter().collect(),
        })
        .collect()
}

/// "program module" and the texts of its files, for each module of a program of tests.
fn modules() -> BTreeMap<String, Vec<String>> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        entries.map(|entry| entry.expect("cannot read an entry").path()).collect::<Vec<_>>()
    };
    let name = |path: &Path| path.file_stem().expect("it has a name").display().to_string();
    let programs = entries(&root().join("pgrx-tests/tests"));
    let files = programs.iter().flat_map(|program| entries(program).into_iter());
    let files = files.filter(|file| !file.ends_with("main.rs"));
    files
        .map(|file| {
            let program = name(file.parent().expect("it is in a program"));
            let texts = match file.is_dir() {
                true => texts(&file),
                false => fs::read_to_string(&file).into_iter().collect(),
            };
            (format!("{program} {}", name(&file)), texts)
        })
        .collect()
}

/// The texts between backquotes.
fn between_quotes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The capital names that directly follow one of `before` in a text.
fn names<'a>(text: &'a str, before: &[&str]) -> BTreeSet<&'a str> {
    let capital = |c: char| c.is_ascii_uppercase() || c == '_';
    before
        .iter()
        .flat_map(|before| text.split(before).skip(1))
        .map(|rest| rest.split(|c| !capital(c)).next().unwrap_or_default())
        .filter(|name| name.len() > 1 && !FOREIGN.contains(name))
        .collect()
}

/// Every path in CONTRIBUTING.md, SECURITY.md and docs/architecture.md leads to something.
#[test]
fn files_that_are_named_exist() {
    let folders = ["src/", "sql/", "docs/", "scripts/", "pgrx-tests/", "monitoring/", ".github/"];
    let mut found = 0;
    for document in ["CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md"] {
        let text = read(document);
        for path in
            between_quotes(&text).filter(|path| folders.iter().any(|of| path.starts_with(of)))
        {
            found += 1;
            let pattern = path.contains('*');
            assert!(pattern || root().join(path).exists(), "{document} names {path}");
        }
    }
    assert!(found > 50, "only {found} paths");
}

/// Every environment variable that a test or a script reads is in the table.
#[test]
fn switches_are_listed() {
    let page = read("CONTRIBUTING.md");
    let listed: BTreeSet<&str> = between_quotes(&page).collect();
    let mut found = BTreeSet::new();
    for text in texts(&root().join("pgrx-tests")) {
        let read = names(&text, &["var(\"", "var_os(\"", "number(\"", "set(\""]);
        found.extend(read.into_iter().map(str::to_owned));
    }
    for text in texts(&root().join("scripts")) {
        found.extend(names(&text, &["${"]).into_iter().map(str::to_owned));
    }
    let exported = read("Makefile");
    let exported = exported.lines().find_map(|line| line.strip_prefix("export "));
    found.extend(exported.expect("switches").split(' ').map(str::to_owned));
    let missing: Vec<&String> =
        found.iter().filter(|name| !listed.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md lacks {missing:?}");
    assert!(found.len() > 20, "{found:?}");
}

/// A test that does not exist is answered with those that do, before anything is built.
#[test]
fn an_unknown_test_is_answered_with_the_known_ones() {
    let run = |switches: &[(&str, &str)]| {
        let mut command = Command::new(root().join("scripts/test"));
        command.env_remove("TEST").env_remove("CASE").envs(switches.iter().copied());
        let output = command.output().expect("cannot run scripts/test");
        assert!(!output.status.success(), "{switches:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let unknown = run(&[("TEST", "crush")]);
    assert!(unknown.contains("there is no test crush"), "{unknown}");
    for said in ["durable:", "crash", "parity", "torture:"] {
        assert!(unknown.split_whitespace().any(|word| word == said), "{unknown}");
    }
    assert!(run(&[("CASE", "kill")]).contains("set that too"));
}

/// Each program that `make test` repeats on other versions of the server exists, and each test that
/// asks for the version is in it.
#[test]
fn what_depends_on_the_version_is_repeated() {
    let script = read("scripts/test");
    let (_, list) = script.split_once("depends_on_version=(\n").expect("there is a list");
    let (list, _) = list.split_once("\n)").expect("it ends");
    let lines = list.lines().filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix('"'));
    let mut listed = BTreeSet::new();
    for (program, modules) in lines.map(|line| line.split_once(' ').unwrap_or((line, ""))) {
        listed.extend(modules.split_whitespace().map(|module| format!("{program} {module}")));
        if modules.is_empty() {
            listed.insert(program.to_owned());
        }
    }
    let modules = modules();
    let programs: BTreeSet<_> = modules.keys().map(|name| name.split(' ').next()).collect();
    // The list may name some files of a module.
    let listed: BTreeSet<_> =
        listed.iter().map(|name| name.split("::").next().unwrap_or_default()).collect();
    for name in listed.iter().copied() {
        let exists = modules.contains_key(name) || programs.contains(&Some(name));
        assert!(exists || name == "torture", "there is no test {name}");
    }
    let question = concat!(".version", "()");
    let mut asking = 0;
    for (name, texts) in &modules {
        let program = name.split(' ').next().unwrap_or_default();
        if texts.iter().any(|text| text.contains(question)) {
            asking += 1;
            assert!(
                listed.contains(name.as_str()) || listed.contains(program),
                "{name} asks for the version"
            );
        }
    }
    assert!(asking > 5, "only {asking} tests");
}

/// The workflow runs what `.ci/run` runs, and what it looks for exists.
#[test]
fn the_workflow_runs_the_tests() {
    let text = read(".github/workflows/ci.yml");
    let workflow = &YamlLoader::load_from_str(&text).expect("it is YAML")[0];
    let steps = workflow["jobs"]["test"]["steps"].as_vec().expect("it has steps");
    assert!(steps.iter().any(|step| step["run"].as_str() == Some(".ci/run")));
    assert!(read(".ci/run").lines().any(|line| line == "exec make test"));
    let key = steps.iter().find_map(|step| step["with"]["key"].as_str()).expect("it has a cache");
    let paths: Vec<&str> = key.split('\'').skip(1).step_by(2).collect();
    assert!(paths.len() > 2, "{paths:?}");
    for path in paths {
        let (folder, file) = path.split_once("/*/").unwrap_or((path, ""));
        let found = match file {
            "" => root().join(path).exists(),
            file => fs::read_dir(root().join(folder))
                .expect("cannot read a folder")
                .any(|entry| entry.expect("cannot read an entry").path().join(file).exists()),
        };
        assert!(found, "there is no {path}");
    }
}

/// A build that a script starts is a make of its own: PostgreSQL's leaves out its generated headers where another make has
/// started it.
#[test]
fn a_script_tells_no_build_of_the_make_that_runs_it() {
    let mut bash = Command::new("bash");
    bash.args(["-c", ". scripts/common && env"]).current_dir(root());
    let told = [("MAKELEVEL", "1"), ("MAKEFLAGS", "k -- PG=18"), ("MFLAGS", "-k")];
    let output = bash.envs(told).output().expect("cannot run bash");
    assert!(output.status.success());
    let environment = String::from_utf8_lossy(&output.stdout);
    for (name, _) in told {
        assert!(!environment.contains(&format!("\n{name}=")), "{name} is left");
    }
}
