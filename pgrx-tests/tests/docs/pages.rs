//! The code of the documents runs as printed, and their links lead to what is there.
//! docs/install.md, which begins before the extension and ends after it, runs in `install.rs`.
//!
//! Blocks marked ```sql are run in order, in one session per file, on the file's own database, and return what their
//! comments say; blocks marked ```sh of docs/operations.md run in a shell that finds the server. Blocks of any other kind
//! (```text) are not run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hilo_tests::{ClientExt, Cluster, anchors, blocks, links};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("cannot find the checkout")
}

/// The files directly in a folder of the checkout.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("cannot read a folder");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("cannot read an entry").path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    files
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// README.md, and all of docs/ and clients/.
fn documents() -> Vec<PathBuf> {
    let mut pages = [files("docs"), files("clients")].concat();
    pages.retain(|file| is_page(file));
    pages.push(root().join("README.md"));
    pages
}

/// Every page of the checkout.
fn pages() -> Vec<PathBuf> {
    let folders = [
        "",
        "docs",
        "clients",
        "clients/scenes",
        "examples",
        "pgrx-tests",
        ".github",
        ".github/ISSUE_TEMPLATE",
    ];
    folders.into_iter().flat_map(files).filter(|file| is_page(file)).collect()
}

/// Every SQL block of every document runs, and returns what its comments say; docs/install.md does in `install.rs`.
#[test]
fn sql_runs_as_printed() {
    let cluster = Cluster::builder().preload(true).start();
    let mut run = 0;
    let mut compared = 0;
    for (number, file) in documents().into_iter().enumerate() {
        let script = blocks(&read(&file), "sql").join("\n");
        if script.is_empty() || file.ends_with("install.md") {
            continue;
        }
        run += 1;
        println!("{}", file.display());
        let database = format!("docs_{number}");
        cluster.connect("postgres").run(&format!("CREATE DATABASE {database}"));
        if !script.contains("CREATE EXTENSION hilo") {
            cluster.connect(&database).run("CREATE EXTENSION hilo");
        }
        compared += cluster.run_as_printed(&database, &script);
    }
    assert!(run >= 2, "only {run} documents hold SQL");
    assert!(compared > 20, "only {compared} results were compared");
    cluster.finish();
}

/// How names of files end.
const FILES: [&str; 8] = ["html", "json", "py", "rb", "schema", "so", "sql", "yaml"];

/// Each function, view, table, column, type, setting and series that a document names exists.
#[test]
fn what_is_named_exists() {
    let cluster = Cluster::with_hilo();
    let known: BTreeSet<String> = cluster
        .connect("postgres")
        .all::<String>(
            "SELECT name FROM pg_settings UNION SELECT proname FROM pg_proc UNION SELECT typname FROM pg_type
             UNION SELECT relname FROM pg_class UNION SELECT attname FROM pg_attribute
             UNION SELECT '_hilo.' || proname FROM pg_proc WHERE pronamespace = '_hilo'::regnamespace
             UNION SELECT '_hilo.' || relname FROM pg_class WHERE relnamespace = '_hilo'::regnamespace
             UNION SELECT '_hilo.' || typname FROM pg_type WHERE typnamespace = '_hilo'::regnamespace",
        )
        .into_iter()
        // The files in lite/ and in clients/python.
        .chain(["hilo_lite", "hilo_request", "hilo_client", "hilo_default"].map(String::from))
        .collect();
    // Series are named by the exporter, in what reads them.
    let series: String = files("monitoring").iter().map(|file| read(file)).collect();
    let mut found = 0;
    for page in documents() {
        let text = read(&page);
        for word in text.split(|c: char| !c.is_ascii_lowercase() && c != '_' && c != '.') {
            let word = word.trim_matches('.');
            let named = word.starts_with("hilo.")
                || word.starts_with("_hilo.")
                || word.starts_with("hilo_");
            let parts: Vec<&str> = word.split('.').take(2).collect();
            if !named || word.ends_with('_') || FILES.contains(&parts[parts.len() - 1]) {
                continue;
            }
            found += 1;
            // A function in a schema of its own has that before its name.
            let qualified = parts.get(1).filter(|name| name.starts_with("hilo_"));
            let name = qualified.map_or(parts.join("."), |name| name.to_string());
            let exists = known.contains(&name) || series.contains(&name);
            assert!(exists, "{} names {word}", page.display());
        }
    }
    assert!(found > 500, "only {found} names");
    cluster.finish();
}

/// docs/reference.md has an entry for every function with its arguments, view and setting.
#[test]
fn the_reference_is_complete() {
    let cluster = Cluster::with_hilo();
    let objects: Vec<String> = cluster.connect("postgres").all(
        "SELECT format('%s(%s)', p.proname, array_to_string(p.proargnames[1:p.pronargs], ', '))
           FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
          WHERE d.classid = 'pg_proc'::regclass AND p.proname LIKE 'hilo%'
            AND p.pronamespace = 'public'::regnamespace
            AND (p.proargnames IS NOT NULL OR p.pronargs = 0)
          UNION ALL
         SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace = 'public'::regnamespace
          UNION ALL
         SELECT name FROM pg_settings WHERE name LIKE 'hilo.%'",
    );
    assert!(objects.len() > 60, "{objects:?}");
    // Square brackets stand around arguments that may be left out.
    let page = read(&root().join("docs/reference.md")).replace(['[', ']'], "").replace(" ,", ",");
    let entries = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let entries = entries.collect::<Vec<&str>>().join("\n");
    let lacks = |object: &&String| !entries.contains(&format!("`{object}`"));
    let missing: Vec<&String> = objects.iter().filter(lacks).collect();
    assert!(missing.is_empty(), "docs/reference.md lacks {missing:#?}");
    cluster.finish();
}

/// docs/operations.md explains each wait event of hilo's processes, and no other.
#[test]
fn every_wait_event_is_explained() {
    let constants = read(&root().join("src/shared/wait_event.rs"));
    let declared = constants.split("WaitEvent(c\"").skip(1);
    let declared: BTreeSet<&str> = declared.filter_map(|rest| rest.split('"').next()).collect();
    let page = read(&root().join("docs/operations.md"));
    let (_, table) = page.split_once("| wait event | meaning |\n").expect("it has the table");
    let names = table.lines().skip(1).map_while(|row| row.strip_prefix("| `")?.split('`').next());
    assert_eq!(declared, names.collect::<BTreeSet<&str>>());
}

/// Where a page's links lead: a file or folder, and a heading, or nothing, in it. Links to other sites are left out.
fn targets(page: &Path) -> Vec<(PathBuf, String)> {
    let text = read(page);
    let inside = links(&text).into_iter().filter(|target| !target.contains("://"));
    let split = inside.map(|target| target.split_once('#').unwrap_or((target, "")));
    let folder = page.parent().expect("a page is in a folder");
    split
        .map(|(path, heading)| match path {
            "" => (page.to_owned(), heading.to_owned()),
            _ => {
                let file = folder.join(path).canonicalize();
                let file = file.unwrap_or_else(|_| panic!("{} links to {path}", page.display()));
                (file, heading.to_owned())
            }
        })
        .collect()
}

/// The pages one click away from a page: those it links to. A folder shows its README.md, or else
/// its files.
fn clicks(page: &Path) -> BTreeSet<PathBuf> {
    if page.is_dir() {
        return files(page.to_str().expect("paths are text")).into_iter().collect();
    }
    if !is_page(page) {
        return BTreeSet::new();
    }
    let shown = |target: PathBuf| match target.join("README.md") {
        readme if readme.is_file() => readme,
        _ => target,
    };
    targets(page).into_iter().map(|(target, _)| shown(target)).collect()
}

/// Every link within the checkout leads to a file, and to a heading in it.
#[test]
fn no_link_is_dead() {
    let mut followed = 0;
    for page in pages() {
        for (target, heading) in targets(&page) {
            followed += 1;
            let found = heading.is_empty() || anchors(&read(&target)).contains(&heading);
            assert!(found, "{} links to {}#{heading}", page.display(), target.display());
        }
    }
    assert!(followed > 200, "only {followed} links");
}

/// From README.md, every page and every file of docs/ and monitoring/ is two clicks away at most.
#[test]
fn everything_is_two_clicks_from_the_readme() {
    let start = root().join("README.md");
    let first = clicks(&start);
    let mut reached: BTreeSet<PathBuf> = first.iter().flat_map(|page| clicks(page)).collect();
    reached.extend(first);
    reached.insert(start);
    let mut wanted = pages();
    wanted.retain(|page| !page.starts_with(root().join(".github")));
    wanted.extend(["docs", "monitoring"].into_iter().flat_map(files));
    for file in wanted {
        assert!(reached.contains(&file), "no link leads to {}", file.display());
    }
}

/// The index of docs/ has a line for each page there and in clients/.
#[test]
fn the_index_has_every_page() {
    let index = root().join("docs/README.md");
    let listed = clicks(&index);
    for page in documents().into_iter().filter(|page| *page != index) {
        assert!(listed.contains(&page), "docs/README.md lacks {}", page.display());
    }
}

/// The page about the tests has a line for each module, and for each program.
#[test]
fn the_page_about_the_tests_has_every_module() {
    let page = root().join("pgrx-tests/README.md");
    let listed: BTreeSet<PathBuf> = targets(&page).into_iter().map(|(file, _)| file).collect();
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("cannot read a folder");
        entries.map(|entry| entry.expect("cannot read an entry").path()).collect::<Vec<_>>()
    };
    for program in entries(&root().join("pgrx-tests/tests")) {
        let name = program.file_name().expect("it has a name").display().to_string();
        assert!(anchors(&read(&page)).contains(&name), "it lacks {name}");
        for module in entries(&program).into_iter().filter(|file| !file.ends_with("main.rs")) {
            assert!(listed.contains(&module), "it lacks {}", module.display());
        }
    }
}

/// Every shell command of the operator's guide runs.
#[test]
fn the_operators_commands_run() {
    let cluster = Cluster::with_hilo();
    cluster.connect("postgres").run("SELECT hilo_create('orders'), hilo_nextval('orders')");
    let commands = blocks(&read(&root().join("docs/operations.md")), "sh");
    assert!(!commands.is_empty());
    let psql = cluster.tool("psql", "postgres");
    let bin = Path::new(psql.get_program()).parent().expect("it is in a directory").display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    for command in commands {
        let mut run = Command::new("sh");
        run.envs(psql.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run.env("PATH", &path).args(["-euc", &command]).current_dir(cluster.socket_directory());
        let output = run.output().expect("cannot run sh");
        assert!(
            output.status.success(),
            "{command}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    cluster.finish();
}
