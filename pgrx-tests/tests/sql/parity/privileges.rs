//! Which role may do what.

use super::{Case, different, same};

pub const CASES: &[Case] = &[
    same(
        "granted-nothing",
        "CREATE SEQUENCE s
         SELECT nextval('s')
         SET ROLE parity_role
         > SELECT nextval('s')
         > SELECT currval('s')
         > SELECT lastval()
         > SELECT setval('s', 5)",
        "SELECT hilo_create('s')
         SELECT hilo_nextval('s')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')
         > SELECT hilo_currval('s')
         > SELECT hilo_lastval()
         > SELECT hilo_setval('s', 5)",
        "42501 42501 42501 42501",
    ),
    same(
        "granted-usage",
        "CREATE SEQUENCE s
         GRANT USAGE ON SEQUENCE s TO parity_role
         SET ROLE parity_role
         > SELECT nextval('s')
         > SELECT currval('s')
         > SELECT lastval()
         > SELECT setval('s', 5)",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'parity_role', 'USAGE')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')
         > SELECT hilo_currval('s')
         > SELECT hilo_lastval()
         > SELECT hilo_setval('s', 5)",
        "1 1 1 42501",
    ),
    same(
        "granted-select",
        "CREATE SEQUENCE s
         GRANT SELECT ON SEQUENCE s TO parity_role
         SELECT nextval('s')
         SET ROLE parity_role
         > SELECT nextval('s')
         > SELECT currval('s')
         > SELECT lastval()
         > SELECT setval('s', 5)",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'parity_role', 'SELECT')
         SELECT hilo_nextval('s')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')
         > SELECT hilo_currval('s')
         > SELECT hilo_lastval()
         > SELECT hilo_setval('s', 5)",
        "42501 1 1 42501",
    ),
    same(
        "granted-update",
        "CREATE SEQUENCE s
         GRANT UPDATE ON SEQUENCE s TO parity_role
         SET ROLE parity_role
         > SELECT nextval('s')
         > SELECT currval('s')
         > SELECT lastval()
         > SELECT setval('s', 5)",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'parity_role', 'UPDATE')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')
         > SELECT hilo_currval('s')
         > SELECT hilo_lastval()
         > SELECT hilo_setval('s', 5)",
        "1 42501 42501 5",
    ),
    same(
        "granted-all",
        "CREATE SEQUENCE s
         GRANT ALL ON SEQUENCE s TO parity_role
         SET ROLE parity_role
         > SELECT nextval('s')
         > SELECT currval('s')
         > SELECT setval('s', 5)",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'parity_role', 'ALL')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')
         > SELECT hilo_currval('s')
         > SELECT hilo_setval('s', 5)",
        "1 1 5",
    ),
    same(
        "granted-to-public",
        "CREATE SEQUENCE s
         GRANT USAGE ON SEQUENCE s TO PUBLIC
         SET ROLE parity_role
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'PUBLIC', 'USAGE')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')",
        "1",
    ),
    same(
        "granted-to-a-group",
        "CREATE SEQUENCE s
         GRANT USAGE ON SEQUENCE s TO parity_role
         SET ROLE parity_member
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'parity_role', 'USAGE')
         SET ROLE parity_member
         > SELECT hilo_nextval('s')",
        "1",
    ),
    same(
        "revoked",
        "CREATE SEQUENCE s
         GRANT USAGE ON SEQUENCE s TO parity_role
         B: SET ROLE parity_role
         B: > SELECT nextval('s')
         REVOKE USAGE ON SEQUENCE s FROM parity_role
         B: > SELECT nextval('s')",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'parity_role', 'USAGE')
         B: SET ROLE parity_role
         B: > SELECT hilo_nextval('s')
         SELECT hilo_revoke('s', 'parity_role', 'USAGE')
         B: > SELECT hilo_nextval('s')",
        "1 42501",
    ),
    same(
        "owners-only",
        "CREATE SEQUENCE s
         GRANT ALL ON SEQUENCE s TO parity_role
         GRANT CREATE ON SCHEMA parity TO parity_role
         SET ROLE parity_role
         ? ALTER SEQUENCE s INCREMENT BY 2
         ? ALTER SEQUENCE s RENAME TO r
         ? DROP SEQUENCE s",
        "SELECT hilo_create('s')
         SELECT hilo_grant('s', 'parity_role', 'ALL')
         SET ROLE parity_role
         ? SELECT hilo_alter('s', increment => 2)
         ? SELECT hilo_rename('s', 'r')
         ? SELECT hilo_drop('s')",
        "42501 42501 42501",
    ),
    same(
        "create-needs-a-right",
        "SET ROLE parity_role
         ? CREATE SEQUENCE s",
        "SET ROLE parity_role
         ? SELECT hilo_create('s')",
        "42501",
    ),
    same(
        "grant-to-nobody",
        "CREATE SEQUENCE s
         ? GRANT USAGE ON SEQUENCE s TO parity_nobody",
        "SELECT hilo_create('s')
         ? SELECT hilo_grant('s', 'parity_nobody', 'USAGE')",
        "42704",
    ),
    different(
        "grant-of-something-else",
        ["CREATE SEQUENCE s\n? GRANT DELETE ON SEQUENCE s TO parity_role", "0LP01"],
        ["SELECT hilo_create('s')\n? SELECT hilo_grant('s', 'parity_role', 'DELETE')", "22023"],
    ),
    same(
        "granted-on-all",
        "CREATE SEQUENCE s
         CREATE SEQUENCE t
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA parity TO parity_role
         CREATE SEQUENCE later
         SET ROLE parity_role
         > SELECT nextval('s')
         > SELECT nextval('t')
         > SELECT nextval('later')",
        "SELECT hilo_create('s')
         SELECT hilo_create('t')
         SELECT hilo_grant_all('parity_role', 'USAGE')
         SELECT hilo_create('later')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('t')
         > SELECT hilo_nextval('later')",
        "1 1 42501",
    ),
    same(
        "granted-by-default",
        "CREATE SEQUENCE s
         ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO parity_role
         CREATE SEQUENCE t
         ALTER DEFAULT PRIVILEGES REVOKE USAGE ON SEQUENCES FROM parity_role
         CREATE SEQUENCE u
         SET ROLE parity_role
         > SELECT nextval('s')
         > SELECT nextval('t')
         > SELECT nextval('u')",
        "SELECT hilo_create('s')
         SELECT hilo_default_grant('parity_role', 'USAGE')
         SELECT hilo_create('t')
         SELECT hilo_default_revoke('parity_role', 'USAGE')
         SELECT hilo_create('u')
         SET ROLE parity_role
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('t')
         > SELECT hilo_nextval('u')",
        "42501 1 42501",
    ),
    same(
        "default-asks-the-inserter",
        "CREATE SEQUENCE s
         CREATE TABLE t (id bigint DEFAULT nextval('s'), n integer)
         GRANT INSERT, SELECT ON t TO parity_role
         SET ROLE parity_role
         ? INSERT INTO t (n) VALUES (0)",
        "SELECT hilo_create('s')
         CREATE TABLE t (id bigint DEFAULT hilo_nextval('s'), n integer)
         GRANT INSERT, SELECT ON t TO parity_role
         SET ROLE parity_role
         ? INSERT INTO t (n) VALUES (0)",
        "42501",
    ),
    same(
        "identity-asks-nobody",
        "CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, n integer)
         GRANT INSERT ON t TO parity_role
         SET ROLE parity_role
         ? INSERT INTO t (n) VALUES (0)",
        "CREATE TABLE t (id bigint NOT NULL DEFAULT hilo_nextval('s'), n integer)
         SELECT hilo_create('s', owned_by => 't.id')
         GRANT INSERT ON t TO parity_role
         SET ROLE parity_role
         ? INSERT INTO t (n) VALUES (0)",
        "ok",
    ),
    same(
        "security-definer",
        "CREATE SEQUENCE s
         CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT nextval('s') $$
         SET ROLE parity_role
         > SELECT f()
         > SELECT nextval('s')",
        "SELECT hilo_create('s')
         CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT hilo_nextval('s') $$
         SET ROLE parity_role
         > SELECT f()
         > SELECT hilo_nextval('s')",
        "1 42501",
    ),
];
