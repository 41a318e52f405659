//! Each thing that leaves this repository is complete: the distribution for PGXN, and the files for
//! a container. Every file that is installed can be uninstalled.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use hilo_tests::{ClientExt, Cluster, blocks};
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Yaml {
    let documents = YamlLoader::load_from_str(&read(path)).expect("it is YAML");
    documents.into_iter().next().expect("it is not empty")
}

/// A directory that is removed with its owner.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        Directory(nix::unistd::mkdtemp("/tmp/hilo-dist-XXXXXX").expect("cannot create a directory"))
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().expect("it is below")).expect("cannot create a directory");
        fs::write(&file, text).expect("cannot write a file");
        file
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One of scripts/, with an environment of its own and what it builds in `target`.
fn script(name: &str, target: &Path, environment: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(root().join("scripts").join(name));
    for switch in ["PG", "PG_CONFIG", "HILO_PROFILE"] {
        command.env_remove(switch);
    }
    command.env("CARGO_TARGET_DIR", target);
    command.envs(environment.iter().copied()).output().expect("cannot run a script")
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

/// `make dist` makes what PGXN's clients take: one folder with the sources, the documents and a META.json that is true.
#[test]
fn the_distribution_is_complete() {
    if !root().join(".git").exists() {
        println!("skipped: this is no checkout");
        return;
    }
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("hilo-{version}");
    let target = Directory::new();
    succeeds(&script("dist", &target.0, &[]));
    let zip = File::open(target.0.join(format!("{name}.zip"))).expect("there is a distribution");
    zip::ZipArchive::new(zip).expect("it is a zip").extract(&target.0).expect("it unpacks");
    let folder = target.0.join(&name);
    let unpacked: BTreeSet<_> = fs::read_dir(&target.0)
        .expect("cannot read it")
        .map(|entry| entry.expect("cannot read an entry").file_name())
        .collect();
    assert_eq!(unpacked, [name.clone().into(), format!("{name}.zip").into()].into());
    for path in
        ["README.md", "LICENSE", "Makefile", "Cargo.lock", "hilo.control", "docs/install.md"]
    {
        assert!(folder.join(path).is_file(), "{path} is missing");
    }
    for path in [".git", ".ci", ".github", ".gitattributes", "target"] {
        assert!(!folder.join(path).exists(), "{path} is for developers");
    }
    let mode = fs::metadata(folder.join("scripts/build")).expect("a script").permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "scripts can be executed");

    let meta = fs::read_to_string(folder.join("META.json")).expect("it has META.json");
    let meta: Value = serde_json::from_str(&meta).expect("META.json is JSON");
    assert_accepted(&meta);
    assert_eq!([&meta["name"], &meta["version"]], ["hilo", version]);
    let hilo = &meta["provides"]["hilo"];
    assert_eq!(hilo["version"], version);
    for file in [&hilo["file"], &hilo["docfile"]] {
        let path = file.as_str().expect("it names a file");
        assert!(folder.join(path).is_file(), "there is no {path}");
    }
    let ignored = meta["no_index"]["directory"].as_array().expect("a list");
    assert!(ignored.iter().all(|path| folder.join(path.as_str().unwrap()).is_dir()), "{ignored:?}");
    let oldest = meta["prereqs"]["runtime"]["requires"]["PostgreSQL"].as_str().expect("a version");
    let oldest = oldest.strip_suffix(".0.0").expect("any minor version");
    let cargo = read("Cargo.toml");
    let first = cargo.split("\npg").nth(1).expect("Cargo.toml has a feature for each version");
    assert!(first.starts_with(&format!("{oldest} = ")), "{oldest}");
    // The functions that its clients call.
    for goal in ["all", "install", "uninstall"] {
        let mut make = Command::new("make");
        let output = make.args(["--dry-run", "PG_CONFIG=/x", goal]).current_dir(&folder).output();
        succeeds(&output.expect("cannot run make"));
    }
}

/// The rules that the PGXN Meta Spec 1.0.0 requires of the keys that we use; its validators check
/// the same and more.
fn assert_accepted(meta: &Value) {
    let required =
        ["name", "version", "abstract", "maintainer", "license", "provides", "meta-spec"];
    let optional = ["description", "generated_by", "tags", "no_index", "prereqs", "release_status"];
    let keys = meta.as_object().expect("an object");
    for key in required {
        assert!(keys.contains_key(key), "{key} is missing");
    }
    for key in keys.keys().map(String::as_str) {
        assert!(required.contains(&key) || optional.contains(&key), "the spec does not know {key}");
    }
    for key in ["name", "abstract", "maintainer", "license", "description", "generated_by"] {
        assert!(meta[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    let versions =
        [&meta["version"], &meta["provides"]["hilo"]["version"], &meta["meta-spec"]["version"]];
    for version in versions.map(|version| version.as_str().expect("a string")) {
        let parts: Vec<_> = version.split('.').collect();
        assert!(
            parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok()),
            "{version}"
        );
    }
    assert_eq!(meta["meta-spec"]["version"], "1.0.0");
    assert_eq!(meta["license"], "postgresql");
    assert!(
        ["stable", "testing", "unstable"].iter().any(|status| meta["release_status"] == *status)
    );
    let tags = meta["tags"].as_array().expect("a list");
    let distinct: BTreeSet<_> = tags.iter().map(|tag| tag.as_str().expect("a string")).collect();
    assert_eq!(distinct.len(), tags.len());
    assert!(
        distinct.iter().all(|tag| (1..=255).contains(&tag.len()) && !tag.contains(['/', '\\']))
    );
}

/// The container's image has what `make build` makes, and a database as docs/install.md recommends; the composition builds it.
#[test]
fn the_image_takes_what_is_built() {
    let dockerfile = read("Dockerfile");
    let version =
        dockerfile.lines().find_map(|line| line.strip_prefix("ARG PG=")).expect("a version");
    assert!(read("Cargo.toml").contains(&format!("\npg{version} = ")), "{version}");
    let said = Command::new("bash")
        .args(["-c", ". scripts/common; PG=$1; package_directory", "bash", version])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", "/hilo/target")
        .env_remove("HILO_PROFILE")
        .output()
        .expect("cannot run bash");
    let built = succeeds(&said).trim().replace(version, "${PG}");
    let copied = dockerfile.lines().filter(|line| line.starts_with("COPY --from=build"));
    assert!(
        copied.clone().count() == 3 && copied.clone().all(|line| line.contains(&built)),
        "{built}"
    );
    let page = read("docs/install.md");
    for line in blocks(&page, "sql")[0].lines().filter(|line| !line.contains("DATABASE")) {
        assert!(dockerfile.contains(&format!("'{line}'")), "{line}");
    }
    // Kubernetes mounts the image that scripts/image builds.
    let manifests = YamlLoader::load_from_str(&blocks(&page, "yaml")[0]).expect("it is YAML");
    let server = &manifests[0]["spec"]["postgresql"];
    let image = server["extensions"][0]["image"]["reference"].as_str().expect("an image");
    let tag = format!("/hilo-extension:{}-pg{version}", env!("CARGO_PKG_VERSION"));
    assert!(image.ends_with(&tag), "{image}");
    assert_eq!(server["shared_preload_libraries"][0].as_str(), Some("hilo"));
    let compose = yaml("compose.yaml");
    let service = &compose["services"]["db"];
    assert_eq!(service["build"]["context"].as_str(), Some("."));
    let chosen = format!("${{PG:-{version}}}");
    assert_eq!(service["build"]["args"]["PG"].as_str(), Some(chosen.as_str()));
    let (volume, place) =
        service["volumes"][0].as_str().and_then(|text| text.split_once(':')).expect("a volume");
    assert!(!compose["volumes"][volume].is_badvalue());
    // Where the data is differs from one version's image to another's, so it is said.
    let data = service["environment"]["PGDATA"].as_str().expect("it says where the data is");
    assert!(data.starts_with(place) && data.contains(&chosen), "{data} is not in {place}");
}

/// Makes what the scripts take for the server of an installation, and returns its pg_config.
fn installation(here: &Directory) -> PathBuf {
    let place = here.0.display();
    let asked = format!(
        "#!/bin/sh\ncase $1 in\n--version) echo PostgreSQL 15.1 ;;\n--pkglibdir) echo {place}/lib ;;\n\
         --sharedir) echo {place}/share ;;\n--bindir) echo {place} ;;\n--includedir-server) echo {place} ;;\nesac\n"
    );
    let pg_config = here.write("pg_config", &asked);
    let postgres = here.write("postgres", "");
    for program in [&pg_config, &postgres] {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).expect("cannot permit it");
    }
    here.write("postgres.h", "");
    fs::create_dir(here.0.join("lib")).expect("cannot create a directory");
    pg_config
}

/// Runs a script for an installation, with the tools of the system and no Rust, which may be one of them.
fn without_rust(name: &str, here: &Directory, pg_config: &Path) -> Output {
    let (target, tools) = (here.0.join("target"), here.0.join("tools"));
    if fs::create_dir(&tools).is_ok() {
        for tool in fs::read_dir("/usr/bin").expect("tools").map(|tool| tool.expect("a tool")) {
            if !["cargo", "rustc"].iter().any(|rust| tool.file_name() == *rust) {
                symlink(tool.path(), tools.join(tool.file_name())).expect("cannot link it");
            }
        }
    }
    script(name, &target, &[("PG_CONFIG", pg_config), ("PATH", &tools), ("HOME", &here.0)])
}

/// `make uninstall` removes what `make install` has put there, and nothing else. Root without Rust installs what has been
/// built.
#[test]
fn what_is_installed_can_be_uninstalled() {
    let here = Directory::new();
    let place = here.0.display();
    let pg_config = installation(&here);
    let others = [
        "lib/hilo_other.so",
        "share/extension/hilo_other.control",
        "share/extension/hilo_other--1.sql",
    ];
    others.iter().for_each(|path| drop(here.write(path, "")));
    let run = |name: &str| without_rust(name, &here, &pg_config);
    let unbuilt = run("install");
    assert!(!unbuilt.status.success());
    assert!(String::from_utf8_lossy(&unbuilt.stderr).contains("hilo is not built"), "{unbuilt:?}");
    let ours = ["lib/hilo.so", "share/extension/hilo.control", "share/extension/hilo--1.0.0.sql"];
    for path in ours {
        here.write(&format!("target/package-pg15{place}/{path}"), path);
    }
    let said = succeeds(&run("install"));
    assert!(said.contains("restart the server"), "{said}");
    for path in ours {
        assert_eq!(fs::read_to_string(here.0.join(path)).expect("it is installed"), path);
    }
    succeeds(&run("uninstall"));
    assert!(ours.iter().all(|path| !here.0.join(path).exists()));
    assert!(others.iter().all(|path| here.0.join(path).exists()));
    let again = run("uninstall");
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("hilo is not installed"), "{again:?}");
}

/// Whoever removes the Debian package is told which servers of that version load hilo.
#[test]
fn the_removal_of_the_package_names_the_servers_that_load_it() {
    let here = Directory::new();
    let program = here.write("prerm", &read("scripts/debian-prerm").replace("@PG@", "15"));
    let said = |goal: &str| {
        let mut sh = Command::new("sh");
        sh.arg(&program).arg(goal).env("DPKG_ROOT", &here.0);
        succeeds(&sh.output().expect("cannot run sh"))
    };
    here.write(
        "etc/postgresql/15/other/postgresql.conf",
        "#shared_preload_libraries = 'hilo'\nshared_preload_libraries = 'hilo_other, pg_cron'\n",
    );
    here.write("etc/postgresql/16/main/postgresql.conf", "shared_preload_libraries = 'hilo'\n");
    assert_eq!(said("remove"), "");
    let loading = [
        (
            "etc/postgresql/15/main/postgresql.conf",
            "shared_preload_libraries = 'pg_cron,hilo' # both\n",
        ),
        ("etc/postgresql/15/main/conf.d/hilo.conf", "session_preload_libraries=hilo\n"),
        (
            "var/lib/postgresql/15/two/postgresql.auto.conf",
            "shared_preload_libraries = '\"hilo\"'\n",
        ),
    ];
    loading.iter().for_each(|(path, text)| drop(here.write(path, text)));
    let named = said("remove");
    assert!(loading.iter().all(|(path, _)| named.contains(path)), "{named}");
    assert!(!named.contains("other") && !named.contains("16"), "{named}");
    assert_eq!(said("upgrade"), "");
}

/// A session that loads the library while `make install` replaces it has the old one or the new one, whole.
#[test]
fn an_installation_beside_a_running_server_harms_no_session() {
    let here = Directory::new();
    fs::set_permissions(&here.0, fs::Permissions::from_mode(0o755)).expect("cannot permit it");
    let place = here.0.display();
    let pg_config = installation(&here);
    let cluster = Cluster::builder().preload(false).start();
    let built = here.write(&format!("target/package-pg15{place}/lib/hilo.so"), "");
    let libraries: String =
        cluster.connect("postgres").one("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'");
    fs::copy(Path::new(&libraries).join("hilo.so"), &built).expect("cannot copy it");
    let install = || succeeds(&without_rust("install", &here, &pg_config));
    install();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut loaded = 0;
                    while !done.load(Relaxed) {
                        cluster.connect("postgres").run(&format!("LOAD '{place}/lib/hilo.so'"));
                        loaded += 1;
                    }
                    loaded
                })
            })
            .collect();
        (0..20).for_each(|_| drop(install()));
        done.store(true, Relaxed);
        assert!(sessions.into_iter().all(|session| session.join().expect("it loads it") > 0));
    });
    cluster.finish();
}
