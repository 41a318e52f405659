//! The statements that hilo_check proposes mend what it has found, as psql's \gexec runs them, and break nothing.

use hilo_tests::{Client, ClientExt, Cluster, LONG, wait_until};

/// Each finding of these objects: its severity, its object, and whether it has a fix.
fn findings(client: &mut Client) -> Vec<String> {
    client.all(
        "SELECT concat_ws(' ', severity, object, CASE WHEN fix IS NULL THEN '-' ELSE 'fix' END) FROM hilo_check()
          WHERE object !~ '^setting (fsync|full_page_writes)' ORDER BY 1",
    )
}

/// Runs what hilo_check proposes, as a user does whose search_path has nothing of hilo.
fn mend(cluster: &Cluster) {
    let script = "SELECT fix FROM public.hilo_check() WHERE fix IS NOT NULL \\gexec\n";
    cluster.restore("postgres", &format!("SET search_path = pg_catalog;\n{script}"));
}

/// Functions of the names that a fix calls, whose arguments fit words without a type better than those of hilo's own.
const TRAPS: &str = "DO $do$ DECLARE f text; t text; BEGIN
    FOREACH f IN ARRAY ARRAY['hilo_sync', 'hilo_grant'] LOOP
        FOREACH t IN ARRAY ARRAY['text, text, text', 'text, text', 'text, name', 'text', 'uuid', 'name, name', 'hilo_sequence, name',
                                 'hilo_sequence, text, name', 'text, regclass, name'] LOOP
            EXECUTE format('CREATE FUNCTION %I(%s) RETURNS text LANGUAGE plpgsql AS %L', f, t,
                           'BEGIN RAISE EXCEPTION $$trapped$$; END');
        END LOOP;
    END LOOP; END $do$";

#[test]
fn each_fix_mends_its_finding() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(TRAPS);
    client.meddle(
        "CREATE ROLE gone; CREATE ROLE \"Odd Role\"; CREATE ROLE helper; CREATE SCHEMA \"Odd\";
         SELECT hilo_create('it''s \"odd\"'), hilo_create('mine'), hilo_create('leased');
         CREATE TABLE \"Odd\".\"T\" (\"Id\" bigint PRIMARY KEY DEFAULT hilo_nextval('it''s \"odd\"'), k integer DEFAULT hilo_nextval('lacking'));
         INSERT INTO \"Odd\".\"T\" VALUES (4711, 815);
         GRANT USAGE ON SCHEMA _hilo TO helper; GRANT INSERT, SELECT ON _hilo.hilo_lease TO helper WITH GRANT OPTION; GRANT ALL ON _hilo.hilo_position TO \"Odd Role\";
         SET ROLE helper; GRANT INSERT ON _hilo.hilo_lease TO PUBLIC; RESET ROLE;
         ALTER TABLE _hilo.hilo_position ENABLE TRIGGER replicated; ALTER TABLE _hilo.hilo_lease DISABLE TRIGGER replicated;
         SELECT l.* FROM hilo_lease('leased', 10, 'a dead device') l; SELECT l.* FROM hilo_lease('leased', 10) l;
         SELECT l.* FROM hilo_lease('leased', 10, 'it lives') l; SELECT l.* FROM hilo_lease('leased', 10, 'it lives', '1 hour') l;
         UPDATE _hilo.hilo_lease SET leased_at = leased_at - '31 days'::interval;
         SELECT l.* FROM hilo_lease('leased', 10, 'young') l;
         UPDATE _hilo.hilo_definition SET owner = '4711'::_hilo.hilo_role WHERE name IN ('mine', 'leased')",
    );
    assert_eq!(
        findings(&mut client),
        [
            "error column \"Odd\".\"T\".\"Id\" fix",
            "error column \"Odd\".\"T\".k fix",
            "error role \"Odd Role\" fix",
            "error role PUBLIC fix",
            "error role helper fix",
            "error table _hilo.hilo_lease fix",
            "error table _hilo.hilo_position fix",
            "note holder \"a dead device\" -",
            "note holder without a name -",
            "note sequences -",
            "warning sequence \"leased\" -",
        ]
    );
    mend(&cluster);
    assert_eq!(
        findings(&mut client),
        [
            "note holder \"a dead device\" -",
            "note holder without a name -",
            "note sequences -",
            "warning sequence \"leased\" -"
        ]
    );

    // Nothing else has changed: everyone still reads hilo_check.
    let next = "INSERT INTO \"Odd\".\"T\" DEFAULT VALUES RETURNING concat_ws(' ', \"Id\", k)";
    assert_eq!(client.one::<String>(next), "4712 816");
    client.run("SET ROLE helper; SELECT * FROM hilo_check(); RESET ROLE");
    cluster.finish();
}

/// A sequence that runs out is found, and one that goes beyond a column.
#[test]
fn sequences_beyond_their_columns_are_found() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('widens', data_type => 'integer'), hilo_create('falls', increment => -1, min_value => -100),
                hilo_create('wide'), hilo_create('parts'), hilo_create('half', data_type => 'smallint');
         SELECT hilo_setval('widens', 2000000000), hilo_setval('falls', -90), hilo_setval('wide', 7), hilo_setval('half', 20000);
         CREATE TABLE t (widens bigint DEFAULT hilo_nextval('widens'), falls numeric DEFAULT hilo_nextval('falls'),
                         wide integer DEFAULT hilo_nextval('wide'), half smallint DEFAULT hilo_nextval('half'));
         CREATE TABLE parts (id smallint DEFAULT hilo_nextval('parts')) PARTITION BY RANGE (id);
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (1000)",
    );
    let expected = [
        "warning column public.parts.id -",
        "warning column public.parts_1.id -",
        "warning column public.t.wide -",
        "warning sequence \"falls\" -",
        "warning sequence \"widens\" -",
    ];
    assert_eq!(findings(&mut client), expected);
    client.run(
        "SELECT hilo_alter('wide', data_type => 'integer'), hilo_alter('parts', data_type => 'smallint'),
                hilo_alter('widens', data_type => 'bigint'), hilo_alter('falls', min_value => -1000)",
    );
    assert_eq!(findings(&mut client), [""; 0]);
    cluster.finish();
}

/// Settings of which one defeats the other.
#[test]
fn settings_that_contradict_each_other_are_found() {
    let cluster = Cluster::builder()
        .config("hilo.prefetch", "off")
        .config("hilo.min_block_size", "2000")
        .config("hilo.max_block_size", "1000")
        .config("hilo.min_threshold", "1001")
        .config("hilo.window", "10")
        .config("hilo.sample_interval", "10001ms")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    let expected = [
        "warning setting hilo.min_block_size -",
        "warning setting hilo.min_threshold -",
        "warning setting hilo.prefetch -",
        "warning setting hilo.sample_interval -",
    ];
    assert_eq!(findings(&mut client), expected);
    let what = "SELECT what FROM hilo_check() WHERE object = 'setting hilo.sample_interval'";
    let says = "hilo.sample_interval = 10001ms is greater than hilo.window = 10s, so one of the two has no effect";
    assert_eq!(client.one::<String>(what), says);
    for (name, value) in [
        ("hilo.prefetch", "on"),
        ("hilo.min_block_size", "1000"),
        ("hilo.min_threshold", "1000"),
        ("hilo.sample_interval", "10s"),
    ] {
        cluster.configure(name, value);
    }
    cluster.reload();
    wait_until("nothing is left", LONG, || findings(&mut client).is_empty());
    cluster.finish();
}

/// A fix does nothing for a role that it may not do itself, and takes nothing from tables of users.
#[test]
fn a_fix_serves_nobody_else() {
    let cluster = Cluster::builder().preload(true).start();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE SCHEMA hilo; CREATE EXTENSION hilo SCHEMA hilo;
         CREATE ROLE alice; CREATE ROLE eve; CREATE ROLE bob; SET search_path = public, hilo;
         SELECT hilo_create('hers'); SELECT hilo_set_owner('hers', 'alice');
         CREATE SCHEMA eves AUTHORIZATION eve; GRANT USAGE ON SCHEMA hilo TO eve;
         CREATE TABLE hilo.orders (id int); GRANT INSERT, UPDATE ON hilo.orders TO bob;
         SET ROLE eve; CREATE TABLE eves.t (id bigint PRIMARY KEY DEFAULT hilo_nextval('hers'));
         INSERT INTO eves.t VALUES (5000000); RESET ROLE; SET search_path = public, hilo",
    );
    assert_eq!(findings(&mut client), ["error column eves.t.id -", "warning role eve -"]);
    cluster.finish();
}

/// A sequence that continues beyond a row with almost the last number has hardly any left.
#[test]
fn a_fix_uses_no_sequence_up() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('up'), hilo_create('down', increment => -1);
         CREATE TABLE up (id bigint PRIMARY KEY DEFAULT hilo_nextval('up'));
         CREATE TABLE down (id bigint PRIMARY KEY DEFAULT hilo_nextval('down'));
         INSERT INTO up VALUES (9223372036854775807); INSERT INTO down VALUES (-9223372036854775000)",
    );
    let columns = ["error column public.down.id -", "error column public.up.id -"];
    assert_eq!(findings(&mut client), columns);
    mend(&cluster);
    assert_eq!(findings(&mut client), columns);
    client.run("INSERT INTO up DEFAULT VALUES; DELETE FROM up WHERE id > 1; DELETE FROM down");
    assert_eq!(findings(&mut client), [""; 0]);
    cluster.finish();
}

/// Where several nodes share sequences, no statement on this one alone is right.
#[test]
fn nothing_is_proposed_for_one_node_of_several() {
    let cluster = Cluster::builder()
        .config("hilo.node_id", "0")
        .config("hilo.node_count", "2")
        .config("hilo.on_every_node", "on")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "SELECT hilo_create('s');
         CREATE TABLE t (id bigint PRIMARY KEY DEFAULT hilo_nextval('s'), k bigint DEFAULT hilo_nextval('lacking'));
         INSERT INTO t VALUES (4711, 1)",
    );
    assert_eq!(findings(&mut client), ["error column public.t.id -", "error column public.t.k -"]);
    cluster.finish();
}

/// A sequence of which a block was read ahead, and no value was drawn, is not used.
#[test]
fn reading_ahead_is_no_use() {
    let cluster = Cluster::with_hilo();
    let mut client = cluster.connect("postgres");
    client.run("SELECT hilo_create('many-' || to_char(n, 'FM000')) FROM generate_series(1, 300) n");
    drop(client);
    cluster.restart();
    let mut client = cluster.connect("postgres");
    let ready = "SELECT count(*) FROM hilo_stat_sequences WHERE blocks_reserved > 0";
    let mut used = 0;
    while client.one::<i64>(ready) <= used {
        used += 1;
        client.run(&format!("SELECT hilo_nextval('many-{used:03}')"));
    }
    let note: String = client.one("SELECT what FROM hilo_check() WHERE object = 'sequences'");
    assert!(note.starts_with(&format!("no column uses {used} of them: ")), "{note}");
    cluster.finish();
}

/// hilo_compare says that a sequence has another owner column elsewhere.
#[test]
fn another_owner_column_is_a_difference() {
    let cluster = Cluster::builder()
        .config("hilo.node_id", "0")
        .config("hilo.node_count", "2")
        .config("hilo.on_every_node", "on")
        .start_with_hilo();
    let mut client = cluster.connect("postgres");
    client.run(
        "CREATE TABLE t (id bigint); SELECT hilo_create('s', owned_by => 't.id');
         CREATE FUNCTION other(owner_column text) RETURNS jsonb LANGUAGE sql AS $$
             SELECT jsonb_set(jsonb_set(jsonb_set(s, '{node,id}', '1'), '{node,server}', '\"1\"'),
                              '{sequences,0,owned_by}', to_jsonb(owner_column))
               FROM hilo_node_summary() AS s $$",
    );
    let compare = |owner: &str| format!("SELECT what FROM hilo_compare(other('{owner}'))");
    assert_eq!(client.all::<String>(&compare("public.t.id")), [""; 0]);
    assert_eq!(client.all::<String>(&compare("public.t.k")), ["owned_by differs on node 1"]);
    cluster.finish();
}
