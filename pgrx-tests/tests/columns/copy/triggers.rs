//! Triggers of the table that is loaded: what they see, and what they draw themselves, is as with core's sequences.

use super::*;

/// The rows of both tables after a COPY into `loaded`, whose default is `next`, and whose trigger does `work`.
fn load(client: &mut Client, next: &str, trigger: &str, work: &str) -> Vec<String> {
    let (trigger, work) = (trigger.replace("NEXT", next), work.replace("NEXT", next));
    client.run(&format!(
        "CREATE TABLE loaded (id bigint DEFAULT {next}, v integer, seen bigint);
         CREATE TABLE other (id bigint, v integer);
         CREATE FUNCTION work() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {work}; RETURN NEW; END $$;
         CREATE TRIGGER work {trigger} EXECUTE FUNCTION work()"
    ));
    copy(client, "loaded (v)", 1..=3000);
    let rows = client
        .all("SELECT loaded::text FROM loaded UNION ALL SELECT other::text FROM other ORDER BY 1");
    client.run("DROP TABLE loaded, other; DROP FUNCTION work");
    rows
}

/// The triggers make the same of the rows with hilo's default as with core's. A value that they
/// draw themselves does not come from the twin.
#[test]
fn triggers_do_what_they_do_with_core_s_sequences() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    let row = "INSERT ON loaded FOR EACH ROW";
    let cases = [
        (format!("BEFORE {row}"), "NEW.seen := (SELECT count(*) FROM loaded)"),
        (format!("BEFORE {row}"), "NEW.seen := NEXT"),
        (format!("AFTER {row}"), "INSERT INTO other SELECT max(id), NEW.v FROM loaded"),
        (format!("AFTER {row}"), "INSERT INTO other VALUES (NEXT, NEW.v)"),
        (
            format!("AFTER {row} WHEN (NEW.v <= 3000)"),
            "INSERT INTO loaded (v) VALUES (NEW.v + 3000)",
        ),
        (format!("AFTER {row} WHEN (NEXT % 2 = 0)"), "INSERT INTO other VALUES (0, NEW.v)"),
        ("BEFORE INSERT ON loaded".to_owned(), "INSERT INTO other VALUES (NEXT, 0)"),
        ("AFTER INSERT ON loaded".to_owned(), "INSERT INTO other VALUES (NEXT, 0)"),
    ];
    for (trigger, work) in cases {
        client.run("CREATE SEQUENCE core CACHE 1000; SELECT hilo_create('s')");
        let (own, twin) = (calls(&mut client, "'hilo_nextval'"), twins(&mut client));
        let core = load(&mut client, "nextval('core')", &trigger, work);
        let ours = load(&mut client, "hilo_nextval('s')", &trigger, work);
        assert_eq!(ours, core, "{trigger}: {work}");
        let drawn = client.one::<i64>("SELECT hilo_currval('s')");
        assert_eq!(twins(&mut client) - twin, 3000, "{trigger}: {work}");
        assert_eq!(calls(&mut client, "'hilo_nextval'") - own, drawn - 3000, "{trigger}: {work}");
        client.run("SELECT hilo_drop('s'); DROP SEQUENCE core");
    }
    cluster.finish();
}

/// A COPY that a trigger of another COPY runs is as fast, and both get their own numbers.
#[test]
fn a_copy_within_a_copy() {
    let cluster = cluster();
    let mut client = cluster.connect("postgres");
    let file = cluster.file("rows");
    std::fs::write(&file, "1\n2\n3\n").expect("cannot write the rows");
    client.run(&format!(
        "SELECT hilo_create('s'), hilo_create('inner');
         CREATE TABLE nested (id bigint DEFAULT hilo_nextval('inner'), v integer);
         CREATE TABLE loaded (id bigint DEFAULT hilo_nextval('s'), v integer);
         CREATE FUNCTION work() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN COPY nested (v) FROM '{}'; RETURN NEW; END $$;
         CREATE TRIGGER work BEFORE INSERT ON loaded FOR EACH ROW EXECUTE FUNCTION work()",
        file.display()
    ));
    copy(&mut client, "loaded (v)", 1..=100);
    assert_rise(&mut client, "loaded");
    let wrong = "SELECT count(*) FROM nested WHERE (id - 1) % 3 + 1 <> v";
    assert_eq!(client.one::<i64>(wrong), 0);
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT id) FROM nested"), 300);
    assert_eq!((calls(&mut client, "'hilo_nextval'"), twins(&mut client)), (0, 400));
    cluster.finish();
}
