//! The rows that COPY makes, in all its forms.

use std::fs;

use super::*;

/// A session with a table that draws its numbers, and a file of the numbers 1 to 3000 that the server can read.
fn session(cluster: &Cluster) -> (Client, String) {
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s');
         CREATE TABLE loaded (id bigint DEFAULT hilo_nextval('s'), v integer)",
    );
    let file = cluster.file("rows");
    let lines: Vec<String> = (1..=3000).map(|n| format!("{n}\n")).collect();
    fs::write(&file, lines.concat()).expect("cannot write the rows");
    (client, file.display().to_string())
}

/// However the rows arrive, they get the next numbers in their order, and hilo_currval has the last.
#[test]
fn numbers_rise_however_the_rows_arrive() {
    let cluster = cluster();
    let (mut client, file) = session(&cluster);
    copy(&mut client, "loaded (v)", 1..=3000);
    client.run(&format!("COPY loaded (v) FROM '{file}' (FORMAT csv)"));
    client.run(&format!("COPY loaded (v) FROM PROGRAM 'cat {file}'"));
    client.run(&format!("DO $$ BEGIN EXECUTE 'COPY loaded (v) FROM ''{file}'''; END $$"));
    client.run(&format!("BEGIN; TRUNCATE loaded; COPY loaded (v) FROM '{file}' (FREEZE)"));
    assert_eq!(client.one::<i64>("SELECT hilo_currval('s')"), 15_000);
    assert_eq!(client.one::<i64>("SELECT hilo_lastval()"), 15_000);
    client.run("ROLLBACK");
    assert_eq!(twins(&mut client), 15_000);
    cluster.psql("postgres", &format!("\\copy loaded (v) FROM '{file}'"));
    let rounds = "SELECT (id - v) / 3000 FROM loaded GROUP BY 1 HAVING count(*) = 3000 ORDER BY 1";
    assert_eq!(client.all::<i64>(rounds), [0, 1, 2, 3, 5]);
    cluster.finish();
}

/// A column that the rows bring draws nothing. With the option DEFAULT, those that ask for it do.
#[test]
fn a_column_that_is_given_draws_nothing() {
    let cluster = cluster();
    let (mut client, _) = session(&cluster);
    copy(&mut client, "loaded (id, v)", (1..=100).map(|n| format!("{}\t{n}", n * 10)));
    copy(&mut client, "loaded", ["\\N\t1"]);
    assert_eq!((twins(&mut client), client.draw("s", 1)), (0, vec![1]));
    if cluster.version() >= 16 {
        client.run("TRUNCATE loaded");
        let mut copy = client.copy_in("COPY loaded FROM STDIN (DEFAULT '*')").unwrap();
        for n in 1..=3000 {
            let id = if n % 3 == 0 { (-n).to_string() } else { "*".to_owned() };
            writeln!(copy, "{id}\t{n}").unwrap();
        }
        assert_eq!(copy.finish().unwrap(), 3000);
        let wrong = "SELECT count(*) FROM loaded WHERE id <> CASE v % 3 WHEN 0 THEN -v ELSE v - v / 3 + 1 END";
        assert_eq!(client.one::<i64>(wrong), 0);
        assert_eq!(twins(&mut client), 2000);
    }
    cluster.finish();
}

/// Rows that COPY leaves out have drawn, as with core's sequences: by WHERE, and by ON_ERROR. A
/// number that WHERE draws itself, it draws for each row.
#[test]
fn rows_that_are_left_out() {
    let cluster = cluster();
    let (mut client, file) = session(&cluster);
    client.run("SELECT hilo_create('filter')");
    client.run(&format!(
        "COPY loaded (v) FROM '{file}' WHERE v > 1000;
         COPY loaded (v) FROM '{file}' WHERE hilo_nextval('filter') % 2 = 0"
    ));
    assert_eq!(client.one::<i64>("SELECT count(*) FROM loaded WHERE id = v AND v > 1000"), 2000);
    let even = "SELECT count(*) FROM loaded WHERE id = v + 3000 AND v % 2 = 0";
    assert_eq!(client.one::<i64>(even), 1500);
    assert_eq!((calls(&mut client, "'hilo_nextval'"), twins(&mut client)), (3000, 6000));
    if cluster.version() >= 17 {
        client.run("TRUNCATE loaded");
        let mut copy = client.copy_in("COPY loaded (v) FROM STDIN (ON_ERROR ignore)").unwrap();
        for n in 1..=3000 {
            let line = if n % 10 == 0 { "no number".to_owned() } else { n.to_string() };
            writeln!(copy, "{line}").unwrap();
        }
        assert_eq!(copy.finish().unwrap(), 2700);
        assert_rise(&mut client, "loaded");
        assert_eq!(client.one::<i64>("SELECT count(*) FROM loaded"), 2700);
    }
    cluster.finish();
}

/// A COPY that fails or is cancelled, with rows that it has yet to insert, burns what it has drawn.
/// Its session works as before.
#[test]
fn a_copy_that_fails() {
    let cluster = cluster();
    let (mut client, file) = session(&cluster);
    client.run("CREATE TABLE checked (LIKE loaded INCLUDING DEFAULTS, CHECK (v < 2000))");
    client.refusal(&format!("COPY checked (v) FROM '{file}'")).is("23514");
    client.run(&format!("BEGIN; COPY loaded (v) FROM '{file}'; SAVEPOINT here"));
    client.refusal(&format!("COPY checked (v) FROM '{file}'")).is("23514");
    client.run("ROLLBACK TO here; COMMIT");
    assert_rise(&mut client, "loaded");

    let mut other = cluster.connect("postgres");
    other.run("SELECT pg_advisory_lock(1)");
    client.run(
        "CREATE FUNCTION waits(v integer) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN IF v = 2000 THEN PERFORM pg_advisory_lock(1); END IF; RETURN true; END $$;
         CREATE TABLE slow (LIKE loaded INCLUDING DEFAULTS, CHECK (waits(v)));
         SET statement_timeout = '300ms'",
    );
    client.refusal(&format!("COPY slow (v) FROM '{file}'")).is("57014");
    client.run("RESET statement_timeout");

    copy_again(&mut client, &file);
    cluster.finish();
}

fn copy_again(client: &mut Client, file: &str) {
    let before: i64 = client.one("SELECT hilo_nextval('s')");
    client.run(&format!("TRUNCATE loaded; COPY loaded (v) FROM '{file}'"));
    assert_eq!(client.one::<i64>("SELECT min(id - v) FROM loaded"), before);
    assert_eq!(client.one::<i64>("SELECT max(id - v) FROM loaded"), before);
}

/// COPY draws with the rights of the role that runs it, on the sequence and on the function, as INSERT does. A role that
/// may not execute the twins is served too.
#[test]
fn privileges() {
    let cluster = cluster();
    let (mut client, _) = session(&cluster);
    client
        .run("CREATE ROLE clerk LOGIN; GRANT INSERT ON loaded TO clerk; SELECT hilo_nextval('s')");
    let refused = |sqlstate: &str| {
        let mut clerk = cluster.connect_as("clerk", "postgres");
        clerk.refusal("INSERT INTO loaded (v) VALUES (1)").is(sqlstate);
        let begun = clerk.copy_in("COPY loaded (v) FROM STDIN");
        let error = match begun {
            Ok(mut copy) => {
                writeln!(copy, "1").unwrap();
                copy.finish().unwrap_err()
            }
            Err(error) => error,
        };
        assert_eq!(error.code().unwrap().code(), sqlstate, "{error:?}");
    };
    refused("42501");
    client.run("SELECT hilo_grant('s', 'clerk', 'USAGE')");
    let mut clerk = cluster.connect_as("clerk", "postgres");
    assert_eq!(copy(&mut clerk, "loaded (v)", 1..=10), 10);
    assert_eq!(twins(&mut clerk), 10);
    client.run("REVOKE EXECUTE ON FUNCTION hilo_nextval FROM PUBLIC");
    refused("42501");
    client.run(
        "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA _hilo FROM PUBLIC;
         GRANT EXECUTE ON FUNCTION hilo_nextval TO clerk",
    );
    assert_eq!(copy(&mut clerk, "loaded (v)", 1..=10), 10);
    assert_eq!((calls(&mut clerk, "'hilo_nextval'"), twins(&mut clerk)), (10, 10));
    cluster.finish();
}
