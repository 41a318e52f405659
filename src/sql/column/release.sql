-- After `given`: the statements that make a sequence of Postgres, and let the column draw from it.
-- All names are those of pg_catalog.
place AS (
    SELECT g.*, a.attname AS column_name, format('%I.%I', n.nspname, t.relname) AS table_name,
           format('%I.%I', g.schema, g.name) AS sequence,
           g.former ->> 'unlogged' = 'true' AS unlogged, g.former ->> 'comment' AS comment,
           -- Such a name is looked up at each call.
           CASE WHEN g.name = g.former ->> 'name' AND g.schema = g.former ->> 'schema'
                THEN g.former ->> 'late' END AS late
      FROM given g
      JOIN pg_class t ON t.oid = g.relation
      JOIN pg_namespace n ON n.oid = t.relnamespace
      JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = g.number
), part (relation) AS (
    SELECT p.relation FROM place p
     UNION
    SELECT i.inhrelid
      FROM part p JOIN pg_inherits i ON i.inhparent = p.relation AND NOT i.inhdetachpending
), inserter AS (
    SELECT a.grantee
      FROM part p JOIN pg_class c ON c.oid = p.relation CROSS JOIN aclexplode(c.relacl) a
     WHERE a.privilege_type = 'INSERT' AND a.grantee <> c.relowner
     UNION
    SELECT a.grantee
      FROM part p JOIN pg_attribute c ON c.attrelid = p.relation CROSS JOIN aclexplode(c.attacl) a
     WHERE a.privilege_type = 'INSERT' AND NOT c.attisdropped
), granted (role, privileges) AS (
    SELECT u.* FROM place p, unnest(p.roles, p.privileges) AS u
     UNION ALL
    -- Whoever may insert has drawn from one that the column owns. A serial column lets him only
    -- with a privilege.
    SELECT i.grantee, 'USAGE'
      FROM place p CROSS JOIN inserter i WHERE p.owned AND p.generated IS NULL
)
SELECT s.statement
  FROM place p
 CROSS JOIN LATERAL (
     SELECT 1, format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT, ALTER COLUMN %I '
                      'ADD GENERATED %s AS IDENTITY (SEQUENCE NAME %s %s)', p.table_name,
                      p.column_name, p.column_name, p.generated, p.sequence, p.options)
      WHERE p.generated IS NOT NULL
      UNION ALL
     SELECT v.*
       FROM (VALUES
           (1, format('CREATE %sSEQUENCE %s AS %s %s',
                      CASE WHEN p.unlogged THEN 'UNLOGGED ' END, p.sequence, p.type, p.options)),
           (2, format('ALTER SEQUENCE %s OWNER TO %I', p.sequence, p.owner)),
           (3, format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT '
                      'pg_catalog.nextval(%L::%spg_catalog.regclass)', p.table_name,
                      p.column_name, COALESCE(p.late, p.sequence),
                      CASE WHEN p.late IS NOT NULL THEN 'pg_catalog.text::' END)),
           (4, CASE WHEN p.owned
                    THEN format('ALTER SEQUENCE %s OWNED BY %s.%I', p.sequence, p.table_name,
                                p.column_name) END)) v
      WHERE p.generated IS NULL
      UNION ALL
     SELECT 5, format('SELECT pg_catalog.setval(%L::pg_catalog.regclass, %s)', p.sequence, p.state)
      UNION ALL
     SELECT 6, format('COMMENT ON SEQUENCE %s IS %L', p.sequence, p.comment)
      WHERE p.comment IS NOT NULL
      UNION ALL
     SELECT 6 + (row_number() OVER (ORDER BY r.place, g.role))::integer,
            format('GRANT %s ON SEQUENCE %s TO %s', g.privileges, p.sequence,
                   CASE g.role WHEN 0 THEN 'PUBLIC' ELSE quote_ident(r.name) END)
       FROM granted g
      CROSS JOIN LATERAL (
          SELECT q.name, (SELECT min(f.place)
                            FROM json_array_elements_text(p.former -> 'grantees')
                                 WITH ORDINALITY f (name, place)
                           WHERE f.name = q.name) AS place
            FROM (SELECT CASE g.role WHEN 0 THEN 'public'
                                     ELSE pg_get_userbyid(g.role) END) q (name)) r
       ) AS s (number, statement)
 WHERE s.statement IS NOT NULL
 ORDER BY s.number
