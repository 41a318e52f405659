SELECT hilo_create('set');
SELECT hilo_setval('set', 100);
SELECT hilo_currval('set');
SELECT hilo_nextval('set'), hilo_nextval('set');
SELECT hilo_setval('set', 7, false);
SELECT hilo_currval('set');
SELECT hilo_nextval('set'), hilo_nextval('set');
SELECT hilo_setval('set', 7, true);
SELECT hilo_nextval('set');

-- back below what was served, as core's
SELECT hilo_setval('set', 1, false);
SELECT hilo_nextval('set');

-- to the bounds, and not beyond
SELECT hilo_create('bounded', min_value => 5, max_value => 10);
SELECT hilo_setval('bounded', 4);
SELECT hilo_setval('bounded', 11);
SELECT hilo_setval('bounded', 10);
SELECT hilo_nextval('bounded');
SELECT hilo_setval('bounded', 10, false);
SELECT hilo_nextval('bounded');
SELECT hilo_setval('bounded', 5, false);
SELECT hilo_nextval('bounded');
SELECT hilo_setval('none', 1);
SELECT hilo_setval(NULL, 1), hilo_setval('set', NULL), hilo_setval('set', 1, NULL);

-- the whole of core's idiom
CREATE TABLE filled (id bigint DEFAULT hilo_nextval('set'));
INSERT INTO filled SELECT n * 10 FROM generate_series(1, 5) n;
SELECT hilo_setval('set', (SELECT max(id) FROM filled));
INSERT INTO filled DEFAULT VALUES RETURNING id;

-- transactional, unlike core's
BEGIN;
SELECT hilo_setval('set', 5000);
SELECT hilo_nextval('set');
SAVEPOINT here;
SELECT hilo_setval('set', 9000);
SELECT hilo_nextval('set');
ROLLBACK TO here;
SELECT hilo_nextval('set') BETWEEN 5002 AND 8999;
ROLLBACK;
SELECT hilo_nextval('set') BETWEEN 52 AND 4999;

DROP TABLE filled;
SELECT hilo_drop('set'), hilo_drop('bounded');
