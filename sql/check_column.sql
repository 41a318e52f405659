-- Findings of hilo_check about columns. Functions in C read this server's memory and the indexes.

CREATE FUNCTION _hilo.hilo_column_defaults()
    RETURNS TABLE (relation oid, number smallint, name text, missing boolean)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100
    AS 'MODULE_PATHNAME', 'hilo_column_defaults_wrapper';
COMMENT ON FUNCTION _hilo.hilo_column_defaults() IS
    'Returns the columns whose default names a sequence, the name, and whether there is no such '
    'sequence';

CREATE FUNCTION _hilo.hilo_unserved_values(relation oid, number smallint, sequence bigint)
    RETURNS TABLE (value bigint, partly boolean, failure text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'hilo_unserved_values_wrapper';
COMMENT ON FUNCTION _hilo.hilo_unserved_values(oid, smallint, bigint) IS
    'Returns the furthest value of a column that its sequence will still serve on this node, or '
    'why it cannot be read. partly: without an index on the column, only the last pages of the '
    'table were read';

CREATE FUNCTION _hilo.hilo_is_of_callers(relation oid) RETURNS boolean
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_of_callers_wrapper';
COMMENT ON FUNCTION _hilo.hilo_is_of_callers(oid) IS
    'Whether a distributed table and all that inherits from it belong to the caller or to '
    'superusers; then a query of it runs no code of others. Null: Citus does not distribute it';

-- Sequences whose source hilo_attach has written. Only who may act as the owner sees a query, and
-- only the other views may read it.
CREATE VIEW _hilo.hilo_attached AS
    SELECT s.id, s.name, s.label, m.client, m.first,
           comment.part[2]::bigint AS size, comment.part[3] AS counter,
           CASE WHEN m.origin IS NULL THEN comment.part[2]::bigint ELSE 1 END AS increment
      FROM _hilo.hilo_readable s
     CROSS JOIN LATERAL regexp_match(
         s.source,
         '^/[*] ([a-z-]+) of (-?[1-9][0-9]{0,17}) from (-?[0-9]+) [*]/') AS comment (part)
      JOIN _hilo.hilo_mapper m ON m.client = comment.part[1]
     WHERE s.source IS NOT NULL AND pg_has_role(s.owner::oid, 'USAGE');
REVOKE ALL ON _hilo.hilo_attached FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_attached IS
    'Sequences that take their values from the counter of a mapper. size: how many values a block '
    'of it has; increment: by how much a block moves the counter';

-- The columns that concern the caller: each that it has a privilege on, and all for those who may
-- read everything. Only the other views may read it.
CREATE VIEW _hilo.hilo_used_column AS
    SELECT d.relation, d.number, d.name, d.missing,
           s.id, s.label, s.min_value, s.max_value, s.increment, s.cycle,
           s.owner, s.owned_by, s.next_value, s.source IS NOT NULL AS has_source,
           c.relowner, c.relacl, a.attinhcount,
           coalesce(s.nodes, current_setting('hilo.node_count')::integer) AS nodes,
           -- A fix does nothing for a table's owner that he may not do himself.
           pg_has_role(c.relowner, s.owner::oid, 'USAGE') AS one_owner,
           format('%I.%I', n.nspname, c.relname) AS table_name, a.attname::text AS column_name,
           format('%I.%I.%I', n.nspname, c.relname, a.attname) AS object,
           type.high, -type.high - 1 AS low,
           concat_ws('.', n.nspname, concat_ws('_', c.relname, a.attname, 'seq')) AS own_name,
           -- Another table's column owns the sequence, and this one does not inherit.
           s.owned_by::text <> '-' AND a.attinhcount = 0 AND c.relkind IN ('r', 'p', 'f')
           AND NOT starts_with(s.owned_by::text, format('%I.%I.', n.nspname, c.relname))
               AS of_other,
           c.relkind IN ('r', 'p', 'f') AS in_table, c.relkind IN ('r', 'p') AS is_stored,
           c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND type.high IS NOT NULL
           AND (privilege.readable OR role.reads_all) AS checked,
           _hilo.hilo_is_of_callers(c.oid) AS of_callers, privilege.known, privilege.readable
      FROM (SELECT DISTINCT f.* FROM _hilo.hilo_column_defaults() f) d
      JOIN pg_class c ON c.oid = d.relation
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.number AND NOT a.attisdropped
      LEFT JOIN _hilo.hilo_reserved s ON s.name = d.name
     CROSS JOIN _hilo.hilo_reader role
     CROSS JOIN LATERAL (
         SELECT CASE a.atttypid WHEN 'int2'::regtype THEN 32767
                                WHEN 'int4'::regtype THEN 2147483647
                                WHEN 'int8'::regtype THEN 9223372036854775807 END AS high) type
     CROSS JOIN LATERAL (
         SELECT has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES')
                    AS known,
                has_schema_privilege(n.oid, 'USAGE')
                AND has_column_privilege(c.oid, a.attnum, 'SELECT') AS readable) privilege
     WHERE (privilege.known OR role.reads_all) AND (s.id IS NOT NULL OR d.missing);
REVOKE ALL ON _hilo.hilo_used_column FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_used_column IS
    'Columns whose default draws from a sequence, with the sequence. known: the caller may know '
    'of the column; readable: it may read all rows; checked: its values can be compared with '
    'those of the sequence';

CREATE VIEW _hilo.hilo_column_finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        TABLE _hilo.hilo_state
    ), used AS MATERIALIZED (
        TABLE _hilo.hilo_used_column
    ), counter AS MATERIALIZED (
        SELECT attached.id, q.seqrelid::regclass AS name,
               -- A counter of blocks has not come to this value, or of values.
               (coalesce(pg_sequence_last_value(q.seqrelid), q.seqstart - q.seqincrement)::numeric
                + attached.increment) * (attached.size / attached.increment) AS reached
          FROM _hilo.hilo_attached attached
          JOIN pg_sequence q
            ON hashtextextended(q.seqrelid::regclass::text, 0)::text = attached.counter
         WHERE attached.size > 0 AND has_sequence_privilege(q.seqrelid, 'USAGE, SELECT')
    ), furthest AS MATERIALIZED (
        -- Only a query sees the rows of a distributed table, and an index of the column makes it
        -- cheap. The numbers of workers that Citus gives by itself are beyond 2^48. Each operand
        -- has its type, so that no other operator fits better.
        SELECT coordinator.answer::jsonb AS answer
          FROM (SELECT string_agg(
                           format('SELECT %L::pg_catalog.text, pg_catalog.%s(%I)::pg_catalog.int8 '
                                  'FROM %s WHERE %3$I OPERATOR(pg_catalog.<) '
                                  '281474976710656::pg_catalog.int8', used.object,
                                  CASE WHEN used.increment > 0 THEN 'max' ELSE 'min' END,
                                  used.column_name, used.table_name),
                           ' UNION ALL ') AS parts
                  FROM used
                 WHERE used.of_callers AND used.checked AND used.readable
                   AND NOT used.has_source AND used.next_value IS NOT NULL
                   AND EXISTS (SELECT FROM pg_index i
                                WHERE i.indrelid = used.relation AND i.indkey[0] = used.number
                                  AND i.indisvalid AND i.indpred IS NULL)) query
         CROSS JOIN LATERAL _hilo.hilo_node_answers(format(
             'SELECT pg_catalog.json_object_agg(e.object, e.value) FROM (%s) AS e (object, value)',
             query.parts), false) coordinator
         WHERE query.parts IS NOT NULL
    ), of_column (shown, object, severity, what, what_to_do, fix) AS (
        SELECT used.known, used.object, 'error',
               format('its default uses hilo sequence "%s", which does not exist', used.name),
               state.create_for_column,
               CASE WHEN state.alone AND used.is_stored
                    THEN format('SELECT * FROM %s.hilo_create_missing();', state.schema) END
          FROM used
         CROSS JOIN state
         WHERE used.id IS NULL
         UNION ALL
        SELECT used.known, used.object, 'warning',
               format('hilo sequence "%s" continues to %s, which the column''s type cannot hold',
                      used.name, CASE WHEN used.max_value > used.high THEN used.max_value
                                      ELSE used.min_value END),
               'Change the column''s type to bigint, or give the sequence the column''s data type '
               'with hilo_alter, so that a clear error is raised in time.', NULL
          FROM used
         WHERE used.max_value > used.high OR used.min_value < used.low
         UNION ALL
        -- A copy of a table, or of a schema, draws from the sequence of the original, and loses its
        -- default with that.
        SELECT used.known, used.object, 'warning',
               format('its default draws from hilo sequence "%s", which column %s owns: DROP ... '
                      'CASCADE of that takes the default of this one along',
                      used.name, used.owned_by),
               concat_ws(
                   ' ',
                   'If this table takes the place of the other, let it own the sequence:',
                   format('SELECT %s.hilo_alter(%L, owned_by => %L);',
                          state.schema, used.name, used.object),
                   'If each is to count by itself, give this one a sequence of its own, beyond its '
                   'rows:',
                   format('BEGIN; ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.hilo_nextval(%L); '
                          'SELECT * FROM %3$s.hilo_create_missing(); '
                          'SELECT %3$s.hilo_alter(%4$L, owned_by => %5$L); COMMIT;',
                          used.table_name, used.column_name, state.schema, used.own_name,
                          used.object),
                   'If they are to share it, let neither own it:',
                   format('SELECT %s.hilo_alter(%L, owned_by => ''none'');',
                          state.schema, used.name)),
               NULL
          FROM used
         CROSS JOIN state
         WHERE used.of_other
         UNION ALL
        SELECT used.readable, used.object,
               CASE WHEN unserved.failure IS NULL THEN 'error' ELSE 'warning' END,
               coalesce('its values cannot be read: ' || unserved.failure, format(
                   'its value %s is yet to %s hilo sequence "%s": inserts will fail or repeat it%s',
                   unserved.value,
                   coalesce('come from ' || counter.name || ', the counter of', 'be served by'),
                   used.name,
                   CASE WHEN unserved.partly
                        THEN '; without an index on the column, only the end of the table was '
                             'looked at' END)),
               CASE WHEN unserved.failure IS NOT NULL
                    THEN 'Find out what is wrong with the table''s files; if an index is damaged, '
                         'REINDEX it.'
                    WHEN used.has_source
                    THEN 'Set the counter beyond it with setval, as long as no mapper holds a '
                         'block.'
                    WHEN used.of_callers
                    THEN 'Let the coordinator continue beyond it with hilo_setval, and then run '
                         'hilo_create_on_all_nodes(name).'
                    WHEN used.nodes > 1 THEN format(state.pass, used.name, unserved.value)
                    WHEN room.leaves_enough
                    THEN 'Let the sequence continue beyond it with hilo_sync.'
                    ELSE 'Find out whether the row is right: beyond its value, few or none are '
                         'left to the sequence. If it is, give the column another sequence, or '
                         'call hilo_sync.' END,
               CASE WHEN used.of_callers IS NULL AND NOT used.has_source AND used.nodes = 1
                         AND room.leaves_enough AND used.one_owner
                    THEN format('SELECT %1$s.hilo_sync(%2$L::%1$s.hilo_sequence, '
                                '%3$L::pg_catalog.regclass, %4$L::pg_catalog.name);',
                                state.schema, used.name, used.table_name, used.column_name) END
          FROM used
         CROSS JOIN state
         CROSS JOIN LATERAL (
             SELECT own.* FROM _hilo.hilo_unserved_values(used.relation, used.number, used.id) own
              WHERE used.of_callers IS NULL
              UNION ALL
             SELECT drawn.value, false, NULL
               FROM furthest
              CROSS JOIN LATERAL (SELECT (furthest.answer ->> used.object)::bigint AS value) drawn
              WHERE drawn.value BETWEEN used.min_value AND used.max_value
                AND mod(drawn.value::numeric - used.next_value::numeric, used.increment) = 0
                AND (drawn.value - used.next_value) / used.increment >= 0) unserved
          LEFT JOIN counter ON counter.id = used.id
         -- After a move beyond a value near the end, the sequence would be reported as nearly used
         -- up.
         CROSS JOIN LATERAL (
             SELECT abs(unserved.value::numeric
                        - CASE WHEN used.increment > 0 THEN used.min_value ELSE used.max_value END)
                    < (used.max_value::numeric - used.min_value) * 0.8 AS leaves_enough) room
         -- Others draw from a counter too, so rows beyond the position need not be wrong.
         WHERE used.checked
           AND (NOT used.has_source OR unserved.failure IS NOT NULL
                OR unserved.value >= counter.reached)
    )
    -- Columns. Roles that may read everything are told how much there is to find about the others.
    SELECT CASE WHEN finding.shown THEN format('column %s', finding.object)
                ELSE 'a column' END AS object,
           finding.severity,
           CASE WHEN finding.shown THEN finding.what
                ELSE 'this role may not see which column has this finding, nor what it is'
           END AS what,
           CASE WHEN finding.shown THEN finding.what_to_do
                ELSE 'Run hilo_check as a superuser, or grant the role pg_read_all_data.'
           END AS what_to_do,
           CASE WHEN finding.shown THEN finding.fix END AS fix
      FROM of_column finding
     UNION ALL
    -- An inherited column has rows of the table above.
    SELECT used.label, 'note',
           format('it feeds %s columns: %s', count(*),
                  array_to_string((array_agg(used.object ORDER BY used.object COLLATE "C"))[1:10],
                                  ', ')),
           'Nothing, if the columns are meant to share it; CREATE TABLE ... (LIKE ... INCLUDING '
           'ALL) lets them. Otherwise give each its own with hilo_create and ALTER TABLE ... SET '
           'DEFAULT.', NULL
      FROM used
     WHERE used.known AND used.in_table AND used.id IS NOT NULL AND used.attinhcount = 0
     GROUP BY used.label
    HAVING count(*) > 1 AND NOT coalesce(bool_or(used.of_other), false)
     UNION ALL
    -- Whoever may insert draws from a sequence that the column owns. From others he needs a
    -- privilege.
    SELECT format('role %s', CASE inserter.grantee WHEN 0 THEN 'PUBLIC'
                                                   ELSE quote_ident(inserter.role) END),
           'warning',
           format('it may insert where the defaults of %s columns draw, such as %s from hilo '
                  'sequence "%s", and may not draw',
                  count(*), min(used.object), (array_agg(used.name ORDER BY used.object))[1]),
           'Grant it USAGE with hilo_grant, or let the columns own their sequences with '
           'hilo_alter(name, owned_by => ...).',
           CASE WHEN bool_and(used.one_owner)
                THEN format('SELECT %s.hilo_grant(s::%1$s.hilo_sequence, %L::pg_catalog.text, '
                            '''USAGE''::pg_catalog.text) '
                            'FROM pg_catalog.unnest(%L::pg_catalog.text[]) s;',
                            state.schema, inserter.role,
                            array_agg(used.name ORDER BY used.object)) END
      FROM used
     CROSS JOIN state
     CROSS JOIN LATERAL (
         SELECT DISTINCT granted.grantee,
                CASE granted.grantee WHEN 0 THEN 'public'
                                     ELSE pg_get_userbyid(granted.grantee)::text END AS role
           FROM (SELECT coalesce(used.relacl, acldefault('r', used.relowner)) AS acl
                  UNION ALL
                 SELECT a.attacl
                   FROM pg_attribute a
                  WHERE a.attrelid = used.relation AND a.attacl IS NOT NULL) list
          CROSS JOIN LATERAL aclexplode(list.acl) granted
          WHERE granted.privilege_type = 'INSERT') inserter
     WHERE used.id IS NOT NULL AND used.known AND used.in_table
       AND (used.owned_by IS NULL OR used.attinhcount = 0 AND used.owned_by::text <> used.object)
       AND NOT EXISTS (SELECT FROM _hilo.hilo_privilege granted
                        WHERE granted.sequence = used.id
                          AND granted.privilege IN ('USAGE', 'UPDATE')
                          AND (granted.grantee::oid = 0
                               OR pg_has_role(inserter.grantee, granted.grantee::oid, 'USAGE')))
       AND NOT pg_has_role(inserter.grantee, used.owner::oid, 'USAGE')
       AND NOT pg_has_role(inserter.grantee, 'pg_write_all_data', 'USAGE')
     GROUP BY inserter.grantee, inserter.role, state.schema;
REVOKE ALL ON _hilo.hilo_column_finding FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_column_finding IS
    'Findings of hilo_check about columns, and about roles that insert into them';
