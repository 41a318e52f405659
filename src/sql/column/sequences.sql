-- After fed.sql: the sequences of Postgres that feed the columns.
SELECT d.sequence, d.is_main, d.own, d.heir, d.relname::text, d.nspname || '.' || d.relname,
       q.seqtypid, q.seqstart, q.seqincrement, q.seqmin, q.seqmax, q.seqcycle,
       s.ordered,
       -- What hilo has no place for, or cuts to what the column can hold.
       json_strip_nulls(json_build_object(
           'schema', d.nspname, 'name', d.relname, 'type', q.seqtypid::regtype,
           'start', q.seqstart, 'min', q.seqmin, 'max', q.seqmax, 'cache', q.seqcache,
           'unlogged', d.relpersistence = 'u', 'late', d.late,
           'comment', obj_description(d.sequence, 'pg_class'),
           -- In the order in which a dump has them.
           'grantees', (SELECT json_agg(CASE a.grantee WHEN 0 THEN 'public'
                                                       ELSE pg_get_userbyid(a.grantee) END
                                        ORDER BY a.place)
                          FROM aclexplode(d.relacl) WITH ORDINALITY
                               a (grantor, grantee, privilege, grantable, place))))::text
  FROM drawn d
 CROSS JOIN successor s
  JOIN pg_sequence q ON q.seqrelid = d.sequence
 ORDER BY d.sequence
