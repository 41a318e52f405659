//! The errors whose HINT names a call.

use super::Case;

/// Parts of HINTs that no case reaches, and why.
pub const ELSEWHERE: &[(&str, &str)] = &[
    ("on the coordinator", "Citus: servers/citus"),
    ("hilo_create_on_all_nodes", "Citus: servers/citus"),
    ("hilo_adopt_on_all_nodes", "Citus: servers/citus"),
    ("fields that hilo_export returns", "Citus: servers/citus"),
    ("make branches with hilo_attach_server", "Citus, or another server: servers/attachments"),
    ("Grant LEASE on it there", "another server: servers/attachments"),
    ("On every node", "several nodes: servers/nodes, servers/summaries"),
    ("If another node has it", "several nodes: servers/summaries"),
    ("Let one node serve it alone", "several nodes: servers/summaries"),
    ("Replicate _hilo.hilo_position", "a subscriber: servers/replicated_rows"),
    ("give the columns that it fills a wider type", "the worker writes it to the log"),
    ("Let the source continue beyond {end}", "hilo_stat_sources shows it: durable/sources"),
];

macro_rules! cases {
    ($($setup:literal, $fails:literal => $call:literal, $then:literal;)*) => {
        &[$(Case { setup: $setup, fails: $fails, call: $call, then: $then }),*]
    };
}

/// For each error: setup, what fails => the call that its HINT names, and what works then.
pub const CASES: &[Case] = cases! {
    // Nothing has been drawn in this session so far.
    "SELECT hilo_create('last')", "SELECT hilo_lastval()"
        => "INSERT INTO drawn SELECT 'last', hilo_nextval('last')", "";
    "SELECT hilo_create('cur')", "SELECT hilo_currval('cur')"
        => "INSERT INTO drawn SELECT 'cur', hilo_nextval('cur')", "";

    // Names that no sequence has.
    "CREATE TABLE log (id bigint DEFAULT hilo_nextval('log_id_seq')); INSERT INTO log SELECT generate_series(1, 50)",
        "INSERT INTO log DEFAULT VALUES"
        => "SELECT * FROM hilo_create_missing()", "";
    // Another one has nearly the same name, and Postgres has one of the name.
    "SELECT hilo_create('one.bills_id_seq'); CREATE SEQUENCE bills_id_seq;
     CREATE TABLE bills (id bigint DEFAULT hilo_nextval('bills_id_seq')); INSERT INTO bills SELECT generate_series(1, 50)",
        "INSERT INTO bills DEFAULT VALUES"
        => "SELECT * FROM hilo_create_missing()", "";
    "", "SELECT hilo_nextval('fresh')" => "SELECT hilo_create('fresh')", "SELECT draw('fresh')";
    "CREATE SEQUENCE kept; CREATE TABLE fed (id bigint DEFAULT nextval('kept')); INSERT INTO fed SELECT FROM generate_series(1, 5)",
        "SELECT hilo_nextval('kept')"
        => "SELECT hilo_adopt('fed', 'id')", "INSERT INTO fed SELECT hilo_nextval('kept'); INSERT INTO fed DEFAULT VALUES";
    "CREATE TABLE sm (id bigint DEFAULT hilo_nextval('sm')); CREATE TABLE sm2 (LIKE sm INCLUDING ALL);
     INSERT INTO sm VALUES (5); ALTER TABLE sm2 OWNER TO clerk", "SELECT * FROM hilo_create_missing()"
        => "SELECT hilo_create('sm', start_value => 6)", "INSERT INTO sm DEFAULT VALUES; INSERT INTO sm2 DEFAULT VALUES";
    "SELECT hilo_create('twice'); SELECT draw('twice')", "SELECT hilo_create('twice')"
        => "SELECT hilo_create('twice', if_not_exists => true)", "SELECT draw('twice')";

    // Ends and positions.
    "SELECT hilo_create('small', max_value => 2); SELECT draw('small'); SELECT draw('small')", "SELECT draw('small')"
        => "SELECT hilo_alter('small', max_value => 100)", "";
    "SELECT hilo_create('bound', max_value => 10); SELECT draw('bound')", "SELECT hilo_setval('bound', 20)"
        => "SELECT hilo_alter('bound', max_value => 100)", "SELECT hilo_setval('bound', 20); SELECT draw('bound')";
    "SELECT hilo_create('round', max_value => 10, cycle => true); SELECT draw('round')", "SELECT hilo_advance('round', 5)"
        => "SELECT hilo_setval('round', 5)", "SELECT draw('round')";
    "SELECT hilo_create('keyed'); CREATE TABLE keyed (id text); INSERT INTO keyed VALUES ('PO-7')",
        "SELECT hilo_sync('keyed', 'keyed', 'id')"
        => "SELECT hilo_alter('keyed', key_format => 'PO-{value}'); SELECT hilo_sync('keyed', 'keyed', 'id')",
        "INSERT INTO keyed SELECT hilo_nextkey('keyed')";

    // Options that exclude each other.
    "SELECT hilo_create('sliced', slice_size => 5); SELECT draw('sliced')", "SELECT hilo_alter('sliced', ordered => true)"
        => "SELECT hilo_alter('sliced', slice_size => 0)", "SELECT hilo_alter('sliced', ordered => true); SELECT draw('sliced')";
    "SELECT hilo_create('blocks', block_size => 5); SELECT draw('blocks')", "SELECT hilo_alter('blocks', gapless => true)"
        => "SELECT hilo_alter('blocks', block_size => 0)", "SELECT hilo_alter('blocks', gapless => true); SELECT draw('blocks')";
    "SELECT hilo_create('sliced2', slice_size => 5); SELECT draw('sliced2')", "SELECT hilo_alter('sliced2', gapless => true)"
        => "SELECT hilo_alter('sliced2', slice_size => 0)", "SELECT hilo_alter('sliced2', gapless => true); SELECT draw('sliced2')";
    "SELECT hilo_create('hi'); SELECT draw('hi')", "SELECT hilo_next_hi('hi')"
        => "SELECT hilo_alter('hi', block_size => 10)", "INSERT INTO drawn SELECT 'hi', 1 + 10 * hilo_next_hi('hi')";
    "SELECT hilo_create('whole', gapless => true); SELECT draw('whole')", "SELECT hilo_next_hi('whole')"
        => "INSERT INTO drawn SELECT 'whole', hilo_nextval('whole')", "SELECT draw('whole')";

    // Sources.
    "SELECT hilo_create('src', source => 'SELECT 1000::bigint, 1999::bigint'); SELECT draw('src')", "SELECT hilo_setval('src', 5)"
        => "SELECT hilo_detach('src', 5000)", "SELECT hilo_setval('src', 6000); SELECT draw('src')";
    "SELECT hilo_create('used', source => 'SELECT 1000::bigint, 1999::bigint'); SELECT draw('used')", "SELECT hilo_alter('used', source => '')"
        => "SELECT hilo_detach('used', 5000)", "SELECT draw('used')";
    "SELECT hilo_create('given', source => 'SELECT 1000::bigint, 1999::bigint'); SELECT draw('given')", "SELECT hilo_set_owner('given', 'clerk')"
        => "SELECT hilo_detach('given', 5000)", "SELECT hilo_set_owner('given', 'clerk'); SELECT draw('given')";
    "SELECT hilo_create('steps', source => 'SELECT 1000::bigint, 1999::bigint'); SELECT draw('steps')", "SELECT hilo_alter('steps', increment => 2)"
        => "SELECT hilo_detach('steps', 5000)", "SELECT hilo_alter('steps', increment => 2); SELECT draw('steps')";
    "SELECT hilo_create('behind'); SELECT draw('behind'); CREATE SEQUENCE counter", "SELECT hilo_attach('behind', 'counter', 'core')"
        => "SELECT setval('counter', 5000)", "SELECT hilo_attach('behind', 'counter', 'core'); SELECT draw('behind')";
    "SELECT hilo_create('tidy', ordered => true); SELECT draw('tidy'); CREATE SEQUENCE tidied START 5000", "SELECT hilo_attach('tidy', 'tidied', 'core')"
        => "SELECT hilo_alter('tidy', ordered => false)", "SELECT hilo_attach('tidy', 'tidied', 'core'); SELECT draw('tidy')";
    "SELECT hilo_create('theirs', source => 'SELECT 1000::bigint, 1999::bigint')",
        "SET check_function_bodies = off; SET ROLE writer; UPDATE _hilo.hilo_definition SET source = 'SELECT 2::bigint, 3::bigint' WHERE name = 'theirs'"
        => "SELECT hilo_alter('theirs', source => 'SELECT 3000::bigint, 3999::bigint')", "SELECT draw('theirs')";

    // Leases.
    "SELECT hilo_create('lent')", "SELECT hilo_lease_return('00000000-0000-0000-0000-000000000001')"
        => "INSERT INTO drawn SELECT 'lent', n FROM hilo_lease('lent', 5) AS l, generate_series(l.first, l.last) AS n", "SELECT draw('lent')";
    "", "SELECT * FROM hilo_lease('whole', 5)"
        => "INSERT INTO drawn SELECT 'whole', hilo_nextval('whole')", "SELECT draw('whole')";
    "SELECT hilo_create('queue', ordered => true); SELECT draw('queue')", "SELECT * FROM hilo_lease('queue', 5)"
        => "SELECT hilo_alter('queue', ordered => false)",
        "INSERT INTO drawn SELECT 'queue', n FROM hilo_lease('queue', 5) AS l, generate_series(l.first, l.last) AS n; SELECT draw('queue')";

    // Columns and owners.
    "CREATE SEQUENCE prog; INSERT INTO drawn SELECT 'prog', nextval('prog') FROM generate_series(1, 5)", "SELECT hilo_adopt_sequence('prog')"
        => "SELECT hilo_create('prog', start_value => 6, ordered => true)", "SELECT draw('prog')";
    "CREATE SEQUENCE sh; CREATE TABLE sh1 (id bigint DEFAULT nextval('sh')); CREATE TABLE sh2 (id bigint DEFAULT nextval('sh'));
     INSERT INTO sh1 DEFAULT VALUES", "SELECT hilo_adopt('sh1', 'id')"
        => "SELECT hilo_adopt_sequence('sh')", "INSERT INTO sh1 DEFAULT VALUES; INSERT INTO sh2 DEFAULT VALUES";
    "CREATE TABLE swap (id bigserial); SELECT hilo_adopt('swap', 'id'); INSERT INTO swap SELECT FROM generate_series(1, 5);
     CREATE TABLE swap_new (LIKE swap INCLUDING ALL); INSERT INTO swap_new TABLE swap;
     ALTER TABLE swap RENAME TO swap_old; ALTER TABLE swap_new RENAME TO swap", "DROP TABLE swap_old"
        => "SELECT hilo_alter('swap_id_seq', owned_by => 'public.swap.id')", "DROP TABLE swap_old; INSERT INTO swap DEFAULT VALUES";
    "CREATE TABLE od (id bigint); ALTER TABLE od OWNER TO clerk; SELECT hilo_create('od')", "SELECT hilo_alter('od', owned_by => 'od.id')"
        => "SELECT hilo_set_owner('od', 'clerk')", "";
    "CREATE TABLE lt (id bigint); SELECT hilo_create('lt', owned_by => 'lt.id')", "SELECT hilo_set_owner('lt', 'clerk')"
        => "SELECT hilo_alter('lt', owned_by => 'none')", "";
    "SELECT hilo_create('nt'); CREATE TABLE nt (id bigint DEFAULT hilo_nextval('nt')); INSERT INTO nt DEFAULT VALUES; ALTER TABLE nt OWNER TO clerk",
        "SELECT hilo_release('nt', 'id', NULL)"
        => "SELECT hilo_set_owner('nt', 'clerk')", "SELECT hilo_release('nt', 'id', NULL); INSERT INTO nt DEFAULT VALUES";
    "SELECT hilo_create('of_clerk'); SELECT hilo_set_owner('of_clerk', 'pruner'); CREATE TABLE uses (id bigint DEFAULT hilo_nextval('of_clerk'))",
        "DROP OWNED BY pruner"
        => "SELECT hilo_set_owner('of_clerk', 'clerk')", "DROP OWNED BY pruner; INSERT INTO uses DEFAULT VALUES";
    "GRANT CREATE ON SCHEMA public TO pruner; GRANT INSERT ON hilo_sequences TO pruner; SET ROLE pruner; SELECT hilo_create('pr');
     CREATE TABLE pr (id bigint DEFAULT hilo_nextval('pr')); RESET ROLE",
        "SET ROLE pruner; SELECT * FROM hilo_apply('{\"hilo\": 1, \"sequences\": []}', prune => true)"
        => "SELECT hilo_drop('pr', cascade => true)", "";

    // Rights.
    "SELECT hilo_create('private'); SELECT draw('private')", "SET ROLE clerk; SELECT draw('private')"
        => "SELECT hilo_grant('private', 'clerk', 'USAGE')", "";
    "SELECT hilo_create('closed')", "DELETE FROM _hilo.hilo_position"
        => "SELECT hilo_drop('closed')", "SELECT hilo_create('closed')";
    "SELECT hilo_create('seen'); SELECT hilo_grant('seen', 'clerk', 'SELECT'); CREATE TABLE seen (id bigint); CREATE VIEW sight AS SELECT id FROM seen;
     GRANT SELECT ON sight TO clerk", "SELECT * FROM hilo_find_gaps('seen', 'sight', 'id')"
        => "SET ROLE clerk; SELECT * FROM hilo_find_gaps('seen', 'sight', 'id'); RESET ROLE", "SELECT draw('seen')";

    // Documents.
    "", "SELECT * FROM hilo_apply('{\"sequences\": 1}')" => "SELECT hilo_export()", "SELECT * FROM hilo_apply(hilo_export())";
    "", "SELECT * FROM hilo_compare(NULL)" => "SELECT hilo_node_summary()", "SELECT * FROM hilo_compare(hilo_node_summary())";
    "", "SELECT * FROM hilo_compare('{\"hilo\": 1, \"sequences\": []}')"
        => "SELECT hilo_node_summary()", "SELECT * FROM hilo_compare(hilo_node_summary())";

    // Mappers.
    "CREATE SCHEMA ef; SELECT hilo_facade('ef', 'efcore')", "SELECT ef.nextval('mapped')"
        => "SELECT hilo_create('mapped', block_size => 10)", "INSERT INTO drawn SELECT 'mapped', ef.nextval('mapped')";
    "", "SELECT ef.setval('mapped', 100)" => "SELECT hilo_advance('mapped', 100)", "INSERT INTO drawn SELECT 'mapped', ef.nextval('mapped')";
    "CREATE SCHEMA ht; SELECT hilo_facade('ht', 'hibernate-table')", "INSERT INTO ht.hibernate_sequences VALUES ('entity', 1)"
        => "SELECT hilo_create('entity', block_size => 10)",
        "INSERT INTO drawn SELECT 'entity', next_val FROM ht.hibernate_sequences WHERE sequence_name = 'entity'";
    "CREATE SEQUENCE blocks_taken", "SELECT hilo_attach('attached', 'blocks_taken', 'hibernate-hilo')"
        => "SELECT hilo_create('attached', block_size => 10)", "SELECT hilo_attach('attached', 'blocks_taken', 'hibernate-hilo'); SELECT draw('attached')";
};
