-- one by one, and by name from a column
SELECT hilo_create('one'), hilo_create('two', start_value => 10, increment => 10);
SELECT hilo_nextval('one'), hilo_nextval('one'), hilo_nextval('two');
SELECT n, hilo_nextval(name) FROM (VALUES (1, 'one'::text), (2, 'two'), (3, 'one')) AS names (n, name) ORDER BY n;
SELECT hilo_nextval('one') FROM generate_series(1, 5);

-- nothing of the name, or no name
SELECT hilo_nextval('none');
SELECT hilo_nextval('One');
SELECT hilo_nextval(NULL);

-- currval and lastval are the session's
SELECT hilo_currval('one'), hilo_currval('two'), hilo_lastval();
SELECT hilo_nextval('two');
SELECT hilo_lastval();

-- a rolled back transaction keeps its values
BEGIN;
SELECT hilo_nextval('one');
ROLLBACK;
SELECT hilo_nextval('one');

-- several at once
SELECT hilo_nextvals('two', 3);
SELECT count(*), count(DISTINCT v), max(v) - min(v) FROM hilo_nextvals('two', 1000) v;
SELECT hilo_nextvals('two', 0);
SELECT hilo_nextvals('two', -1);
SELECT hilo_nextvals('none', 1);

-- a contiguous range, which nobody else has any of
SELECT hilo_create('range', increment => 3);
SELECT * FROM hilo_nextrange('range', 100);
SELECT * FROM hilo_nextrange('range', 1);
SELECT hilo_nextval('range') > 301;
SELECT last - first = (count - 1) * increment AS even, count FROM hilo_nextrange('range', 1000000);
SELECT * FROM hilo_nextrange('range', 0);
SELECT * FROM hilo_nextrange('range', -5);
SELECT * FROM hilo_nextrange('none', 5);

-- the function is as core's is: volatile, strict, parallel unsafe
SELECT proname, provolatile, proisstrict, proparallel FROM pg_proc WHERE oid = 'hilo_nextval'::regproc;

-- in another session there is neither
\c -
SELECT hilo_currval('one');
SELECT hilo_lastval();
SELECT hilo_currval('none');

SELECT hilo_drop('one'), hilo_drop('two'), hilo_drop('range');
