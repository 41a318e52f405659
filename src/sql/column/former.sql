-- What is remembered of the sequence of Postgres that one of hilo's has replaced, and where it is
-- made again: nowhere if the name is taken, or if hilo's sequence has another name now. All names
-- are those of pg_catalog.
SELECT n.nspname::text, f.name, (r.former ->> 'type')::regtype::oid, (r.former ->> 'start')::bigint,
       (r.former ->> 'min')::bigint, (r.former ->> 'max')::bigint, (r.former ->> 'cache')::bigint
  FROM (SELECT $1::json AS former, $2 AS hilo, $3::oid AS relation, $4::oid AS owner,
               $5::boolean AS owned) r
 CROSS JOIN LATERAL (SELECT r.former ->> 'schema' AS schema, r.former ->> 'name' AS name) f
  LEFT JOIN (pg_namespace n JOIN pg_class t ON true)
       ON t.oid = r.relation AND r.hilo IN (f.name, f.schema || '.' || f.name)
          -- A sequence that a column owns is in the schema of the column's table.
          AND CASE WHEN r.owned THEN n.oid = t.relnamespace ELSE n.nspname = f.schema END
          AND has_schema_privilege(r.owner, n.oid, 'CREATE')
          AND NOT EXISTS (SELECT FROM pg_class c
                           WHERE c.relnamespace = n.oid AND c.relname = f.name)
