-- Queries on another server, through dblink, or through Citus on its coordinator; and errors whose
-- text may be long.

CREATE FUNCTION _hilo.hilo_refuse(
    message text, hint text, detail text DEFAULT NULL, code text DEFAULT '55000'
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_refuse_wrapper';
COMMENT ON FUNCTION _hilo.hilo_refuse(text, text, text, text) IS
    'Fails with this error, whose texts are cut at 8000 bytes: for texts that echo an argument of '
    'any length. The sources that hilo_attach writes call it where their counter is not what it '
    'was';

CREATE FUNCTION _hilo.hilo_may_see(name @extschema@.hilo_sequence) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_may_see_wrapper';
COMMENT ON FUNCTION _hilo.hilo_may_see(@extschema@.hilo_sequence) IS
    'Returns true, or fails: with 42704 if the sequence does not exist, and with 42501 if the '
    'current user may not read it';

-- Citus gives back nothing but one value, or the first line of an error. It sets no limits to a
-- query, and this one comes from a worker that gives it up after a while.
CREATE FUNCTION _hilo.hilo_answer(query text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '8s'
AS $answer$
DECLARE
    patience CONSTANT text := pg_catalog.current_setting('hilo.reserve_timeout', true);
    answer jsonb;
    state text; message text; detail text; hint text;
BEGIN
    PERFORM pg_catalog.set_config('hilo.reserve_timeout', '8s', true)
      WHERE patience::interval > '8s'::interval;
    EXECUTE query INTO answer;
    PERFORM pg_catalog.set_config('hilo.reserve_timeout', patience, true)
      WHERE patience IS NOT NULL;
    RETURN pg_catalog.jsonb_build_object('answer', answer);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN pg_catalog.jsonb_build_object(
        'state', state, 'message', message, 'detail', detail, 'hint', hint);
END;
$answer$;
COMMENT ON FUNCTION _hilo.hilo_answer(text) IS
    'Runs a query as the caller, and returns the first column of its first row, or its error. '
    'Waits for 8 s for each lock';

CREATE FUNCTION _hilo.hilo_ask_coordinator(query text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $ask$
DECLARE
    has_answered boolean;
    answer text;
BEGIN
    -- Citus connects again as the current user.
    EXECUTE 'SELECT r.success, r.result FROM pg_catalog.pg_dist_local_group l '
            'CROSS JOIN LATERAL pg_catalog.run_command_on_coordinator($1) r '
            'WHERE l.groupid <> 0'
       INTO has_answered, answer
      USING pg_catalog.format('SELECT _hilo.hilo_answer(%L::pg_catalog.text)', query);
    IF has_answered IS NOT TRUE THEN
        RAISE connection_failure USING
            MESSAGE = coalesce('the coordinator of Citus did not answer: ' || answer,
                               'this server is the coordinator of Citus'),
            HINT = 'The owner of the sequence must be able to log in at the coordinator.';
    END IF;
    RETURN answer::jsonb;
END;
$ask$;
COMMENT ON FUNCTION _hilo.hilo_ask_coordinator(text) IS
    'Returns what hilo_answer returns on the coordinator of Citus';

-- A query is sent and then looked after, because a call that waits inside libpq hears no cancel and
-- no shutdown.
CREATE FUNCTION _hilo.hilo_dblink_query(
    dblink text, connection text, query text, deadline timestamptz
) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $query$
DECLARE
    result CONSTANT text := pg_catalog.format(
        'SELECT r FROM %s.dblink_get_result($1) AS t (r jsonb)', dblink);
    is_sent boolean;
    is_ready boolean;
    answer jsonb;
    more jsonb;
BEGIN
    EXECUTE pg_catalog.format('SELECT %s.dblink_send_query($1, $2) = 1', dblink)
       INTO is_sent USING connection, query;
    IF NOT is_sent THEN
        RAISE connection_failure USING MESSAGE = 'could not send a query to the server';
    END IF;
    LOOP
        EXECUTE pg_catalog.format('SELECT %s.dblink_is_busy($1) = 0', dblink)
           INTO is_ready USING connection;
        EXIT WHEN is_ready;
        IF pg_catalog.clock_timestamp() > deadline THEN
            RAISE query_canceled USING MESSAGE = 'it did not answer within 10 seconds';
        END IF;
        PERFORM pg_catalog.pg_sleep(0.001);
    END LOOP;
    EXECUTE result INTO answer USING connection;
    -- The end of the results, after which the connection takes the next query.
    EXECUTE result INTO more USING connection;
    RETURN answer;
END;
$query$;
COMMENT ON FUNCTION _hilo.hilo_dblink_query(text, text, text, timestamptz) IS
    'Returns the first column of the first row of a query over a connection of dblink. dblink: '
    'the schema of the extension dblink';

CREATE FUNCTION _hilo.hilo_ask_by_dblink(dblink text, server name, query text, of_source boolean)
    RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $ask$
DECLARE
    disconnect CONSTANT text := pg_catalog.format(
        'SELECT %s.dblink_disconnect($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink);
    -- The connection of a source is found again by its name. Any other has a new name, so that no
    -- role uses the connection of another.
    connection CONSTANT text := CASE WHEN of_source
        THEN pg_catalog.format('hilo %L %L %L', session_user, current_user, server)
        ELSE pg_catalog.gen_random_uuid()::text END;
    deadline CONSTANT timestamptz := pg_catalog.clock_timestamp() + '10 s'::interval;
    was_open boolean;
    is_open boolean;
    answer jsonb;
    state text; message text; detail text; hint text;
BEGIN
    LOOP
        EXECUTE pg_catalog.format(
            'SELECT coalesce($1 = ANY (%s.dblink_get_connections()), false)', dblink)
           INTO was_open USING connection;
        is_open := was_open;
        BEGIN
            IF NOT is_open THEN
                EXECUTE pg_catalog.format('SELECT %s.dblink_connect($1, $2)', dblink)
                  USING connection, server::text;
                is_open := true;
                EXECUTE pg_catalog.format('SELECT %s.dblink_exec($1, $2)', dblink)
                  USING connection, 'SET search_path = pg_catalog, pg_temp; '
                                    'SET default_transaction_isolation = ''read committed''; '
                                    'SET client_min_messages = error; '
                                    -- A query that this server gives up ends there, too.
                                    'SET lock_timeout = ''8s''; SET statement_timeout = ''10s''';
            END IF;
            answer := _hilo.hilo_dblink_query(dblink, connection, query, deadline);
            IF NOT of_source THEN
                EXECUTE disconnect USING connection;
            END IF;
            RETURN pg_catalog.jsonb_build_object('answer', answer);
        EXCEPTION WHEN query_canceled OR OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        END;
        IF state = '57014' THEN
            EXECUTE pg_catalog.replace(disconnect, 'dblink_disconnect', 'dblink_cancel_query')
              USING connection;
        END IF;
        EXECUTE disconnect USING connection;
        -- A connection that had been open may be one to a server that was restarted since.
        EXIT WHEN NOT was_open OR state !~ '^(08|57P)';
    END LOOP;
    RETURN pg_catalog.jsonb_build_object('state', state, 'message', message, 'detail', detail,
                                         'hint', hint, 'is_connected', is_open);
END;
$ask$;
COMMENT ON FUNCTION _hilo.hilo_ask_by_dblink(text, name, text, boolean) IS
    'Returns what hilo_answer would return on a foreign server, and with an error whether there '
    'was a connection. dblink: the schema of dblink. of_source: it is the query of a source, '
    'whose connection stays open';

CREATE FUNCTION _hilo.hilo_dblink_hint(server name, failure jsonb, of_source boolean) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
        WHEN failure @> '{"state": "42501", "is_connected": false}'
        THEN pg_catalog.format('Grant it here: GRANT USAGE ON FOREIGN SERVER %I TO %I;',
                               server, CURRENT_USER)
        WHEN failure ->> 'state'::text = '42501' AND of_source
        THEN 'Grant LEASE on it there to the role of the user mapping, by hilo_grant.'
        WHEN failure ->> 'hint'::text <> '' THEN failure ->> 'hint'::text
        WHEN failure ->> 'state'::text = '25006'
        THEN 'The foreign server must lead to a primary that may write.'
        WHEN failure ->> 'state'::text ~ '^(08|28|2F|42704|57)'
        THEN pg_catalog.format('Look whether server "%s" answers, and its user mapping.', server)
        END;
COMMENT ON FUNCTION _hilo.hilo_dblink_hint(name, jsonb, boolean) IS
    'Returns what to do about a query that a foreign server has refused';

-- The connection of a source stays open for its next query.
CREATE FUNCTION _hilo.hilo_remote(server name, query text, of_source boolean DEFAULT false)
    RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $remote$
DECLARE
    dblink CONSTANT text := (
        SELECT pg_catalog.quote_ident(n.nspname)
          FROM pg_catalog.pg_extension e
          JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = 'dblink');
    answer jsonb;
    state text;
    message text;
BEGIN
    IF server IS NULL THEN
        answer := _hilo.hilo_ask_coordinator(query);
    ELSIF dblink IS NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'extension dblink is not installed',
            HINT = 'A superuser can install it: CREATE EXTENSION dblink.';
    ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_foreign_server f WHERE f.srvname = server) THEN
        -- dblink would take the name for a connection string.
        RAISE undefined_object USING
            MESSAGE = pg_catalog.format('server "%s" does not exist', server),
            HINT = 'Create it with CREATE SERVER, or name one of those in pg_foreign_server.';
    ELSE
        answer := _hilo.hilo_ask_by_dblink(dblink, server, query, of_source);
    END IF;
    state := answer ->> 'state';
    message := answer ->> 'message';
    IF state IS NULL THEN
        RETURN nullif(answer -> 'answer', 'null');
    ELSIF of_source AND state = '42710'
          AND message LIKE '% comes after a later one of its receiver%'
    THEN
        RAISE duplicate_object USING MESSAGE = 'a copy of this server has asked by its name';
    ELSIF server IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = state, DETAIL = coalesce(answer ->> 'detail', ''),
            MESSAGE = 'the coordinator of Citus refused: ' || message,
            HINT = CASE WHEN state = '42501'
                        THEN 'Grant LEASE on it there to the owner of the sequence, by hilo_grant.'
                        ELSE coalesce(answer ->> 'hint', '') END;
    END IF;
    PERFORM _hilo.hilo_refuse(
        pg_catalog.format('server "%s": %s', server, message),
        _hilo.hilo_dblink_hint(server, answer, of_source), nullif(answer ->> 'detail', ''), state);
END;
$remote$;
COMMENT ON FUNCTION _hilo.hilo_remote(name, text, boolean) IS
    'Runs a query on a foreign server, or null: the coordinator of Citus. Returns the first '
    'column of its first row; null: it has none. of_source: it is the query of a source, whose '
    'connection stays open';
