-- From 12 to 49 columns, from the oldest gap until now, each of the shortest length that makes them
-- few enough: a row for each reason of a column.
WITH gap AS (
    SELECT reason, count, extract(epoch FROM recorded_at)::float8 AS at
      FROM @hilo_gaps
     WHERE isfinite(recorded_at)
), span AS (
    SELECT min(at) AS oldest, extract(epoch FROM clock_timestamp())::float8 AS now
      FROM gap
    HAVING count(*) > 0
), scale AS (
    SELECT oldest, now, step, length
      FROM span
      JOIN (VALUES (60, '1 min'), (600, '10 min'), (3600, '1 h'), (21600, '6 h'), (86400, '1 day'),
                   (604800, '7 days'), (2592000, '30 days'), (31536000, '1 year'))
               AS steps (step, length)
        ON (now - oldest) / step < 48 OR step = 31536000
     ORDER BY step
     LIMIT 1
), place AS (
    SELECT step, length, floor(now / step)::bigint AS last,
           GREATEST(floor(now / step) - 48,
                    LEAST(floor(now / step) - 11, floor(oldest / step)))::bigint AS first
      FROM scale
)
SELECT to_char(to_timestamp(at * step::float8), 'YYYY-MM-DD HH24:MI') AS name, length, reason,
       place::text, size
  FROM place
 CROSS JOIN generate_series(first, last) AS at
  LEFT JOIN (SELECT floor(gap.at / scale.step)::bigint AS at, reason, sum(count)::float8 AS size
               FROM gap, scale
              GROUP BY 1, 2) AS sums USING (at)
  LEFT JOIN _hilo.hilo_loss AS l USING (reason)
 ORDER BY at
