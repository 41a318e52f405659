-- the defaults of each data type are core's
SELECT hilo_create('smallint', data_type => 'smallint'), hilo_create('integer', data_type => 'integer'),
       hilo_create('bigint', data_type => 'bigint'),
       hilo_create('smallint falling', data_type => 'smallint', increment => -1),
       hilo_create('bigint falling', increment => -1);
SELECT name, data_type, start_value, min_value, max_value FROM hilo_sequences ORDER BY name;

-- the last number of each can be served, the next call cannot
SELECT hilo_setval('smallint', 32766), hilo_setval('integer', 2147483646), hilo_setval('bigint', 9223372036854775806),
       hilo_setval('smallint falling', -32767), hilo_setval('bigint falling', -9223372036854775807);
SELECT hilo_nextval('smallint'), hilo_nextval('integer'), hilo_nextval('bigint'),
       hilo_nextval('smallint falling'), hilo_nextval('bigint falling');
SELECT hilo_nextval('smallint');
SELECT hilo_nextval('smallint');
SELECT hilo_nextval('integer');
SELECT hilo_nextval('bigint');
SELECT hilo_nextval('smallint falling');
SELECT hilo_nextval('bigint falling');
SELECT hilo_currval('bigint');

-- the last number of an increment that does not meet the bound
SELECT hilo_create('threes', increment => 3, max_value => 11);
SELECT hilo_nextval('threes') FROM generate_series(1, 4);
SELECT hilo_nextval('threes');
SELECT hilo_create('steps down', increment => -4, start_value => 10, min_value => 1, max_value => 10);
SELECT hilo_nextval('steps down') FROM generate_series(1, 3);
SELECT hilo_nextval('steps down');

-- ranges stay within the bounds
SELECT hilo_create('ten', max_value => 10);
SELECT * FROM hilo_nextrange('ten', 11);
SELECT * FROM hilo_nextrange('ten', 10);
SELECT * FROM hilo_nextrange('ten', 1);
SELECT hilo_nextvals('ten', 1);

-- cycle begins again at the other bound, not at the start
SELECT hilo_create('cycle', start_value => 8, min_value => 3, max_value => 10, cycle => true);
SELECT array_agg(v) FROM (SELECT hilo_nextval('cycle') v FROM generate_series(1, 20)) AS drawn;
SELECT hilo_create('cycle down', increment => -2, start_value => 4, min_value => 1, max_value => 9, cycle => true);
SELECT array_agg(v) FROM (SELECT hilo_nextval('cycle down') v FROM generate_series(1, 12)) AS drawn;
SELECT hilo_create('cycle ordered', max_value => 3, cycle => true, ordered => true);
SELECT array_agg(v) FROM (SELECT hilo_nextval('cycle ordered') v FROM generate_series(1, 8)) AS drawn;
SELECT hilo_create('cycle blocks', max_value => 5, cycle => true, block_size => 2);
SELECT array_agg(v) FROM (SELECT hilo_nextval('cycle blocks') v FROM generate_series(1, 11)) AS drawn;

-- an increment as large as the type
SELECT hilo_create('leap', increment => 9223372036854775807);
SELECT hilo_nextval('leap');
SELECT hilo_nextval('leap');

SELECT count(*) FROM (SELECT hilo_drop(name) FROM hilo_sequences) AS dropped;
