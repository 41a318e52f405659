-- a new sequence and its definition
SELECT hilo_create('plain');
SELECT hilo_create('tenants/42/orders', start_value => 100, increment => 5, min_value => 50, max_value => 1000,
                   data_type => 'smallint', cycle => true, block_size => 20, slice_size => 10);
SELECT hilo_create('falling', increment => -1);
SELECT hilo_create('ordered', ordered => true, data_type => 'integer');
SELECT name, data_type, start_value, increment, min_value, max_value, cycle, ordered, block_size, slice_size,
       owner = current_user::text AS mine, max_reserved
FROM hilo_sequences ORDER BY name;

-- one of the name exists
SELECT hilo_create('plain');
SELECT hilo_create('plain', start_value => 7, if_not_exists => true);
SELECT hilo_create('Plain');
SELECT start_value FROM hilo_sequences WHERE name = 'plain';

-- what cannot be
SELECT hilo_create(NULL);
SELECT hilo_create('wrong', increment => 0);
SELECT hilo_create('wrong', min_value => 10, max_value => 10);
SELECT hilo_create('wrong', start_value => 0);
SELECT hilo_create('wrong', max_value => 10, start_value => 11);
SELECT hilo_create('wrong', increment => -1, start_value => 1);
SELECT hilo_create('wrong', data_type => 'smallint', max_value => 32768);
SELECT hilo_create('wrong', data_type => 'smallint', min_value => -32769);
SELECT hilo_create('wrong', data_type => 'text');
SELECT hilo_create('wrong', block_size => 0);
SELECT hilo_create('wrong', max_value => 10, block_size => 11);
SELECT hilo_create('wrong', slice_size => 0);
SELECT hilo_create('wrong', block_size => 10, slice_size => 11);
SELECT hilo_create('wrong', ordered => true, slice_size => 10);
SELECT hilo_create('wrong', gapless => true, slice_size => 10);
SELECT hilo_create('wrong', gapless => true, block_size => 10);
SELECT hilo_create('wrong', gapless => true, cycle => true, max_value => 10);
SELECT count(*) FROM hilo_sequences WHERE name = 'wrong';

-- a description
SELECT hilo_create('described', description => 'of orders'), hilo_create('empty', description => '');
SELECT name, description FROM hilo_sequences WHERE name IN ('described', 'empty') ORDER BY name;
SELECT hilo_create('wrong', description => repeat('x', 1001));
SELECT hilo_drop('described'), hilo_drop('empty');

-- in bulk
SELECT count(hilo_create('bulk-' || n)) FROM generate_series(1, 1000) n;
SELECT sum(hilo_nextval('bulk-' || n)) FROM generate_series(1, 1000) n;
SELECT count(*) FROM (SELECT hilo_drop(name) FROM hilo_sequences WHERE name LIKE 'bulk-%') AS dropped;

SELECT hilo_drop('plain'), hilo_drop('Plain'), hilo_drop('tenants/42/orders'), hilo_drop('falling'), hilo_drop('ordered');
SELECT count(*) FROM hilo_sequences;
