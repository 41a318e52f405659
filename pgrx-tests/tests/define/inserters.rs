//! Whoever may insert into a table draws from the sequence that its column owns, as with an
//! identity column. He may do nothing else with the sequence.

use std::thread;

use hilo_tests::{Client, ClientExt, Cluster};

/// A table of `keeper` whose column owns sequence `orders`, one whose column owns none, and a role without rights.
fn shop() -> (Cluster, Client, Client) {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE keeper; CREATE ROLE clerk LOGIN; GRANT CREATE ON SCHEMA public TO keeper; GRANT INSERT ON hilo_sequences TO keeper; SET ROLE keeper;
         CREATE TABLE orders (id bigint DEFAULT hilo_nextval('orders'), item text, key text DEFAULT hilo_nextkey('orders'));
         SELECT hilo_create('orders', owned_by => 'orders.id');
         SELECT hilo_create('loose'); CREATE TABLE loose (id bigint DEFAULT hilo_nextval('loose'));
         RESET ROLE",
    );
    let clerk = cluster.connect_as("clerk", "postgres");
    (cluster, admin, clerk)
}

const INSERT: &str = "INSERT INTO orders (item) VALUES ('x')";
const DRAW: &str = "SELECT hilo_nextval('orders')";

/// With a right on the table, or on some of its columns, every way to insert works, and so do calls by themselves.
#[test]
fn whoever_may_insert_draws() {
    let (cluster, mut admin, mut clerk) = shop();
    clerk.refusal(INSERT).is("42501");
    clerk.refusal(DRAW).is("42501").details("INSERT").helps();
    for (grant, revoke) in [
        ("GRANT INSERT ON orders TO clerk", "REVOKE INSERT ON orders FROM clerk"),
        (
            "GRANT INSERT (item, id, key) ON orders TO clerk",
            "REVOKE INSERT (item, id, key) ON orders FROM clerk",
        ),
        // As with an identity column, the right on another column is enough.
        ("GRANT INSERT (item) ON orders TO clerk", "REVOKE INSERT (item) ON orders FROM clerk"),
        ("GRANT INSERT ON orders TO PUBLIC", "REVOKE INSERT ON orders FROM PUBLIC"),
        (
            "CREATE ROLE sellers; GRANT INSERT ON orders TO sellers; GRANT sellers TO clerk",
            "REVOKE sellers FROM clerk; DROP OWNED BY sellers; DROP ROLE sellers",
        ),
        ("ALTER TABLE orders OWNER TO clerk", "ALTER TABLE orders OWNER TO keeper"),
    ] {
        admin.run(grant);
        for _ in 0..3 {
            clerk.run(INSERT);
            clerk.run("INSERT INTO orders (item) SELECT 'y' FROM generate_series(1, 100)");
            clerk.run("SELECT hilo_nextvals('orders', 3); SELECT hilo_nextkey('orders')");
            clerk.run(DRAW);
        }
        admin.run(revoke);
        clerk.refusal(DRAW).is("42501");
        clerk.refusal(INSERT).is("42501");
        clerk.refusal("SELECT hilo_nextkey('orders')").is("42501");
    }
    cluster.finish();
}

/// COPY, a parallel query, a prepared statement, a partition, a table that inherits, and a view with its owner's rights.
#[test]
fn on_every_way_to_the_table() {
    let (cluster, mut admin, mut clerk) = shop();
    admin.run("GRANT INSERT (item) ON orders TO clerk; GRANT SELECT ON orders TO clerk");
    let mut writer = clerk.copy_in("COPY orders (item) FROM STDIN").expect("COPY begins");
    std::io::Write::write_all(&mut writer, b"a\nb\n").expect("COPY takes rows");
    assert_eq!(writer.finish().expect("COPY ends"), 2);
    let setting: &str =
        match admin.one::<i32>("SELECT current_setting('server_version_num')::int / 10000") {
            15 => "force_parallel_mode",
            _ => "debug_parallel_query",
        };
    clerk.run(&format!("SET {setting} = on"));
    clerk.run("INSERT INTO orders (item) SELECT item FROM orders WHERE length(item) > 0");
    clerk.run(&format!("RESET {setting}; PREPARE p AS {INSERT}; EXECUTE p; EXECUTE p"));
    admin.run("REVOKE INSERT (item) ON orders FROM clerk");
    clerk.refusal("EXECUTE p").is("42501");

    // Views: only one into which one can insert, and that inserts with the rights of an owner who may insert.
    admin.run(
        "CREATE ROLE poor; GRANT CREATE ON SCHEMA public TO poor; GRANT INSERT ON hilo_sequences TO poor; SET ROLE keeper;
         CREATE VIEW plain AS SELECT * FROM orders; CREATE VIEW above AS SELECT item FROM plain;
         CREATE VIEW counted AS SELECT count(*) AS item FROM orders;
         CREATE VIEW invoker WITH (security_invoker) AS SELECT * FROM orders;
         CREATE TABLE aside (item text); CREATE VIEW beside AS SELECT * FROM aside WHERE EXISTS (SELECT FROM orders);
         CREATE VIEW ruled AS SELECT * FROM orders; CREATE RULE r AS ON INSERT TO ruled DO INSTEAD NOTHING;
         RESET ROLE; GRANT SELECT ON orders TO poor; SET ROLE poor; CREATE VIEW poors AS SELECT * FROM orders; RESET ROLE",
    );
    for (view, may) in [
        ("plain", true),
        ("above", true),
        ("counted", false),
        ("invoker", false),
        ("poors", false),
        ("beside", false),
        ("ruled", false),
    ] {
        clerk.refusal(DRAW).is("42501");
        admin.run(&format!("GRANT INSERT ON {view} TO clerk"));
        for _ in 0..3 {
            match may {
                true => clerk.run(&format!("INSERT INTO {view} (item) VALUES ('v')")),
                false => {
                    clerk.refusal(DRAW).is("42501");
                }
            }
        }
        admin.run(&format!("REVOKE INSERT ON {view} FROM clerk"));
    }
    // Nobody does through a view what its owner may no longer do.
    admin.run("GRANT INSERT ON poors TO clerk; GRANT INSERT ON orders TO poor");
    clerk.run("INSERT INTO poors (item) VALUES ('w')");
    admin.run("REVOKE INSERT ON orders FROM poor");
    clerk.refusal(DRAW).is("42501");
    admin.run("DROP VIEW poors");

    admin.run(
        "SET ROLE keeper; CREATE TABLE parts (id bigint DEFAULT hilo_nextval('parts'), day int) PARTITION BY RANGE (day);
         CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10); CREATE TABLE heir () INHERITS (orders);
         SELECT hilo_create('parts', owned_by => 'parts.id'); RESET ROLE; GRANT INSERT ON part, heir TO clerk",
    );
    clerk.refusal("INSERT INTO parts (day) VALUES (1)").is("42501");
    clerk.run("INSERT INTO part (day) VALUES (1); INSERT INTO heir (item) VALUES ('h')");
    admin.run("ALTER TABLE parts DETACH PARTITION part; ALTER TABLE heir NO INHERIT orders");
    clerk.refusal("INSERT INTO part (day) VALUES (1)").is("42501");
    clerk.refusal(DRAW).is("42501");
    cluster.finish();
}

/// Nothing but drawing, and from no other sequence.
#[test]
fn and_nothing_else() {
    let (cluster, mut admin, mut clerk) = shop();
    admin.run("GRANT INSERT ON orders, loose TO clerk");
    clerk.run(INSERT);
    for call in [
        "hilo_setval('orders', 500)",
        "hilo_advance('orders', 500)",
        "hilo_nextrange('orders', 5)",
        "hilo_lease('orders', 5)",
        "hilo_currval('orders')",
        "hilo_lastval()",
        "hilo_alter('orders', increment => 2)",
        "hilo_drop('orders')",
        "hilo_grant('orders', 'clerk', 'USAGE')",
        "hilo_export('orders')",
        "hilo_nextval('loose')",
    ] {
        clerk.refusal(&format!("SELECT {call}")).is("42501");
    }
    clerk.refusal("INSERT INTO loose DEFAULT VALUES").is("42501");
    for view in
        ["hilo_sequences", "hilo_stat_sequences", "hilo_blocks", "hilo_gaps", "hilo_privileges"]
    {
        assert_eq!(clerk.one::<i64>(&format!("SELECT count(*) FROM {view}")), 0, "{view}");
    }
    // Unless the column owns it.
    admin.run("SELECT hilo_alter('loose', owned_by => 'loose.id')");
    clerk.run("INSERT INTO loose DEFAULT VALUES");
    admin.run("SELECT hilo_alter('loose', owned_by => 'none')");
    clerk.refusal("INSERT INTO loose DEFAULT VALUES").is("42501");
    // hilo_check says who may insert and not draw, until he may.
    let finding = "SELECT string_agg(fix, ' ') FROM hilo_check() WHERE object = 'role clerk'";
    let advice: String = admin.one(finding);
    admin.run(&advice);
    clerk.run("INSERT INTO loose DEFAULT VALUES");
    assert_eq!(admin.one::<Option<String>>(finding), None);
    cluster.finish();
}

/// A revocation counts in the session that makes it, in another one, and after a rollback. The
/// rights are those of the role that is the user now.
#[test]
fn revocations_count() {
    let (cluster, mut admin, mut clerk) = shop();
    admin.run("GRANT INSERT ON orders TO clerk; SET ROLE clerk");
    for _ in 0..10 {
        clerk.run(DRAW);
        admin.run(DRAW);
        admin.run(
            "BEGIN; RESET ROLE; REVOKE INSERT ON orders FROM clerk; SET ROLE clerk; SAVEPOINT s",
        );
        admin.refusal(DRAW).is("42501");
        clerk.run(DRAW);
        admin.run("ROLLBACK; SET ROLE clerk");
        admin.run(DRAW);
        clerk.run(DRAW);
        admin.run("RESET ROLE; REVOKE INSERT ON orders FROM clerk; SET ROLE clerk");
        admin.refusal(DRAW).is("42501");
        clerk.refusal(DRAW).is("42501");
        admin.run("RESET ROLE; GRANT INSERT ON orders TO clerk; SET ROLE clerk");
    }
    admin.run("RESET ROLE; CREATE ROLE other; GRANT other TO clerk; CREATE FUNCTION inside() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN RETURN hilo_nextval('orders'); END $$; ALTER FUNCTION inside() OWNER TO clerk");
    for _ in 0..3 {
        clerk.run(DRAW);
        clerk.run("SET ROLE other");
        clerk.refusal(DRAW).is("42501");
        clerk.run("SELECT inside(); RESET ROLE");
    }
    // A table that goes takes its sequence along; one that comes under its name has nothing to do with it.
    admin.run("SELECT hilo_alter('orders', owned_by => 'none'); DROP TABLE orders; CREATE TABLE orders (id bigint, item text); GRANT INSERT ON orders TO clerk");
    clerk.refusal(DRAW).is("42501");
    cluster.finish();
}

/// While the right comes and goes, nobody draws who has none, and everybody inserts who has it.
#[test]
fn while_the_right_comes_and_goes() {
    let (cluster, mut admin, _) = shop();
    let client = || {
        let mut client = cluster.connect_as("clerk", "postgres");
        move |_| client.query_one("SELECT hilo_nextval('orders')", &[]).is_ok()
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut draws = client();
            scope.spawn(move || (0..300).map(&mut draws).filter(|drawn| *drawn).count());
        }
        let mut draws = client();
        for round in 0..50 {
            admin.run("GRANT INSERT ON orders TO clerk");
            assert!(draws(round), "it may");
            admin.run("REVOKE INSERT ON orders FROM clerk");
            assert!(!draws(round), "it may not");
        }
    });
    cluster.finish();
}
