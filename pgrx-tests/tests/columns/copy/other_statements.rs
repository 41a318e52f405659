//! No other statement than COPY FROM gets what its defaults get: not before it, within it, after it, or after one that
//! failed. A statement that draws elsewhere calls the volatile functions, once for each row.

use super::*;

/// Adds a column with the default to a table that has rows, and checks that each has a number of its own.
#[track_caller]
fn assert_adds_column(client: &mut Client, when: &str) {
    client.run("ALTER TABLE kept ADD COLUMN n bigint DEFAULT hilo_nextval('s'), ADD COLUMN k text DEFAULT hilo_nextkey('s')");
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT n) FROM kept"), 500, "{when}");
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT k) FROM kept"), 500, "{when}");
    client.run("ALTER TABLE kept DROP COLUMN n, DROP COLUMN k");
}

fn session(cluster: &Cluster) -> Client {
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s');
         CREATE TABLE kept AS SELECT v FROM generate_series(1, 500) v;
         CREATE TABLE loaded (id bigint DEFAULT hilo_nextval('s'), v integer)",
    );
    client
}

/// ALTER TABLE … ADD COLUMN gives each row its own number.
#[test]
fn add_column() {
    let cluster = cluster();
    let mut client = session(&cluster);
    assert_adds_column(&mut client, "before any COPY");
    copy(&mut client, "loaded (v)", 1..=10);
    assert_adds_column(&mut client, "after COPY");
    client.run("BEGIN");
    copy(&mut client, "loaded (v)", 1..=10);
    assert_adds_column(&mut client, "in the transaction of a COPY");
    client.run("COMMIT");
    client.refusal("COPY loaded (v) FROM '/nowhere'").is("58P01");
    assert_adds_column(&mut client, "after a COPY that failed once its defaults were planned");
    client.run("BEGIN; SAVEPOINT here");
    client.refusal("COPY loaded (v) FROM '/nowhere'").is("58P01");
    client.run("ROLLBACK TO here");
    assert_adds_column(&mut client, "in the transaction of such a COPY");
    client.run("COMMIT");
    client.refusal("COPY loaded (w) FROM '/nowhere'").is("42703");
    assert_adds_column(&mut client, "after a COPY that failed before");

    let mut other = cluster.connect("postgres");
    let mut open = client.copy_in("COPY loaded (v) FROM STDIN").unwrap();
    writeln!(open, "1").unwrap();
    open.flush().unwrap();
    assert_adds_column(&mut other, "while another session loads");
    assert_eq!(open.finish().unwrap(), 1);
    assert_eq!(twins(&mut client), 21);
    cluster.finish();
}

/// The same while COPY runs: in triggers, and in a function that is evaluated while the defaults are planned.
#[test]
fn add_column_within_a_copy() {
    let cluster = cluster();
    let mut client = session(&cluster);
    client.run(
        "CREATE FUNCTION alter() RETURNS void LANGUAGE plpgsql AS $$
         BEGIN
             ALTER TABLE kept ADD COLUMN n bigint DEFAULT hilo_nextval('s');
             IF (SELECT count(DISTINCT n) FROM kept) <> 500 THEN RAISE EXCEPTION 'not distinct'; END IF;
             ALTER TABLE kept DROP COLUMN n;
         END $$;
         CREATE FUNCTION seven() RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
             $$ BEGIN PERFORM alter(); RETURN 7; END $$;
         CREATE FUNCTION added() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM alter(); RETURN NEW; END $$",
    );
    for (round, (timing, adds)) in [
        ("BEFORE INSERT ON loaded", 1),
        ("AFTER INSERT ON loaded", 1),
        ("BEFORE INSERT ON loaded FOR EACH ROW", 3),
        ("AFTER INSERT ON loaded FOR EACH ROW", 3),
    ]
    .into_iter()
    .enumerate()
    {
        let before = calls(&mut client, "'hilo_nextval'");
        client.run(&format!("CREATE TRIGGER added {timing} EXECUTE FUNCTION added()"));
        copy(&mut client, "loaded (v)", 1..=3);
        client.run("DROP TRIGGER added ON loaded");
        assert_eq!(calls(&mut client, "'hilo_nextval'") - before, 500 * adds, "{timing}");
        assert_eq!(twins(&mut client), 3 * (round as i64 + 1), "{timing}");
    }
    // While they are planned, the function is called for its constant result. COPY continues with the columns after it.
    let before = calls(&mut client, "'hilo_nextval'");
    client.run(
        "TRUNCATE loaded;
         ALTER TABLE loaded ADD COLUMN seven integer;
         ALTER TABLE loaded ALTER COLUMN seven SET DEFAULT seven(), ADD COLUMN last bigint DEFAULT hilo_nextval('s')",
    );
    copy(&mut client, "loaded (v)", 1..=30);
    assert_eq!(
        client.one::<i64>("SELECT count(*) FROM loaded WHERE last = id + 1 AND seven = 7"),
        30
    );
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT id) FROM loaded"), 30);
    assert!(calls(&mut client, "'hilo_nextval'") - before >= 500);
    cluster.finish();
}

/// The same after a COPY within it. A function that is evaluated while one column is added loads
/// another table, and the next column is planned after that.
#[test]
fn a_copy_within_add_column() {
    let cluster = cluster();
    let mut client = session(&cluster);
    let file = cluster.file("rows");
    std::fs::write(&file, "1\n2\n3\n").expect("cannot write the rows");
    client.run(&format!(
        "CREATE FUNCTION load() RETURNS void LANGUAGE plpgsql AS
             $$ BEGIN COPY loaded (v) FROM '{}'; END $$;
         CREATE FUNCTION seven() RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
             $$ BEGIN PERFORM load(); RETURN 7; END $$;
         ALTER TABLE kept ADD COLUMN seven integer DEFAULT seven(),
                          ADD COLUMN n bigint DEFAULT hilo_nextval('s')",
        file.display()
    ));
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT n) FROM kept WHERE seven = 7"), 500);
    let loaded: i64 = client.one("SELECT count(DISTINCT id) FROM loaded");
    assert!(loaded > 0, "the function was not called");
    assert_eq!((calls(&mut client, "'hilo_nextval'"), twins(&mut client)), (500, loaded));
    cluster.finish();
}

/// INSERT, COPY TO, prepared statements and PL/pgSQL draw with the volatile functions; plans that were made during a COPY,
/// and are kept, do too.
#[test]
fn plans() {
    let cluster = cluster();
    let mut client = session(&cluster);
    client.run(
        "CREATE FUNCTION insert() RETURNS bigint LANGUAGE plpgsql AS $$
         DECLARE number bigint := hilo_nextval('s');
         BEGIN
             INSERT INTO kept VALUES (hilo_nextval('s'));
             RETURN number;
         END $$;
         CREATE FUNCTION inserts() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM insert(); RETURN NEW; END $$;
         CREATE TRIGGER inserts AFTER INSERT ON loaded FOR EACH ROW EXECUTE FUNCTION inserts();
         PREPARE one AS INSERT INTO kept VALUES (hilo_nextval('s'))",
    );
    let mut expect = 0;
    for mode in ["force_custom_plan", "force_generic_plan"] {
        client.run(&format!("SET plan_cache_mode = {mode}"));
        copy(&mut client, "loaded (v)", 1..=10);
        client.run("EXECUTE one; EXECUTE one; SELECT insert(), insert()");
        client.run("INSERT INTO loaded (v) SELECT v FROM generate_series(1, 10) v");
        client.run("COPY (SELECT v FROM kept WHERE hilo_nextval('s') % 2 = v % 2) TO '/dev/null'");
        client.run("COPY (INSERT INTO kept SELECT hilo_nextval('s') FROM generate_series(1, 10) RETURNING v) TO '/dev/null'");
        expect += 10;
        assert_eq!(twins(&mut client), expect, "{mode}");
    }
    let (drawn, called) =
        (client.one::<i64>("SELECT hilo_currval('s')"), calls(&mut client, "'hilo_nextval'"));
    assert_eq!(called + expect, drawn);
    cluster.finish();
}

/// Expressions that COPY evaluates beside the defaults, and that the table or a type keeps, call the volatile function, for
/// each row. Generated columns and indexes refuse it, as before.
#[test]
fn expressions_of_the_table() {
    let cluster = cluster();
    let mut client = session(&cluster);
    client.run("SELECT hilo_create('c')");
    for generated in [
        "ALTER TABLE loaded ADD COLUMN g bigint GENERATED ALWAYS AS (hilo_nextval('s')) STORED",
        "CREATE INDEX ON loaded ((hilo_nextval('s')))",
        "CREATE INDEX ON loaded (v) WHERE hilo_nextval('s') > 0",
    ] {
        client.refusal(generated).is("42P17");
    }
    // A check, of the table and of the type of a column that has a default.
    client.run(
        "CREATE DOMAIN checked AS bigint CHECK (VALUE + hilo_nextval('c') > 0);
         CREATE TABLE strict (v integer, id checked DEFAULT hilo_nextval('s'), CHECK (hilo_nextval('c') > 0))",
    );
    copy(&mut client, "strict (v)", 1..=100);
    // From PostgreSQL 19 on, COPY plans the check of the type itself, as it plans a default.
    let of_type = |checks: i64| if cluster.version() < 19 { 0 } else { checks };
    let drawn = |client: &mut Client, checks: i64| {
        let checks = of_type(checks);
        (calls(client, "'hilo_nextval'") + checks, twins(client) - checks)
    };
    assert_eq!(drawn(&mut client, 100), (200, 100));
    client.run("INSERT INTO strict (v) SELECT v FROM generate_series(1, 100) v; SELECT 7::checked");
    assert_eq!(drawn(&mut client, 201), (501, 100));
    assert_eq!(client.one::<i64>("SELECT hilo_currval('c')"), 401);
    // Row security keeps COPY out. A view has defaults of its own, which COPY uses.
    client.run(
        "CREATE ROLE clerk LOGIN; GRANT INSERT, SELECT ON loaded TO clerk; SELECT hilo_grant('s', 'clerk', 'USAGE');
         ALTER TABLE loaded ENABLE ROW LEVEL SECURITY;
         CREATE POLICY even ON loaded USING (hilo_nextval('s') > 0);
         CREATE VIEW shown AS SELECT id, v, hilo_nextval('s') AS n FROM loaded;
         ALTER VIEW shown ALTER COLUMN id SET DEFAULT hilo_nextval('s');
         CREATE FUNCTION store() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO loaded VALUES (NEW.id, NEW.v); RETURN NEW; END $$;
         CREATE TRIGGER store INSTEAD OF INSERT ON shown FOR EACH ROW EXECUTE FUNCTION store()",
    );
    let mut clerk = cluster.connect_as("clerk", "postgres");
    clerk.refusal("COPY loaded (v) FROM STDIN").is("0A000");
    clerk.run("INSERT INTO loaded (v) VALUES (1)");
    assert_eq!(drawn(&mut clerk, 201), (503, 100));
    copy(&mut client, "shown (v)", 1..=100);
    assert_eq!(drawn(&mut client, 201), (503, 200));
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT n) FROM shown"), 101);
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT id) FROM loaded"), 101);
    assert_eq!(drawn(&mut client, 201), (604, 200));
    cluster.finish();
}

/// A function to which a superuser gives the support function of hilo's is not replaced, whatever it takes.
#[test]
fn functions_of_others() {
    let cluster = cluster();
    let mut client = session(&cluster);
    client.run(
        "CREATE FUNCTION minus_one() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN -1; END $$;
         CREATE FUNCTION minus_two(hilo_sequence) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN -2; END $$;
         ALTER FUNCTION minus_one() SUPPORT _hilo.hilo_planner_support;
         ALTER FUNCTION minus_two(hilo_sequence) SUPPORT _hilo.hilo_planner_support;
         ALTER TABLE loaded ADD COLUMN a bigint DEFAULT minus_one(), ADD COLUMN b bigint DEFAULT minus_two('s')",
    );
    copy(&mut client, "loaded (v)", 1..=10);
    let wrong = "SELECT count(*) FROM loaded WHERE (a, b, id) <> (-1, -2, v)";
    assert_eq!(client.one::<i64>(wrong), 0);
    assert_eq!(twins(&mut client), 10);
    cluster.finish();
}

/// SQL cannot call what COPY calls: there is no value for the argument.
#[test]
fn nobody_calls_a_twin() {
    let cluster = cluster();
    let mut client = session(&cluster);
    client.run(
        "CREATE ROLE clerk LOGIN; GRANT CREATE ON SCHEMA public TO clerk; GRANT INSERT ON hilo_sequences TO clerk;
         SELECT hilo_grant('s', 'PUBLIC', 'USAGE')",
    );
    // No value of the type, no such function, no such cast: newer versions find the mistake earlier.
    let sqlstates = ["0A000", "42883", "42846"];
    for role in ["postgres", "clerk"] {
        let mut client = cluster.connect_as(role, "postgres");
        let mut refused = |sql: &str| {
            let refusal = client.refusal(sql);
            let sqlstate = refusal.report().code().code();
            assert!(sqlstates.contains(&sqlstate), "{sql}: {:?}", refusal.report());
        };
        for function in ["_hilo.hilo_copy_nextval", "_hilo.hilo_copy_nextkey"] {
            for arguments in [
                "'s', NULL",
                "'s', '0'",
                "'s', NULL::internal",
                "'s', 0",
                "'s', 0::internal",
                "'s'",
            ] {
                refused(&format!("SELECT {function}({arguments})"));
                refused(&format!("CREATE TABLE t (id text DEFAULT {function}({arguments}))"));
            }
        }
        refused("SELECT _hilo.hilo_planner_support(NULL)");
    }
    assert_eq!(twins(&mut client), 0);
    cluster.finish();
}
