SELECT fact
  FROM unnest(ARRAY[
           current_database()::text,
           'cluster ' || NULLIF(current_setting('cluster_name'), ''),
           'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1),
           'hilo ' || (SELECT extversion FROM pg_extension WHERE extname = 'hilo'),
           CASE WHEN pg_is_in_recovery() THEN 'standby' END,
           'seen by ' || current_user,
           to_char(clock_timestamp(), 'YYYY-MM-DD HH24:MI:SS TZ'),
           CASE WHEN current_setting('hilo.node_count')::integer > 1
                THEN concat('node ', COALESCE((SELECT node_id::text FROM @hilo_sequences LIMIT 1),
                                              current_setting('hilo.node_id')),
                            ' of ', current_setting('hilo.node_count'))
           END
       ]) WITH ORDINALITY AS f (fact, at)
 WHERE fact IS NOT NULL
 ORDER BY at
