//! The needs of a release: versions that agree, notes, checksums, and a workflow whose steps are
//! make targets.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use yaml_rust2::YamlLoader;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn script(name: &str, target: &Path, tag: Option<&str>) -> Output {
    let mut script = Command::new(root().join("scripts").join(name));
    script.env("CARGO_TARGET_DIR", target).env_remove("TAG");
    script.envs(tag.map(|tag| ("TAG", tag))).output().expect("cannot run a script")
}

/// The crates, the wheel, hilo_lite and META.json have the version of the extension, and CHANGELOG.md has a section of it. A tag
/// of another version is refused.
#[test]
fn versions_agree_and_have_notes() {
    let target = nix::unistd::mkdtemp("/tmp/hilo-release-XXXXXX").expect("a directory");
    let made = script("release-notes", &target, None);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let notes = fs::read_to_string(target.join("release-notes.md")).expect("the notes");
    assert!(notes.contains("### ") && !notes.contains("\n## "), "{notes}");
    let refused = script("release-notes", &target, Some("v9.9.9"));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("META.json"), "{said}");
    fs::remove_dir_all(target).expect("it is ours");
}

/// The checksums are of all files but the notes.
#[test]
fn checksums_are_those_of_the_files() {
    let target = nix::unistd::mkdtemp("/tmp/hilo-release-XXXXXX").expect("a directory");
    let files = target.join("release-files");
    fs::create_dir(&files).expect("a directory");
    for (name, text) in [("release-notes.md", "notes"), ("a.deb", "a"), ("b.whl", "b")] {
        fs::write(files.join(name), text).expect("a file");
    }
    assert!(script("checksums", &target, None).status.success());
    let sums = fs::read_to_string(files.join("SHA256SUMS")).expect("checksums");
    let names: Vec<&str> = sums.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    assert_eq!(names, ["a.deb", "b.whl"]);
    fs::remove_dir_all(target).expect("it is ours");
}

/// The workflow makes what anybody can make, and it names what the targets make.
#[test]
fn the_workflow_runs_make_targets() {
    let text =
        fs::read_to_string(root().join(".github/workflows/release.yml")).expect("it is there");
    YamlLoader::load_from_str(&text).expect("it is YAML");
    let makefile = fs::read_to_string(root().join("Makefile")).expect("it is there");
    let mut targets: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("run: make "))
        .filter_map(|words| words.split(' ').next())
        .collect();
    targets.sort();
    assert_eq!(
        targets,
        ["checksums", "crates", "dist", "image", "release-debian", "release-notes", "wheel"]
    );
    for target in targets {
        assert!(makefile.contains(&format!("\n{target}: ## ")), "{target}");
        assert!(root().join("scripts").join(target).exists(), "{target}");
    }
}
