//! A HINT that names a call is right where it is given. The call works there, so does then what has
//! failed, and no number comes twice.

mod cases;
mod written;

use std::collections::BTreeSet;

use hilo_tests::{Client, ClientExt, Cluster, Heard, assert_unique};

use cases::{CASES, ELSEWHERE};
use written::Text;

/// How an error comes about, and what its HINT leads to.
struct Case {
    setup: &'static str,
    /// Raises the error, or the warning.
    fails: &'static str,
    /// The call that its HINT names.
    call: &'static str,
    /// The statements that work then; empty: those that have failed.
    then: &'static str,
}

/// Draws, and writes down what has come.
const PREPARE: &str = "
    CREATE ROLE clerk; CREATE ROLE pruner; CREATE ROLE writer IN ROLE pg_read_all_data, pg_write_all_data;
    GRANT CREATE ON SCHEMA public TO clerk, pruner; GRANT INSERT ON hilo_sequences TO clerk, pruner;
    CREATE TABLE drawn (name text, value bigint); GRANT ALL ON drawn TO PUBLIC;
    CREATE FUNCTION draw(text) RETURNS bigint LANGUAGE sql
        AS $$ INSERT INTO drawn SELECT $1, hilo_nextval($1) RETURNING value $$";

#[test]
fn each_call_of_a_hint_helps() {
    let cluster = Cluster::with_hilo();
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    client.run(PREPARE);
    let hints: Vec<String> = CASES.iter().map(|case| follow(&mut client, &heard, case)).collect();

    for name in client.all::<String>("SELECT DISTINCT name FROM drawn") {
        let drawn = format!("SELECT value FROM drawn WHERE name = '{name}'");
        assert_unique(&name, &client.all::<i64>(&drawn));
    }
    let tables = "SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
                   WHERE attname = 'id' AND relkind = 'r' AND relnamespace = 'public'::regnamespace";
    for table in client.all::<String>(tables) {
        let twice = format!("SELECT count(*) - count(DISTINCT id) FROM {table}");
        assert_eq!(client.one::<i64>(&twice), 0, "{table}");
    }

    // Every HINT that names a call has a case, or a reason why it has none.
    let functions = "SELECT p.proname::text FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                       JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'hilo'
                      WHERE d.deptype = 'e' AND p.pronamespace = e.extnamespace AND p.proname <> 'hilo_sequence'";
    let functions: BTreeSet<String> = client.all(functions).into_iter().collect();
    let texts = written::hints(&functions);
    assert!(texts.len() > 50, "{}", texts.len());
    let elsewhere = |text: &Text| ELSEWHERE.iter().any(|(part, _)| text.text.contains(part));
    let given = |text: &Text| hints.iter().any(|hint| text.is_in(hint));
    let left: Vec<&Text> = texts.iter().filter(|text| !given(text) && !elsewhere(text)).collect();
    assert!(left.is_empty(), "without a case: {left:#?}");
    for (part, _) in ELSEWHERE {
        assert!(texts.iter().any(|text| text.text.contains(part)), "no HINT has {part:?}");
    }
    cluster.finish();
}

/// Raises the error of a case, and does what its HINT says. Returns the HINT.
fn follow(client: &mut Client, heard: &Heard, case: &Case) -> String {
    run_each(client, case.setup);
    heard.take();
    let hint = match client.batch_execute(case.fails) {
        Err(error) => error.as_db_error().and_then(|report| report.hint().map(str::to_owned)),
        Ok(()) => heard.take().iter().find_map(|report| report.hint().map(str::to_owned)),
    };
    client.run("RESET ROLE");
    let hint = hint.unwrap_or_else(|| panic!("no HINT: {}", case.fails));
    let function = case.call.split('(').next().unwrap_or_default();
    let function = function.rsplit([' ', '.']).next().unwrap_or_default();
    assert!(hint.contains(function), "{}: {hint}: {}", case.fails, case.call);
    run_each(client, case.call);
    run_each(client, if case.then.is_empty() { case.fails } else { case.then });
    hint
}

fn run_each(client: &mut Client, statements: &str) {
    statements.split(';').filter(|one| !one.trim().is_empty()).for_each(|one| client.run(one));
    client.run("RESET ROLE");
}
