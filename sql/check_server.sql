-- Findings of hilo_check about the server, the tables of the extension, and the nodes of Citus.
--
-- Here and in check.sql a name without a schema is one of core's. In the schema of the extension there could be a
-- function or an operator that matches better.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION hilo.background_workers() RETURNS bigint
    LANGUAGE sql STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    RETURN (SELECT count(*) FROM pg_stat_activity
             WHERE backend_type NOT IN ('client backend', 'autovacuum launcher', 'autovacuum worker', 'background writer',
                   'checkpointer', 'startup', 'walreceiver', 'walsender', 'walwriter', 'archiver', 'standalone backend',
                   'slotsync worker', 'walsummarizer', 'io worker', 'logger'));
COMMENT ON FUNCTION hilo.background_workers() IS
    'Counts the background workers of all kinds, which share one limit. Not every role may see them: their owner does';

CREATE FUNCTION hilo.node_answers(command text, everywhere boolean)
    RETURNS TABLE (object text, node integer, answer text, failure text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_node_answers_wrapper';
COMMENT ON FUNCTION hilo.node_answers(text, boolean) IS
    'Returns what a command that returns one value says on each node of Citus, or on the coordinator alone, or why it '
    'says nothing';

-- Only the other views may read it.
CREATE VIEW hilo.state AS
    SELECT s.*, hilo.node_id() AS node, current_setting('hilo.node_count')::integer AS node_count,
           e.extnamespace::regnamespace AS schema,
           'Find out why: the node must be running, and the role that calls hilo_check must be able to log in there.'
               AS mend_node,
           -- Every argument has its type, so that no other function fits better.
           'SELECT %1$s.hilo_alter(%2$L::%1$s.hilo_sequence, NULL::pg_catalog.int8, NULL::pg_catalog.int8, '
           '%3$L::pg_catalog.int8, %4$L::pg_catalog.int8, %5$L::pg_catalog.regtype, NULL::pg_catalog.bool, '
           'NULL::pg_catalog.bool, NULL::pg_catalog.int8, NULL::pg_catalog.int8, NULL::pg_catalog.text, '
           'NULL::pg_catalog.int8, NULL::pg_catalog.bool, NULL::pg_catalog.text);' AS set_bounds
      FROM hilo.server_state() s
      JOIN pg_extension e ON e.extname = 'hilo';
REVOKE ALL ON hilo.state FROM PUBLIC;
COMMENT ON VIEW hilo.state IS 'This server, and advice that depends on its settings';

CREATE VIEW hilo.server_finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        TABLE hilo.state
    ), answered AS MATERIALIZED (
        SELECT a.*
          FROM state s
         CROSS JOIN LATERAL hilo.node_answers(format(
             'SELECT pg_catalog.jsonb_agg(e) FROM (SELECT l.groupid AS node, q.name, q.numbering, '
             'coalesce(b.source, b.name) AS source, b.state, b.last_error '
             'FROM pg_catalog.pg_dist_local_group l CROSS JOIN %1$s.hilo_sequences q '
             'LEFT JOIN %1$s.hilo_stat_sources b ON b.name OPERATOR(pg_catalog.=) q.name) AS e', s.schema), true) a
    ), on_node AS MATERIALIZED (
        SELECT a.object, e.*
          FROM answered a
         CROSS JOIN LATERAL jsonb_to_recordset(nullif(a.answer, '')::jsonb)
                            AS e (node integer, name text, numbering text, source text, state text, last_error text)
    )
    -- Settings, and what shared memory knows.
    SELECT coalesce('setting ' || v.name, format('node %s', coalesce(s.node, 0))) AS object, v.severity, v.what,
           coalesce(v.what_to_do, format('Set %s = on and reload.', v.name)) AS what_to_do,
           -- ALTER SYSTEM yields to what the command line, a database or a role has set.
           CASE WHEN g.source IN ('default', 'configuration file')
                THEN 'ALTER SYSTEM SET ' || v.name || ' = ' || v.value || ';' END AS fix
      FROM state s
     CROSS JOIN LATERAL (
         SELECT current_setting('hilo.min_block_size')::bigint AS min_block, current_setting('hilo.prefetch')::boolean AS prefetch,
                current_setting('hilo.max_block_size')::bigint AS max_block, current_setting('hilo.window')::interval AS span,
                current_setting('hilo.min_threshold')::bigint AS threshold,
                current_setting('max_worker_processes')::bigint AS workers,
                EXISTS (SELECT FROM _hilo.sequence q WHERE q.owned_by::text <> '-') AS owned,
                EXISTS (SELECT FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid
                         WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_proc'::regclass
                           AND p.proname = 'hilo_nextval_always' AND p.pronamespace = s.schema) AS always) t
     CROSS JOIN LATERAL (VALUES
         ('hilo.node_id', 'warning', current_setting('hilo.node_id') = '' AND s.node_count > 1,
          format('hilo.node_id is not set, and hilo.node_count is %s: no sequence can be created or renumbered', s.node_count),
          s.set_node_id, NULL),
         ('hilo.node_id', 'error', s.node >= s.node_count,
          format('hilo.node_id = %s is not less than hilo.node_count = %s: nothing can be reserved', s.node, s.node_count),
          'Set hilo.node_id to a value from 0 to hilo.node_count - 1 and reload.', NULL),
         (NULL, 'error', s.twin_seen_for < 3600,
          format('%s s ago a position of this node arrived by replication from another server, which serves the same values',
                 s.twin_seen_for),
          'Stop one of the two servers, or give it its own hilo.node_id.', NULL),
         ('hilo.min_block_size', 'warning', t.min_block > t.max_block,
          format('hilo.min_block_size = %s is greater than hilo.max_block_size = %s, which is used for both',
                 t.min_block, t.max_block),
          'Lower hilo.min_block_size or raise hilo.max_block_size, and reload.', t.max_block::text),
         ('hilo.prefetch', 'warning', NOT t.prefetch,
          'with hilo.prefetch = off, callers wait for every block, and hilo.min_threshold and hilo.buffer have no effect',
          NULL, 'on'),
         ('hilo.min_threshold', 'warning', t.prefetch AND t.threshold > t.max_block,
          format('hilo.min_threshold = %s is greater than hilo.max_block_size = %s: the next block is always '
                 'requested before the current one is begun', t.threshold, t.max_block),
          'Lower hilo.min_threshold or raise hilo.max_block_size, and reload.', t.max_block::text),
         ('hilo.sample_interval', 'warning', current_setting('hilo.sample_interval')::interval > t.span,
          'hilo.sample_interval is longer than hilo.window, so rates are computed from a single sample',
          'Lower hilo.sample_interval below hilo.window and reload.',
          format('''%sms''', (extract(epoch FROM t.span) * 100)::bigint)),
         ('fsync', 'error', NOT current_setting('fsync')::boolean,
          'with fsync = off, reserved values may be served again after a crash of the machine', NULL, 'on'),
         ('full_page_writes', 'error', NOT current_setting('full_page_writes')::boolean,
          'with full_page_writes = off, reserved values may be served again after a crash of the machine', NULL, 'on'),
         ('shared_preload_libraries', 'error', s.no_memory IS NOT NULL, s.no_memory,
          'Add hilo to shared_preload_libraries in postgresql.conf and restart the server.', NULL),
         ('hilo.max_sequences', 'warning', s.slots_scarce,
          format('%s of %s slots for active sequences are taken', s.slots_taken, s.slots),
          'Raise hilo.max_sequences and restart the server, or make sure that fewer sequences are in use at the same time.',
          least(s.slots * 2, 1000000)::text),
         ('max_worker_processes', 'error', s.no_worker_for < 3600,
          format('%s s ago a session found no free background worker slot for the worker of its database', s.no_worker_for),
          'Raise max_worker_processes and restart the server.', NULL),
         ('max_worker_processes', 'warning', hilo.background_workers() >= t.workers,
          format('all %s background worker slots are taken: a database without a hilo worker cannot get one', t.workers),
          'Raise max_worker_processes and restart the server.', NULL),
         -- Sessions that do not load hilo.
         ('session_preload_libraries', 'note', NOT (t.always OR t.owned) AND s.no_memory IS NULL,
          s.sessions || ', so columns cannot own sequences',
          format('%s, and let all sessions connect again if one is to.', s.sessions_hint), NULL),
         ('session_preload_libraries', CASE WHEN t.always AND NOT s.sessions_unknown THEN 'error' ELSE 'warning' END,
          (t.always OR t.owned) AND s.no_memory IS NULL,
          s.sessions || CASE
              WHEN s.sessions_unknown THEN ', on which columns depend'
              WHEN t.always
              THEN ', but columns are GENERATED ALWAYS by hilo, into which other sessions insert values of their own'
              ELSE ', but columns own sequences, which stay behind when other sessions drop or truncate the table' END,
          format('%s, and let all sessions connect again.', s.sessions_hint), NULL)
     ) AS v (name, severity, is_so, what, what_to_do, value)
      LEFT JOIN pg_settings g ON g.name = v.name
     WHERE v.is_so AND v.what IS NOT NULL
     UNION ALL

    -- Default privileges, for example, let roles in.
    SELECT format('role %s', r.role), 'error',
           format('the role may write to the catalog of hilo, such as %s, and so cause values to be served twice',
                  min(c.oid::regclass::text)),
           'Take these privileges from the role, and find out how it got them.',
           format('REVOKE %s ON %s FROM %s CASCADE;', string_agg(DISTINCT x.privilege_type, ', '),
                  string_agg(DISTINCT c.oid::regclass::text, ', '), r.role)
      FROM pg_class c
      JOIN pg_depend e ON e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e'
                          AND e.refclassid = 'pg_extension'::regclass
     CROSS JOIN LATERAL aclexplode(c.relacl) x
     CROSS JOIN LATERAL (SELECT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role) r
     WHERE c.relnamespace IN ('_hilo'::regnamespace, 'hilo'::regnamespace)
       AND x.grantee <> c.relowner AND x.privilege_type <> 'SELECT'
     GROUP BY r.role
     UNION ALL

    -- Each trigger has the rows for which it fires: ordinary ones (O), replicated ones (R) or all (A). That changes with
    -- ALTER TABLE ... ENABLE TRIGGER ALL, as of a restore or of test fixtures.
    SELECT format('table _hilo.%s', r.relation), 'error',
           format('triggers do not fire as they should (%s), so that rows which are restored or replicated, or TRUNCATE, may '
                  'cause a value to be served twice', string_agg(w.name, ', ' ORDER BY w.name)),
           CASE WHEN bool_and(t.oid IS NOT NULL) THEN 'Let them fire as before.'
                ELSE 'Create those that were dropped, with the statements of sql/triggers.sql.' END,
           'ALTER TABLE _hilo.' || r.relation || ' ' || string_agg(
               format('ENABLE %sTRIGGER %s', CASE w.fires WHEN 'R' THEN 'REPLICA ' WHEN 'A' THEN 'ALWAYS ' END, w.name),
               ', ' ORDER BY w.name) FILTER (WHERE t.oid IS NOT NULL) || ';'
      FROM (VALUES
          ('missing_grantee', 'A', '{privilege}'::text[]),
          ('missing_owner', 'O', '{sequence}'),
          ('missing_role', 'A', '{default_privilege}'),
          ('note_roles', 'O', '{sequence, privilege, default_privilege}'),
          ('refuse_source', 'A', '{sequence}'),
          ('refuse_truncate', 'A', '{sequence, position, free_range, gap, lease, source, privilege, default_privilege}'),
          ('replicated', 'R', '{sequence, position, free_range, lease, source, privilege, default_privilege}'),
          ('replicated_owner', 'R', '{sequence}'),
          ('restored', 'O', '{position, free_range, lease, source}')) AS w (name, fires, relations)
     CROSS JOIN unnest(w.relations) AS r (relation)
      JOIN pg_class c ON c.relname = r.relation AND c.relnamespace = '_hilo'::regnamespace
      LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = w.name
     WHERE t.tgenabled::text IS DISTINCT FROM w.fires
     GROUP BY r.relation
     UNION ALL

    -- Any node of Citus may be asked to serve a sequence.
    SELECT n.object, 'warning',
           format('lacks %s sequences, such as "%s", that are branches on other workers', count(DISTINCT b.name),
                  min(b.name COLLATE "C")),
           'Run hilo_create_on_all_nodes(name) on the coordinator for each of them.', NULL
      FROM answered n
      JOIN on_node b ON b.source IS NOT NULL AND b.node > 0 AND b.object <> n.object
     WHERE n.node > 0 AND n.failure IS NULL
       AND NOT EXISTS (SELECT FROM on_node h WHERE h.object = n.object AND h.name = b.name)
     GROUP BY n.object
     UNION ALL
    SELECT n.object, 'error',
           format('does not serve %s sequences, such as "%s": they are no branches of the coordinator', count(*),
                  min(n.name COLLATE "C")),
           'If a column uses one, replace it: docs/citus.md says how. Drop each other one there with hilo_drop, and run '
           'hilo_create_on_all_nodes(name) on the coordinator.', NULL
      FROM on_node n
     WHERE n.node > 0 AND n.source IS NULL
     GROUP BY n.object
     UNION ALL
    SELECT format('sequence "%s"', n.name), 'warning', v.what, v.what_to_do, NULL
      FROM on_node n
      LEFT JOIN on_node c ON c.node = 0 AND c.name = n.name
     CROSS JOIN LATERAL (VALUES
         (n.node > 0 AND starts_with(n.source, '-- server citus') AND strpos(n.source, quote_literal(c.numbering)) = 0,
          format('%s serves what it holds of an earlier numbering, and gets no more', n.object),
          'Run hilo_create_on_all_nodes(name) on the coordinator.'),
         (n.state = 'failing' AND n.last_error IS NOT NULL, format('%s gets no values of it: %s', n.object, n.last_error),
          'Remove the cause: the owner of the sequence must be able to log in at its source.')
     ) AS v (is_so, what, what_to_do)
     WHERE v.is_so
     UNION ALL
    SELECT a.object, 'warning', format('could not ask it: %s', a.failure), s.mend_node, NULL
      FROM answered a CROSS JOIN state s
     WHERE a.failure IS NOT NULL;
REVOKE ALL ON hilo.server_finding FROM PUBLIC;
COMMENT ON VIEW hilo.server_finding IS 'Findings of hilo_check about the server, which every role may see';
