//! The query of a source runs as the owner of the sequence, entirely, and leaves nothing in its process, which may not hold
//! up others.

use hilo_tests::{ClientExt, Cluster, LONG, wait_until};

/// The limit of a source's text, in bytes.
const MAX_SOURCE: usize = 8192;

/// Whatever asks who runs the query hears of the owner. He need not be allowed to log in, nor to connect to the database.
#[test]
fn whoever_asks_hears_that_a_source_runs_as_its_owner() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE sam LOGIN; GRANT CREATE ON SCHEMA public TO sam; GRANT INSERT ON hilo_sequences TO sam;
         CREATE TABLE salaries (who name, salary bigint);
         INSERT INTO salaries VALUES ('postgres', 1000), ('sam', 10);
         CREATE FUNCTION my_salary() RETURNS bigint LANGUAGE sql SECURITY DEFINER
             BEGIN ATOMIC SELECT salary FROM salaries WHERE who = session_user; END;
         ALTER TABLE salaries ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON salaries USING (who = session_user);
         GRANT SELECT ON salaries TO sam;
         CREATE TABLE seen (by text);
         GRANT INSERT ON seen TO PUBLIC",
    );
    let mut sam = cluster.connect_as("sam", "postgres");
    sam.run(
        "CREATE FUNCTION look() RETURNS bigint LANGUAGE sql AS $$
             INSERT INTO public.seen SELECT concat_ws(' ', session_user, current_user,
                 current_setting('session_authorization'), current_setting('role'),
                 current_setting('is_superuser'));
             SELECT 10::bigint $$;
         SELECT hilo_create('f', source => 'SELECT public.my_salary(), 10::bigint'),
                hilo_create('p', source => 'SELECT salary, 10::bigint FROM public.salaries'),
                hilo_create('l', source => 'SELECT public.look(), 10::bigint')",
    );
    client.run("ALTER ROLE sam NOLOGIN CONNECTION LIMIT 0");
    client.run("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC");
    for name in ["f", "p", "l"] {
        assert_eq!(sam.one::<i64>(&format!("SELECT hilo_nextval('{name}')")), 10, "{name}");
    }
    assert_eq!(client.one::<String>("SELECT DISTINCT by FROM seen"), "sam sam sam none off");
}

/// In a process that keeps running, too, the owner is a superuser as long as he is one.
#[test]
fn a_source_is_a_superusers_while_its_owner_is_one() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE TABLE seen (by text, pid int); CREATE ROLE boss LOGIN SUPERUSER");
    let mut boss = cluster.connect_as("boss", "postgres");
    boss.run(
        "GRANT INSERT, SELECT ON seen TO boss; GRANT CREATE ON SCHEMA public TO boss; GRANT INSERT ON hilo_sequences TO boss;
         CREATE FUNCTION look() RETURNS bigint LANGUAGE sql AS $$
             INSERT INTO public.seen
             VALUES (concat_ws(' ', session_user, current_setting('is_superuser')), pg_backend_pid());
             SELECT count(*) FROM public.seen $$;
         SELECT hilo_create('s', source => 'SELECT n, n FROM public.look() AS n')",
    );
    let mut drawn = boss.draw("s", 3);
    for (change, expected) in [("NOSUPERUSER", "boss off"), ("SUPERUSER", "boss on")] {
        client.run(&format!("ALTER ROLE boss {change}"));
        // Some values may have come ahead.
        wait_until(expected, LONG, || {
            drawn.extend(boss.draw("s", 1));
            client.one::<String>("SELECT by FROM seen ORDER BY ctid DESC LIMIT 1") == expected
        });
    }
    assert!(drawn.iter().copied().eq(1..=drawn.len() as i64), "{drawn:?}");
    let seen: Vec<String> = client.all("SELECT by FROM seen GROUP BY by ORDER BY min(ctid)");
    assert_eq!(seen, ["boss on", "boss off"]);
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT pid) FROM seen"), 1);
}

/// Locks, settings and temporary objects are gone when the query has answered, or failed.
#[test]
fn nothing_outlives_the_query_of_a_source() {
    let cluster = Cluster::builder().config("hilo.worker_idle_timeout", "1h").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE ROLE sam LOGIN; GRANT CREATE ON SCHEMA public TO sam; GRANT INSERT ON hilo_sequences TO sam;
         CREATE TABLE seen (what text, pid int); GRANT INSERT, SELECT ON seen TO sam",
    );
    let mut sam = cluster.connect_as("sam", "postgres");
    sam.run(
        "CREATE FUNCTION give() RETURNS TABLE (first bigint, last bigint) LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO public.seen VALUES (concat_ws(' ', to_regtype('pg_temp.mood'),
                 to_regproc('pg_temp.laugh'), current_setting('my.mood', true), current_setting('work_mem')),
                 pg_backend_pid());
             PERFORM pg_advisory_lock(77), pg_advisory_lock_shared(7, 8);
             PERFORM set_config('my.mood', 'good', false), set_config('work_mem', '3MB', false);
             CREATE TYPE pg_temp.mood AS ENUM ('good');
             CREATE FUNCTION pg_temp.laugh() RETURNS int LANGUAGE sql AS 'SELECT 1';
             SELECT count(*), count(*) INTO first, last FROM public.seen;
             RETURN NEXT;
         END $$;
         SELECT hilo_create('s', source => 'SELECT * FROM public.give()'),
                hilo_create('f', source => '--
                    SELECT pg_advisory_lock(77), pg_advisory_lock(78)')",
    );
    assert_eq!(sam.draw("s", 3), [1, 2, 3]);
    let left = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid IN (8, 77, 78)";
    wait_until("the locks are released", LONG, || client.one::<i64>(left) == 0);
    assert!(
        client.one::<bool>("SELECT bool_and(trim(what) = current_setting('work_mem')) FROM seen")
    );
    assert_eq!(client.one::<i64>("SELECT count(DISTINCT pid) FROM seen"), 1);
    // A query that fails leaves as little.
    sam.refusal("SELECT hilo_nextval('f')").says("two columns of type bigint");
    wait_until("the locks are released", LONG, || client.one::<i64>(left) == 0);
}

/// The sources of three owners in each of two databases, which do not answer, have four of the eight workers that a server
/// has.
#[test]
fn the_sources_of_all_databases_leave_half_of_the_workers() {
    let cluster = Cluster::builder().config("max_worker_processes", "8").start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE DATABASE other");
    client.run("CREATE ROLE r1 LOGIN; CREATE ROLE r2 LOGIN; CREATE ROLE r3 LOGIN");
    let mut other = cluster.connect("other");
    other.run("CREATE EXTENSION hilo");
    for (database, one) in [("postgres", &mut client), ("other", &mut other)] {
        one.run("GRANT INSERT ON hilo_sequences TO r1, r2, r3; SET hilo.reserve_timeout = '50ms'");
        for role in ["r1", "r2", "r3"] {
            cluster.connect_as(role, database).run(&format!(
                "SELECT hilo_create('{role}', source => 'SELECT 1::bigint, 1::bigint FROM pg_sleep(3600)')"
            ));
        }
    }
    let mut most = 0;
    wait_until("all have been wanted", LONG, || {
        for role in ["r1", "r2", "r3"] {
            for one in [&mut client, &mut other] {
                one.refusal(&format!("SELECT hilo_nextval('{role}')"));
            }
        }
        let sources = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'hilo source'";
        most = most.max(client.one::<i64>(sources));
        let full = "SELECT count(*) > 0 FROM hilo_stat_sequences WHERE last_error LIKE '%no background worker is free%'";
        most >= 4 && (client.one::<bool>(full) || other.one::<bool>(full))
    });
    assert_eq!(most, 4);
    cluster.configure("hilo.source_timeout", "10ms");
}

/// A process that has nothing to ask makes room for another owner, and between its attempts so does one whose sources
/// fail. One whose source does not answer ends that query for it.
#[test]
fn sources_make_room_for_each_other() {
    let cluster = Cluster::builder()
        .config("max_worker_processes", "8")
        .config("hilo.worker_idle_timeout", "1h")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    let owners = ["r1", "r2", "r3", "r4", "r5"];
    for role in owners {
        client.run(&format!("CREATE ROLE {role} LOGIN; GRANT INSERT ON hilo_sequences TO {role}"));
        cluster.connect_as(role, "postgres").run(&format!(
            "SELECT hilo_create('{role}', source => 'SELECT 5::bigint, 5 + $2'),
                    hilo_create('{role}fails', source => 'SELECT 1::bigint / 0, 1::bigint'),
                    hilo_create('{role}hangs', source => 'SELECT 1::bigint, 1::bigint FROM pg_sleep(3600)'),
                    hilo_create('{role}last', source => 'SELECT 5::bigint, 5 + $2')"
        ));
    }
    for role in owners {
        assert_eq!(client.one::<i64>(&format!("SELECT hilo_nextval('{role}')")), 5);
    }
    for role in owners {
        client.refusal(&format!("SELECT hilo_nextval('{role}fails')")).says("division by zero");
    }
    client.run("SET hilo.reserve_timeout = '50ms'");
    for role in &owners[..4] {
        client.refusal(&format!("SELECT hilo_nextval('{role}hangs')"));
    }
    let asking = "SELECT count(*) = 4 FROM pg_stat_activity
                   WHERE backend_type = 'hilo source' AND query LIKE '%asking%'";
    wait_until("all places are taken", LONG, || client.one(asking));
    client.run("SET hilo.reserve_timeout = '1min'");
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('r5last')"), 5);
    cluster.finish();
}

/// A text of 8,192 bytes is a source, and a longer one is refused, whoever brings it.
#[test]
fn the_text_of_a_source_has_a_limit() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    let source = |length: usize| {
        format!("rpad('SELECT 5::bigint, 5::bigint /*', {}, 'x') || '*/'", length - 2)
    };
    let (fits, too_long) = (source(MAX_SOURCE), source(MAX_SOURCE + 1));
    client.run(
        "SELECT hilo_create('s', block_size => 10);
         CREATE TABLE mt_hilo (entity_name text PRIMARY KEY, hi_value bigint)",
    );
    for refused in [
        format!("SELECT hilo_create('x', source => {too_long})"),
        format!("SELECT hilo_alter('s', source => {too_long})"),
        format!(
            r#"SELECT hilo_apply(jsonb_set('{{"hilo": 1, "sequences": [{{"name": "d"}}]}}',
                                           '{{sequences,0,source}}', to_jsonb({too_long})))"#
        ),
        format!("SELECT hilo_create('x', source => repeat('ü', {}))", MAX_SOURCE / 2 + 1),
        "SELECT hilo_attach('s', 'mt_hilo', 'marten', repeat('x', 8000))".into(),
    ] {
        client.refusal(&refused).is("22023").says("source is too long").helps();
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 1);
    client.run(&format!("SELECT hilo_create('fits', source => {fits})"));
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('fits')"), 5);
}

/// The queries that hilo_attach writes have room, whatever the names are.
#[test]
fn the_source_of_a_counter_with_the_longest_names_is_short_enough() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (at, letter) in ["'", "\\", "\"\""].iter().enumerate() {
        let name = format!("\"{}\"", letter.repeat(63));
        client.run(&format!(
            "CREATE SCHEMA {name}; CREATE SEQUENCE {name}.{name} INCREMENT 1000000000;
             CREATE TABLE {name}.mt_hilo (entity_name text PRIMARY KEY, hi_value bigint);
             SELECT hilo_create('n{at}', block_size => 1000000000),
                    hilo_create('m{at}', block_size => 1000000000)"
        ));
        let name = name.replace('\'', "''");
        client.run(&format!(
            "SELECT hilo_attach('n{at}', '{name}.{name}', 'efcore'),
                    hilo_attach('m{at}', '{name}.mt_hilo', 'marten', repeat('''', 255))"
        ));
    }
    let longest = "SELECT max(octet_length(source)) FROM hilo_stat_sources";
    let longest = client.one::<i32>(longest) as usize;
    assert!(longest * 2 <= MAX_SOURCE, "{longest}");
}

/// The query runs with the rights of the sequence's owner, and cannot leave them.
#[test]
fn a_source_has_its_owners_rights() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE secret (v bigint); INSERT INTO secret VALUES (5);
         CREATE ROLE alice LOGIN; GRANT CREATE ON SCHEMA public TO alice; GRANT INSERT ON hilo_sequences TO alice; CREATE ROLE reader LOGIN",
    );
    let mut alice = cluster.connect_as("alice", "postgres");
    alice.run(
        "CREATE FUNCTION flee(what text) RETURNS bigint LANGUAGE plpgsql
             AS $$ BEGIN EXECUTE what; RETURN 1; END $$",
    );
    for (name, source, says) in [
        ("reads", "SELECT v, v FROM public.secret", "permission denied"),
        ("flees", "SELECT public.flee('RESET ROLE'), 1::bigint", "cannot set parameter"),
        (
            "flees2",
            "SELECT public.flee('SET SESSION AUTHORIZATION postgres'), 1::bigint",
            "cannot set parameter",
        ),
        ("flees3", "SELECT public.flee('RESET SESSION AUTHORIZATION'), 1::bigint", "cannot set"),
        ("flees4", "SELECT public.flee('SET LOCAL ROLE postgres'), 1::bigint", "cannot set"),
        (
            "flees5",
            "SELECT 1::bigint, 1::bigint FROM set_config('session_authorization', 'postgres', false)",
            "cannot set parameter",
        ),
        ("path", "SELECT v, v FROM secret", "does not exist"),
    ] {
        alice.run(&format!("SELECT hilo_create('{name}', source => $q${source}$q$)"));
        alice.refusal(&format!("SELECT hilo_nextval('{name}')")).says(says);
    }
    alice.run("SELECT hilo_grant('reads', 'reader', 'ALL')");
    let mut reader = cluster.connect_as("reader", "postgres");
    let seen = "SELECT count(*) FROM hilo_stat_sources WHERE source IS NULL AND last_error IS NULL";
    assert_eq!(reader.one::<i64>(seen), 1);
    let exported: String = reader.one("SELECT hilo_export('reads')::text");
    assert!(!exported.contains("secret"), "{exported}");
    let exported: String = alice.one("SELECT hilo_export('reads')::text");
    assert!(exported.contains("secret"), "{exported}");
    reader.refusal("SELECT hilo_alter('reads', source => 'SELECT 1')").is("42501");
    // The query may have put anything into its error.
    alice.refusal("SELECT hilo_nextval('reads')").says("secret");
    let told = reader.refusal("SELECT hilo_nextval('reads')").hints("Role alice");
    assert!(told.report().message().ends_with("its source failed"), "{:?}", told.report());
    let told =
        "SELECT string_agg(last_error, '') || (SELECT string_agg(what, '') FROM hilo_check())
                  FROM hilo_stat_sequences WHERE name = 'reads'";
    for (client, sees) in [(&mut alice, true), (&mut reader, false)] {
        let told = client.one::<String>(told);
        assert_eq!((told.contains("secret"), told.contains("role alice")), (sees, !sees), "{told}");
    }
}

/// Whoever writes a source never acts as another role, to which the sequence or its table is given.
#[test]
fn a_sequence_with_a_source_stays_with_its_owner() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("CREATE ROLE alice LOGIN; GRANT CREATE ON SCHEMA public TO alice; GRANT INSERT ON hilo_sequences TO alice; CREATE ROLE bob");
    let mut alice = cluster.connect_as("alice", "postgres");
    alice.run(
        "CREATE TABLE orders (id bigint);
         SELECT hilo_create('orders', owned_by => 'orders.id', source => 'SELECT 5::bigint, 5::bigint'),
                hilo_create('tickets', source => 'SELECT 5::bigint, 5::bigint')",
    );
    for give in [
        "SELECT hilo_set_owner('tickets', 'postgres')",
        "ALTER TABLE orders OWNER TO bob",
        "REASSIGN OWNED BY alice TO postgres",
    ] {
        client.refusal(give).is("55000").helps();
    }
    let owners = "SELECT count(*) FROM hilo_sequences WHERE owner = 'alice'";
    assert_eq!(client.one::<i64>(owners), 2);
    alice.run("SELECT hilo_alter('tickets', source => '')");
    client.run("SELECT hilo_set_owner('tickets', 'postgres')");
    cluster.finish();
}

/// Whoever may write to every table has no query run as another role.
#[test]
fn nobody_writes_a_source_for_another_role() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'); CREATE ROLE writer LOGIN;
         GRANT pg_read_all_data, pg_write_all_data TO writer",
    );
    let mut writer = cluster.connect_as("writer", "postgres");
    // As if a dump were restored, without which nobody writes.
    writer.run("SET check_function_bodies = off");
    let query = "SELECT 1::bigint, 1::bigint";
    for written in ["source = ", "owner = 'postgres', source = "] {
        writer
            .refusal(&format!("UPDATE _hilo.hilo_definition SET {written}'{query}'"))
            .is("42501")
            .says("\"orders\"")
            .details("rights of role postgres, which role writer does not have")
            .helps();
    }
    let columns: String = client.one(
        "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute
          WHERE attrelid = '_hilo.hilo_definition'::regclass AND attnum > 2 AND attname <> 'source'",
    );
    writer.run(&format!(
        "INSERT INTO _hilo.hilo_definition (id, name, source, {columns})
         SELECT 99, 'planted', '{query}', {columns} FROM _hilo.hilo_definition"
    ));
    let mine = "SELECT source FROM _hilo.hilo_definition WHERE owner::text = 'writer'";
    let source = client.one::<String>(mine);
    let why = "it was not restored, since the owner of the sequence did not exist";
    client.refusal(&source).is("55000").says(why).helps();
}
