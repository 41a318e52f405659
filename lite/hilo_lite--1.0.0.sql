-- hilo_lite: leases, keys and gapless numbers of hilo where no library can be loaded:
-- docs/install.md.
--
-- Locks: the row of a sequence is the one lock. Its counter, its unused ranges and the ends of its
-- leases change only under it. Who locks several does so in the order of their ids. Nobody waits
-- for the lock on a lease, and nobody locks what he may not use.
-- Leases that have expired stay in their table, as gaps.
-- Isolation: the counter is in the row that is locked. So a transaction with an older snapshot
-- fails with 40001 and never draws from an old counter.
-- Rights: users call functions with their own rights, which insert into the view
-- _hilo.hilo_request. So may anybody, with any values. Its first trigger works with the rights of
-- the caller, and writes down who that is. Neither a privilege on the column nor its default would
-- do: a view over this one may have another default. The second trigger works with the rights of
-- the owner of hilo_lite, and trusts nothing else. Who has INSERT on the view hilo_sequences may
-- create sequences.
-- Names: what users call is in the first schema of the search_path, all else in _hilo. Bodies call
-- functions of pg_catalog and _hilo alone. A body in BEGIN ATOMIC or RETURN is bound when it is
-- created, in a search_path that may hold anything. So its operators have exactly the types of
-- core's. hilo_ask and hilo_refill, whose plans are kept, use no operator and no type that is not
-- theirs. All others run below the trigger, which sets the search_path, or set it themselves.

DO $$
BEGIN
    IF pg_catalog.to_regnamespace('_hilo') IS NOT NULL THEN
        RAISE '% is in this database already', coalesce(
            pg_catalog.obj_description(pg_catalog.to_regnamespace('_hilo')::oid, 'pg_namespace'),
            'hilo') USING ERRCODE = '42710',
            HINT = 'Nothing is changed. "Managed clouds" in docs/install.md of hilo says how to '
                'update hilo_lite and how to remove it.';
    END IF;
END $$;
CREATE SCHEMA _hilo;
COMMENT ON SCHEMA _hilo IS 'hilo_lite 1.0.0';
GRANT USAGE ON SCHEMA _hilo TO PUBLIC;
CREATE DOMAIN hilo_sequence AS text;

CREATE SEQUENCE _hilo.hilo_definition_id;
CREATE TABLE _hilo.hilo_definition (
    id bigint PRIMARY KEY,
    name hilo_sequence COLLATE "C" NOT NULL UNIQUE,
    data_type regtype NOT NULL, start_value bigint NOT NULL, increment bigint NOT NULL,
    min_value bigint NOT NULL, max_value bigint NOT NULL, cycle boolean NOT NULL,
    ordered boolean NOT NULL, gapless boolean NOT NULL, block_size bigint, slice_size integer,
    -- next_value: out of bounds none is left. epoch: raised when leases become no part of it.
    key_format text, owner regrole NOT NULL, next_value numeric(20) NOT NULL, epoch bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE TABLE _hilo.hilo_privilege (
    sequence bigint NOT NULL REFERENCES _hilo.hilo_definition ON DELETE CASCADE,
    -- Role 0 is all roles.
    grantee regrole NOT NULL, privilege text NOT NULL,
    PRIMARY KEY (sequence, grantee, privilege)
);
CREATE TABLE _hilo.hilo_lease (
    lease uuid PRIMARY KEY,
    sequence bigint NOT NULL REFERENCES _hilo.hilo_definition ON DELETE CASCADE,
    epoch bigint NOT NULL,
    first_value bigint NOT NULL, last_value bigint NOT NULL, increment bigint NOT NULL,
    count bigint NOT NULL, holder text, role regrole NOT NULL, client_addr inet,
    leased_at timestamptz NOT NULL, expires_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON _hilo.hilo_lease (sequence, leased_at);
CREATE INDEX ON _hilo.hilo_lease (holder);
CREATE TABLE _hilo.hilo_unused (               -- what nobody has: free, or a gap with its reason
    sequence bigint NOT NULL REFERENCES _hilo.hilo_definition ON DELETE CASCADE,
    reason text NOT NULL,           -- free, altered, expired or revoked
    first_value bigint NOT NULL, last_value bigint NOT NULL, count bigint NOT NULL,
    recorded_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON _hilo.hilo_unused (sequence, reason, first_value);

CREATE TYPE _hilo.hilo_outcome AS (
    kind text, name text, lease uuid, first bigint, last bigint, increment bigint, count bigint,
    expires_at timestamptz, key_format text, server_prefix text, suggested bigint,
    sqlstate text, message text, detail text, hint text
);
CREATE VIEW _hilo.hilo_request AS
    SELECT NULL::text AS op, NULL::uuid[] AS returns, NULL::bigint[] AS nexts,
           NULL::uuid[] AS renewals, NULL::text[] AS names, NULL::bigint[] AS sizes,
           NULL::uuid[] AS leases, NULL::text AS holder, NULL::interval AS ttl,
           NULL::jsonb AS options, NULL::name AS caller, NULL::_hilo.hilo_outcome[] AS result;
CREATE FUNCTION _hilo.hilo_note_caller() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.caller := current_user;
    RETURN NEW;
END $$;

-- Options of hilo_create and hilo_alter. Nothing else of a definition is taken from a request.
CREATE TYPE _hilo.hilo_options AS (
    name text, data_type regtype, start_value bigint, increment bigint, min_value bigint,
    max_value bigint, cycle boolean, ordered boolean, gapless boolean, block_size bigint,
    slice_size bigint, key_format text, owned_by text, is_called boolean
);

-- Fails, as a function of SQL cannot by itself.
CREATE FUNCTION _hilo.hilo_refuse(message text, hint text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = message, HINT = hint;
END $$;

-- The text around the value in keys. signed: there are negative values.
CREATE FUNCTION _hilo.hilo_key_parts(format text, name text, signed boolean,
    OUT before text, OUT width integer, OUT behind text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    prefix text := coalesce(current_setting('hilo.server_prefix', true), '');
    gap text;
    -- E'\1' stands for the prefix, E'\2' for the value, E'\3' for a {, and E'\4' for the name.
    marked text := replace(coalesce(format, '{name}/{server}{value}'), '{{', E'\3');
    filled text := replace(replace(replace(regexp_replace(
        marked, '\{value(:0\d+)?\}', E'\2', 'g'), '{server}', E'\1'), '{name}', E'\4'), '}}', '}');
BEGIN
    width := coalesce(substring(marked FROM '\{value:0(\d+)\}'), '1');
    IF concat(format, prefix) ~ '[[:cntrl:]]' OR octet_length(format) > 255
       OR width NOT BETWEEN 1 AND 19 OR filled !~ E'^[^\2]*\2[^\2]*$' OR filled ~ E'\1.*\1'
       OR marked !~ E'^([^{}]|\\}\\}|\\{(name|server|value(:0\\d\\d?)?)\\})*$' THEN
        RAISE 'key_format "%" cannot be used', left(format, 255) USING ERRCODE = '22023',
            HINT = 'It has {value} or {value:0N} once, {server} at most once, and {name}.';
    END IF;
    filled := replace(replace(filled, E'\3', '{'), E'\4', name);
    gap := substring(filled FROM E'\1(.*)\2');
    IF signed IS NULL THEN
        RAISE 'hilo sequence "%" does not exist', left(name, 255) USING ERRCODE = '42704',
            HINT = 'Or you have no privilege on it.';
    ELSIF prefix ~ '\d$' AND (gap ~ '^\d*$' OR signed AND gap ~ '^[\d-]*\d[\d-]*$')
          OR prefix ~ '-$' AND signed AND gap ~ '^[\d-]*$'
          OR prefix ~ '^\d' AND filled ~ E'\2\\d*\1' THEN
        RAISE 'server prefix "%" cannot be used', left(prefix, 255) USING ERRCODE = '22023',
            HINT = 'Two values could have the same key. Separate it from the value with a "/".';
    END IF;
    filled := replace(filled, E'\1', prefix);
    before := split_part(filled, E'\2', 1);
    behind := split_part(filled, E'\2', 2);
END $$;

-- Whether a role owns a sequence, has one of the privileges, or is the one that took a lease.
CREATE FUNCTION _hilo.hilo_may(caller name, s bigint, wanted text[], taker regrole DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT pg_has_role(caller, q.owner::oid, 'USAGE')
            OR pg_has_role(caller, taker::oid, 'USAGE')
            OR EXISTS (SELECT FROM _hilo.hilo_privilege p
                        WHERE p.sequence = s AND p.privilege = ANY (wanted) AND (p.grantee::oid = 0
                           OR pg_has_role(caller, p.grantee::oid, 'USAGE')))
          FROM _hilo.hilo_definition q WHERE q.id = s);
END $$;
-- The sequence, locked. Who may not use it does not lock it either.
CREATE FUNCTION _hilo.hilo_locked(caller name, name text, VARIADIC wanted text[])
RETURNS _hilo.hilo_definition LANGUAGE plpgsql AS $$
DECLARE
    s _hilo.hilo_definition;
BEGIN
    SELECT * INTO s FROM _hilo.hilo_definition q
     WHERE q.name = hilo_locked.name AND _hilo.hilo_may(caller, q.id, wanted) FOR UPDATE;
    IF FOUND THEN
        -- A commit that a crash loses would bring its values again.
        PERFORM set_config('synchronous_commit', 'on', true)
          WHERE current_setting('synchronous_commit') = 'off';
        RETURN s;
    ELSIF EXISTS (SELECT FROM _hilo.hilo_definition q WHERE q.name = hilo_locked.name) THEN
        RAISE 'permission denied for hilo sequence "%"', name USING ERRCODE = '42501',
            HINT = format('Role "%s" must own it', caller) || CASE WHEN wanted = '{}' THEN '.'
                ELSE format(', or have one of {%s}. hilo_grant grants them.',
                            array_to_string(wanted, ', ')) END;
    END IF;
    RAISE 'hilo sequence "%" does not exist', left(name, 255)
        USING ERRCODE = '42704', HINT = 'Create it with hilo_create.';
END $$;

-- Takes n values from the counter; as many of them as it has, for a lease.
CREATE FUNCTION _hilo.hilo_cut(s _hilo.hilo_definition, wanted bigint, is_lease boolean,
    OUT first bigint, OUT n numeric) LANGUAGE plpgsql AS $$
DECLARE
    up boolean := s.increment > 0;
    edge numeric := CASE WHEN up THEN s.max_value ELSE s.min_value END;
    room numeric := greatest(div(edge - s.next_value + s.increment, s.increment), 0);
BEGIN
    -- The value behind a lease is a bigint: with it the holder says that all were used.
    n := CASE WHEN is_lease THEN least(wanted, room - (abs(s.next_value + room * s.increment)
        > 9223372036854775807)::integer) ELSE wanted END;
    IF n NOT BETWEEN 1 AND room THEN
        RAISE 'reached % value of hilo sequence "%"', CASE WHEN up THEN 'maximum' ELSE
            'minimum' END, s.name USING ERRCODE = '2200H', HINT =
            'Use hilo_alter to give the sequence a wider data type or wider bounds.';
    END IF;
    UPDATE _hilo.hilo_definition q SET next_value = CASE
        WHEN n < room OR NOT s.cycle THEN s.next_value + n * s.increment
        WHEN up THEN s.min_value ELSE s.max_value END WHERE q.id = s.id;
    first := s.next_value;
END $$;

-- Draws n values. One statement locks and draws, but for the last values before a bound.
CREATE FUNCTION _hilo.hilo_draw(caller name, name text, n bigint, wanted text[])
RETURNS _hilo.hilo_outcome LANGUAGE plpgsql AS $$
DECLARE
    s _hilo.hilo_definition; o _hilo.hilo_outcome;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    UPDATE _hilo.hilo_definition q SET next_value = q.next_value + n * q.increment::numeric
     WHERE q.name = hilo_draw.name AND q.next_value BETWEEN q.min_value AND q.max_value
       AND q.next_value + n * q.increment::numeric BETWEEN q.min_value AND q.max_value
       AND _hilo.hilo_may(caller, q.id, wanted)
    RETURNING q.next_value - n * q.increment::numeric, q.next_value - q.increment, q.increment, n
         INTO o.first, o.last, o.increment, o.count;
    IF NOT FOUND THEN
        s := _hilo.hilo_locked(caller, name, VARIADIC wanted);
        SELECT c.first, c.first + (c.n - 1) * s.increment, s.increment, c.n
          INTO o.first, o.last, o.increment, o.count FROM _hilo.hilo_cut(s, n, false) AS c;
    END IF;
    RETURN o;
END $$;

-- Keeps a range as free or as a gap. One that ends before it, for the same reason, becomes longer.
CREATE FUNCTION _hilo.hilo_keep(s bigint, why text, first numeric, n numeric, step bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE _hilo.hilo_unused u
       SET last_value = first + (n - 1) * step, count = count + n, recorded_at = clock_timestamp()
     WHERE u.sequence = s AND u.reason = why AND u.last_value = first - step AND n > 0;
    INSERT INTO _hilo.hilo_unused SELECT s, why, first, first + (n - 1) * step, n, clock_timestamp()
     WHERE NOT FOUND AND n > 0;
END $$;

-- Takes a lease of a sequence that is locked.
CREATE FUNCTION _hilo.hilo_take(caller name, s _hilo.hilo_definition, n bigint, wanted uuid,
    holder text, ttl interval) RETURNS _hilo.hilo_outcome LANGUAGE plpgsql AS $$
DECLARE
    l _hilo.hilo_lease; u _hilo.hilo_unused;
BEGIN
    IF s.cycle OR s.ordered OR s.gapless THEN
        RAISE 'cannot lease values of hilo sequence "%"', s.name USING ERRCODE = '0A000',
            HINT = 'It cycles, is ordered or gapless. Draw its values with hilo_nextval.';
    ELSIF (n BETWEEN 1 AND 1000000000) IS NOT TRUE OR octet_length(hilo_take.holder) > 255 THEN
        RAISE 'cannot lease % values to "%"', n, left(hilo_take.holder, 255)
            USING ERRCODE = '22023',
            HINT = 'A lease has 1 to 1000000000 values. Its holder has 255 bytes at most.';
    END IF;
    SELECT * INTO l FROM _hilo.hilo_lease q WHERE q.lease = wanted;
    IF NOT FOUND THEN
        DELETE FROM _hilo.hilo_unused WHERE ctid = (SELECT q.ctid FROM _hilo.hilo_unused q
            WHERE q.sequence = s.id AND q.reason = 'free' ORDER BY q.first_value LIMIT 1)
        RETURNING * INTO u;
        IF FOUND THEN
            l.first_value := u.first_value;
            l.count := least(n, u.count);
            PERFORM _hilo.hilo_keep(s.id, 'free', u.first_value + l.count::numeric * s.increment,
                               u.count - l.count, s.increment);
        ELSE
            SELECT c.first, c.n INTO l.first_value, l.count
              FROM _hilo.hilo_cut(s, hilo_take.n, true) AS c;
        END IF;
        INSERT INTO _hilo.hilo_lease VALUES (coalesce(wanted, gen_random_uuid()), s.id, s.epoch,
            l.first_value, l.first_value + (l.count - 1.0) * s.increment, s.increment, l.count,
            hilo_take.holder, quote_ident(caller)::regrole, inet_client_addr(), clock_timestamp(),
            clock_timestamp() + ttl)
        ON CONFLICT DO NOTHING RETURNING * INTO l;
    END IF;
    IF (l.sequence, l.epoch) IS DISTINCT FROM (s.id, s.epoch) OR l.count > n
       OR NOT pg_has_role(caller, l.role::oid, 'USAGE') THEN
        RAISE 'lease "%" already exists', wanted USING ERRCODE = '42710',
            HINT = 'It is of another sequence, size, numbering or role. Name it by a random UUID.';
    END IF;
    -- suggested: what was leased within a minute.
    RETURN ('leased', s.name, l.lease, l.first_value, l.last_value, l.increment, l.count,
        l.expires_at, coalesce(s.key_format, '{name}/{server}{value}'),
        coalesce(current_setting('hilo.server_prefix', true), ''),
        (SELECT least(greatest(32, sum(q.count)), 1000000) FROM _hilo.hilo_lease q
          WHERE q.sequence = s.id AND q.leased_at > clock_timestamp() - interval '1 min')::bigint,
        NULL, NULL, NULL, NULL)::_hilo.hilo_outcome;
END $$;

-- Ends or renews a lease. what: returned, renewed, revoked, or swept, which is revoked if open.
CREATE FUNCTION _hilo.hilo_change(caller name, what text, wanted uuid, next numeric, ttl interval)
RETURNS _hilo.hilo_outcome LANGUAGE plpgsql AS $$
DECLARE
    l _hilo.hilo_lease; s _hilo.hilo_definition; used numeric; o _hilo.hilo_outcome;
BEGIN
    SELECT q.* INTO s FROM _hilo.hilo_definition q JOIN _hilo.hilo_lease x ON x.sequence = q.id
     WHERE x.lease = wanted AND _hilo.hilo_may(caller, q.id, '{}', x.role);
    IF what <> 'renewed' THEN
        SELECT * INTO s FROM _hilo.hilo_definition q WHERE q.id = s.id FOR UPDATE;
    END IF;
    SELECT * INTO l FROM _hilo.hilo_lease q WHERE q.lease = wanted FOR UPDATE SKIP LOCKED;
    used := coalesce((next - l.first_value) / l.increment * (what = 'returned')::integer, 0);
    IF l.lease IS NULL AND EXISTS (SELECT FROM _hilo.hilo_lease q WHERE q.lease = wanted) THEN
        RAISE 'lease "%" is locked', wanted USING ERRCODE = '55P03',
            HINT = 'Try again when the transaction that holds it has ended.';
    ELSIF l.lease IS NULL OR l.expires_at <= clock_timestamp() THEN
        IF what = 'swept' THEN RETURN NULL; END IF;
        RAISE 'lease "%" is not open', wanted USING ERRCODE = '42704',
            HINT = 'It has ended, or never was. hilo_leases shows those that are open.';
    ELSIF s.id IS NULL THEN
        RAISE 'permission denied for lease "%"', wanted USING ERRCODE = '42501',
            HINT = 'The role that took it, the owner of its sequence, and superusers may end it.';
    ELSIF used NOT BETWEEN 0 AND l.count OR used <> trunc(used) THEN
        RAISE 'value % cannot follow the used values of lease "%"', next, wanted
            USING ERRCODE = '22023', HINT = format('Pass the first of %s to %s in steps of %s that '
                'was not used.', l.first_value, l.last_value, l.increment);
    END IF;
    SELECT what, s.name, wanted INTO o.kind, o.name, o.lease;
    IF what = 'renewed' THEN
        UPDATE _hilo.hilo_lease q SET expires_at = clock_timestamp() + ttl
         WHERE q.lease = wanted RETURNING q.expires_at INTO o.expires_at;
    ELSE
        -- Nobody knows what was used of a lease that is revoked. The rest of others comes back,
        -- unless other values are to come since.
        o.count := CASE WHEN what = 'returned' AND l.epoch = s.epoch THEN l.count - used ELSE 0 END;
        DELETE FROM _hilo.hilo_lease q WHERE q.lease = wanted;
        PERFORM _hilo.hilo_keep(s.id, CASE WHEN o.count > 0 THEN 'free' WHEN what = 'returned'
                                      THEN 'altered' ELSE 'revoked' END,
                           l.first_value + used * l.increment, l.count - used, l.increment);
    END IF;
    RETURN o;
END $$;

-- Does the rows of a refill, each in a subtransaction: what is refused fails by itself.
CREATE FUNCTION _hilo.hilo_refill_rows(r _hilo.hilo_request) RETURNS _hilo.hilo_outcome[]
LANGUAGE plpgsql SET lock_timeout = '100ms' AS $$
DECLARE
    a record; o _hilo.hilo_outcome; done _hilo.hilo_outcome[] := '{}';
    ids bigint[] := ARRAY(
        SELECT q.id FROM _hilo.hilo_definition q
         WHERE q.name = ANY (r.names) AND _hilo.hilo_may(r.caller, q.id, '{UPDATE}')
        UNION SELECT l.sequence FROM _hilo.hilo_lease l
         WHERE l.lease = ANY (r.returns) AND _hilo.hilo_may(r.caller, l.sequence, '{}', l.role));
BEGIN
    BEGIN
        PERFORM FROM _hilo.hilo_definition q WHERE q.id = ANY (ids) ORDER BY q.id FOR UPDATE;
    EXCEPTION WHEN lock_not_available THEN
        -- Who holds one of them holds up none of the others.
        PERFORM set_config('lock_timeout', '1ms', true);
    END;
    FOR a IN
        SELECT 'returned' AS kind, NULL AS name, e.lease, e.n
          FROM unnest(r.returns, r.nexts) AS e (lease, n)
        UNION ALL SELECT 'renewed', NULL, h, 0 FROM unnest(r.renewals) AS h
        UNION ALL SELECT 'leased', t.name, t.lease, t.n
          FROM unnest(r.names, r.sizes, r.leases) AS t (name, n, lease)
    LOOP
        IF a.n IS NULL OR a.kind = 'leased' AND a.name IS NULL
           OR a.lease IS NULL AND (a.kind <> 'leased' OR r.leases IS NOT NULL) THEN
            RAISE 'arrays that belong together must be of one length' USING ERRCODE = '22023',
                HINT = 'They contain no null. Only leases may be null as a whole.';
        END IF;
        BEGIN
            o := CASE WHEN a.kind = 'leased' THEN _hilo.hilo_take(r.caller,
                    _hilo.hilo_locked(r.caller, a.name, 'UPDATE'), a.n, a.lease, r.holder, r.ttl)
                ELSE _hilo.hilo_change(r.caller, a.kind, a.lease, a.n, r.ttl) END;
            o.name := a.name;
        EXCEPTION WHEN OTHERS THEN
            o := (a.kind, a.name, a.lease, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, SQLSTATE,
                  SQLERRM, NULL, NULL);
            GET STACKED DIAGNOSTICS o.hint = PG_EXCEPTION_HINT;
        END;
        done := done || o;
    END LOOP;
    RETURN done;
END $$;

-- Writes a definition: old, or a new one of the caller, with other options. next: where it goes on.
CREATE FUNCTION _hilo.hilo_define(caller name, old _hilo.hilo_definition, options jsonb,
    next numeric) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    o _hilo.hilo_options := jsonb_populate_record(NULL::_hilo.hilo_options, options);
    s _hilo.hilo_definition := (
        coalesce(old.id, nextval('_hilo.hilo_definition_id')), coalesce(o.name, old.name),
        coalesce(o.data_type, old.data_type), coalesce(o.start_value, old.start_value),
        coalesce(o.increment, old.increment), coalesce(o.min_value, old.min_value),
        coalesce(o.max_value, old.max_value), coalesce(o.cycle, old.cycle),
        coalesce(o.ordered, old.ordered), coalesce(o.gapless, old.gapless),
        coalesce(o.block_size, old.block_size), coalesce(o.slice_size, old.slice_size),
        coalesce(o.key_format, old.key_format), coalesce(old.owner, quote_ident(caller)::regrole),
        old.next_value, old.epoch)::_hilo.hilo_definition;
    up boolean := s.increment > 0;
    low numeric := ('{-32768,-2147483648,-9223372036854775808}'::numeric[])[
        array_position('{smallint,integer,bigint}'::regtype[], s.data_type)];
    origin bigint;
BEGIN
    s.min_value := coalesce(s.min_value, CASE WHEN up THEN 1 ELSE low END);
    s.max_value := coalesce(s.max_value, CASE WHEN up THEN -low - 1 ELSE -1 END);
    origin := CASE WHEN up THEN s.min_value ELSE s.max_value END;
    s.start_value := coalesce(s.start_value, origin);
    IF (s.increment <> 0 AND s.min_value >= low AND s.max_value <= -low - 1
        AND s.min_value < s.max_value AND s.start_value BETWEEN s.min_value AND s.max_value
        AND NOT (s.gapless AND s.cycle) AND octet_length(s.name) BETWEEN 1 AND 255
        AND s.name !~ '[[:cntrl:]]' AND (least(s.block_size, s.slice_size) >= 1) IS NOT FALSE
        AND o.owned_by IS NULL) IS NOT TRUE THEN
        RAISE 'hilo sequence "%" cannot have these options', left(s.name, 255)
            USING ERRCODE = '22023',
            HINT = 'Its name has 1 to 255 bytes and no control character. Its type is smallint, '
            'integer or bigint. start_value is within the bounds. Sizes are positive. Only one of '
            'gapless and cycle is true. There is no owned_by.';
    ELSIF next NOT BETWEEN s.min_value AND s.max_value THEN
        RAISE 'value % is out of bounds for hilo sequence "%"', next, s.name USING ERRCODE =
            '22003', HINT = format('Its values are from %s to %s.', s.min_value, s.max_value);
    ELSIF up <> (old.increment > 0) AND next IS NULL THEN
        RAISE 'another direction needs restart_with' USING ERRCODE = '22023',
            HINT = 'Values that were served would be served again.';
    END IF;
    PERFORM _hilo.hilo_key_parts(s.key_format, s.name, false);
    s.next_value := coalesce(next, old.next_value, s.start_value)
        + CASE WHEN o.is_called AND next IS NOT NULL THEN s.increment ELSE 0 END;
    -- Narrower bounds may begin beyond it, and a cycle begins again.
    IF s.next_value NOT BETWEEN s.min_value AND s.max_value
       AND (s.cycle OR (s.next_value < s.min_value) = up) THEN
        s.next_value := origin;
    END IF;
    s.epoch := coalesce(old.epoch + (next IS NOT NULL OR (s.increment, s.min_value, s.max_value,
        s.cycle, s.ordered, s.gapless) IS DISTINCT FROM (old.increment, old.min_value,
        old.max_value, old.cycle, old.ordered, old.gapless))::integer, 0);
    UPDATE _hilo.hilo_unused u SET reason = 'altered'
     WHERE u.sequence = s.id AND u.reason = 'free' AND s.epoch > old.epoch;
    INSERT INTO _hilo.hilo_definition SELECT s.*
    ON CONFLICT (id) DO UPDATE
       SET (name, data_type, start_value, increment, min_value, max_value, cycle, ordered, gapless,
            block_size, slice_size, key_format, next_value, epoch)
         = (s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value, s.cycle,
            s.ordered, s.gapless, s.block_size, s.slice_size, s.key_format, s.next_value, s.epoch);
EXCEPTION WHEN unique_violation THEN
    RAISE 'hilo sequence "%" already exists', s.name USING ERRCODE = '42710',
        HINT = 'Choose another name, or keep it with if_not_exists => true.';
END $$;
-- Grants privileges or revokes them.
CREATE FUNCTION _hilo.hilo_write_grants(s bigint, role text, privilege text, is_granted boolean)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    whom regrole := CASE lower(role COLLATE "C") WHEN 'public' THEN 0
                                                 ELSE quote_ident(role)::regrole END;
    wanted text[] := regexp_split_to_array(replace(upper(hilo_write_grants.privilege COLLATE "C"),
                                                   'ALL', 'USAGE,SELECT,UPDATE'), '\s*,\s*');
BEGIN
    IF (wanted <@ '{USAGE,SELECT,UPDATE}') IS NOT TRUE THEN
        RAISE 'unknown privilege: %', left(hilo_write_grants.privilege, 255)
            USING ERRCODE = '22023', HINT = 'Privileges are USAGE, SELECT, UPDATE and ALL.';
    END IF;
    DELETE FROM _hilo.hilo_privilege p
     WHERE p.sequence = s AND p.grantee = whom AND p.privilege = ANY (wanted);
    INSERT INTO _hilo.hilo_privilege SELECT s, whom, unnest(wanted) WHERE is_granted;
END $$;

-- Does what a request asks for, with the rights of hilo_lite's owner.
CREATE FUNCTION _hilo.hilo_answer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    s _hilo.hilo_definition; o _hilo.hilo_outcome; done _hilo.hilo_outcome[];
    n bigint := NEW.sizes[1]; lease uuid := NEW.leases[1];
BEGIN
    IF TG_RELID <> '_hilo.hilo_request'::regclass THEN
        RAISE 'this is the trigger of _hilo.hilo_request alone' USING ERRCODE = '39P01',
            HINT = 'Only there is it known who calls.';
    ELSIF NEW.ttl NOT BETWEEN interval '1 us' AND interval '9000 years'
       OR NEW.op IN ('draw', 'range') AND (n >= 1) IS NOT TRUE OR NEW.op = 'set' AND n IS NULL THEN
        RAISE 'the number of values, and the ttl of a lease, must be positive'
            USING ERRCODE = '22023', HINT = 'A lease without a ttl is for ever.';
    ELSIF NEW.op IN ('lease', 'set', 'alter', 'drop', 'grant', 'revoke') THEN
        s := _hilo.hilo_locked(NEW.caller, NEW.names[1], VARIADIC CASE
            WHEN NEW.op IN ('lease', 'set') THEN '{UPDATE}'::text[] ELSE '{}' END);
    END IF;
    CASE NEW.op
        WHEN 'draw' THEN o := _hilo.hilo_draw(NEW.caller, NEW.names[1], n, '{USAGE,UPDATE}');
        WHEN 'range' THEN o := _hilo.hilo_draw(NEW.caller, NEW.names[1], n, '{UPDATE}');
        WHEN 'refill' THEN done := _hilo.hilo_refill_rows(NEW);
        WHEN 'lease' THEN o := _hilo.hilo_take(NEW.caller, s, n, lease, NEW.holder, NEW.ttl);
        WHEN 'returned', 'renewed', 'revoked' THEN
            o := _hilo.hilo_change(NEW.caller, NEW.op, lease, n, NEW.ttl);
        WHEN 'swept' THEN
            SELECT count(_hilo.hilo_change(NEW.caller, 'swept', w.lease, NULL, NULL)) INTO o.count
              FROM (SELECT l.lease FROM _hilo.hilo_lease l
                     WHERE l.holder = NEW.holder
                       AND _hilo.hilo_may(NEW.caller, l.sequence, '{}', l.role)
                     ORDER BY l.sequence) AS w;
        WHEN 'create' THEN
            IF NOT has_table_privilege(NEW.caller, _hilo.hilo_view()::oid, 'INSERT') THEN
                RAISE 'permission denied to create hilo sequences' USING ERRCODE = '42501',
                    DETAIL = format('To create hilo sequences, role %I needs INSERT on the view '
                        '%s.', NEW.caller, _hilo.hilo_view()),
                    HINT = format('The owner of the database grants it with: GRANT INSERT ON %s '
                        'TO %I;', _hilo.hilo_view(), NEW.caller);
            ELSIF (NEW.options ->> 'if_not_exists')::boolean IS NOT TRUE OR NOT EXISTS (
                SELECT FROM _hilo.hilo_definition q WHERE q.name = NEW.names[1])
            THEN
                PERFORM _hilo.hilo_define(NEW.caller, NULL,
                    NEW.options || jsonb_build_object('name', NEW.names[1]), NULL);
            END IF;
        WHEN 'alter' THEN PERFORM _hilo.hilo_define(NEW.caller, s, NEW.options, n);
        -- Whoever has UPDATE may set the next value, and nothing else.
        WHEN 'set' THEN PERFORM _hilo.hilo_define(NEW.caller, s,
            jsonb_build_object('is_called', NEW.options -> 'is_called'), n);
        WHEN 'drop' THEN DELETE FROM _hilo.hilo_definition q WHERE q.id = s.id;
        WHEN 'grant', 'revoke' THEN PERFORM _hilo.hilo_write_grants(
            s.id, NEW.holder, NEW.options ->> 'privilege', NEW.op = 'grant');
    END CASE;
    NEW.result := coalesce(done, ARRAY[o]);
    RETURN NEW;
END $$;
-- They fire in the order of their names.
CREATE TRIGGER hilo_1_note_caller INSTEAD OF INSERT ON _hilo.hilo_request
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_note_caller();
CREATE TRIGGER hilo_2_answer INSTEAD OF INSERT ON _hilo.hilo_request
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_answer();

-- From here on, bodies are bound as they are created.
-- A role may see the sequences that it owns, or on which it has any privilege.
-- The join keeps INSERT from reaching the table: on hilo_sequences it is the right to create.
CREATE VIEW _hilo.hilo_readable WITH (security_barrier) AS
    SELECT s.name, pg_catalog.pg_get_userbyid(s.owner) AS owner, s.data_type, s.start_value,
           s.min_value, s.max_value, s.increment, s.cycle, s.ordered, s.gapless, s.block_size,
           s.slice_size, s.key_format, s.next_value, s.id
      FROM _hilo.hilo_definition s
      JOIN LATERAL (SELECT pg_catalog.pg_has_role(s.owner::oid, 'USAGE')) AS m (mine)
        ON mine OR EXISTS (
            SELECT FROM _hilo.hilo_privilege p WHERE p.sequence = s.id AND (
                p.grantee::oid = 0::oid OR pg_catalog.pg_has_role(p.grantee::oid, 'USAGE')));
CREATE VIEW hilo_sequences AS SELECT * FROM _hilo.hilo_readable;
CREATE FUNCTION _hilo.hilo_view() RETURNS regclass LANGUAGE sql STABLE
    RETURN 'hilo_sequences'::regclass;
CREATE VIEW hilo_leases WITH (security_barrier) AS
    SELECT CASE WHEN mine THEN l.lease END AS lease, s.name, l.holder,
           pg_catalog.pg_get_userbyid(l.role) AS usename,
           CASE WHEN mine THEN l.client_addr END AS client_addr, l.first_value AS first,
           l.last_value AS last, l.count, l.leased_at, l.expires_at, 0 AS node_id
      FROM _hilo.hilo_lease l JOIN _hilo.hilo_readable s ON s.id = l.sequence,
           LATERAL (SELECT pg_catalog.pg_has_role(l.role::oid, 'USAGE')
                        OR pg_catalog.pg_has_role(s.owner, 'USAGE')) AS m (mine)
     WHERE (l.expires_at > pg_catalog.clock_timestamp()) IS NOT FALSE;
CREATE VIEW hilo_gaps WITH (security_barrier) AS
    SELECT s.name, u.first_value AS first, u.last_value AS last, u.count, u.reason, 0 AS node_id,
           u.recorded_at
      FROM _hilo.hilo_unused u JOIN _hilo.hilo_readable s ON s.id = u.sequence
     WHERE u.reason <> 'free'::text
    UNION ALL
    SELECT s.name, l.first_value, l.last_value, l.count, 'expired', 0, l.expires_at
      FROM _hilo.hilo_lease l JOIN _hilo.hilo_readable s ON s.id = l.sequence
     WHERE l.expires_at <= pg_catalog.clock_timestamp();

-- The functions that users call, with the names, arguments and results that they have in hilo.
CREATE FUNCTION _hilo.hilo_ask(op text, name text, n bigint DEFAULT NULL, lease uuid DEFAULT NULL,
    holder text DEFAULT NULL, ttl interval DEFAULT NULL, options jsonb DEFAULT '{}')
RETURNS _hilo.hilo_outcome LANGUAGE plpgsql AS $$
DECLARE
    o _hilo.hilo_outcome;
BEGIN
    INSERT INTO _hilo.hilo_request (op, names, sizes, leases, holder, ttl, options)
    VALUES ($1, ARRAY[$2], ARRAY[$3], ARRAY[$4], $5, $6, $7) RETURNING (result[1]).* INTO o;
    RETURN o;
END $$;
CREATE FUNCTION hilo_create(name hilo_sequence, start_value bigint DEFAULT NULL,
    increment bigint DEFAULT 1, min_value bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT 'bigint', cycle boolean DEFAULT false, ordered boolean DEFAULT false,
    block_size bigint DEFAULT NULL, slice_size bigint DEFAULT NULL, key_format text DEFAULT NULL,
    if_not_exists boolean DEFAULT false, gapless boolean DEFAULT false, owned_by text DEFAULT NULL)
RETURNS hilo_sequence LANGUAGE sql RETURN (
    SELECT $1 FROM (
        SELECT start_value, increment, min_value, max_value, data_type, cycle, ordered, block_size,
               slice_size, key_format, if_not_exists, gapless, owned_by) AS o,
        _hilo.hilo_ask('create', $1, options => pg_catalog.to_jsonb(o)));
CREATE FUNCTION hilo_alter(name hilo_sequence, start_value bigint DEFAULT NULL,
    increment bigint DEFAULT NULL, min_value bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT NULL, cycle boolean DEFAULT NULL, ordered boolean DEFAULT NULL,
    block_size bigint DEFAULT NULL, slice_size bigint DEFAULT NULL, key_format text DEFAULT NULL,
    restart_with bigint DEFAULT NULL, gapless boolean DEFAULT NULL)
RETURNS void LANGUAGE sql RETURN (
    SELECT a FROM (
        SELECT start_value, increment, min_value, max_value, data_type, cycle, ordered, block_size,
               slice_size, key_format, gapless) AS o,
        _hilo.hilo_ask('alter', $1, $12, options => pg_catalog.to_jsonb(o)) AS a);
CREATE FUNCTION hilo_rename(name hilo_sequence, new_name hilo_sequence) RETURNS void LANGUAGE sql
    RETURN _hilo.hilo_ask('alter', $1, options => pg_catalog.jsonb_build_object('name', $2));
CREATE FUNCTION hilo_drop(name hilo_sequence, if_exists boolean DEFAULT false) RETURNS void
LANGUAGE sql RETURN (SELECT _hilo.hilo_ask('drop', $1)
    WHERE NOT $2 OR EXISTS (SELECT FROM _hilo.hilo_readable s WHERE s.name = $1));
CREATE FUNCTION hilo_grant(name hilo_sequence, grantee text, privilege text) RETURNS void
LANGUAGE sql RETURN _hilo.hilo_ask('grant', $1, holder => $2,
    options => pg_catalog.jsonb_build_object('privilege', $3));
CREATE FUNCTION hilo_revoke(name hilo_sequence, grantee text, privilege text) RETURNS void
LANGUAGE sql RETURN _hilo.hilo_ask('revoke', $1, holder => $2,
    options => pg_catalog.jsonb_build_object('privilege', $3));
CREATE FUNCTION hilo_grant_all(grantee text, privilege text, pattern text DEFAULT '%')
RETURNS bigint LANGUAGE sql RETURN (
    SELECT pg_catalog.count(_hilo.hilo_ask('grant', s.name, holder => $1,
                                options => pg_catalog.jsonb_build_object('privilege', $2)))
      FROM _hilo.hilo_readable s WHERE s.name::text LIKE $3 AND s.owner = current_user);
CREATE FUNCTION hilo_setval(name hilo_sequence, value bigint, is_called boolean DEFAULT true)
RETURNS bigint LANGUAGE sql STRICT RETURN (SELECT $2 FROM _hilo.hilo_ask('set', $1, $2,
    options => pg_catalog.jsonb_build_object('is_called', $3)));
CREATE FUNCTION hilo_nextval(name hilo_sequence) RETURNS bigint LANGUAGE sql STRICT
    RETURN (_hilo.hilo_ask('draw', $1, 1)).first;
CREATE FUNCTION hilo_nextrange(name hilo_sequence, n bigint,
    OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint)
LANGUAGE sql STRICT RETURN (
    SELECT ROW (o.first, o.last, o.increment, o.count) FROM _hilo.hilo_ask('range', $1, $2) AS o);
CREATE FUNCTION hilo_lease(name hilo_sequence, n bigint, holder text DEFAULT NULL,
    ttl interval DEFAULT NULL, lease uuid DEFAULT NULL, OUT lease uuid, OUT first bigint,
    OUT last bigint, OUT increment bigint, OUT count bigint, OUT expires_at timestamptz,
    OUT key_format text, OUT server_prefix text, OUT suggested bigint)
LANGUAGE sql RETURN (
    SELECT ROW (o.lease, o.first, o.last, o.increment, o.count, o.expires_at, o.key_format,
                o.server_prefix, o.suggested)
      FROM _hilo.hilo_ask('lease', $1, $2, $5, $3, $4) AS o);
CREATE FUNCTION hilo_lease_return(lease uuid, next bigint DEFAULT NULL) RETURNS bigint LANGUAGE sql
    RETURN (_hilo.hilo_ask('returned', NULL, $2, $1)).count;
CREATE FUNCTION hilo_lease_renew(lease uuid, ttl interval) RETURNS timestamptz LANGUAGE sql
    RETURN (_hilo.hilo_ask('renewed', NULL, NULL, $1, ttl => $2)).expires_at;
CREATE FUNCTION hilo_lease_revoke(lease uuid DEFAULT NULL, holder text DEFAULT NULL) RETURNS bigint
LANGUAGE sql RETURN CASE WHEN $1 IS NULL AND $2 IS NOT NULL
    THEN (_hilo.hilo_ask('swept', NULL, holder => $2)).count
    ELSE (_hilo.hilo_ask('revoked', NULL, NULL, $1)).count + 1::bigint END;
CREATE FUNCTION hilo_refill(returns uuid[] DEFAULT '{}', nexts bigint[] DEFAULT '{}',
    renewals uuid[] DEFAULT '{}', names text[] DEFAULT '{}', sizes bigint[] DEFAULT '{}',
    leases uuid[] DEFAULT NULL, holder text DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF _hilo.hilo_outcome LANGUAGE plpgsql AS $$
DECLARE
    done _hilo.hilo_outcome[];
BEGIN
    INSERT INTO _hilo.hilo_request (op, returns, nexts, renewals, names, sizes, leases, holder, ttl)
    VALUES ('refill', $1, $2, $3, $4, $5, $6, $7, $8) RETURNING result INTO done;
    RETURN QUERY SELECT o.* FROM pg_catalog.unnest(done) AS o;
END $$;

-- Keys. hilo_frame: what all keys of a sequence have.
CREATE FUNCTION _hilo.hilo_frame(name text, OUT before text, OUT width integer, OUT behind text)
LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT p.* FROM (SELECT $1) AS n (name) LEFT JOIN _hilo.hilo_readable s ON s.name = n.name,
        _hilo.hilo_key_parts(s.key_format, n.name, s.min_value < 0::bigint) AS p;
END;
CREATE FUNCTION _hilo.hilo_key_of(name text, value bigint) RETURNS text
LANGUAGE sql STABLE STRICT RETURN (
    SELECT before || sign || pg_catalog.lpad(digits,
               greatest(width - pg_catalog.length(sign), pg_catalog.length(digits)), '0') || behind
      FROM _hilo.hilo_frame($1), substring($2::text FROM '^-?') AS sign,
           pg_catalog.ltrim($2::text, '-') AS digits);
CREATE FUNCTION hilo_key(name hilo_sequence, value bigint) RETURNS text
LANGUAGE sql STABLE STRICT RETURN _hilo.hilo_key_of($1, $2);
CREATE FUNCTION hilo_key_value(name hilo_sequence, key text) RETURNS bigint
LANGUAGE sql STABLE STRICT RETURN (
    SELECT CASE WHEN digits ~ '^-?[0-9]{1,19}$'::text AND _hilo.hilo_key_of($1, least(
                         digits::numeric, 9223372036854775807::numeric)::bigint) = $2 THEN digits
                ELSE _hilo.hilo_refuse(pg_catalog.format('"%s" is no key of "%s"',
                         pg_catalog."left"($2, 255), $1), 'hilo_key makes keys.') END::bigint
      FROM _hilo.hilo_frame($1) AS f, pg_catalog.length(before) AS head,
           pg_catalog.substr($2, head + 1, greatest(0,
               pg_catalog.length($2) - head - pg_catalog.length(behind))) AS digits);
CREATE FUNCTION hilo_nextkey(name hilo_sequence) RETURNS text LANGUAGE sql STRICT
    RETURN _hilo.hilo_key_of($1, (_hilo.hilo_ask('draw', $1, 1)).first);

-- Default privileges of whoever runs this give nothing away here.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE x.grantee WHEN 0::oid THEN 'PUBLIC' ELSE x.grantee::regrole::text END
          FROM (SELECT c.relacl AS acl, c.relowner AS owner FROM pg_catalog.pg_class c
                 WHERE c.relnamespace = '_hilo'::regnamespace::oid
                    OR c.oid = _hilo.hilo_view()::oid
                UNION ALL SELECT p.proacl, p.proowner FROM pg_catalog.pg_proc p
                 WHERE p.pronamespace = '_hilo'::regnamespace::oid) AS o,
               pg_catalog.aclexplode(o.acl) AS x
         WHERE x.grantee <> o.owner
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON hilo_sequences FROM %1$s;
            REVOKE ALL ON ALL TABLES IN SCHEMA _hilo FROM %1$s;
            REVOKE ALL ON ALL SEQUENCES IN SCHEMA _hilo FROM %1$s;
            REVOKE ALL ON ALL FUNCTIONS IN SCHEMA _hilo FROM %1$s', grantee);
    END LOOP;
END $$;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA _hilo FROM PUBLIC;
GRANT EXECUTE ON FUNCTION _hilo.hilo_ask, _hilo.hilo_refuse, _hilo.hilo_key_parts,
    _hilo.hilo_frame, _hilo.hilo_key_of TO PUBLIC;
GRANT INSERT (op, returns, nexts, renewals, names, sizes, leases, holder, ttl, options),
    SELECT (result) ON _hilo.hilo_request TO PUBLIC;
GRANT SELECT ON _hilo.hilo_readable, hilo_sequences, hilo_leases, hilo_gaps TO PUBLIC;
-- The right to create sequences.
GRANT INSERT ON hilo_sequences TO pg_database_owner WITH GRANT OPTION;
-- The rows of an extension are dumped if it says so.
DO $$
DECLARE
    c oid;
BEGIN
    FOR c IN SELECT d.objid FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_extension e
        ON e.oid = refobjid WHERE extname = 'hilo_lite' AND classid = 'pg_class'::regclass::oid LOOP
        PERFORM pg_catalog.pg_extension_config_dump(c, '');
    END LOOP;
END $$;
