-- Columns that are to get another kind of sequence, and what feeds them. Before this stands a row
-- with what is asked, as `given`; after it, a query of the rest. All names are those of pg_catalog.

-- Sequences of identity columns (deptype i), and those that columns own (a).
linked AS NOT MATERIALIZED (
    SELECT d.objid AS sequence, d.refobjid AS relation, d.refobjsubid AS number, d.deptype
      FROM pg_depend d
     WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
), feed AS NOT MATERIALIZED (
    SELECT d.refobjid AS sequence, f.adrelid AS relation, f.adnum AS number,
           d.classid, d.objid, 0 AS part
      FROM pg_depend d JOIN pg_attrdef f ON f.oid = d.objid
     WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
     UNION ALL
    SELECT l.sequence, l.relation, l.number, 'pg_class'::regclass, l.relation, l.number
      FROM linked l WHERE l.deptype = 'i'
), fed AS NOT MATERIALIZED (
    -- The columns that sequences of Postgres feed. A default of somebody who may not draw says
    -- nothing: anybody can write one with any OID.
    SELECT f.*, a.attname AS column_name
      FROM feed f
      JOIN pg_class s ON s.oid = f.sequence
      JOIN pg_class c ON c.oid = f.relation
      JOIN pg_attribute a ON a.attrelid = f.relation AND a.attnum = f.number
     WHERE CASE s.relkind WHEN 'S' THEN pg_has_role(c.relowner, s.relowner, 'USAGE')
                OR has_sequence_privilege(c.relowner, s.oid, 'USAGE, UPDATE') END
), heir AS NOT MATERIALIZED (
    SELECT i.inhrelid AS relation, i.inhparent AS parent
      FROM pg_inherits i WHERE NOT i.inhdetachpending
), above (relation, parent) AS (
    SELECT f.relation, h.parent
      FROM given g
      JOIN fed f ON f.sequence = g.sequence
      JOIN heir h ON h.relation = f.relation
     UNION
    SELECT a.relation, h.parent FROM above a JOIN heir h ON h.relation = a.parent
), chosen AS (
    SELECT g.relation, g.column_name::name FROM given g WHERE g.sequence IS NULL
     UNION
    -- Columns that inherit go along with their parents.
    SELECT f.relation, f.column_name
      FROM given g
      JOIN fed f ON f.sequence = g.sequence
     WHERE NOT EXISTS (
         SELECT FROM above a JOIN fed p ON p.relation = a.parent AND p.sequence = g.sequence
          WHERE a.relation = f.relation AND p.column_name = f.column_name)
), tree (root, column_name, owner, relation) AS (
    SELECT h.relation, h.column_name, c.relowner, c.oid
      FROM chosen h JOIN pg_class c ON c.oid = h.relation
     UNION
    SELECT t.root, t.column_name, t.owner, h.relation
      FROM tree t JOIN heir h ON h.parent = t.relation
), source AS (
    -- own, draws: whether the owner of the root may drop the sequence, or draw from it.
    SELECT t.*, a.attnum AS number, a.attnotnull AS not_null, a.attidentity AS identity,
           p.expression, k.sequence,
           i.sequence IS NOT NULL OR d.of_core IS NOT NULL OR d.of_text IS NOT NULL AS of_postgres,
           replace(d.of_hilo[2], $$''$$, $$'$$) AS hilo,
           replace(d.of_text[1], $$''$$, $$'$$) AS late,
           s.relkind = 'S' AND pg_has_role(t.owner, s.relowner, 'USAGE') AS own,
           CASE s.relkind WHEN 'S' THEN pg_has_role(t.owner, s.relowner, 'USAGE')
                OR has_sequence_privilege(t.owner, s.oid, 'USAGE, UPDATE') END AS draws
      FROM tree t
     CROSS JOIN given g
      JOIN pg_attribute a
           ON a.attrelid = t.relation AND a.attname = t.column_name AND a.attnum > 0
              AND NOT a.attisdropped
      LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
      LEFT JOIN linked i
           ON i.relation = a.attrelid AND i.number = a.attnum AND i.deptype = 'i'
              AND a.attidentity <> ''
      -- The call may be in casts.
     CROSS JOIN LATERAL (
         SELECT $$(?:\)::(?:"(?:[^"]|"")*"|[a-z0-9_. ]|\([0-9, ]*\)|\[\])+)*$$ || '$' AS casts,
                $$'((?:[^']|'')*)'::$$ AS text,
                pg_get_expr(f.adbin, f.adrelid) AS expression,
                CASE a.attgenerated WHEN '' THEN pg_get_expr(f.adbin, f.adrelid) END AS plain) p
     CROSS JOIN LATERAL (
         SELECT regexp_match(p.plain, '^\(*nextval\(' || p.text || 'regclass\)' || p.casts)
                    AS of_core,
                regexp_match(p.plain,
                             '^\(*nextval\(\(' || p.text || 'text\)::regclass\)' || p.casts)
                    AS of_text,
                (SELECT m
                   FROM regexp_match(p.plain, '^\(*(.*)\.hilo_nextval(?:_always)?\(' || p.text
                                              || '(.*)\.hilo_sequence\)' || p.casts) m
                  WHERE m[1] = g.schema AND m[3] = g.schema) AS of_hilo) d
     CROSS JOIN LATERAL (
         SELECT CASE WHEN d.of_text IS NOT NULL
                     THEN parse_ident(replace(d.of_text[1], $$''$$, $$'$$)) END AS names) n
     CROSS JOIN LATERAL (
         SELECT CASE WHEN i.sequence IS NOT NULL THEN i.sequence
                     WHEN d.of_core IS NOT NULL
                     THEN (SELECT e.sequence
                             FROM feed e JOIN pg_class q ON q.oid = e.sequence AND q.relkind = 'S'
                            WHERE e.classid = 'pg_attrdef'::regclass AND e.objid = f.oid)
                     -- Such a name is looked up at each call.
                     ELSE (SELECT q.oid
                             FROM pg_class q JOIN pg_namespace m ON m.oid = q.relnamespace
                            WHERE q.relname = n.names[cardinality(n.names)]::name
                              AND CASE cardinality(n.names) WHEN 1 THEN m.oid = ANY (g.path)
                                       ELSE m.nspname = n.names[cardinality(n.names) - 1]::name END
                            ORDER BY array_position(g.path, m.oid) LIMIT 1) END AS sequence) k
      LEFT JOIN pg_class s ON s.oid = k.sequence
), moved AS (
    -- The columns themselves.
    SELECT s.*, c.relkind, c.relpersistence, c.relispartition, o.*
      FROM source s
      JOIN pg_class c ON c.oid = s.root
      JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL (
         SELECT format('%I.%I', n.nspname, c.relname) AS table_name,
                format('%I.%I.%I', n.nspname, c.relname, s.column_name) AS object) o
     WHERE s.relation = s.root
), drawn AS (
    -- The sequences of Postgres that feed them. is_main: not only those that inherit. heir: the
    -- owner of the tables or, if they have several, of the sequence, as whom the user acts.
    SELECT s.sequence, c.relname, n.nspname, c.relowner, c.relacl, c.relpersistence,
           min(s.late) AS late,
           format('%I.%I', n.nspname, c.relname) AS object,
           bool_or(s.relation = s.root) AS is_main, bool_or(s.own) AS own,
           bool_or(s.identity <> '') AS of_identity,
           CASE WHEN min(s.owner) = max(s.owner) THEN min(s.owner)
                WHEN pg_has_role(c.relowner, 'USAGE') THEN c.relowner
                ELSE quote_ident(current_user)::regrole::oid END AS heir
      FROM source s
      JOIN pg_class c ON c.oid = s.sequence
      JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE s.draws
     GROUP BY s.sequence, c.oid, n.oid
), successor (ordered) AS (
    -- Whether hilo's sequence is ordered: as the caller says, or if an old one is, by CACHE 1.
    SELECT COALESCE((SELECT g.ordered FROM given g), bool_or(q.seqcache = 1))
      FROM drawn d JOIN pg_sequence q ON q.seqrelid = d.sequence
)
