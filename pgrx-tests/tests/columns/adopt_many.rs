//! Columns that share a sequence move together, and a whole schema with one call; what still names an old sequence
//! is listed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use hilo_tests::{Client, ClientExt, Cluster, LONG, assert_unique, wait_until};

fn cluster() -> (Cluster, Client) {
    let cluster = Cluster::builder().start_with_hilo();
    let client = cluster.connect("postgres");
    (cluster, client)
}

fn schema(cluster: &Cluster) -> String {
    let dump = cluster.pg_dump("postgres", &["--no-comments"]);
    dump.lines().filter(|line| !line.contains("restrict")).collect::<Vec<_>>().join("\n")
}

fn draw(client: &mut Client, table: &str) -> i64 {
    client.one(&format!("INSERT INTO {table} DEFAULT VALUES RETURNING id::bigint"))
}

/// The new sequence continues beyond the old one, what sessions have cached of it, and the values
/// of all columns, also of tables that inherit. And what was prepared before draws from it.
#[test]
fn columns_that_share_a_sequence_go_together() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE SEQUENCE s CACHE 20;
         CREATE TABLE a (id bigint DEFAULT nextval('s'));
         CREATE TABLE b (id integer DEFAULT nextval('s'), more integer DEFAULT nextval('s'));
         CREATE TABLE heir () INHERITS (a);
         CREATE TABLE parts (id numeric DEFAULT nextval('s'), day int) PARTITION BY RANGE (day);
         CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    );
    let mut other = cluster.connect("postgres");
    other.run("PREPARE p AS INSERT INTO b DEFAULT VALUES RETURNING id::bigint");
    assert_eq!(other.one::<i64>("EXECUTE p"), 1);
    assert_eq!(draw(&mut client, "a"), 21);
    for (table, held, next) in
        [("a", 100, 101), ("b", 200, 201), ("heir", 300, 301), ("part", 400, 401)]
    {
        let (columns, day) = if table == "part" { ("id, day", ", 1") } else { ("id", "") };
        client.run(&format!("INSERT INTO {table} ({columns}) VALUES ({held}{day})"));
        let before = schema(&cluster);
        client.run("BEGIN");
        assert_eq!(client.one::<String>("SELECT hilo_adopt_sequence('s')::text"), "s");
        assert_eq!(draw(&mut client, "a"), next, "{table}");
        client.run("ROLLBACK");
        assert_eq!(schema(&cluster), before, "{table}");
    }
    assert_eq!(other.one::<i64>("EXECUTE p"), 3);
    client.run("SELECT hilo_adopt_sequence('s', 'together')");
    assert_eq!(other.one::<i64>("EXECUTE p"), 401);
    assert_eq!(other.one::<i64>("SELECT more::bigint FROM b WHERE id = 401"), 402);
    // The other session may hold the next ones.
    let next = draw(&mut client, "heir");
    assert!(next > 402, "{next}");
    let one = "INSERT INTO parts (day) VALUES (1) RETURNING id::bigint";
    assert_eq!(client.one::<i64>(one), next + 1);
    assert_eq!(client.one::<i64>("SELECT count(*) FROM pg_class WHERE relkind = 'S'"), 0);
    let definition = "SELECT concat_ws(' ', name, data_type, owned_by) FROM hilo_sequences";
    assert_eq!(client.one::<String>(definition), "together bigint");
    cluster.finish();
}

/// The column of a serial or identity sequence that others share keeps it; who might use it may use it; its owner is
/// the tables'.
#[test]
fn owners_and_privileges_are_kept() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE ROLE seller; CREATE ROLE buyer; CREATE ROLE clerk;
         GRANT CREATE ON SCHEMA public TO seller, buyer; GRANT INSERT ON hilo_sequences TO seller, buyer;
         SET ROLE seller;
         CREATE TABLE sold (id int GENERATED ALWAYS AS IDENTITY);
         CREATE TABLE copied (id int DEFAULT nextval('sold_id_seq'));
         GRANT USAGE ON SEQUENCE sold_id_seq TO buyer, clerk; GRANT INSERT ON sold, copied TO clerk;
         SELECT hilo_adopt_sequence('sold_id_seq');
         RESET ROLE",
    );
    let of = "SELECT concat_ws(' ', owner, owned_by) FROM hilo_sequences";
    assert_eq!(client.one::<String>(of), "seller public.sold.id");
    client.refusal("INSERT INTO sold VALUES (7)").is("428C9");
    client.run("SET ROLE clerk; INSERT INTO sold DEFAULT VALUES; INSERT INTO copied DEFAULT VALUES; RESET ROLE");
    client.refusal("DROP TABLE sold").is("2BP01");
    client.run("DROP TABLE copied; DROP TABLE sold");
    // Tables of several owners: only whoever acts as both may do it. The sequence goes to the owner of the old one.
    client.run(
        "SET ROLE seller; CREATE SEQUENCE s; GRANT USAGE ON SEQUENCE s TO buyer;
         CREATE TABLE sold (id int DEFAULT nextval('s'));
         SET ROLE buyer; CREATE TABLE bought (id int DEFAULT nextval('s')); SET ROLE seller",
    );
    let before = schema(&cluster);
    client.refusal("SELECT hilo_adopt_sequence('s')").is("42501").helps();
    assert_eq!(schema(&cluster), before);
    client.run("RESET ROLE; SELECT hilo_adopt_sequence('s')");
    assert_eq!(client.one::<String>(of), "seller");
    client.run("SET ROLE buyer; INSERT INTO bought DEFAULT VALUES");
    cluster.finish();
}

/// Whatever one of the columns cannot do, none of them does.
#[test]
fn what_is_refused_changes_nothing() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; GRANT INSERT ON hilo_sequences TO mallory;
         CREATE SEQUENCE unused; CREATE TABLE plain (id int);
         CREATE SEQUENCE of_text; CREATE TABLE t (id int DEFAULT nextval('of_text'), key text DEFAULT 'k' || nextval('of_text'));
         CREATE SEQUENCE of_view; CREATE TABLE u (id int DEFAULT nextval('of_view'));
         CREATE VIEW v AS SELECT id FROM u; ALTER VIEW v ALTER id SET DEFAULT nextval('of_view');
         CREATE SEQUENCE of_part; CREATE TABLE w (id int DEFAULT nextval('of_part'));
         CREATE TABLE p (id int) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p (id DEFAULT nextval('of_part')) FOR VALUES FROM (0) TO (1000);
         CREATE SEQUENCE computed; CREATE TABLE x (id int DEFAULT nextval('computed'), twice int DEFAULT 2 * nextval('computed'));
         CREATE SEQUENCE taken; CREATE TABLE y (id int DEFAULT nextval('taken'), more int DEFAULT nextval('taken'));
         SELECT hilo_create('taken')",
    );
    let before = schema(&cluster);
    for (call, sqlstate) in [
        ("hilo_adopt_sequence(NULL)", "22023"),
        ("hilo_adopt_sequence(1::oid::regclass)", "42P01"),
        ("hilo_adopt_sequence('plain')", "42P01"),
        ("hilo_adopt_sequence('unused')", "55000"),
        ("hilo_adopt_sequence('of_text')", "42804"),
        ("hilo_adopt_sequence('of_view')", "42809"),
        ("hilo_adopt_sequence('of_part')", "42809"),
        ("hilo_adopt_sequence('computed')", "55000"),
        ("hilo_adopt_sequence('taken', 'taken')", "42710"),
    ] {
        client.refusal(&format!("SELECT {call}")).is(sqlstate).helps();
        assert_eq!(schema(&cluster), before, "{call}");
    }
    client.refusal("SELECT hilo_adopt('y', 'id')").is("55000").helps().hints("hilo_adopt_sequence");
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_adopt_all(NULL)"), 0);
    client.refusal("SELECT * FROM hilo_adopt_all('nothing')").is("3F000");
    // A default of somebody who may not draw says nothing, and holds nobody up.
    client.run(
        "SET ROLE mallory; CREATE TABLE hers (id int DEFAULT nextval('taken')); RESET ROLE;
         ALTER TABLE x DROP COLUMN twice; SET ROLE mallory; CREATE TABLE hers2 (id int DEFAULT nextval('computed')); RESET ROLE",
    );
    client.run("SELECT hilo_adopt_sequence('taken'), hilo_adopt('x', 'id')");
    let hers =
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'hers'::regclass";
    assert_eq!(client.one::<String>(hers), "nextval('taken'::regclass)");
    cluster.finish();
}

/// While three sessions insert into three tables with one sequence, in different orders, the tables go over to hilo, at
/// last for good. Nobody gets an error or a deadlock, and no number comes twice.
#[test]
fn beside_sessions_that_insert() {
    let (cluster, mut client) = cluster();
    let tables = ["a", "b", "c"];
    client.run("CREATE SEQUENCE s CACHE 5; CREATE TABLE seen (id bigint)");
    for table in tables {
        client.run(&format!("CREATE TABLE {table} (id bigint DEFAULT nextval('s'))"));
    }
    let (stop, inserted) = (AtomicBool::new(false), AtomicUsize::new(0));
    let seen: Vec<i64> = thread::scope(|scope| {
        let (cluster, stop, inserted) = (&cluster, &stop, &inserted);
        let write = move |writer: usize| {
            let mut client = cluster.connect("postgres");
            let mut seen = Vec::new();
            for table in tables {
                let insert =
                    format!("PREPARE p_{table} AS INSERT INTO {table} DEFAULT VALUES RETURNING id");
                client.run(&insert);
            }
            while !stop.load(Relaxed) {
                client.run("BEGIN");
                for at in 0..3 {
                    let table = tables[(writer + at) % 3];
                    seen.push(client.one::<i64>(&format!("EXECUTE p_{table}")));
                    inserted.fetch_add(1, Relaxed);
                }
                client.run("COMMIT");
            }
            seen
        };
        let writers: Vec<_> = (0..3).map(|at| scope.spawn(move || write(at))).collect();
        let writers_continue = || {
            let before = inserted.load(Relaxed);
            wait_until("the writers continue", LONG, || inserted.load(Relaxed) > before + 30);
        };
        for end in ["ROLLBACK", "COMMIT"] {
            writers_continue();
            client.run("BEGIN; SELECT hilo_adopt_sequence('s')");
            client.run(&format!("SAVEPOINT a; INSERT INTO b DEFAULT VALUES; ROLLBACK TO a; {end}"));
        }
        writers_continue();
        stop.store(true, Relaxed);
        writers
            .into_iter()
            .flat_map(|writer| writer.join().expect("no writer gets an error"))
            .collect()
    });
    assert_unique("s", &seen);
    let rows =
        "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) + (SELECT count(*) FROM c)";
    assert_eq!(client.one::<i64>(rows) as usize, seen.len());
    cluster.finish();
}

const MESSY: &str = "
    CREATE SCHEMA shop; CREATE SCHEMA other; SET search_path = shop, public;
    CREATE ROLE stranger; GRANT CREATE, USAGE ON SCHEMA shop TO stranger;
    CREATE TABLE serials (id serial, plain int);
    CREATE TABLE identities (id int GENERATED BY DEFAULT AS IDENTITY);
    CREATE SEQUENCE shared; CREATE TABLE one (id int DEFAULT nextval('shared')); CREATE TABLE two (id int DEFAULT nextval('shared'));
    CREATE SEQUENCE far; CREATE TABLE near (id int DEFAULT nextval('far')); CREATE TABLE other.away (id int DEFAULT nextval('far'));
    CREATE TABLE parts (id serial, day int) PARTITION BY RANGE (day); CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9);
    CREATE TABLE old_style (id int DEFAULT nextval('shop.old'::text)); CREATE SEQUENCE old;
    CREATE SEQUENCE for_text; CREATE TABLE texts (id text DEFAULT 'T' || nextval('for_text'));
    CREATE SEQUENCE for_view; CREATE VIEW seen AS SELECT 1 AS id; ALTER VIEW seen ALTER id SET DEFAULT nextval('for_view');
    CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER there FOREIGN DATA WRAPPER nothing;
    CREATE SEQUENCE for_foreign; CREATE FOREIGN TABLE foreigners (id int DEFAULT nextval('for_foreign')) SERVER there;
    CREATE SEQUENCE of_domain; CREATE DOMAIN number AS bigint DEFAULT nextval('of_domain'); CREATE DOMAIN nested AS number;
    CREATE TABLE domains (id number, more nested, own number DEFAULT 0);
    SELECT hilo_create('h'); CREATE TABLE fed (id bigint DEFAULT hilo_nextval('h'));
    CREATE DOMAIN moved AS bigint DEFAULT hilo_nextval('h'); CREATE TABLE moves (id moved);
    SET ROLE stranger; CREATE TABLE theirs (id serial); RESET ROLE; RESET search_path";

/// Each column that draws from a sequence has a row, which says the same before and afterwards. One
/// that cannot be moved does not keep the others.
#[test]
fn a_schema_moves_with_one_call() {
    let (cluster, mut client) = cluster();
    client.run(MESSY);
    client.run("CREATE ROLE keeper; GRANT CREATE ON SCHEMA public TO keeper; GRANT INSERT ON hilo_sequences TO keeper");
    // All but those of the stranger.
    client.run(
        "DO $$ DECLARE r record; BEGIN
           FOR r IN SELECT c.oid::regclass AS t, c.relkind = 'S' AS s FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                     WHERE n.nspname IN ('shop', 'other') AND c.relkind IN ('r', 'p', 'v', 'f', 'S') AND c.relowner = 'postgres'::regrole
                       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('a', 'i') AND c.relkind = 'S')
           LOOP EXECUTE format('ALTER %s %s OWNER TO keeper', CASE WHEN r.s THEN 'SEQUENCE' ELSE 'TABLE' END, r.t); END LOOP;
         END $$;
         SELECT hilo_set_owner('h', 'keeper'); GRANT USAGE ON SCHEMA shop, other TO keeper; SET ROLE keeper",
    );
    let rows = |client: &mut Client, dry: bool| {
        client.all::<String>(&format!(
            "SELECT concat_ws(' ', relation::text || '.' || column_name, action, name) FROM hilo_adopt_all('shop', {dry}) ORDER BY 1"
        ))
    };
    let before = schema(&cluster);
    let planned = rows(&mut client, true);
    assert_eq!(schema(&cluster), before);
    let expected = [
        "shop.domains.id refuse",
        "shop.domains.more refuse",
        "shop.fed.id skip h",
        "shop.foreigners.id refuse",
        "shop.identities.id adopt identities_id_seq",
        "shop.moves.id skip",
        "shop.near.id refuse",
        "shop.old_style.id adopt old",
        "shop.one.id adopt shared",
        "shop.part.id skip",
        "shop.parts.id adopt parts_id_seq",
        "shop.seen.id refuse",
        "shop.serials.id adopt serials_id_seq",
        "shop.texts.id refuse",
        "shop.theirs.id refuse",
        "shop.two.id adopt shared",
    ];
    assert_eq!(planned, expected);
    assert_eq!(rows(&mut client, false), expected);
    let again = rows(&mut client, false);
    let done: Vec<String> = expected
        .iter()
        .map(|row| match row.strip_prefix("shop.part.id") {
            Some(_) => "shop.part.id skip parts_id_seq".to_owned(),
            None => row.replace(" adopt ", " skip "),
        })
        .collect();
    assert_eq!(again, done);
    let reasons = client.all::<String>("SELECT detail FROM hilo_adopt_all('shop', true) WHERE action = 'refuse' ORDER BY relation::text, column_name");
    let told = [
        "domain shop.number has",
        "domain shop.nested has",
        "not a table",
        "other.away.id",
        "not a table",
        "cannot hold",
        "must be owner",
    ];
    for (reason, told) in reasons.iter().zip(told) {
        assert!(reason.contains(told), "{reason}: {told}");
    }
    cluster.finish();
}

/// Columns of one table are rows of their own, each with its own sequence and its own fate.
#[test]
fn a_table_has_several_columns() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE SCHEMA shop; CREATE SEQUENCE shop.shared; CREATE SEQUENCE shop.texts; SET search_path = shop, public;
         CREATE TABLE t (a serial, b serial, c int DEFAULT nextval('shared'), d int DEFAULT nextval('shared'),
                         e text DEFAULT nextval('texts'), f bigint DEFAULT hilo_nextval('lost'));
         CREATE FUNCTION uses() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('t_b_seq'); END $$",
    );
    let rows = "SELECT concat_ws(' ', column_name, action, name) FROM hilo_adopt_all('shop')";
    let expected = [
        "a adopt t_a_seq",
        "b adopt t_b_seq",
        "change t_b_seq",
        "c adopt shared",
        "d adopt shared",
        "e refuse",
        "f skip lost",
    ];
    assert_eq!(client.all::<String>(rows), expected);
    let said = "SELECT detail FROM hilo_adopt_all('shop') WHERE column_name = 'f'";
    assert!(client.one::<String>(said).contains("does not exist: use hilo_create_missing"));
    cluster.finish();
}

/// The rows say everything that hilo_adopt says: nothing is left for messages, however many columns there are.
#[test]
fn the_rows_of_a_schema_say_everything() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE ROLE clerk; CREATE ROLE stranger; CREATE ROLE keeper; CREATE SCHEMA shop; SET search_path = shop, public;
         GRANT CREATE, USAGE ON SCHEMA shop TO stranger, keeper; GRANT CREATE ON SCHEMA public TO keeper; GRANT INSERT ON hilo_sequences TO keeper;
         SET ROLE stranger; CREATE SEQUENCE lent; GRANT USAGE ON SEQUENCE lent TO keeper; SET ROLE keeper;
         CREATE TABLE granted (id serial); GRANT USAGE ON SEQUENCE granted_id_seq TO clerk;
         CREATE TABLE always (id int GENERATED ALWAYS AS IDENTITY);
         CREATE TABLE borrows (id int DEFAULT nextval('lent'));
         CREATE TABLE viewed (id serial); CREATE VIEW v AS SELECT currval('viewed_id_seq'); CREATE TABLE quiet (id serial)",
    );
    let (mut listening, heard) = cluster.connect_listening("postgres", "postgres");
    listening.run("SET ROLE keeper");
    let rows = "SELECT relation || ' ' || action || ' ' || coalesce(detail, '') FROM hilo_adopt_all('shop') WHERE relation IS NOT NULL ORDER BY 1";
    let rows = listening.all::<String>(rows);
    let expected = [
        r#"shop.always adopt sequence shop.always_id_seq; the new one is ordered; column shop.always.id takes no other values, as before: Its default calls "#,
        r#"shop.borrows adopt sequence shop.lent; the new one is ordered; ordered hilo sequence "lent" replaces sequence shop.lent, which is kept: its owner is role stranger "#,
        r#"shop.granted adopt sequence shop.granted_id_seq; the new one is ordered; privileges on hilo sequence "granted_id_seq" are granted as before: USAGE to clerk."#,
        r#"shop.quiet adopt sequence shop.quiet_id_seq; the new one is ordered"#,
        r#"shop.viewed adopt sequence shop.viewed_id_seq; the new one is ordered; ordered hilo sequence "viewed_id_seq" replaces sequence shop.viewed_id_seq, which is kept: "#,
    ];
    assert_eq!(rows.len(), expected.len(), "{rows:#?}");
    for (row, expected) in rows.iter().zip(expected) {
        assert!(row.starts_with(expected), "{row}\n{expected}");
    }
    assert_eq!(rows[3], expected[3]);
    let heard: Vec<_> = heard.take();
    assert!(heard.is_empty(), "{heard:?}");
    cluster.finish();
}

/// Each object that still names an old sequence is listed: what Postgres knows to depend on it, and
/// what only its text tells.
#[test]
fn what_still_names_the_old_sequence_is_listed() {
    let (cluster, mut client) = cluster();
    client.run(
        "CREATE TABLE orders (id serial, n bigint); CREATE TABLE plain (id serial);
         CREATE FUNCTION by_text() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN nextval('Orders_ID_seq'); END $$;
         CREATE FUNCTION other_text() RETURNS text LANGUAGE sql AS $$ SELECT 'my_orders_id_seq2' $$;
         CREATE FUNCTION by_body() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT currval('orders_id_seq'::regclass); END;
         CREATE FUNCTION by_lastval() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO orders DEFAULT VALUES; RETURN lastval(); END $$;
         CREATE FUNCTION other_lastval() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO plain DEFAULT VALUES; RETURN lastval(); END $$;
         CREATE VIEW numbers AS SELECT nextval('orders_id_seq') AS n;
         CREATE DOMAIN number AS bigint DEFAULT nextval('orders_id_seq');
         CREATE RULE also AS ON INSERT TO plain DO ALSO SELECT currval('orders_id_seq');
         CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
         CREATE TRIGGER told BEFORE INSERT ON plain FOR EACH ROW EXECUTE FUNCTION t('orders_id_seq')",
    );
    let expected = [
        "function by_body()",
        "function by_lastval()",
        "function by_text()",
        "rule _RETURN on view numbers",
        "rule also on table plain",
        "trigger told on table plain",
        "type number",
    ];
    let told = "SELECT split_part(detail, ' still names sequence orders_id_seq', 1) FROM hilo_adopt_all('public', true)
                 WHERE action = 'change' AND name = 'orders_id_seq' ORDER BY 1";
    assert_eq!(client.all::<String>(told), expected);
    let (mut listening, heard) = cluster.connect_listening("postgres", "postgres");
    listening.run("SELECT hilo_adopt_sequence('orders_id_seq')");
    let heard: Vec<_> = heard.take();
    let details: Vec<_> = heard.iter().filter_map(|report| report.detail()).collect();
    for name in expected {
        assert!(details.iter().any(|detail| detail.contains(name)), "{name}: {details:?}");
    }
    assert!(!details.iter().any(|detail| detail.contains("other_")), "{details:?}");
    // It is kept: hilo_check says so until it is gone.
    let finding = "SELECT count(*) FROM hilo_check()
                    WHERE object = 'sequence \"orders_id_seq\"' AND what LIKE 'sequence public.orders_id_seq of Postgres lives on%'";
    assert_eq!(client.one::<i64>(finding), 1);
    client.run("DROP SEQUENCE orders_id_seq CASCADE");
    assert_eq!(client.one::<i64>(finding), 0);
    what_may_ask_for_it_is_listed_too(&mut client);
    cluster.finish();
}

/// So are functions and triggers that compute the name, and columns that a trigger numbers.
fn what_may_ask_for_it_is_listed_too(client: &mut Client) {
    client.run(
        "CREATE SCHEMA s; SET search_path = s, public;
         CREATE TABLE notes (id bigserial, day int) PARTITION BY LIST (day); CREATE TABLE note PARTITION OF notes DEFAULT;
         CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM CurrVal(pg_get_serial_sequence(TG_TABLE_NAME, 'id')); RETURN NULL; END $$;
         CREATE TRIGGER audit AFTER INSERT ON notes FOR EACH ROW EXECUTE FUNCTION audit();
         CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
         CREATE TRIGGER stamp BEFORE INSERT ON notes FOR EACH ROW EXECUTE FUNCTION stamp();
         CREATE FUNCTION computes() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN currval('notes' || '_id_seq'); END $$;
         CREATE TABLE builds (id bigserial, old bigint); ALTER TABLE builds ALTER id DROP DEFAULT;
         CREATE FUNCTION assign() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := nextval('builds_id_seq'); RETURN NEW; END $$;
         CREATE TRIGGER assign BEFORE INSERT ON builds FOR EACH ROW EXECUTE FUNCTION assign();
         CREATE TABLE late (id bigint DEFAULT nextval('late_seq'::text)); CREATE SEQUENCE late_seq OWNED BY late.id",
    );
    let rows = "SELECT concat_ws(' ', relation, action, detail) FROM hilo_adopt_all('s', true)";
    let expected = [
        "builds refuse it owns sequence builds_id_seq, but its default does not draw from it: a trigger or a program may. Give it \
         the default nextval('builds_id_seq') in place of that, and adopt it then",
        "late adopt the new one is ordered",
        "note skip it goes along with notes",
        "notes adopt sequence notes_id_seq; the new one is ordered",
        "change function computes() may ask for sequence notes_id_seq: let it use, if so, hilo sequence \"notes_id_seq\"",
        "change trigger audit on table notes (function audit() calls currval) may ask for sequence notes_id_seq: \
         let it use, if so, hilo sequence \"notes_id_seq\"",
        "change trigger assign on table builds (function assign() calls nextval): look what it draws or asks for, since only \
         defaults move",
    ];
    assert_eq!(client.all::<String>(rows), expected);
}

/// The row of a column tells why it is refused, in whatever encoding the database has. A byte of the
/// error that is not ASCII makes no text that the client cannot read.
#[test]
fn a_refusal_is_told_in_every_encoding() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE DATABASE japanese ENCODING EUC_JP LOCALE 'C' TEMPLATE template0");
    let mut japanese = cluster.connect("japanese");
    japanese.run(
        "CREATE EXTENSION hilo; CREATE TABLE orders (id serial);
         CREATE FUNCTION forbid() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now: 今はだめ'; END $$;
         CREATE EVENT TRIGGER forbid ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION forbid()",
    );
    let told = "SELECT relation || ' ' || action || ' ' || detail FROM hilo_adopt_all('public')";
    let told = japanese.all::<String>(told);
    assert!(told[0].starts_with("orders refuse not now: ") && told[0].is_ascii(), "{told:?}");
    cluster.finish();
}
