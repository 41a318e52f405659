SELECT hilo_create('old');
CREATE SCHEMA elsewhere;
CREATE TABLE uses (id bigint DEFAULT hilo_nextval('old'), other bigint DEFAULT 2 * hilo_nextval('old') + 1, plain text DEFAULT 'old');
CREATE TABLE elsewhere."Uses Too" ("The Id" bigint DEFAULT hilo_nextval('old'));
INSERT INTO uses (plain) VALUES ('first');

-- the defaults follow, the numbers go on
SELECT hilo_rename('old', 'new');
SELECT attrelid::regclass, attname, pg_get_expr(adbin, adrelid)
FROM pg_attrdef JOIN pg_attribute ON (attrelid, attnum) = (adrelid, adnum)
WHERE attrelid IN ('uses'::regclass, 'elsewhere."Uses Too"'::regclass) ORDER BY attrelid::regclass::text, attnum;
INSERT INTO uses (plain) VALUES ('second') RETURNING id;
INSERT INTO elsewhere."Uses Too" DEFAULT VALUES RETURNING "The Id" > 3 AS goes_on;
SELECT hilo_nextval('old');
SELECT hilo_currval('new') = hilo_lastval();

-- what cannot be
SELECT hilo_create('taken');
SELECT hilo_rename('new', 'taken');
SELECT hilo_rename('none', 'some');
SELECT hilo_rename('new', '');
SELECT hilo_rename('new', NULL);
CREATE ROLE regress_hilo_other;
SET ROLE regress_hilo_other;
SELECT hilo_rename('new', 'mine');
SELECT hilo_drop('new');
RESET ROLE;
DROP ROLE regress_hilo_other;

-- rolled back
BEGIN;
SELECT hilo_rename('new', 'newer');
SELECT hilo_nextval('newer') > 0;
ROLLBACK;
SELECT hilo_nextval('new') > 0;

-- drop refuses while a default uses it, and names the column
SELECT hilo_drop('new');
SELECT hilo_drop('new', cascade => true);
SELECT count(*) FROM pg_attrdef WHERE adrelid = 'uses'::regclass;
INSERT INTO uses DEFAULT VALUES RETURNING id, plain;
SELECT hilo_nextval('new');

-- if_exists
SELECT hilo_drop('new');
SELECT hilo_drop('new', if_exists => true);

-- what comes after has nothing of what was before
SELECT hilo_create('new');
SELECT hilo_currval('new');
SELECT hilo_nextval('new');
SELECT hilo_drop('new'), hilo_drop('taken');
DROP TABLE uses, elsewhere."Uses Too";
DROP SCHEMA elsewhere;
