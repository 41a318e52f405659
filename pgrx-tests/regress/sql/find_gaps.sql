-- what a column lacks of a sequence, and why
SELECT hilo_create('found', block_size => 100);
CREATE TABLE found (id bigint PRIMARY KEY DEFAULT hilo_nextval('found'), note text);
INSERT INTO found (note) SELECT 'x' FROM generate_series(1, 50);
SELECT first, last, count, reason FROM hilo_find_gaps('found', 'found', 'id') WHERE first <= 50;
DELETE FROM found WHERE id IN (5, 6, 7, 20);
BEGIN;
INSERT INTO found (note) VALUES ('y'), ('y') RETURNING id;
ROLLBACK;
INSERT INTO found (note) VALUES ('z') RETURNING id;
SELECT first, last, count, reason FROM hilo_find_gaps('found', 'found', 'id') WHERE first <= 53;
-- every value up to the position is in the column or in one row
SELECT sum(count) + (SELECT count(*) FROM found) = (SELECT max_reserved FROM hilo_sequences WHERE name = 'found') AS complete,
       count(DISTINCT reason) > 1 AS in_memory
FROM hilo_find_gaps('found', 'found', 'id');
SELECT bool_and(reason IN ('slice', 'current', 'standby', 'returned', 'free')) AS ready
FROM hilo_find_gaps('found', 'found', 'id') WHERE first > 53;

-- setval: what it jumps over is unknown
SELECT hilo_setval('found', 1000);
SELECT first, CASE WHEN last = 999 THEN last END AS last, reason
FROM hilo_find_gaps('found', 'found', 'id') WHERE first < 1000 ORDER BY first;
SELECT sum(count) = 1000 - (SELECT count(*) FROM found) AS complete FROM hilo_find_gaps('found', 'found', 'id');
-- and going back
SELECT hilo_setval('found', 10);
SELECT first, last, count, reason FROM hilo_find_gaps('found', 'found', 'id') WHERE reason <> 'altered';
SELECT hilo_drop('found', cascade => true);
DROP TABLE found;

-- increments, both ways; values off the grid and NULLs do not count
SELECT hilo_create('threes', increment => 3, start_value => 10, block_size => 10);
CREATE TABLE threes (id integer);
INSERT INTO threes SELECT hilo_nextval('threes') FROM generate_series(1, 8);
DELETE FROM threes WHERE id IN (13, 16, 25);
INSERT INTO threes VALUES (NULL), (11), (-5), (1000000);
SELECT first, last, count, reason FROM hilo_find_gaps('threes', 'threes', 'id') WHERE first <= 31;
SELECT hilo_create('down', increment => -2, block_size => 10);
CREATE TABLE down (id smallint);
INSERT INTO down SELECT hilo_nextval('down') FROM generate_series(1, 6);
DELETE FROM down WHERE id IN (-1, -5, -7);
INSERT INTO down VALUES (-9), (-2);
SELECT first, last, count, reason FROM hilo_find_gaps('down', 'down', 'id') WHERE first >= -11;

-- numeric columns, in a domain too, with fractions and NaN; names that need quotes
CREATE DOMAIN number AS numeric;
CREATE SCHEMA "Odd Place";
CREATE TABLE "Odd Place"."Odd ""Table" ("Odd Column" number);
SELECT hilo_create('numbers', block_size => 10);
INSERT INTO "Odd Place"."Odd ""Table" SELECT hilo_nextval('numbers') FROM generate_series(1, 6);
DELETE FROM "Odd Place"."Odd ""Table" WHERE "Odd Column" = 3;
INSERT INTO "Odd Place"."Odd ""Table" VALUES (3.5), ('NaN'), (1e40), (NULL), (4.0);
SELECT first, last, count, reason FROM hilo_find_gaps('numbers', '"Odd Place"."Odd ""Table"', 'Odd Column') WHERE first <= 6;
-- an empty table lacks all
CREATE TABLE empty (id bigint);
SELECT min(first), sum(count) = (SELECT max_reserved FROM hilo_sequences WHERE name = 'numbers') AS all_of_it
FROM hilo_find_gaps('numbers', 'empty', 'id');
-- nothing reserved, nothing missing
SELECT hilo_create('unused');
SELECT * FROM hilo_find_gaps('unused', 'empty', 'id');

-- gaps in other steps: each value is missing once, in the steps of the first that has it
SELECT hilo_create('steps', block_size => 10);
CREATE TABLE steps (id bigint);
INSERT INTO steps SELECT hilo_nextval('steps') FROM generate_series(1, 5);
SELECT hilo_setval('steps', 30);
SELECT hilo_alter('steps', increment => 3, restart_with => 40);
INSERT INTO steps SELECT hilo_nextval('steps') FROM generate_series(1, 4);
SELECT hilo_alter('steps', increment => 2, restart_with => 70);
INSERT INTO steps SELECT hilo_nextval('steps') FROM generate_series(1, 2);
INSERT INTO steps VALUES (20), (22), (23), (55);
SELECT first, last, count, reason FROM hilo_find_gaps('steps', 'steps', 'id') WHERE first <= 72;
SELECT count(*) AS twice
FROM (SELECT v FROM hilo_find_gaps('steps', 'steps', 'id') g,
             generate_series(first, last, CASE count WHEN 1 THEN 1 ELSE (last - first) / (count - 1) END) v
       GROUP BY v HAVING count(*) > 1) t;

-- values from one end of bigint to the other
SELECT hilo_create('wide', min_value => -9223372036854775808, max_value => 9223372036854775807, start_value => -9223372036854775808,
                   increment => 4000000000000000000, block_size => 5);
CREATE TABLE wide (id bigint);
INSERT INTO wide SELECT hilo_nextval('wide') FROM generate_series(1, 5);
SELECT * FROM hilo_find_gaps('wide', 'wide', 'id');
DELETE FROM wide WHERE id BETWEEN -6000000000000000000 AND 0;
SELECT * FROM hilo_find_gaps('wide', 'wide', 'id');

-- a jump over billions of values, and then other steps
CREATE TABLE far (id bigint DEFAULT hilo_nextval('far'));
SELECT hilo_create('far');
INSERT INTO far SELECT FROM generate_series(1, 3);
SELECT hilo_setval('far', 4000000000);
INSERT INTO far DEFAULT VALUES;
SELECT hilo_alter('far', increment => 2);
INSERT INTO far DEFAULT VALUES;
SELECT hilo_alter('far', increment => 3);
INSERT INTO far DEFAULT VALUES;
SET temp_file_limit = '1MB';
SELECT * FROM hilo_find_gaps('far', 'far', 'id') WHERE last < 4000000001 ORDER BY first;
RESET temp_file_limit;

-- refused
SELECT hilo_create('round', max_value => 10, cycle => true);
SELECT * FROM hilo_find_gaps('round', 'empty', 'id');
SELECT * FROM hilo_find_gaps('nowhere', 'empty', 'id');
SELECT * FROM hilo_find_gaps('numbers', 'empty', 'other');
CREATE TABLE words (id text);
SELECT * FROM hilo_find_gaps('numbers', 'words', 'id');
SELECT * FROM hilo_find_gaps('numbers', 4000000000::oid::regclass, 'id');
SELECT * FROM hilo_find_gaps(NULL, 'empty', 'id');

-- the sequence and the column must both be readable; nothing in the caller's search_path is run
CREATE ROLE regress_hilo_finder;
SET ROLE regress_hilo_finder;
SELECT count(*) FROM hilo_find_gaps('numbers', 'empty', 'id');
RESET ROLE;
SELECT hilo_grant('numbers', 'regress_hilo_finder', 'SELECT');
SET ROLE regress_hilo_finder;
SELECT count(*) FROM hilo_find_gaps('numbers', 'empty', 'id');
RESET ROLE;
GRANT SELECT (id) ON empty TO regress_hilo_finder;
CREATE SCHEMA planted;
CREATE FUNCTION planted.bad(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''planted''; END';
CREATE OPERATOR planted.>= (FUNCTION = planted.bad, LEFTARG = bigint, RIGHTARG = bigint);
CREATE FUNCTION planted.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE plpgsql AS 'BEGIN RAISE ''planted''; END';
CREATE FUNCTION planted.max(bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RAISE ''planted''; END';
GRANT USAGE ON SCHEMA planted TO regress_hilo_finder;
SET ROLE regress_hilo_finder;
SET search_path = planted, pg_catalog, public;
SELECT count(*) > 0 AS found FROM public.hilo_find_gaps('numbers', 'public.empty', 'id');
SELECT count(*) OPERATOR(pg_catalog.>=) 0 AS found FROM public.hilo_check();
RESET search_path;
RESET ROLE;
SELECT hilo_revoke('numbers', 'regress_hilo_finder', 'ALL');
DROP SCHEMA planted CASCADE;
DROP TABLE far, threes, down, steps, "Odd Place"."Odd ""Table", empty, wide, words;
DROP SCHEMA "Odd Place";
DROP DOMAIN number;
DROP ROLE regress_hilo_finder;
SELECT hilo_drop(name) FROM (VALUES ('far'), ('threes'), ('down'), ('steps'), ('numbers'), ('unused'), ('wide'), ('round')) AS t (name);
