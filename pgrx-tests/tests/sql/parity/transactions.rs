//! Transactions, crashes and standbys.

use super::{Case, better, different, same};

pub const CASES: &[Case] = &[
    same(
        "rolled-back-value",
        "CREATE SEQUENCE s
         BEGIN
         > SELECT nextval('s')
         ROLLBACK
         > SELECT currval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         BEGIN
         > SELECT hilo_nextval('s')
         ROLLBACK
         > SELECT hilo_currval('s')
         > SELECT hilo_nextval('s')",
        "1 1 2",
    ),
    same(
        "savepoint-rolled-back-value",
        "CREATE SEQUENCE s
         BEGIN
         SAVEPOINT a
         > SELECT nextval('s')
         ROLLBACK TO a
         > SELECT nextval('s')
         COMMIT
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         BEGIN
         SAVEPOINT a
         > SELECT hilo_nextval('s')
         ROLLBACK TO a
         > SELECT hilo_nextval('s')
         COMMIT
         > SELECT hilo_nextval('s')",
        "1 2 3",
    ),
    same(
        "failed-statement",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer UNIQUE)
         INSERT INTO t (n) VALUES (1)
         ? INSERT INTO t (n) VALUES (1)
         > INSERT INTO t (n) VALUES (2) RETURNING id",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer UNIQUE)
         INSERT INTO t (n) VALUES (1)
         ? INSERT INTO t (n) VALUES (1)
         > INSERT INTO t (n) VALUES (2) RETURNING id",
        "23505 3",
    ),
    same(
        "aborted-transaction",
        "CREATE SEQUENCE s
         BEGIN
         ? SELECT 1 / 0
         > SELECT nextval('s')
         ROLLBACK
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         BEGIN
         ? SELECT 1 / 0
         > SELECT hilo_nextval('s')
         ROLLBACK
         > SELECT hilo_nextval('s')",
        "22012 25P02 1",
    ),
    same(
        "create-and-use",
        "BEGIN
         CREATE SEQUENCE s
         > SELECT nextval('s')
         B: > SELECT 1 FROM pg_sequences WHERE schemaname = 'parity'
         COMMIT
         B: > SELECT nextval('s')",
        "BEGIN
         SELECT hilo_create('s')
         > SELECT hilo_nextval('s')
         B: > SELECT 1 FROM hilo_sequences
         COMMIT
         B: > SELECT hilo_nextval('s')",
        "1 none 2",
    ),
    same(
        "create-rolled-back",
        "BEGIN
         CREATE SEQUENCE s
         SELECT nextval('s')
         ROLLBACK
         > SELECT count(*) FROM pg_sequences WHERE schemaname = 'parity'
         CREATE SEQUENCE s
         > SELECT nextval('s')",
        "BEGIN
         SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         ROLLBACK
         > SELECT count(*) FROM hilo_sequences
         SELECT hilo_create('s')
         > SELECT hilo_nextval('s')",
        "0 1",
    ),
    same(
        "drop-rolled-back",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         BEGIN
         DROP SEQUENCE s
         ROLLBACK
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         BEGIN
         SELECT hilo_drop('s')
         ROLLBACK
         > SELECT hilo_nextval('s')",
        "2",
    ),
    same(
        "drop-and-create",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         BEGIN
         DROP SEQUENCE s
         CREATE SEQUENCE s START 70
         > SELECT nextval('s')
         COMMIT
         B: > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         BEGIN
         SELECT hilo_drop('s')
         SELECT hilo_create('s', start_value => 70)
         > SELECT hilo_nextval('s')
         COMMIT
         B: > SELECT hilo_nextval('s')",
        "70 71",
    ),
    different(
        "setval-rolled-back",
        [
            "CREATE SEQUENCE s
             BEGIN
             SELECT setval('s', 100)
             ROLLBACK
             > SELECT nextval('s')",
            "101",
        ],
        [
            "SELECT hilo_create('s')
             BEGIN
             SELECT hilo_setval('s', 100)
             ROLLBACK
             > SELECT hilo_nextval('s')",
            "1",
        ],
    ),
    different(
        "setval-not-yet-committed",
        [
            "CREATE SEQUENCE s
             BEGIN
             SELECT setval('s', 100)
             B: > SELECT nextval('s')",
            "101",
        ],
        [
            "SELECT hilo_create('s')
             BEGIN
             SELECT hilo_setval('s', 100)
             > SELECT hilo_nextval('s')
             B: SET hilo.reserve_timeout = '200ms'
             B: > SELECT hilo_nextval('s')",
            "101 55P03",
        ],
    ),
    better(
        "read-only",
        ["CREATE SEQUENCE s\nBEGIN READ ONLY\n> SELECT nextval('s')", "25006"],
        ["SELECT hilo_create('s')\nBEGIN READ ONLY\n> SELECT hilo_nextval('s')", "1"],
    ),
    same(
        "read-only-changes",
        "CREATE SEQUENCE s
         SET default_transaction_read_only = on
         ? SELECT setval('s', 5)
         ? CREATE SEQUENCE t
         ? ALTER SEQUENCE s CYCLE
         ? ALTER SEQUENCE s RENAME TO t
         ? DROP SEQUENCE s",
        "SELECT hilo_create('s')
         SET default_transaction_read_only = on
         ? SELECT hilo_setval('s', 5)
         ? SELECT hilo_create('t')
         ? SELECT hilo_alter('s', cycle => true)
         ? SELECT hilo_rename('s', 't')
         ? SELECT hilo_drop('s')",
        "25006 25006 25006 25006 25006",
    ),
    same(
        "created-after-the-snapshot",
        "B: BEGIN ISOLATION LEVEL REPEATABLE READ
         B: SELECT count(*) FROM pg_class
         CREATE SEQUENCE s
         SELECT nextval('s')
         B: > SELECT nextval('s')",
        "B: BEGIN ISOLATION LEVEL REPEATABLE READ
         B: SELECT count(*) FROM pg_class
         SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         B: > SELECT hilo_nextval('s')",
        "2",
    ),
    same(
        "serializable",
        "CREATE SEQUENCE s
         BEGIN ISOLATION LEVEL SERIALIZABLE
         > SELECT nextval('s')
         B: BEGIN ISOLATION LEVEL SERIALIZABLE
         B: > SELECT nextval('s')
         ? COMMIT
         B: ? COMMIT",
        "SELECT hilo_create('s')
         BEGIN ISOLATION LEVEL SERIALIZABLE
         > SELECT hilo_nextval('s')
         B: BEGIN ISOLATION LEVEL SERIALIZABLE
         B: > SELECT hilo_nextval('s')
         ? COMMIT
         B: ? COMMIT",
        "1 2 ok ok",
    ),
    same(
        "prepared-transaction",
        "CREATE SEQUENCE s
         BEGIN
         > SELECT nextval('s')
         ? PREPARE TRANSACTION 'parity'
         > SELECT nextval('s')
         ROLLBACK PREPARED 'parity'
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         BEGIN
         > SELECT hilo_nextval('s')
         ? PREPARE TRANSACTION 'parity'
         > SELECT hilo_nextval('s')
         ROLLBACK PREPARED 'parity'
         > SELECT hilo_nextval('s')",
        "1 ok 2 3",
    ),
    better(
        "gapless",
        ["CREATE SEQUENCE s\nBEGIN\n> SELECT nextval('s')\nROLLBACK\n> SELECT nextval('s')", "1 2"],
        [
            "SELECT hilo_create('s', gapless => true)
             BEGIN
             > SELECT hilo_nextval('s')
             ROLLBACK
             > SELECT hilo_nextval('s')",
            "1 1",
        ],
    ),
    better(
        "gapless-repeatable-read",
        [
            "CREATE TABLE s (n bigint)
             INSERT INTO s VALUES (0)
             BEGIN ISOLATION LEVEL REPEATABLE READ
             SELECT count(*) FROM pg_class
             B: > UPDATE s SET n = n + 1 RETURNING n
             > UPDATE s SET n = n + 1 RETURNING n",
            "1 40001",
        ],
        [
            "SELECT hilo_create('s', gapless => true)
             BEGIN ISOLATION LEVEL REPEATABLE READ
             SELECT count(*) FROM pg_class
             B: > SELECT hilo_nextval('s')
             > SELECT hilo_nextval('s')",
            "1 2",
        ],
    ),
    same(
        "gapless-read-only",
        "CREATE TABLE s (n bigint)
         INSERT INTO s VALUES (0)
         BEGIN READ ONLY
         ? UPDATE s SET n = n + 1",
        "SELECT hilo_create('s', gapless => true)
         BEGIN READ ONLY
         ? SELECT hilo_nextval('s')",
        "25006",
    ),
    different(
        "prepared-definition",
        [
            "BEGIN\nCREATE SEQUENCE s\n? PREPARE TRANSACTION 'parity'\nROLLBACK PREPARED 'parity'",
            "ok",
        ],
        ["BEGIN\nSELECT hilo_create('s')\n? PREPARE TRANSACTION 'parity'", "0A000"],
    ),
    same(
        "notify",
        "CREATE SEQUENCE s
         LISTEN parity
         BEGIN
         > SELECT nextval('s')
         NOTIFY parity
         ? COMMIT
         UNLISTEN *
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         LISTEN parity
         BEGIN
         > SELECT hilo_nextval('s')
         NOTIFY parity
         ? COMMIT
         UNLISTEN *
         > SELECT hilo_nextval('s')",
        "1 ok 2",
    ),
    same(
        "clean-restart",
        "CREATE SEQUENCE s
         SELECT nextval('s') FROM generate_series(1, 5)
         !restart
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s') FROM generate_series(1, 5)
         !restart
         > SELECT hilo_nextval('s')",
        "6",
    ),
    better(
        "clean-restart-with-cache",
        [
            "CREATE SEQUENCE s CACHE 100
             SELECT nextval('s')
             !restart
             > SELECT nextval('s')",
            "101",
        ],
        [
            "SELECT hilo_create('s', block_size => 100)
             SELECT hilo_nextval('s')
             !restart
             > SELECT hilo_nextval('s')",
            "2",
        ],
    ),
    better(
        "crash-after-a-value-was-shown",
        [
            "CREATE SEQUENCE s
             BEGIN
             > SELECT nextval('s')
             !crash
             > SELECT nextval('s') > 1",
            "1 f",
        ],
        [
            "SELECT hilo_create('s')
             BEGIN
             > SELECT hilo_nextval('s')
             !crash
             > SELECT hilo_nextval('s') > 1",
            "1 t",
        ],
    ),
    better(
        "crash-leaves-a-record",
        [
            "CREATE SEQUENCE s
             CREATE TABLE t AS SELECT nextval('s') AS id
             !crash
             > SELECT nextval('s')
             > SELECT first, last, reason FROM gaps",
            "34 42P01",
        ],
        [
            "SELECT hilo_create('s', block_size => 33)
             CREATE TABLE t AS SELECT hilo_nextval('s') AS id
             !crash
             SELECT hilo_nextval('s')
             > SELECT first <= 2, last = hilo_currval('s') - 1, reason FROM hilo_gaps",
            "t|t|crash",
        ],
    ),
    same(
        "standby",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         S: > SELECT nextval('s')
         S: > SELECT setval('s', 5)
         S: > SELECT start_value FROM pg_sequences WHERE schemaname = 'parity'",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         S: > SELECT hilo_nextval('s')
         S: > SELECT hilo_setval('s', 5)
         S: > SELECT start_value FROM hilo_sequences",
        "25006 25006 1",
    ),
];
