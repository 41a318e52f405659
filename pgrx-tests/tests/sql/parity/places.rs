//! Statements that draw values.

use super::{Case, better, different, same};

pub const CASES: &[Case] = &[
    same(
        "insert-select",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         INSERT INTO t (n) SELECT n FROM generate_series(3, 1, -1) AS n
         > SELECT id, n FROM t ORDER BY id
         > INSERT INTO t (n) SELECT n FROM (VALUES (9), (7), (8)) AS v (n) ORDER BY n RETURNING id, n",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         INSERT INTO t (n) SELECT n FROM generate_series(3, 1, -1) AS n
         > SELECT id, n FROM t ORDER BY id
         > INSERT INTO t (n) SELECT n FROM (VALUES (9), (7), (8)) AS v (n) ORDER BY n RETURNING id, n",
        "1|3,2|2,3|1 4|7,5|8,6|9",
    ),
    same(
        "copy",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         COPY t (n) FROM PROGRAM 'echo 5; echo 6'
         COPY t FROM PROGRAM 'printf \"100,7\\n\"' (FORMAT csv)
         COPY t (n) FROM PROGRAM 'echo 8'
         > SELECT id, n FROM t ORDER BY n",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         COPY t (n) FROM PROGRAM 'echo 5; echo 6'
         COPY t FROM PROGRAM 'printf \"100,7\\n\"' (FORMAT csv)
         COPY t (n) FROM PROGRAM 'echo 8'
         > SELECT id, n FROM t ORDER BY n",
        "1|5,2|6,100|7,3|8",
    ),
    same(
        "on-conflict",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer UNIQUE)
         INSERT INTO t (n) VALUES (1)
         > INSERT INTO t (n) VALUES (1) ON CONFLICT DO NOTHING RETURNING id
         > INSERT INTO t (n) VALUES (1) ON CONFLICT (n) DO UPDATE SET id = nextval('s') RETURNING id
         > INSERT INTO t (n) VALUES (2) ON CONFLICT DO NOTHING RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer UNIQUE)
         INSERT INTO t (n) VALUES (1)
         > INSERT INTO t (n) VALUES (1) ON CONFLICT DO NOTHING RETURNING id
         > INSERT INTO t (n) VALUES (1) ON CONFLICT (n) DO UPDATE SET id = hilo_nextval('s') RETURNING id
         > INSERT INTO t (n) VALUES (2) ON CONFLICT DO NOTHING RETURNING id",
        "none 4 5",
    ),
    same(
        "merge",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         INSERT INTO t (n) VALUES (1)
         MERGE INTO t USING (VALUES (1), (2), (3)) AS v (n) ON t.n = v.n WHEN NOT MATCHED THEN INSERT (n) VALUES (v.n) WHEN MATCHED THEN UPDATE SET id = DEFAULT
         > SELECT count(DISTINCT id), min(id), max(id) FROM t",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         INSERT INTO t (n) VALUES (1)
         MERGE INTO t USING (VALUES (1), (2), (3)) AS v (n) ON t.n = v.n WHEN NOT MATCHED THEN INSERT (n) VALUES (v.n) WHEN MATCHED THEN UPDATE SET id = DEFAULT
         > SELECT count(DISTINCT id), min(id), max(id) FROM t",
        "3|2|4",
    ),
    same(
        "update-to-default",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         INSERT INTO t (n) VALUES (1)
         > UPDATE t SET id = DEFAULT RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         INSERT INTO t (n) VALUES (1)
         > UPDATE t SET id = DEFAULT RETURNING id",
        "2",
    ),
    same(
        "add-column",
        "CREATE TABLE t (n integer)
         INSERT INTO t VALUES (1), (2), (3)
         ALTER TABLE t ADD COLUMN id serial
         > SELECT n, id FROM t ORDER BY n",
        "CREATE TABLE t (n integer)
         INSERT INTO t VALUES (1), (2), (3)
         SELECT hilo_create('s')
         ALTER TABLE t ADD COLUMN id integer NOT NULL DEFAULT hilo_nextval('s')
         > SELECT n, id FROM t ORDER BY n",
        "1|1,2|2,3|3",
    ),
    same(
        "view-and-rule",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         CREATE TABLE log (id bigint)
         CREATE VIEW v AS SELECT * FROM t
         > INSERT INTO v (n) VALUES (1) RETURNING id
         CREATE RULE twice AS ON INSERT TO t DO ALSO INSERT INTO log VALUES (NEW.id)
         INSERT INTO t (n) VALUES (2)
         > SELECT t.id, log.id FROM t, log WHERE n = 2",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         CREATE TABLE log (id bigint)
         CREATE VIEW v AS SELECT * FROM t
         > INSERT INTO v (n) VALUES (1) RETURNING id
         CREATE RULE twice AS ON INSERT TO t DO ALSO INSERT INTO log VALUES (NEW.id)
         INSERT INTO t (n) VALUES (2)
         > SELECT t.id, log.id FROM t, log WHERE n = 2",
        "1 2|3",
    ),
    same(
        "partitions",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer) PARTITION BY LIST (n)
         CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)
         CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)
         > INSERT INTO t (n) VALUES (1), (2), (1) RETURNING id
         > INSERT INTO t1 (n) VALUES (1) RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer) PARTITION BY LIST (n)
         CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)
         CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)
         > INSERT INTO t (n) VALUES (1), (2), (1) RETURNING id
         > INSERT INTO t1 (n) VALUES (1) RETURNING id",
        "1,2,3 4",
    ),
    same(
        "with-recursive",
        "CREATE SEQUENCE s
         > WITH RECURSIVE r AS (SELECT nextval('s') AS n UNION ALL SELECT nextval('s') FROM r WHERE n < 4) SELECT n FROM r",
        "SELECT hilo_create('s')
         > WITH RECURSIVE r AS (SELECT hilo_nextval('s') AS n UNION ALL SELECT hilo_nextval('s') FROM r WHERE n < 4) SELECT n FROM r",
        "1,2,3,4",
    ),
    same(
        "called-as-often-as-needed",
        "CREATE SEQUENCE s
         > SELECT nextval('s') FROM generate_series(1, 10) LIMIT 2
         > SELECT (SELECT nextval('s')) FROM generate_series(1, 3)
         > SELECT CASE WHEN n = 2 THEN nextval('s') ELSE 0 END FROM generate_series(1, 3) AS n
         > WITH unused AS (SELECT nextval('s')) SELECT 0
         EXPLAIN SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         > SELECT hilo_nextval('s') FROM generate_series(1, 10) LIMIT 2
         > SELECT (SELECT hilo_nextval('s')) FROM generate_series(1, 3)
         > SELECT CASE WHEN n = 2 THEN hilo_nextval('s') ELSE 0 END FROM generate_series(1, 3) AS n
         > WITH unused AS (SELECT hilo_nextval('s')) SELECT 0
         EXPLAIN SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "1,2 3,3,3 0,4,0 0 5",
    ),
    same(
        "order-by",
        "CREATE SEQUENCE s
         > SELECT nextval('s'), n FROM (VALUES (2), (1)) AS v (n) ORDER BY n",
        "SELECT hilo_create('s')
         > SELECT hilo_nextval('s'), n FROM (VALUES (2), (1)) AS v (n) ORDER BY n",
        "1|1,2|2",
    ),
    same(
        "cursor",
        "CREATE SEQUENCE s
         BEGIN
         DECLARE c CURSOR FOR SELECT nextval('s') FROM generate_series(1, 10)
         > FETCH 2 FROM c
         CLOSE c
         COMMIT
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         BEGIN
         DECLARE c CURSOR FOR SELECT hilo_nextval('s') FROM generate_series(1, 10)
         > FETCH 2 FROM c
         CLOSE c
         COMMIT
         > SELECT hilo_nextval('s')",
        "1,2 3",
    ),
    better(
        "batch-with-a-limit",
        ["CREATE SEQUENCE s\n> SELECT nextval('s', 5) LIMIT 2", "42883"],
        ["SELECT hilo_create('s')\n> SELECT hilo_nextvals('s', 5) LIMIT 2\n> SELECT hilo_nextval('s')", "1,2 3"],
    ),
    better(
        "lateral-item",
        [
            "CREATE SEQUENCE s
         CREATE TABLE t AS SELECT 1 + n % 3 AS n FROM generate_series(1, 999) AS n
         ANALYZE t
         > SELECT count(*), count(DISTINCT v) FROM t, LATERAL (SELECT nextval('s') AS v FROM generate_series(1, n)) AS x",
            "1998|6",
        ],
        [
            "SELECT hilo_create('s')
         CREATE TABLE t AS SELECT 1 + n % 3 AS n FROM generate_series(1, 999) AS n
         ANALYZE t
         > SELECT count(*), count(DISTINCT v) FROM t, LATERAL (SELECT hilo_nextval('s') AS v FROM generate_series(1, n)) AS x",
            "1998|1998",
        ],
    ),
    same(
        "lateral-function",
        "CREATE SEQUENCE s
         CREATE FUNCTION lines(n int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT nextval('s') FROM generate_series(1, n); END $$
         CREATE TABLE t AS SELECT 1 + n % 3 AS n FROM generate_series(1, 999) AS n
         ANALYZE t
         > SELECT count(*), count(DISTINCT v) FROM t, lines(n) AS v
         SET enable_memoize = off
         > SELECT count(*), count(DISTINCT v) FROM t, lines(n) AS v",
        "SELECT hilo_create('s')
         CREATE FUNCTION lines(n int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN RETURN QUERY SELECT hilo_nextval('s') FROM generate_series(1, n); END $$
         CREATE TABLE t AS SELECT 1 + n % 3 AS n FROM generate_series(1, 999) AS n
         ANALYZE t
         > SELECT count(*), count(DISTINCT v) FROM t, lines(n) AS v
         SET enable_memoize = off
         > SELECT count(*), count(DISTINCT v) FROM t, lines(n) AS v",
        "1998|6 1998|1998",
    ),
    same(
        "parallel-query",
        "CREATE SEQUENCE s
         CREATE TABLE t AS SELECT generate_series(1, 1000) AS n
         ANALYZE t
         SET parallel_setup_cost = 0
         SET parallel_tuple_cost = 0
         SET min_parallel_table_scan_size = 0
         > SELECT count(DISTINCT id), max(id) FROM (SELECT nextval('s') AS id, n FROM t) AS drawn WHERE n > 0",
        "SELECT hilo_create('s')
         CREATE TABLE t AS SELECT generate_series(1, 1000) AS n
         ANALYZE t
         SET parallel_setup_cost = 0
         SET parallel_tuple_cost = 0
         SET min_parallel_table_scan_size = 0
         > SELECT count(DISTINCT id), max(id) FROM (SELECT hilo_nextval('s') AS id, n FROM t) AS drawn WHERE n > 0",
        "1000|1000",
    ),
    better(
        "parallel-plan",
        [
            "CREATE SEQUENCE s
         CREATE TABLE t AS SELECT generate_series(1, 1000) AS n
         ANALYZE t
         SET parallel_setup_cost = 0
         SET parallel_tuple_cost = 0
         SET min_parallel_table_scan_size = 0
         > SELECT count(*) FROM (SELECT nextval('s') FROM t GROUP BY n) AS drawn
         > EXPLAIN (COSTS OFF) SELECT nextval('s') FROM t",
            "1000 Seq Scan on t",
        ],
        [
            "SELECT hilo_create('s')
         CREATE TABLE t AS SELECT generate_series(1, 1000) AS n
         ANALYZE t
         SET parallel_setup_cost = 0
         SET parallel_tuple_cost = 0
         SET min_parallel_table_scan_size = 0
         > SELECT count(*) FROM (SELECT hilo_nextval('s') FROM t GROUP BY n) AS drawn
         > EXPLAIN (COSTS OFF) SELECT hilo_nextval('s') FROM t",
            "1000 Gather,  Workers Planned: 2,  ->  Parallel Seq Scan on t",
        ],
    ),
    same(
        "prepared-statement",
        "CREATE SEQUENCE s
         PREPARE p AS SELECT nextval('s')
         > EXECUTE p
         SET plan_cache_mode = force_generic_plan
         > EXECUTE p
         SELECT setval('s', 2)
         > EXECUTE p",
        "SELECT hilo_create('s')
         PREPARE p AS SELECT hilo_nextval('s')
         > EXECUTE p
         SET plan_cache_mode = force_generic_plan
         > EXECUTE p
         SELECT hilo_setval('s', 2)
         > EXECUTE p",
        "1 2 3",
    ),
    different(
        "plan-after-rename",
        [
            "CREATE SEQUENCE s
             PREPARE p AS SELECT nextval('s')
             > EXECUTE p
             ALTER SEQUENCE s RENAME TO r
             > EXECUTE p",
            "1 42P01",
        ],
        [
            "SELECT hilo_create('s')
             PREPARE p AS SELECT hilo_nextval('s')
             > EXECUTE p
             SELECT hilo_rename('s', 'r')
             > EXECUTE p",
            "1 42704",
        ],
    ),
    same(
        "plan-after-drop-and-create",
        "CREATE SEQUENCE s
         PREPARE p AS SELECT nextval('s')
         > EXECUTE p
         DROP SEQUENCE s
         > EXECUTE p
         CREATE SEQUENCE s START 50
         > EXECUTE p",
        "SELECT hilo_create('s')
         PREPARE p AS SELECT hilo_nextval('s')
         > EXECUTE p
         SELECT hilo_drop('s')
         > DO $$BEGIN EXECUTE 'EXECUTE p'; EXCEPTION WHEN undefined_object THEN RAISE undefined_table; END$$
         SELECT hilo_create('s', start_value => 50)
         > EXECUTE p",
        "1 42P01 50",
    ),
    same(
        "plpgsql",
        "CREATE SEQUENCE s
         CREATE FUNCTION f(times integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$DECLARE v bigint; BEGIN FOR i IN 1..times LOOP v := nextval('s'); RETURN NEXT v; END LOOP; END$$
         > SELECT f(3)
         DROP SEQUENCE s
         CREATE SEQUENCE s START 50
         > SELECT f(2)",
        "SELECT hilo_create('s')
         CREATE FUNCTION f(times integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$DECLARE v bigint; BEGIN FOR i IN 1..times LOOP v := hilo_nextval('s'); RETURN NEXT v; END LOOP; END$$
         > SELECT f(3)
         SELECT hilo_drop('s')
         SELECT hilo_create('s', start_value => 50)
         > SELECT f(2)",
        "1,2,3 50,51",
    ),
    same(
        "sql-function",
        "CREATE SEQUENCE s
         CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS $$ SELECT nextval('s') $$
         > SELECT f(), f() FROM generate_series(1, 2)",
        "SELECT hilo_create('s')
         CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS $$ SELECT hilo_nextval('s') $$
         > SELECT f(), f() FROM generate_series(1, 2)",
        "1|2,3|4",
    ),
    same(
        "exception-block",
        "CREATE SEQUENCE s
         DO $$BEGIN PERFORM nextval('s'); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN PERFORM nextval('s'); END$$
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         DO $$BEGIN PERFORM hilo_nextval('s'); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN PERFORM hilo_nextval('s'); END$$
         > SELECT hilo_nextval('s')",
        "3",
    ),
    same(
        "generated-column",
        "CREATE SEQUENCE s
         ? CREATE TABLE t (n integer, id bigint GENERATED ALWAYS AS (nextval('s')) STORED)",
        "SELECT hilo_create('s')
         ? CREATE TABLE t (n integer, id bigint GENERATED ALWAYS AS (hilo_nextval('s')) STORED)",
        "42P17",
    ),
    same(
        "index-expression",
        "CREATE SEQUENCE s
         CREATE TABLE t (n integer)
         ? CREATE INDEX ON t (nextval('s'))",
        "SELECT hilo_create('s')
         CREATE TABLE t (n integer)
         ? CREATE INDEX ON t (hilo_nextval('s'))",
        "42P17",
    ),
    same(
        "narrow-column",
        "CREATE SEQUENCE s START 32767
         CREATE TABLE t (id smallint DEFAULT nextval('s'), n integer)
         > INSERT INTO t (n) VALUES (1) RETURNING id
         ? INSERT INTO t (n) VALUES (1)",
        "SELECT hilo_create('s', start_value => 32767)
         CREATE TABLE t (id smallint DEFAULT hilo_nextval('s'), n integer)
         > INSERT INTO t (n) VALUES (1) RETURNING id
         ? INSERT INTO t (n) VALUES (1)",
        "32767 22003",
    ),
];
