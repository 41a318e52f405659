-- After fed.sql: the steps that let the columns draw from the new sequence, `given.name`, each with
-- what there is to tell. The first ones say what forbids that.
, old AS (
    -- uses: what would break without it.
    SELECT d.*,
           ARRAY(SELECT pg_describe_object(f.classid, f.objid, f.part)
                   FROM fed f
                  WHERE f.sequence = d.sequence
                    AND NOT EXISTS (SELECT FROM tree t WHERE t.relation = f.relation
                                                         AND t.column_name = f.column_name)
                  ORDER BY f.relation, f.number) AS others,
           ARRAY(SELECT u.what
                   FROM pg_depend e, pg_describe_object(e.classid, e.objid, e.objsubid) u (what)
                  WHERE u.what IS NOT NULL AND e.refclassid = 'pg_class'::regclass
                    AND e.refobjid = d.sequence AND e.deptype IN ('n', 'a')
                    AND NOT EXISTS (SELECT FROM pg_attrdef f JOIN tree t ON t.relation = f.adrelid
                                     WHERE e.classid = 'pg_attrdef'::regclass AND f.oid = e.objid)
                  UNION ALL
                 SELECT u.what
                   FROM pg_depend e,
                        pg_describe_object(e.refclassid, e.refobjid, e.refobjsubid) u (what)
                  WHERE u.what IS NOT NULL AND e.classid = 'pg_class'::regclass
                    AND e.objid = d.sequence
                    AND (e.deptype = 'e'
                         OR e.deptype IN ('a', 'i') AND e.refclassid = 'pg_class'::regclass
                            AND e.refobjid NOT IN (SELECT t.relation FROM tree t))) AS uses
      FROM drawn d
), granted AS (
    -- Whoever may insert draws from an identity column's sequence without a privilege, as before.
    SELECT a.grantee, a.privilege_type AS privilege,
           CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee) END AS role
      FROM drawn d CROSS JOIN aclexplode(d.relacl) a
     WHERE d.is_main AND a.privilege_type IN ('USAGE', 'SELECT', 'UPDATE') AND a.grantee <> d.heir
), kept AS (
    SELECT o.*, CASE WHEN s.ordered THEN 'ordered' ELSE 'unordered' END AS kind,
           CASE WHEN o.of_identity THEN '{}'
                     WHEN o.uses <> '{}' THEN o.uses
                     WHEN NOT o.own THEN ARRAY['its owner is role ' || pg_get_userbyid(o.relowner)]
                     ELSE '{}' END AS reasons
      FROM old o CROSS JOIN successor s
)
SELECT r.state, r.message, r.detail, r.hint, r.statement, r.grantee, r.privilege
  FROM (SELECT 0 AS place, o.sequence AS object, '55000' AS state,
               format('sequence %s is used by another column too', o.object) AS message,
               array_to_string(o.others, E'\n') AS detail,
               'Move all of them at once with hilo_adopt_sequence.' AS hint,
               NULL AS statement, NULL::oid AS grantee, NULL AS privilege
          FROM old o WHERE o.others <> '{}'
         UNION ALL
        SELECT 0, o.sequence, '2BP01',
               format('cannot drop identity sequence %s because other objects depend on it',
                      o.object),
               array_to_string(o.uses, E'\n'),
               'Drop these objects, or let them draw from elsewhere.', NULL, NULL, NULL
          FROM old o WHERE o.of_identity AND o.uses <> '{}'
         UNION ALL
        SELECT 1, p.grantee, NULL, NULL, NULL, NULL, NULL, p.grantee, p.privilege FROM granted p
         UNION ALL
        -- DROP IDENTITY drops the sequence, which the other defaults must no longer use then.
        SELECT CASE m.identity WHEN '' THEN 2 ELSE 3 END, m.root, NULL, NULL, NULL, NULL,
               format('ALTER TABLE %s %sALTER COLUMN %I SET DEFAULT %s.%s(%L::%s.hilo_sequence)',
                      m.table_name,
                      CASE WHEN m.identity <> ''
                           THEN format('ALTER COLUMN %I DROP IDENTITY, ', m.column_name) END,
                      m.column_name, g.schema,
                      CASE m.identity WHEN 'a' THEN 'hilo_nextval_always' ELSE 'hilo_nextval' END,
                      g.name, g.schema), NULL, NULL
          FROM given g CROSS JOIN moved m
         UNION ALL
        SELECT 4, k.sequence, '00000',
               format('%s hilo sequence "%s" replaces sequence %s, which is dropped', k.kind,
                      g.name, k.object),
               NULL, NULL,
               CASE WHEN NOT k.of_identity THEN format('DROP SEQUENCE %s', k.object) END,
               NULL, NULL
          FROM given g CROSS JOIN kept k WHERE k.reasons = '{}'
         UNION ALL
        SELECT 4, k.sequence, '01000',
               format('%s hilo sequence "%s" replaces sequence %s, which is kept', k.kind, g.name,
                      k.object),
               array_to_string(k.reasons || 'Whoever still draws from it gets numbers that the '
                                            'column gets from hilo.'::text, E'\n'),
               NULL, NULL, NULL, NULL
          FROM given g CROSS JOIN kept k WHERE k.reasons <> '{}'
         UNION ALL
        SELECT 5, 0, '00000',
               format('privileges on hilo sequence "%s" are granted as before', min(g.name)),
               string_agg(format('%s to %s', p.privilege, p.role), ', '
                          ORDER BY p.grantee, p.privilege) || '.', NULL, NULL, NULL, NULL
          FROM given g CROSS JOIN granted p
        HAVING count(*) > 0
         UNION ALL
        SELECT 6, m.root, '00000',
               format('column %s takes no other values, as before', m.object),
               'Its default calls hilo_nextval_always. INSERT and UPDATE through a view are not '
               'checked any more.', NULL, NULL, NULL, NULL
          FROM moved m WHERE m.identity = 'a') r
 ORDER BY r.place, r.object
