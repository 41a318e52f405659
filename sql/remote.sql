-- Queries on another server: through dblink, or through Citus on its coordinator. And errors whose
-- text may be long.

CREATE FUNCTION _hilo.hilo_raise(code text, message text, detail text, hint text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_raise_wrapper';
COMMENT ON FUNCTION _hilo.hilo_raise(text, text, text, text) IS
    'Fails with this error, whose texts are cut at 8000 bytes. All that echoes an argument of any '
    'length goes through it';

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

-- The connection of a source stays open for its next query. A query is sent and then looked after,
-- because a call that waits inside libpq hears no cancel and no shutdown.
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
    result CONSTANT text := pg_catalog.format(
        'SELECT r FROM %s.dblink_get_result($1) AS t (r jsonb)', dblink);
    disconnect CONSTANT text := pg_catalog.format(
        'SELECT %s.dblink_disconnect($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink);
    cancel CONSTANT text := pg_catalog.format(
        'SELECT %s.dblink_cancel_query($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink);
    -- No session has opened one of this name before, for a function that runs as somebody else.
    connection CONSTANT text := CASE WHEN of_source
        THEN pg_catalog.format('hilo %L %L %L', session_user, current_user, server)
        ELSE pg_catalog.gen_random_uuid()::text END;
    overtaken CONSTANT text := '% comes after a later one of its receiver%';
    deadline CONSTANT timestamptz := pg_catalog.clock_timestamp() + '10 s'::interval;
    is_open boolean;
    is_connected boolean;
    found boolean;
    answer jsonb;
    more jsonb;
    state text; message text; detail text; hint text;
BEGIN
    IF server IS NULL THEN
        -- Citus connects again as the current user.
        EXECUTE 'SELECT r.success, r.result FROM pg_catalog.pg_dist_local_group l '
                'CROSS JOIN LATERAL pg_catalog.run_command_on_coordinator($1) r '
                'WHERE l.groupid <> 0'
           INTO found, message
          USING pg_catalog.format('SELECT _hilo.hilo_answer(%L::pg_catalog.text)', query);
        IF found IS NOT TRUE THEN
            RAISE connection_failure USING
                MESSAGE = coalesce('the coordinator of Citus did not answer: ' || message,
                                   'this server is the coordinator of Citus'),
                HINT = 'The owner of the sequence must be able to log in at the coordinator.';
        END IF;
        answer := message::jsonb;
        state := answer ->> 'state';
        IF state IS NULL THEN
            RETURN nullif(answer -> 'answer', 'null');
        ELSIF of_source AND state = '42710' AND answer ->> 'message' LIKE overtaken THEN
            RAISE duplicate_object USING MESSAGE = 'a copy of this server has asked by its name';
        END IF;
        RAISE EXCEPTION USING ERRCODE = state, DETAIL = coalesce(answer ->> 'detail', ''),
            MESSAGE = 'the coordinator of Citus refused: ' || (answer ->> 'message'),
            HINT = CASE WHEN state = '42501'
                        THEN 'Grant LEASE on it there to the owner of the sequence, by hilo_grant.'
                        ELSE coalesce(answer ->> 'hint', '') END;
    ELSIF dblink IS NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'extension dblink is not installed',
            HINT = 'A superuser can install it: CREATE EXTENSION dblink.';
    ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_foreign_server f WHERE f.srvname = server) THEN
        -- dblink would take the name for a connection string.
        RAISE undefined_object USING
            MESSAGE = pg_catalog.format('server "%s" does not exist', server),
            HINT = 'Create it with CREATE SERVER, or name one of those in pg_foreign_server.';
    END IF;
    LOOP
        EXECUTE pg_catalog.format(
            'SELECT coalesce($1 = ANY (%s.dblink_get_connections()), false)', dblink)
           INTO is_open USING connection;
        is_connected := is_open;
        BEGIN
            IF NOT is_open THEN
                EXECUTE pg_catalog.format('SELECT %s.dblink_connect($1, $2)', dblink)
                  USING connection, server::text;
                is_connected := true;
                EXECUTE pg_catalog.format('SELECT %s.dblink_exec($1, $2)', dblink)
                  USING connection, 'SET search_path = pg_catalog, pg_temp; '
                                    'SET default_transaction_isolation = ''read committed''; '
                                    'SET client_min_messages = error; '
                                    -- A query that this server gives up ends there, too.
                                    'SET lock_timeout = ''8s''; SET statement_timeout = ''10s''';
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
                    RAISE query_canceled USING MESSAGE = 'it did not answer within 10 seconds';
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
        IF state = '57014' THEN
            EXECUTE cancel USING connection;
        END IF;
        EXECUTE disconnect USING connection;
        IF of_source AND state = '42710' AND message LIKE overtaken THEN
            RAISE duplicate_object USING MESSAGE = 'a copy of this server has asked by its name';
        END IF;
        -- A connection that had been open may be one to a server that was restarted since.
        EXIT WHEN NOT is_open OR state !~ '^(08|57P)';
    END LOOP;
    PERFORM _hilo.hilo_raise(
        state, pg_catalog.format('server "%s": %s', server, message), nullif(detail, ''),
        CASE WHEN state = '42501' AND NOT is_connected
             THEN pg_catalog.format('Grant it here: GRANT USAGE ON FOREIGN SERVER %I TO %I;',
                                    server, current_user)
             WHEN state = '42501' AND of_source
             THEN 'Grant LEASE on it there to the role of the user mapping, by hilo_grant.'
             WHEN hint <> '' THEN hint
             WHEN state = '25006' THEN 'The foreign server must lead to a primary that may write.'
             WHEN state ~ '^(08|28|2F|42704|57)'
             THEN pg_catalog.format('Look whether server "%s" answers, and its user mapping.',
                                    server) END);
END;
$remote$;
COMMENT ON FUNCTION _hilo.hilo_remote(name, text, boolean) IS
    'Runs a query on a foreign server, or null: the coordinator of Citus. Returns the first column '
    'of its first row; null: it has none. of_source: the connection stays';

CREATE FUNCTION _hilo.hilo_refuse(message text, hint text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $refuse$
BEGIN
    PERFORM _hilo.hilo_raise('55000'::text, message, NULL::text, hint);
END;
$refuse$;
COMMENT ON FUNCTION _hilo.hilo_refuse(text, text) IS 'Fails with 55000';
