SELECT COALESCE(holder, 'not stated') AS holder, usename::text AS role, sum(count)::text AS size,
       count(*)::text AS leases, count(DISTINCT name)::text AS sequences,
       now - extract(epoch FROM min(leased_at))::float8 AS age,
       extract(epoch FROM min(expires_at))::float8 - now AS expires_in,
       (count(*) FILTER (WHERE expires_at IS NULL))::float8 AS endless,
       sum(sum(count)) OVER ()::float8 AS leased, (count(*) OVER ())::float8 AS all_rows
  FROM @hilo_leases
 CROSS JOIN (SELECT extract(epoch FROM clock_timestamp())::float8 AS now) AS clock
 GROUP BY hilo_leases.holder, usename, now
 ORDER BY sum(count) DESC, hilo_leases.holder COLLATE "C", usename
 LIMIT 200
