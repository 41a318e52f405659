//! docs/install.md works as printed for hilo_lite: hilo_lite comes without a superuser, and goes to hilo step by step.

use std::path::Path;
use std::process::Command;

use hilo_tests::{ClientExt, Cluster, assert_unique, blocks, run};

use super::lease;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs the commands of the part of the page that has this heading, as `role`, and returns their output.
fn commands(cluster: &Cluster, role: &str, heading: &str) -> String {
    let page = Path::new(ROOT).join("docs/install.md");
    let page = std::fs::read_to_string(page).expect("cannot read the page");
    let part = page.split("\n## ").find(|part| part.starts_with(heading));
    let commands = blocks(part.expect("the page has the heading"), "sh");
    assert!(!commands.is_empty(), "{heading}");
    let psql = cluster.tool("psql", "shop");
    let program = psql.get_program().to_str().expect("a path");
    let outputs = commands.iter().map(|block| {
        let envs = psql.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let block = block.trim_start().replacen("psql", program, 1);
        let mut shell = Command::new("sh");
        run(shell.args(["-c", &block]).current_dir(ROOT).envs(envs).env("PGUSER", role))
    });
    outputs.collect()
}

/// A database whose owner is no superuser has hilo_lite, is dumped, restored where hilo is loaded, and goes on with hilo.
#[test]
fn from_the_first_command_to_hilo() {
    let (old, new) = (Cluster::builder().start(), Cluster::builder().preload(true).start());
    for cluster in [&old, &new] {
        let mut admin = cluster.connect("postgres");
        admin.run("CREATE ROLE tenant LOGIN; CREATE ROLE app LOGIN; CREATE ROLE mallory LOGIN");
        admin.run("CREATE DATABASE shop OWNER tenant");
    }
    commands(&old, "tenant", "Managed clouds");
    let mut app = old.connect_as("app", "shop");
    app.run("SET search_path = hilo");
    app.refusal("SELECT hilo_create('orders')")
        .is("42501")
        .hints("GRANT INSERT ON hilo.hilo_sequences TO app;");
    let mut tenant = old.connect_as("tenant", "shop");
    tenant.run("GRANT INSERT ON hilo.hilo_sequences TO app");
    app.run("SELECT hilo_create('orders')");
    let mut mallory = old.connect_as("mallory", "shop");
    mallory
        .refusal("CREATE FUNCTION hilo.hilo_nextval(text) RETURNS bigint LANGUAGE sql RETURN 1")
        .is("42501");
    tenant.run(
        "CREATE TABLE orders (id bigint DEFAULT hilo.hilo_nextval('orders')); GRANT INSERT, SELECT ON orders TO app;
         CREATE VIEW next_order AS SELECT hilo.hilo_nextval('orders') AS id",
    );
    let mut seen = app.draw("orders", 7);
    let (name, first, last) = lease(&mut app, "'orders', 100, 'till'");
    seen.extend(first..=last);
    let dump = old.pg_dump("shop", &[]);
    new.restore("shop", &dump);

    let mut client = new.connect("shop");
    let script =
        std::fs::read_to_string(format!("{ROOT}/lite/hilo_lite_to_hilo.sql")).expect("it is there");
    client.refusal(&format!("BEGIN; {script}; COMMIT")).is("2BP01").details("next_order");
    client.run("ROLLBACK; DROP VIEW next_order");
    let output = commands(&new, "postgres", "From hilo_lite to hilo");
    assert!(output.contains(&name) && output.contains("till"), "{output}");
    let mut app = new.connect_as("app", "shop");
    app.run(
        "SET search_path = hilo, public; INSERT INTO orders SELECT FROM generate_series(1, 50)",
    );
    app.run("SELECT hilo_create('more')");
    seen.extend(app.all::<i64>("SELECT id FROM orders"));
    seen.extend(app.draw("orders", 500));
    assert_unique("orders", &seen);
    assert_eq!(app.one::<i64>(&format!("SELECT hilo_lease_return('{name}', {first} + 60)")), 0);
    old.finish();
    new.finish();
}
