-- classic Hi/Lo: the caller owns start_value + (hi * block_size + lo) * increment
SELECT hilo_create('hi', start_value => 1000, increment => 2, block_size => 10);
SELECT hilo_next_hi('hi'), hilo_next_hi('hi');
-- what nextval serves is in none of the callers' blocks
SELECT hilo_nextval('hi');
SELECT hilo_next_hi('hi') > 1;
SELECT count(*) = count(DISTINCT value) AS disjoint
FROM (SELECT 1000 + (hi * 10 + lo) * 2 AS value
      FROM (SELECT hilo_next_hi('hi') hi FROM generate_series(1, 20)) AS his, generate_series(0, 9) lo
      UNION ALL
      SELECT hilo_nextval('hi') FROM generate_series(1, 100)) AS owned;

-- it needs a fixed block_size, and blocks that fit
SELECT hilo_create('adaptive');
SELECT hilo_next_hi('adaptive');
SELECT hilo_create('small', max_value => 25, block_size => 10);
SELECT hilo_next_hi('small') FROM generate_series(1, 2);
SELECT hilo_next_hi('small');
SELECT hilo_next_hi('none');
SELECT hilo_drop('hi'), hilo_drop('adaptive'), hilo_drop('small');
