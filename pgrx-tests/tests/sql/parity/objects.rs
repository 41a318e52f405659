//! Names, and what depends on what.

use super::{Case, better, different, same};

pub const CASES: &[Case] = &[
    same(
        "default",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         > INSERT INTO t (n) VALUES (0), (0) RETURNING id
         > INSERT INTO t VALUES (DEFAULT, 0), (100, 0), (NULL, 0) RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         > INSERT INTO t (n) VALUES (0), (0) RETURNING id
         > INSERT INTO t VALUES (DEFAULT, 0), (100, 0), (NULL, 0) RETURNING id",
        "1,2 3,100,null",
    ),
    same(
        "default-of-an-unknown",
        "? CREATE TABLE t (id bigint DEFAULT nextval('s'::text))
         ? INSERT INTO t DEFAULT VALUES
         CREATE SEQUENCE s
         ? INSERT INTO t DEFAULT VALUES",
        "? CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'::text))
         ? DO $$BEGIN INSERT INTO t DEFAULT VALUES; EXCEPTION WHEN undefined_object THEN RAISE undefined_table; END$$
         SELECT hilo_create('s')
         ? INSERT INTO t DEFAULT VALUES",
        "ok 42P01 ok",
    ),
    same(
        "drop-refused",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         ? DROP SEQUENCE s
         > INSERT INTO t (n) VALUES (0) RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         ? SELECT hilo_drop('s')
         > INSERT INTO t (n) VALUES (0) RETURNING id",
        "2BP01 1",
    ),
    same(
        "drop-cascade",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         ? DROP SEQUENCE s CASCADE
         > INSERT INTO t (n) VALUES (0) RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         ? SELECT hilo_drop('s', cascade => true)
         > INSERT INTO t (n) VALUES (0) RETURNING id",
        "ok null",
    ),
    same(
        "drop-after-the-default",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         ALTER TABLE t ALTER id DROP DEFAULT
         ? DROP SEQUENCE s",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         ALTER TABLE t ALTER id DROP DEFAULT
         ? SELECT hilo_drop('s')",
        "ok",
    ),
    same(
        "drop-with-a-computed-default",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'::text))
         ? DROP SEQUENCE s",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'::text))
         ? SELECT hilo_drop('s')",
        "ok",
    ),
    same(
        "drop-the-table",
        "CREATE TABLE t (id bigserial)
         DROP TABLE t
         > SELECT count(*) FROM pg_sequences WHERE schemaname = 'parity'",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'))
         SELECT hilo_alter('s', owned_by => 't.id')
         DROP TABLE t
         > SELECT count(*) FROM hilo_sequences",
        "0",
    ),
    different(
        "drop-the-schema",
        [
            "CREATE SEQUENCE other.s
             DROP SCHEMA other CASCADE
             > SELECT count(*) FROM pg_sequences WHERE schemaname = 'other'",
            "0",
        ],
        [
            "SELECT hilo_create('other.s')
             DROP SCHEMA other CASCADE
             > SELECT count(*) FROM hilo_sequences",
            "1",
        ],
    ),
    same(
        "drop-several",
        "CREATE SEQUENCE a
         CREATE SEQUENCE b
         ? DROP SEQUENCE a, b
         > SELECT count(*) FROM pg_sequences WHERE schemaname = 'parity'",
        "SELECT hilo_create('a')
         SELECT hilo_create('b')
         ? SELECT hilo_drop(name) FROM unnest(ARRAY['a', 'b']) AS name
         > SELECT count(*) FROM hilo_sequences",
        "ok 0",
    ),
    same(
        "drop-if-exists",
        "? DROP SEQUENCE IF EXISTS s",
        "? SELECT hilo_drop('s', if_exists => true)",
        "ok",
    ),
    different(
        "drop-unknown",
        ["? DROP SEQUENCE s", "42P01"],
        ["? SELECT hilo_drop('s')", "42704"],
    ),
    better(
        "drop-while-used",
        [
            "CREATE SEQUENCE s
             B: BEGIN
             B: SELECT nextval('s')
             SET lock_timeout = '200ms'
             ? DROP SEQUENCE s",
            "55P03",
        ],
        [
            "SELECT hilo_create('s')
             B: BEGIN
             B: SELECT hilo_nextval('s')
             SET lock_timeout = '200ms'
             ? SELECT hilo_drop('s')
             B: > SELECT hilo_nextval('s')",
            "ok 42704",
        ],
    ),
    different(
        "view-depends",
        [
            "CREATE SEQUENCE s
             CREATE VIEW v AS SELECT nextval('s') AS n
             ? DROP SEQUENCE s
             > SELECT n FROM v",
            "2BP01 1",
        ],
        [
            "SELECT hilo_create('s')
             CREATE VIEW v AS SELECT hilo_nextval('s') AS n
             ? SELECT hilo_drop('s')
             > SELECT n FROM v",
            "ok 42704",
        ],
    ),
    same(
        "function-does-not-depend",
        "CREATE SEQUENCE s
         CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS $$ SELECT nextval('s') $$
         ? DROP SEQUENCE s",
        "SELECT hilo_create('s')
         CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS $$ SELECT hilo_nextval('s') $$
         ? SELECT hilo_drop('s')",
        "ok",
    ),
    same(
        "rename",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         INSERT INTO t (n) VALUES (0)
         ALTER SEQUENCE s RENAME TO r
         > INSERT INTO t (n) VALUES (0) RETURNING id
         > SELECT currval('r')
         > SELECT nextval('r')",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         INSERT INTO t (n) VALUES (0)
         SELECT hilo_rename('s', 'r')
         > INSERT INTO t (n) VALUES (0) RETURNING id
         > SELECT hilo_currval('r')
         > SELECT hilo_nextval('r')",
        "2 2 3",
    ),
    different(
        "rename-to-a-taken-name",
        ["CREATE SEQUENCE s\nCREATE SEQUENCE r\n? ALTER SEQUENCE s RENAME TO r", "42P07"],
        ["SELECT hilo_create('s'), hilo_create('r')\n? SELECT hilo_rename('s', 'r')", "42710"],
    ),
    different(
        "rename-unknown",
        ["? ALTER SEQUENCE s RENAME TO r", "42P01"],
        ["? SELECT hilo_rename('s', 'r')", "42704"],
    ),
    different(
        "view-after-rename",
        [
            "CREATE SEQUENCE s
             CREATE VIEW v AS SELECT nextval('s') AS n
             ALTER SEQUENCE s RENAME TO r
             > SELECT n FROM v",
            "1",
        ],
        [
            "SELECT hilo_create('s')
             CREATE VIEW v AS SELECT hilo_nextval('s') AS n
             SELECT hilo_rename('s', 'r')
             > SELECT n FROM v",
            "42704",
        ],
    ),
    different(
        "case-of-names",
        ["CREATE SEQUENCE Orders\n> SELECT nextval('orders'), nextval('ORDERS')", "1|2"],
        ["SELECT hilo_create('Orders')\n> SELECT hilo_nextval('Orders')\n> SELECT hilo_nextval('orders')", "1 42704"],
    ),
    different(
        "quoted-names",
        [r#"CREATE SEQUENCE "Two ""Words"""
            > SELECT nextval('"Two ""Words"""')
            > SELECT nextval('Two "Words"')"#, "1 42602"],
        [r#"SELECT hilo_create('Two "Words"')
            > SELECT hilo_nextval('Two "Words"')
            > SELECT hilo_nextval('"Two ""Words"""')"#, "1 42704"],
    ),
    better(
        "long-names",
        [
            "? CREATE SEQUENCE a123456789b123456789c123456789d123456789e123456789f123456789xyz_one
             ? CREATE SEQUENCE a123456789b123456789c123456789d123456789e123456789f123456789xyz_other",
            "ok 42P07",
        ]
        ,
        [
            "? SELECT hilo_create(repeat('x', 250) || 'one'), hilo_create(repeat('x', 250) || 'other')
             ? SELECT hilo_create(repeat('x', 256))",
            "ok 22023",
        ],
    ),
    different(
        "empty-name",
        ["? CREATE SEQUENCE \"\"", "42601"],
        ["? SELECT hilo_create('')", "22023"],
    ),
    different(
        "schema-qualified",
        [
            "CREATE SEQUENCE other.s START 5
             CREATE SEQUENCE s
             > SELECT nextval('other.s'), nextval('s')
             SET search_path = other
             > SELECT nextval('s')",
            "5|1 6",
        ],
        [
            "SELECT hilo_create('other.s', start_value => 5), hilo_create('s')
             > SELECT hilo_nextval('other.s'), hilo_nextval('s')
             SET search_path = other, public
             > SELECT hilo_nextval('s')",
            "5|1 2",
        ],
    ),
    better(
        "found-whatever-the-path",
        ["CREATE SEQUENCE s\nSET search_path = pg_catalog\n> SELECT nextval('s')", "42P01"],
        ["SELECT hilo_create('s')\nSET search_path = pg_catalog\n> SELECT public.hilo_nextval('s')", "1"],
    ),
    different(
        "name-of-a-table",
        ["CREATE TABLE s (id bigint)\n? CREATE SEQUENCE s\n? SELECT nextval('s')", "42P07 42809"],
        ["CREATE TABLE s (id bigint)\n? SELECT hilo_create('s')\n? SELECT hilo_nextval('s')", "ok ok"],
    ),
    different(
        "set-schema",
        ["CREATE SEQUENCE s\n? ALTER SEQUENCE s SET SCHEMA other", "ok"],
        ["SELECT hilo_create('s')\n? SELECT hilo_alter('s', schema => 'other')", "42883"],
    ),
    different(
        "comment",
        ["CREATE SEQUENCE s\n? COMMENT ON SEQUENCE s IS 'a comment'", "ok"],
        [
            "SELECT hilo_create('s')\n? COMMENT ON SEQUENCE s IS 'a comment'
             ? SELECT hilo_alter('s', description => 'a comment')",
            "42P01 ok",
        ],
    ),
    different(
        "serial-sequence",
        [
            "CREATE TABLE t (id serial, tiny smallserial, big bigserial)
             > INSERT INTO t DEFAULT VALUES RETURNING id, tiny, big
             ? INSERT INTO t (id) VALUES (NULL)
             > SELECT pg_get_serial_sequence('t', 'id')",
            "1|1|1 23502 parity.t_id_seq",
        ],
        [
            "SELECT hilo_create('s', data_type => 'integer')
             CREATE TABLE t (id integer NOT NULL DEFAULT hilo_nextval('s'))
             > INSERT INTO t DEFAULT VALUES RETURNING id
             ? INSERT INTO t (id) VALUES (NULL)
             > SELECT pg_get_serial_sequence('t', 'id')",
            "1 23502 null",
        ],
    ),
    same(
        "identity-always",
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, n integer)
         ? INSERT INTO t VALUES (10, 0)
         > INSERT INTO t VALUES (DEFAULT, 0) RETURNING id
         > INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (20, 0) RETURNING id
         ? UPDATE t SET id = 5",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval_always('s'), n integer)
         ? INSERT INTO t VALUES (10, 0)
         > INSERT INTO t VALUES (DEFAULT, 0) RETURNING id
         > INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (20, 0) RETURNING id
         ? UPDATE t SET id = 5",
        "428C9 1 20 428C9",
    ),
    different(
        "overriding-user-value",
        [
            "CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY, n integer)
             > INSERT INTO t OVERRIDING USER VALUE VALUES (30, 0) RETURNING id",
            "1",
        ],
        [
            "SELECT hilo_create('s')
             CREATE TABLE t (id bigint NOT NULL DEFAULT hilo_nextval('s'), n integer)
             > INSERT INTO t OVERRIDING USER VALUE VALUES (30, 0) RETURNING id",
            "30",
        ],
    ),
    same(
        "explicit-values-are-not-counted",
        "CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY, n integer)
         > INSERT INTO t VALUES (2, 0) RETURNING id
         > INSERT INTO t (n) VALUES (0), (0) RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint NOT NULL DEFAULT hilo_nextval('s'), n integer)
         > INSERT INTO t VALUES (2, 0) RETURNING id
         > INSERT INTO t (n) VALUES (0), (0) RETURNING id",
        "2 1,2",
    ),
    same(
        "truncate-restarts",
        "CREATE TABLE t (id bigserial, n integer)
         INSERT INTO t (n) VALUES (0), (0)
         TRUNCATE t RESTART IDENTITY
         > INSERT INTO t (n) VALUES (0) RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         SELECT hilo_alter('s', owned_by => 't.id')
         INSERT INTO t (n) VALUES (0), (0)
         TRUNCATE t RESTART IDENTITY
         > INSERT INTO t (n) VALUES (0) RETURNING id",
        "1",
    ),
    same(
        "column-type-and-sequence-type",
        "CREATE TABLE t (id smallint GENERATED ALWAYS AS IDENTITY)
         ALTER TABLE t ALTER id TYPE integer
         > SELECT data_type FROM pg_sequences WHERE schemaname = 'parity'",
        "SELECT hilo_create('s', data_type => 'smallint')
         CREATE TABLE t (id smallint DEFAULT hilo_nextval('s'))
         SELECT hilo_alter('s', owned_by => 't.id')
         ALTER TABLE t ALTER id TYPE integer
         > SELECT data_type FROM hilo_sequences",
        "integer",
    ),
    same(
        "table-like",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         CREATE TABLE u (LIKE t INCLUDING DEFAULTS)
         INSERT INTO t (n) VALUES (0)
         > INSERT INTO u (n) VALUES (0) RETURNING id
         ? DROP SEQUENCE s",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         CREATE TABLE u (LIKE t INCLUDING DEFAULTS)
         INSERT INTO t (n) VALUES (0)
         > INSERT INTO u (n) VALUES (0) RETURNING id
         ? SELECT hilo_drop('s')",
        "2 2BP01",
    ),
];
