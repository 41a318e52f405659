//! Wrong input is refused, with an error that says how to correct it.

use hilo_tests::{ClientExt, Cluster};

/// Names that cannot be, and names of nothing.
#[test]
fn names() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.refusal("SELECT hilo_nextval('nothing')").is("42704").says("\"nothing\"").helps();
    for call in [
        "hilo_nextvals('nothing', 2)",
        "hilo_nextrange('nothing', 2)",
        "hilo_currval('nothing')",
        "hilo_setval('nothing', 1)",
        "hilo_alter('nothing', increment => 2)",
        "hilo_rename('nothing', 'something')",
        "hilo_drop('nothing')",
        "hilo_next_hi('nothing')",
    ] {
        client.refusal(&format!("SELECT {call}")).is("42704").says("\"nothing\"").helps();
    }
    for name in ["''", "repeat('x', 256)", "E'two\\nlines'", "chr(127)"] {
        let create = format!("SELECT hilo_create({name}::text)");
        client.refusal(&create).is("22023").hints("1 to 255 bytes");
        client.refusal(&format!("SELECT hilo_nextval({name}::text)")).is("22023").helps();
    }
    client.run("SELECT hilo_create('taken'), hilo_create('Taken'), hilo_create(repeat('x', 255))");
    client
        .refusal("SELECT hilo_create('taken')")
        .is("42710")
        .says("\"taken\"")
        .hints("if_not_exists");
    client.refusal("SELECT hilo_rename('Taken', 'taken')").is("42710");
}

/// Options that are wrong by themselves or contradict each other.
#[test]
fn options() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    for (options, says) in [
        ("increment => 0", "increment must not be zero"),
        ("min_value => 10, max_value => 5", "must be less than"),
        ("min_value => 10, max_value => 10", "must be less than"),
        ("start_value => 0", "cannot be less than min_value"),
        ("start_value => 11, max_value => 10", "cannot be greater than max_value"),
        ("increment => -1, start_value => 1", "cannot be greater than max_value"),
        ("data_type => 'smallint', max_value => 32768", "out of range for sequence data type"),
        ("data_type => 'integer', min_value => -2147483649", "out of range for sequence data type"),
        ("data_type => 'smallint', start_value => 40000", "cannot be greater than max_value"),
        ("data_type => 'text'", "smallint, integer, or bigint"),
        ("data_type => 'numeric'", "smallint, integer, or bigint"),
        ("block_size => 0", "block_size"),
        ("block_size => -5", "block_size"),
        ("max_value => 10, block_size => 11", "block_size"),
        ("slice_size => 0", "slice_size"),
        ("block_size => 10, slice_size => 11", "slice_size"),
        ("ordered => true, slice_size => 10", "slice_size"),
        ("key_format => 'no value'", ""),
        ("description => repeat('x', 1001)", "description is too long"),
    ] {
        client
            .refusal(&format!("SELECT hilo_create('refused', {options})"))
            .is("22023")
            .says(says)
            .helps();
    }
    client.run("SELECT hilo_create('there', min_value => 1, max_value => 1000)");
    client.run("SELECT hilo_nextval('there') FROM generate_series(1, 500)");
    for (options, says) in [
        ("increment => 0", "increment must not be zero"),
        ("max_value => 400", "cannot be greater than max_value"),
        ("min_value => 600, start_value => 600", "cannot be less than min_value"),
        ("restart_with => 1001", "cannot be greater than max_value"),
        ("restart_with => 0", "cannot be less than min_value"),
        ("block_size => -1", "block_size"),
        ("data_type => 'text'", "smallint, integer, or bigint"),
    ] {
        let alter = format!("SELECT hilo_alter('there', {options})");
        client.refusal(&alter).is("22023").says(says).helps();
    }
    client.refusal("SELECT hilo_setval('there', 1001)").is("22003").says("out of bounds").helps();
    client.refusal("SELECT hilo_setval('there', 0)").is("22003").says("out of bounds").helps();
    assert_eq!(client.one::<i64>("SELECT hilo_nextval('there')"), 501);
}

/// Arguments of the serving functions.
#[test]
fn arguments() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('adaptive'), hilo_create('few', max_value => 10)");
    client.refusal("SELECT hilo_nextvals('adaptive', -1)").is("22023").helps();
    client.refusal("SELECT hilo_nextrange('adaptive', 0)").is("22023").helps();
    client.refusal("SELECT hilo_nextrange('adaptive', -1)").is("22023").helps();
    client.refusal("SELECT hilo_nextrange('few', 11)").is("2200H").helps();
    client.refusal("SELECT hilo_next_hi('adaptive')").is("22023").hints("block_size");
    client.refusal("SELECT hilo_currval('adaptive')").is("55000").says("not yet defined").helps();
    client.refusal("SELECT hilo_lastval()").is("55000").says("not yet defined").helps();
    client.run("SELECT hilo_nextval('few') FROM generate_series(1, 10)");
    client
        .refusal("SELECT hilo_nextval('few')")
        .is("2200H")
        .says("reached maximum value of hilo sequence \"few\" (10)")
        .helps();
    for strict in ["hilo_nextval(NULL)", "hilo_currval(NULL)", "hilo_setval(NULL, 1)"] {
        assert_eq!(client.one::<Option<i64>>(&format!("SELECT {strict}")), None);
    }
}

/// Before PostgreSQL 17, a server without hilo in shared_preload_libraries works, and every call says what to add where.
/// Later ones need no restart: see `without_restart/`.
#[test]
fn no_preload() {
    let cluster = Cluster::builder().preload(false).start();
    if cluster.version() >= 17 {
        return cluster.finish();
    }
    let mut client = cluster.connect("postgres");
    client.run("CREATE EXTENSION hilo");
    for call in [
        "hilo_create('orders')",
        "hilo_nextval('orders')",
        "hilo_nextvals('orders', 2)",
        "hilo_nextrange('orders', 2)",
        "hilo_setval('orders', 2)",
        "hilo_drop('orders')",
    ] {
        client
            .refusal(&format!("SELECT {call}"))
            .is("55000")
            .hints("shared_preload_libraries = 'hilo'");
    }
    assert_eq!(client.one::<i64>("SELECT count(*) FROM hilo_sequences"), 0);
    client.run("DROP EXTENSION hilo");
    cluster.finish();
}

/// In a read-only transaction, and where all transactions are read-only by default, definitions are
/// refused, and serving works: the worker does the writing.
#[test]
fn read_only() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('read', block_size => 5)");
    let mut next = 0;
    let mut check = |cluster: &Cluster, begin: &str| {
        let mut client = cluster.connect("postgres");
        for call in [
            "hilo_create('written')",
            "hilo_setval('read', 2)",
            "hilo_alter('read', increment => 2)",
            "hilo_rename('read', 'written')",
            "hilo_drop('read')",
        ] {
            client.run(begin);
            client.refusal(&format!("SELECT {call}")).is("25006");
            client.run("ROLLBACK");
        }
        client.run(begin);
        for _ in 0..20 {
            next += 1;
            assert_eq!(client.one::<i64>("SELECT hilo_nextval('read')"), next);
        }
        client.run("COMMIT");
    };
    check(&cluster, "BEGIN READ ONLY");
    cluster.configure("default_transaction_read_only", "on");
    cluster.restart();
    check(&cluster, "BEGIN");
}

/// An argument that counts values takes every integer type, a parameter without a type and an
/// expression such as count(*). A number beyond the maximum is refused as what it is.
#[test]
fn counts_of_every_integer_type() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client
        .run("SELECT hilo_create('orders'); CREATE TABLE t AS SELECT generate_series(1, 3) AS id");
    for n in ["3", "'3'", "3::smallint", "3::integer", "3::bigint", "(SELECT count(*) FROM t)"] {
        let call = format!("SELECT count(*) FROM hilo_nextvals('orders', {n})");
        assert_eq!(client.one::<i64>(&call), 3, "{n}");
        let named = format!("SELECT count(*) FROM hilo_nextvals(n => {n}, name => 'orders')");
        assert_eq!(client.one::<i64>(&named), 3, "{n}");
        client.run(&format!("SELECT hilo_alter('orders', slice_size => {n})"));
        client.run(&format!("SELECT hilo_create('orders ' || random(), slice_size => {n})"));
    }
    let rows = client.query("SELECT * FROM hilo_nextvals($1::text, $2)", &[&"orders", &3i64]);
    assert_eq!(rows.expect("a parameter without a type").len(), 3);
    client.run("PREPARE draw AS SELECT count(*) FROM hilo_nextvals('orders', $1); EXECUTE draw(3)");
    let beyond = "SELECT hilo_nextvals('orders', 3000000000) LIMIT 2";
    let refusal = client.refusal("SELECT hilo_nextvals('orders', -3000000000)");
    refusal.is("22023").says("-3000000000").helps();
    client.run(beyond);
    for size in ["65537", "3000000000", "9223372036854775807", "-3000000000"] {
        for call in
            ["hilo_create('more', slice_size => {})", "hilo_alter('orders', slice_size => {})"]
        {
            let refusal = client.refusal(&format!("SELECT {}", call.replace("{}", size)));
            refusal
                .is("22023")
                .says(&format!("slice_size ({size}) must be between 1 and 65536"))
                .helps();
        }
    }
    let refusal = client.refusal("SELECT hilo_nextvals('orders', 9223372036854775808)").is("42883");
    drop(refusal);
    cluster.finish();
}

/// No error of hilo's has more than 8000 bytes in its message, its DETAIL or its HINT, whatever any
/// function gets. Core quotes a statement in full.
#[test]
fn arguments_are_not_repeated_in_full() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('orders'); CREATE SEQUENCE counter; CREATE SCHEMA facade; CREATE TABLE items (id bigint)",
    );
    let (calls, long): (i32, Vec<String>) = {
        client.run(EVERY_TEXT);
        let row = client.query_one(
            "SELECT max(calls), array_remove(array_agg(too_long), NULL) FROM tried",
            &[],
        );
        let row = row.unwrap();
        (row.get(0), row.get(1))
    };
    assert!(calls > 500, "{calls}");
    assert_eq!(long, [] as [&str; 0]);
    cluster.finish();
}

/// Calls every function with long texts, one argument at a time.
const EVERY_TEXT: &str = "
    CREATE TEMP TABLE tried (calls integer, too_long text);
    DO $try$
    DECLARE
        x CONSTANT text := repeat('x', 20000);
        field CONSTANT text := '{\"hilo\": 1, \"sequences\": [{\"name\": \"a\", \"%s\": \"%s\"}]}';
        texts CONSTANT text[] := ARRAY[
            x, '\"' || x, 'a.' || x, repeat('a.', 10000) || 'b', '{\"' || x || '\": 1}', '{\"hilo\": 1, \"' || x || '\": 1}',
            format(field, x, ''), format(field, 'owner', x), format(field, 'data_type', x), format(field, 'owned_by', x || '.id'),
            format(field, 'owned_by', x), format(field, 'key_format', x), format(field, 'source', x),
            '{\"hilo\": 1, \"sequences\": [{\"name\": \"' || x || '\"}]}',
            '{\"hilo\": 1, \"sequences\": [{\"name\": \"a\", \"privileges\": {\"' || x || '\": [\"USAGE\"]}}]}',
            '{\"hilo\": 1, \"sequences\": [{\"name\": \"a\", \"privileges\": {\"public\": [\"' || x || '\"]}}]}'];
        one record; given text; state text; message text; detail text; hint text; count integer := 0;
    BEGIN
        SET LOCAL client_min_messages = error;
        FOR one IN
            SELECT p.oid::regproc::text AS name, p.proname, p.proargtypes[a.at]::regtype::text AS type,
                   (SELECT string_agg(CASE WHEN o.at = a.at THEN '%s' ELSE CASE t.type
                               WHEN 'text' THEN CASE WHEN p.proname ~ 'attach' THEN '''hibernate''' ELSE '''USAGE''' END
                               WHEN 'name' THEN CASE WHEN p.proname ~ 'facade' THEN '''facade''' ELSE '''id''' END
                               WHEN 'regclass' THEN CASE WHEN p.proname ~ 'attach' THEN '''counter''' ELSE '''items''' END
                               WHEN 'bigint' THEN '10' WHEN 'integer' THEN '1' WHEN 'boolean' THEN 'false'
                               WHEN 'jsonb' THEN '''{}''' WHEN 'text[]' THEN '''{}''' ELSE
                               CASE WHEN t.type ~ 'hilo_sequence$' THEN '''orders''' ELSE 'NULL' END END
                               || '::' || replace(t.type, '%', '%%') END, ', ' ORDER BY o.at)
                      FROM generate_series(0, p.pronargs - 1) AS o (at)
                     CROSS JOIN LATERAL (SELECT p.proargtypes[o.at]::regtype::text AS type) t) AS arguments
              FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
              JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'hilo'
             CROSS JOIN LATERAL generate_series(0, p.pronargs - 1) AS a (at)
             WHERE p.prokind = 'f' AND NOT 'internal'::regtype = ANY (p.proargtypes::oid[])
               AND p.proargtypes[a.at]::regtype::text ~ '^(text|jsonb|text\\[\\]|cstring|.*hilo_sequence)$'
        LOOP
            FOREACH given IN ARRAY texts LOOP
                CONTINUE WHEN one.type = 'jsonb' AND given !~ '^\\{';
                given := CASE one.type WHEN 'text[]' THEN format('ARRAY[%L]', given) ELSE format('%L::%s', given, one.type) END;
                count := count + 1;
                BEGIN
                    EXECUTE format('SELECT * FROM %s(%s)', one.name, format(one.arguments, given));
                    RAISE assert_failure;
                EXCEPTION
                    WHEN assert_failure THEN NULL;
                    WHEN OTHERS THEN
                        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                            detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
                        IF greatest(octet_length(message), octet_length(detail), octet_length(hint)) > 8000 AND state <> '42601' THEN
                            INSERT INTO tried VALUES (0, format('%s %s: %s', one.proname, state, left(message, 80)));
                        END IF;
                END;
            END LOOP;
        END LOOP;
        INSERT INTO tried VALUES (count, NULL);
    END
    $try$";
