-- hilo_adopt_all and hilo_adopt_sequence: many columns at once, over the functions for one column.

CREATE FUNCTION _hilo.hilo_has_word(source text, word text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN pg_catalog.strpos(pg_catalog.lower(source), pg_catalog.lower(word)) > 0
       AND (word ~ '[^[:alnum:]_]'
            OR pg_catalog.lower(word) = ANY (
                   pg_catalog.regexp_split_to_array(pg_catalog.lower(source), '[^[:alnum:]_]+')));
COMMENT ON FUNCTION _hilo.hilo_has_word(text, text) IS
    'Whether a text contains a word, in whatever case';

CREATE FUNCTION _hilo.hilo_asking_triggers(relation oid) RETURNS TABLE (code text, what text)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT p.prosrc, pg_catalog.format(
               '%s (%s calls %s)', pg_catalog.pg_describe_object(2620::oid, t.oid, 0),
               pg_catalog.pg_describe_object(1255::oid, p.oid, 0), pg_catalog.lower(a.asks[1]))
      FROM pg_catalog.pg_trigger t
      JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
     CROSS JOIN LATERAL pg_catalog.regexp_match(
         p.prosrc, '[[:<:]](currval|lastval|nextval|setval|pg_get_serial_sequence)[[:>:]]', 'i'
         ) AS a (asks)
     -- A partition has copies of its table's triggers.
     WHERE t.tgrelid = hilo_asking_triggers.relation AND NOT t.tgisinternal
       AND t.tgparentid = 0::oid AND a.asks IS NOT NULL;
END;
COMMENT ON FUNCTION _hilo.hilo_asking_triggers(oid) IS
    'Returns the triggers of a table whose function calls one of the functions of core''s '
    'sequences, with its text';

CREATE FUNCTION _hilo.hilo_mentions(sequence oid) RETURNS TABLE (what text, sure boolean)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    WITH named AS (
        SELECT c.relname::text AS name FROM pg_catalog.pg_class c WHERE c.oid = sequence
    ), fed AS (
        SELECT DISTINCT c.oid, c.relname::text AS name
          FROM _hilo.hilo_core_feed f
          JOIN pg_catalog.pg_class c ON c.oid = f.relation
         WHERE f.sequence = hilo_mentions.sequence
    ), code AS (
        SELECT p.oid, p.prosrc
          FROM pg_catalog.pg_proc p
          JOIN pg_catalog.pg_language l ON l.oid = p.prolang
         WHERE l.lanname NOT IN ('internal'::name, 'c'::name)
           -- Leaves out those of Postgres and of extensions.
           AND p.oid >= 16384::oid
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                            WHERE d.classid = 1255::oid AND d.objid = p.oid AND d.deptype = 'e')
    )
    SELECT m.what, pg_catalog.bool_or(m.sure) AS sure
      FROM (
          -- Postgres itself knows views, rules, triggers, policies, domains, and functions with a
          -- body of SQL.
          SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid), true
            FROM pg_catalog.pg_depend d
           WHERE d.refclassid = 1259::oid AND d.refobjid = hilo_mentions.sequence
             AND d.deptype = 'n' AND d.classid <> 2604::oid
           UNION ALL
          -- All other functions show their sequences in their text only.
          SELECT pg_catalog.pg_describe_object(1255::oid, p.oid, 0), true
            FROM code p
            JOIN named n ON _hilo.hilo_has_word(p.prosrc, n.name)
           UNION ALL
          -- A computed name does not show, so the name of the table is taken for a sign.
          SELECT pg_catalog.pg_describe_object(1255::oid, p.oid, 0),
                 p.prosrc ~* '[[:<:]](lastval|pg_get_serial_sequence)[[:>:]]'
            FROM code p
            JOIN fed n
              ON _hilo.hilo_has_word(p.prosrc, n.name)
             AND p.prosrc ~*
                 '[[:<:]](currval|lastval|nextval|setval|pg_get_serial_sequence)[[:>:]]'
           UNION ALL
          SELECT pg_catalog.pg_describe_object(1247::oid, t.oid, 0), true
            FROM pg_catalog.pg_type t
            JOIN named n ON _hilo.hilo_has_word(t.typdefault, n.name)
           UNION ALL
          SELECT pg_catalog.pg_describe_object(2620::oid, t.oid, 0), true
            FROM pg_catalog.pg_trigger t
            JOIN named n ON _hilo.hilo_has_word(pg_catalog.encode(t.tgargs, 'escape'), n.name)
           UNION ALL
          SELECT a.what, false
            FROM fed f
           CROSS JOIN LATERAL _hilo.hilo_asking_triggers(f.oid) a
           WHERE NOT EXISTS (SELECT FROM named n WHERE _hilo.hilo_has_word(a.code, n.name))
           ) AS m (what, sure)
     GROUP BY m.what
     ORDER BY m.what;
END;
COMMENT ON FUNCTION _hilo.hilo_mentions(oid) IS
    'Returns the objects that draw from a sequence of Postgres, besides column defaults. They '
    'depend on it, or have its name in their text. Others are functions that call lastval or '
    'pg_get_serial_sequence and name a table that it feeds. sure: false for guesses. Guesses are '
    'functions that call currval, nextval or setval and name such a table, and triggers of it '
    'whose function calls one of these';

CREATE FUNCTION _hilo.hilo_adopt_sequence(
    sequence regclass, name @extschema@.hilo_sequence, ordered boolean, mentions text
)
    RETURNS @extschema@.hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_adopt_columns_wrapper';
COMMENT ON FUNCTION _hilo.hilo_adopt_sequence(regclass, @extschema@.hilo_sequence, boolean, text) IS
    'hilo_adopt for all columns that a sequence feeds, with a NOTICE of what else mentions it';

CREATE FUNCTION @extschema@.hilo_adopt_sequence(
    sequence regclass, name @extschema@.hilo_sequence DEFAULT NULL, ordered boolean DEFAULT NULL
)
    RETURNS @extschema@.hilo_sequence
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN _hilo.hilo_adopt_sequence(sequence, name, ordered, (
        SELECT pg_catalog.string_agg(m.what || CASE WHEN m.sure THEN '' ELSE ', perhaps' END,
                                     pg_catalog.chr(10))
          FROM _hilo.hilo_mentions(sequence::oid) m));
COMMENT ON FUNCTION @extschema@.hilo_adopt_sequence(regclass, @extschema@.hilo_sequence, boolean) IS
    'Makes all columns that a sequence of Postgres feeds draw from one new hilo sequence, as '
    'hilo_adopt does for one column, and returns its name. ordered: as for hilo_adopt. The new '
    'sequence continues beyond the old one and beyond the values of all the columns. The owner of '
    'the tables owns it; if they have several, the owner of the old one. A NOTICE lists '
    'functions, views, rules, triggers, policies and domains that still name the old one, as far '
    'as their text or Postgres tells. It also lists objects that perhaps draw from it. Requires '
    'ownership of all the tables. Changes nothing if one of the columns cannot be moved. Errors: '
    'as for hilo_adopt, 55000 if it feeds no column.';

CREATE FUNCTION _hilo.hilo_core_fed(schema oid)
    RETURNS TABLE (
        relation oid, number smallint, sequence oid, parent oid,
        several boolean, elsewhere text, leader text, objects text
    )
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    WITH fed AS MATERIALIZED (
        SELECT f.relation, f.number, pg_catalog.min(f.sequence) AS sequence
          FROM _hilo.hilo_core_feed f
         GROUP BY f.relation, f.number
    ), heir AS MATERIALIZED (
        SELECT fed.relation, fed.number, pg_catalog.min(i.inhparent) AS parent
          FROM fed
          JOIN pg_catalog.pg_attribute a ON a.attrelid = fed.relation AND a.attnum = fed.number
          JOIN pg_catalog.pg_inherits i ON i.inhrelid = fed.relation
          JOIN pg_catalog.pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname
          JOIN fed above ON above.relation = p.attrelid AND above.number = p.attnum
         GROUP BY fed.relation, fed.number
    ), root AS (
        SELECT fed.sequence, c.relnamespace <> hilo_core_fed.schema AS elsewhere,
               pg_catalog.format('%s.%I', fed.relation::regclass::text, a.attname) AS object
          FROM fed
          JOIN pg_catalog.pg_class c ON c.oid = fed.relation
          JOIN pg_catalog.pg_attribute a ON a.attrelid = fed.relation AND a.attnum = fed.number
         WHERE NOT EXISTS (SELECT FROM heir
                            WHERE heir.relation = fed.relation AND heir.number = fed.number)
    ), shared AS (
        SELECT root.sequence, pg_catalog.count(*) > 1 AS several,
               pg_catalog.min(root.object) FILTER (WHERE root.elsewhere) AS elsewhere,
               pg_catalog.min(root.object) AS leader,
               pg_catalog.string_agg(root.object, ', ' ORDER BY root.object) AS objects
          FROM root
         GROUP BY root.sequence
    )
    SELECT fed.relation, fed.number, fed.sequence, heir.parent,
           shared.several, shared.elsewhere, shared.leader, shared.objects
      FROM fed
      LEFT JOIN heir ON heir.relation = fed.relation AND heir.number = fed.number
      LEFT JOIN shared ON shared.sequence = fed.sequence;
END;
COMMENT ON FUNCTION _hilo.hilo_core_fed(oid) IS
    'Returns all columns that a sequence of Postgres feeds. parent: the table from which the '
    'column has its default. several: whether the sequence feeds several columns, without those '
    'that have it from a parent. objects: these columns; leader: the first; elsewhere: one in '
    'another schema';

CREATE FUNCTION _hilo.hilo_drawing_columns(schema oid)
    RETURNS TABLE (
        relation oid, column_name name, object text, name text, missing text,
        sequence oid, parent oid, several boolean, elsewhere text, leader text, objects text,
        owned oid, domain oid, of_domain text
    )
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    WITH fed AS MATERIALIZED (
        SELECT f.* FROM _hilo.hilo_core_fed(schema) f
    ), owned AS (
        -- Sequences from which no default draws, though a column owns them.
        SELECT d.refobjid AS relation, d.refobjsubid::smallint AS number,
               pg_catalog.min(d.objid) AS sequence
          FROM pg_catalog.pg_depend d
          JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S'
         WHERE d.classid = 1259::oid AND d.refclassid = 1259::oid
           AND d.deptype = 'a' AND d.refobjsubid > 0
           AND NOT EXISTS (SELECT FROM fed WHERE fed.sequence = d.objid)
         GROUP BY d.refobjid, d.refobjsubid
    ), drawn AS (
        SELECT d.relation, d.number, pg_catalog.min(d.name) AS name,
               pg_catalog.min(d.name) FILTER (WHERE d.missing) AS missing
          FROM _hilo.hilo_column_defaults() d
         GROUP BY d.relation, d.number
    )
    SELECT c.oid, a.attname, pg_catalog.format('%s.%I', c.oid::regclass::text, a.attname),
           drawn.name, drawn.missing, fed.sequence, fed.parent,
           fed.several, fed.elsewhere, fed.leader, fed.objects,
           CASE WHEN own.draws IS NOT TRUE THEN owned.sequence END,
           t.oid, CASE WHEN e.oid IS NULL THEN t.typdefault END
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0::smallint
                                    AND NOT a.attisdropped
      LEFT JOIN pg_catalog.pg_attrdef e ON e.adrelid = c.oid AND e.adnum = a.attnum
      LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid AND t.typtype = 'd'
                                    AND c.relkind <> 'v'
      LEFT JOIN fed ON fed.relation = c.oid AND fed.number = a.attnum
      LEFT JOIN owned ON owned.relation = c.oid AND owned.number = a.attnum
      LEFT JOIN drawn ON drawn.relation = c.oid AND drawn.number = a.attnum
     CROSS JOIN LATERAL (
         SELECT COALESCE(pg_catalog.pg_get_expr(e.adbin, e.adrelid), t.typdefault)
                ~ 'nextval[(]' AS draws) own
     WHERE c.relnamespace = hilo_drawing_columns.schema AND c.relkind IN ('r', 'p', 'f', 'v')
       AND (fed.sequence IS NOT NULL OR owned.sequence IS NOT NULL OR drawn.name IS NOT NULL
            OR own.draws);
END;
COMMENT ON FUNCTION _hilo.hilo_drawing_columns(oid) IS
    'Returns the columns of a schema that draw from a sequence, or may. name: the hilo sequence; '
    'missing: that sequence, if it does not exist. sequence: the sequence of Postgres, with what '
    '_hilo.hilo_core_fed() says of it. owned: a sequence that the column owns and from which no '
    'default draws. of_domain: the default of the column''s domain';

CREATE FUNCTION _hilo.hilo_adoptable(schema oid)
    RETURNS TABLE (
        place bigint, relation regclass, column_name name, sequence regclass, follows boolean,
        name text, action text, detail text
    )
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    SELECT pg_catalog.row_number() OVER (
               -- The columns of a shared sequence follow the first of them.
               ORDER BY COALESCE(CASE WHEN c.parent IS NULL THEN c.leader END,
                                 c.object) COLLATE "C",
                        c.object <> c.leader, c.object COLLATE "C") AS place,
           c.relation::regclass, c.column_name, c.sequence::regclass,
           c.leader IS NOT NULL AND c.parent IS NULL AND c.object <> c.leader, c.name,
           CASE WHEN c.name IS NOT NULL OR c.parent IS NOT NULL
                     OR c.of_domain ~ 'hilo_nextval[(]' THEN 'skip'
                WHEN c.sequence IS NULL AND (c.of_domain IS NOT NULL OR c.owned IS NOT NULL)
                     OR e.extension IS NOT NULL
                     OR c.several AND c.elsewhere IS NOT NULL THEN 'refuse' END,
           CASE WHEN c.missing IS NOT NULL
                THEN pg_catalog.format('its default names hilo sequence "%s", which does not '
                                       'exist: use hilo_create_missing', c.missing)
                WHEN c.name IS NOT NULL OR c.of_domain ~ 'hilo_nextval[(]'
                THEN 'hilo feeds it already'
                WHEN c.parent IS NOT NULL
                THEN pg_catalog.format('it goes along with %s', c.parent::regclass::text)
                WHEN c.sequence IS NULL AND c.of_domain IS NOT NULL
                THEN pg_catalog.format('its domain %s has the default %s: use hilo_create, with '
                                       'ordered => true and its next value, and ALTER DOMAIN',
                                       c.domain::regtype::text, c.of_domain)
                WHEN c.sequence IS NULL AND c.owned IS NOT NULL
                THEN pg_catalog.format('it owns sequence %1$s, but its default does not draw from '
                                       'it: a trigger or a program may. Give it the default '
                                       'nextval(%1$L) in place of that, and adopt it then',
                                       c.owned::regclass::text)
                WHEN e.extension IS NOT NULL
                THEN pg_catalog.format('its table belongs to extension %I', e.extension)
                WHEN c.several AND c.elsewhere IS NOT NULL
                THEN pg_catalog.format('sequence %s feeds columns of other schemas too, such as '
                                       '%s: use hilo_adopt_sequence',
                                       c.sequence::regclass::text, c.elsewhere)
                WHEN c.sequence IS NOT NULL
                THEN pg_catalog.format('sequence %s', c.sequence::regclass::text)
                     || CASE WHEN c.several
                             THEN ', with all that it feeds: ' || c.objects ELSE '' END END
      FROM _hilo.hilo_drawing_columns(schema) c
      LEFT JOIN LATERAL (
          SELECT pg_catalog.min(x.extname::text) AS extension
            FROM pg_catalog.pg_depend d
            JOIN pg_catalog.pg_extension x ON x.oid = d.refobjid
           WHERE d.classid = 1259::oid AND d.objid = c.relation
             AND d.refclassid = 3079::oid AND d.deptype = 'e') e ON true
     ORDER BY place;
END;
COMMENT ON FUNCTION _hilo.hilo_adoptable(oid) IS
    'Returns the columns of a schema that draw from a sequence of Postgres or of hilo''s. action: '
    'what hilo_adopt_all does without trying. follows: it goes along with the row before it';

CREATE FUNCTION _hilo.hilo_try_adopt(
    relation regclass, column_name name, sequence regclass, ordered boolean, dry_run boolean,
    OUT name text, OUT failure text, OUT said text, OUT kind text
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_try_adopt_wrapper';
COMMENT ON FUNCTION _hilo.hilo_try_adopt(regclass, name, regclass, boolean, boolean) IS
    'hilo_adopt for a column or, with a sequence, for all columns that it feeds. Returns the name '
    'of the new sequence and what hilo_adopt tells, or the error. kind: ordered or unordered. '
    'dry_run: only checks what can be checked without a lock';

CREATE FUNCTION @extschema@.hilo_adopt_all(
    schema name, dry_run boolean DEFAULT false, ordered boolean DEFAULT NULL
)
    RETURNS TABLE (relation regclass, column_name name, name text, action text, detail text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    -- One row after the other, because the objects that name a sequence must be looked up before it
    -- is gone.
    WITH found AS MATERIALIZED (
        SELECT a.*,
               CASE WHEN a.action IS NULL AND NOT a.follows THEN ARRAY(
                   SELECT pg_catalog.format(
                              CASE WHEN m.sure THEN '%s still names sequence %s: let it use'
                                   ELSE '%s may ask for sequence %s: let it use, if so,' END,
                              m.what, a.sequence::text)
                     FROM _hilo.hilo_mentions(a.sequence::oid) m) END AS mentions
          FROM _hilo.hilo_adoptable(pg_catalog.quote_ident(schema::text)::regnamespace::oid) a
    ), tried AS MATERIALIZED (
        SELECT f.place, f.sequence, f.mentions, t.name, t.failure, t.said,
               'the new one is ' || t.kind AS kind
          FROM found f
         CROSS JOIN LATERAL _hilo.hilo_try_adopt(
             f.relation, f.column_name, f.sequence, ordered, dry_run) t
         WHERE f.action IS NULL AND NOT f.follows
    )
    SELECT r.relation, r.column_name, r.name, r.action, r.detail
      FROM (SELECT f.place, 0 AS part, f.relation, f.column_name, COALESCE(f.name, t.name) AS name,
                   COALESCE(f.action, CASE WHEN t.failure IS NULL THEN 'adopt'
                                           ELSE 'refuse' END) AS action,
                   COALESCE(t.failure, pg_catalog.concat_ws(
                       '; ', f.detail, t.kind,
                       CASE WHEN NOT f.follows THEN t.said END)) AS detail
              FROM found f
              LEFT JOIN tried t
                     ON f.action IS NULL
                    AND (t.place = f.place OR f.follows AND t.sequence::oid = f.sequence::oid)
             UNION ALL
            SELECT t.place, 1, NULL::regclass, NULL::name, t.name, 'change',
                   pg_catalog.format('%s hilo sequence "%s"', m.what, t.name)
              FROM tried t
             CROSS JOIN LATERAL pg_catalog.unnest(t.mentions) AS m (what)
             WHERE t.failure IS NULL
             UNION ALL
            -- Only the trigger itself knows from what it draws.
            SELECT 9223372036854775807::bigint, 2, NULL::regclass, NULL::name, NULL::text, 'change',
                   pg_catalog.format(
                       '%s: look what it draws or asks for, since only defaults move', a.what)
              FROM pg_catalog.pg_class c
             CROSS JOIN LATERAL _hilo.hilo_asking_triggers(c.oid) a
             WHERE c.relnamespace = pg_catalog.quote_ident(schema::text)::regnamespace::oid
               AND NOT EXISTS (SELECT FROM found f
                                WHERE f.relation::oid = c.oid AND f.action IS NULL)) r
     ORDER BY r.place, r.part, r.detail COLLATE "C";
END;
COMMENT ON FUNCTION @extschema@.hilo_adopt_all(name, boolean, boolean) IS
    'Calls hilo_adopt or hilo_adopt_sequence for each column of a schema that a sequence of '
    'Postgres feeds. Returns a row for each column that draws from any sequence. action: adopt; '
    'skip, if hilo feeds it or should, or it follows the table that it inherits from; refuse, for '
    'a reason that detail has, such as a domain that draws; change, without a column, for an '
    'object that still names an old sequence, as hilo_adopt_sequence lists it. The same for a '
    'trigger of another table that calls nextval, currval or the like. A column that owns a '
    'sequence, from which only a trigger may draw, is refused. detail also has the notices and '
    'warnings of hilo_adopt. dry_run: changes and locks nothing, and returns the same rows, as '
    'far as that can be told without locks. ordered: as for hilo_adopt. Requires ownership of '
    'each table: the others are refused. Errors: 3F000 if the schema does not exist.';
