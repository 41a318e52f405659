-- The order of hilo_check is kept.
SELECT severity, object, what, concat_ws(' ', what_to_do, fix) AS what_to_do,
       encode(convert_to(object, getdatabaseencoding()), 'hex') AS object_bytes,
       (count(*) FILTER (WHERE severity = 'error') OVER ())::float8 AS errors,
       (count(*) FILTER (WHERE severity = 'warning') OVER ())::float8 AS warnings,
       (count(*) OVER ())::float8 AS all_rows
  FROM @hilo_check() WITH ORDINALITY AS c (object, severity, what, what_to_do, fix, at)
 ORDER BY at
 LIMIT 200
