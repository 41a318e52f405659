//! The options that a sequence may be created with.

use super::{Case, better, different, same};

pub const CASES: &[Case] = &[
    same(
        "increment-zero",
        "? CREATE SEQUENCE s INCREMENT BY 0",
        "? SELECT hilo_create('s', increment => 0)",
        "22023",
    ),
    same(
        "falling-min-above-max",
        "? CREATE SEQUENCE s INCREMENT BY -1 MINVALUE 20",
        "? SELECT hilo_create('s', increment => -1, min_value => 20)",
        "22023",
    ),
    same(
        "rising-max-below-min",
        "? CREATE SEQUENCE s MAXVALUE -20",
        "? SELECT hilo_create('s', max_value => -20)",
        "22023",
    ),
    same(
        "min-equals-max",
        "? CREATE SEQUENCE s MINVALUE 5 MAXVALUE 5",
        "? SELECT hilo_create('s', min_value => 5, max_value => 5)",
        "22023",
    ),
    same(
        "falling-start-above-max",
        "? CREATE SEQUENCE s INCREMENT BY -1 START 10",
        "? SELECT hilo_create('s', increment => -1, start_value => 10)",
        "22023",
    ),
    same(
        "rising-start-below-min",
        "? CREATE SEQUENCE s START -10",
        "? SELECT hilo_create('s', start_value => -10)",
        "22023",
    ),
    same(
        "cache-zero",
        "? CREATE SEQUENCE s CACHE 0",
        "? SELECT hilo_create('s', block_size => 0)",
        "22023",
    ),
    different(
        "cache-beyond-the-sequence",
        ["? CREATE SEQUENCE s MAXVALUE 10 CACHE 100\n? ALTER SEQUENCE s MAXVALUE 5", "ok ok"],
        ["? SELECT hilo_create('s', max_value => 10, block_size => 100)\nSELECT hilo_create('s', max_value => 100, block_size => 100)\n? SELECT hilo_alter('s', max_value => 5)", "22023 22023"],
    ),
    different(
        "slice-beyond-the-block",
        ["? CREATE SEQUENCE s CACHE 10 SLICE 100", "42601"],
        ["? SELECT hilo_create('s', block_size => 10, slice_size => 100)", "22023"],
    ),
    same(
        "type-bounds-rising",
        "CREATE SEQUENCE a AS smallint
         CREATE SEQUENCE b AS integer
         CREATE SEQUENCE c AS bigint
         CREATE SEQUENCE d
         > SELECT data_type, start_value, min_value, max_value, increment_by, cycle FROM pg_sequences WHERE schemaname = 'parity' ORDER BY sequencename",
        "SELECT hilo_create('a', data_type => 'smallint')
         SELECT hilo_create('b', data_type => 'integer')
         SELECT hilo_create('c', data_type => 'bigint')
         SELECT hilo_create('d')
         > SELECT data_type, start_value, min_value, max_value, increment, cycle FROM hilo_sequences ORDER BY name",
        "smallint|1|1|32767|1|f,integer|1|1|2147483647|1|f,bigint|1|1|9223372036854775807|1|f,\
         bigint|1|1|9223372036854775807|1|f",
    ),
    same(
        "type-bounds-falling",
        "CREATE SEQUENCE a AS smallint INCREMENT BY -1
         CREATE SEQUENCE b AS integer INCREMENT BY -1
         CREATE SEQUENCE c INCREMENT BY -1
         > SELECT start_value, min_value, max_value FROM pg_sequences WHERE schemaname = 'parity' ORDER BY sequencename",
        "SELECT hilo_create('a', data_type => 'smallint', increment => -1)
         SELECT hilo_create('b', data_type => 'integer', increment => -1)
         SELECT hilo_create('c', increment => -1)
         > SELECT start_value, min_value, max_value FROM hilo_sequences ORDER BY name",
        "-1|-32768|-1,-1|-2147483648|-1,-1|-9223372036854775808|-1",
    ),
    same(
        "bounds-inside-type",
        "CREATE SEQUENCE a AS integer MAXVALUE 100000
         CREATE SEQUENCE b AS integer MINVALUE -100000 START 1
         CREATE SEQUENCE c AS smallint MAXVALUE 32767 INCREMENT BY -1
         > SELECT start_value, min_value, max_value FROM pg_sequences WHERE schemaname = 'parity' ORDER BY sequencename",
        "SELECT hilo_create('a', data_type => 'integer', max_value => 100000)
         SELECT hilo_create('b', data_type => 'integer', min_value => -100000, start_value => 1)
         SELECT hilo_create('c', data_type => 'smallint', max_value => 32767, increment => -1)
         > SELECT start_value, min_value, max_value FROM hilo_sequences ORDER BY name",
        "1|1|100000,1|-100000|2147483647,32767|-32768|32767",
    ),
    same(
        "start-follows-min",
        "CREATE SEQUENCE s MINVALUE 40
         > SELECT nextval('s')",
        "SELECT hilo_create('s', min_value => 40)
         > SELECT hilo_nextval('s')",
        "40",
    ),
    same(
        "max-outside-type",
        "? CREATE SEQUENCE s AS smallint MAXVALUE 100000",
        "? SELECT hilo_create('s', data_type => 'smallint', max_value => 100000)",
        "22023",
    ),
    same(
        "min-outside-type",
        "? CREATE SEQUENCE s AS smallint MINVALUE -100000",
        "? SELECT hilo_create('s', data_type => 'smallint', min_value => -100000)",
        "22023",
    ),
    same(
        "type-other",
        "? CREATE SEQUENCE s AS text
         ? CREATE SEQUENCE s AS numeric",
        "? SELECT hilo_create('s', data_type => 'text')
         ? SELECT hilo_create('s', data_type => 'numeric')",
        "22023 22023",
    ),
    same(
        "type-unknown",
        "? CREATE SEQUENCE s AS nosuchtype",
        "? SELECT hilo_create('s', data_type => 'nosuchtype')",
        "42704",
    ),
    same(
        "type-domain",
        "CREATE DOMAIN whole AS integer
         ? CREATE SEQUENCE s AS whole",
        "CREATE DOMAIN whole AS integer
         ? SELECT hilo_create('s', data_type => 'whole')",
        "22023",
    ),
    same(
        "option-twice",
        "? CREATE SEQUENCE s CACHE 1 CACHE 2",
        "? SELECT hilo_create('s', block_size => 1, block_size => 2)",
        "42601",
    ),
    different(
        "option-unknown",
        ["? CREATE SEQUENCE s FASTER", "42601"],
        ["? SELECT hilo_create('s', faster => true)", "42883"],
    ),
    different(
        "option-beyond-bigint",
        ["? CREATE SEQUENCE s MAXVALUE 9223372036854775808", "22003"],
        ["? SELECT hilo_create('s', max_value => 9223372036854775808)", "42883"],
    ),
    different(
        "option-null",
        ["? CREATE SEQUENCE s START WITH NULL", "42601"],
        ["? SELECT hilo_create('s', start_value => NULL, increment => NULL, data_type => NULL)", "ok"],
    ),
    same(
        "no-bounds",
        "CREATE SEQUENCE s NO MINVALUE NO MAXVALUE NO CYCLE
         > SELECT min_value, max_value, cycle FROM pg_sequences WHERE schemaname = 'parity'",
        "SELECT hilo_create('s', min_value => NULL, max_value => NULL, cycle => NULL)
         > SELECT min_value, max_value, cycle FROM hilo_sequences",
        "1|9223372036854775807|f",
    ),
    same(
        "widest-bounds",
        "CREATE SEQUENCE s MINVALUE -9223372036854775808 MAXVALUE 9223372036854775807
         > SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s', min_value => -9223372036854775808, max_value => 9223372036854775807)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "-9223372036854775808 -9223372036854775807",
    ),
    same(
        "increment-over-the-range",
        "CREATE SEQUENCE s INCREMENT BY 100 MAXVALUE 10
         > SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s', increment => 100, max_value => 10)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "1 2200H",
    ),
    same(
        "increment-extremes",
        "CREATE SEQUENCE up INCREMENT BY 9223372036854775807
         CREATE SEQUENCE down INCREMENT BY -9223372036854775808
         > SELECT nextval('up')
         > SELECT nextval('up')
         > SELECT nextval('down')
         > SELECT nextval('down')",
        "SELECT hilo_create('up', increment => 9223372036854775807)
         SELECT hilo_create('down', increment => -9223372036854775808)
         > SELECT hilo_nextval('up')
         > SELECT hilo_nextval('up')
         > SELECT hilo_nextval('down')
         > SELECT hilo_nextval('down')",
        "1 2200H -1 2200H",
    ),
    better(
        "cache-per-session",
        [
            "CREATE SEQUENCE s CACHE 10
             > SELECT nextval('s')
             B: > SELECT nextval('s')",
            "1 11",
        ],
        [
            "SELECT hilo_create('s', block_size => 10)
             > SELECT hilo_nextval('s')
             B: > SELECT hilo_nextval('s')",
            "1 2",
        ],
    ),
    same(
        "if-not-exists",
        "CREATE SEQUENCE s START 7
         ? CREATE SEQUENCE IF NOT EXISTS s START 9
         ? CREATE SEQUENCE IF NOT EXISTS t START 9
         > SELECT nextval('s'), nextval('t')",
        "SELECT hilo_create('s', start_value => 7)
         ? SELECT hilo_create('s', start_value => 9, if_not_exists => true)
         ? SELECT hilo_create('t', start_value => 9, if_not_exists => true)
         > SELECT hilo_nextval('s'), hilo_nextval('t')",
        "ok ok 7|9",
    ),
    better(
        "if-not-exists-wrong-options",
        [
            "CREATE SEQUENCE s
             ? CREATE SEQUENCE IF NOT EXISTS s INCREMENT BY 0",
            "ok",
        ],
        [
            "SELECT hilo_create('s')
             ? SELECT hilo_create('s', increment => 0, if_not_exists => true)",
            "22023",
        ],
    ),
    different(
        "exists",
        ["CREATE SEQUENCE s\n? CREATE SEQUENCE s", "42P07"],
        ["SELECT hilo_create('s')\n? SELECT hilo_create('s')", "42710"],
    ),
    different(
        "temporary",
        ["? CREATE TEMP SEQUENCE s", "ok"],
        ["? SELECT hilo_create('s', temporary => true)", "42883"],
    ),
    different(
        "unlogged",
        ["? CREATE UNLOGGED SEQUENCE s\n? ALTER SEQUENCE s SET LOGGED", "ok ok"],
        ["? SELECT hilo_create('s', unlogged => true)", "42883"],
    ),
    same(
        "owned-by",
        "CREATE TABLE t (id bigint)\n? CREATE SEQUENCE s OWNED BY t.id\n? CREATE SEQUENCE n OWNED BY t.nothing\n? ALTER SEQUENCE s OWNED BY NONE",
        "CREATE TABLE t (id bigint)\n? SELECT hilo_create('s', owned_by => 't.id')\n? SELECT hilo_create('n', owned_by => 't.nothing')\n? SELECT hilo_alter('s', owned_by => 'none')",
        "ok 42703 ok",
    ),
];
