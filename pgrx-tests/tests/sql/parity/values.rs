//! nextval, currval, lastval and setval.

use super::{Case, better, different, same};

pub const CASES: &[Case] = &[
    same(
        "nextval",
        "CREATE SEQUENCE s
         > SELECT nextval('s')
         > SELECT nextval('s'), nextval('s')
         > SELECT nextval('s') FROM generate_series(1, 3)",
        "SELECT hilo_create('s')
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s'), hilo_nextval('s')
         > SELECT hilo_nextval('s') FROM generate_series(1, 3)",
        "1 2|3 4,5,6",
    ),
    same(
        "nextval-falling",
        "CREATE SEQUENCE s INCREMENT BY -4 START -2
         > SELECT nextval('s') FROM generate_series(1, 3)",
        "SELECT hilo_create('s', increment => -4, start_value => -2)
         > SELECT hilo_nextval('s') FROM generate_series(1, 3)",
        "-2,-6,-10",
    ),
    same(
        "null-arguments",
        "CREATE SEQUENCE s
         > SELECT nextval(NULL), currval(NULL), setval(NULL, 1), setval('s', NULL), setval('s', 1, NULL)
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         > SELECT hilo_nextval(NULL), hilo_currval(NULL), hilo_setval(NULL, 1), hilo_setval('s', NULL), hilo_setval('s', 1, NULL)
         > SELECT hilo_nextval('s')",
        "null|null|null|null|null 1",
    ),
    same(
        "result-type",
        "CREATE SEQUENCE s AS smallint
         > SELECT pg_typeof(nextval('s'))",
        "SELECT hilo_create('s', data_type => 'smallint')
         > SELECT pg_typeof(hilo_nextval('s'))",
        "bigint",
    ),
    better(
        "function-properties",
        ["> SELECT provolatile, proisstrict, proparallel FROM pg_proc WHERE proname = 'nextval'", "v|t|u"],
        ["> SELECT provolatile, proisstrict, proparallel FROM pg_proc WHERE oid = 'hilo_nextval'::regproc", "v|t|r"],
    ),
    different(
        "unknown",
        ["> SELECT nextval('s')\n> SELECT currval('s')\n> SELECT setval('s', 1)", "42P01 42P01 42P01"],
        [
            "> SELECT hilo_nextval('s')\n> SELECT hilo_currval('s')\n> SELECT hilo_setval('s', 1)",
            "42704 42704 42704",
        ],
    ),
    better(
        "created-by-use",
        ["> SELECT nextval('s')", "42P01"],
        ["SET hilo.auto_create = on\n> SELECT hilo_nextval('s')", "1"],
    ),
    better(
        "batch",
        ["CREATE SEQUENCE s\n> SELECT nextval('s', 3)", "42883"],
        ["SELECT hilo_create('s')\n> SELECT hilo_nextvals('s', 3)", "1,2,3"],
    ),
    better(
        "range",
        ["CREATE SEQUENCE s\n> SELECT * FROM nextrange('s', 1000)", "42883"],
        [
            "SELECT hilo_create('s')\n> SELECT * FROM hilo_nextrange('s', 1000)\n> SELECT hilo_nextval('s')",
            "1|1000|1|1000 1001",
        ],
    ),
    same(
        "currval-before",
        "CREATE SEQUENCE s
         > SELECT currval('s')",
        "SELECT hilo_create('s')
         > SELECT hilo_currval('s')",
        "55000",
    ),
    same(
        "currval",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         B: > SELECT currval('s')
         B: > SELECT nextval('s')
         > SELECT currval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         B: > SELECT hilo_currval('s')
         B: > SELECT hilo_nextval('s')
         > SELECT hilo_currval('s')",
        "55000 2 1",
    ),
    same(
        "lastval-before",
        "CREATE SEQUENCE s
         > SELECT lastval()
         SELECT setval('s', 5)
         > SELECT lastval()",
        "SELECT hilo_create('s')
         > SELECT hilo_lastval()
         SELECT hilo_setval('s', 5)
         > SELECT hilo_lastval()",
        "55000 55000",
    ),
    same(
        "lastval",
        "CREATE SEQUENCE a START 10
         CREATE SEQUENCE b START 20
         SELECT nextval('a')
         SELECT nextval('b')
         > SELECT lastval()
         SELECT nextval('a')
         > SELECT lastval()
         SELECT currval('b')
         > SELECT lastval()",
        "SELECT hilo_create('a', start_value => 10)
         SELECT hilo_create('b', start_value => 20)
         SELECT hilo_nextval('a')
         SELECT hilo_nextval('b')
         > SELECT hilo_lastval()
         SELECT hilo_nextval('a')
         > SELECT hilo_lastval()
         SELECT hilo_currval('b')
         > SELECT hilo_lastval()",
        "20 11 11",
    ),
    same(
        "lastval-after-setval",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         SELECT setval('s', 99)
         > SELECT lastval()",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         SELECT hilo_setval('s', 99)
         > SELECT hilo_lastval()",
        "99",
    ),
    same(
        "lastval-after-drop",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         DROP SEQUENCE s
         > SELECT lastval()",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         SELECT hilo_drop('s')
         > SELECT hilo_lastval()",
        "55000",
    ),
    same(
        "currval-of-a-namesake",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         DROP SEQUENCE s
         CREATE SEQUENCE s
         > SELECT currval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         SELECT hilo_drop('s')
         SELECT hilo_create('s')
         > SELECT hilo_currval('s')",
        "55000",
    ),
    same(
        "setval",
        "CREATE SEQUENCE s
         > SELECT setval('s', 32)
         > SELECT currval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         > SELECT hilo_setval('s', 32)
         > SELECT hilo_currval('s')
         > SELECT hilo_nextval('s')",
        "32 32 33",
    ),
    same(
        "setval-not-called",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         > SELECT setval('s', 99, false)
         > SELECT currval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         > SELECT hilo_setval('s', 99, false)
         > SELECT hilo_currval('s')
         > SELECT hilo_nextval('s')",
        "99 1 99",
    ),
    same(
        "setval-back",
        "CREATE SEQUENCE s
         SELECT nextval('s') FROM generate_series(1, 50)
         SELECT setval('s', 5)
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s') FROM generate_series(1, 50)
         SELECT hilo_setval('s', 5)
         > SELECT hilo_nextval('s')",
        "6",
    ),
    same(
        "setval-out-of-bounds",
        "CREATE SEQUENCE s MINVALUE 5 MAXVALUE 36
         > SELECT setval('s', -100)
         > SELECT setval('s', 4)
         > SELECT setval('s', 37)
         > SELECT setval('s', 5)
         > SELECT nextval('s')",
        "SELECT hilo_create('s', min_value => 5, max_value => 36)
         > SELECT hilo_setval('s', -100)
         > SELECT hilo_setval('s', 4)
         > SELECT hilo_setval('s', 37)
         > SELECT hilo_setval('s', 5)
         > SELECT hilo_nextval('s')",
        "22003 22003 22003 5 6",
    ),
    same(
        "setval-to-the-end",
        "CREATE SEQUENCE s MAXVALUE 10
         SELECT setval('s', 10)
         > SELECT nextval('s')
         SELECT setval('s', 10, false)
         > SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s', max_value => 10)
         SELECT hilo_setval('s', 10)
         > SELECT hilo_nextval('s')
         SELECT hilo_setval('s', 10, false)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "2200H 10 2200H",
    ),
    better(
        "setval-reaches-other-sessions",
        [
            "CREATE SEQUENCE s CACHE 10
             B: > SELECT nextval('s')
             SELECT setval('s', 100)
             B: > SELECT nextval('s')",
            "1 2",
        ],
        [
            "SELECT hilo_create('s', block_size => 10)
             B: > SELECT hilo_nextval('s')
             SELECT hilo_setval('s', 100)
             B: > SELECT hilo_nextval('s')",
            "1 101",
        ],
    ),
    same(
        "discard-sequences",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         DISCARD SEQUENCES
         > SELECT currval('s')
         > SELECT lastval()
         > SELECT nextval('s')
         DISCARD ALL
         > SELECT lastval()",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         DISCARD SEQUENCES
         > SELECT hilo_currval('s')
         > SELECT hilo_lastval()
         > SELECT hilo_nextval('s')
         DISCARD ALL
         > SELECT hilo_lastval()",
        "55000 55000 2 55000",
    ),
    better(
        "discard-throws-away",
        [
            "CREATE SEQUENCE s CACHE 10
             SELECT nextval('s')
             DISCARD SEQUENCES
             > SELECT nextval('s')",
            "11",
        ],
        [
            "SELECT hilo_create('s', block_size => 10)
             SELECT hilo_nextval('s')
             DISCARD SEQUENCES
             > SELECT hilo_nextval('s')",
            "2",
        ],
    ),
    better(
        "disconnect-throws-away",
        [
            "CREATE SEQUENCE s CACHE 10
             B: SELECT nextval('s')
             !quit B
             > SELECT nextval('s')",
            "11",
        ],
        [
            "SELECT hilo_create('s', block_size => 10)
             B: SELECT hilo_nextval('s')
             !quit B
             > SELECT hilo_nextval('s')",
            "2",
        ],
    ),
    same(
        "text-of-names",
        "CREATE SEQUENCE s
         > SELECT nextval('s'::text), nextval('s'::varchar), nextval('s'::regclass)",
        "SELECT hilo_create('s')
         > SELECT hilo_nextval('s'::text), hilo_nextval('s'::varchar), hilo_nextval('s'::hilo_sequence)",
        "1|2|3",
    ),
    better(
        "name-of-type-name",
        ["CREATE SEQUENCE s\n> SELECT nextval('s'::name)", "42883"],
        ["SELECT hilo_create('s')\n> SELECT hilo_nextval('s'::name)", "1"],
    ),
    different(
        "number-for-a-name",
        ["CREATE SEQUENCE s\n> SELECT nextval('s'::regclass::oid::regclass)", "1"],
        ["SELECT hilo_create('s')\n> SELECT hilo_nextval(1::oid)", "42883"],
    ),
    same(
        "parameters",
        "CREATE SEQUENCE s INCREMENT BY -1
         > SELECT start_value, minimum_value, maximum_value, increment, cycle_option, data_type::regtype FROM pg_sequence_parameters('s'::regclass)",
        "SELECT hilo_create('s', increment => -1)
         > SELECT start_value, min_value, max_value, increment, cycle, data_type FROM hilo_sequences",
        "-1|-9223372036854775808|-1|-1|f|bigint",
    ),
    same(
        "last-value-before-the-first",
        "CREATE SEQUENCE s
         > SELECT last_value FROM pg_sequences WHERE schemaname = 'parity'",
        "SELECT hilo_create('s')
         > SELECT max_reserved FROM hilo_sequences",
        "null",
    ),
    different(
        "last-value",
        [
            "CREATE SEQUENCE s
             SELECT nextval('s') FROM generate_series(1, 3)
             > SELECT last_value = 3 FROM pg_sequences WHERE schemaname = 'parity'",
            "t",
        ],
        [
            "SELECT hilo_create('s')
             SELECT hilo_nextval('s') FROM generate_series(1, 3)
             > SELECT max_reserved = 3, max_reserved >= 3 FROM hilo_sequences
             > SELECT served FROM hilo_stat_sequences",
            "f|t 3",
        ],
    ),
    different(
        "read-as-a-table",
        ["CREATE SEQUENCE s\n> SELECT last_value, is_called FROM s", "1|f"],
        ["SELECT hilo_create('s')\n> SELECT last_value FROM s", "42P01"],
    ),
    different(
        "information-schema",
        [
            "CREATE SEQUENCE s\n> SELECT count(*) FROM information_schema.sequences WHERE sequence_schema = 'parity'",
            "1",
        ],
        [
            "SELECT hilo_create('s')\n> SELECT count(*) FROM information_schema.sequences\n> SELECT count(*) FROM hilo_sequences",
            "0 1",
        ],
    ),
    better(
        "seen-in-memory",
        ["CREATE SEQUENCE s CACHE 10\nSELECT nextval('s')\n> SELECT cached FROM s", "42703"],
        [
            "SELECT hilo_create('s', block_size => 10)\nSELECT hilo_nextval('s')\n> SELECT sum(count) >= 9 FROM hilo_blocks",
            "t",
        ],
    ),
];
