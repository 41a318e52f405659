-- the columns that programs rely on
SELECT table_name, string_agg(column_name || ' ' || data_type, ', ' ORDER BY ordinal_position)
FROM information_schema.columns
WHERE table_name IN ('hilo_sequences', 'hilo_stat_sequences', 'hilo_stat_backends', 'hilo_blocks', 'hilo_gaps')
GROUP BY table_name ORDER BY table_name;

SELECT hilo_create('seen', block_size => 100);
SELECT max_reserved FROM hilo_sequences WHERE name = 'seen';
SELECT hilo_nextval('seen') FROM generate_series(1, 4);
SELECT max_reserved >= 100 AS reserved FROM hilo_sequences WHERE name = 'seen';
SELECT name, served, blocks_reserved >= 1 AS reserved, in_slices + in_current + in_standby + in_returned >= 96 AS ready
FROM hilo_stat_sequences WHERE name = 'seen';
SELECT name, last_value, next_value = 5 AS next FROM hilo_stat_backends WHERE pid = pg_backend_pid();
-- every value that is reserved and not served is in one tier
SELECT sum(count) = (SELECT max_reserved - 4 FROM hilo_sequences WHERE name = 'seen') AS all_there FROM hilo_blocks WHERE name = 'seen';
SELECT * FROM hilo_gaps WHERE name = 'seen';
SELECT hilo_stat_reset('seen');
SELECT served FROM hilo_stat_sequences WHERE name = 'seen';
SELECT hilo_drop('seen');
SELECT count(*) FROM hilo_stat_sequences WHERE name = 'seen';

-- the tables of the catalog are nobody's to write
CREATE ROLE regress_hilo_reader;
SET ROLE regress_hilo_reader;
INSERT INTO _hilo.hilo_definition DEFAULT VALUES;
UPDATE _hilo.hilo_position SET next_index = 0;
DELETE FROM _hilo.hilo_gap;
RESET ROLE;
DROP ROLE regress_hilo_reader;
