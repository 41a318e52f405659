-- hilo_lite: leases, keys and gapless numbers of hilo where no library can be loaded: docs/lite.md.
--
-- Locks: the row of a sequence is the one lock. Its counter, its unused ranges and the ends of its
-- leases change only under it. Who locks several does so in the order of their ids. Nobody waits
-- for the lock on a lease, and nobody locks what he may not use.
-- Leases that have expired stay in their table, as gaps.
-- Isolation: the counter is in the row that is locked. So a transaction with an older snapshot
-- fails with 40001 and never draws from an old counter.
-- Rights: users call functions with their own rights, which insert into the view _hilo.request.
-- Its trigger works with the rights of the owner of hilo_lite. A default of the view says who
-- calls. Nobody may write that column, so nobody calls as somebody else.
-- Names: bodies in BEGIN ATOMIC are bound when they are created. All others run below the trigger,
-- which sets the search_path, or set it themselves.

CREATE SCHEMA _hilo;
CREATE DOMAIN hilo_sequence AS text;

CREATE SEQUENCE _hilo.sequence_id;
CREATE TABLE _hilo.sequence (
    id bigint PRIMARY KEY,
    name hilo_sequence COLLATE "C" NOT NULL UNIQUE,
    data_type regtype NOT NULL, start_value bigint NOT NULL, increment bigint NOT NULL,
    min_value bigint NOT NULL, max_value bigint NOT NULL, cycle boolean NOT NULL,
    ordered boolean NOT NULL, gapless boolean NOT NULL, block_size bigint, slice_size integer,
    -- next_value: out of bounds none is left. epoch: raised when leases become no part of it.
    key_format text, owner regrole NOT NULL, next_value numeric(20) NOT NULL, epoch bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE TABLE _hilo.privilege (
    sequence bigint NOT NULL REFERENCES _hilo.sequence ON DELETE CASCADE,
    -- Role 0 is all roles.
    grantee regrole NOT NULL, privilege text NOT NULL,
    PRIMARY KEY (sequence, grantee, privilege)
);
CREATE TABLE _hilo.lease (
    lease uuid PRIMARY KEY,
    sequence bigint NOT NULL REFERENCES _hilo.sequence ON DELETE CASCADE, epoch bigint NOT NULL,
    first_value bigint NOT NULL, last_value bigint NOT NULL, increment bigint NOT NULL,
    count bigint NOT NULL, holder text, role regrole NOT NULL, client_addr inet,
    leased_at timestamptz NOT NULL, expires_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON _hilo.lease (sequence, leased_at);
CREATE INDEX ON _hilo.lease (holder);
CREATE TABLE _hilo.unused (               -- what nobody has: free, or a gap with its reason
    sequence bigint NOT NULL REFERENCES _hilo.sequence ON DELETE CASCADE,
    reason text NOT NULL CHECK (reason IN ('free', 'altered', 'expired', 'revoked')),
    first_value bigint NOT NULL, last_value bigint NOT NULL, count bigint NOT NULL,
    recorded_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON _hilo.unused (sequence, reason, first_value);

CREATE TYPE _hilo.outcome AS (
    kind text, name text, lease uuid, first bigint, last bigint, increment bigint, count bigint,
    expires_at timestamptz, key_format text, server_prefix text, suggested bigint,
    sqlstate text, message text, detail text, hint text
);
CREATE VIEW _hilo.request AS
    SELECT NULL::text AS op, NULL::uuid[] AS returns, NULL::bigint[] AS nexts,
           NULL::uuid[] AS renewals, NULL::text[] AS names, NULL::bigint[] AS sizes,
           NULL::uuid[] AS leases, NULL::text AS holder, NULL::interval AS ttl,
           NULL::jsonb AS options, NULL::name AS caller, NULL::_hilo.outcome[] AS result;
ALTER VIEW _hilo.request ALTER COLUMN caller SET DEFAULT current_user;
GRANT INSERT (op, returns, nexts, renewals, names, sizes, leases, holder, ttl, options),
    SELECT (result) ON _hilo.request TO PUBLIC;

-- Fails, as a function of SQL cannot by itself.
CREATE FUNCTION _hilo.refuse(message text, hint text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = message, HINT = hint;
END $$;

-- The text around the value in keys. signed: there are negative values.
CREATE FUNCTION _hilo.key_parts(format text, name text, signed boolean,
    OUT before text, OUT width integer, OUT behind text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
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
        RAISE 'key_format "%" cannot be used', format USING ERRCODE = '22023',
            HINT = 'It has {value} or {value:0N} once, {server} at most once, and {name}.';
    END IF;
    filled := replace(replace(filled, E'\3', '{'), E'\4', name);
    gap := substring(filled FROM E'\1(.*)\2');
    IF signed IS NULL THEN
        RAISE 'hilo sequence "%" does not exist', name USING ERRCODE = '42704',
            HINT = 'Or you have no privilege on it.';
    ELSIF prefix ~ '\d$' AND (gap ~ '^\d*$' OR signed AND gap ~ '^[\d-]*\d[\d-]*$')
          OR prefix ~ '-$' AND signed AND gap ~ '^[\d-]*$'
          OR prefix ~ '^\d' AND filled ~ E'\2\\d*\1' THEN
        RAISE 'server prefix "%" cannot be used', prefix USING ERRCODE = '22023',
            HINT = 'Two values could have the same key. Separate it from the value with a "/".';
    END IF;
    filled := replace(filled, E'\1', prefix);
    before := split_part(filled, E'\2', 1);
    behind := split_part(filled, E'\2', 2);
END $$;

-- Whether a role owns a sequence, has one of the privileges, or is the one that took a lease.
CREATE FUNCTION _hilo.may(caller name, s bigint, wanted text[], taker regrole DEFAULT NULL)
RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_has_role(caller, q.owner::oid, 'USAGE') OR pg_has_role(caller, taker::oid, 'USAGE')
        OR EXISTS (SELECT FROM _hilo.privilege p WHERE p.sequence = s AND p.privilege = ANY (wanted)
                      AND (p.grantee::oid = 0 OR pg_has_role(caller, p.grantee::oid, 'USAGE')))
      FROM _hilo.sequence q WHERE q.id = s
$$;
-- The sequence, locked. Who may not use it does not lock it either.
CREATE FUNCTION _hilo.locked(caller name, name text, VARIADIC wanted text[])
RETURNS _hilo.sequence LANGUAGE plpgsql AS $$
DECLARE
    s _hilo.sequence;
BEGIN
    SELECT * INTO s FROM _hilo.sequence q
     WHERE q.name = locked.name AND _hilo.may(caller, q.id, wanted) FOR UPDATE;
    IF FOUND THEN
        -- A commit that a crash loses would bring its values again.
        PERFORM set_config('synchronous_commit', 'on', true)
          WHERE current_setting('synchronous_commit') = 'off';
        RETURN s;
    ELSIF EXISTS (SELECT FROM _hilo.sequence q WHERE q.name = locked.name) THEN
        RAISE 'permission denied for hilo sequence "%"', name USING ERRCODE = '42501',
            HINT = format('Role "%s" needs one of {%s}, or to own it. hilo_grant grants them.',
                          caller, array_to_string(wanted, ', '));
    END IF;
    RAISE 'hilo sequence "%" does not exist', name
        USING ERRCODE = '42704', HINT = 'Create it with hilo_create.';
END $$;

-- Takes n values from the counter; as many of them as it has, for a lease.
CREATE FUNCTION _hilo.cut(s _hilo.sequence, wanted bigint, is_lease boolean,
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
    UPDATE _hilo.sequence q SET next_value = CASE
        WHEN n < room OR NOT s.cycle THEN s.next_value + n * s.increment
        WHEN up THEN s.min_value ELSE s.max_value END WHERE q.id = s.id;
    first := s.next_value;
END $$;

-- Keeps a range as free or as a gap. One that ends before it, for the same reason, becomes longer.
CREATE FUNCTION _hilo.keep(s bigint, why text, first numeric, n numeric, step bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE _hilo.unused u
       SET last_value = first + (n - 1) * step, count = count + n, recorded_at = clock_timestamp()
     WHERE u.sequence = s AND u.reason = why AND u.last_value = first - step AND n > 0;
    INSERT INTO _hilo.unused SELECT s, why, first, first + (n - 1) * step, n, clock_timestamp()
     WHERE NOT FOUND AND n > 0;
END $$;

-- Takes a lease of a sequence that is locked.
CREATE FUNCTION _hilo.take(caller name, s _hilo.sequence, n bigint, wanted uuid, holder text,
    ttl interval) RETURNS _hilo.outcome LANGUAGE plpgsql AS $$
DECLARE
    l _hilo.lease; u _hilo.unused;
BEGIN
    IF s.cycle OR s.ordered OR s.gapless THEN
        RAISE 'cannot lease values of hilo sequence "%"', s.name USING ERRCODE = '0A000',
            HINT = 'It cycles, is ordered or gapless. Draw its values with hilo_nextval.';
    ELSIF (n BETWEEN 1 AND 1000000000) IS NOT TRUE OR octet_length(take.holder) > 255 THEN
        RAISE 'cannot lease % values to "%"', n, take.holder USING ERRCODE = '22023',
            HINT = 'A lease has 1 to 1000000000 values. Its holder has 255 bytes at most.';
    END IF;
    SELECT * INTO l FROM _hilo.lease q WHERE q.lease = wanted;
    IF NOT FOUND THEN
        DELETE FROM _hilo.unused WHERE ctid = (SELECT q.ctid FROM _hilo.unused q
            WHERE q.sequence = s.id AND q.reason = 'free' ORDER BY q.first_value LIMIT 1)
        RETURNING * INTO u;
        IF FOUND THEN
            l.first_value := u.first_value;
            l.count := least(n, u.count);
            PERFORM _hilo.keep(s.id, 'free', u.first_value + l.count::numeric * s.increment,
                               u.count - l.count, s.increment);
        ELSE
            SELECT c.first, c.n INTO l.first_value, l.count FROM _hilo.cut(s, take.n, true) AS c;
        END IF;
        INSERT INTO _hilo.lease VALUES (coalesce(wanted, gen_random_uuid()), s.id, s.epoch,
            l.first_value, l.first_value + (l.count - 1.0) * s.increment, s.increment, l.count,
            take.holder, quote_ident(caller)::regrole, inet_client_addr(), clock_timestamp(),
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
        (SELECT least(greatest(32, sum(q.count)), 1000000) FROM _hilo.lease q
          WHERE q.sequence = s.id AND q.leased_at > clock_timestamp() - interval '1 min')::bigint,
        NULL, NULL, NULL, NULL)::_hilo.outcome;
END $$;

-- Ends or renews a lease. what: returned, renewed, revoked, or swept, which is revoked if open.
CREATE FUNCTION _hilo.change(caller name, what text, wanted uuid, next numeric, ttl interval)
RETURNS _hilo.outcome LANGUAGE plpgsql AS $$
DECLARE
    l _hilo.lease; s _hilo.sequence; used numeric; o _hilo.outcome;
BEGIN
    SELECT q.* INTO s FROM _hilo.sequence q JOIN _hilo.lease x ON x.sequence = q.id
     WHERE x.lease = wanted AND _hilo.may(caller, q.id, '{}', x.role);
    IF what <> 'renewed' THEN
        SELECT * INTO s FROM _hilo.sequence q WHERE q.id = s.id FOR UPDATE;
    END IF;
    SELECT * INTO l FROM _hilo.lease q WHERE q.lease = wanted FOR UPDATE SKIP LOCKED;
    used := coalesce((next - l.first_value) / l.increment * (what = 'returned')::integer, 0);
    IF l.lease IS NULL AND EXISTS (SELECT FROM _hilo.lease q WHERE q.lease = wanted) THEN
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
        UPDATE _hilo.lease q SET expires_at = clock_timestamp() + ttl
         WHERE q.lease = wanted RETURNING q.expires_at INTO o.expires_at;
    ELSE
        -- Nobody knows what was used of a lease that is revoked. The rest of others comes back,
        -- unless other values are to come since.
        o.count := CASE WHEN what = 'returned' AND l.epoch = s.epoch THEN l.count - used ELSE 0 END;
        DELETE FROM _hilo.lease q WHERE q.lease = wanted;
        PERFORM _hilo.keep(s.id, CASE WHEN o.count > 0 THEN 'free' WHEN what = 'returned'
                                      THEN 'altered' ELSE 'revoked' END,
                           l.first_value + used * l.increment, l.count - used, l.increment);
    END IF;
    RETURN o;
END $$;

-- Does the rows of a refill, each in a subtransaction: what is refused fails by itself.
CREATE FUNCTION _hilo.refill(r _hilo.request) RETURNS _hilo.outcome[] LANGUAGE plpgsql
SET lock_timeout = '100ms' AS $$
DECLARE
    a record; o _hilo.outcome; done _hilo.outcome[] := '{}';
    ids bigint[] := ARRAY(
        SELECT q.id FROM _hilo.sequence q
         WHERE q.name = ANY (r.names) AND _hilo.may(r.caller, q.id, '{UPDATE}')
        UNION SELECT l.sequence FROM _hilo.lease l
         WHERE l.lease = ANY (r.returns) AND _hilo.may(r.caller, l.sequence, '{}', l.role));
BEGIN
    BEGIN
        PERFORM FROM _hilo.sequence q WHERE q.id = ANY (ids) ORDER BY q.id FOR UPDATE;
    EXCEPTION WHEN lock_not_available THEN
        -- Who holds one of them holds up none of the others.
        PERFORM set_config('lock_timeout', '1ms', true);
    END;
    FOR a IN
        SELECT 'returned' AS kind, NULL AS name, e.lease, e.n
          FROM unnest(r.returns, r.nexts) AS e (lease, n)
        UNION ALL SELECT 'renewed', NULL, h, 0 FROM unnest(r.renewals) AS h
        UNION ALL SELECT 'leased', t.name,
               CASE WHEN r.leases IS NULL THEN gen_random_uuid() ELSE t.lease END, t.n
          FROM unnest(r.names, r.sizes, r.leases) AS t (name, n, lease)
    LOOP
        IF a.lease IS NULL OR a.n IS NULL OR a.kind = 'leased' AND a.name IS NULL THEN
            RAISE 'arrays that belong together must be of one length' USING ERRCODE = '22023',
                HINT = 'They contain no null. Only leases may be null as a whole.';
        END IF;
        BEGIN
            o := CASE WHEN a.kind = 'leased' THEN _hilo.take(r.caller,
                    _hilo.locked(r.caller, a.name, 'UPDATE'), a.n, a.lease, r.holder, r.ttl)
                ELSE _hilo.change(r.caller, a.kind, a.lease, a.n, r.ttl) END;
        EXCEPTION WHEN OTHERS THEN
            o := (a.kind, a.name, a.lease, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, SQLSTATE,
                  SQLERRM, NULL, NULL);
            GET STACKED DIAGNOSTICS o.hint = PG_EXCEPTION_HINT;
        END;
        done := done || o;
    END LOOP;
    RETURN done;
END $$;

-- Writes a definition: old, or a new one, with the options of a request. next: where it goes on.
CREATE FUNCTION _hilo.define(r _hilo.request, old _hilo.sequence, next numeric) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s _hilo.sequence := jsonb_populate_record(old, jsonb_strip_nulls(r.options));
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
        AND s.name !~ '[[:cntrl:]]' AND r.options ->> 'owned_by' IS NULL) IS NOT TRUE THEN
        RAISE 'hilo sequence "%" cannot have these options', s.name USING ERRCODE = '22023',
            HINT = 'Its name has 1 to 255 bytes and no control character. Its type is smallint, '
            'integer or bigint. start_value is within the bounds. Only one of gapless and cycle is '
            'true. There is no owned_by.';
    ELSIF next NOT BETWEEN s.min_value AND s.max_value THEN
        RAISE 'value % is out of bounds for hilo sequence "%"', next, s.name USING ERRCODE =
            '22003', HINT = format('Its values are from %s to %s.', s.min_value, s.max_value);
    ELSIF up <> (old.increment > 0) AND next IS NULL THEN
        RAISE 'another direction needs restart_with' USING ERRCODE = '22023',
            HINT = 'Values that were served would be served again.';
    END IF;
    PERFORM _hilo.key_parts(s.key_format, s.name, false);
    s.next_value := coalesce(next, old.next_value, s.start_value)
        + CASE WHEN (r.options ->> 'is_called')::boolean THEN s.increment ELSE 0 END;
    -- Narrower bounds may begin beyond it, and a cycle begins again.
    IF s.next_value NOT BETWEEN s.min_value AND s.max_value
       AND (s.cycle OR (s.next_value < s.min_value) = up) THEN
        s.next_value := origin;
    END IF;
    s.epoch := coalesce(old.epoch + (next IS NOT NULL OR (s.increment, s.min_value, s.max_value,
        s.cycle, s.ordered, s.gapless) IS DISTINCT FROM (old.increment, old.min_value,
        old.max_value, old.cycle, old.ordered, old.gapless))::integer, 0);
    UPDATE _hilo.unused u SET reason = 'altered'
     WHERE u.sequence = s.id AND u.reason = 'free' AND s.epoch > old.epoch;
    INSERT INTO _hilo.sequence SELECT s.*
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
CREATE FUNCTION _hilo.grant(r _hilo.request, s bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    whom regrole := CASE lower(r.holder) WHEN 'public' THEN 0
                                         ELSE quote_ident(r.holder)::regrole END;
    wanted text[] := regexp_split_to_array(
        replace(upper(r.options #>> '{}'), 'ALL', 'USAGE,SELECT,UPDATE'), '\s*,\s*');
BEGIN
    IF (wanted <@ '{USAGE,SELECT,UPDATE}') IS NOT TRUE THEN
        RAISE 'unknown privilege: %', r.options #>> '{}' USING ERRCODE = '22023',
            HINT = 'Privileges are USAGE, SELECT, UPDATE and ALL.';
    END IF;
    DELETE FROM _hilo.privilege p
     WHERE p.sequence = s AND p.grantee = whom AND p.privilege = ANY (wanted);
    INSERT INTO _hilo.privilege SELECT s, whom, unnest(wanted) WHERE r.op = 'grant';
END $$;

-- Does what a request asks for, with the rights of hilo_lite's owner.
CREATE FUNCTION _hilo.answer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s _hilo.sequence; o _hilo.outcome; n bigint := NEW.sizes[1]; lease uuid := NEW.leases[1];
BEGIN
    IF NEW.ttl NOT BETWEEN interval '1 us' AND interval '9000 years'
       OR NEW.op IN ('draw', 'range') AND n < 1 THEN
        RAISE 'the number of values, and the ttl of a lease, must be positive'
            USING ERRCODE = '22023', HINT = 'A lease without a ttl is for ever.';
    ELSIF NEW.op IN ('draw', 'range', 'lease', 'set', 'alter', 'drop', 'grant', 'revoke') THEN
        s := _hilo.locked(NEW.caller, NEW.names[1], VARIADIC CASE
            WHEN NEW.op = 'draw' THEN '{USAGE,UPDATE}'::text[]
            WHEN NEW.op IN ('range', 'lease', 'set') THEN '{UPDATE}' ELSE '{}' END);
    END IF;
    CASE NEW.op
        WHEN 'draw', 'range' THEN
            SELECT c.first, c.first + (c.n - 1) * s.increment, s.increment, c.n
              INTO o.first, o.last, o.increment, o.count
              FROM _hilo.cut(s, NEW.sizes[1], false) AS c;
        WHEN 'refill' THEN NEW.result := _hilo.refill(NEW);
        WHEN 'lease' THEN o := _hilo.take(NEW.caller, s, n, lease, NEW.holder, NEW.ttl);
        WHEN 'returned', 'renewed', 'revoked' THEN
            o := _hilo.change(NEW.caller, NEW.op, lease, n, NEW.ttl);
        WHEN 'swept' THEN
            SELECT count(_hilo.change(NEW.caller, 'swept', w.lease, NULL, NULL)) INTO o.count FROM (
                SELECT l.lease FROM _hilo.lease l WHERE l.holder = NEW.holder
                   AND _hilo.may(NEW.caller, l.sequence, '{}', l.role) ORDER BY l.sequence) AS w;
        WHEN 'create' THEN
            IF NOT has_schema_privilege(NEW.caller,
                (SELECT typnamespace FROM pg_type WHERE oid = pg_typeof(s.name)), 'CREATE') THEN
                RAISE 'permission denied to create a hilo sequence' USING ERRCODE = '42501',
                    HINT = 'You need CREATE on the schema of hilo''s functions.';
            ELSIF NOT (NEW.options ->> 'if_not_exists')::boolean
                  OR NOT EXISTS (SELECT FROM _hilo.sequence q WHERE q.name = NEW.names[1]) THEN
                NEW.options := NEW.options || jsonb_build_object('name', NEW.names[1],
                    'owner', quote_ident(NEW.caller), 'id', nextval('_hilo.sequence_id'));
                PERFORM _hilo.define(NEW, NULL, NULL);
            END IF;
        WHEN 'alter', 'set' THEN PERFORM _hilo.define(NEW, s, n);
        WHEN 'drop' THEN DELETE FROM _hilo.sequence q WHERE q.id = s.id;
        WHEN 'grant', 'revoke' THEN PERFORM _hilo.grant(NEW, s.id);
    END CASE;
    NEW.result := coalesce(NEW.result, ARRAY[o]);
    RETURN NEW;
END $$;
CREATE TRIGGER answer INSTEAD OF INSERT ON _hilo.request
    FOR EACH ROW EXECUTE FUNCTION _hilo.answer();

-- From here on, bodies are bound as they are created, in a search_path that may hold anything.
-- So functions are named with their schema, and operators have exactly the types of core's.
-- A role may see the sequences that it owns, or on which it has any privilege.
CREATE VIEW hilo_sequences WITH (security_barrier) AS
    SELECT s.name, pg_catalog.pg_get_userbyid(s.owner) AS owner, s.data_type, s.start_value,
           s.min_value, s.max_value, s.increment, s.cycle, s.ordered, s.gapless, s.block_size,
           s.slice_size, s.key_format, s.next_value, s.id
      FROM _hilo.sequence s
     WHERE pg_catalog.pg_has_role(s.owner::oid, 'USAGE') OR EXISTS (
        SELECT FROM _hilo.privilege p WHERE p.sequence = s.id AND (
            p.grantee::oid = 0::oid OR pg_catalog.pg_has_role(p.grantee::oid, 'USAGE')));
CREATE VIEW hilo_leases WITH (security_barrier) AS
    SELECT CASE WHEN mine THEN l.lease END AS lease, s.name, l.holder,
           pg_catalog.pg_get_userbyid(l.role) AS usename,
           CASE WHEN mine THEN l.client_addr END AS client_addr, l.first_value AS first,
           l.last_value AS last, l.count, l.leased_at, l.expires_at, 0 AS node_id
      FROM _hilo.lease l JOIN hilo_sequences s ON s.id = l.sequence,
           LATERAL (SELECT pg_catalog.pg_has_role(l.role::oid, 'USAGE')
                        OR pg_catalog.pg_has_role(s.owner, 'USAGE')) AS m (mine)
     WHERE (l.expires_at > pg_catalog.clock_timestamp()) IS NOT FALSE;
CREATE VIEW hilo_gaps WITH (security_barrier) AS
    SELECT s.name, u.first_value AS first, u.last_value AS last, u.count, u.reason, 0 AS node_id,
           u.recorded_at
      FROM _hilo.unused u JOIN hilo_sequences s ON s.id = u.sequence WHERE u.reason <> 'free'::text
    UNION ALL
    SELECT s.name, l.first_value, l.last_value, l.count, 'expired', 0, l.expires_at
      FROM _hilo.lease l JOIN hilo_sequences s ON s.id = l.sequence
     WHERE l.expires_at <= pg_catalog.clock_timestamp();
GRANT SELECT ON hilo_sequences, hilo_leases, hilo_gaps TO PUBLIC;

-- The functions that users call, with the names, arguments and results that they have in hilo.
CREATE FUNCTION _hilo.ask(op text, name text, n bigint DEFAULT NULL, lease uuid DEFAULT NULL,
    holder text DEFAULT NULL, ttl interval DEFAULT NULL, options jsonb DEFAULT '{}')
RETURNS _hilo.outcome LANGUAGE sql BEGIN ATOMIC
    INSERT INTO _hilo.request (op, names, sizes, leases, holder, ttl, options)
    VALUES ($1, ARRAY[$2], ARRAY[$3], ARRAY[$4], $5, $6, $7) RETURNING (result[1]).*;
END;
CREATE FUNCTION hilo_create(name hilo_sequence, start_value bigint DEFAULT NULL,
    increment bigint DEFAULT 1, min_value bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT 'bigint', cycle boolean DEFAULT false, ordered boolean DEFAULT false,
    block_size bigint DEFAULT NULL, slice_size bigint DEFAULT NULL, key_format text DEFAULT NULL,
    if_not_exists boolean DEFAULT false, gapless boolean DEFAULT false, owned_by text DEFAULT NULL)
RETURNS hilo_sequence LANGUAGE sql RETURN (
    SELECT $1 FROM (
        SELECT start_value, increment, min_value, max_value, data_type, cycle, ordered, block_size,
               slice_size, key_format, if_not_exists, gapless, owned_by) AS o,
        _hilo.ask('create', $1, options => pg_catalog.to_jsonb(o)));
CREATE FUNCTION hilo_alter(name hilo_sequence, start_value bigint DEFAULT NULL,
    increment bigint DEFAULT NULL, min_value bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT NULL, cycle boolean DEFAULT NULL, ordered boolean DEFAULT NULL,
    block_size bigint DEFAULT NULL, slice_size bigint DEFAULT NULL, key_format text DEFAULT NULL,
    restart_with bigint DEFAULT NULL, gapless boolean DEFAULT NULL)
RETURNS void LANGUAGE sql RETURN (
    SELECT a FROM (
        SELECT start_value, increment, min_value, max_value, data_type, cycle, ordered, block_size,
               slice_size, key_format, gapless) AS o,
        _hilo.ask('alter', $1, $12, options => pg_catalog.to_jsonb(o)) AS a);
CREATE FUNCTION hilo_rename(name hilo_sequence, new_name hilo_sequence) RETURNS void LANGUAGE sql
    RETURN _hilo.ask('alter', $1, options => pg_catalog.jsonb_build_object('name', $2));
CREATE FUNCTION hilo_drop(name hilo_sequence, if_exists boolean DEFAULT false) RETURNS void
LANGUAGE sql RETURN (SELECT _hilo.ask('drop', $1)
    WHERE NOT $2 OR EXISTS (SELECT FROM hilo_sequences s WHERE s.name = $1));
CREATE FUNCTION hilo_grant(name hilo_sequence, grantee text, privilege text) RETURNS void
LANGUAGE sql RETURN _hilo.ask('grant', $1, holder => $2, options => pg_catalog.to_jsonb($3));
CREATE FUNCTION hilo_revoke(name hilo_sequence, grantee text, privilege text) RETURNS void
LANGUAGE sql RETURN _hilo.ask('revoke', $1, holder => $2, options => pg_catalog.to_jsonb($3));
CREATE FUNCTION hilo_grant_all(grantee text, privilege text, pattern text DEFAULT '%')
RETURNS bigint LANGUAGE sql RETURN (
    SELECT pg_catalog.count(*) FILTER (WHERE hilo_grant(s.name, $1, $2) IS NULL)
      FROM hilo_sequences s WHERE s.name::text LIKE $3 AND s.owner = current_user);
CREATE FUNCTION hilo_setval(name hilo_sequence, value bigint, is_called boolean DEFAULT true)
RETURNS bigint LANGUAGE sql STRICT RETURN (SELECT $2 FROM _hilo.ask('set', $1, $2,
    options => pg_catalog.jsonb_build_object('is_called', $3)));
CREATE FUNCTION hilo_nextval(name hilo_sequence) RETURNS bigint LANGUAGE sql STRICT
    RETURN (_hilo.ask('draw', $1, 1)).first;
CREATE FUNCTION hilo_nextrange(name hilo_sequence, n bigint,
    OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint)
LANGUAGE sql STRICT RETURN (
    SELECT ROW (o.first, o.last, o.increment, o.count) FROM _hilo.ask('range', $1, $2) AS o);
CREATE FUNCTION hilo_lease(name hilo_sequence, n bigint, holder text DEFAULT NULL,
    ttl interval DEFAULT NULL, lease uuid DEFAULT NULL, OUT lease uuid, OUT first bigint,
    OUT last bigint, OUT increment bigint, OUT count bigint, OUT expires_at timestamptz,
    OUT key_format text, OUT server_prefix text, OUT suggested bigint)
LANGUAGE sql RETURN (
    SELECT ROW (o.lease, o.first, o.last, o.increment, o.count, o.expires_at, o.key_format,
                o.server_prefix, o.suggested) FROM _hilo.ask('lease', $1, $2, $5, $3, $4) AS o);
CREATE FUNCTION hilo_lease_return(lease uuid, next bigint DEFAULT NULL) RETURNS bigint LANGUAGE sql
    RETURN (_hilo.ask('returned', NULL, $2, $1)).count;
CREATE FUNCTION hilo_lease_renew(lease uuid, ttl interval) RETURNS timestamptz LANGUAGE sql
    RETURN (_hilo.ask('renewed', NULL, NULL, $1, ttl => $2)).expires_at;
CREATE FUNCTION hilo_lease_revoke(lease uuid DEFAULT NULL, holder text DEFAULT NULL) RETURNS bigint
LANGUAGE sql RETURN CASE WHEN $1 IS NULL AND $2 IS NOT NULL
    THEN (_hilo.ask('swept', NULL, holder => $2)).count
    ELSE (_hilo.ask('revoked', NULL, NULL, $1)).count + 1::bigint END;
CREATE FUNCTION hilo_refill(returns uuid[] DEFAULT '{}', nexts bigint[] DEFAULT '{}',
    renewals uuid[] DEFAULT '{}', names text[] DEFAULT '{}', sizes bigint[] DEFAULT '{}',
    leases uuid[] DEFAULT NULL, holder text DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF _hilo.outcome LANGUAGE sql BEGIN ATOMIC
    WITH done AS (
        INSERT INTO _hilo.request (op, returns, nexts, renewals, names, sizes, leases, holder, ttl)
        VALUES ('refill', $1, $2, $3, $4, $5, $6, $7, $8) RETURNING result)
    SELECT o.* FROM done, ROWS FROM (pg_catalog.unnest(result)) AS o;
END;

-- Keys. frame: what all keys of a sequence have.
CREATE FUNCTION _hilo.frame(name text, OUT before text, OUT width integer, OUT behind text)
LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT p.* FROM (SELECT $1) AS n (name) LEFT JOIN hilo_sequences s ON s.name = n.name,
        _hilo.key_parts(s.key_format, n.name, s.min_value < 0::bigint) AS p;
END;
CREATE FUNCTION hilo_key(name hilo_sequence, value bigint) RETURNS text
LANGUAGE sql STABLE STRICT RETURN (
    SELECT before || sign || pg_catalog.lpad(digits,
               greatest(width - pg_catalog.length(sign), pg_catalog.length(digits)), '0') || behind
      FROM _hilo.frame($1), substring($2::text FROM '^-?') AS sign,
           pg_catalog.ltrim($2::text, '-') AS digits);
CREATE FUNCTION hilo_key_value(name hilo_sequence, key text) RETURNS bigint
LANGUAGE sql STABLE STRICT RETURN (
    SELECT CASE WHEN digits ~ '^-?\d{1,19}$'::text AND hilo_key($1, least(digits::numeric,
                         9223372036854775807::numeric)::bigint) = $2 THEN digits
                ELSE _hilo.refuse(pg_catalog.format('"%s" is no key of "%s"', $2, $1),
                                  'hilo_key makes keys.') END::bigint
      FROM _hilo.frame($1) AS f, pg_catalog.length(before) AS head, pg_catalog.substr($2, head + 1,
               greatest(0, pg_catalog.length($2) - head - pg_catalog.length(behind))) AS digits);
CREATE FUNCTION hilo_nextkey(name hilo_sequence) RETURNS text LANGUAGE sql STRICT
    RETURN hilo_key($1, hilo_nextval($1));

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA _hilo FROM PUBLIC;
GRANT EXECUTE ON FUNCTION _hilo.ask, _hilo.refuse, _hilo.key_parts, _hilo.frame TO PUBLIC;
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
