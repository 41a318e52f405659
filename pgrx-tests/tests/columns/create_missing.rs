//! `hilo_create_missing` creates what column defaults name and what does not exist, so that nothing
//! is served that a column holds already. And it gives nobody more rights than before.

use std::sync::{Arc, Mutex};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};
use postgres::{Config, NoTls};

/// Its rows, each in one text.
fn create_missing(client: &mut Client) -> Vec<String> {
    let call =
        "SELECT concat_ws(' ', name, relation, column_name, coalesce(next_value::text, 'none'))
                  FROM hilo_create_missing()";
    client.all(call)
}

/// The words of hilo_check of column defaults.
fn findings(client: &mut Client) -> Vec<String> {
    client.all("SELECT object || ': ' || what FROM hilo_check() WHERE object LIKE 'column %'")
}

/// A superuser's session, and the messages that it gets.
fn with_messages(cluster: &Cluster, role: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let kept = messages.clone();
    let mut config = Config::new();
    config.host_path(cluster.socket_directory()).user(role).dbname("postgres");
    config.notice_callback(move |notice| {
        let detail = notice.detail().unwrap_or_default();
        let (severity, message) = (notice.severity(), notice.message());
        kept.lock().unwrap().push(format!("{severity}: {message} {detail}"));
    });
    (config.connect(NoTls).expect("it connects"), messages)
}

/// Each begins behind what its column holds and has the column's data type; the next insert works. A second call
/// finds nothing to do.
#[test]
fn each_begins_behind_what_its_columns_hold() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE DOMAIN number AS integer CHECK (value <> 13);
         CREATE TABLE small (id smallint DEFAULT hilo_nextval('small'), n int);
         CREATE TABLE whole (id integer DEFAULT hilo_nextval('whole'), n int);
         CREATE TABLE big (id bigint PRIMARY KEY DEFAULT hilo_nextval('big'), n int);
         CREATE TABLE dom (id number DEFAULT hilo_nextval('dom'), n int);
         CREATE TABLE num (id numeric DEFAULT hilo_nextval('num'), n int);
         CREATE TABLE key (id text DEFAULT hilo_nextkey('key/x'), n int);
         CREATE TABLE empty (id bigint DEFAULT hilo_nextval('empty'), n int);
         CREATE TABLE below (id bigint DEFAULT hilo_nextval('below'), n int);
         CREATE TABLE full_up (id smallint DEFAULT hilo_nextval('full'), n int);
         CREATE TABLE \"One\" (\"Id\" integer DEFAULT hilo_nextval('shared'), n int);
         CREATE TABLE two (id bigint DEFAULT hilo_nextval('shared'), n int);
         CREATE TABLE there (id bigint DEFAULT hilo_nextval('there'), n int);
         SELECT hilo_create('there');
         INSERT INTO small VALUES (7), (3), (NULL);
         INSERT INTO whole VALUES (-5), (100000);
         INSERT INTO big SELECT generate_series(1, 1000);
         INSERT INTO dom VALUES (12);
         INSERT INTO num VALUES (41.5), ('NaN'), ('Infinity'), (1e30), (-1e30);
         INSERT INTO key VALUES ('key/x/9'), ('key/x/10'), ('other');
         INSERT INTO below VALUES (-3);
         INSERT INTO full_up VALUES (32767);
         INSERT INTO \"One\" VALUES (5);
         INSERT INTO two VALUES (40000000000)",
    );
    let mut made = create_missing(&mut admin);
    made.sort();
    assert_eq!(
        made,
        [
            "below below id 1",
            "big big id 1001",
            "dom dom id 13",
            "empty empty id 1",
            "full full_up id none",
            "key/x key id 11",
            "num num id 42",
            "shared \"One\" Id 6",
            "shared two id 6",
            "small small id 8",
            "whole whole id 100001",
        ]
    );
    let types: Vec<String> = admin.all(
        "SELECT name || ' ' || data_type || ' ' || start_value FROM hilo_sequences WHERE data_type <> 'bigint'::regtype ORDER BY name",
    );
    assert_eq!(
        types,
        [
            "dom integer 1",
            "full smallint 1",
            "shared integer 1",
            "small smallint 1",
            "whole integer 1"
        ]
    );
    assert!(create_missing(&mut admin).is_empty());
    for (table, next) in
        [("small", "8"), ("whole", "100001"), ("big", "1001"), ("num", "42"), ("key", "key/x/11")]
    {
        let insert = format!("INSERT INTO {table} (n) VALUES (1) RETURNING id::text");
        assert_eq!(admin.one::<String>(&insert), next);
    }
    admin.refusal("INSERT INTO full_up (n) VALUES (1)").is("2200H");
    admin.refusal("INSERT INTO dom (n) VALUES (1)").is("23514");
    assert!(findings(&mut admin).is_empty());
    // A restart begins at the start, as with a sequence that was created by hand.
    admin.run("SELECT hilo_alter('big', restart_with => start_value) FROM hilo_sequences WHERE name = 'big'");
    assert_eq!(admin.draw("big", 1), [1]);
    cluster.finish();
}

/// A partitioned table, or one with children, is one column, whatever part of it holds the largest value.
#[test]
fn partitions_and_children_count_with_their_parent() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE TABLE parts (id bigint DEFAULT hilo_nextval('parts'), n int) PARTITION BY LIST (n);
         CREATE TABLE part1 PARTITION OF parts FOR VALUES IN (1);
         CREATE TABLE part2 PARTITION OF parts FOR VALUES IN (2);
         CREATE TABLE parent (n int, id bigint DEFAULT hilo_nextval('parent'));
         CREATE TABLE child (more bigint DEFAULT hilo_nextval('own')) INHERITS (parent);
         CREATE TABLE above (id bigint DEFAULT hilo_nextval('own'));
         CREATE TABLE beside (own bigint DEFAULT hilo_nextval('own')) INHERITS (above);
         INSERT INTO beside VALUES (3, 90);
         INSERT INTO parts VALUES (5, 1), (9, 2); INSERT INTO parent (id) VALUES (3);
         INSERT INTO child (id, more) VALUES (30, 60);
         CREATE TABLE base (id bigint); INSERT INTO base VALUES (70);
         CREATE VIEW seen AS SELECT * FROM base;
         ALTER VIEW seen ALTER id SET DEFAULT hilo_nextval('seen')",
    );
    let mut made = create_missing(&mut admin);
    made.sort();
    assert_eq!(
        made,
        [
            "own above id 91",
            "own beside own 91",
            "own child more 91",
            "parent parent id 31",
            "parts parts id 10",
        ]
    );
    cluster.finish();
}

/// It waits for those that are writing, and begins behind what they have written, in every isolation level.
#[test]
fn it_waits_for_writers_and_sees_what_they_wrote() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        admin.run(
            "DROP TABLE IF EXISTS t; SELECT hilo_drop('t', if_exists => true);
             CREATE TABLE t (id bigint DEFAULT hilo_nextval('t')); INSERT INTO t VALUES (1)",
        );
        let (mut writer, mut maker) = (cluster.connect("postgres"), cluster.connect("postgres"));
        maker.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM t"));
        writer.run("BEGIN; INSERT INTO t VALUES (500)");
        maker.run("SAVEPOINT s; SET lock_timeout = '10ms'");
        maker.refusal("SELECT hilo_create_missing()").is("55P03");
        maker.run("ROLLBACK TO s");
        assert_eq!(admin.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
        let pid = maker.backend_pid();
        thread::scope(|scope| {
            let made = scope.spawn(|| create_missing(&mut maker));
            wait_until("it waits for the writer", LONG, || admin.sees_waiting(pid));
            writer.run("COMMIT");
            assert_eq!(made.join().expect("it has ended well"), ["t t id 501"], "{level}");
        });
        // Nobody else writes until it commits.
        writer.run("SET lock_timeout = '10ms'");
        writer.refusal("INSERT INTO t VALUES (501)").is("55P03");
        maker.run("INSERT INTO t DEFAULT VALUES; COMMIT");
        assert_eq!(admin.one::<i64>("SELECT max(id) FROM t"), 501);
        assert_eq!(writer.one::<i64>("INSERT INTO t DEFAULT VALUES RETURNING id"), 502);
    }
    cluster.finish();
}

/// Several sessions at once create each sequence once; a rollback creates none.
#[test]
fn sessions_create_each_once() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "DO $$ BEGIN FOR n IN 1..30 LOOP
             EXECUTE format('CREATE TABLE t%s (id bigint DEFAULT hilo_nextval(%L))', n, 't' || n);
         END LOOP; END $$",
    );
    let before: i64 = admin.one("SELECT count(*) FROM _hilo.hilo_position");
    admin.run("BEGIN");
    assert_eq!(create_missing(&mut admin).len(), 30);
    assert_eq!(admin.draw("t7", 1), [1]);
    admin.run("ROLLBACK");
    assert_eq!(admin.one::<i64>("SELECT count(*) FROM _hilo.hilo_position"), before);
    let run = &|| create_missing(&mut cluster.connect("postgres")).len();
    let made: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it has ended well")).sum()
    });
    assert_eq!(made, 30);
    cluster.finish();
}

/// A role creates the sequences of its own tables, and its tables' owner owns them. Tables of others are left out
/// and not locked.
#[test]
fn a_role_creates_those_of_its_own_tables() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE ROLE anna LOGIN; CREATE ROLE bert LOGIN; GRANT CREATE ON SCHEMA public TO bert; GRANT INSERT ON hilo_sequences TO bert;
         CREATE TABLE hers (id bigint DEFAULT hilo_nextval('hers')); ALTER TABLE hers OWNER TO anna;
         CREATE TABLE his (id bigint DEFAULT hilo_nextval('his')); ALTER TABLE his OWNER TO bert;
         CREATE TABLE his2 (id bigint DEFAULT hilo_nextval('both')); ALTER TABLE his2 OWNER TO bert;
         CREATE TABLE hers2 (id bigint DEFAULT hilo_nextval('both')); ALTER TABLE hers2 OWNER TO anna;
         GRANT ALL ON his, hers, hers2 TO anna, bert",
    );
    let (mut writer, (mut bert, messages)) =
        (cluster.connect("postgres"), with_messages(&cluster, "bert"));
    writer.run("BEGIN; INSERT INTO hers VALUES (5)");
    assert_eq!(create_missing(&mut bert), ["his his id 1"]);
    writer.run("COMMIT");
    let messages = std::mem::take(&mut *messages.lock().unwrap());
    assert_eq!(messages.len(), 2, "{messages:?}");
    // A sequence that a table of its own lacks is a warning.
    assert!(messages[0].starts_with("WARNING") && messages[0].contains("\"both\""), "{messages:?}");
    assert!(messages[0].contains("public.hers2.id uses it, whose table belongs to another role"));
    assert!(messages[1].starts_with("NOTICE") && messages[1].contains("\"hers\""), "{messages:?}");
    assert!(messages[1].contains("public.hers.id"));
    let mut anna = cluster.connect_as("anna", "postgres");
    anna.refusal("SELECT hilo_create_missing()").is("42501").says("to create hilo sequences");
    // A superuser creates it for the tables' owner, if that is one role.
    let (mut superuser, messages) = with_messages(&cluster, "postgres");
    assert_eq!(create_missing(&mut superuser), ["hers hers id 6"]);
    let messages = std::mem::take(&mut *messages.lock().unwrap());
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].starts_with("WARNING") && messages[0].contains("other roles' tables"));
    let owners: Vec<String> =
        admin.all("SELECT name || ' ' || owner FROM hilo_sequences ORDER BY 1");
    assert_eq!(owners, ["hers anna", "his bert"]);
    cluster.finish();
}

/// A column that no table here stores is left out, with a notice, for its owner too; row security
/// hides no rows.
#[test]
fn it_reads_what_tables_store() {
    let cluster = Cluster::with_hilo();
    let (mut admin, messages) = with_messages(&cluster, "postgres");
    admin.run(
        "CREATE ROLE anna LOGIN; GRANT CREATE ON SCHEMA public TO anna; GRANT INSERT ON hilo_sequences TO anna;
         CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
         CREATE FOREIGN TABLE far (id bigint DEFAULT hilo_nextval('far')) SERVER nowhere;
         CREATE TABLE parts (id bigint DEFAULT hilo_nextval('parts')) PARTITION BY LIST (id);
         CREATE FOREIGN TABLE part PARTITION OF parts DEFAULT SERVER nowhere;
         CREATE VIEW v AS SELECT 7 AS id; ALTER VIEW v ALTER id SET DEFAULT hilo_nextval('v');
         SET ROLE anna; CREATE TABLE t (id bigint DEFAULT hilo_nextval('t'));
         INSERT INTO t VALUES (9);
         ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; RESET ROLE",
    );
    messages.lock().unwrap().clear();
    assert_eq!(create_missing(&mut admin), ["t t id 10"]);
    let messages = std::mem::take(&mut *messages.lock().unwrap());
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages.iter().all(|one| one.contains("rows are not read")), "{messages:?}");
    cluster.finish();
}

/// Keys of another format are no keys of the new sequence, and it says so. A temporary table of
/// another session is left out; table names may have any letters.
#[test]
fn it_says_what_it_could_not_read() {
    let cluster = Cluster::with_hilo();
    let (mut admin, messages) = with_messages(&cluster, "postgres");
    let mut other = cluster.connect("postgres");
    other.run("CREATE TEMP TABLE hidden (id bigint DEFAULT hilo_nextval('hidden'))");
    admin.run(
        "CREATE TABLE t (key text DEFAULT hilo_nextkey('projects'));
         INSERT INTO t VALUES ('PROJ-1'), ('PROJ-2'), ('projects/4'), (NULL), ('projects/5x')",
    );
    assert_eq!(create_missing(&mut admin), ["projects t key 5"]);
    let messages = std::mem::take(&mut *messages.lock().unwrap());
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("public.t.key holds 3 values that are no keys"), "{messages:?}");
    assert_eq!(create_missing(&mut other), ["hidden hidden id 1"]);

    // A server that is built without ICU knows one of its collations all the same.
    if admin.one("SELECT count(*) > 1 FROM pg_collation WHERE collprovider = 'i'") {
        admin.run(
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
             CREATE TABLE loose (id text COLLATE loose DEFAULT hilo_nextkey('loose'));
             INSERT INTO loose VALUES ('loose/4'), ('LOOSE/9')",
        );
        assert_eq!(create_missing(&mut admin), ["loose loose id 5"]);
    }

    admin.run("CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0");
    let mut latin = cluster.connect("latin");
    latin.run(
        "CREATE EXTENSION hilo; CREATE TABLE \"größe \"\"ä\"\"\" (\"schlüssel\" text DEFAULT hilo_nextkey('zähler'));
         INSERT INTO \"größe \"\"ä\"\"\" VALUES ('zähler/6')",
    );
    assert_eq!(create_missing(&mut latin), ["zähler \"größe \"\"ä\"\"\" schlüssel 7"]);
    cluster.finish();
}

/// A document applied afterwards gives the sequences their options, and leaves them behind what the columns hold.
#[test]
fn a_document_follows() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run(
        "CREATE TABLE t (id bigint DEFAULT hilo_nextval('t'), n int); INSERT INTO t VALUES (100)",
    );
    assert_eq!(create_missing(&mut admin), ["t t id 101"]);
    let actions: Vec<String> = admin.all(
        r#"SELECT action FROM hilo_apply('{"hilo": 1, "sequences": [
               {"name": "t", "increment": 10, "block_size": 50, "owned_by": "public.t.id"}]}')"#,
    );
    assert_eq!(actions, ["alter"]);
    assert_eq!(admin.one::<i64>("INSERT INTO t (n) VALUES (1) RETURNING id"), 101);
    assert_eq!(admin.one::<i64>("INSERT INTO t (n) VALUES (1) RETURNING id"), 111);
    admin.run("TRUNCATE t RESTART IDENTITY");
    assert_eq!(admin.one::<i64>("INSERT INTO t (n) VALUES (1) RETURNING id"), 1);
    cluster.finish();
}

/// A table that is dropped while the call waits for it needs no sequence. The others get theirs.
#[test]
fn a_table_may_be_dropped_meanwhile() {
    let cluster = Cluster::with_hilo();
    let (mut admin, mut dropper) = (cluster.connect("postgres"), cluster.connect("postgres"));
    let mut maker = cluster.connect("postgres");
    admin.run(
        "CREATE TABLE gone (id bigint DEFAULT hilo_nextval('gone')); CREATE TABLE kept (id bigint DEFAULT hilo_nextval('kept'))",
    );
    let pid = maker.backend_pid();
    dropper.run("BEGIN; DROP TABLE gone");
    thread::scope(|scope| {
        let made = scope.spawn(|| create_missing(&mut maker));
        wait_until("it waits for the table", LONG, || admin.sees_waiting(pid));
        dropper.run("COMMIT");
        assert_eq!(made.join().expect("it has ended well"), ["kept kept id 1"]);
    });
    assert_eq!(admin.all::<String>("SELECT name FROM hilo_sequences"), ["kept"]);
    cluster.finish();
}

/// hilo_check comes to tables that others have dropped since it has read which there are.
#[test]
fn a_table_that_is_gone_holds_nothing() {
    let cluster = Cluster::with_hilo();
    let mut admin = cluster.connect("postgres");
    admin.run("SELECT hilo_create('s')");
    let values = "SELECT count(*) FROM _hilo.hilo_definition s, _hilo.hilo_unserved_values(4711, 1::smallint, s.id)";
    assert_eq!(admin.one::<i64>(values), 0);
    assert!(admin.one::<bool>("SELECT _hilo.hilo_is_of_callers(4711) IS NULL"), "not distributed");
    cluster.finish();
}
