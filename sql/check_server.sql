-- Findings of hilo_check about the server, the tables of the extension, and the nodes of Citus.
CREATE FUNCTION _hilo.hilo_node_answers(command text, everywhere boolean)
    RETURNS TABLE (object text, node integer, answer text, failure text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'hilo_node_answers_wrapper';
COMMENT ON FUNCTION _hilo.hilo_node_answers(text, boolean) IS
    'Returns what a command that returns one value says on each node of Citus, or on the '
    'coordinator alone, or why it says nothing';

CREATE FUNCTION _hilo.hilo_server_state()
    RETURNS TABLE (
        system_id bigint, timeline integer, no_memory text,
        slots bigint, slots_taken bigint, slots_scarce boolean, turned_over_for bigint,
        failing bigint[], no_worker_for bigint, worker integer, worker_silent_for bigint,
        twin_seen_for bigint, sessions text, sessions_unknown boolean, sessions_hint text,
        create_for_column text, set_node_id text, alone boolean, restart text, pass text
    )
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1
    AS 'MODULE_PATHNAME', 'hilo_server_state_wrapper';
COMMENT ON FUNCTION _hilo.hilo_server_state() IS
    'Returns what sessions and shared memory say of this server, and advice that depends on '
    'settings';

-- Only the other views may read it.
CREATE VIEW _hilo.hilo_state AS
    SELECT s.*, _hilo.hilo_node_id() AS node,
           current_setting('hilo.node_count')::integer AS node_count,
           e.extnamespace::regnamespace AS schema
      FROM _hilo.hilo_server_state() s
      JOIN pg_extension e ON e.extname = 'hilo';
REVOKE ALL ON _hilo.hilo_state FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_state IS 'This server, and advice that depends on its settings';

CREATE VIEW _hilo.hilo_server_finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        TABLE _hilo.hilo_state
    ), answered AS MATERIALIZED (
        SELECT a.*
          FROM state s
         CROSS JOIN LATERAL _hilo.hilo_node_answers(format(
             'SELECT pg_catalog.jsonb_agg(e) FROM (SELECT q.name, q.numbering, '
             'coalesce(b.source, b.name) AS source, b.state, b.last_error '
             'FROM %1$s.hilo_sequences q LEFT JOIN %1$s.hilo_stat_sources b '
             'ON b.name OPERATOR(pg_catalog.=) q.name) AS e', s.schema), true) a
    ), on_node AS MATERIALIZED (
        SELECT a.object, a.node, e.*
          FROM answered a
         CROSS JOIN LATERAL jsonb_to_recordset(nullif(a.answer, '')::jsonb) AS e (
             name text, numbering text, source text, state text, last_error text)
    )
    -- Settings, and what shared memory knows. The command line, a database or a role can hide what
    -- ALTER SYSTEM sets.
    SELECT coalesce('setting ' || v.name, format('node %s', coalesce(s.node, 0))) AS object,
           v.severity, v.what,
           coalesce(v.what_to_do, format('Set %s = on and reload.', v.name)) AS what_to_do,
           NULL AS fix
      FROM state s
     CROSS JOIN LATERAL (
         SELECT EXISTS (SELECT FROM _hilo.hilo_definition q WHERE q.owned_by::text <> '-') AS owned,
                EXISTS (SELECT FROM pg_depend d
                          JOIN pg_proc p ON p.oid = d.refobjid
                         WHERE d.classid = 'pg_attrdef'::regclass
                           AND d.refclassid = 'pg_proc'::regclass
                           AND p.proname = 'hilo_nextval_always'
                           AND p.pronamespace = s.schema) AS always) t
     CROSS JOIN LATERAL (VALUES
         ('hilo.node_id', 'warning', current_setting('hilo.node_id') = '' AND s.node_count > 1,
          format('hilo.node_id is not set, and hilo.node_count is %s: no sequence can be created '
                 'or renumbered', s.node_count),
          s.set_node_id),
         ('hilo.node_id', 'error', s.node >= s.node_count,
          format('hilo.node_id = %s is not less than hilo.node_count = %s: nothing can be reserved',
                 s.node, s.node_count),
          'Set hilo.node_id to a value from 0 to hilo.node_count - 1 and reload.'),
         (NULL, 'error', s.twin_seen_for < 3600,
          format('%s s ago a position of this node arrived by replication from another server, '
                 'which serves the same values', s.twin_seen_for),
          'Stop one of the two servers, or give it its own hilo.node_id.'),
         ('hilo.prefetch', 'warning', NOT current_setting('hilo.prefetch')::boolean,
          'with hilo.prefetch = off, callers wait for every block, and hilo.min_threshold and '
          'hilo.buffer have no effect', NULL),
         ('fsync', 'error', NOT current_setting('fsync')::boolean,
          'with fsync = off, reserved values may be served again after a crash of the machine',
          NULL),
         ('full_page_writes', 'error', NOT current_setting('full_page_writes')::boolean,
          'with full_page_writes = off, reserved values may be served again after a crash of the '
          'machine', NULL),
         ('shared_preload_libraries', 'error', s.no_memory IS NOT NULL, s.no_memory,
          'Add hilo to shared_preload_libraries in postgresql.conf and restart the server.'),
         ('hilo.max_sequences', 'warning', s.slots_scarce,
          format('%s of %s slots for active sequences are taken', s.slots_taken, s.slots),
          'Raise hilo.max_sequences and restart the server, or make sure that fewer sequences are '
          'in use at the same time.'),
         ('hilo.max_sequences', 'warning', s.turned_over_for < 3600,
          format('%s s ago, more than %s sequences had within a minute lost their slots to others '
                 'and were used again: there are %s slots',
                 s.turned_over_for, s.slots / 10, s.slots),
          'Raise hilo.max_sequences and restart the server, or make sure that fewer sequences are '
          'in use at the same time.'),
         ('max_worker_processes', 'error', s.no_worker_for < 3600,
          format('%s s ago a session found no free background worker slot for the worker of its '
                 'database', s.no_worker_for),
          'Raise max_worker_processes and restart the server.'),
         -- Sessions that do not load hilo.
         ('session_preload_libraries',
          CASE WHEN t.always AND NOT s.sessions_unknown THEN 'error'
               WHEN t.always OR t.owned THEN 'warning' ELSE 'note' END,
          s.no_memory IS NULL,
          s.sessions || CASE
              WHEN t.always
              THEN ', but columns are GENERATED ALWAYS by hilo, into which other sessions insert '
                   'values of their own'
              WHEN t.owned
              THEN ', but columns own sequences, which stay behind when other sessions drop or '
                   'truncate the table'
              ELSE ', so columns cannot own sequences' END,
          format('%s, and let all sessions connect again.', s.sessions_hint))
     ) AS v (name, severity, is_so, what, what_to_do)
     WHERE v.is_so AND v.what IS NOT NULL
     UNION ALL

    -- It may be stopped, wait for a lock or a standby, or hang in a write.
    SELECT 'worker', 'error',
           format('process %s, which fetches numbers for this database, was woken %s s ago and has '
                  'not answered since', s.worker, s.worker_silent_for),
           format('See in pg_stat_activity what it waits for: a lock, a standby, the disk. Until '
                  'it has connected, only pg_locks has it. If it waits for nothing, it is stopped: '
                  'kill -CONT %s, as root, lets it go on. Nothing is lost meanwhile.', s.worker),
           NULL
      FROM state s
     WHERE s.worker_silent_for >= 3
     UNION ALL

    SELECT format('setting %s', a.name), 'warning',
           format('%s = %s is greater than %s = %s, so one of the two has no effect',
                  a.name, current_setting(a.name), b.name, current_setting(b.name)),
           'Lower the first or raise the second, and reload.', NULL
      FROM (VALUES
          ('hilo.min_block_size', 'hilo.max_block_size', 1),
          ('hilo.min_threshold', 'hilo.max_block_size', 1),
          -- Milliseconds and seconds.
          ('hilo.sample_interval', 'hilo.window', 1000)) AS v (name, bound, unit)
      JOIN pg_settings a ON a.name = v.name
      JOIN pg_settings b ON b.name = v.bound AND a.setting::bigint > b.setting::bigint * v.unit
     UNION ALL

    -- Whoever has the oldest snapshot keeps every row that was replaced or deleted since.
    SELECT h.object, 'warning',
           format('for %s transactions its snapshot has kept rows that are dead: %s in the tables '
                  'of hilo, which grow until it ends', h.age, d.count),
           h.what_to_do, NULL
      FROM (SELECT sum(pg_stat_get_dead_tuples(c.oid)) AS count
              FROM pg_class c WHERE c.relnamespace = '_hilo'::regnamespace AND c.relkind = 'r') d
     CROSS JOIN LATERAL (
         SELECT format('session %s', a.pid) AS object,
                greatest(age(a.backend_xmin), age(a.backend_xid)) AS age,
                'End its transaction, or have pg_terminate_backend end the session.' AS what_to_do,
                -- Every snapshot keeps what the oldest transaction does that has a number.
                coalesce(age(a.backend_xid) >= age(a.backend_xmin), a.backend_xmin IS NULL)
                    AS by_itself
           FROM pg_stat_activity a
          WHERE a.datname = current_database() OR a.backend_type = 'walsender'
          UNION ALL
         SELECT format('prepared transaction %L', p.gid), age(p.transaction),
                'Commit it or roll it back.', true
           FROM pg_prepared_xacts p
          WHERE p.database = current_database()
          UNION ALL
         SELECT format('replication slot "%s"', s.slot_name), age(s.xmin),
                'Let its server catch up, or drop the slot if that server is gone.', true
           FROM pg_replication_slots s
          ORDER BY age DESC NULLS LAST, by_itself DESC
          LIMIT 1) h
     WHERE d.count >= 10000 AND h.age >= 1000
     UNION ALL

    -- Default privileges, for example, let roles in.
    SELECT format('role %s', r.role), 'error',
           format('the role may write to the catalog of hilo, such as %s, and so cause values to '
                  'be served twice', min(c.oid::regclass::text)),
           'Take these privileges from the role, and find out how it got them.',
           format('REVOKE %s ON %s FROM %s CASCADE;', string_agg(DISTINCT x.privilege_type, ', '),
                  string_agg(DISTINCT c.oid::regclass::text, ', '), r.role)
      FROM pg_class c
      JOIN pg_depend e ON e.classid = 'pg_class'::regclass AND e.objid = c.oid
                          AND e.deptype = 'e' AND e.refclassid = 'pg_extension'::regclass
     CROSS JOIN LATERAL aclexplode(c.relacl) x
     CROSS JOIN LATERAL (
         SELECT CASE x.grantee WHEN 0 THEN 'PUBLIC'
                               ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role) r
     WHERE c.relnamespace = '_hilo'::regnamespace
       AND x.grantee <> c.relowner AND x.privilege_type <> 'SELECT'
     GROUP BY r.role
     UNION ALL

    -- Each trigger has the rows for which it fires: ordinary ones (O), replicated ones (R) or all
    -- (A). That changes with ALTER TABLE ... ENABLE TRIGGER ALL, as of a restore or of test
    -- fixtures.
    SELECT format('table _hilo.%s', c.relname), 'error',
           format('triggers do not fire as they should (%s), so that rows which are written by '
                  'SQL, restored or replicated may cause a value to be served twice',
                  string_agg(w.name, ', ' ORDER BY w.name)),
           'Let them fire as before. If any was dropped, create it with its statement of '
           'sql/triggers.sql.',
           'ALTER TABLE _hilo.' || c.relname || ' ' || string_agg(
               format('ENABLE %sTRIGGER %s',
                      CASE w.fires WHEN 'R' THEN 'REPLICA ' WHEN 'A' THEN 'ALWAYS ' END, w.name),
               ', ' ORDER BY w.name) FILTER (WHERE t.oid IS NOT NULL) || ';'
      FROM (VALUES
          ('missing_grantee', 'A', '{privilege}'::text[]),
          ('missing_owner', 'O', '{definition}'),
          ('missing_role', 'A', '{default_privilege}'),
          ('note_roles', 'O', '{definition, privilege, default_privilege}'),
          ('refuse_source', 'A', '{definition}'),
          ('refuse_write', 'A',
           '{definition, position, free_range, gap, lease, source, privilege, default_privilege}'),
          ('replicated', 'R',
           '{definition, position, free_range, lease, source, privilege, default_privilege}'),
          ('replicated_owner', 'R', '{definition}'),
          ('restored', 'O', '{definition, position, free_range, lease, source, default_privilege}')
          ) AS w (name, fires, relations)
     CROSS JOIN unnest(w.relations) AS r (relation)
      JOIN pg_class c ON c.relname = 'hilo_' || r.relation
                     AND c.relnamespace = '_hilo'::regnamespace
      LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = w.name
     WHERE t.tgenabled::text IS DISTINCT FROM w.fires
     GROUP BY c.relname
     UNION ALL

    -- Any node of Citus may be asked to serve a sequence.
    SELECT n.object, v.severity,
           format(v.what, count(*), min(k.name COLLATE "C"), min(h.last_error)), v.what_to_do, NULL
      FROM answered n
     CROSS JOIN (SELECT o.name, bool_or(o.node > 0 AND o.source IS NOT NULL) AS is_branch
                   FROM on_node o
                  GROUP BY o.name) k
      LEFT JOIN on_node h ON h.object = n.object AND h.name = k.name
      LEFT JOIN on_node c ON c.node = 0 AND c.name = k.name
     CROSS JOIN LATERAL (VALUES
         ('warning', h.name IS NULL AND k.is_branch,
          'lacks %s sequences, such as "%s", that are branches on other workers',
          'Run hilo_create_on_all_nodes(name) on the coordinator for each of them.'),
         ('error', h.name IS NOT NULL AND h.source IS NULL,
          'does not serve %s sequences, such as "%s": they are no branches of the coordinator',
          'If a column uses one, replace it: docs/multi-node.md says how. Drop each other one '
          'there with hilo_drop, and run hilo_create_on_all_nodes(name) on the coordinator.'),
         ('warning', starts_with(h.source, '-- server citus')
                     AND strpos(h.source, quote_literal(c.numbering)) = 0,
          'serves of %s sequences, such as "%s", what it holds of an earlier numbering, and gets '
          'no more',
          'Run hilo_create_on_all_nodes(name) on the coordinator for each of them.'),
         ('warning', h.state = 'failing' AND h.last_error IS NOT NULL,
          'gets no values of %s sequences, such as "%s": %s',
          'Remove the cause: the owner of each sequence must be able to log in at its source.')
     ) AS v (severity, is_so, what, what_to_do)
     WHERE n.node > 0 AND n.failure IS NULL AND v.is_so
     GROUP BY n.object, v.severity, v.what, v.what_to_do
     UNION ALL
    SELECT a.object, 'warning', format('could not ask it: %s', a.failure),
           'Find out why: the node must be running, and the role that calls hilo_check must be '
           'able to log in there.', NULL
      FROM answered a
     WHERE a.failure IS NOT NULL;
REVOKE ALL ON _hilo.hilo_server_finding FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_server_finding IS
    'Findings of hilo_check about the server, which every role may see';
