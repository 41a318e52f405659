-- hilo_check: what is wrong is SQL over the views. Functions in C say what only this server's
-- memory and an index know.

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

-- Each finding of hilo_check that the current user may see.
CREATE VIEW _hilo.hilo_finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        TABLE _hilo.hilo_state
    ), readable AS MATERIALIZED (
        SELECT q.id, q.name, q.increment, q.min_value, q.max_value, q.cycle, q.gapless,
               q.owner, q.owned_by, q.nodes, q.next_value, q.used_fraction, q.block_size,
               q.source, q.label
          FROM _hilo.hilo_reserved q
    ), source AS MATERIALIZED (
        -- hilo_attach has written these. Only who may act as the owner sees a query.
        SELECT q.id, q.name, q.label, m.client, m.first,
               w.part[2]::bigint AS size, w.part[3] AS counter,
               CASE WHEN m.origin IS NULL THEN w.part[2]::bigint ELSE 1 END AS increment
          FROM readable q
         CROSS JOIN LATERAL regexp_match(
             q.source,
             '^/[*] ([a-z-]+) of (-?[1-9][0-9]{0,17}) from (-?[0-9]+) [*]/') AS w (part)
          JOIN _hilo.hilo_mappers() m ON m.client = w.part[1]
         WHERE q.source IS NOT NULL AND pg_has_role(q.owner::oid, 'USAGE')
    ), counter AS MATERIALIZED (
        SELECT r.id, q.seqrelid::regclass AS name,
               -- A counter of blocks has not come to this value, or of values.
               (coalesce(pg_sequence_last_value(q.seqrelid), q.seqstart - q.seqincrement)::numeric
                + r.increment) * (r.size / r.increment) AS reached
          FROM source r
          JOIN pg_sequence q ON hashtextextended(q.seqrelid::regclass::text, 0)::text = r.counter
         WHERE r.size > 0 AND has_sequence_privilege(q.seqrelid, 'USAGE, SELECT')
    ), slot AS MATERIALIZED (
        SELECT t.*, t.in_slices + t.in_current + t.in_standby + t.in_returned AS ready
          FROM _hilo.hilo_stat_slots() t
         WHERE (SELECT s.no_memory IS NULL FROM state s)
    ), named AS MATERIALIZED (
        SELECT DISTINCT f.* FROM _hilo.hilo_column_defaults() f
    ), in_use AS MATERIALIZED (
        -- The columns that concern the caller: each that it has a privilege on, and all for those
        -- who may read everything. known: it may know of the column; readable: it may read all
        -- rows.
        SELECT d.*, s.id, s.label, s.min_value, s.max_value, s.increment, s.cycle,
               s.owner, s.owned_by, s.next_value, s.source IS NOT NULL AS has_source,
               c.relowner, c.relacl, a.attinhcount,
               coalesce(s.nodes, current_setting('hilo.node_count')::integer) AS nodes,
               -- A fix does nothing for a table's owner that he may not do himself.
               pg_has_role(c.relowner, s.owner::oid, 'USAGE') AS one_owner,
               format('%I.%I', n.nspname, c.relname) AS table_name, a.attname::text AS column_name,
               format('%I.%I.%I', n.nspname, c.relname, a.attname) AS object,
               h.high, -h.high - 1 AS low,
               concat_ws('.', n.nspname, concat_ws('_', c.relname, a.attname, 'seq')) AS own_name,
               -- Another table's column owns the sequence, and this one does not inherit.
               s.owned_by::text <> '-' AND a.attinhcount = 0 AND c.relkind IN ('r', 'p', 'f')
               AND NOT starts_with(s.owned_by::text, format('%I.%I.', n.nspname, c.relname))
                   AS of_other,
               c.relkind IN ('r', 'p', 'f') AS in_table, c.relkind IN ('r', 'p') AS is_stored,
               c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND h.high IS NOT NULL
               AND (v.readable OR w.all_readable) AS checked,
               _hilo.hilo_is_of_callers(c.oid) AS of_callers, v.known, v.readable
          FROM named d
          JOIN pg_class c ON c.oid = d.relation
          JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.number AND NOT a.attisdropped
          LEFT JOIN readable s ON s.name = d.name
         CROSS JOIN (SELECT _hilo.hilo_reads_all() AS all_readable) w
         CROSS JOIN LATERAL (
             SELECT CASE a.atttypid WHEN 'int2'::regtype THEN 32767
                                    WHEN 'int4'::regtype THEN 2147483647
                                    WHEN 'int8'::regtype THEN 9223372036854775807 END AS high) h
         CROSS JOIN LATERAL (
             SELECT has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES')
                        AS known,
                    has_schema_privilege(n.oid, 'USAGE')
                    AND has_column_privilege(c.oid, a.attnum, 'SELECT') AS readable) v
         WHERE (v.known OR w.all_readable) AND (s.id IS NOT NULL OR d.missing)
    ), furthest AS MATERIALIZED (
        -- Only a query sees the rows of a distributed table, and an index of the column makes it
        -- cheap. The numbers of workers that Citus gives by itself are beyond 2^48. Each operand
        -- has its type, so that no other operator fits better.
        SELECT a.answer::jsonb AS answer
          FROM (SELECT string_agg(
                           format('SELECT %L::pg_catalog.text, pg_catalog.%s(%I)::pg_catalog.int8 '
                                  'FROM %s WHERE %3$I OPERATOR(pg_catalog.<) '
                                  '281474976710656::pg_catalog.int8', c.object,
                                  CASE WHEN c.increment > 0 THEN 'max' ELSE 'min' END,
                                  c.column_name, c.table_name),
                           ' UNION ALL ') AS parts
                  FROM in_use c
                 WHERE c.of_callers AND c.checked AND c.readable
                   AND NOT c.has_source AND c.next_value IS NOT NULL
                   AND EXISTS (SELECT FROM pg_index i
                                WHERE i.indrelid = c.relation AND i.indkey[0] = c.number
                                  AND i.indisvalid AND i.indpred IS NULL)) p
         CROSS JOIN LATERAL _hilo.hilo_node_answers(format(
             'SELECT pg_catalog.json_object_agg(e.object, e.value) FROM (%s) AS e (object, value)',
             p.parts), false) a
         WHERE p.parts IS NOT NULL
    ), of_column (shown, object, severity, what, what_to_do, fix) AS (
        SELECT c.known, c.object, 'error',
               format('its default uses hilo sequence "%s", which does not exist', c.name),
               s.create_for_column,
               CASE WHEN s.alone AND c.is_stored
                    THEN format('SELECT * FROM %s.hilo_create_missing();', s.schema) END
          FROM in_use c
         CROSS JOIN state s
         WHERE c.id IS NULL
         UNION ALL
        SELECT c.known, c.object, 'warning',
               format('hilo sequence "%s" continues to %s, which the column''s type cannot hold',
                      c.name, CASE WHEN c.max_value > c.high THEN c.max_value
                                   ELSE c.min_value END),
               'Change the column''s type to bigint, or give the sequence the column''s data type '
               'with hilo_alter, so that a clear error is raised in time.', NULL
          FROM in_use c
         WHERE c.max_value > c.high OR c.min_value < c.low
         UNION ALL
        -- A copy of a table, or of a schema, draws from the sequence of the original, and loses its
        -- default with that.
        SELECT c.known, c.object, 'warning',
               format('its default draws from hilo sequence "%s", which column %s owns: DROP ... '
                      'CASCADE of that takes the default of this one along', c.name, c.owned_by),
               concat_ws(
                   ' ',
                   'If this table takes the place of the other, let it own the sequence:',
                   format('SELECT %s.hilo_alter(%L, owned_by => %L);', s.schema, c.name, c.object),
                   'If each is to count by itself, give this one a sequence of its own, beyond its '
                   'rows:',
                   format('BEGIN; ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s.hilo_nextval(%L); '
                          'SELECT * FROM %3$s.hilo_create_missing(); '
                          'SELECT %3$s.hilo_alter(%4$L, owned_by => %5$L); COMMIT;',
                          c.table_name, c.column_name, s.schema, c.own_name, c.object),
                   'If they are to share it, let neither own it:',
                   format('SELECT %s.hilo_alter(%L, owned_by => ''none'');', s.schema, c.name)),
               NULL
          FROM in_use c
         CROSS JOIN state s
         WHERE c.of_other
         UNION ALL
        SELECT c.readable, c.object, CASE WHEN u.failure IS NULL THEN 'error' ELSE 'warning' END,
               coalesce('its values cannot be read: ' || u.failure, format(
                   'its value %s is yet to %s hilo sequence "%s": inserts will fail or repeat it%s',
                   u.value,
                   coalesce('come from ' || o.name || ', the counter of', 'be served by'), c.name,
                   CASE WHEN u.partly
                        THEN '; without an index on the column, only the end of the table was '
                             'looked at' END)),
               CASE WHEN u.failure IS NOT NULL
                    THEN 'Find out what is wrong with the table''s files; if an index is damaged, '
                         'REINDEX it.'
                    WHEN c.has_source
                    THEN 'Set the counter beyond it with setval, as long as no mapper holds a '
                         'block.'
                    WHEN c.of_callers
                    THEN 'Let the coordinator continue beyond it with hilo_setval, and then run '
                         'hilo_create_on_all_nodes(name).'
                    WHEN c.nodes > 1 THEN format(s.pass, c.name, u.value)
                    WHEN v.leaves_enough THEN 'Let the sequence continue beyond it with hilo_sync.'
                    ELSE 'Find out whether the row is right: beyond its value, few or none are '
                         'left to the sequence. If it is, give the column another sequence, or '
                         'call hilo_sync.' END,
               CASE WHEN c.of_callers IS NULL AND NOT c.has_source AND c.nodes = 1
                         AND v.leaves_enough AND c.one_owner
                    THEN format('SELECT %1$s.hilo_sync(%2$L::%1$s.hilo_sequence, '
                                '%3$L::pg_catalog.regclass, %4$L::pg_catalog.name);',
                                s.schema, c.name, c.table_name, c.column_name) END
          FROM in_use c
         CROSS JOIN state s
         CROSS JOIN LATERAL (
             SELECT w.* FROM _hilo.hilo_unserved_values(c.relation, c.number, c.id) w
              WHERE c.of_callers IS NULL
              UNION ALL
             SELECT e.value, false, NULL
               FROM furthest f
              CROSS JOIN LATERAL (SELECT (f.answer ->> c.object)::bigint AS value) e
              WHERE e.value BETWEEN c.min_value AND c.max_value
                AND mod(e.value::numeric - c.next_value::numeric, c.increment) = 0
                AND (e.value - c.next_value) / c.increment >= 0) u
          LEFT JOIN counter o ON o.id = c.id
         -- Beyond a value near the end the sequence would be reported in turn.
         CROSS JOIN LATERAL (
             SELECT abs(u.value::numeric
                        - CASE WHEN c.increment > 0 THEN c.min_value ELSE c.max_value END)
                    < (c.max_value::numeric - c.min_value) * 0.8 AS leaves_enough) v
         -- Others draw from a counter too, so what lies beyond the position need not be wrong.
         WHERE c.checked AND (NOT c.has_source OR u.failure IS NOT NULL OR u.value >= o.reached)
    )
    -- Columns. Roles that may read everything are told how much there is to find about the others.
    SELECT CASE WHEN c.shown THEN format('column %s', c.object) ELSE 'a column' END AS object,
           c.severity,
           CASE WHEN c.shown THEN c.what
                ELSE 'this role may not see which column has this finding, nor what it is'
           END AS what,
           CASE WHEN c.shown THEN c.what_to_do
                ELSE 'Run hilo_check as a superuser, or grant the role pg_read_all_data.'
           END AS what_to_do,
           CASE WHEN c.shown THEN c.fix END AS fix
      FROM of_column c
     UNION ALL
    -- An inherited column has rows of the table above.
    SELECT c.label, 'note',
           format('it feeds %s columns: %s', count(*),
                  array_to_string((array_agg(c.object ORDER BY c.object COLLATE "C"))[1:10], ', ')),
           'Nothing, if the columns are meant to share it; CREATE TABLE ... (LIKE ... INCLUDING '
           'ALL) lets them. Otherwise give each its own with hilo_create and ALTER TABLE ... SET '
           'DEFAULT.', NULL
      FROM in_use c
     WHERE c.known AND c.in_table AND c.id IS NOT NULL AND c.attinhcount = 0
     GROUP BY c.label
    HAVING count(*) > 1 AND NOT coalesce(bool_or(c.of_other), false)
     UNION ALL
    -- A sequence whose owner column is gone need not have been used. A block that was read ahead is
    -- no use.
    SELECT 'sequences', 'note',
           format('no column uses %s of them: %s', count(*),
                  array_to_string((array_agg(format('"%s"', q.name) ORDER BY q.name))[1:10], ', ')),
           'Drop those that nothing else draws from: no application, no function, and no default '
           'that computes the name.', NULL
      FROM readable q
      LEFT JOIN slot t ON t.sequence = q.id
     WHERE CASE WHEN q.owned_by IS NULL
                THEN EXISTS (SELECT FROM _hilo.hilo_position p
                              WHERE p.sequence = q.id
                                AND (p.next_index > coalesce(t.ready, 0) OR p.epoch > 1))
                ELSE q.owned_by::text = '-' END
       AND NOT EXISTS (SELECT FROM named d WHERE d.name = q.name)
    HAVING count(*) > 0
     UNION ALL

    -- Sequences. First those of which the largest part is reserved, or half of it if the rest lasts
    -- for less than a week.
    SELECT q.label, coalesce(v.severity, 'warning'),
           format('%s %% of its values are reserved, up to its %s%s',
                  to_char(q.used_fraction * 100, 'FM990.00'),
                  CASE WHEN q.increment > 0 THEN concat('maximum ', q.max_value)
                       ELSE concat('minimum ', q.min_value) END,
                  CASE WHEN e.hours < 16800
                       THEN format('; at the current rate the rest lasts %s hours',
                                   e.hours::bigint) END),
           'Use hilo_alter to give the sequence a wider data type or wider bounds, and give the '
           'columns that it fills a wider type.', NULL
      FROM readable q
      LEFT JOIN slot t ON t.sequence = q.id
     CROSS JOIN LATERAL (
         SELECT (CASE WHEN q.increment > 0 THEN q.max_value ELSE q.min_value END - q.next_value)
                / q.increment / q.nodes / nullif(t.rate, 0) / 3600 AS hours) e
     CROSS JOIN LATERAL (SELECT _hilo.hilo_use_severity(q.used_fraction, q.cycle) AS severity) v
     WHERE NOT q.cycle AND (v.severity IS NOT NULL OR q.used_fraction >= 0.4 AND e.hours < 168)
     UNION ALL
    -- A restore without roles, for example, leaves these.
    SELECT min(q.label), 'warning',
           format('%s sequences, such as this one, belong to no role that exists', count(*)),
           'Give each of them an owner with hilo_set_owner; until then they belong to the '
           'superusers.', NULL
      FROM readable q
     WHERE NOT EXISTS (SELECT FROM pg_authid r WHERE r.oid = q.owner::oid)
    HAVING count(*) > 0
     UNION ALL
    SELECT q.label, 'error',
           format('reservations have failed %s times, last %s ago: %s', t.errors,
                  date_trunc('second', now() - t.last_error_at), t.last_error),
           'Remove the cause; hilo retries by itself. hilo_stat_reset clears the count.', NULL
      FROM slot t
      JOIN readable q ON q.id = t.sequence
     WHERE t.last_error_at > now() - '1 hour'::interval AND NOT t.source_failed
       AND t.sequence IN (SELECT unnest(s.failing) FROM state s)
     UNION ALL
    -- Sources.
    SELECT q.label, CASE WHEN t.sequence IS NULL THEN 'warning' ELSE 'error' END,
           format('its source has failed %s times since %s: %s', c.failures,
                  date_trunc('second', c.failing_since),
                  CASE WHEN pg_has_role(q.owner::oid, 'USAGE') THEN c.last_error
                       ELSE format('role %s, which owns the sequence, sees the error in '
                                   'hilo_stat_sources', pg_get_userbyid(q.owner::oid)) END),
           'Remove the cause; hilo asks again by itself. Until then the sequence serves what it '
           'holds.', NULL
      FROM _hilo.hilo_source c
      JOIN state s ON s.node = c.node
      JOIN readable q ON q.id = c.sequence AND q.source IS NOT NULL
      LEFT JOIN slot t ON t.sequence = c.sequence AND t.source_failed
                      AND t.sequence = ANY (s.failing)
                      AND t.last_error_at > now() - '1 hour'::interval
     WHERE c.failures > 0
       AND (c.failing_since < now() - '1 minute'::interval OR t.sequence IS NOT NULL)
     UNION ALL
    -- As sql/triggers.sql writes it.
    SELECT 'sequences', 'warning',
           format('%s sequences, such as "%s", have their source on the server that they were '
                  'replicated from: here they get no values', count(*), min(q.name COLLATE "C")),
           'Before or after this server takes over, attach each to its source here, with '
           'hilo_attach_server or hilo_attach, or give it numbers of its own beyond all that the '
           'source has brought, with hilo_detach(name, start).', NULL
      FROM readable q
     WHERE q.source LIKE '%/* the sequence has its source on another server */'
    HAVING count(*) > 0
     UNION ALL
    SELECT q.label, 'error',
           format('a copy of this server asked by its name until %s: both may have served the same '
                  'values', date_trunc('second', c.parted_at)),
           format('Stop the copy, or attach the sequence there again. What this server held then '
                  'is a gap. When the copy is gone, call hilo_attach_server for %s here, which '
                  'ends this message.', quote_ident(q.name)), NULL
      FROM _hilo.hilo_source c
      JOIN state s ON s.node = c.node
      JOIN readable q ON q.id = c.sequence AND q.source IS NOT NULL
     WHERE c.parted_at IS NOT NULL
     UNION ALL
    SELECT a.label, 'error',
           format('it takes blocks of %s from its counter as "%s", and sequence "%s" blocks of %s '
                  'as "%s": values come twice', a.size, a.client, o.name, o.size, o.client),
           'Find out which is the mapper''s way, and detach the other sequence with hilo_detach.',
           NULL
      FROM source a
      JOIN source o ON o.counter = a.counter AND o.name > a.name
     WHERE (a.first, a.size) <> (o.first, o.size)
       -- Who uses each number by itself collides with nobody who uses it as the first or last of a
       -- block.
       AND NOT ('core' IN (a.client, o.client) AND a.first IN ('value', 'value - size + 1')
                AND o.first IN ('value', 'value - size + 1'))
     UNION ALL
    -- Whoever leases has last been heard of then, or holds a lease that it would have to renew.
    SELECT format('holder %s', coalesce(quote_ident(l.holder), 'without a name')), 'note',
           format('it has %s leases without an end, such as one of "%s", and has taken none since '
                  '%s', count(*), min(q.name), date_trunc('second', max(l.leased_at))),
           'If it no longer exists, revoke its leases with hilo_lease_revoke: what it may have '
           'left unused becomes a gap.', NULL
      FROM _hilo.hilo_lease l
      JOIN readable q ON q.id = l.sequence
     WHERE l.ended IS NULL AND (l.expires_at IS NULL OR l.expires_at > clock_timestamp())
     GROUP BY l.holder
    HAVING bool_and(l.expires_at IS NULL) AND max(l.leased_at) < now() - '30 days'::interval
     UNION ALL
    -- hilo_adopt keeps a sequence that something else uses, or that another role owns. Values drawn
    -- from it are not looked at, which would wait for locks.
    SELECT r.label, CASE WHEN f.differs THEN 'warning' ELSE 'note' END,
           format('sequence %s of Postgres lives on beside it: whoever draws from that one gets '
                  'the same numbers%s', c.oid::regclass,
                  CASE WHEN f.differs
                       THEN format('; mappers take blocks of %s here, and INCREMENT BY there is %s',
                                   r.block_size, o.seqincrement) END),
           format('If no tool needs it to be there, let everything call hilo_nextval instead, and '
                  'drop it: DROP SEQUENCE %s. For mappers, block_size must be their allocation '
                  'size: with another one ids come twice.', c.oid::regclass), NULL
      FROM pg_sequence o
      JOIN pg_class c ON c.oid = o.seqrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN unnest(ARRAY[c.relname::text, concat_ws('.', n.nspname, c.relname)]) AS u (name)
      JOIN readable r ON r.name = u.name
     CROSS JOIN LATERAL (
         -- hilo_facade leaves this comment.
         SELECT r.block_size IS NOT NULL
                AND EXISTS (SELECT FROM pg_description d
                             WHERE d.classoid = 'pg_proc'::regclass
                               AND d.description LIKE 'facade of hilo for %') AS in_blocks) b
     CROSS JOIN LATERAL (
         SELECT b.in_blocks AND o.seqincrement NOT IN (1, r.block_size) AS differs) f
     WHERE b.in_blocks OR EXISTS (SELECT FROM named d WHERE d.name = r.name)
     UNION ALL
    -- Whoever may insert draws from a sequence that the column owns. From others he needs a
    -- privilege.
    SELECT format('role %s', CASE i.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(i.role) END),
           'warning',
           format('it may insert where the defaults of %s columns draw, such as %s from hilo '
                  'sequence "%s", and may not draw',
                  count(*), min(c.object), (array_agg(c.name ORDER BY c.object))[1]),
           'Grant it USAGE with hilo_grant, or let the columns own their sequences with '
           'hilo_alter(name, owned_by => ...).',
           CASE WHEN bool_and(c.one_owner)
                THEN format('SELECT %s.hilo_grant(s::%1$s.hilo_sequence, %L::pg_catalog.text, '
                            '''USAGE''::pg_catalog.text) '
                            'FROM pg_catalog.unnest(%L::pg_catalog.text[]) s;',
                            s.schema, i.role, array_agg(c.name ORDER BY c.object)) END
      FROM in_use c
     CROSS JOIN state s
     CROSS JOIN LATERAL (
         SELECT DISTINCT x.grantee,
                CASE x.grantee WHEN 0 THEN 'public'
                               ELSE pg_get_userbyid(x.grantee)::text END AS role
           FROM (SELECT coalesce(c.relacl, acldefault('r', c.relowner)) AS acl
                  UNION ALL
                 SELECT b.attacl
                   FROM pg_attribute b
                  WHERE b.attrelid = c.relation AND b.attacl IS NOT NULL) a
          CROSS JOIN LATERAL aclexplode(a.acl) x
          WHERE x.privilege_type = 'INSERT') i
     WHERE c.id IS NOT NULL AND c.known AND c.in_table
       AND (c.owned_by IS NULL OR c.attinhcount = 0 AND c.owned_by::text <> c.object)
       AND NOT EXISTS (SELECT FROM _hilo.hilo_privilege p
                        WHERE p.sequence = c.id AND p.privilege IN ('USAGE', 'UPDATE')
                          AND (p.grantee::oid = 0
                               OR pg_has_role(i.grantee, p.grantee::oid, 'USAGE')))
       AND NOT pg_has_role(i.grantee, c.owner::oid, 'USAGE')
       AND NOT pg_has_role(i.grantee, 'pg_write_all_data', 'USAGE')
     GROUP BY i.grantee, i.role, s.schema
     UNION ALL
    -- Positions of this node that may lack reservations from which values were served. pg_upgrade
    -- requires a clean shutdown, and leaves the server on its first timeline: what it brought lacks
    -- nothing.
    SELECT format('node %s', s.node), 'warning',
           format('%s positions of this node, such as that of "%s", %s',
                  count(*), min(q.name), v.what),
           'If the server that they come from is stopped permanently before this one serves, do '
           'nothing: the first use of each sequence skips hilo.failover_skip values. If both are '
           'to serve, give each its own hilo.node_id.', NULL
      FROM state s
      JOIN _hilo.hilo_position p ON p.node = s.node
      JOIN readable q ON q.id = p.sequence
     CROSS JOIN LATERAL (
         -- As core prints it: without a sign.
         SELECT mod(p.system_id + 18446744073709551616, 18446744073709551616) AS system_id) o
     CROSS JOIN LATERAL (
         SELECT CASE
             WHEN p.timeline < 0 AND p.incarnation = -1 AND p.system_id = s.system_id
             THEN 'were restored from a dump of a server at which they had arrived by replication'
             WHEN p.timeline < 0
             THEN format('arrived by replication from another server (%s)', o.system_id)
             WHEN p.system_id = s.system_id AND s.timeline NOT IN (0, p.timeline)
             THEN format('were last written on timeline %s, before this server was promoted or '
                         'copied', p.timeline)
             WHEN p.system_id NOT IN (0, s.system_id) AND s.timeline > 1 AND p.next_index > 0
             THEN format('were last written by the server %s, from which this server was made by '
                         'pg_createsubscriber, or by pg_upgrade before it was promoted',
                         o.system_id) END AS what) v
     WHERE v.what IS NOT NULL
     GROUP BY s.node, v.what
     UNION ALL
    SELECT q.label, CASE WHEN v.overlap THEN 'error' ELSE 'warning' END,
           format('numbered differently: here from %s with node count %s, by node %s from %s with '
                  'node count %s%s', o.base, o.nodes, p.node, p.base, p.nodes,
                  CASE WHEN v.overlap
                       THEN '; the values that the two have reserved may overlap' END),
           format('%s A node that is permanently gone can be left as it is.', s.restart), NULL
      FROM state s
      JOIN _hilo.hilo_position o ON o.node = s.node
      JOIN _hilo.hilo_position p ON p.sequence = o.sequence AND p.node <> o.node
      JOIN readable q ON q.id = p.sequence
     CROSS JOIN LATERAL (
         SELECT _hilo.hilo_value_at(
                    p.next_index - 1, p.base, q.increment, q.min_value, q.max_value, q.cycle,
                    p.node, p.nodes, p.stripe) AS their_last,
                _hilo.hilo_value_at(
                    o.next_index - 1, o.base, q.increment, q.min_value, q.max_value, q.cycle,
                    o.node, o.nodes, o.stripe) AS last) e
     CROSS JOIN LATERAL (
         SELECT p.next_index > 0 AND o.next_index > 0 AND NOT q.cycle
                AND greatest(p.base, e.their_last) >= least(o.base, e.last)
                AND greatest(o.base, e.last) >= least(p.base, e.their_last) AS overlap) v
     WHERE (p.base, p.nodes, p.stripe) <> (o.base, o.nodes, o.stripe)
     UNION ALL
    SELECT 'setting hilo.node_count', 'warning',
           format('%s sequences, such as "%s", are numbered for hilo.node_count = %s, but the '
                  'setting is %s', count(*), min(q.name), q.nodes, s.node_count),
           s.restart, NULL
      FROM state s
      JOIN readable q ON q.nodes <> s.node_count AND NOT q.gapless
     GROUP BY q.nodes, s.node_count, s.restart
     UNION ALL
    SELECT f.* FROM _hilo.hilo_server_finding f;
-- hilo_check reads it with its caller's rights.
REVOKE ALL ON _hilo.hilo_finding FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_finding TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_finding IS 'Findings of hilo_check that the current user may see';

CREATE FUNCTION @extschema@.hilo_check()
    RETURNS TABLE (object text, severity text, what text, what_to_do text, fix text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    SET search_path = pg_catalog, pg_temp SET jit = off
    -- Names of counters are compared with those that hilo_attach has read.
    SET quote_all_identifiers = off
BEGIN ATOMIC
    -- The worst come first.
    SELECT f.object, f.severity, f.what, f.what_to_do, f.fix
      FROM _hilo.hilo_finding f
     ORDER BY pg_catalog.array_position(ARRAY['error', 'warning', 'note'], f.severity),
              f.object COLLATE "C", f.what COLLATE "C";
END;
COMMENT ON FUNCTION @extschema@.hilo_check() IS
    'Reports problems, present or near, of the settings, and of the sequences and columns that '
    'the caller may see. Each finding is a row and says what to do. severity is error, warning, '
    'or note for what may be meant to be so. fix is a statement that mends it, as for psql''s '
    'gexec; null: there is none that is right for everyone. Roles that may read every sequence, '
    'such as members of pg_monitor, see findings about hidden columns too, without names. Returns '
    'no row if nothing was found.';
