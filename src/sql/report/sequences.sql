-- in_memory: false where there is no shared memory, so that nothing is read from there. findings:
-- the objects and severities of those of hilo_check.
WITH active AS MATERIALIZED (
    SELECT * FROM @hilo_stat_sequences WHERE {in_memory}
), rates AS (
    SELECT name, string_agg(concat_ws(' ', since, until, rate), ',' ORDER BY since DESC) AS steps
      FROM (SELECT name, rate, extract(epoch FROM max(until) OVER of_one - since)::float8 AS since,
                   extract(epoch FROM max(until) OVER of_one - until)::float8 AS until
              FROM @hilo_stat_rates
             WHERE {in_memory}
            WINDOW of_one AS (PARTITION BY name)) AS ago
     GROUP BY name
), urgent AS (
    SELECT object, min(severity) AS severity
      FROM (VALUES (NULL, NULL) {findings}) AS finding (object, severity)
     WHERE severity IN ('error', 'warning')
     GROUP BY object
)
SELECT v.title AS name, s.leased::float8, s.used, a.served::float8, a.rate, r.steps,
       concat_ws(',', u.severity, CASE WHEN s.gapless THEN 'gapless' END,
                 CASE WHEN s.ordered THEN 'ordered' END, CASE WHEN s.cycle THEN 'cycles' END,
                 CASE WHEN a.name IS NULL AND NOT s.gapless THEN 'not active' END) AS badges,
       a.in_slices::float8, a.in_current::float8, a.in_standby::float8, a.in_returned::float8,
       a.waits::text, a.wait_time_total / 1000 AS waited, a.wait_time_max / 1000 AS waited_at_most,
       a.blocks_reserved::text AS refills,
       a.blocks_prefetched::float8 / NULLIF(a.blocks_reserved, 0) AS ahead,
       CASE WHEN a.errors > 0
            THEN concat(a.errors, ' reservations failed; the last on ',
                        to_char(a.last_error_at, 'YYYY-MM-DD HH24:MI:SS'), ': ', a.last_error)
       END AS failure,
       extract(epoch FROM a.exhausted_in)::float8 AS exhausted_in,
       CASE WHEN s.cycle THEN 'starts again' END AS restarts,
       concat_ws(' ', 'used', v.use_severity) AS used_class,
       (count(*) OVER ())::float8 AS total, (count(a.name) OVER ())::float8 AS total_active,
       sum(a.rate) OVER () AS total_rate,
       sum(a.in_slices::float8 + a.in_current + a.in_standby + a.in_returned) OVER ()
           AS total_ready,
       (count(*) OVER ())::float8 AS all_rows
  FROM (SELECT *, COALESCE(used_fraction, 0) AS used FROM @hilo_sequences) AS s
  LEFT JOIN active a ON a.name = s.name
  LEFT JOIN rates r ON r.name = s.name
  LEFT JOIN _hilo.hilo_visible v ON v.name = s.name
  LEFT JOIN urgent u ON u.object = v.label
 ORDER BY u.severity, a.errors > 0 DESC NULLS LAST,
       CASE WHEN s.cycle THEN 0 ELSE floor(s.used * 10) END DESC,
       floor(a.wait_time_total / 1000) DESC NULLS LAST, a.rate DESC NULLS LAST, s.name COLLATE "C"
 LIMIT 200
