-- Branches: sequences that get their values from the hilo of another server, through dblink.

-- The connection of a source stays open for its next query. A query is sent and then looked after,
-- because a call that waits inside libpq hears no cancel and no shutdown.
CREATE FUNCTION hilo.remote(server name, query text, of_source boolean DEFAULT false) RETURNS jsonb
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
    connection CONSTANT text := pg_catalog.concat_ws(
        ' ', 'hilo', session_user, current_user, server);
    deadline CONSTANT timestamptz := pg_catalog.clock_timestamp() + '10 s'::interval;
    is_open boolean;
    found boolean;
    answer jsonb;
    more jsonb;
    state text; message text; detail text; hint text;
BEGIN
    IF dblink IS NULL THEN
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
COMMENT ON FUNCTION hilo.remote(name, text, boolean) IS
    'Runs a query on a foreign server, and returns the first column of its first row; null: it has '
    'none. of_source: the connection stays, and the error that a name is taken is null too';

CREATE FUNCTION hilo.refuse(message text, hint text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $refuse$
BEGIN
    RAISE object_not_in_prerequisite_state USING MESSAGE = message, HINT = hint;
END;
$refuse$;
COMMENT ON FUNCTION hilo.refuse(text, text) IS 'Fails with 55000';

CREATE FUNCTION hilo.remote_sequence(server name, remote_name text) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT CASE WHEN r.found @> '{"cycle": false, "ordered": false, "gapless": false}'::jsonb
                     AND r.found ? 'numbering'::text
                THEN r.found
                ELSE hilo.refuse(
                    pg_catalog.format(
                        'hilo sequence "%s" on server "%s" cannot have branches', $2, $1),
                    'It must be of version 0.4.0 or later, and may neither cycle nor be ordered '
                    'or gapless.') END
      FROM (SELECT coalesce(
                       hilo.remote($1, pg_catalog.format(
                           'SELECT pg_catalog.to_jsonb(q) '
                           '|| pg_catalog.jsonb_build_object(''schema'', %L) '
                           'FROM %I.hilo_sequences q WHERE q.name = %L',
                           n.place #>> '{}', n.place #>> '{}', $2)),
                       hilo.refuse(
                           pg_catalog.format(
                               'there is no hilo sequence "%s" on server "%s"', $2, $1),
                           'Create it there, and grant UPDATE on it to the role of the user '
                           'mapping.')) AS found
              FROM (SELECT coalesce(
                               hilo.remote($1,
                                   'SELECT pg_catalog.to_jsonb(n.nspname) '
                                   'FROM pg_catalog.pg_extension e '
                                   'JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace '
                                   'WHERE e.extname = ''hilo'''),
                               hilo.refuse(
                                   pg_catalog.format(
                                       'extension hilo is not installed on server "%s"', $1),
                                   'The foreign server names the database: look at its option '
                                   'dbname.'))
                   ) n (place)) r;
END;
COMMENT ON FUNCTION hilo.remote_sequence(name, text) IS
    'Returns the row of hilo_sequences on a foreign server, with the schema of the extension there';

-- The request as the centre gets it rises with each new one, so it refuses one that comes late. It
-- is what was asked for so far, then the version (7) and the attempt.
CREATE FUNCTION hilo.remote_request(asked bigint, attempt integer, request uuid) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (pg_catalog.lpad(pg_catalog.to_hex(asked & 281474976710655::bigint), 12, '0')
            || '700' || attempt::text
            || pg_catalog.substr(pg_catalog.replace(request::text, '-', ''), 17))::uuid;
COMMENT ON FUNCTION hilo.remote_request(bigint, integer, uuid) IS
    'Returns the uuid by which a request is known at the centre';

-- This server, by what no copy of it shares once it has been promoted, and the sequence.
CREATE FUNCTION hilo.receiver(sequence bigint) RETURNS text
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (SELECT pg_catalog.concat_ws(
                       '/', 'branch', c.system_identifier, pg_catalog.substr(
                           pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8),
                       d.oid, sequence)
              FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
             WHERE d.datname = pg_catalog.current_database());
COMMENT ON FUNCTION hilo.receiver(bigint) IS
    'Returns the name by which a centre knows a sequence of this server';

CREATE FUNCTION hilo_ask_server(
    server name, name text, n bigint, request uuid,
    remote_schema name, remote_name text, numbering text
) RETURNS TABLE (first bigint, last bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1
BEGIN ATOMIC
    SELECT (a.answer ->> 'first'::text)::bigint, (a.answer ->> 'last'::text)::bigint
      FROM (SELECT pg_catalog.format(
                       -- The function is called for the row that the condition finds, so not
                       -- after a renumbering.
                       'SELECT pg_catalog.to_jsonb(t) FROM %1$I.hilo_sequences q, '
                       '%1$I.hilo_transfer(q.name::%1$I.hilo_sequence, %2$s::pg_catalog.int8, '
                       '%3$L::pg_catalog.text, ''?''::pg_catalog.uuid) t '
                       'WHERE q.name = %4$L AND q.numbering = %5$L AND t.numbering = %5$L',
                       $5, $3,
                       hilo.receiver(pg_catalog.split_part(q.numbering, '.', 1)::bigint), $6, $7
                   ) AS query,
                   COALESCE(s.requested, 0::bigint) AS asked
              FROM hilo_sequences q
              LEFT JOIN hilo_stat_sources s ON s.name = q.name
             WHERE q.name = $2) r
     CROSS JOIN LATERAL (
           SELECT COALESCE(
               -- One that was revoked meanwhile is refused, and so is each that comes before a
               -- later one.
               hilo.remote($1, pg_catalog.replace(
                   r.query, '?', hilo.remote_request(r.asked, 0, $4)::text), true),
               hilo.remote($1, pg_catalog.replace(
                   r.query, '?', hilo.remote_request(r.asked, 1, $4)::text), true),
               hilo.refuse(
                   pg_catalog.format(
                       'hilo sequence "%s" must be attached to server "%s" again', $2, $1),
                   'It has been renumbered there, dropped, or is not granted any more. '
                   'Call hilo_attach_server.')
           ) AS answer) a;
END;
COMMENT ON FUNCTION hilo_ask_server(name, text, bigint, uuid, name, text, text) IS
    'The source of a sequence that hilo_attach_server has attached: takes values by hilo_transfer '
    'from a foreign server. remote_schema: the schema of the extension there. remote_name, '
    'numbering: the sequence there, as in hilo_sequences when it was attached. Errors: 55000 if '
    'its numbering is another by now, or without dblink; those of dblink and hilo_transfer.';

-- Values held here stay: they were given away for good, whatever numbering has followed there.
CREATE FUNCTION hilo_attach_server(
    name hilo_sequence, server name, remote_name hilo_sequence DEFAULT NULL
) RETURNS hilo_sequence
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT hilo_create($1, data_type => (r.there ->> 'data_type'::text)::regtype,
                       increment => (r.there ->> 'increment'::text)::bigint)
      FROM hilo.remote_sequence($2, COALESCE($3, $1)::text) AS r (there)
     WHERE NOT EXISTS (SELECT FROM hilo_sequences q WHERE q.name = $1::text);
    SELECT hilo_alter(
               $1,
               start_value => (r.there ->> 'start_value'::text)::bigint,
               increment => (r.there ->> 'increment'::text)::bigint,
               min_value => (r.there ->> 'min_value'::text)::bigint,
               max_value => (r.there ->> 'max_value'::text)::bigint,
               data_type => (r.there ->> 'data_type'::text)::regtype,
               block_size => COALESCE((r.there ->> 'block_size'::text)::bigint, 0::bigint),
               key_format => r.there ->> 'key_format'::text,
               -- One process asks for all sequences whose queries begin with the same comment.
               source => pg_catalog.format(
                   '-- server %s' || pg_catalog.chr(10) || 'SELECT v.first, v.last '
                   'FROM %I.hilo_ask_server(%L, $1, $2, $3, %L, %L, %L) AS v',
                   pg_catalog.md5($2::text),
                   (SELECT n.nspname FROM pg_catalog.pg_extension e
                      JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
                     WHERE e.extname = 'hilo'::name),
                   $2, r.there ->> 'schema'::text, r.there ->> 'name'::text,
                   r.there ->> 'numbering'::text))
      FROM hilo.remote_sequence($2, COALESCE($3, $1)::text) AS r (there);
    SELECT $1;
END;
COMMENT ON FUNCTION hilo_attach_server(hilo_sequence, name, hilo_sequence) IS
    'Makes a sequence a branch of one on another server, its centre, and returns its name. It is '
    'created if it does not exist, and has the type, increment, bounds, start value, block size '
    'and key format of the one there, which is called remote_name; null: the same name. From then '
    'on its values come from there, by hilo_transfer, through dblink, the foreign server and the '
    'user mapping of the owner of the sequence. After a renumbering there it serves what it holds '
    'and gets no more, until it is attached again. Requires ownership of the sequence, and USAGE '
    'on the foreign server. Errors: as for hilo_create and hilo_alter, 55000 without dblink, or if '
    'the sequence there does not exist, cycles, is ordered or gapless; those of dblink.';
