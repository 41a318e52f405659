-- hilo_apply: makes the sequences those that a document describes.
--
-- Everything goes the way of hilo_create, hilo_alter, hilo_set_owner, hilo_grant, hilo_revoke and hilo_drop. A sequence that
-- is already as described is neither locked nor changed. Whoever may not change one of them learns nothing of it.

CREATE FUNCTION _hilo.hilo_grants_without(these jsonb, others jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('grantee', r.grantee, 'privileges', r.privileges) ORDER BY r.grantee COLLATE "C")
      FROM (SELECT s.grantee, s.privileges - COALESCE(
                       (SELECT pg_catalog.array_agg(v.privilege)
                          FROM pg_catalog.jsonb_to_recordset($2) AS o (grantee text, privileges jsonb)
                         CROSS JOIN LATERAL pg_catalog.jsonb_array_elements_text(o.privileges) AS v (privilege)
                         WHERE o.grantee = s.grantee), '{}') AS privileges
              FROM pg_catalog.jsonb_to_recordset($1) AS s (grantee text, privileges jsonb)) r
     WHERE r.privileges <> '[]';
END;
COMMENT ON FUNCTION _hilo.hilo_grants_without(jsonb, jsonb) IS 'Returns the privileges of some that others do not have; null: none';

CREATE FUNCTION _hilo.hilo_begin_apply(document jsonb) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_begin_apply_wrapper';
COMMENT ON FUNCTION _hilo.hilo_begin_apply(jsonb) IS 'Fails where nothing can be written, and if there is no document';

CREATE FUNCTION _hilo.hilo_check_may_apply(name text, at bigint) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_check_may_apply_wrapper';
COMMENT ON FUNCTION _hilo.hilo_check_may_apply(text, bigint) IS
    'Fails unless the caller may change the sequence of this name or, if there is none, create it. at: its place in a document';

CREATE FUNCTION _hilo.hilo_owning_column(column_name text, at bigint, lock boolean) RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_owning_column_wrapper';
COMMENT ON FUNCTION _hilo.hilo_owning_column(text, bigint, boolean) IS
    'Returns the column of an owned_by as schema.table.column, or null for none. at: its place in a document. lock: the table stays '
    'as it is until the transaction ends, which takes its owner';

CREATE FUNCTION _hilo.hilo_lock(name text) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lock_wrapper';
COMMENT ON FUNCTION _hilo.hilo_lock(text) IS 'Locks the sequence of this name, if there is one. Requires ownership of it';

CREATE FUNCTION _hilo.hilo_lock_definitions(keep boolean) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lock_definitions_wrapper';
COMMENT ON FUNCTION _hilo.hilo_lock_definitions(boolean) IS
    'Waits for other transactions that apply a document, and for DROP EXTENSION. keep: and keeps the lock until the transaction ends';

-- A sequence that is to be made, changed or, if it is in no place of the document, dropped.
CREATE TYPE _hilo.hilo_task AS (
    at bigint,
    name text,
    is_new boolean,
    -- Arguments of hilo_apply_one
    entry jsonb,
    base bigint,
    nodes integer,
    stripe bigint,
    -- The row of the result for one that is made or dropped
    detail jsonb,
    privileges jsonb,
    changes jsonb,
    gives jsonb,
    revokes jsonb,
    grants jsonb
);
COMMENT ON TYPE _hilo.hilo_task IS 'The work of hilo_apply on a sequence';

CREATE FUNCTION _hilo.hilo_tasks(document jsonb, prune boolean) RETURNS SETOF _hilo.hilo_task
    LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    SELECT w.at, w.name, d.id IS NULL,
           CASE WHEN d.id IS NULL
                THEN w.entry OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('owned_by', w.options -> 'owned_by'::text)
                -- A bound that is left out may follow the data type, so all options are given.
                ELSE (SELECT pg_catalog.jsonb_object_agg(a.key, CASE a.value WHEN 'null' THEN n.none -> a.key ELSE a.value END)
                        FROM pg_catalog.jsonb_each(w.options) a
                       WHERE a.value <> d.options -> a.key
                          OR (a.key <> ALL (ARRAY['key_format', 'owned_by'])
                              AND w.options - 'owned_by'::text <> d.options - 'owned_by'::text)) END,
           w.base, w.nodes, w.stripe,
           CASE WHEN d.id IS NULL
                THEN pg_catalog.jsonb_strip_nulls(w.entry - '{name,numbering,privileges}'::text[])
                     OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('owner', COALESCE(w.owner, CURRENT_USER::text)) END,
           CASE WHEN d.id IS NULL THEN w.privileges END,
           CASE WHEN w.options <> d.options THEN (
               SELECT pg_catalog.jsonb_object_agg(a.key, pg_catalog.jsonb_build_object('from', b.value, 'to', a.value))
                 FROM pg_catalog.jsonb_each(w.options) a
                 JOIN pg_catalog.jsonb_each(d.options) b ON b.key = a.key AND b.value <> a.value) END,
           CASE WHEN g.is_given THEN pg_catalog.jsonb_build_object('from', d.owner, 'to', w.owner) END,
           CASE WHEN h.are_others THEN _hilo.hilo_grants_without(h.held, w.privileges) END,
           CASE WHEN h.are_others THEN _hilo.hilo_grants_without(w.privileges, h.held) END
      FROM (SELECT a.at, a.name, a.entry, a.owner, a.privileges, a.base, a.nodes, a.stripe,
                   CASE WHEN a.owned_by IS NULL THEN a.options
                        ELSE pg_catalog.jsonb_set(a.options, '{owned_by}', COALESCE(
                                 pg_catalog.to_jsonb(_hilo.hilo_owning_column(a.owned_by, a.at, false)), 'null')) END AS options
              FROM _hilo.hilo_wanted($1) a OFFSET 0) w
      -- By key: conditions of a join do not pass the barrier of a view.
      LEFT JOIN LATERAL (SELECT v.* FROM _hilo.hilo_described v WHERE v.name = w.name OFFSET 0) d ON true
     CROSS JOIN LATERAL (SELECT d.id IS NOT NULL AND COALESCE(w.owner <> d.owner, w.owner IS NOT NULL) AS is_given) g
     CROSS JOIN (SELECT '{"block_size": 0, "slice_size": 0, "key_format": "{name}/{server}{value}", "source": "", "reserve_ahead": 0,
                          "owned_by": "none"}'::jsonb AS none) n
     -- Privileges of both owners end when one gives the sequence to the other.
     CROSS JOIN LATERAL (
         SELECT CASE WHEN NOT g.is_given THEN d.privileges ELSE (
             SELECT COALESCE(pg_catalog.jsonb_agg(p.value), '[]')
               FROM pg_catalog.jsonb_array_elements(d.privileges) p
              WHERE p.value ->> 'grantee'::text NOT IN (w.owner, COALESCE(d.owner, w.owner))) END AS held) p
     CROSS JOIN LATERAL (
         SELECT p.held, pg_catalog.jsonb_typeof(w.entry -> 'privileges'::text) = 'array' AND w.entry -> 'privileges'::text <> p.held
                            AS are_others) h
     WHERE d.id IS NULL OR w.options <> d.options OR g.is_given
        OR CASE WHEN w.entry -> 'privileges'::text = d.privileges THEN false ELSE w.privileges <> d.privileges END
        OR (w.base IS NOT NULL
            AND NOT EXISTS (SELECT FROM _hilo.hilo_numbering(d.id) n WHERE n.base = w.base AND n.nodes = w.nodes AND n.stripe = w.stripe))
     UNION ALL
    SELECT NULL, d.name, false, NULL, NULL, NULL, NULL, d.entry - 'name'::text, NULL, NULL, NULL, NULL, NULL
      FROM _hilo.hilo_described d
     WHERE $2 AND d.is_owned AND d.name NOT IN (SELECT w.name FROM _hilo.hilo_wanted($1) w);
END;
COMMENT ON FUNCTION _hilo.hilo_tasks(jsonb, boolean) IS 'Returns the sequences that are not as a document, whose caller may change them, wants them';

CREATE FUNCTION _hilo.hilo_apply_one(
    name @extschema@.hilo_sequence,
    start_value bigint,
    increment bigint,
    min_value bigint,
    max_value bigint,
    data_type regtype,
    cycle boolean,
    ordered boolean,
    block_size bigint,
    slice_size bigint,
    key_format text,
    is_new boolean,
    gapless boolean,
    owned_by text,
    source text,
    reserve_ahead interval,
    base bigint,
    nodes integer,
    stripe bigint,
    dry_run boolean
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_apply_one_wrapper';
COMMENT ON FUNCTION _hilo.hilo_apply_one(@extschema@.hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, boolean, boolean, text, text, interval, bigint, integer, bigint, boolean) IS
    'Creates a sequence if is_new, as hilo_create does, or alters one, as hilo_alter does. base, nodes and stripe: how other servers number it. '
    'Returns whether this server has been told that of a sequence that exists. dry_run: leaves the numbers as they are';

-- Each task, and the place of an error in the document. Rows that were returned stay when their work is rolled back.
CREATE FUNCTION _hilo.hilo_do_tasks(tasks _hilo.hilo_task[], dry_run boolean, of_server boolean)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp
AS $apply$
#variable_conflict use_column
DECLARE
    -- hilo_default_grant has given privileges on sequences that are new.
    has_defaults boolean;
    task record;
    of_role record;
    held jsonb;
    is_told boolean;
    place bigint;
    code text;
    message text;
    details text;
    advice text;
BEGIN
    has_defaults := EXISTS (SELECT FROM _hilo.hilo_default_privileges());
    FOR task IN
        SELECT t.at, t.name AS of, t.is_new, t.base, t.nodes, t.stripe, t.detail AS description, t.privileges, t.changes, t.gives,
               t.revokes, t.grants, e.*
          FROM pg_catalog.unnest(tasks) t
         CROSS JOIN LATERAL pg_catalog.jsonb_to_record(coalesce(t.entry, '{}')) AS e (
             start_value bigint, increment bigint, min_value bigint, max_value bigint, data_type text, cycle boolean,
             ordered boolean, block_size bigint, slice_size bigint, key_format text, owner text, gapless boolean,
             owned_by text, source text, reserve_ahead bigint)
         ORDER BY t.name COLLATE "C"
    LOOP
        place := task.at;
        name := task.of;
        IF task.at IS NULL THEN
            IF NOT dry_run THEN
                PERFORM _hilo.hilo_drop(_hilo.hilo_sequence(name), true, false);
            END IF;
            action := 'drop';
            detail := task.description;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF task.is_new AND of_server AND task.base IS NULL THEN
            -- This server would begin as nobody did.
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = pg_catalog.format('it is not known how hilo sequence "%s" is numbered', name),
                DETAIL = 'The server that the summary is of refuses to serve it.',
                HINT = 'Pass the summary of a server that serves it.';
        END IF;
        -- A table and its sequence have one owner, so a new column waits until that is settled.
        is_told := _hilo.hilo_apply_one(
            _hilo.hilo_sequence(name), task.start_value, task.increment, task.min_value, task.max_value, task.data_type::regtype,
            task.cycle, task.ordered, task.block_size, task.slice_size, task.key_format, task.is_new, task.gapless,
            CASE WHEN NOT task.is_new AND task.owned_by IS NOT NULL THEN 'none' END, task.source,
            pg_catalog.make_interval(secs => task.reserve_ahead::double precision), task.base, task.nodes, task.stripe, dry_run);
        IF coalesce(task.owner, task.gives ->> 'to'::text) IS NOT NULL THEN
            PERFORM _hilo.hilo_set_owner(_hilo.hilo_sequence(name), coalesce(task.owner, task.gives ->> 'to'::text));
        END IF;
        IF task.owned_by <> 'none' THEN
            -- All arguments, so that no function with fewer is another candidate.
            PERFORM _hilo.hilo_alter(
                _hilo.hilo_sequence(name), NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::regtype, NULL::boolean,
                NULL::boolean, NULL::bigint, NULL::bigint, NULL::text, NULL::bigint, NULL::boolean, task.owned_by, NULL::text,
                NULL::interval);
        END IF;
        IF is_told THEN
            action := 'number';
            detail := pg_catalog.jsonb_build_object('base', task.base, 'nodes', task.nodes, 'stripe', task.stripe);
            RETURN NEXT;
        END IF;
        IF task.is_new THEN
            held := CASE WHEN has_defaults
                         THEN (SELECT d.privileges FROM _hilo.hilo_described d WHERE d.name = task.of) ELSE '[]' END;
            action := 'create';
            detail := task.description || pg_catalog.jsonb_build_object('privileges', coalesce(task.privileges, held));
            RETURN NEXT;
            IF task.privileges IS NOT NULL THEN
                task.revokes := held;
                task.grants := task.privileges;
            END IF;
        ELSE
            IF task.changes IS NOT NULL THEN
                action := 'alter';
                detail := task.changes;
                RETURN NEXT;
            END IF;
            IF task.gives IS NOT NULL THEN
                action := 'set_owner';
                detail := task.gives;
                RETURN NEXT;
            END IF;
        END IF;
        FOR of_role IN
            SELECT 'revoke' AS action, r.grantee, r.privileges
              FROM pg_catalog.jsonb_to_recordset(task.revokes) AS r (grantee text, privileges jsonb)
             UNION ALL
            SELECT 'grant', g.grantee, g.privileges
              FROM pg_catalog.jsonb_to_recordset(task.grants) AS g (grantee text, privileges jsonb)
        LOOP
            held := of_role.privileges;
            IF dry_run AND NOT task.is_new THEN
                NULL;
            ELSIF of_role.action = 'revoke' THEN
                PERFORM _hilo.hilo_revoke(_hilo.hilo_sequence(name), of_role.grantee, pg_catalog.translate(held::text, '[]"', ''));
            ELSE
                PERFORM _hilo.hilo_grant(_hilo.hilo_sequence(name), of_role.grantee, pg_catalog.translate(held::text, '[]"', ''));
            END IF;
            IF NOT task.is_new THEN
                action := of_role.action;
                detail := pg_catalog.jsonb_build_object('grantee', of_role.grantee, 'privileges', held);
                RETURN NEXT;
            END IF;
        END LOOP;
    END LOOP;
    IF dry_run THEN
        RAISE EXCEPTION 'the dry run has ended' USING ERRCODE = 'HI000';
    END IF;
EXCEPTION
    WHEN SQLSTATE 'HI000' THEN
        NULL;
    WHEN OTHERS THEN
        IF place IS NULL THEN
            RAISE;
        END IF;
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, details = PG_EXCEPTION_DETAIL,
            advice = PG_EXCEPTION_HINT;
        details := pg_catalog.ltrim(pg_catalog.format('%s The error is at sequences[%s] of the document.', details, place));
        IF advice = '' THEN
            RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = details;
        END IF;
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = details, HINT = advice;
END;
$apply$;
COMMENT ON FUNCTION _hilo.hilo_do_tasks(_hilo.hilo_task[], boolean, boolean) IS 'Does these tasks. dry_run: and rolls them back';

CREATE FUNCTION _hilo.hilo_column_defaults() RETURNS TABLE (relation oid, number smallint, name text, missing boolean)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'hilo_column_defaults_wrapper';
COMMENT ON FUNCTION _hilo.hilo_column_defaults() IS 'Returns the columns whose default names a sequence, the name, and whether there is no such sequence';

-- The tables that own sequences are locked first, and stay as they are until the transaction ends. Then the extension, so that
-- one call waits for another instead of colliding with it over a name. Then the sequences that differ, in the order of
-- their names. Each statement sees what others have committed before it. A dry run keeps none of these locks, and locks one
-- sequence at a time.
CREATE FUNCTION _hilo.hilo_apply_locked(document jsonb, prune boolean, dry_run boolean)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    SELECT _hilo.hilo_owning_column(w.owned_by, w.at, NOT $3) FROM _hilo.hilo_wanted($1) w WHERE w.owned_by IS NOT NULL ORDER BY w.at;
    SELECT _hilo.hilo_lock_definitions(NOT $3);
    SELECT _hilo.hilo_raise('2BP01', 'cannot drop hilo sequences that the document does not contain because other objects depend on them',
                      pg_catalog.string_agg(u.what, E'\n'),
                      'Add these sequences to the document, change the defaults, or drop the sequences with '
                      'hilo_drop(name, cascade => true).')
      FROM (SELECT pg_catalog.format('%s depends on hilo sequence "%s"',
                                     pg_catalog.pg_describe_object('pg_catalog.pg_attrdef'::regclass, a.oid, 0), c.name) AS what
              FROM _hilo.hilo_column_defaults() c
              JOIN pg_catalog.pg_attrdef a ON a.adrelid = c.relation AND a.adnum = c.number
              JOIN _hilo.hilo_described d ON d.name = c.name
             WHERE $2 AND d.is_owned AND d.name NOT IN (SELECT w.name FROM _hilo.hilo_wanted($1) w)
             ORDER BY 1 LIMIT 100) u
    HAVING pg_catalog.count(*) > 0;
    SELECT _hilo.hilo_lock(t.name) FROM (
        SELECT a.name FROM _hilo.hilo_tasks($1, $2) a WHERE NOT $3 AND NOT a.is_new AND a.at IS NOT NULL ORDER BY a.name COLLATE "C") t;
    SELECT a.action, a.name, a.detail
      FROM (SELECT pg_catalog.array_agg(t) AS tasks FROM _hilo.hilo_tasks($1, $2) t
             GROUP BY CASE WHEN $3 THEN t.name END ORDER BY pg_catalog.min(t.name COLLATE "C")) t
     CROSS JOIN LATERAL _hilo.hilo_do_tasks(t.tasks, $3,
                                   COALESCE(pg_catalog.jsonb_typeof($1 -> 'node'::text) = 'object', false)) a;
END;
COMMENT ON FUNCTION _hilo.hilo_apply_locked(jsonb, boolean, boolean) IS 'Does what hilo_apply does, for a caller who may';

CREATE FUNCTION _hilo.hilo_apply(document jsonb, prune boolean, dry_run boolean)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10 SET jit = off
BEGIN ATOMIC
    SELECT _hilo.hilo_begin_apply($1);
    SELECT _hilo.hilo_raise(f.code, f.message, f.detail, f.hint) FROM _hilo.hilo_document_fault($1) f;
    SELECT _hilo.hilo_raise('55000', pg_catalog.format('node %s is another server', _hilo.hilo_node_id()),
                      'The summary is of a server that has the hilo.node_id of this one.', 'Give each server its own hilo.node_id.')
     WHERE ($1 #>> '{node,id}'::text[])::integer = _hilo.hilo_node_id() AND $1 #>> '{node,server}'::text[] <> _hilo.hilo_server();
    -- Before the caller learns whether that is needed.
    SELECT _hilo.hilo_check_may_apply(e.value ->> 'name'::text, e.at - 1)
      FROM pg_catalog.jsonb_array_elements($1 -> 'sequences'::text) WITH ORDINALITY AS e (value, at) ORDER BY e.at;
    SELECT a.action, a.name, a.detail
      FROM (SELECT $1 AS document WHERE EXISTS (SELECT FROM _hilo.hilo_tasks($1, $2)) OFFSET 0) d
     CROSS JOIN LATERAL _hilo.hilo_apply_locked(d.document, $2, COALESCE($3, false)) a;
END;
COMMENT ON FUNCTION _hilo.hilo_apply(jsonb, boolean, boolean) IS 'Does what hilo_apply does';

CREATE FUNCTION @extschema@.hilo_apply(document jsonb, prune boolean DEFAULT false, dry_run boolean DEFAULT false)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT a.action, a.name, a.detail FROM _hilo.hilo_apply($1, $2, $3) a;
END;
COMMENT ON FUNCTION @extschema@.hilo_apply(jsonb, boolean, boolean) IS
    'Creates and alters sequences until they are as a document describes them. Returns a row '
    'for each change: create, number, alter, set_owner, grant, revoke or drop. An option that '
    'is left out gets its default; owner and privileges that are left out stay as they are. '
    'Never moves the position of a sequence that exists. number: this server has not served the '
    'sequence under its present node id, and is told by the document how the other nodes number '
    'it. prune: also drops those sequences of the caller that the document does not contain. '
    'dry_run: changes nothing and returns the same rows. Requires what the functions for each '
    'change require. Errors: 22023 for a document that is not valid, with the place in DETAIL; '
    '2BP01 if a column default uses a sequence that is to be dropped; those of hilo_create, '
    'hilo_alter, hilo_set_owner and hilo_grant.';
