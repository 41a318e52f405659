//! ALTER SEQUENCE.

use super::{Case, better, different, same};

pub const CASES: &[Case] = &[
    same(
        "alter-increment",
        "CREATE SEQUENCE s
         SELECT nextval('s') FROM generate_series(1, 3)
         ALTER SEQUENCE s INCREMENT BY 10
         > SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s') FROM generate_series(1, 3)
         SELECT hilo_alter('s', increment => 10)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "13 23",
    ),
    same(
        "alter-increment-zero",
        "CREATE SEQUENCE s
         ? ALTER SEQUENCE s INCREMENT BY 0",
        "SELECT hilo_create('s')
         ? SELECT hilo_alter('s', increment => 0)",
        "22023",
    ),
    same(
        "alter-direction",
        "CREATE SEQUENCE s
         SELECT nextval('s') FROM generate_series(1, 3)
         ALTER SEQUENCE s INCREMENT BY -1
         > SELECT nextval('s') FROM generate_series(1, 2)
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s') FROM generate_series(1, 3)
         SELECT hilo_alter('s', increment => -1)
         > SELECT hilo_nextval('s') FROM generate_series(1, 2)
         > SELECT hilo_nextval('s')",
        "2,1 2200H",
    ),
    same(
        "alter-max-below-current",
        "CREATE SEQUENCE s
         SELECT nextval('s') FROM generate_series(1, 50)
         ? ALTER SEQUENCE s MAXVALUE 49
         ? ALTER SEQUENCE s MAXVALUE 50
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s') FROM generate_series(1, 50)
         ? SELECT hilo_alter('s', max_value => 49)
         ? SELECT hilo_alter('s', max_value => 50)
         > SELECT hilo_nextval('s')",
        "22023 ok 2200H",
    ),
    same(
        "alter-min-above-current",
        "CREATE SEQUENCE s
         SELECT nextval('s') FROM generate_series(1, 5)
         ? ALTER SEQUENCE s MINVALUE 6 START 6
         ? ALTER SEQUENCE s MINVALUE 5
         ? ALTER SEQUENCE s MINVALUE 5 START 5",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s') FROM generate_series(1, 5)
         ? SELECT hilo_alter('s', min_value => 6, start_value => 6)
         ? SELECT hilo_alter('s', min_value => 5)
         ? SELECT hilo_alter('s', min_value => 5, start_value => 5)",
        "22023 22023 ok",
    ),
    same(
        "alter-start",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         ALTER SEQUENCE s START WITH 100
         > SELECT nextval('s')
         ALTER SEQUENCE s RESTART
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         SELECT hilo_alter('s', start_value => 100)
         > SELECT hilo_nextval('s')
         SELECT hilo_alter('s', restart_with => start_value) FROM hilo_sequences WHERE name = 's'
         > SELECT hilo_nextval('s')",
        "2 100",
    ),
    same(
        "restart-with",
        "CREATE SEQUENCE s START 32
         SELECT nextval('s')
         ALTER SEQUENCE s RESTART WITH 24 INCREMENT BY 4
         > SELECT nextval('s'), nextval('s')
         > SELECT start_value FROM pg_sequences WHERE schemaname = 'parity'",
        "SELECT hilo_create('s', start_value => 32)
         SELECT hilo_nextval('s')
         SELECT hilo_alter('s', restart_with => 24, increment => 4)
         > SELECT hilo_nextval('s'), hilo_nextval('s')
         > SELECT start_value FROM hilo_sequences",
        "24|28 32",
    ),
    same(
        "restart-out-of-bounds",
        "CREATE SEQUENCE s START 32
         CREATE SEQUENCE t INCREMENT BY -1
         ? ALTER SEQUENCE s RESTART WITH 0
         ? ALTER SEQUENCE t RESTART WITH 40",
        "SELECT hilo_create('s', start_value => 32)
         SELECT hilo_create('t', increment => -1)
         ? SELECT hilo_alter('s', restart_with => 0)
         ? SELECT hilo_alter('t', restart_with => 40)",
        "22023 22023",
    ),
    same(
        "restart-reaches-other-sessions",
        "CREATE SEQUENCE s CACHE 20
         B: SELECT nextval('s') FROM generate_series(1, 5)
         ALTER SEQUENCE s RESTART WITH 500
         B: > SELECT nextval('s')",
        "SELECT hilo_create('s', block_size => 20)
         B: SELECT hilo_nextval('s') FROM generate_series(1, 5)
         SELECT hilo_alter('s', restart_with => 500)
         B: > SELECT hilo_nextval('s')",
        "500",
    ),
    same(
        "alter-type-moves-its-bounds",
        "CREATE SEQUENCE a AS integer
         ALTER SEQUENCE a AS smallint
         CREATE SEQUENCE b AS integer INCREMENT BY -1
         ALTER SEQUENCE b AS smallint
         CREATE SEQUENCE c AS smallint MINVALUE -32768
         ALTER SEQUENCE c AS integer
         CREATE SEQUENCE d AS smallint MAXVALUE 32767 INCREMENT BY -1
         ALTER SEQUENCE d AS integer
         > SELECT min_value, max_value FROM pg_sequences WHERE schemaname = 'parity' ORDER BY sequencename",
        "SELECT hilo_create('a', data_type => 'integer')
         SELECT hilo_alter('a', data_type => 'smallint')
         SELECT hilo_create('b', data_type => 'integer', increment => -1)
         SELECT hilo_alter('b', data_type => 'smallint')
         SELECT hilo_create('c', data_type => 'smallint', min_value => -32768)
         SELECT hilo_alter('c', data_type => 'integer')
         SELECT hilo_create('d', data_type => 'smallint', max_value => 32767, increment => -1)
         SELECT hilo_alter('d', data_type => 'integer')
         > SELECT min_value, max_value FROM hilo_sequences ORDER BY name",
        "1|32767,-32768|-1,-2147483648|2147483647,-2147483648|2147483647",
    ),
    same(
        "alter-type-keeps-chosen-bounds",
        "CREATE SEQUENCE a AS integer MAXVALUE 100000
         ? ALTER SEQUENCE a AS smallint
         ? ALTER SEQUENCE a AS smallint MAXVALUE 20000
         CREATE SEQUENCE b AS integer MINVALUE -100000 START 1
         ? ALTER SEQUENCE b AS smallint
         ? ALTER SEQUENCE b AS smallint MINVALUE -20000
         > SELECT min_value, max_value FROM pg_sequences WHERE schemaname = 'parity' ORDER BY sequencename",
        "SELECT hilo_create('a', data_type => 'integer', max_value => 100000)
         ? SELECT hilo_alter('a', data_type => 'smallint')
         ? SELECT hilo_alter('a', data_type => 'smallint', max_value => 20000)
         SELECT hilo_create('b', data_type => 'integer', min_value => -100000, start_value => 1)
         ? SELECT hilo_alter('b', data_type => 'smallint')
         ? SELECT hilo_alter('b', data_type => 'smallint', min_value => -20000)
         > SELECT min_value, max_value FROM hilo_sequences ORDER BY name",
        "22023 ok 22023 ok 1|20000,-20000|32767",
    ),
    same(
        "alter-type-other",
        "CREATE SEQUENCE s
         ? ALTER SEQUENCE s AS text",
        "SELECT hilo_create('s')
         ? SELECT hilo_alter('s', data_type => 'text')",
        "22023",
    ),
    same(
        "alter-rolled-back",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         BEGIN
         ALTER SEQUENCE s RESTART WITH 100
         > SELECT nextval('s')
         ROLLBACK
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         BEGIN
         SELECT hilo_alter('s', restart_with => 100)
         > SELECT hilo_nextval('s')
         ROLLBACK
         > SELECT hilo_nextval('s')",
        "100 2",
    ),
    better(
        "alter-rolled-back-repeats",
        [
            "CREATE SEQUENCE s
             SELECT nextval('s')
             BEGIN
             ALTER SEQUENCE s INCREMENT BY 2
             > SELECT nextval('s'), nextval('s')
             ROLLBACK
             > SELECT nextval('s') > 5",
            "3|5 f",
        ],
        [
            "SELECT hilo_create('s')
             SELECT hilo_nextval('s')
             BEGIN
             SELECT hilo_alter('s', increment => 2)
             > SELECT hilo_nextval('s'), hilo_nextval('s')
             ROLLBACK
             > SELECT hilo_nextval('s')",
            "55000 2",
        ],
    ),
    same(
        "altered-and-not-yet-committed",
        "CREATE SEQUENCE s
         BEGIN
         ALTER SEQUENCE s RESTART WITH 5
         B: SET lock_timeout = '200ms'
         B: > SELECT nextval('s')
         COMMIT
         B: > SELECT nextval('s')",
        "SELECT hilo_create('s')
         BEGIN
         SELECT hilo_alter('s', restart_with => 5)
         B: SET hilo.reserve_timeout = '200ms'
         B: > SELECT hilo_nextval('s')
         COMMIT
         B: SET hilo.reserve_timeout = '20s'
         B: > SELECT hilo_nextval('s')",
        "55P03 5",
    ),
    better(
        "alter-while-used",
        [
            "CREATE SEQUENCE s
             B: BEGIN
             B: SELECT nextval('s')
             SET lock_timeout = '200ms'
             ? ALTER SEQUENCE s MAXVALUE 20",
            "55P03",
        ],
        [
            "SELECT hilo_create('s')
             B: BEGIN
             B: SELECT hilo_nextval('s')
             SET lock_timeout = '200ms'
             ? SELECT hilo_alter('s', max_value => 20)",
            "ok",
        ],
    ),
    different(
        "alter-unknown",
        ["? ALTER SEQUENCE s INCREMENT BY 2", "42P01"],
        ["? SELECT hilo_alter('s', increment => 2)", "42704"],
    ),
    different(
        "alter-if-exists",
        ["? ALTER SEQUENCE IF EXISTS s INCREMENT BY 2", "ok"],
        ["? SELECT hilo_alter(name, increment => 2) FROM hilo_sequences WHERE name = 's'\n? SELECT hilo_alter('s', increment => 2)", "ok 42704"],
    ),
    different(
        "alter-a-table",
        ["CREATE TABLE t (id bigint)\n? ALTER SEQUENCE t CYCLE", "42809"],
        ["CREATE TABLE t (id bigint)\n? SELECT hilo_alter('t', cycle => true)", "42704"],
    ),
    different(
        "alter-no-bounds",
        ["CREATE SEQUENCE s MAXVALUE 10\nALTER SEQUENCE s NO MAXVALUE\n> SELECT max_value FROM pg_sequences WHERE schemaname = 'parity'", "9223372036854775807"],
        ["SELECT hilo_create('s', max_value => 10)\nSELECT hilo_alter('s', max_value => NULL)\n> SELECT max_value FROM hilo_sequences\nSELECT hilo_alter('s', max_value => 9223372036854775807)\n> SELECT max_value FROM hilo_sequences", "10 9223372036854775807"],
    ),
    different(
        "alter-nothing",
        ["CREATE SEQUENCE s\n? ALTER SEQUENCE s", "42601"],
        ["SELECT hilo_create('s')\n? SELECT hilo_alter('s')", "ok"],
    ),
];
