-- hilo_sequence: the name of a sequence
SELECT 'tenants/42/orders'::hilo_sequence, ' with spaces '::hilo_sequence, 'Größe'::hilo_sequence;
SELECT length(repeat('x', 255)::hilo_sequence::text);

-- what is no name
SELECT ''::hilo_sequence;
SELECT repeat('x', 256)::hilo_sequence;
SELECT E'two\nlines'::hilo_sequence;
SELECT E'a\x7f'::hilo_sequence;
CREATE TABLE long_names (name text);
INSERT INTO long_names VALUES (repeat('y', 300));
SELECT name::hilo_sequence FROM long_names;
DROP TABLE long_names;

-- casts from and to text, varchar and name, without asking
CREATE FUNCTION takes_a_sequence(hilo_sequence) RETURNS text LANGUAGE sql RETURN 'got ' || $1;
SELECT takes_a_sequence('a'), takes_a_sequence('b'::text), takes_a_sequence('c'::varchar),
       takes_a_sequence('d'::varchar(5)), takes_a_sequence('e'::name), takes_a_sequence('tenant-' || 7);
CREATE FUNCTION takes_text(text) RETURNS text LANGUAGE sql RETURN 'text ' || $1;
SELECT takes_text('a'::hilo_sequence), 'orders'::hilo_sequence || '!', upper('orders'::hilo_sequence);
DROP FUNCTION takes_a_sequence, takes_text;

-- comparison: as of text, with which it is never ambiguous
SELECT 'a'::hilo_sequence = 'a', 'a'::hilo_sequence = 'A'::hilo_sequence, 'a'::hilo_sequence <> 'b'::text,
       'a'::text = 'a'::hilo_sequence, 'a'::varchar = 'a'::hilo_sequence, 'a'::name = 'a'::hilo_sequence;
SELECT 'a'::hilo_sequence < 'b', 'a'::hilo_sequence <= 'a', 'b'::hilo_sequence > 'a', 'b'::hilo_sequence >= 'c';
SELECT name FROM (VALUES ('b'::hilo_sequence), ('B'), ('a'), ('10'), ('9')) AS names (name) ORDER BY name;
SELECT min(name::text), count(DISTINCT name) FROM (VALUES ('b'::hilo_sequence), ('a'), ('a')) AS names (name);

-- btree and hash indexes, joins and grouping
CREATE TABLE names (name hilo_sequence PRIMARY KEY, n integer);
INSERT INTO names SELECT 'name-' || n, n FROM generate_series(1, 1000) n;
CREATE INDEX names_hash ON names USING hash (name);
INSERT INTO names VALUES ('name-5', 0);
SET enable_seqscan = off;
SELECT n FROM names WHERE name = 'name-77';
SELECT count(*) FROM names WHERE name >= 'name-9' AND name < 'name-a';
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT count(*) FROM names a JOIN names b USING (name);
RESET enable_mergejoin;
SET enable_hashjoin = off;
SELECT count(*) FROM names a JOIN names b USING (name);
RESET ALL;
SELECT count(*) FROM (SELECT name FROM names GROUP BY name) AS grouped;

DROP TABLE names;
