-- Branches: sequences that get their values from the hilo of another server, through dblink, or through Citus from its
-- coordinator.

-- The connection of a source stays open for its next query. A query is sent and then looked after,
-- because a call that waits inside libpq hears no cancel and no shutdown.
CREATE FUNCTION _hilo.hilo_remote(server name, query text, of_source boolean DEFAULT false) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $remote$
DECLARE
    dblink CONSTANT text := (
        SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e
          JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink');
    result CONSTANT text := pg_catalog.format(
        'SELECT r FROM %s.dblink_get_result($1) AS t (r jsonb)', dblink);
    disconnect CONSTANT text := pg_catalog.format(
        'SELECT %s.dblink_disconnect($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink);
    -- No session has opened one of this name before, for a function that runs as somebody else.
    connection CONSTANT text := CASE WHEN of_source
        THEN pg_catalog.format('hilo %L %L %L', session_user, current_user, server)
        ELSE pg_catalog.gen_random_uuid()::text END;
    deadline CONSTANT timestamptz := pg_catalog.clock_timestamp() + '10 s'::interval;
    is_open boolean;
    found boolean;
    answer jsonb;
    more jsonb;
    state text; message text; detail text; hint text;
BEGIN
    IF server IS NULL THEN
        -- Citus connects again as the current user, and gives back the first line of an error.
        EXECUTE 'SELECT r.success, r.result FROM pg_catalog.pg_dist_local_group l '
                'CROSS JOIN LATERAL pg_catalog.run_command_on_coordinator($1) r WHERE l.groupid <> 0'
           INTO found, message USING query;
        IF found THEN
            RETURN nullif(message, '')::jsonb;
        ELSIF of_source AND message LIKE ANY (ARRAY[
            '% request ________-____-____-____-____________ has been made before%',
            '% lease "________-____-____-____-____________" was taken before%'])
        THEN
            RETURN NULL;
        END IF;
        RAISE connection_failure USING
            MESSAGE = coalesce('the coordinator of Citus refused: ' || message, 'this server is the coordinator of Citus'),
            HINT = 'The owner of the sequence must be able to log in at the coordinator, and have UPDATE on it there.';
    ELSIF dblink IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'extension dblink is not installed',
            HINT = 'A superuser can install it: CREATE EXTENSION dblink.';
    END IF;
    LOOP
        EXECUTE pg_catalog.format(
            'SELECT coalesce($1 = ANY (%s.dblink_get_connections()), false)', dblink)
           INTO is_open USING connection;
        BEGIN
            IF NOT is_open THEN
                EXECUTE pg_catalog.format('SELECT %s.dblink_connect($1, $2)', dblink)
                  USING connection, server::text;
                EXECUTE pg_catalog.format('SELECT %s.dblink_exec($1, $2)', dblink)
                  USING connection, 'SET search_path = pg_catalog, pg_temp; '
                                    'SET default_transaction_isolation = ''read committed''; '
                                    'SET client_min_messages = error';
            END IF;
            EXECUTE pg_catalog.format('SELECT %s.dblink_send_query($1, $2) = 1', dblink)
               INTO found USING connection, query;
            IF NOT found THEN
                RAISE connection_failure USING MESSAGE = 'could not send a query to the server';
            END IF;
            LOOP
                EXECUTE pg_catalog.format('SELECT %s.dblink_is_busy($1) = 0', dblink)
                   INTO found USING connection;
                EXIT WHEN found;
                IF pg_catalog.clock_timestamp() > deadline THEN
                    RAISE query_canceled USING MESSAGE = pg_catalog.format(
                        'server "%s" did not answer within 10 seconds', server);
                END IF;
                PERFORM pg_catalog.pg_sleep(0.001);
            END LOOP;
            EXECUTE result INTO answer USING connection;
            -- The end of the results, after which the connection takes the next query.
            EXECUTE result INTO more USING connection;
            IF NOT of_source THEN
                EXECUTE disconnect USING connection;
            END IF;
            RETURN answer;
        EXCEPTION WHEN query_canceled OR OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        END;
        EXECUTE disconnect USING connection;
        IF state = '42710' AND of_source THEN
            RETURN NULL;
        END IF;
        -- A connection that had been open may be one to a server that was restarted since.
        EXIT WHEN NOT is_open OR state !~ '^(08|57P)';
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail,
        HINT = coalesce(nullif(hint, ''), pg_catalog.format(
            'Look whether server "%s" answers, and its user mapping.', server));
END;
$remote$;
COMMENT ON FUNCTION _hilo.hilo_remote(name, text, boolean) IS
    'Runs a query on a foreign server, or null: the coordinator of Citus. Returns the first column '
    'of its first row; null: it has none. of_source: the connection stays, and the error that a name '
    'is taken is null too';

CREATE FUNCTION _hilo.hilo_refuse(message text, hint text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $refuse$
BEGIN
    PERFORM _hilo.hilo_raise('55000'::text, message, NULL::text, hint);
END;
$refuse$;
COMMENT ON FUNCTION _hilo.hilo_refuse(text, text) IS 'Fails with 55000';

CREATE FUNCTION _hilo.hilo_remote_sequence(server name, remote_name text) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT CASE WHEN r.found @> '{"cycle": false, "ordered": false, "gapless": false}'::jsonb
                     AND r.found ? 'numbering'::text
                THEN r.found
                ELSE _hilo.hilo_refuse(
                    pg_catalog.format(
                        'hilo sequence "%s" on server "%s" cannot have branches', $2, $1),
                    'It may neither cycle nor be ordered or gapless.') END
      FROM (SELECT coalesce(
                       CASE WHEN n.version IS NOT NULL THEN _hilo.hilo_remote($1, pg_catalog.format(
                           'SELECT pg_catalog.to_jsonb(q) FROM _hilo.hilo_sequences() q '
                           'WHERE q.name OPERATOR(pg_catalog.=) %L::pg_catalog.text', $2)) END,
                       _hilo.hilo_refuse(
                           pg_catalog.format(
                               'there is no hilo sequence "%s" on server "%s"', $2, $1),
                           'Create it there, and grant UPDATE on it to the role of the user '
                           'mapping.')) AS found
              FROM (SELECT coalesce(
                               _hilo.hilo_remote($1,
                                   'SELECT pg_catalog.to_jsonb(e.extversion) '
                                   'FROM pg_catalog.pg_extension e '
                                   'WHERE e.extname = ''hilo'''),
                               _hilo.hilo_refuse(
                                   pg_catalog.format(
                                       'extension hilo is not installed on server "%s"', $1),
                                   'The foreign server names the database: look at its option '
                                   'dbname.'))
                   ) n (version)) r;
END;
COMMENT ON FUNCTION _hilo.hilo_remote_sequence(name, text) IS
    'Returns the row of hilo_sequences on a foreign server';

-- The request as the centre gets it rises with each new one, so it refuses one that comes late. It
-- is what was asked for so far, then the version (7) and the attempt.
CREATE FUNCTION _hilo.hilo_remote_request(asked bigint, attempt integer, request uuid) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (pg_catalog.lpad(pg_catalog.to_hex(asked & 281474976710655::bigint), 12, '0')
            || '700' || attempt::text
            || pg_catalog.substr(pg_catalog.replace(request::text, '-', ''), 17))::uuid;
COMMENT ON FUNCTION _hilo.hilo_remote_request(bigint, integer, uuid) IS
    'Returns the uuid by which a request is known at the centre';

-- This server and the sequence. Copies of it on the same timeline differ in what each request begins
-- with.
CREATE FUNCTION _hilo.hilo_receiver(sequence bigint) RETURNS text
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (SELECT pg_catalog.concat_ws(
                       '/', 'branch', c.system_identifier, pg_catalog.substr(
                           pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8),
                       d.oid, sequence)
              FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
             WHERE d.datname = pg_catalog.current_database());
COMMENT ON FUNCTION _hilo.hilo_receiver(bigint) IS
    'Returns the name by which a centre knows a sequence of this server';

CREATE FUNCTION _hilo.hilo_ask_server(
    server name, name text, n bigint, request uuid, remote_name text, numbering text
) RETURNS TABLE (first bigint, last bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1
BEGIN ATOMIC
    SELECT (a.answer ->> 'first'::text)::bigint, (a.answer ->> 'last'::text)::bigint
      FROM (SELECT pg_catalog.format(
                       -- The function is called for the row that the condition finds, so not
                       -- after a renumbering.
                       'SELECT pg_catalog.to_jsonb(t) FROM _hilo.hilo_sequences() q, '
                       '_hilo.hilo_transfer(_hilo.hilo_sequence(q.name), %s::pg_catalog.int8, ',
                       $3) AS head,
                   pg_catalog.format(
                       ') t WHERE q.name OPERATOR(pg_catalog.=) %1$L::pg_catalog.text '
                       'AND q.numbering OPERATOR(pg_catalog.=) %2$L::pg_catalog.text '
                       'AND t.numbering OPERATOR(pg_catalog.=) %2$L::pg_catalog.text',
                       $5, $6) AS tail,
                   '%L::pg_catalog.text, %L::pg_catalog.uuid' AS who,
                   pg_catalog.concat_ws(
                       '/', _hilo.hilo_receiver(pg_catalog.split_part(q.numbering, '.', 1)::bigint),
                       pg_catalog.split_part($4::text, '-', 1)) AS receiver,
                   COALESCE(s.requested, 0::bigint) AS asked
              FROM @extschema@.hilo_sequences q
              LEFT JOIN @extschema@.hilo_stat_sources s ON s.name = q.name
             WHERE q.name = $2) r
     CROSS JOIN LATERAL (
           SELECT COALESCE(
               -- One that was revoked meanwhile is refused, and so is each that comes before a
               -- later one.
               _hilo.hilo_remote($1, r.head || pg_catalog.format(
                   r.who, r.receiver, _hilo.hilo_remote_request(r.asked, 0, $4)) || r.tail, true),
               _hilo.hilo_remote($1, r.head || pg_catalog.format(
                   r.who, r.receiver, _hilo.hilo_remote_request(r.asked, 1, $4)) || r.tail, true),
               _hilo.hilo_refuse(
                   pg_catalog.format(
                       'hilo sequence "%s" must be attached to %s again', $2, COALESCE(
                           'server "'::text || $1::text || '"', 'the coordinator of Citus')),
                   pg_catalog.format(
                       'It has been renumbered there, dropped, or is not granted any more. '
                       'Call %s.', CASE WHEN $1 IS NULL
                                        THEN 'hilo_create_on_all_nodes on the coordinator'
                                        ELSE 'hilo_attach_server' END))
           ) AS answer) a;
END;
COMMENT ON FUNCTION _hilo.hilo_ask_server(name, text, bigint, uuid, text, text) IS
    'The source of a sequence that hilo_attach_server has attached: takes values by hilo_transfer '
    'from a foreign server, or null: from the coordinator of Citus. remote_name, '
    'numbering: the sequence there, as in hilo_sequences when it was attached. Errors: 55000 if '
    'its numbering is another by now, or without dblink; those of dblink and hilo_transfer.';

-- One process asks for all sequences whose queries begin with the same comment.
CREATE FUNCTION _hilo.hilo_server_source(server name, remote_name text, numbering text)
    RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_catalog.format(
        '-- server %s' || pg_catalog.chr(10) || 'SELECT v.first, v.last '
        'FROM _hilo.hilo_ask_server(%L::pg_catalog.name, $1::pg_catalog.text, $2::pg_catalog.int8, '
        '$3::pg_catalog.uuid, %L::pg_catalog.text, %L::pg_catalog.text) AS v',
        COALESCE(pg_catalog.md5($1::text), 'citus'), $1, $2, $3);
COMMENT ON FUNCTION _hilo.hilo_server_source(name, text, text) IS 'Returns the source of a branch';

CREATE FUNCTION @extschema@.hilo_attach_server(
    name @extschema@.hilo_sequence, server name, remote_name @extschema@.hilo_sequence DEFAULT NULL
) RETURNS @extschema@.hilo_sequence
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT _hilo.hilo_create($1, data_type => (r.there ->> 'data_type'::text)::regtype,
                             increment => (r.there ->> 'increment'::text)::bigint)
      FROM _hilo.hilo_remote_sequence($2, COALESCE($3, $1)::text) AS r (there)
     WHERE NOT EXISTS (SELECT FROM @extschema@.hilo_sequences q WHERE q.name = $1::text);
    SELECT _hilo.hilo_alter(
               $1,
               start_value => (r.there ->> 'start_value'::text)::bigint,
               increment => (r.there ->> 'increment'::text)::bigint,
               min_value => (r.there ->> 'min_value'::text)::bigint,
               max_value => (r.there ->> 'max_value'::text)::bigint,
               data_type => (r.there ->> 'data_type'::text)::regtype,
               block_size => COALESCE((r.there ->> 'block_size'::text)::bigint, 0::bigint),
               key_format => r.there ->> 'key_format'::text,
               source => _hilo.hilo_server_source(
                   $2, r.there ->> 'name'::text, r.there ->> 'numbering'::text))
      FROM _hilo.hilo_remote_sequence($2, COALESCE($3, $1)::text) AS r (there);
    SELECT $1;
END;
COMMENT ON FUNCTION @extschema@.hilo_attach_server(@extschema@.hilo_sequence, name, @extschema@.hilo_sequence) IS
    'Makes a sequence a branch of one on another server, its centre, and returns its name. remote_name is the name '
    'there; null: the same name. If it does not exist here, it is created with the type, increment, bounds, start '
    'value, block size and key format of the one there. From then on its values come from there, by hilo_transfer, '
    'through dblink, the foreign server and the user mapping of the owner of the sequence. After a renumbering there '
    'it serves the values that it holds and gets no more, until it is attached again. Then these values become a gap. '
    'Requires ownership of the sequence, and USAGE on the foreign server. Errors: as for hilo_create and hilo_alter, '
    '55000 without dblink, or if the sequence there does not exist, cycles, is ordered or gapless; those of dblink.';

-- Each step is committed elsewhere, so each node has what the next step reads. source: that of a branch, with
-- '{name}' and '{numbering}'.
CREATE FUNCTION _hilo.hilo_branch_on_workers(names text[], options jsonb, source text)
    RETURNS TABLE (name text, node text, action text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1000 SET search_path = pg_catalog, pg_temp
AS $branches$
#variable_conflict use_column
DECLARE
    on_workers CONSTANT text :=
        'SELECT pg_catalog.jsonb_object_agg(pg_catalog.concat(r.nodename, '':'', r.nodeport), CASE WHEN r.success '
        'THEN coalesce(nullif(r.result, ''''), ''{}'')::pg_catalog.jsonb ELSE pg_catalog.to_jsonb(r.result) END) '
        'FROM pg_catalog.run_command_on_workers($1) r';
    apply CONSTANT text :=
        'SELECT pg_catalog.jsonb_object_agg(a.name, a.action) FROM pg_catalog.set_config(''lock_timeout'', ''2s'', true) '
        'CROSS JOIN LATERAL _hilo.hilo_apply(pg_catalog.jsonb_build_object(''hilo'', 1, ''sequences'', %L::pg_catalog.jsonb), '
        'false, false) AS a (action, name, detail)';
    wanted text[];
    is_coordinator boolean;
    new jsonb;
    branches jsonb;
    made jsonb;
    found jsonb;
    answer record;
    problems text;
BEGIN
    IF names IS NULL OR options IS NULL OR pg_catalog.array_position(names, NULL) IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'name and options of a hilo sequence must not be null',
            HINT = 'Specify a value that is not null.';
    ELSIF pg_catalog.jsonb_typeof(options) <> 'object' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'options of a hilo sequence must be an object',
            HINT = 'Use the fields that hilo_export returns, such as {"data_type": "integer"}.';
    ELSIF pg_catalog.to_regprocedure('pg_catalog.run_command_on_coordinator(text,boolean)') IS NULL THEN
        RAISE feature_not_supported USING MESSAGE = 'Citus is not in this database', DETAIL = 'It says which nodes there are.',
            HINT = 'Elsewhere, make branches with hilo_attach_server, or pass what hilo_node_summary() returns to hilo_apply().';
    END IF;
    EXECUTE 'SELECT l.groupid = 0 FROM pg_catalog.pg_dist_local_group l' INTO is_coordinator;
    IF is_coordinator IS NOT TRUE THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'this server is not the coordinator of Citus',
            HINT = 'Call hilo_create_on_all_nodes on the coordinator.';
    END IF;
    wanted := ARRAY(SELECT DISTINCT u.one FROM pg_catalog.unnest(names) AS u (one));
    EXECUTE on_workers INTO found USING pg_catalog.format(
        'SELECT pg_catalog.jsonb_object_agg(e.value OPERATOR(pg_catalog.->>) ''name''::pg_catalog.text, e.value) '
        'FROM pg_catalog.unnest(%L::pg_catalog.text[]) AS u (one) CROSS JOIN LATERAL pg_catalog.jsonb_array_elements('
        '_hilo.hilo_node_summary(_hilo.hilo_sequence(u.one)) OPERATOR(pg_catalog.->) ''sequences''::pg_catalog.text) AS e',
        wanted);
    SELECT pg_catalog.string_agg(pg_catalog.format('node %s: %s', n.key, CASE
               WHEN pg_catalog.jsonb_typeof(n.value) = 'string' THEN n.value #>> '{}'::text[]
               ELSE pg_catalog.format('its sequence "%s" is no branch of the coordinator: docs/citus.md says how to replace it',
                                      e.key) END), E'\n' ORDER BY n.key)
      INTO problems
      FROM pg_catalog.jsonb_each(found) n
      LEFT JOIN LATERAL pg_catalog.jsonb_each(CASE pg_catalog.jsonb_typeof(n.value) WHEN 'object' THEN n.value END) e
             ON NOT pg_catalog.starts_with(coalesce(e.value ->> 'source'::text, ''), pg_catalog.split_part(source, E'\n', 1))
     WHERE pg_catalog.jsonb_typeof(n.value) = 'string' OR e.key IS NOT NULL;
    SELECT pg_catalog.jsonb_agg(options || pg_catalog.jsonb_build_object('name', u.one)),
           pg_catalog.jsonb_agg(options || pg_catalog.jsonb_build_object('name', u.one, 'source', 'SELECT 1'))
      INTO new, branches
      FROM pg_catalog.unnest(wanted) AS u (one)
     WHERE problems IS NULL AND NOT EXISTS (SELECT FROM _hilo.hilo_described d WHERE d.name = u.one);
    IF new IS NOT NULL THEN
        -- A sequence that cannot have branches is refused before anything is made.
        PERFORM _hilo.hilo_apply(pg_catalog.jsonb_build_object('hilo', 1, 'sequences', branches), false, true);
        EXECUTE 'SELECT r.success, r.result FROM pg_catalog.run_command_on_coordinator($1) r' INTO answer
          USING pg_catalog.format(apply, new);
        made := CASE WHEN answer.success THEN answer.result::jsonb END;
        problems := CASE WHEN NOT answer.success THEN 'coordinator: ' || answer.result END;
    END IF;
    IF problems IS NULL THEN
        SELECT pg_catalog.jsonb_agg(e.value - '{owned_by,source,reserve_ahead}'::text[] || pg_catalog.jsonb_build_object(
                   'source', pg_catalog.replace(pg_catalog.replace(source, '''{numbering}''', pg_catalog.quote_literal(q.numbering)),
                                                '''{name}''', pg_catalog.quote_literal(q.name))))
          INTO branches
          FROM _hilo.hilo_sequences() q
          JOIN _hilo.hilo_described d ON d.name = q.name
         CROSS JOIN LATERAL (SELECT d.entry AS value) e
         WHERE q.name = ANY (wanted);
        EXECUTE on_workers INTO found USING pg_catalog.format(apply, branches);
        SELECT pg_catalog.string_agg(pg_catalog.format('node %s: %s', n.key, n.value #>> '{}'::text[]), E'\n' ORDER BY n.key)
          INTO problems
          FROM pg_catalog.jsonb_each(found) n WHERE pg_catalog.jsonb_typeof(n.value) = 'string';
    END IF;
    IF problems IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = pg_catalog.format('could not create hilo sequence "%s" on all nodes', wanted[1]),
            DETAIL = problems, HINT = 'Remove the cause and call it again: nodes that have the sequence keep it.';
    END IF;
    RETURN QUERY
        SELECT u.one, n.node, coalesce(n.actions ->> u.one, 'exists')
          FROM pg_catalog.unnest(wanted) AS u (one)
         CROSS JOIN (SELECT 'coordinator', made UNION ALL SELECT f.key, f.value FROM pg_catalog.jsonb_each(found) f)
                    AS n (node, actions);
END;
$branches$;
COMMENT ON FUNCTION _hilo.hilo_branch_on_workers(text[], jsonb, text) IS 'Does what hilo_create_on_all_nodes does';

-- A rollback would not reach the other nodes.
CREATE FUNCTION _hilo.hilo_is_outside_block() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_outside_block_wrapper';
COMMENT ON FUNCTION _hilo.hilo_is_outside_block() IS 'Returns true, or fails with 25001 in a transaction block';

CREATE FUNCTION _hilo.hilo_create_on_all_nodes(names text[], options jsonb)
    RETURNS TABLE (name text, node text, action text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1000
BEGIN ATOMIC
    SELECT d.name, d.node, d.action
      FROM _hilo.hilo_branch_on_workers($1, $2, CASE WHEN _hilo.hilo_is_outside_block() THEN _hilo.hilo_server_source(
               NULL, '{name}', '{numbering}') END) d;
END;
COMMENT ON FUNCTION _hilo.hilo_create_on_all_nodes(text[], jsonb) IS 'Does what hilo_create_on_all_nodes does';

CREATE FUNCTION @extschema@.hilo_create_on_all_nodes(names text[], options jsonb DEFAULT '{}')
    RETURNS TABLE (name text, node text, action text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1000
BEGIN ATOMIC
    SELECT d.name, d.node, d.action FROM _hilo.hilo_create_on_all_nodes($1, $2) d;
END;
COMMENT ON FUNCTION @extschema@.hilo_create_on_all_nodes(text[], jsonb) IS
    'Creates many sequences with the same options on all nodes of Citus, as this function does '
    'with one name. Returns a row for each sequence and node.';

CREATE FUNCTION @extschema@.hilo_create_on_all_nodes(name @extschema@.hilo_sequence, options jsonb DEFAULT '{}')
    RETURNS TABLE (node text, action text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT d.node, d.action FROM _hilo.hilo_create_on_all_nodes(ARRAY[$1::text], $2) d;
END;
COMMENT ON FUNCTION @extschema@.hilo_create_on_all_nodes(@extschema@.hilo_sequence, jsonb) IS
    'Creates a sequence on the coordinator of Citus, and makes it a branch on each worker, whose values come from '
    'there. Returns what was done on each node: create, exists, or an action of hilo_apply. A worker gets the '
    'definition, the owner and the privileges of the coordinator, and the numbering that it has by now. Values that '
    'the worker holds of an earlier numbering become a gap. Called again, it completes later nodes, whatever the '
    'options. These are the fields of a sequence in a document of hilo_export. A rollback does not undo it. Errors: '
    '55000 on a worker, if a node cannot be asked or refuses, or if a worker has a sequence of this name that is no '
    'branch; 0A000 without Citus, or for one that cycles, is ordered or gapless; 25001 in a transaction block, 22023 '
    'for other options.';

CREATE FUNCTION @extschema@.hilo_adopt_on_all_nodes(relation regclass, column_name name, name @extschema@.hilo_sequence DEFAULT NULL) RETURNS @extschema@.hilo_sequence
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    -- Else Citus reads the shards over several connections, and then cannot alter the table.
    SET citus.multi_shard_modify_mode = 'sequential'
AS $adopt$
#variable_conflict use_column
DECLARE
    old record;
    largest bigint;
    reached bigint;
    new text;
BEGIN
    IF relation IS NULL OR column_name IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'relation and column name must not be null',
            HINT = 'Specify a serial column.';
    ELSIF pg_catalog.current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction USING
            MESSAGE = 'cannot execute hilo_adopt_on_all_nodes() in a read-only transaction';
    END IF;
    SELECT s.seqrelid::regclass AS sequence, s.seqincrement, s.seqmin, s.seqmax, s.seqstart, c.relname, a.attidentity,
           pg_catalog.format_type(a.atttypid, NULL) AS data_type, pg_catalog.pg_get_userbyid(t.relowner) AS owner,
           pg_catalog.format('%I.%I', n.nspname, t.relname) AS "table", pg_catalog.pg_has_role(t.relowner, 'USAGE') AS own,
           -- An owner can put code where a query of the table runs it.
           EXISTS (WITH RECURSIVE part AS (
                       SELECT $1::oid AS relation
                        UNION
                       SELECT i.inhrelid FROM part p JOIN pg_catalog.pg_inherits i ON i.inhparent = p.relation)
                   SELECT FROM part p
                     JOIN pg_catalog.pg_class c ON c.oid = p.relation
                     JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
                    WHERE NOT r.rolsuper AND r.rolname <> CURRENT_USER) AS of_others
      INTO old
      FROM pg_catalog.pg_attribute a
      JOIN pg_catalog.pg_class t ON t.oid = a.attrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
      JOIN pg_catalog.pg_sequence s ON s.seqrelid = pg_catalog.pg_get_serial_sequence($1::text, $2::text)::regclass::oid
      JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
     WHERE a.attrelid = $1::oid AND a.attname = $2;
    IF NOT FOUND OR old.attidentity <> '' OR old.seqincrement < 0 OR old.data_type NOT IN ('smallint', 'integer', 'bigint') THEN
        RAISE feature_not_supported USING
            MESSAGE = pg_catalog.format('column %s.%I is no serial column that rises', relation, column_name),
            HINT = 'For another column, create a sequence with hilo_create_on_all_nodes, and change the default.';
    END IF;
    IF NOT old.own THEN
        RAISE insufficient_privilege USING MESSAGE = pg_catalog.format('must be owner of table %s', relation),
            HINT = 'Do it as the owner of the table.';
    ELSIF old.of_others THEN
        RAISE wrong_object_type USING
            MESSAGE = pg_catalog.format('column %s.%I is read by a query, and not all of it belongs to this role', relation, column_name),
            DETAIL = 'The query would run what other roles have put into the table, with the rights of this one.',
            HINT = 'SET ROLE to the owner of the table, and call it again.';
    END IF;
    new := coalesce($3::text, old.relname);
    IF EXISTS (SELECT FROM _hilo.hilo_described d WHERE d.name = new) THEN
        RAISE duplicate_object USING MESSAGE = pg_catalog.format('hilo sequence "%s" already exists', new),
            HINT = 'Choose another name, or drop it on all nodes.';
    END IF;
    EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', old."table");
    -- Citus lets a worker give a bigint column ids above 2^48, which are never reached.
    EXECUTE pg_catalog.format('SELECT pg_catalog.max(%1$I) FROM %2$s WHERE %1$I <= %3$s', column_name, old."table",
                              CASE old.data_type WHEN 'bigint' THEN 1::bigint << 48 ELSE old.seqmax END)
       INTO largest;
    EXECUTE pg_catalog.format('SELECT CASE WHEN is_called THEN last_value ELSE last_value - %s END FROM %s',
                              old.seqincrement, old.sequence)
       INTO reached;
    PERFORM _hilo.hilo_create_on_all_nodes(ARRAY[new], pg_catalog.jsonb_build_object(
        'data_type', old.data_type, 'increment', old.seqincrement, 'min_value', old.seqmin, 'max_value', old.seqmax,
        'start_value', greatest(largest, reached) + old.seqincrement, 'owner', old.owner));
    EXECUTE (SELECT pg_catalog.format('ALTER TABLE %s ALTER %I SET DEFAULT %3$I.hilo_nextval(%L::%3$I.hilo_sequence)',
                                      old."table", column_name, n.nspname, new)
               FROM pg_catalog.pg_extension e
               JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo');
    EXECUTE pg_catalog.format('DROP SEQUENCE %s', old.sequence);
    RETURN _hilo.hilo_sequence(new);
END;
$adopt$;
COMMENT ON FUNCTION @extschema@.hilo_adopt_on_all_nodes(regclass, name, @extschema@.hilo_sequence) IS
    'Makes a serial column of a distributed table draw from a new hilo sequence on all nodes of Citus, and returns '
    'its name; null: that of the old sequence, which is dropped. The new one continues beyond the old one, and beyond '
    'the values of the column that are not above 2^48. The owner of the table owns it. Keeps others from writing to the '
    'table meanwhile. If it fails, call it again with another name, or drop the new sequence on all nodes. Errors: '
    '0A000 for another column, 42501 if the caller is not the owner, 42809 if a part of the table belongs to another role '
    'that is no superuser, 42710 if the name is taken, and those of hilo_create_on_all_nodes.';
