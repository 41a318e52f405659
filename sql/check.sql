-- hilo_check: what is wrong is SQL over the views. Functions in C say what only this server's memory, its settings
-- and an index know. As in views.sql, operands have exactly the types of core's own operators.

CREATE FUNCTION hilo.column_defaults() RETURNS TABLE (relation oid, number smallint, name text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'hilo_column_defaults_wrapper';
COMMENT ON FUNCTION hilo.column_defaults() IS 'Returns the columns whose default names a sequence, and the name';

CREATE FUNCTION hilo.unserved_values(relation oid, number smallint, sequence bigint)
    RETURNS TABLE (node integer, value bigint, failure text, advice text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'hilo_unserved_values_wrapper';
COMMENT ON FUNCTION hilo.unserved_values(oid, smallint, bigint) IS
    'Returns the furthest value of a column that its sequence will still serve, or why it cannot be read. One row is '
    'for this node (node is null), the others for nodes whose positions replication brings';

-- The lists that texts contain: a, b and c, or a, b and 7 more.
CREATE FUNCTION hilo.listed(names text[], count bigint) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN count > pg_catalog.cardinality(names)
                THEN pg_catalog.format('%s and %s more', pg_catalog.array_to_string(names, ', '),
                                       count - pg_catalog.cardinality(names))
                WHEN count = 1 THEN names[1]
                ELSE pg_catalog.format('%s and %s', pg_catalog.array_to_string(
                         pg_catalog.trim_array(names, 1), ', '), names[count::integer])
           END;
COMMENT ON FUNCTION hilo.listed(text[], bigint) IS 'Lists the first of so many names for a message';

-- Each finding of hilo_check that the current user may see.
CREATE VIEW hilo.finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        SELECT s.*, e.extnamespace::pg_catalog.regnamespace AS schema,
               -- Every argument has its type, so that no other function fits better.
               'SELECT %1$s.hilo_alter(%2$L::%1$s.hilo_sequence, NULL::pg_catalog.int8, NULL::pg_catalog.int8, '
               '%3$L::pg_catalog.int8, %4$L::pg_catalog.int8, %5$L::pg_catalog.regtype, NULL::pg_catalog.bool, '
               'NULL::pg_catalog.bool, NULL::pg_catalog.int8, NULL::pg_catalog.int8, NULL::pg_catalog.text, '
               'NULL::pg_catalog.int8, NULL::pg_catalog.bool, NULL::pg_catalog.text);' AS set_bounds
          FROM hilo.server_state() r
          JOIN pg_catalog.pg_extension e ON e.extname = 'hilo'
         CROSS JOIN LATERAL pg_catalog.jsonb_to_record(r) AS s (
                   node integer, node_count integer, unset text, unset_hint text, system_id bigint, timeline integer,
                   no_memory text, slots integer, slots_taken integer, slots_scarce boolean, failing bigint[],
                   no_worker_for bigint, twin_seen_for bigint, background_workers bigint, sampled_once boolean,
                   sessions text, sessions_unknown boolean, sessions_hint text, restart text, create_for_column text, alone boolean)
    ), setting AS MATERIALIZED (
        SELECT s.*
          FROM (SELECT pg_catalog.jsonb_object_agg(g.name, g.setting) AS settings FROM pg_catalog.pg_settings g
                 WHERE g.name IN ('fsync', 'full_page_writes', 'max_worker_processes')
                    OR pg_catalog.starts_with(g.name, 'hilo.')) o
         CROSS JOIN LATERAL pg_catalog.jsonb_to_record(o.settings) AS s (
                   "hilo.min_block_size" bigint, "hilo.max_block_size" bigint, "hilo.min_threshold" bigint,
                   "hilo.prefetch" boolean, "hilo.window" bigint, fsync boolean, full_page_writes boolean, max_worker_processes bigint)
    ), readable AS MATERIALIZED (
        SELECT q.id, q.name, q.increment, q.min_value, q.max_value, q.cycle, q.gapless, q.owner, q.owned_by,
               q.nodes, q.next_value, q.used_fraction, q.block_size,
               EXISTS (SELECT FROM _hilo.sequence o WHERE o.id = q.id AND o.source IS NOT NULL) AS has_source
          FROM hilo.reserved q
    ), core_twin AS MATERIALIZED (
        SELECT r.id, r.name, r.block_size, c.oid::regclass::text AS twin, o.seqincrement AS increment,
               -- hilo_facade leaves this comment.
               r.block_size IS NOT NULL
               AND EXISTS (SELECT FROM pg_catalog.pg_description d
                            WHERE d.classoid = 1255::oid
                              AND pg_catalog.starts_with(d.description, 'facade of hilo for ')) AS in_blocks
          FROM pg_catalog.pg_sequence o
          JOIN pg_catalog.pg_class c ON c.oid = o.seqrelid
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         CROSS JOIN LATERAL (
             VALUES (c.relname::text), (pg_catalog.format('%s.%s', n.nspname, c.relname))) AS v (name)
          JOIN readable r ON r.name = v.name
    ), source AS MATERIALIZED (
        -- hilo_attach has written these. Only who may act as the owner sees a query.
        SELECT q.name, w.part[1] AS client, m.first, w.part[2]::bigint AS size,
               COALESCE(pg_catalog.substring(q.source, 'pg_sequence_last_value\((.+?)::regclass\);'),
                        NULLIF(pg_catalog.concat_ws(
                            ' ', pg_catalog.substring(q.source, '(?:UPDATE|INSERT INTO) (.+?) (?:SET next_|AS t \()'),
                            pg_catalog.substring(q.source, 'sequence_name = (.+?) RETURNING '),
                            pg_catalog.substring(q.source, 'VALUES \((.+?), \(\$2')), '')) AS key
          FROM hilo_stat_sources q
         CROSS JOIN LATERAL (SELECT pg_catalog.regexp_match(
                                 q.source, '^/\* ([a-z-]+) of (-?[0-9]{1,18}) \*/') AS part) w
          JOIN hilo.mappers() m ON m.client = w.part[1]
    ), counter AS MATERIALIZED (
        SELECT r.name, r.client, r.size, v.name AS object, o.seqincrement, o.seqcycle, o.seqcache,
               CASE WHEN m.origin IS NULL THEN r.size ELSE 1::bigint END AS increment,
               -- A counter of blocks has not come to this value, or of values.
               CASE WHEN m.origin IS NULL THEN l.last + r.size ELSE (l.last + 1::bigint) * r.size END AS reached,
               CASE WHEN m.origin IS NULL THEN 1::bigint ELSE r.size END AS per_number, f.owns
          FROM source r
          JOIN hilo.mappers() m ON m.client = r.client
          JOIN (SELECT p.oid, pg_catalog.format('%I.%I', n.nspname, p.relname) AS name, p.relowner
                  FROM pg_catalog.pg_class p JOIN pg_catalog.pg_namespace n ON n.oid = p.relnamespace
                 WHERE p.relkind = 'S') v ON pg_catalog.quote_literal(v.name) = r.key
          JOIN pg_catalog.pg_sequence o ON o.seqrelid = v.oid
          JOIN readable q ON q.name = r.name
         -- A fix does nothing for the owner of the sequence that he may not do himself.
         CROSS JOIN LATERAL (
             SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_authid a WHERE a.oid = q.owner::oid)
                         THEN pg_catalog.pg_has_role(q.owner::oid, v.relowner, 'USAGE') ELSE false END AS owns) f
         CROSS JOIN LATERAL (
             SELECT CASE WHEN pg_catalog.has_sequence_privilege(v.oid, 'USAGE, SELECT')
                         THEN COALESCE(pg_catalog.pg_sequence_last_value(v.oid::pg_catalog.regclass),
                                       o.seqstart - o.seqincrement) END AS last) l
    ), slot AS MATERIALIZED (
        SELECT t.sequence, t.rate, t.errors, t.last_error, t.last_error_at,
               t.in_slices + t.in_current + t.in_standby + t.in_returned AS ready
          FROM hilo.stat_slots() t WHERE (SELECT s.no_memory IS NULL FROM state s)
    ), named AS MATERIALIZED (
        SELECT DISTINCT f.relation, f.number, f.name FROM hilo.column_defaults() f
    ), in_use AS MATERIALIZED (
        -- The columns that concern the caller: each that it has a privilege on, and all for those who may read
        -- everything. known: it may know of the column; readable: it may read all rows.
        SELECT c.oid AS relation, a.attnum AS number, d.name, s.id,
               s.min_value, s.max_value, s.increment, s.cycle, s.source IS NOT NULL AS has_source, r.next_value,
               -- A fix does nothing for a table's owner that he may not do himself.
               CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_authid o WHERE o.oid = s.owner::oid)
                    THEN pg_catalog.pg_has_role(c.relowner, s.owner::oid, 'USAGE') ELSE false END AS one_owner,
               pg_catalog.format('%I.%I', n.nspname, c.relname) AS table_name, a.attname::text AS column_name,
               pg_catalog.format('%I.%I.%I', n.nspname, c.relname, a.attname) AS object,
               CASE a.atttypid WHEN 21::oid THEN -32768 WHEN 23::oid THEN -2147483648
                               WHEN 20::oid THEN -9223372036854775808 END::bigint AS low,
               CASE a.atttypid WHEN 21::oid THEN 32767 WHEN 23::oid THEN 2147483647
                               WHEN 20::oid THEN 9223372036854775807 END::bigint AS high,
               c.relkind IN ('r', 'p', 'f') AS in_table, c.relkind IN ('r', 'p') AS is_stored,
               c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND (v.readable OR w.all_readable) AS checked,
               v.known, v.readable
          FROM named d
          JOIN pg_catalog.pg_class c ON c.oid = d.relation
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.number AND NOT a.attisdropped
          LEFT JOIN _hilo.sequence s ON s.name = d.name
          LEFT JOIN readable r ON r.id = s.id
         CROSS JOIN (SELECT hilo.reads_all() AS all_readable) w
         CROSS JOIN LATERAL (
             SELECT pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES') AS known,
                    pg_catalog.has_schema_privilege(n.oid, 'USAGE')
                    AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') AS readable
         ) v
         WHERE (v.known OR w.all_readable) AND (s.id IS NULL OR r.id IS NOT NULL)
    ), answered AS MATERIALIZED (
        -- Each operand has its type, as above.
        SELECT a.object, a.node, a.answer, a.failure
          FROM state s
         CROSS JOIN LATERAL hilo.node_answers(pg_catalog.format(
                        'SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('
                        '''name'', q.name, ''numbering'', q.numbering, ''source'', coalesce(b.source, b.name), '
                        '''failing'', CASE WHEN b.state OPERATOR(pg_catalog.=) ''failing''::pg_catalog.text '
                        'THEN b.last_error END, ''group'', (SELECT l.groupid FROM pg_catalog.pg_dist_local_group l))) '
                        'FROM %1$s.hilo_sequences q '
                        'LEFT JOIN %1$s.hilo_stat_sources b ON b.name OPERATOR(pg_catalog.=) q.name', s.schema)) a
    ), on_node AS MATERIALIZED (
        SELECT a.object, e."group" AS node, e.name, e.numbering, e.source, e.failing
          FROM answered a
         CROSS JOIN LATERAL pg_catalog.jsonb_to_recordset(NULLIF(a.answer, '')::jsonb)
                            AS e (name text, numbering text, source text, failing text, "group" integer)
    ), unserved AS MATERIALIZED (
        SELECT c.*, v.node, v.value, v.failure, v.advice
          FROM in_use c
         CROSS JOIN LATERAL hilo.unserved_values(c.relation, c.number, c.id) v
         WHERE c.checked AND c.id IS NOT NULL AND c.low IS NOT NULL AND (v.node IS NULL OR c.readable)
    ), of_column (shown, object, severity, what, what_to_do, fix) AS (
        SELECT c.known, c.object, 'error',
               pg_catalog.format('its default uses hilo sequence "%s", which does not exist', c.name),
               s.create_for_column,
               CASE WHEN s.alone AND c.is_stored THEN pg_catalog.format('SELECT * FROM %s.hilo_create_missing();', s.schema) END
          FROM in_use c CROSS JOIN state s
         WHERE c.id IS NULL
         UNION ALL
        SELECT c.known, c.object, 'warning',
               pg_catalog.format('hilo sequence "%s" continues to %s, which the column''s type cannot hold', c.name,
                                 CASE WHEN c.max_value > c.high THEN c.max_value ELSE c.min_value END),
               'Change the column''s type to bigint, or give the sequence the column''s data type with hilo_alter, so '
               'that a clear error is raised in time.',
               CASE WHEN s.alone AND c.alike AND NOT c.cycle AND COALESCE(c.next_value, c.low::double precision)
                         BETWEEN c.low::double precision AND c.high::double precision
                    THEN pg_catalog.format(s.set_bounds, s.schema, c.name, GREATEST(c.min_value, c.low),
                                           LEAST(c.max_value, c.high), NULL)
               END
          FROM (SELECT i.*, pg_catalog.min(i.high) OVER w = pg_catalog.max(i.high) OVER w
                            AND pg_catalog.bool_and(i.one_owner AND i.high IS NOT NULL) OVER w AS alike
                  FROM in_use i
                WINDOW w AS (PARTITION BY i.id)) c
         CROSS JOIN state s
         WHERE c.max_value > c.high OR c.min_value < c.low
         UNION ALL
        SELECT u.readable, u.object, 'error',
               pg_catalog.format('its value %s is yet to be served by hilo sequence "%s": inserts will fail or repeat it',
                                 u.value, u.name),
               CASE WHEN u.advice IS NOT NULL THEN u.advice
                    WHEN f.leaves_enough THEN 'Let the sequence continue beyond it with hilo_sync.'
                    ELSE 'Find out whether the row is right: beyond its value, few or none are left to the sequence. If it '
                         'is, give the column another sequence, or call hilo_sync.' END,
               CASE WHEN u.advice IS NULL AND f.leaves_enough AND u.one_owner
                    THEN pg_catalog.format('SELECT %1$s.hilo_sync(%2$L::%1$s.hilo_sequence, %3$L::pg_catalog.regclass, %4$L::pg_catalog.name);',
                                           s.schema, u.name, u.table_name, u.column_name)
               END
          FROM unserved u
         CROSS JOIN state s
         -- Else the sequence would be reported in turn.
         CROSS JOIN LATERAL (
             SELECT CASE WHEN u.increment > 0 THEN u.value::numeric - u.min_value::numeric
                         ELSE u.max_value::numeric - u.value::numeric END
                    < (u.max_value::numeric - u.min_value::numeric) * 0.8 AS leaves_enough) f
         WHERE u.node IS NULL AND u.failure IS NULL AND NOT u.has_source
         UNION ALL
        -- Others draw from a counter too, so what lies beyond the position need not be wrong.
        SELECT u.readable, u.object, 'error',
               pg_catalog.format('its value %s is yet to come from %s, the counter of hilo sequence "%s": inserts will fail '
                                 'or repeat it', u.value, c.object, u.name),
               'Set the counter beyond it, as long as no mapper holds a block.',
               CASE WHEN u.one_owner AND c.owns
                    THEN pg_catalog.format('SELECT pg_catalog.setval(%L::pg_catalog.regclass, %s::bigint);',
                                           c.object, u.value / c.per_number + 1::bigint)
               END
          FROM unserved u
          JOIN counter c ON c.name = u.name
         WHERE u.node IS NULL AND u.failure IS NULL AND u.has_source AND c.size > 0 AND u.value >= c.reached
         UNION ALL
        SELECT u.readable, u.object, 'warning', pg_catalog.format('its values cannot be read: %s', u.failure),
               'Find out what is wrong with the table''s files; if an index is damaged, REINDEX it.', NULL
          FROM unserved u
         WHERE u.failure IS NOT NULL
         UNION ALL
        SELECT true, u.object, 'warning',
               pg_catalog.format('its value %s is yet to be served by node %s of hilo sequence "%s": inserts will fail or repeat it',
                                 u.value, u.node, u.name),
               pg_catalog.format('If that row was not just replicated: %s', u.advice), NULL
          FROM unserved u
         WHERE u.node IS NOT NULL
    ), line AS (
        -- Each column that feeds from a sequence as others do, and the columns that it inherits from.
        WITH RECURSIVE up (relation, number, name, above, above_number) AS (
            SELECT c.relation, c.number, c.name, c.relation, c.number
              FROM (SELECT u.*, pg_catalog.count(*) OVER (PARTITION BY u.name) AS fed
                      FROM in_use u WHERE u.known AND u.in_table AND u.id IS NOT NULL) c
             WHERE c.fed > 1
             UNION
            SELECT u.relation, u.number, u.name, i.inhparent, p.attnum
              FROM up u
              JOIN pg_catalog.pg_inherits i ON i.inhrelid = u.above
              JOIN pg_catalog.pg_attribute a ON a.attrelid = u.above AND a.attnum = u.above_number
              JOIN pg_catalog.pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname AND NOT p.attisdropped
        )
        SELECT u.relation, u.number, u.name, u.above, u.above_number,
               pg_catalog.count(*) OVER (PARTITION BY u.name, u.relation, u.number) AS length
          FROM up u
    ), ranked AS (
        -- Parents come before those that inherit from them.
        SELECT l.*, c.object, pg_catalog.dense_rank() OVER (
                   PARTITION BY l.name ORDER BY l.length, c.table_name COLLATE "C", c.column_name COLLATE "C") AS rank
          FROM line l
          JOIN in_use c ON c.relation = l.relation AND c.number = l.number AND c.name = l.name
    ), head AS (
        -- The columns that share none of their line with a column before them: one of each hierarchy.
        SELECT r.name, r.object, r.rank
          FROM (SELECT d.*, pg_catalog.min(d.rank) OVER (PARTITION BY d.name, d.above, d.above_number) AS first
                  FROM ranked d) r
         GROUP BY r.name, r.object, r.rank
        HAVING pg_catalog.min(r.first) = r.rank
    ), idle AS (
        -- A sequence whose owner column is gone need not have been used. A block that was read ahead is no use.
        SELECT s.name, pg_catalog.count(*) OVER () AS count
          -- OFFSET: the planner would look through all slots for each sequence else.
          FROM (SELECT q.id, q.name, q.owned_by, COALESCE(t.ready, 0::bigint) AS ready
                  FROM readable q LEFT JOIN slot t ON t.sequence = q.id OFFSET 0::bigint) s
         WHERE CASE WHEN s.owned_by IS NULL
                    THEN EXISTS (SELECT FROM _hilo.position p
                                  WHERE p.sequence = s.id AND (p.next_index > s.ready OR p.epoch > 1))
                    ELSE s.owned_by::text = '-' END
           AND NOT EXISTS (SELECT FROM named d WHERE d.name = s.name)
         ORDER BY s.name LIMIT 10
    )
    -- Columns. Roles that may read everything are told how much there is to find about the others.
    SELECT CASE WHEN c.shown THEN c.object ELSE 'a column' END AS object, c.severity,
           CASE WHEN c.shown THEN c.what
                ELSE 'this role may not see which column has this finding, nor what it is' END AS what,
           CASE WHEN c.shown THEN c.what_to_do
                ELSE 'Run hilo_check as a superuser, or grant the role pg_read_all_data.' END AS what_to_do,
           CASE WHEN c.shown THEN c.fix END AS fix
      FROM (SELECT f.shown, pg_catalog.format('column %s', f.object) AS object, f.severity, f.what, f.what_to_do, f.fix
              FROM of_column f) c
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', h.name), 'note',
           pg_catalog.format('it feeds the columns %s', hilo.listed(
               (pg_catalog.array_agg(h.object ORDER BY h.rank))[1:10], pg_catalog.count(*))),
           'Nothing, if the columns are meant to share it; CREATE TABLE ... (LIKE ... INCLUDING ALL) lets them. Otherwise '
           'give each its own with hilo_create and ALTER TABLE ... SET DEFAULT.', NULL
      FROM head h
     GROUP BY h.name
    HAVING pg_catalog.count(*) > 1
     UNION ALL
    SELECT 'sequences', 'note',
           pg_catalog.format('no column uses %s: %s',
               CASE i.count WHEN 1 THEN 'this sequence' ELSE pg_catalog.format('these %s sequences', i.count) END,
               hilo.listed(pg_catalog.array_agg(pg_catalog.format('"%s"', i.name) ORDER BY i.name), i.count)),
           'Drop those that nothing else draws from: no application, no function, and no default that computes the name.', NULL
      FROM idle i
     GROUP BY i.count

     -- Settings, and what shared memory knows.
     UNION ALL
    SELECT v.object, v.severity, v.what, v.what_to_do,
           -- ALTER SYSTEM yields to what the command line, a database or a role has set.
           CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_settings g
                              WHERE v.object = pg_catalog.concat('setting ', g.name)
                                AND g.source IN ('default', 'configuration file'))
                THEN v.fix END
      FROM state s
     CROSS JOIN setting t
     CROSS JOIN LATERAL (VALUES
         (s.unset IS NOT NULL, 'setting hilo.node_id', 'warning',
          pg_catalog.format('%s, and hilo.node_count is %s: no sequence can be created or renumbered', s.unset, s.node_count),
          s.unset_hint, NULL),
         (s.node >= s.node_count, 'setting hilo.node_id', 'error',
          pg_catalog.format('hilo.node_id = %s is not less than hilo.node_count = %s: nothing can be reserved',
                            s.node, s.node_count),
          'Set hilo.node_id to a value from 0 to hilo.node_count - 1 and reload.', NULL),
         (t."hilo.min_block_size" > t."hilo.max_block_size", 'setting hilo.min_block_size', 'warning',
          pg_catalog.format('hilo.min_block_size = %s is greater than hilo.max_block_size = %s, which is used for both',
                            t."hilo.min_block_size", t."hilo.max_block_size"),
          'Lower hilo.min_block_size or raise hilo.max_block_size, and reload.',
          pg_catalog.format('ALTER SYSTEM SET hilo.min_block_size = %s;', t."hilo.max_block_size")),
         (NOT t."hilo.prefetch", 'setting hilo.prefetch', 'warning',
          'with hilo.prefetch = off, callers wait for every block, and hilo.min_threshold and hilo.buffer have no effect',
          'Set hilo.prefetch = on and reload.', 'ALTER SYSTEM SET hilo.prefetch = on;'),
         (t."hilo.prefetch" AND t."hilo.min_threshold" > t."hilo.max_block_size", 'setting hilo.min_threshold', 'warning',
          pg_catalog.format('hilo.min_threshold = %s is greater than hilo.max_block_size = %s: the next block is always '
                            'requested before the current one is begun',
                            t."hilo.min_threshold", t."hilo.max_block_size"),
          'Lower hilo.min_threshold or raise hilo.max_block_size, and reload.',
          pg_catalog.format('ALTER SYSTEM SET hilo.min_threshold = %s;', t."hilo.max_block_size")),
         (s.sampled_once, 'setting hilo.sample_interval', 'warning',
          'hilo.sample_interval is longer than hilo.window, so rates are computed from a single sample',
          'Lower hilo.sample_interval below hilo.window and reload.',
          pg_catalog.format('ALTER SYSTEM SET hilo.sample_interval = ''%sms'';', t."hilo.window" * 100::bigint)),
         (NOT t.fsync, 'setting fsync', 'error',
          'with fsync = off, reserved values may be served again after a crash of the machine',
          'Set fsync = on and reload.', 'ALTER SYSTEM SET fsync = on;'),
         (NOT t.full_page_writes, 'setting full_page_writes', 'error',
          'with full_page_writes = off, reserved values may be served again after a crash of the machine',
          'Set full_page_writes = on and reload.', 'ALTER SYSTEM SET full_page_writes = on;'),
         (s.no_memory IS NOT NULL, 'setting shared_preload_libraries', 'error', s.no_memory,
          'Add hilo to shared_preload_libraries in postgresql.conf and restart the server.', NULL),
         (s.slots_scarce, 'setting hilo.max_sequences', 'warning',
          pg_catalog.format('%s of %s slots for active sequences are taken', s.slots_taken, s.slots),
          'Raise hilo.max_sequences and restart the server, or make sure that fewer sequences are in use at the same time.',
          pg_catalog.format('ALTER SYSTEM SET hilo.max_sequences = %s;', LEAST(s.slots::bigint * 2::bigint, 1000000::bigint))),
         (s.no_worker_for IS NOT NULL, 'setting max_worker_processes', 'error',
          pg_catalog.format('%s s ago a session found no free background worker slot for the worker of its database',
                            s.no_worker_for),
          'Raise max_worker_processes and restart the server.', NULL),
         (s.background_workers >= t.max_worker_processes, 'setting max_worker_processes', 'warning',
          pg_catalog.format('all %s background worker slots are taken: a database without a hilo worker cannot get one',
                            t.max_worker_processes),
          'Raise max_worker_processes and restart the server.', NULL),
         (s.twin_seen_for IS NOT NULL, pg_catalog.format('node %s', COALESCE(s.node, 0)), 'error',
          pg_catalog.format('%s s ago a position of this node arrived by replication from another server, which serves '
                            'the same values', s.twin_seen_for),
          'Stop one of the two servers, or give it its own hilo.node_id.', NULL)
     ) AS v (is_so, object, severity, what, what_to_do, fix)
     WHERE v.is_so

     -- Sessions that do not load hilo.
     UNION ALL
    SELECT 'setting session_preload_libraries', r.severity,
           pg_catalog.format('%s, %s', s.sessions, r.so), pg_catalog.format('%s%s.', s.sessions_hint, r.then), NULL
      FROM state s
     CROSS JOIN LATERAL (
         SELECT EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_proc p ON p.oid = d.refobjid
                         WHERE d.classid = 2604::oid AND d.refclassid = 1255::oid
                           AND p.oid = 'hilo_nextval_always(hilo_sequence)'::pg_catalog.regprocedure::oid) AS always,
                EXISTS (SELECT FROM _hilo.sequence q WHERE q.owned_by IS NOT NULL AND q.owned_by::text <> '-') AS owned
     ) a
     CROSS JOIN LATERAL (
         SELECT CASE WHEN NOT (a.always OR a.owned) THEN 'note'
                     WHEN a.always AND NOT s.sessions_unknown THEN 'error' ELSE 'warning' END AS severity,
                CASE WHEN NOT (a.always OR a.owned) THEN 'so columns cannot own sequences'
                     WHEN s.sessions_unknown THEN 'on which columns depend'
                     WHEN a.always THEN 'but columns are GENERATED ALWAYS by hilo, into which other sessions insert '
                                        'values of their own'
                     ELSE 'but columns own sequences, which stay behind when other sessions drop or truncate the table'
                END AS so,
                CASE WHEN a.always OR a.owned THEN ', and let all sessions connect again'
                     ELSE ', or ignore this if no column owns a sequence' END AS "then"
     ) r
     WHERE s.sessions IS NOT NULL

     -- Sequences. First those of which the largest part is reserved, or half of it if the rest lasts for less than a week.
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', u.name), CASE WHEN u.used >= 9500 THEN 'error' ELSE 'warning' END,
           pg_catalog.format('%s.%s %% of its values are reserved, up to its %s %s%s',
               u.used / 100, pg_catalog.lpad(pg_catalog.mod(u.used, 100::bigint)::text, 2, '0'),
               CASE WHEN u.increment > 0 THEN 'maximum' ELSE 'minimum' END,
               CASE WHEN u.increment > 0 THEN u.max_value ELSE u.min_value END,
               CASE WHEN u.hours < 16800
                    THEN pg_catalog.format('; at the current rate the rest lasts %s hours', u.hours) END),
           'Use hilo_alter to give the sequence a wider data type or wider bounds, and give the columns that it fills a '
           'wider type.',
           CASE WHEN s.alone AND u.wider AND u.then_used < 0.4::double precision
                THEN pg_catalog.format(s.set_bounds, s.schema, u.name, u.low, u.high, 'pg_catalog.int8') END
      FROM (SELECT q.name, q.increment, q.min_value, q.max_value, h.wider, b.low, b.high,
                   (CASE WHEN q.increment > 0 THEN q.next_value - b.low::double precision ELSE b.high::double precision - q.next_value END)
                       / (b.high::double precision - b.low::double precision + 1::double precision) AS then_used,
                   (q.used_fraction * 10000::double precision)::bigint AS used,
                   (d.days * 24::double precision)::bigint AS hours, q.used_fraction, d.days
              FROM readable q
              LEFT JOIN slot t ON t.sequence = q.id
              LEFT JOIN (SELECT c.id, pg_catalog.max(c.low) AS low, pg_catalog.min(c.high) AS high,
                                pg_catalog.bool_and(c.low IS NOT NULL) AS known
                           FROM in_use c GROUP BY c.id) k ON k.id = q.id
             -- The sequence goes as far as every column can hold.
             CROSS JOIN LATERAL (SELECT COALESCE(k.low, -9223372036854775808) AS low,
                                        COALESCE(k.high, 9223372036854775807) AS high) e
             CROSS JOIN LATERAL (SELECT CASE WHEN q.increment > 0 THEN q.min_value ELSE e.low END AS low,
                                        CASE WHEN q.increment > 0 THEN e.high ELSE q.max_value END AS high) b
             CROSS JOIN LATERAL (SELECT COALESCE(k.known, true) AND (b.low < q.min_value OR b.high > q.max_value) AS wider) h
             CROSS JOIN LATERAL (
                 SELECT CASE WHEN t.rate > 0::double precision
                             THEN LEAST((t.ready::double precision + COALESCE(
                                      (CASE WHEN q.increment > 0 THEN q.max_value ELSE q.min_value END::double precision
                                       - q.next_value) / q.increment::double precision / q.nodes::double precision,
                                      0::double precision)) / t.rate / 86400::double precision, 1e9::double precision)
                        END AS days) d
             WHERE NOT q.cycle AND q.used_fraction >= 0.4::double precision) u
     CROSS JOIN state s
     WHERE u.used_fraction >= 0.8::double precision OR u.days < 7::double precision
     UNION ALL
    -- A restore without roles, for example, leaves these.
    SELECT pg_catalog.format('sequence "%s"', pg_catalog.min(q.name)), 'warning',
           pg_catalog.format('%s sequences, such as this one, belong to no role that exists', pg_catalog.count(*)),
           'Give each of them an owner with hilo_set_owner; until then they belong to the superusers.',
           -- Whoever restores them would own them too; a table and what it owns belong to one role.
           CASE WHEN pg_catalog.bool_and(q.owned_by IS NULL)
                THEN pg_catalog.format(
                    'SELECT %s.hilo_set_owner(name::%1$s.hilo_sequence, current_user::pg_catalog.text) '
                    'FROM %1$s.hilo_sequences WHERE owned_by IS NULL AND owner '
                    'NOT IN (SELECT rolname FROM pg_catalog.pg_roles);', pg_catalog.min(s.schema::text)) END
      FROM readable q CROSS JOIN state s
     WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_authid r WHERE r.oid = q.owner::oid)
    HAVING pg_catalog.count(*) > 0
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', q.name), 'error',
           pg_catalog.format('reservations have failed %s times, last %s ago: %s', t.errors,
               pg_catalog.date_trunc('second', pg_catalog.now() - t.last_error_at), t.last_error),
           'Remove the cause; hilo retries by itself. hilo_stat_reset clears the count.', NULL
      FROM state s
     CROSS JOIN LATERAL pg_catalog.unnest(s.failing) AS f (sequence)
      JOIN slot t ON t.sequence = f.sequence
      JOIN readable q ON q.id = t.sequence
     WHERE t.last_error_at > pg_catalog.now() - '1 hour'::interval
     UNION ALL
    -- Sources.
    SELECT pg_catalog.format('sequence "%s"', q.name), 'warning',
           pg_catalog.format('its source has failed %s times since %s: %s', c.failures,
               pg_catalog.date_trunc('second', COALESCE(c.requested_at, c.last_error_at)),
               COALESCE(g.last_error, 'its owner sees the error in hilo_stat_sources')),
           'Remove the cause; hilo asks again by itself. Until then the sequence serves what it holds.', NULL
      FROM _hilo.source c
      JOIN state s ON s.node = c.node
      JOIN readable q ON q.id = c.sequence
      JOIN hilo_stat_sources g ON g.name = q.name
     WHERE c.failures > 0 AND (c.failures >= 30 OR c.requested_at < pg_catalog.now() - '1 minute'::interval)
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', c.name), 'error', v.what, v.what_to_do,
           CASE WHEN c.owns THEN 'ALTER SEQUENCE ' || c.object || v.change END
      FROM counter c
     CROSS JOIN LATERAL (VALUES
         (c.seqcache > 1, pg_catalog.format('its counter %s has CACHE %s', c.object, c.seqcache),
          'Set CACHE 1: until then its source fails.', ' CACHE 1;'),
         (c.seqcycle, pg_catalog.format('its counter %s cycles, and so gives numbers again', c.object),
          'Set NO CYCLE: until then its source fails.', ' NO CYCLE;'),
         (c.seqincrement <> c.increment,
          pg_catalog.format('its counter %s has INCREMENT BY %s, and had %s when it was attached', c.object,
                            c.seqincrement, c.increment),
          'Change it back, or call hilo_attach again if the mapper has changed as well.',
          CASE WHEN c.client = 'core' THEN pg_catalog.format(' INCREMENT BY %s;', c.increment) END)
     ) AS v (is_so, what, what_to_do, change)
     WHERE v.is_so
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', c.name), 'error',
           pg_catalog.format('its counter %s was set back: it gives numbers again that the sequence has got', c.object),
           'Set it beyond all numbers of the tables that use it, with setval. Until it is there, its source fails.', NULL
      FROM counter c
      JOIN readable q ON q.name = c.name
      JOIN state s ON true
      JOIN _hilo.source b ON b.sequence = q.id AND b.node = s.node
     WHERE CASE WHEN c.size > 0 THEN c.reached <= b.last_value AND (b.own_last IS NULL OR b.last_value > b.own_last)
                ELSE c.reached >= b.first_value AND (b.own_first IS NULL OR b.first_value < b.own_first) END
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', a.name), 'error',
           pg_catalog.format('it takes blocks of %s from its counter as "%s", and sequence "%s" blocks of %s as "%s": '
                             'values come twice', a.size, a.client, o.name, o.size, o.client),
           'Find out which is the mapper''s way, and detach the other sequence with hilo_detach.', NULL
      FROM source a
      JOIN source o ON o.key = a.key AND o.name > a.name
     WHERE (a.first, a.size) <> (o.first, o.size)
       -- Who uses each number by itself collides with nobody who uses it as the first or last of a block.
       AND NOT ('core' IN (a.client, o.client) AND a.first IN ('value', 'value - size + 1')
                AND o.first IN ('value', 'value - size + 1'))
     UNION ALL
    -- Whoever leases has last been heard of then, or holds a lease that it would have to renew.
    SELECT pg_catalog.format('holder %s', COALESCE(pg_catalog.quote_ident(l.holder), 'without a name')), 'note',
           pg_catalog.format('it has %s leases without an end, such as one of "%s", and has taken none since %s',
                             pg_catalog.count(*), pg_catalog.min(l.name),
                             pg_catalog.date_trunc('second', pg_catalog.max(l.leased_at))),
           'If it no longer exists, revoke its leases: what it may have left unused becomes a gap.',
           pg_catalog.format('SELECT %s.hilo_lease_revoke(lease, NULL::pg_catalog.text) FROM %1$s.hilo_leases '
                             'WHERE holder IS NOT DISTINCT FROM %L '
                             'AND expires_at IS NULL AND leased_at <= %L;',
                             s.schema, l.holder, pg_catalog.max(l.leased_at))
      FROM hilo_leases l CROSS JOIN state s
     GROUP BY l.holder, s.schema
    HAVING pg_catalog.bool_and(l.expires_at IS NULL)
       AND pg_catalog.max(l.leased_at) < pg_catalog.now() - '30 days'::interval
     UNION ALL
    -- hilo_adopt keeps a sequence that something else uses, or that another role owns. Values drawn
    -- from it are not looked at, which would wait for locks.
    SELECT pg_catalog.format('sequence "%s"', o.name), 'note',
           pg_catalog.format('sequence %s of Postgres lives on beside it: whoever draws from that one gets the same numbers',
                             o.twin),
           pg_catalog.format('If no tool needs it to be there, let everything call hilo_nextval instead, and drop it: DROP SEQUENCE %s',
                             o.twin), NULL
      FROM core_twin o
     WHERE o.in_blocks OR EXISTS (SELECT FROM named d WHERE d.name = o.name)
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', o.name), 'warning',
           pg_catalog.format('mappers take blocks of %s from it, but sequence %s of Postgres has INCREMENT BY %s',
                             o.block_size, o.twin, o.increment),
           'Let block_size be the allocation size of the mappers, with hilo_alter: with another one ids come twice.', NULL
      FROM core_twin o
     WHERE o.in_blocks AND o.increment <> 1 AND o.increment <> o.block_size
     UNION ALL
    -- Whoever may insert draws from a sequence that the column owns. From others he needs a privilege.
    SELECT pg_catalog.format('role %s', CASE r.grantee WHEN 0::oid THEN 'PUBLIC' ELSE pg_catalog.quote_ident(r.name) END), 'warning',
           pg_catalog.format('it may insert where the defaults of %s columns draw, such as %s from hilo sequence "%s", and may not draw',
                             r.count, r.object, r.names[1]),
           'Grant it USAGE with hilo_grant, or let the columns own their sequences with hilo_alter(name, owned_by => ...).',
           CASE WHEN r.one_owner THEN pg_catalog.format(
               'SELECT %s.hilo_grant(s::%1$s.hilo_sequence, %L::pg_catalog.text, ''USAGE''::pg_catalog.text) '
               'FROM pg_catalog.unnest(%L::pg_catalog.text[]) s;', s.schema, r.name, r.names) END
      FROM (SELECT i.grantee, pg_catalog.count(*) AS count, pg_catalog.min(i.object) AS object,
                   CASE i.grantee WHEN 0::oid THEN 'public' ELSE pg_catalog.pg_get_userbyid(i.grantee)::text END AS name,
                   pg_catalog.array_agg(i.name ORDER BY i.object) AS names, pg_catalog.bool_and(i.one_owner) AS one_owner
              FROM (SELECT DISTINCT a.grantee, c.object, c.name, c.one_owner, q.id, q.owner::oid AS owner
                      FROM in_use c
                      JOIN readable q ON q.id = c.id
                      JOIN pg_catalog.pg_class t ON t.oid = c.relation
                      JOIN pg_catalog.pg_attribute d ON d.attrelid = c.relation AND d.attnum = c.number
                     CROSS JOIN LATERAL (
                         SELECT x.grantee
                           FROM pg_catalog.aclexplode(COALESCE(t.relacl, pg_catalog.acldefault('r', t.relowner))) x
                          WHERE x.privilege_type = 'INSERT'
                          UNION ALL
                         SELECT x.grantee
                           FROM pg_catalog.pg_attribute b CROSS JOIN LATERAL pg_catalog.aclexplode(b.attacl) x
                          WHERE b.attrelid = t.oid AND b.attacl IS NOT NULL AND x.privilege_type = 'INSERT') a
                     WHERE c.known AND c.in_table
                       AND (q.owned_by IS NULL OR d.attinhcount = 0 AND q.owned_by::text <> c.object)) i
             WHERE NOT EXISTS (SELECT FROM _hilo.privilege p
                                WHERE p.sequence = i.id AND p.privilege IN ('USAGE', 'UPDATE')
                                  AND (p.grantee = 'public'::hilo.role
                                       OR i.grantee <> 0::oid AND pg_catalog.pg_has_role(i.grantee, p.grantee::oid, 'USAGE')))
               -- The owner, and pg_write_all_data.
               AND NOT (i.grantee <> 0::oid AND (pg_catalog.pg_has_role(i.grantee, i.owner, 'USAGE')
                                                 OR pg_catalog.pg_has_role(i.grantee, 6182::oid, 'USAGE')))
             GROUP BY i.grantee) r
     CROSS JOIN state s
     UNION ALL
    -- Default privileges, for example, let roles in.
    SELECT pg_catalog.format('role %s', r.role), 'error',
           pg_catalog.format('the role may write to the catalog of hilo, such as %s, and so cause values to be served twice',
                             pg_catalog.min(r.relation)),
           'Take these privileges from the role, and find out how it got them.',
           pg_catalog.format('REVOKE %s ON %s FROM %s CASCADE;', pg_catalog.string_agg(DISTINCT r.privilege, ', '),
                             pg_catalog.string_agg(DISTINCT r.relation, ', '), r.role)
      FROM (SELECT CASE a.grantee WHEN 0::oid THEN 'PUBLIC' ELSE pg_catalog.quote_ident(
                       pg_catalog.pg_get_userbyid(a.grantee)::text) END AS role,
                   a.privilege_type AS privilege, c.oid::pg_catalog.regclass::text AS relation
              FROM pg_catalog.pg_class c
             CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) a
             WHERE c.relnamespace IN ('_hilo'::pg_catalog.regnamespace::oid, 'hilo'::pg_catalog.regnamespace::oid)
               AND EXISTS (SELECT FROM pg_catalog.pg_depend e
                            WHERE e.classid = 1259::oid AND e.objid = c.oid AND e.refclassid = 3079::oid AND e.deptype = 'e')
               AND a.grantee <> c.relowner AND a.privilege_type <> 'SELECT') r
     GROUP BY r.role

     -- Each trigger has the rows for which it fires: ordinary ones (O), replicated ones (R) or all (A). That changes with
     -- ALTER TABLE ... ENABLE TRIGGER ALL, as of a restore or of test fixtures.
     UNION ALL
    SELECT pg_catalog.format('table _hilo.%s', w.relation), 'error',
           pg_catalog.format('triggers do not fire as they should (%s), so that rows which are restored or replicated, or '
                             'TRUNCATE, may cause a value to be served twice',
                             pg_catalog.string_agg(w.name::text, ', ' ORDER BY w.name)),
           CASE WHEN pg_catalog.bool_and(t.oid IS NOT NULL) THEN 'Let them fire as before.'
                ELSE 'Create those that were dropped, with the statements of sql/triggers.sql.' END,
           'ALTER TABLE _hilo.' || w.relation::text || ' ' || pg_catalog.string_agg(pg_catalog.format(
               CASE w.fires WHEN 'R' THEN 'ENABLE REPLICA TRIGGER %s'
                            WHEN 'A' THEN 'ENABLE ALWAYS TRIGGER %s'
                            ELSE 'ENABLE TRIGGER %s' END, w.name), ', ' ORDER BY w.name)
               FILTER (WHERE t.oid IS NOT NULL) || ';'
      FROM (SELECT v.name, v.fires, pg_catalog.unnest(v.relations) AS relation
              FROM (VALUES
                  ('missing_grantee'::name, 'A'::"char", '{privilege}'::name[]),
                  ('missing_owner', 'A', '{sequence}'),
                  ('missing_role', 'A', '{default_privilege}'),
                  ('note_roles', 'O', '{sequence, privilege, default_privilege}'),
                  ('refuse_source', 'A', '{sequence}'),
                  ('refuse_truncate', 'A', '{sequence, position, free_range, gap, lease, source, privilege, default_privilege}'),
                  ('replicated', 'R', '{sequence, position, free_range, lease, source, privilege, default_privilege}'),
                  ('restored', 'O', '{position, free_range, lease, source}')) AS v (name, fires, relations)) w
      JOIN pg_catalog.pg_class c
        ON c.relname = w.relation AND c.relnamespace = '_hilo'::pg_catalog.regnamespace::oid
      LEFT JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid AND t.tgname = w.name
     WHERE t.tgenabled IS DISTINCT FROM w.fires
     GROUP BY w.relation
     UNION ALL
    -- Positions of this node that may lack reservations from which values were served. pg_upgrade requires a clean
    -- shutdown, and leaves the server on its first timeline: what it brought lacks nothing.
    SELECT pg_catalog.format('node %s', l.node), 'warning',
           pg_catalog.format(
               CASE l.cause
                   WHEN 'replicated' THEN '%s arrived by replication from another server (%s)'
                   WHEN 'restored' THEN '%s were restored from a dump of a server at which they had arrived by replication'
                   WHEN 'promoted' THEN '%s were last written on timeline %s, before this server was promoted or copied'
                   ELSE '%s were last written by the server %s, from which this server was made by pg_createsubscriber, '
                        'or by pg_upgrade before it was promoted' END,
               pg_catalog.format('%s positions of this node, such as that of "%s",', pg_catalog.count(*), pg_catalog.min(l.name)),
               l.origin),
           pg_catalog.format('%s, do nothing: the first use of each sequence skips hilo.failover_skip values. %s',
               CASE l.cause
                   WHEN 'replicated' THEN 'If this server is to take over when that server is lost'
                   WHEN 'restored' THEN 'If the server that served them is stopped permanently'
                   WHEN 'promoted' THEN 'Once the server that this one was copied from is stopped permanently'
                   ELSE 'Once that server is stopped permanently' END,
               CASE l.cause
                   WHEN 'replicated' THEN 'If both are to serve, give each its own hilo.node_id.'
                   WHEN 'promoted' THEN 'If that server still serves, give this server its own hilo.node_id.'
                   ELSE 'If it still serves, give this server its own hilo.node_id.' END), NULL
      FROM (SELECT q.name, s.node,
                   CASE WHEN p.timeline < 0 AND p.system_id = s.system_id AND p.incarnation = -1 THEN 'restored'
                        WHEN p.timeline < 0 THEN 'replicated'
                        WHEN p.system_id = s.system_id THEN 'promoted'
                        ELSE 'converted' END AS cause,
                   CASE WHEN p.timeline >= 0 AND p.system_id = s.system_id THEN p.timeline::numeric
                        -- As core prints it: without a sign.
                        ELSE pg_catalog.mod(p.system_id::numeric + 18446744073709551616, 18446744073709551616) END AS origin
              FROM state s
              JOIN _hilo.position p ON p.node = s.node
              JOIN readable q ON q.id = p.sequence
             WHERE p.timeline < 0
                OR p.system_id = s.system_id AND s.timeline NOT IN (0, p.timeline)
                OR p.system_id NOT IN (0, s.system_id) AND s.timeline > 1 AND p.next_index > 0) l
     GROUP BY l.node, l.cause, l.origin
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', d.name), CASE WHEN d.overlap THEN 'error' ELSE 'warning' END,
           pg_catalog.format('numbered differently: here from %s with node count %s, by node %s from %s with node count %s%s',
               d.own_base, d.own_nodes, d.node, d.base, d.nodes,
               CASE WHEN d.overlap THEN '; the values that the two have reserved may overlap' END),
           pg_catalog.format('%s A node that is permanently gone can be left as it is.', d.restart), NULL
      FROM (SELECT q.name, p.node, p.base, p.nodes, o.base AS own_base, o.nodes AS own_nodes, p.timeline, s.restart,
                   p.next_index > 0 AND o.next_index > 0 AND NOT q.cycle
                   AND GREATEST(p.base, pv.last) >= LEAST(o.base, ov.last)
                   AND GREATEST(o.base, ov.last) >= LEAST(p.base, pv.last) AS overlap
              FROM state s
              JOIN _hilo.position o ON o.node = s.node
              JOIN _hilo.position p ON p.sequence = o.sequence AND p.node <> o.node
              JOIN readable q ON q.id = p.sequence
             CROSS JOIN LATERAL (SELECT hilo.value_at(p.next_index - 1, p.base, q.increment, q.min_value, q.max_value,
                                                      q.cycle, p.node, p.nodes, p.stripe) AS last) pv
             CROSS JOIN LATERAL (SELECT hilo.value_at(o.next_index - 1, o.base, q.increment, q.min_value, q.max_value,
                                                      q.cycle, o.node, o.nodes, o.stripe) AS last) ov
             WHERE (p.base, p.nodes, p.stripe) <> (o.base, o.nodes, o.stripe)) d
     UNION ALL
    SELECT 'setting hilo.node_count', 'warning',
           pg_catalog.format('%s sequences, such as "%s", are numbered for hilo.node_count = %s, but the setting is %s',
                             pg_catalog.count(*), pg_catalog.min(q.name), q.nodes, s.node_count),
           s.restart, NULL
      FROM state s JOIN readable q ON q.nodes <> s.node_count AND NOT q.gapless
     GROUP BY q.nodes, s.node_count, s.restart

     UNION ALL
    SELECT n.object, 'warning',
           pg_catalog.format('lacks %s sequences, such as "%s", that are branches on other workers',
                             pg_catalog.count(DISTINCT b.name), pg_catalog.min(b.name COLLATE "C")),
           'Run hilo_create_on_all_nodes(name) on the coordinator for each of them.', NULL
      FROM answered n
      JOIN on_node b ON b.source IS NOT NULL AND b.node > 0 AND b.object <> n.object
     WHERE n.node > 0 AND n.failure IS NULL
       AND NOT EXISTS (SELECT FROM on_node h WHERE h.object = n.object AND h.name = b.name)
     GROUP BY n.object
     UNION ALL
    SELECT n.object, 'error',
           pg_catalog.format('does not serve %s sequences, such as "%s": they are no branches of the coordinator',
                             pg_catalog.count(*), pg_catalog.min(n.name COLLATE "C")),
           'If a column uses one, replace it: docs/citus.md says how. Drop each other one there with hilo_drop, and run '
           'hilo_create_on_all_nodes(name) on the coordinator.', NULL
      FROM on_node n
     WHERE n.node > 0 AND n.source IS NULL
     GROUP BY n.object
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', n.name), 'warning',
           pg_catalog.format('%s serves what it holds of an earlier numbering, and gets no more', n.object),
           'Run hilo_create_on_all_nodes(name) on the coordinator.', NULL
      FROM on_node n
      JOIN on_node c ON c.node = 0 AND c.name = n.name
     WHERE n.node > 0 AND pg_catalog.starts_with(n.source, '-- server citus')
       AND pg_catalog.strpos(n.source, pg_catalog.quote_literal(c.numbering)) = 0
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', n.name), 'warning',
           pg_catalog.format('%s gets no values of it: %s', n.object, n.failing),
           'Remove the cause: the owner of the sequence must be able to log in at its source.', NULL
      FROM on_node n
     WHERE n.failing IS NOT NULL
     UNION ALL
    SELECT a.object, 'warning', pg_catalog.format('could not ask it: %s', a.failure),
           'Find out why: the node must be running, and the role that calls hilo_check must be able to log in there.', NULL
      FROM answered a WHERE a.failure IS NOT NULL;
-- PUBLIC has no USAGE of the schema, so only hilo_check reads it.
REVOKE ALL ON hilo.finding FROM PUBLIC;
GRANT SELECT ON hilo.finding TO PUBLIC;
COMMENT ON VIEW hilo.finding IS 'Findings of hilo_check that the current user may see';

CREATE FUNCTION hilo_check() RETURNS TABLE (object text, severity text, what text, what_to_do text, fix text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off
BEGIN ATOMIC
    -- The worst come first.
    SELECT f.object, f.severity, f.what, f.what_to_do, f.fix
      FROM hilo.finding f
     ORDER BY pg_catalog.array_position(ARRAY['error', 'warning', 'note'], f.severity),
              f.object COLLATE "C", f.what COLLATE "C";
END;
COMMENT ON FUNCTION hilo_check() IS
    'Reports problems, present or near, of the settings, and of the sequences and columns that the caller may see. '
    'Each finding is a row and says what to do. severity is error, warning, or note for what may be meant to be so. '
    'fix is a statement that mends it, as for psql''s \gexec; null: there is none that is right for everyone. Roles '
    'that may read every sequence, such as members of pg_monitor, see findings about hidden columns too, without '
    'names. Returns no row if nothing was found.';
