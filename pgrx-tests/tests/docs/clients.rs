//! The programs in examples/, which docs/clients.md and docs/migrating.md explain, do what they say
//! with the real client libraries. No value comes twice while others draw from the same sequence.

use std::collections::BTreeSet;
use std::env::join_paths;
use std::fs;
use std::path::{Path, PathBuf};

use hilo_tests::example::{Example, LAYOUTS, OWNER, prepare, while_others_draw};
use hilo_tests::front::{Pooler, tcp_port};
use hilo_tests::{ClientExt, Cluster};

/// Runs an example by the commands that its reader would use, in each layout.
#[track_caller]
fn run(name: &'static str, commands: &[&[&str]]) {
    run_with_hilo_in(&LAYOUTS, name, commands);
}

#[track_caller]
fn run_with_hilo_in(schemas: &[&str], name: &'static str, commands: &[&[&str]]) {
    let Some(example) = Example::find(name) else { return };
    let cluster = Cluster::builder().preload(true).start();
    for schema in schemas {
        println!("hilo in schema {schema}");
        prepare(&cluster, schema);
        while_others_draw(&cluster, || example.run(&cluster, &[], commands));
    }
    cluster.finish();
}

#[test]
fn psycopg() {
    run("psycopg", &[&["python3", "example.py"]]);
}

#[test]
fn leases_python() {
    run("python", &[&["python3", "tests/example.py"]]);
}

/// The package with its types, asyncio, Django and SQLAlchemy.
#[test]
fn packages_python() {
    run("python", &[&["python3", "-m", "mypy"], &["python3", "tests/packages.py"]]);
}

#[test]
fn ravendb_hilo() {
    run("ravendb-hilo", &[&["python3", "example.py"]]);
}

#[test]
fn sqlalchemy() {
    run("sqlalchemy", &[&["python3", "example.py"]]);
}

#[test]
fn alembic() {
    run(
        "sqlalchemy",
        &[&["python3", "migrate.py"], &["python3", "-m", "alembic", "upgrade", "head"]],
    );
}

#[test]
fn django() {
    run("django", &[&["python3", "example.py"]]);
}

/// The migration creates the extension in databases that Django makes for its tests, or finds that of the template.
#[test]
fn django_test_databases() {
    let Some(example) = Example::find("django") else { return };
    let cluster = Cluster::builder().preload(true).start();
    prepare(&cluster, "public");
    cluster.connect("postgres").run(&format!("ALTER ROLE {OWNER} CREATEDB"));
    let test = ["python3", "-m", "django", "test", "--settings", "settings", "--noinput"];
    let parallel = [&test[..], &["--parallel", "2"]].concat();
    example.run(&cluster, &[], &[&test, &parallel]);
    example.run(&cluster, &[("PGUSER", "postgres")], &[&["sh", "-e", "template.sh"]]);
    example.run(&cluster, &[], &[&test, &parallel]);
    let mut left = cluster.connect("postgres");
    let databases = "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'";
    assert_eq!(left.one::<i64>(databases), 0);
    cluster.finish();
}

/// The quickest tenth of Django's own tests: with every key from hilo, only those fail of which it is known.
#[test]
fn django_s_own_tests() {
    let Some(example) = Example::find("django") else { return };
    let cluster = Cluster::builder().preload(true).start();
    let file = |name: &str| document(&format!("pgrx-tests/django/{name}"));
    cluster.connect("template1").run(&file("everything.sql"));
    let path = join_paths([root().join("pgrx-tests/django"), example.source("")]).expect("a path");
    let python = [("PYTHONPATH", path.to_str().expect("a path")), ("PYTHONDONTWRITEBYTECODE", "1")];
    let (program, labels) = (example.suite().join("runtests.py"), file("quick.txt"));
    let program = program.to_str().expect("a path");
    let mut words = vec!["python3", program, "--settings", "settings", "--parallel", "1"];
    words.extend(labels.lines());
    example.run(&cluster, &python, &[&words]);
    cluster.finish();
}

#[test]
fn asyncpg() {
    run("asyncpg", &[&["python3", "example.py"]]);
}

#[test]
fn node_postgres() {
    run("node-postgres", &[&["node", "example.js"]]);
}

#[test]
fn knex() {
    run("knex", &[&["node", "example.js"]]);
}

#[test]
fn typeorm() {
    run("typeorm", &[&["node", "example.js"]]);
}

#[test]
fn sequelize() {
    run("sequelize", &[&["node", "example.js"]]);
}

#[test]
fn drizzle() {
    run("drizzle", &[&["node", "example.js"]]);
}

/// Without the filter, where hilo has a schema of its own.
#[test]
fn drizzle_without_a_filter() {
    let without = ["sed", "-i", "/tablesFilter/d", "drizzle.config.js"];
    run_with_hilo_in(&["hilo"], "drizzle", &[&without, &["node", "example.js"]]);
}

/// Prisma Migrate is not tested: its engine comes from a server of Prisma's own, and generate needs it not.
#[test]
fn prisma() {
    let engine = "PRISMA_SCHEMA_ENGINE_BINARY=/bin/true";
    let generate = ["env", engine, "node_modules/.bin/prisma", "generate"];
    run("prisma", &[&generate, &["node", "example.js"]]);
}

#[test]
fn rails() {
    run("rails", &[&["ruby", "example.rb"]]);
}

#[test]
fn sequel() {
    run("sequel", &[&["ruby", "example.rb"]]);
}

#[test]
fn pdo() {
    run("pdo", &[&["php", "example.php"]]);
}

#[test]
fn doctrine() {
    run("doctrine", &[&["php", "example.php"]]);
}

/// Its own generator, in two processes, with blocks from hilo.
#[test]
fn doctrine_with_a_facade() {
    run("doctrine", &[&["php", "facade.php"]]);
}

/// An entity with the strategy IDENTITY, which Doctrine 2 gets no id for.
#[test]
fn doctrine_with_identity() {
    run("doctrine", &[&["php", "example.php"], &["php", "identity.php"]]);
}

/// ORM 3 with DBAL 4 runs the same programs; its IDENTITY asks lastval().
#[test]
fn doctrine_3() {
    let Some(example) = Example::find("doctrine") else { return };
    let cluster = Cluster::builder().preload(true).start();
    let later = example.later();
    let later = [("PHP_INI_SCAN_DIR", later.as_str())];
    let version = "require 'Doctrine/ORM/autoload.php'; exit(class_exists('Doctrine\\DBAL\\Driver\\Exception\\NoIdentityValue') ? 0 : 1);";
    for schema in LAYOUTS {
        for programs in [&["example.php", "identity.php"][..], &["facade.php"]] {
            prepare(&cluster, schema);
            let commands: Vec<[&str; 2]> = programs.iter().map(|file| ["php", file]).collect();
            let commands: Vec<&[&str]> = commands.iter().map(|words| &words[..]).collect();
            while_others_draw(&cluster, || example.run(&cluster, &later, &commands));
        }
    }
    example.run(&cluster, &later, &[&["php", "-r", version]]);
    cluster.finish();
}

/// Its generators of sequences and tables, in two processes, with blocks from hilo.
#[test]
fn hibernate_with_facades() {
    let Some(example) = Example::find("hibernate") else { return };
    let cluster = Cluster::builder().preload(true).start();
    let port = tcp_port(&cluster).to_string();
    let address = [("PGHOST", "127.0.0.1"), ("PGPORT", port.as_str())];
    for schema in LAYOUTS {
        prepare(&cluster, schema);
        while_others_draw(&cluster, || example.run(&cluster, &address, &[&["sh", "-e", "run.sh"]]));
    }
    cluster.finish();
}

#[test]
fn rust() {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/rust/Cargo.toml");
    run("rust", &[&["cargo", "run", "--quiet", "--manifest-path", manifest]]);
}

#[test]
fn jdbc() {
    let Some(example) = Example::find("jdbc") else { return };
    let cluster = Cluster::builder().preload(true).start();
    prepare(&cluster, "public");
    let port = tcp_port(&cluster).to_string();
    let address = [("PGHOST", "127.0.0.1"), ("PGPORT", port.as_str())];
    let java = ["java", "-cp", "/usr/share/java/postgresql.jar", "Example.java"];
    while_others_draw(&cluster, || example.run(&cluster, &address, &[&java]));
    cluster.finish();
}

/// In each of its modes.
#[test]
fn pgbouncer() {
    let Some(example) = Example::find("pgbouncer") else { return };
    let cluster = Cluster::builder().preload(true).start();
    prepare(&cluster, "public");
    let directory = cluster.socket_directory().display().to_string();
    let printed = fs::read_to_string(example.source("pgbouncer.ini")).expect("cannot read it");
    let printed =
        printed.replace("/var/run/postgresql", &directory).replace("/run/pgbouncer", &directory);
    fs::copy(example.source("userlist.txt"), cluster.file("userlist.txt")).expect("cannot copy it");
    while_others_draw(&cluster, || {
        for mode in ["transaction", "session", "statement"] {
            let configuration =
                printed.replace("pool_mode = transaction", &format!("pool_mode = {mode}"));
            fs::write(cluster.file("pgbouncer.ini"), configuration).expect("cannot write it");
            let _pooler = Pooler::start(&cluster, example.pooler(), &["pgbouncer.ini"], 6432);
            let pooled = [("PGPORT", "6432"), ("POOL_MODE", mode)];
            example.run(&cluster, &pooled, &[&["python3", "example.py"]]);
            if let Some(python) = Example::find("python") {
                python.run(&cluster, &pooled, &[&["python3", "tests/pooled.py"]]);
            }
        }
    });
    cluster.finish();
}

/// With a standby, which takes all reads that it may.
#[test]
fn pgpool() {
    let Some(example) = Example::find("pgpool") else { return };
    let cluster = Cluster::builder().preload(true).config("wal_level", "replica").start();
    prepare(&cluster, "public");
    let standby = cluster.clone_by_base_backup();
    let directory = cluster.socket_directory().display().to_string();
    let printed = fs::read_to_string(example.source("pgpool.conf")).expect("cannot read it");
    let configuration = printed
        .replace("/run/primary", &directory)
        .replace("/run/standby", &standby.socket_directory().display().to_string())
        .replace("/run/pgpool", &directory);
    fs::write(cluster.file("pgpool.conf"), configuration).expect("cannot write it");
    let _pooler = Pooler::start(&cluster, example.pooler(), &["-n", "-f", "pgpool.conf"], 9999);
    while_others_draw(&cluster, || {
        example.run(&cluster, &[("PGPORT", "9999")], &[&["python3", "example.py"]])
    });
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below a folder that are text, without those that a package manager has put there.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = entries.map(|entry| entry.expect("cannot read an entry").path());
    paths
        .filter(|path| !path.ends_with("node_modules") && !path.ends_with("venv"))
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => {
                fs::read_to_string(&path).into_iter().map(|text| (path.clone(), text)).collect()
            }
        })
        .collect()
}

fn page() -> String {
    document("docs/clients.md")
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The code that docs/clients.md and docs/migrating.md print for a client stands in one file of its
/// example, or of its package.
#[test]
fn the_page_prints_what_runs() {
    let mut examples = files(&root().join("examples"));
    examples.extend(files(&root().join("clients/python/src")));
    let pages = page() + "\n" + &document("docs/migrating.md");
    let mut found = 0;
    for block in pages.split("\n```").skip(1).step_by(2).filter(|block| !block.starts_with("sql\n"))
    {
        let lines = || block.lines().skip(1).map(str::trim);
        let shown = examples.iter().any(|(_, text)| lines().all(|line| text.contains(line)));
        assert!(shown, "no example has {block}");
        found += 1;
    }
    assert!(found > 20, "only {found} blocks");
}

/// It links to every example, and to nothing else in examples/.
#[test]
fn the_page_links_to_every_example() {
    let page = page();
    let links = page.split("](../examples/").skip(1).filter_map(|rest| rest.split(')').next());
    let links: BTreeSet<&str> = links.collect();
    for path in &links {
        assert!(root().join("examples").join(path).exists(), "the page links to {path}");
    }
    for entry in fs::read_dir(root().join("examples")).expect("cannot read examples") {
        let entry = entry.expect("cannot read an entry");
        let name = entry.file_name().into_string().expect("it is ASCII");
        let linked = links.iter().any(|path| path.starts_with(&name));
        assert!(linked || entry.path().is_file(), "the page has no link to {name}");
    }
}

/// Its table has the versions that the examples pin.
#[test]
fn the_page_has_the_versions_that_are_tested() {
    let page = page();
    let mut found = 0;
    for (path, text) in files(&root().join("examples")) {
        let separator = match path.file_name().and_then(|name| name.to_str()) {
            Some("requirements.txt") => "==",
            Some("package.json") => "\": \"",
            _ => continue,
        };
        let pins = text.lines().filter_map(|line| line.split_once(separator));
        // Crates that are no clients, but belong to one.
        for (name, version) in pins.filter(|(name, _)| {
            !["type", "reflect-metadata"].iter().any(|other| name.ends_with(other))
        }) {
            let version = version.trim_end_matches(['"', ',']);
            assert!(page.contains(version), "the page lacks {name} {version}");
            found += 1;
        }
    }
    assert!(found > 12, "only {found} packages");
}
