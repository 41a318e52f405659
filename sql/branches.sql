-- Branches: sequences that get their values from the hilo of another server, through dblink, or
-- through Citus from its coordinator.

CREATE FUNCTION _hilo.hilo_identity(sequence bigint) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT pg_catalog.concat_ws('/', c.system_identifier, d.oid, sequence)
              FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
             WHERE d.datname = pg_catalog.current_database());
COMMENT ON FUNCTION _hilo.hilo_identity(bigint) IS
    'Returns a name for a sequence of this database that differs from those of all other '
    'sequences, on other servers too. A copy of a server has the same names';

-- Branches that the caller may read, and the sequences that they get their values from, as
-- hilo_attach_server has noted. Both are named as by hilo_identity.
CREATE VIEW _hilo.hilo_upstream WITH (security_barrier) AS
    SELECT _hilo.hilo_identity(s.id) AS sequence, w.part[1] AS source
      FROM _hilo.hilo_readable s
     CROSS JOIN LATERAL regexp_match(
         s.source,
         '^-- server [0-9a-f]+[[:space:]]-- from ([0-9/-]+)[[:space:]]') AS w (part)
     WHERE w.part IS NOT NULL;
REVOKE ALL ON _hilo.hilo_upstream FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_upstream TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_upstream IS
    'The branches of this database that the current user may read, and the sequences on other '
    'servers that they get their values from';

CREATE FUNCTION _hilo.hilo_remote_sequence(server name, remote_name text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $sequence$
DECLARE
    there jsonb;
BEGIN
    BEGIN
        there := _hilo.hilo_remote(server, pg_catalog.format(
            'SELECT pg_catalog.to_jsonb(q) OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('
            '''identity'', _hilo.hilo_identity(q.id), '
            '''started'', pg_catalog.pg_postmaster_start_time(), '
            -- It gives what it has in memory first.
            '''next'', coalesce('
            '(SELECT CASE WHEN q.increment > 0 THEN pg_catalog.min(r.first_value) '
            'ELSE pg_catalog.max(r.first_value) END FROM _hilo.hilo_stat_ranges() r '
            'WHERE r.sequence = q.id '
            'AND r.tier = ANY (''{current,standby}''::pg_catalog.text[])), q.next_value, '
            'CASE WHEN q.max_reserved IS NULL THEN q.start_value END), '
            '''upstream'', '
            '(SELECT pg_catalog.jsonb_object_agg(u.sequence, u.source) '
            'FROM _hilo.hilo_upstream u)) '
            'FROM _hilo.hilo_visible q '
            'WHERE q.name OPERATOR(pg_catalog.=) %L::pg_catalog.text', remote_name));
    EXCEPTION WHEN invalid_schema_name OR undefined_function THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('extension hilo is not installed on server "%s"', server),
            'The foreign server names the database: look at its option dbname.'::text);
    END;
    IF there IS NULL THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('there is no hilo sequence "%s" on server "%s"', remote_name, server),
            'Create it there, and grant LEASE on it to the role of the user mapping.'::text);
    ELSIF there @> '{"cycle": true}' OR there @> '{"ordered": true}'
       OR there @> '{"gapless": true}'
    THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('hilo sequence "%s" on server "%s" cannot have branches',
                              remote_name, server),
            'It may neither cycle nor be ordered or gapless.'::text);
    END IF;
    RETURN there;
END;
$sequence$;
COMMENT ON FUNCTION _hilo.hilo_remote_sequence(name, text) IS
    'Returns the row of hilo_sequences on a foreign server, with the value that it gives next, '
    'and what the branches there get their values from';

-- A circle of two servers is found, if its sequences may be read: here by the caller, there by the
-- role of the user mapping. For a longer one a third server would have to be asked. A circle that
-- is not found brings no values.
CREATE FUNCTION _hilo.hilo_refuse_circle(name text, server name, there jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $circle$
DECLARE
    here text;
    way text[];
BEGIN
    SELECT _hilo.hilo_identity(q.id) INTO here FROM _hilo.hilo_visible q WHERE q.name = $1;
    -- A copy of a server counts as another server.
    IF here = there ->> 'identity'
       AND (there ->> 'started')::timestamptz <> pg_catalog.pg_postmaster_start_time()
    THEN
        RETURN;
    END IF;
    WITH RECURSIVE edge AS (
        SELECT u.sequence, u.source FROM _hilo.hilo_upstream u
         UNION
        SELECT e.key, e.value
          FROM pg_catalog.jsonb_each_text(nullif(there -> 'upstream', 'null')) e
    ), step AS (
        SELECT there ->> 'identity' AS at
         UNION
        SELECT e.source FROM step s JOIN edge e ON e.sequence = s.at
    )
    SELECT pg_catalog.array_agg(s.at) INTO way FROM step s;
    IF here = ANY (way) THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('hilo sequence "%s" would be its own source', name),
            'Attach it to a sequence that numbers itself, or give that one numbers of its own '
            'first, with hilo_detach.',
            CASE WHEN here = there ->> 'identity'
                 THEN pg_catalog.format('It is the sequence that server "%s" leads to.', server)
                 ELSE pg_catalog.format('Sequence "%s" on server "%s" gets its values from it.',
                                        there ->> 'name', server) END);
    END IF;
END;
$circle$;
COMMENT ON FUNCTION _hilo.hilo_refuse_circle(text, name, jsonb) IS
    'Fails with 55000 if the sequence would get its values from itself once it is attached to the '
    'sequence there, whose row hilo_remote_sequence has returned';

-- The centre has no such sequence in such a numbering that this role may read, or refuses the
-- request.
CREATE FUNCTION _hilo.hilo_refuse_request(
    server name, name text, remote_name text, numbering text
) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $request$
DECLARE
    own CONSTANT text := pg_catalog.split_part(numbering, '.', 1) || '.';
    place CONSTANT text := coalesce('server "' || server || '"', 'the coordinator of Citus');
    attach CONSTANT text := CASE
        WHEN server IS NULL THEN 'Call hilo_create_on_all_nodes on the coordinator.'
        ELSE pg_catalog.format(
                 'Call hilo_attach_server(%L, %L%s).', name, server,
                 CASE WHEN name <> remote_name
                      THEN pg_catalog.format(', %L', remote_name) END) END;
    found jsonb;
BEGIN
    BEGIN
        found := _hilo.hilo_remote(server, pg_catalog.format(
            'SELECT coalesce((SELECT pg_catalog.to_jsonb(q) FROM _hilo.hilo_visible q '
            'WHERE pg_catalog.starts_with(q.numbering, %2$L::pg_catalog.text) '
            'OR q.name OPERATOR(pg_catalog.=) %1$L::pg_catalog.text '
            'ORDER BY pg_catalog.starts_with(q.numbering, %2$L::pg_catalog.text) DESC LIMIT 1), '
            'pg_catalog.to_jsonb(_hilo.hilo_may_see(_hilo.hilo_sequence(%1$L::pg_catalog.text))))',
            remote_name, own), true);
    EXCEPTION WHEN undefined_object THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('hilo sequence "%s" has been dropped on %s', remote_name, place),
            pg_catalog.format(
                'Give "%s" numbers of its own, which nobody else serves: hilo_detach(name, start). '
                'Or create it there again, with a start_value beyond all that has come from it. %s',
                name, attach));
    END;
    IF found ->> 'name' <> remote_name THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('hilo sequence "%s" has been renamed on %s: it is "%s" there',
                              remote_name, place, found ->> 'name'),
            CASE WHEN server IS NULL THEN 'Rename it back on the coordinator, with hilo_rename.'
                 ELSE pg_catalog.format('Call hilo_attach_server(%L, %L, %L).',
                                        name, server, found ->> 'name') END);
    ELSIF NOT pg_catalog.starts_with(found ->> 'numbering', own) THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('hilo sequence "%s" has been dropped on %s and created again',
                              remote_name, place),
            'If the new one begins beyond all that the former one has given to anybody: '
                || attach);
    ELSIF found ->> 'numbering' <> numbering THEN
        PERFORM _hilo.hilo_refuse(
            pg_catalog.format('hilo sequence "%s" must be attached to %s again: it has been '
                              'renumbered there', name, place),
            attach);
    END IF;
    PERFORM _hilo.hilo_refuse(
        pg_catalog.format('hilo sequence "%s" was changed on %s while it was asked',
                          remote_name, place),
        'It is asked again.'::text);
    RETURN NULL;
END;
$request$;
COMMENT ON FUNCTION _hilo.hilo_refuse_request(name, text, text, text) IS
    'Fails with the reason why a centre has given nothing to the source of a branch. Arguments: '
    'as for hilo_ask_server';

CREATE FUNCTION _hilo.hilo_ask_server(
    server name, name text, n bigint, request uuid, remote_name text, numbering text,
    known_as uuid, answered uuid
) RETURNS TABLE (first bigint, last bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1
BEGIN ATOMIC
    SELECT (a.answer ->> 'first'::text)::bigint, (a.answer ->> 'last'::text)::bigint
      FROM (SELECT COALESCE(
                       _hilo.hilo_remote($1, pg_catalog.format(
                           -- The function is called for the row that the condition finds, so not
                           -- after a renumbering.
                           'SELECT pg_catalog.to_jsonb(t) FROM _hilo.hilo_visible q, '
                           '_hilo.hilo_transfer('
                           '_hilo.hilo_sequence(q.name), %1$s::pg_catalog.int8, '
                           '%2$L::pg_catalog.text, %3$L::pg_catalog.uuid, %4$L::pg_catalog.uuid) t '
                           'WHERE q.name OPERATOR(pg_catalog.=) %5$L::pg_catalog.text '
                           'AND q.numbering OPERATOR(pg_catalog.=) %6$L::pg_catalog.text '
                           'AND t.numbering OPERATOR(pg_catalog.=) %6$L::pg_catalog.text',
                           $3, receiver.name, $7, $8, $5, $6), true),
                       _hilo.hilo_refuse_request($1, $2, $5, $6)) AS answer
              FROM _hilo.hilo_visible q
             -- This server and the sequence. Copies of it on the same timeline differ in what each
             -- request begins with.
             CROSS JOIN LATERAL (
                 SELECT pg_catalog.concat_ws(
                            '/', 'branch', c.system_identifier,
                            pg_catalog.substr(
                                pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8),
                            d.oid, q.id, pg_catalog.split_part($4::text, '-', 1)) AS name
                   FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
                  WHERE d.datname = pg_catalog.current_database()) receiver
             WHERE q.name = $2) a;
END;
COMMENT ON FUNCTION _hilo.hilo_ask_server(name, text, bigint, uuid, text, text, uuid, uuid) IS
    'The source of a sequence that hilo_attach_server has attached: takes values by hilo_transfer '
    'from a foreign server, or null: from the coordinator of Citus. remote_name, numbering: the '
    'sequence there, as in hilo_sequences when it was attached. known_as: the uuid of the request '
    'there, which rises with each new one. answered: the last request that was answered. Errors: '
    '55000 if the sequence there has another numbering by now, was renamed or dropped, or without '
    'dblink; those of dblink and hilo_transfer.';

CREATE FUNCTION _hilo.hilo_take_new_name(sequence bigint, request uuid) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_take_new_name_wrapper';
COMMENT ON FUNCTION _hilo.hilo_take_new_name(bigint, uuid) IS
    'Gives the requests of a sequence another name, and writes off what the sequence holds. For a '
    'server of which a copy asks by the present name, so that the centre has seen a later request '
    'than this server''s';

-- The first line says to which server it belongs.
CREATE FUNCTION _hilo.hilo_server_source(
    server name, remote_name text, numbering text, identity text DEFAULT NULL
)
    RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_catalog.format(
        '-- server %s' || pg_catalog.chr(10) || '%sSELECT v.first, v.last '
        'FROM _hilo.hilo_ask_server(%L::pg_catalog.name, $1::pg_catalog.text, $2::pg_catalog.int8, '
        '$3::pg_catalog.uuid, %L::pg_catalog.text, %L::pg_catalog.text, '
        '$5::pg_catalog.uuid, $6::pg_catalog.uuid) AS v',
        COALESCE(pg_catalog.md5($1::text), 'citus'), '-- from ' || $4 || pg_catalog.chr(10),
        $1, $2, $3);
COMMENT ON FUNCTION _hilo.hilo_server_source(name, text, text, text) IS
    'Returns the source of a branch. identity: which sequence it is there, as hilo_upstream reads '
    'it';

CREATE FUNCTION _hilo.hilo_refuse_barred(name @extschema@.hilo_sequence, next bigint) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_refuse_barred_wrapper';
COMMENT ON FUNCTION _hilo.hilo_refuse_barred(@extschema@.hilo_sequence, bigint) IS
    'Fails with 55000 if the sequence may have served the next value of its source before';

CREATE FUNCTION @extschema@.hilo_attach_server(
    name @extschema@.hilo_sequence, server name, remote_name @extschema@.hilo_sequence DEFAULT NULL
) RETURNS @extschema@.hilo_sequence
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $attach$
DECLARE
    there jsonb;
BEGIN
    IF name IS NULL OR server IS NULL THEN
        PERFORM _hilo.hilo_refuse('the sequence and the server must not be null',
                                  'Specify a value that is not null.', NULL, '22023');
    END IF;
    there := _hilo.hilo_remote_sequence(server, coalesce(remote_name, name)::text);
    PERFORM _hilo.hilo_refuse_circle(name::text, server, there);
    PERFORM _hilo.hilo_create(name, data_type => (there ->> 'data_type')::regtype,
                              increment => (there ->> 'increment')::bigint)
      WHERE NOT EXISTS (SELECT FROM _hilo.hilo_visible q WHERE q.name = $1::text);
    PERFORM _hilo.hilo_alter(
        name,
        start_value => (there ->> 'start_value')::bigint,
        increment => (there ->> 'increment')::bigint,
        min_value => (there ->> 'min_value')::bigint,
        max_value => (there ->> 'max_value')::bigint,
        data_type => (there ->> 'data_type')::regtype,
        block_size => coalesce((there ->> 'block_size')::bigint, 0::bigint),
        key_format => there ->> 'key_format',
        source => _hilo.hilo_server_source(
            server, there ->> 'name', there ->> 'numbering', there ->> 'identity'));
    PERFORM _hilo.hilo_refuse_barred(name, (there ->> 'next')::bigint);
    RETURN name;
END;
$attach$;
COMMENT ON FUNCTION @extschema@.hilo_attach_server(@extschema@.hilo_sequence, name,
    @extschema@.hilo_sequence) IS
    'Makes a sequence a branch of one on another server, its centre, and returns its name. '
    'remote_name is the name there; null: the same name. If the branch does not exist, it is '
    'created with the type, increment, bounds, start value, block size and key format of the one '
    'there. From then on its values come from there, by hilo_transfer, through dblink, the '
    'foreign server and the user mapping of the owner of the sequence. After a renumbering there '
    'it serves the values that it holds and gets no more, until it is attached again. Then these '
    'values become a gap. Requires ownership of the sequence, and USAGE on the foreign server. '
    'Errors: as for hilo_create and hilo_alter, 55000 without dblink, or if the sequence there '
    'does not exist, cycles, is ordered or gapless, or gets its values from this one, or '
    'continues with a value that this one may have served; 42704 if there is no such server; '
    'those of dblink.';
