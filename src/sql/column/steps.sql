-- After fed.sql: the steps that let the columns draw from the new sequence, `given.name`, each with what
-- there is to tell. The first ones say what forbids that.
, old AS (
    SELECT o.*,
           ARRAY(SELECT pg_describe_object(f.classid, f.objid, f.part) FROM fed f
                  WHERE f.sequence = o.sequence
                    AND NOT EXISTS (SELECT FROM tree t WHERE t.relation = f.relation AND t.column_name = f.column_name)
                  ORDER BY f.relation, f.number) AS others,
           -- What would break without it.
           ARRAY(SELECT u.what FROM pg_depend d, pg_describe_object(d.classid, d.objid, d.objsubid) AS u (what)
                  WHERE u.what IS NOT NULL AND d.refclassid = 'pg_class'::regclass AND d.refobjid = o.sequence
                    AND d.deptype IN ('n', 'a')
                    AND NOT EXISTS (SELECT FROM pg_attrdef f JOIN tree t ON t.relation = f.adrelid
                                     WHERE d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid)
                  UNION ALL
                 SELECT u.what FROM pg_depend d, pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) AS u (what)
                  WHERE u.what IS NOT NULL AND d.classid = 'pg_class'::regclass AND d.objid = o.sequence
                    AND (d.deptype = 'e' OR d.deptype IN ('a', 'i') AND d.refclassid = 'pg_class'::regclass
                                            AND d.refobjid NOT IN (SELECT t.relation FROM tree t))) AS uses
      FROM drawn o
), granted AS (
    -- Whoever may insert draws from an identity column's sequence without a privilege, as before.
    SELECT a.grantee, a.privilege_type AS privilege
      FROM drawn o CROSS JOIN aclexplode(o.relacl) a
     WHERE o.is_main AND a.privilege_type IN ('USAGE', 'SELECT', 'UPDATE') AND a.grantee <> o.heir
), kept AS (
    SELECT o.*, CASE WHEN o.of_identity THEN '{}' WHEN o.uses <> '{}' THEN o.uses
                     WHEN NOT o.own THEN ARRAY['its owner is role ' || pg_get_userbyid(o.relowner)] ELSE '{}' END AS reasons
      FROM old o
)
SELECT r.state, r.message, r.detail, r.hint, r.statement, r.grantee, r.privilege
  FROM (SELECT 0 AS place, o.sequence AS object, '55000' AS state, format('sequence %s is used by another column too', o.object) AS message,
               array_to_string(o.others, E'\n') AS detail, 'Move all of them at once with hilo_adopt_sequence.' AS hint,
               NULL AS statement, NULL::oid AS grantee, NULL AS privilege
          FROM old o WHERE o.others <> '{}'
         UNION ALL
        SELECT 0, o.sequence, '2BP01', format('cannot drop identity sequence %s because other objects depend on it', o.object),
               array_to_string(o.uses, E'\n'), 'Drop these objects, or let them draw from elsewhere.', NULL, NULL, NULL
          FROM old o WHERE o.of_identity AND o.uses <> '{}'
         UNION ALL
        SELECT 1, g.grantee, NULL, NULL, NULL, NULL, NULL, g.grantee, g.privilege FROM granted g
         UNION ALL
        -- DROP IDENTITY drops the sequence, which the other defaults must no longer use then.
        SELECT CASE WHEN s.identity = '' THEN 1 ELSE 2 END, s.root, NULL, NULL, NULL, NULL,
               format('ALTER TABLE %I.%I %sALTER COLUMN %I SET DEFAULT %s.%s(%L::%s.hilo_sequence)', n.nspname, c.relname,
                      CASE WHEN s.identity <> '' THEN format('ALTER COLUMN %I DROP IDENTITY, ', s.column_name) END, s.column_name,
                      g.schema, CASE s.identity WHEN 'a' THEN 'hilo_nextval_always' ELSE 'hilo_nextval' END, g.name, g.schema), NULL, NULL
          FROM given g
         CROSS JOIN source s
          JOIN pg_class c ON c.oid = s.root
          JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE s.relation = s.root
         UNION ALL
        SELECT 3, k.sequence, CASE WHEN k.reasons = '{}' THEN '00000' ELSE '01000' END,
               format('hilo sequence "%s" replaces sequence %s, which is %s', g.name, k.object,
                      CASE WHEN k.reasons = '{}' THEN 'dropped' ELSE 'kept' END),
               CASE WHEN k.reasons <> '{}'
                    THEN array_to_string(k.reasons, E'\n') || E'\nWhoever still draws from it gets numbers that the column gets from hilo.'
               END, NULL, CASE WHEN k.reasons = '{}' AND NOT k.of_identity THEN format('DROP SEQUENCE %s', k.object) END, NULL, NULL
          FROM given g CROSS JOIN kept k
         UNION ALL
        SELECT 4, 0, '00000', format('privileges on hilo sequence "%s" are granted as before', min(g.name)),
               string_agg(format('%s to %s', p.privilege, CASE p.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(p.grantee) END), ', '
                          ORDER BY p.grantee, p.privilege) || '.', NULL, NULL, NULL, NULL
          FROM given g CROSS JOIN granted p
        HAVING count(*) > 0
         UNION ALL
        SELECT 5, s.root, '00000', format('column %I.%I.%I takes no other values, as before', n.nspname, c.relname, s.column_name),
               'Its default calls hilo_nextval_always. INSERT and UPDATE through a view are not checked any more.', NULL, NULL, NULL, NULL
          FROM source s
          JOIN pg_class c ON c.oid = s.root
          JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE s.relation = s.root AND s.identity = 'a') r
 ORDER BY r.place, r.object
