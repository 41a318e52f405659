SELECT name, short_desc,
       COALESCE(NULLIF(concat_ws(' ', NULLIF(setting, ''), unit), ''), 'empty') AS value,
       COALESCE(NULLIF(concat_ws(' ', NULLIF(boot_val, ''), unit), ''), 'empty') AS initial,
       concat(source, CASE WHEN pending_restart THEN '; another value waits for a restart' END)
           AS source
  FROM pg_settings
 WHERE name LIKE 'hilo.%' AND (setting IS DISTINCT FROM boot_val OR pending_restart)
 ORDER BY name
