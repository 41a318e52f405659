-- After fed.sql: the columns, and what forbids to move each.
SELECT s.root, s.column_name::text, s.owner, s.identity = 'a',
       EXISTS (SELECT FROM pg_depend d
                WHERE d.classid = 'pg_class'::regclass AND d.objid = s.sequence AND d.refclassid = 'pg_class'::regclass
                  AND d.refobjid = s.root AND d.refobjsubid = s.number AND d.deptype IN ('a', 'i')),
       s.hilo, e.*
  FROM source s
 CROSS JOIN given g
  JOIN pg_class c ON c.oid = s.root
  JOIN pg_namespace n ON n.oid = c.relnamespace
 CROSS JOIN LATERAL (
     SELECT format('%I.%I', n.nspname, c.relname) AS relation, format('%I.%I.%I', n.nspname, c.relname, s.column_name) AS object,
            CASE WHEN c.relkind NOT IN ('r', 'p') THEN 'It is not a table.'
                 WHEN c.relpersistence = 't' THEN 'It is a temporary table.'
                 WHEN c.relispartition THEN 'It is a partition, and has the defaults of its partitioned table.' END AS unfit,
            CASE WHEN s.of_postgres THEN 'Its default is a sequence of Postgres.'
                 ELSE COALESCE(format('Its default is %s.', s.expression), 'It has no default.') END AS said) o
  LEFT JOIN LATERAL (
     SELECT v.state, v.message, v.detail, v.hint
       FROM (VALUES
           (1, o.unfit IS NOT NULL, '42809', format('cannot change which kind of sequence feeds columns of "%s"', o.relation), o.unfit,
            'Specify an ordinary or a partitioned table.'),
           (2, g.adopts AND s.of_postgres AND s.draws IS NOT TRUE, '42501',
            format('the owner of the table may not draw from what column %s draws from', o.object),
            'Its default names no sequence on which that role has USAGE or UPDATE.',
            'Grant the role USAGE on the sequence, or give the column another default.'),
           (3, g.adopts AND s.hilo IS NOT NULL, '55000', format('column %s uses hilo sequence "%s" already', o.object, s.hilo),
            'Its default calls hilo_nextval.',
            'There is nothing to take over. hilo_sync moves the sequence beyond the values of the column.'),
           (4, g.adopts AND NOT s.of_postgres, '55000', format('column %s has no sequence of Postgres', o.object), o.said,
            'hilo_adopt takes over serial and identity columns, and those whose default is nextval(...). For any other column, '
            'create a sequence with hilo_create and set the default to hilo_nextval.'),
           (5, NOT g.adopts AND s.hilo IS NULL, '55000', format('column %s does not use a hilo sequence', o.object), o.said,
            'hilo_release takes columns whose default is hilo_nextval of a constant name.'),
           (6, g.identity AND NOT s.not_null, '55000',
            format('column %s must be NOT NULL to become an identity column', o.object),
            'Postgres requires it of every identity column.',
            'Use ALTER TABLE ... ALTER COLUMN ... SET NOT NULL first, or identity => NULL for a column with a default.'),
           (7, g.identity AND EXISTS (SELECT FROM tree t WHERE t.root = s.root AND t.relation <> s.root)
               AND NOT (c.relkind = 'p' AND current_setting('server_version_num')::integer >= 170000), '0A000',
            format('column %s cannot become an identity column of its partitions or children', o.object),
            'A row that is inserted directly into one of them would get no number. Tables that inherit have no identity of their '
            'parent, nor have partitions before PostgreSQL 17.', 'Use identity => NULL for a column with a default.')
            ) AS v (place, applies, state, message, detail, hint)
      WHERE v.applies ORDER BY v.place LIMIT 1) e ON true
 WHERE s.relation = s.root
 ORDER BY s.root, s.number
