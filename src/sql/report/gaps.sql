SELECT reason, sum(count)::text AS size, count(*)::text AS ranges,
       count(DISTINCT name)::text AS sequences,
       to_char(max(recorded_at), 'YYYY-MM-DD HH24:MI:SS') AS last,
       meaning, place::text,
       sum(sum(count)) OVER ()::float8 AS lost
  FROM @hilo_gaps
  LEFT JOIN _hilo.hilo_loss AS l USING (reason)
 GROUP BY reason, meaning, place
 ORDER BY sum(count) DESC, reason
