//! The tour of examples/tour, block by block. A schema of forty tables moves to hilo, is dumped and
//! restored by the owner of its database, and moves back. No number comes twice.

use std::collections::BTreeSet;
use std::env::{join_paths, split_paths, var_os};
use std::fs;
use std::iter::once;
use std::path::{Path, PathBuf};
use std::process::Command;

use hilo_tests::{Client, ClientExt, Cluster, run};

const OWNER: &str = "shop_owner";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The blocks of the page in their order, each with its language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks.map(|block| block.split_once('\n').expect("a block has lines")).collect()
}

/// The tables that have a key of whole numbers, with that column.
const KEYS: &str = "SELECT format('%s %I', c.oid::regclass, a.attname)
      FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
      JOIN pg_type t ON t.oid = a.atttypid
     WHERE c.relnamespace::regnamespace::text IN ('public', 'billing', 'crm', 'log') AND c.relkind IN ('r', 'p')
       AND NOT c.relispartition AND coalesce(nullif(t.typbasetype, 0), t.oid) IN (20, 21, 23)
       AND c.relname NOT IN ('product_categories', 'stock')
     ORDER BY 1";

/// The rows of the dry run that ask for a decision.
const PLAN: &str = "SELECT concat_ws(', ', a.relation::text, a.column_name, a.detail)
      FROM unnest(ARRAY['public', 'billing', 'crm', 'log']) s, hilo.hilo_adopt_all(s, true) a
     WHERE a.action IN ('refuse', 'change') ORDER BY a.action DESC, 1";

/// The keys of all rows.
fn keys(client: &mut Client) -> BTreeSet<(String, i64)> {
    let tables = client.all::<String>(KEYS);
    assert!(tables.len() >= 27, "{tables:?}");
    let mut keys = BTreeSet::new();
    for table in tables {
        let (relation, column) = table.rsplit_once(' ').expect("it has two parts");
        let values = client.all::<i64>(&format!("SELECT {column}::bigint FROM {relation}"));
        keys.extend(values.into_iter().map(|value| (table.clone(), value)));
    }
    keys
}

/// Runs commands of the page as its reader would, with the tools of the server's version.
fn shell(cluster: &Cluster, commands: &str) {
    let psql = cluster.tool("psql", "shop");
    let tools = Path::new(psql.get_program()).parent().expect("it is in a folder").to_owned();
    let path = split_paths(&var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let path = join_paths(once(tools).chain(path)).expect("they have no colons");
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]).current_dir(cluster.file("")).env("PATH", path);
    for (name, value) in
        psql.get_envs().filter(|(name, _)| name.to_string_lossy().starts_with("PG"))
    {
        value.map(|value| shell.env(name, value));
    }
    run(&mut shell);
}

#[test]
fn forty_tables_move_to_hilo_and_back() {
    let cluster = Cluster::builder().preload(true).start();
    let mut admin = cluster.connect("postgres");
    admin.run("CREATE ROLE shop_owner LOGIN CREATEDB; CREATE ROLE shop_app LOGIN; CREATE ROLE shop_agent LOGIN");
    admin.run("CREATE DATABASE shop OWNER shop_owner");
    let schema = read("examples/tour/tour.sql");
    let mut owner = cluster.connect_as(OWNER, "shop");
    owner.run(&schema);
    let tables = "SELECT count(*) FROM pg_tables WHERE tableowner = 'shop_owner'";
    assert_eq!(owner.one::<i64>(tables), 40);
    let mut before = keys(&mut owner);
    let recipe = hilo_tests::blocks(&read("docs/operations.md"), "sql")
        .into_iter()
        .find(|block| block.starts_with("SELECT format('SELECT * FROM hilo_apply"))
        .expect("the page has the file");
    fs::write(cluster.file("sequences.sql"), recipe).expect("cannot write the file");
    let (mut compared, mut dumped) = (0, BTreeSet::new());
    for (language, block) in blocks(&read("examples/tour/README.md")) {
        match language {
            "sql" => compared += cluster.run_as_printed_by(OWNER, "shop", block),
            "text" if !block.contains("-U shop_") => {
                assert_eq!(block.trim().lines().collect::<Vec<_>>(), owner.all::<String>(PLAN));
            }
            "text" => {
                if block.contains("pg_dump") {
                    dumped.clone_from(&before);
                }
                shell(&cluster, block);
            }
            _ => panic!("a block of {language}"),
        }
        // A row with a number keeps it.
        let now = keys(&mut owner);
        assert!(now.is_superset(&before), "{block}");
        before = now;
    }
    assert!(compared > 15, "only {compared} results were compared");
    let mut copy = cluster.connect_as(OWNER, "copy");
    assert!(dumped.len() > 5000 && keys(&mut copy).is_superset(&dumped));
    let found =
        "SELECT what FROM hilo_check() WHERE severity <> 'note' AND object NOT LIKE 'setting%'";
    assert_eq!(copy.all::<String>(found), [""; 0]);
    cluster.finish();
}
