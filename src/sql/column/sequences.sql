-- After fed.sql: the sequences of Postgres that feed the columns.
SELECT d.sequence, d.is_main, d.own, d.heir, d.relname::text, d.nspname || '.' || d.relname,
       q.seqtypid, q.seqstart, q.seqincrement, q.seqmin, q.seqmax, q.seqcycle,
       s.ordered
  FROM drawn d
 CROSS JOIN successor s
  JOIN pg_sequence q ON q.seqrelid = d.sequence
 ORDER BY d.sequence
