SELECT reason, sum(count)::text AS size, count(*)::text AS ranges,
       count(DISTINCT name)::text AS sequences,
       to_char(max(recorded_at), 'YYYY-MM-DD HH24:MI:SS') AS last,
       CASE reason
            WHEN 'crash' THEN 'the server died with the values in memory'
            WHEN 'discarded' THEN 'returned where nothing could take them, or leased by a '
                                  'transaction that was rolled back'
            WHEN 'altered' THEN 'made invalid by hilo_alter or hilo_setval'
            WHEN 'expired' THEN 'their lease expired'
            WHEN 'revoked' THEN 'their lease was revoked'
            WHEN 'restored' THEN 'perhaps served by the server that this one is a copy of'
       END AS meaning,
       sum(sum(count)) OVER ()::float8 AS lost
  FROM @hilo_gaps
 GROUP BY reason
 ORDER BY sum(count) DESC, reason
