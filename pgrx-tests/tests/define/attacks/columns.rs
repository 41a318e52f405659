//! A function that reads columns runs nothing of their tables' owners, and leaves nothing in the
//! session that calls it.
//!
//! Each trap is a place where an owner can put code that core runs while it plans or executes a
//! query, or evaluates a value. Whatever runs in the session of another role says so, and plants an
//! object of every kind that it can.

use hilo_tests::{Client, ClientExt, Cluster};

/// The objects that mallory owns, with a trap in each; where a superuser's query would run it.
const TRAPS: [(&str, &str); 12] = [
    (
        "indexed",
        "CREATE TABLE indexed (id bigint); CREATE INDEX ON indexed (sprung(id)); CREATE INDEX ON indexed (id) WHERE sprung(7) = 7; CREATE INDEX ON indexed (id, sprung(8))",
    ),
    ("checked", "CREATE TABLE checked (id bigint, CHECK (sprung(7) = 7), CHECK (sprung(id) = id))"),
    (
        "policed",
        "CREATE TABLE policed (id bigint); ALTER TABLE policed ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON policed USING (sprung(id) = id)",
    ),
    (
        "counted",
        "CREATE TABLE counted (id bigint); CREATE STATISTICS counted_by ON (sprung(id)), (sprung(7) + id) FROM counted",
    ),
    (
        "domained",
        "CREATE DOMAIN tame AS bigint CHECK (sprung(VALUE) = VALUE); CREATE TABLE domained (id tame)",
    ),
    (
        "split",
        "CREATE TABLE split (id bigint) PARTITION BY RANGE (sprung(id)); CREATE TABLE part PARTITION OF split DEFAULT; CREATE INDEX ON split (sprung(9))",
    ),
    (
        "parent",
        "CREATE TABLE parent (id bigint); CREATE TABLE child (CHECK (sprung(7) = 7)) INHERITS (parent); INSERT INTO child VALUES (2)",
    ),
    (
        "derived",
        "CREATE TABLE derived (id bigint, twice bigint GENERATED ALWAYS AS (sprung(id)) STORED, other bigint DEFAULT sprung(7))",
    ),
    (
        "serial",
        "CREATE TABLE serial (id serial, n int); CREATE INDEX ON serial (sprung(id)) WHERE sprung(7) = 7; ALTER TABLE serial ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON serial USING (sprung(id) = id)",
    ),
    (
        "identity",
        "CREATE TABLE identity (id int GENERATED ALWAYS AS IDENTITY, n int CHECK (sprung(7) = 7)); CREATE INDEX ON identity (id, sprung(8))",
    ),
    (
        "seen",
        "CREATE TABLE below (id bigint); INSERT INTO below VALUES (1); CREATE VIEW seen AS SELECT sprung(id) AS id FROM below",
    ),
    (
        "ruled",
        "CREATE TABLE ruled (id bigint, n text CHECK (sprung(7) = 7)); CREATE RULE r AS ON INSERT TO ruled WHERE sprung(new.id) = 0 DO INSTEAD NOTHING",
    ),
];

/// Kinds of objects and states that a session could be left with.
const PLANTS: [&str; 17] = [
    "CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (public.sprung(7) = 7)",
    "CREATE TYPE pg_temp.int8 AS (a int)",
    "CREATE TYPE pg_temp.oid AS ENUM (''a'')",
    "CREATE FUNCTION pg_temp.now() RETURNS int LANGUAGE sql AS ''SELECT 1''",
    "CREATE OPERATOR pg_temp.= (LEFTARG = int, RIGHTARG = text, FUNCTION = public.compared)",
    "CREATE CAST (public.mine AS bigint) WITHOUT FUNCTION AS IMPLICIT",
    "CREATE AGGREGATE pg_temp.max (bigint) (SFUNC = int8larger, STYPE = bigint)",
    "CREATE COLLATION pg_temp.\"C\" FROM pg_catalog.\"C\"",
    "CREATE TEMP TABLE pg_class (a int)",
    "CREATE TEMP SEQUENCE s",
    "CREATE TEMP VIEW v AS SELECT 1",
    "CREATE TABLE public.planted (a int)",
    "SET mallory.was = ''here''",
    "SET search_path = public",
    "SELECT pg_advisory_lock(4711)",
    "SELECT nextval(''public.hers'')",
    "SELECT setseed(0.5)",
];

/// The state that a session can be left with, one row.
const LEFT: &str = "SELECT concat_ws(' ',
    (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema() OR relname = 'planted'),
    (SELECT count(*) FROM pg_type WHERE typnamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_operator WHERE oprnamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_collation WHERE collnamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_cast WHERE oid >= 16384 AND castsource = to_regtype('mine')),
    (SELECT count(*) FROM pg_prepared_statements WHERE from_sql), (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_cursors WHERE is_holdable),
    (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
    coalesce(current_setting('mallory.was', true), 'unset'), current_setting('search_path'), current_user)";

const NOTHING: &str = "0 0 0 0 0 0 0 0 0 0 unset \"$user\", public postgres";

fn lay_traps(cluster: &Cluster) -> Client {
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; GRANT INSERT ON hilo_sequences TO mallory;
         SELECT hilo_create('orders', max_value => 100000), hilo_grant('orders', 'mallory', 'ALL')",
    );
    let mut mallory = cluster.connect_as("mallory", "postgres");
    let plants: String = PLANTS
        .map(|plant| format!("BEGIN EXECUTE '{plant}'; EXCEPTION WHEN OTHERS THEN NULL; END;"))
        .concat();
    mallory.run(&format!(
        "CREATE TYPE mine AS (a bigint); CREATE SEQUENCE hers;
         CREATE FUNCTION compared(int, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
         CREATE FUNCTION planted() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {plants} END $$;
         CREATE FUNCTION sprung(bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN
             IF session_user <> 'mallory' THEN
                 RAISE WARNING 'sprung as %', current_user; PERFORM public.planted();
             END IF; RETURN $1; END $$"
    ));
    for (name, sql) in TRAPS {
        mallory.run(sql);
        match name {
            "seen" => mallory.run("ALTER VIEW seen ALTER id SET DEFAULT hilo_nextval('lost seen')"),
            "serial" | "identity" => mallory.run(&format!("INSERT INTO {name} (n) VALUES (1)")),
            _ => mallory.run(&format!(
                "INSERT INTO {name} (id) VALUES (1);
                 ALTER TABLE {name} ALTER id SET DEFAULT hilo_nextval('lost {name}')"
            )),
        }
    }
    admin
}

/// Calls a function in a session of its own, and checks that nothing of mallory's has run and
/// nothing is left. Whether the call was refused.
fn is_refused(cluster: &Cluster, sql: &str) -> Option<String> {
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    assert_eq!(client.one::<String>(LEFT), NOTHING);
    heard.take();
    let refused = client.batch_execute(sql).err();
    let ran: Vec<_> = heard.messages().into_iter().filter(|one| one.contains("sprung")).collect();
    assert!(ran.is_empty(), "{sql}: {ran:?}");
    assert_eq!(client.one::<String>(LEFT), NOTHING, "{sql}");
    assert!(client.one::<bool>("SELECT 'x'::text = 'x' AND 1::int8 = 1"), "{sql}");
    client.refusal("SELECT lastval()").is("55000");
    assert!(heard.messages().is_empty(), "{sql}");
    refused.map(|error| error.code().expect("a report").code().to_owned())
}

/// A trap springs where a superuser's query reads the relation: else the others would show nothing.
#[test]
fn the_traps_are_sharp() {
    let cluster = Cluster::with_hilo();
    let mut admin = lay_traps(&cluster);
    let (mut client, heard) = cluster.connect_listening("postgres", "postgres");
    for relation in ["indexed", "counted", "seen", "serial", "identity"] {
        client.run(&format!("SELECT max(id) FROM {relation} WHERE id > 0"));
        assert!(heard.messages().concat().contains("sprung as postgres"), "{relation}");
    }
    admin.run("DROP TABLE planted");
    cluster.finish();
}

/// hilo_create_missing creates what the tables need, and leaves the view out.
#[test]
fn create_missing_runs_no_owners_code() {
    let cluster = Cluster::with_hilo();
    let mut admin = lay_traps(&cluster);
    assert_eq!(is_refused(&cluster, "SELECT * FROM hilo_create_missing()"), None);
    let made: Vec<String> = admin.all("SELECT name FROM hilo_sequences WHERE name ~ '^lost'");
    assert_eq!(
        made.len(),
        TRAPS.len() - 3,
        "all but the view, the serial and the identity column: {made:?}"
    );
    assert!(!made.contains(&"lost seen".into()));
    cluster.finish();
}

/// hilo_adopt and hilo_release.
#[test]
fn adopt_runs_no_owners_code() {
    let cluster = Cluster::with_hilo();
    lay_traps(&cluster);
    for call in [
        "SELECT hilo_adopt('serial', 'id')",
        "SELECT hilo_adopt('identity', 'id')",
        "SELECT hilo_release('serial', 'id', NULL)",
        "SELECT hilo_release('identity', 'id')",
    ] {
        assert_eq!(is_refused(&cluster, call), None, "{call}");
    }
    cluster.finish();
}

/// It reads a column by a query, so it refuses those of others.
#[test]
fn adopt_on_all_nodes_runs_no_owners_code() {
    let cluster = Cluster::with_hilo();
    let mut admin = lay_traps(&cluster);
    let call = "SELECT hilo_adopt_on_all_nodes('serial', 'id')";
    assert_eq!(is_refused(&cluster, call).as_deref(), Some("42809"));
    admin.run("CREATE ROLE clerk; GRANT ALL ON serial TO clerk; SET ROLE clerk");
    admin.refusal(call).is("42501").helps();
    cluster.finish();
}

/// hilo_sync reads all tables, also for what is leased, and no view.
#[test]
fn sync_runs_no_owners_code() {
    let cluster = Cluster::with_hilo();
    let mut admin = lay_traps(&cluster);
    for (relation, _) in TRAPS {
        admin.run("SELECT hilo_setval('orders', 1, false), hilo_lease('orders', 5)");
        let refused =
            is_refused(&cluster, &format!("SELECT hilo_sync('orders', '{relation}', 'id')"));
        assert_eq!(refused.as_deref(), (relation == "seen").then_some("42809"), "{relation}");
    }
    cluster.finish();
}

/// hilo_find_gaps reads all tables, and a view only for a role that is no superuser: with its own
/// rights, as SELECT.
#[test]
fn find_gaps_runs_no_owners_code() {
    let cluster = Cluster::with_hilo();
    let mut admin = lay_traps(&cluster);
    admin.run("SELECT hilo_nextvals('orders', 3)");
    for (relation, _) in TRAPS {
        let gaps = format!("SELECT * FROM hilo_find_gaps('orders', '{relation}', 'id')");
        let refused = is_refused(&cluster, &gaps);
        assert_eq!(refused.as_deref(), (relation == "seen").then_some("42809"), "{relation}");
        let mut mallory = cluster.connect_as("mallory", "postgres");
        let firsts: Vec<i64> = mallory.all(&gaps);
        assert_eq!(firsts[0], if relation == "parent" { 3 } else { 2 }, "{relation}");
    }
    cluster.finish();
}

/// hilo_check and hilo_report, and what renames, drops and describes.
#[test]
fn check_and_report_run_no_owners_code() {
    let cluster = Cluster::with_hilo();
    let mut admin = lay_traps(&cluster);
    admin.run("SELECT hilo_create_missing()");
    for call in [
        "SELECT * FROM hilo_check()",
        "SELECT hilo_report()",
        "SELECT hilo_export()",
        "SELECT * FROM hilo_apply(hilo_export(), prune => true)",
        "SELECT hilo_rename('lost indexed', 'found')",
        "SELECT hilo_drop('lost split', cascade => true)",
        "DROP OWNED BY mallory CASCADE",
    ] {
        assert_eq!(is_refused(&cluster, call), None, "{call}");
    }
    cluster.finish();
}
