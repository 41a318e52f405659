-- what is null stays
SELECT hilo_create('altered');
SELECT hilo_nextval('altered') FROM generate_series(1, 3);
SELECT hilo_alter('altered');
SELECT hilo_nextval('altered');

-- a new increment counts from the last value
SELECT hilo_alter('altered', increment => 10);
SELECT hilo_nextval('altered'), hilo_nextval('altered');
SELECT hilo_alter('altered', increment => -1);
SELECT hilo_nextval('altered'), hilo_nextval('altered');

-- restart
SELECT hilo_alter('altered', increment => 1, restart_with => 1000);
SELECT hilo_nextval('altered'), hilo_nextval('altered');

-- sizes change no number
SELECT hilo_alter('altered', block_size => 10, slice_size => 5);
SELECT hilo_nextval('altered') FROM generate_series(1, 3);
SELECT block_size, slice_size FROM hilo_sequences WHERE name = 'altered';
SELECT hilo_alter('altered', block_size => 0, slice_size => 0);
SELECT block_size, slice_size FROM hilo_sequences WHERE name = 'altered';

-- a description changes nothing that is served
SELECT hilo_create('described');
SELECT count(hilo_nextval('described')) FROM generate_series(1, 5);
SELECT left_in_slice AS left FROM hilo_stat_backends WHERE name = 'described' AND pid = pg_backend_pid() \gset
SELECT hilo_alter('described', description => 'of orders');
SELECT left_in_slice = :left AS kept FROM hilo_stat_backends WHERE name = 'described' AND pid = pg_backend_pid();
SELECT description FROM hilo_sequences WHERE name = 'described';
SELECT hilo_alter('described', description => repeat('x', 1001));
SELECT hilo_alter('described', description => '');
SELECT description FROM hilo_sequences WHERE name = 'described';
SELECT hilo_nextval('described'), hilo_drop('described');

-- data type and bounds follow each other as core's do
SELECT hilo_alter('altered', data_type => 'smallint');
SELECT data_type, min_value, max_value FROM hilo_sequences WHERE name = 'altered';
SELECT hilo_nextval('altered');
SELECT hilo_alter('altered', max_value => 1005, cycle => true);
SELECT hilo_nextval('altered');
SELECT hilo_alter('altered', data_type => 'integer');
SELECT data_type, min_value, max_value FROM hilo_sequences WHERE name = 'altered';

-- ordered and back
SELECT hilo_create('order');
SELECT hilo_nextval('order') FROM generate_series(1, 3);
SELECT hilo_alter('order', ordered => true);
SELECT hilo_nextval('order'), hilo_nextval('order');
SELECT hilo_alter('order', ordered => false);
SELECT hilo_nextval('order');

-- gapless and back
SELECT hilo_create('gapless');
SELECT hilo_nextval('gapless') FROM generate_series(1, 3);
SELECT hilo_alter('gapless', gapless => true);
SELECT name, ordered, gapless FROM hilo_sequences WHERE name = 'gapless';
BEGIN;
SELECT hilo_nextval('gapless'), hilo_nextval('gapless');
ROLLBACK;
SELECT hilo_nextval('gapless'), hilo_currval('gapless');
SELECT epoch FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence WHERE name = 'gapless' \gset
SELECT hilo_alter('gapless', description => 'of bills');
SELECT epoch = :epoch AS kept FROM _hilo.hilo_position p JOIN _hilo.hilo_definition s ON s.id = p.sequence WHERE name = 'gapless';
SELECT hilo_alter('gapless', cycle => true);
SELECT hilo_alter('gapless', block_size => 10);
SELECT hilo_next_hi('gapless');
BEGIN;
SELECT hilo_alter('gapless', gapless => false);
SELECT hilo_nextval('gapless');
ROLLBACK;
SELECT hilo_alter('gapless', gapless => false);
SELECT hilo_nextval('gapless');

-- what cannot be
SELECT hilo_create('fixed', max_value => 1000);
SELECT count(hilo_nextval('fixed')) FROM generate_series(1, 600);
SELECT hilo_alter('fixed', increment => 0);
SELECT hilo_alter('fixed', max_value => 500);
SELECT hilo_alter('fixed', start_value => 700, min_value => 700);
SELECT hilo_alter('fixed', min_value => 1000);
SELECT hilo_alter('fixed', start_value => 1001);
SELECT hilo_alter('fixed', restart_with => 1001);
SELECT hilo_alter('fixed', restart_with => 0);
SELECT hilo_alter('fixed', block_size => -1);
SELECT hilo_alter('fixed', slice_size => -1);
SELECT hilo_alter('fixed', data_type => 'numeric');
SELECT hilo_alter('none', increment => 2);
SELECT hilo_alter(NULL, increment => 2);
SELECT hilo_nextval('fixed');
-- a bound below the last value, and a place to go on
SELECT hilo_alter('fixed', max_value => 500, restart_with => 400);
SELECT hilo_nextval('fixed');
CREATE ROLE regress_hilo_other;
SET ROLE regress_hilo_other;
SELECT hilo_alter('altered', increment => 2);
RESET ROLE;
DROP ROLE regress_hilo_other;

-- another increment continues the numbers of everybody: nothing is drawn before it is committed
BEGIN;
SELECT hilo_alter('order', increment => 100);
SELECT hilo_nextval('order');
ROLLBACK;
SELECT hilo_nextval('order');
-- narrower bounds hold at once, wider ones from the commit on, and a rollback changes nothing
BEGIN;
SELECT hilo_alter('order', max_value => 8);
SELECT hilo_nextval('order');
SELECT hilo_nextval('order');
ROLLBACK;
SELECT hilo_nextval('order');

SELECT hilo_drop('altered'), hilo_drop('order'), hilo_drop('fixed'), hilo_drop('gapless');
