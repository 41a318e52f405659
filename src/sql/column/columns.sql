-- After fed.sql: the columns, and what forbids to move each.
SELECT m.root, m.column_name::text, m.owner, m.identity = 'a',
       EXISTS (SELECT FROM linked l
                WHERE l.sequence = m.sequence AND l.relation = m.root AND l.number = m.number
                  AND l.deptype IN ('a', 'i')),
       m.hilo, e.state, e.message, e.detail, e.hint
  FROM moved m
 CROSS JOIN given g
 CROSS JOIN LATERAL (
     SELECT CASE WHEN m.relkind NOT IN ('r', 'p') THEN 'It is not a table.'
                 WHEN m.relpersistence = 't' THEN 'It is a temporary table.'
                 WHEN m.relispartition
                 THEN 'It is a partition, and has the defaults of its partitioned table.'
            END AS unfit,
            CASE WHEN m.of_postgres THEN 'Its default is a sequence of Postgres.'
                 ELSE COALESCE(format('Its default is %s.', m.expression), 'It has no default.')
            END AS said,
            -- Their rows would get no number.
            EXISTS (SELECT FROM tree t WHERE t.root = m.root AND t.relation <> m.root)
            AND NOT (m.relkind = 'p'
                     AND current_setting('server_version_num')::integer >= 170000) AS has_heirs) o
  LEFT JOIN LATERAL (
     SELECT v.state, v.message, v.detail, v.hint
       FROM (VALUES
           (1, o.unfit IS NOT NULL, '42809',
            format('cannot change which kind of sequence feeds columns of "%s"', m.table_name),
            o.unfit, 'Specify an ordinary or a partitioned table.'),
           (2, g.adopts AND m.of_postgres AND m.draws IS NOT TRUE, '42501',
            format('the owner of the table may not draw from what column %s draws from', m.object),
            'Its default names no sequence on which that role has USAGE or UPDATE.',
            'Grant the role USAGE on the sequence, or give the column another default.'),
           (3, g.adopts AND m.hilo IS NOT NULL, '55000',
            format('column %s uses hilo sequence "%s" already', m.object, m.hilo),
            'Its default calls hilo_nextval.',
            'There is nothing to take over. hilo_sync moves the sequence beyond the values of '
            'the column.'),
           (4, g.adopts AND NOT m.of_postgres, '55000',
            format('column %s has no sequence of Postgres', m.object), o.said,
            'hilo_adopt takes over serial and identity columns, and those whose default is '
            'nextval(...). For any other column, create a sequence with hilo_create and set '
            'the default to hilo_nextval.'),
           (5, NOT g.adopts AND m.hilo IS NULL, '55000',
            format('column %s does not use a hilo sequence', m.object), o.said,
            'hilo_release takes columns whose default is hilo_nextval of a constant name.'),
           (6, g.identity AND NOT m.not_null, '55000',
            format('column %s must be NOT NULL to become an identity column', m.object),
            'Postgres requires it of every identity column.',
            'Use ALTER TABLE ... ALTER COLUMN ... SET NOT NULL first, or identity => NULL for '
            'a column with a default.'),
           (7, g.identity AND o.has_heirs, '0A000',
            format('column %s cannot become an identity column of its partitions or children',
                   m.object),
            'A row that is inserted directly into one of them would get no number. Tables '
            'that inherit have no identity of their parent, nor have partitions before '
            'PostgreSQL 17.',
            'Use identity => NULL for a column with a default.')
           ) AS v (place, applies, state, message, detail, hint)
      WHERE v.applies ORDER BY v.place LIMIT 1) e ON true
 ORDER BY m.root, m.number
