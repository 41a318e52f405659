-- hilo_lite: leases, keys and gapless numbers of hilo where no library can be loaded: docs/lite.md.
--
-- Locks: the row of a sequence is the one lock. Its counter, its unused ranges and the ends of its
-- leases change only under it. Who locks several does so in the order of their ids. Nobody waits
-- for the lock on a lease.
-- Isolation: the counter is in the row that is locked, so a transaction with an older snapshot
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
    min_value bigint NOT NULL, max_value bigint NOT NULL,
    cycle boolean NOT NULL, ordered boolean NOT NULL, gapless boolean NOT NULL,
    block_size bigint, slice_size integer, key_format text, owner regrole NOT NULL,
    next_value numeric(20) NOT NULL,      -- out of bounds: none is left
    epoch bigint NOT NULL                 -- raised when older leases become no part of it
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE TABLE _hilo.privilege (
    sequence bigint NOT NULL REFERENCES _hilo.sequence ON DELETE CASCADE,
    grantee regrole NOT NULL,             -- 0: all roles
    privilege text NOT NULL,
    PRIMARY KEY (sequence, grantee, privilege)
);
CREATE TABLE _hilo.lease (
    lease uuid PRIMARY KEY,
    sequence bigint NOT NULL REFERENCES _hilo.sequence ON DELETE CASCADE, epoch bigint NOT NULL,
    first_value bigint NOT NULL, last_value bigint NOT NULL,
    increment bigint NOT NULL, count bigint NOT NULL,
    holder text, role regrole NOT NULL, client_addr inet,
    leased_at timestamptz NOT NULL, expires_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX ON _hilo.lease (sequence, expires_at);
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

CREATE FUNCTION _hilo.refuse(state text, message text, hint text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, HINT = hint;
END $$;

-- What stands around the value in keys. signed: there are negative values.
CREATE FUNCTION _hilo.key_parts(format text, name text, prefix text, signed boolean,
    OUT before text, OUT width integer, OUT behind text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    filled text; wrong boolean; gap text;
BEGIN
    -- Until they are replaced, E'\1' stands for the prefix and E'\2' for the value.
    SELECT string_agg(CASE WHEN part IN ('{{', '}}') THEN left(part, 1) WHEN part = '{name}' THEN name
                           WHEN part = '{server}' THEN E'\1' WHEN part ~ '^\{' THEN E'\2'
                           ELSE part END, '' ORDER BY place),
           coalesce(max(substring(part FROM '0(\d+)\}$')::integer), (format !~ ':0\d+\}')::integer),
           bool_or(part ~ '^\{' AND part !~ '^\{(\{|name\}|server\}|value(:0\d\d?)?\})$'
                   OR part = '}' OR part ~ '[[:cntrl:]]')
      INTO filled, width, wrong
      FROM regexp_matches(format, '\{\{|\}\}|\{[^{}]*\}|[^{}]+|[{}]', 'g')
           WITH ORDINALITY AS m (parts, place), unnest(parts) AS part;
    IF wrong IS NOT FALSE OR filled !~ E'^[^\2]*\2[^\2]*$' OR filled ~ E'\1.*\1'
       OR width NOT BETWEEN 1 AND 19 OR octet_length(format) > 255 THEN
        PERFORM _hilo.refuse('22023', format('key_format "%s" cannot be used', format),
            'It has {value} or {value:0N} once, {server} at most once, and {name}.');
    END IF;
    before := split_part(filled, E'\2', 1);
    behind := split_part(filled, E'\2', 2);
    gap := substring(before FROM E'\1(.*)');
    IF prefix ~ '\d$' AND (gap ~ '^\d*$' OR signed AND gap ~ '^[\d-]*\d[\d-]*$')
       OR prefix ~ '-$' AND signed AND gap ~ '^[\d-]*$'
       OR prefix ~ '^\d' AND behind ~ E'^\\d*\1' THEN
        PERFORM _hilo.refuse('22023', format('server prefix "%s" cannot be used', prefix),
            'Two values could have the same key. Separate it from the value with a "/".');
    END IF;
    before := replace(before, E'\1', prefix);
    behind := replace(behind, E'\1', prefix);
END $$;

-- The sequence, locked. wanted: the privileges of which the caller needs one, unless he owns it.
CREATE FUNCTION _hilo.locked(caller name, name text, VARIADIC wanted text[])
RETURNS _hilo.sequence LANGUAGE plpgsql AS $$
DECLARE
    s _hilo.sequence;
BEGIN
    SELECT * INTO s FROM _hilo.sequence q WHERE q.name = locked.name FOR UPDATE;
    IF s.id IS NULL THEN
        PERFORM _hilo.refuse('42704', format('hilo sequence "%s" does not exist', name),
                             'Create it with hilo_create.');
    ELSIF NOT pg_has_role(caller, s.owner::oid, 'USAGE') AND NOT EXISTS (
        SELECT FROM _hilo.privilege p WHERE p.sequence = s.id AND p.privilege = ANY (wanted)
           AND (p.grantee::oid = 0 OR pg_has_role(caller, p.grantee::oid, 'USAGE')))
    THEN
        PERFORM _hilo.refuse('42501', format('permission denied for hilo sequence "%s"', name),
            format('Role "%s" needs %s. Its owner grants privileges with hilo_grant.', caller,
                   coalesce(nullif(array_to_string(wanted, ' or '), ''), 'to own it')));
    END IF;
    -- A commit that a crash loses would bring its values again.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN s;
END $$;

-- How many values the counter has left.
CREATE FUNCTION _hilo.left_of(s _hilo.sequence) RETURNS numeric LANGUAGE sql IMMUTABLE BEGIN ATOMIC
    SELECT CASE WHEN way * s.increment::numeric < 0::numeric THEN 0 ELSE div(way, s.increment::numeric) + 1::numeric END
      FROM (SELECT CASE WHEN s.increment > 0 THEN s.max_value ELSE s.min_value END::numeric - s.next_value
           ) AS d (way);
END;

-- Takes n values from the counter, and returns the first one.
CREATE FUNCTION _hilo.cut(s _hilo.sequence, n numeric) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    room numeric := _hilo.left_of(s);
BEGIN
    IF room = 0 AND s.cycle THEN          -- hilo_setval or hilo_alter left it at the end
        s.next_value := CASE WHEN s.increment > 0 THEN s.min_value ELSE s.max_value END;
        room := _hilo.left_of(s);
    END IF;
    IF room < n OR n < 1 THEN
        PERFORM _hilo.refuse('2200H', format('reached %s value of hilo sequence "%s"',
                CASE WHEN s.increment > 0 THEN 'maximum' ELSE 'minimum' END, s.name),
            'Use hilo_alter to give the sequence a wider data type or wider bounds.');
    END IF;
    UPDATE _hilo.sequence q
       SET next_value = CASE WHEN room > n OR NOT s.cycle THEN s.next_value + n * s.increment
                             WHEN s.increment > 0 THEN s.min_value ELSE s.max_value END
     WHERE q.id = s.id;
    RETURN s.next_value;
END $$;

-- Keeps a range as free or as a gap. One that ends before it, for the same reason, becomes longer.
CREATE FUNCTION _hilo.keep(s bigint, why text, first numeric, n numeric, step bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    last numeric := first + (n - 1) * step;
BEGIN
    UPDATE _hilo.unused u SET last_value = last, count = count + n, recorded_at = clock_timestamp()
     WHERE u.sequence = s AND u.reason = why AND u.last_value = first - step AND n > 0;
    INSERT INTO _hilo.unused SELECT s, why, first, last, n, clock_timestamp()
     WHERE NOT FOUND AND n > 0;
END $$;

CREATE FUNCTION _hilo.expiry(ttl interval) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _hilo.refuse('22023', 'ttl of a lease must be positive', 'Null is for ever.')
      WHERE ttl <= interval '0';
    RETURN clock_timestamp() + CASE WHEN ttl > interval '9000 years' THEN '9000 years' ELSE ttl END;
END $$;

-- Takes a lease of a sequence that is locked.
CREATE FUNCTION _hilo.take(caller name, s _hilo.sequence, n bigint, wanted uuid, holder text,
    ttl interval) RETURNS _hilo.outcome LANGUAGE plpgsql AS $$
DECLARE
    l _hilo.lease; u _hilo.unused; room numeric;
BEGIN
    IF s.cycle OR s.ordered OR s.gapless THEN
        PERFORM _hilo.refuse('0A000', format('cannot lease values of hilo sequence "%s"', s.name),
            'It cycles, is ordered or gapless. Draw its values with hilo_nextval.');
    ELSIF n NOT BETWEEN 1 AND 1000000000 OR n IS NULL OR octet_length(take.holder) > 255 THEN
        PERFORM _hilo.refuse('22023', format('cannot lease %s values to "%s"', n, take.holder),
            'A lease has 1 to 1000000000 values. The name of its holder has 255 bytes at most.');
    END IF;
    -- Leases that have expired become gaps. Whoever comes by sees to that.
    FOR l IN DELETE FROM _hilo.lease q
        WHERE q.lease = ANY (ARRAY(SELECT d.lease FROM _hilo.lease d WHERE d.sequence = s.id
                  AND d.expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED)) RETURNING *
    LOOP
        PERFORM _hilo.keep(s.id, 'expired', l.first_value, l.count, l.increment);
    END LOOP;
    SELECT * INTO l FROM _hilo.lease q WHERE q.lease = wanted;
    IF FOUND AND ((l.sequence, l.epoch) <> (s.id, s.epoch) OR l.count > n
                  OR NOT pg_has_role(caller, l.role::oid, 'USAGE')) THEN
        PERFORM _hilo.refuse('42710', format('lease "%s" already exists', wanted),
            'It is of another sequence, size, numbering or role. Name it by a random UUID.');
    ELSIF NOT FOUND THEN
        DELETE FROM _hilo.unused WHERE ctid = (SELECT q.ctid FROM _hilo.unused q
            WHERE q.sequence = s.id AND q.reason = 'free' ORDER BY q.first_value LIMIT 1)
        RETURNING * INTO u;
        l.count := least(n, u.count);
        l.first_value := u.first_value;
        PERFORM _hilo.keep(s.id, 'free', u.first_value + l.count::numeric * s.increment,
                           u.count - l.count, s.increment);
        IF u.sequence IS NULL THEN
            room := _hilo.left_of(s);
            -- The value behind the last is a bigint: with it the holder says that all were used.
            room := room - (abs(s.next_value + room * s.increment) > 9223372036854775807)::integer;
            l.count := least(n, room);
            l.first_value := _hilo.cut(s, l.count);
        END IF;
        INSERT INTO _hilo.lease VALUES (coalesce(wanted, gen_random_uuid()), s.id, s.epoch,
            l.first_value, l.first_value + (l.count - 1) * s.increment, s.increment, l.count,
            take.holder, (SELECT oid FROM pg_roles WHERE rolname = caller), inet_client_addr(),
            clock_timestamp(), _hilo.expiry(ttl))
        RETURNING * INTO l;
    END IF;
    -- suggested: what was leased within a minute.
    RETURN ('leased', s.name, l.lease, l.first_value, l.last_value, l.increment, l.count,
        l.expires_at, coalesce(s.key_format, '{name}/{server}{value}'),
        coalesce(current_setting('hilo.server_prefix', true), ''),
        (SELECT least(greatest(32, sum(q.count)), 1000000) FROM _hilo.lease q
          WHERE q.sequence = s.id AND q.leased_at > clock_timestamp() - interval '1 min')::bigint,
        NULL, NULL, NULL, NULL)::_hilo.outcome;
END $$;

-- Ends or renews a lease; to end it, its sequence is locked. what: returned, renewed or revoked.
CREATE FUNCTION _hilo.change(caller name, what text, wanted uuid, next bigint, ttl interval)
RETURNS _hilo.outcome LANGUAGE plpgsql AS $$
DECLARE
    l _hilo.lease; s _hilo.sequence; used numeric; o _hilo.outcome;
BEGIN
    SELECT * INTO l FROM _hilo.lease q WHERE q.lease = wanted FOR UPDATE SKIP LOCKED;
    SELECT * INTO s FROM _hilo.sequence q WHERE q.id = l.sequence;
    used := coalesce((next - l.first_value::numeric) / l.increment, 0);
    IF wanted IS NULL THEN
        PERFORM _hilo.refuse('22023', 'lease must not be null', 'Pass the name of a lease.');
    ELSIF l.lease IS NULL AND EXISTS (SELECT FROM _hilo.lease q WHERE q.lease = wanted) THEN
        PERFORM _hilo.refuse('55P03', format('lease "%s" is locked', wanted),
                             'Try again when the transaction that holds it has ended.');
    ELSIF l.lease IS NULL OR l.expires_at <= clock_timestamp() THEN
        PERFORM _hilo.refuse('42704', format('lease "%s" is not open', wanted),
            'It has ended, or never was. hilo_leases shows those that are open.');
    ELSIF NOT (pg_has_role(caller, l.role::oid, 'USAGE')
               OR pg_has_role(caller, s.owner::oid, 'USAGE')) THEN
        PERFORM _hilo.refuse('42501', format('permission denied for lease "%s"', wanted),
            'The role that took it, the owner of its sequence, and superusers may end it.');
    ELSIF used NOT BETWEEN 0 AND l.count OR used <> trunc(used) THEN
        PERFORM _hilo.refuse('22023',
            format('value %s cannot follow the used values of lease "%s"', next, wanted),
            format('It has the values %s to %s in steps of %s. Pass the first that was not used.',
                   l.first_value, l.last_value, l.increment));
    END IF;
    SELECT what, s.name, wanted INTO o.kind, o.name, o.lease;
    IF what = 'renewed' THEN
        o.expires_at := _hilo.expiry(ttl);
        UPDATE _hilo.lease q SET expires_at = o.expires_at WHERE q.lease = wanted;
    ELSE
        -- Nobody knows what was used of a lease that is revoked. The rest of others comes back,
        -- unless the sequence was renumbered since, or has narrower bounds.
        o.count := CASE WHEN what = 'returned' AND l.epoch = s.epoch
                         AND NOT (s.cycle OR s.ordered OR s.gapless)
                         AND l.first_value BETWEEN s.min_value AND s.max_value
                         AND l.last_value BETWEEN s.min_value AND s.max_value
                        THEN l.count - used ELSE 0 END;
        DELETE FROM _hilo.lease q WHERE q.lease = wanted;
        PERFORM _hilo.keep(s.id, CASE WHEN what = 'revoked' THEN what WHEN o.count > 0 THEN 'free'
                                      ELSE 'altered' END,
                           l.first_value + used * l.increment, l.count - used, l.increment);
    END IF;
    RETURN o;
END $$;

-- Whether somebody else holds a sequence; else it is locked, in the subtransaction of its row.
CREATE FUNCTION _hilo.is_held(s bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM _hilo.sequence q WHERE q.id = s FOR UPDATE SKIP LOCKED;
    RETURN NOT FOUND AND EXISTS (SELECT FROM _hilo.sequence q WHERE q.id = s);
END $$;
-- Does a row of a refill.
CREATE FUNCTION _hilo.row(r _hilo.outcome, n bigint, of_sequence bigint, caller name, holder text,
    ttl interval) RETURNS _hilo.outcome LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _hilo.refuse('55P03', format('hilo sequence "%s" is locked', r.name),
                         'Try again when the transaction that holds it has ended.')
      WHERE of_sequence IS NOT NULL AND _hilo.is_held(of_sequence);
    RETURN CASE r.kind
        WHEN 'leased' THEN
            _hilo.take(caller, _hilo.locked(caller, r.name, 'UPDATE'), n, r.lease, holder, ttl)
        ELSE _hilo.change(caller, r.kind, r.lease, n, ttl) END;
END $$;
-- Does all rows of a refill. careful: what is refused fails by itself, in a subtransaction; else it
-- fails all.
CREATE FUNCTION _hilo.rows(r _hilo.request, careful boolean)
RETURNS SETOF _hilo.outcome LANGUAGE plpgsql AS $$
DECLARE
    a record; o _hilo.outcome;
BEGIN
    FOR a IN
        SELECT 'returned' AS kind, NULL AS name, e.lease, e.n,
               (SELECT l.sequence FROM _hilo.lease l WHERE l.lease = e.lease) AS of_sequence
          FROM unnest(r.returns, r.nexts) AS e (lease, n)
        UNION ALL SELECT 'renewed', NULL, h, NULL, NULL FROM unnest(r.renewals) AS h
        UNION ALL SELECT 'leased', t.name, t.lease, t.n,
               (SELECT q.id FROM _hilo.sequence q WHERE q.name = t.name)
          FROM unnest(r.names, r.sizes, r.leases) AS t (name, n, lease)
    LOOP
        o := NULL;
        SELECT a.kind, a.name, a.lease INTO o.kind, o.name, o.lease;
        IF careful THEN
            BEGIN
                o := _hilo.row(o, a.n, a.of_sequence, r.caller, r.holder, r.ttl);
            EXCEPTION WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS o.sqlstate = RETURNED_SQLSTATE, o.message = MESSAGE_TEXT,
                    o.hint = PG_EXCEPTION_HINT;
            END;
        ELSE
            o := _hilo.row(o, a.n, a.of_sequence, r.caller, r.holder, r.ttl);
        END IF;
        RETURN NEXT o;
    END LOOP;
END $$;
CREATE FUNCTION _hilo.refill(r _hilo.request) RETURNS _hilo.outcome[] LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[] := ARRAY(
        SELECT l.sequence FROM _hilo.lease l WHERE l.lease = ANY (r.returns)
        UNION SELECT q.id FROM _hilo.sequence q WHERE q.name = ANY (r.names));
    patience text := current_setting('lock_timeout');
BEGIN
    IF (cardinality(r.returns) = cardinality(r.nexts) AND cardinality(r.names) = cardinality(r.sizes)
        AND coalesce(cardinality(r.leases), cardinality(r.names)) = cardinality(r.names)
        AND array_position(r.returns || r.renewals || r.leases, NULL) IS NULL
        AND array_position(r.nexts || r.sizes, NULL) IS NULL
        AND array_position(r.names, NULL) IS NULL AND r.renewals IS NOT NULL) IS NOT TRUE THEN
        PERFORM _hilo.refuse('22023', 'arrays that belong together must be of one length',
                             'They contain no null. Only leases may be null as a whole.');
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', '100ms', true);
        PERFORM FROM _hilo.sequence q WHERE q.id = ANY (ids) ORDER BY q.id FOR UPDATE;
        PERFORM set_config('lock_timeout', patience, true);
        RETURN ARRAY(SELECT q FROM _hilo.rows(r, false) AS q);
    EXCEPTION WHEN OTHERS THEN
        IF SQLSTATE ~ '^(40|53|XX)' THEN RAISE; END IF;
    END;
    -- Who holds one of them holds up none of the others.
    RETURN ARRAY(SELECT q FROM _hilo.rows(r, true) AS q);
END $$;

-- Writes a definition: old, or a new one, with the options of a request. next: where it goes on.
CREATE FUNCTION _hilo.define(r _hilo.request, old _hilo.sequence, next numeric) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s _hilo.sequence := jsonb_populate_record(old, jsonb_strip_nulls(r.options));
    low numeric := CASE s.data_type WHEN 'smallint'::regtype THEN -32768
        WHEN 'integer'::regtype THEN -2147483648 WHEN 'bigint'::regtype THEN -9223372036854775808 END;
BEGIN
    s.min_value := coalesce(s.min_value, CASE WHEN s.increment > 0 THEN 1 ELSE low END);
    s.max_value := coalesce(s.max_value, CASE WHEN s.increment > 0 THEN -low - 1 ELSE -1 END);
    s.start_value := coalesce(s.start_value,
        CASE WHEN s.increment > 0 THEN s.min_value ELSE s.max_value END);
    IF (s.increment <> 0 AND s.min_value >= low AND s.max_value <= -low - 1
        AND s.min_value < s.max_value AND s.start_value BETWEEN s.min_value AND s.max_value
        AND NOT (s.gapless AND s.cycle) AND octet_length(s.name) BETWEEN 1 AND 255
        AND s.name !~ '[[:cntrl:]]') IS NOT TRUE THEN
        PERFORM _hilo.refuse('22023', format('hilo sequence "%s" cannot have these options', s.name),
            'Its name has 1 to 255 bytes and no control character. Its type is smallint, integer '
            'or bigint. start_value is within the bounds. Only one of gapless and cycle is true.');
    ELSIF next NOT BETWEEN s.min_value AND s.max_value THEN
        PERFORM _hilo.refuse('22003', format('value %s is out of bounds for hilo sequence "%s"',
            next, s.name), format('Its values are from %s to %s.', s.min_value, s.max_value));
    ELSIF sign(s.increment) <> sign(old.increment) AND next IS NULL THEN
        PERFORM _hilo.refuse('22023', 'another direction needs restart_with',
                             'Values that were served would be served again.');
    END IF;
    PERFORM _hilo.key_parts(coalesce(s.key_format, '{value}'), s.name, '', false);
    s.next_value := coalesce(next, old.next_value, s.start_value)
        + CASE WHEN (r.options ->> 'is_called')::boolean THEN s.increment ELSE 0 END;
    -- Narrower bounds may begin beyond it.
    s.next_value := CASE WHEN s.increment > 0 THEN greatest(s.next_value, s.min_value)
                         ELSE least(s.next_value, s.max_value) END;
    s.epoch := coalesce(old.epoch + (next IS NOT NULL OR s.increment <> old.increment
                                     OR s.cycle <> old.cycle OR s.next_value <> old.next_value)::integer, 0);
    UPDATE _hilo.unused u SET reason = 'altered'
     WHERE u.sequence = s.id AND u.reason = 'free'
       AND (s.epoch > old.epoch OR s.cycle OR s.ordered OR s.gapless
            OR least(u.first_value, u.last_value) < s.min_value
            OR greatest(u.first_value, u.last_value) > s.max_value);
    INSERT INTO _hilo.sequence SELECT s.*
    ON CONFLICT (id) DO UPDATE
       SET (name, data_type, start_value, increment, min_value, max_value, cycle, ordered, gapless,
            block_size, slice_size, key_format, next_value, epoch)
         = (s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value, s.cycle,
            s.ordered, s.gapless, s.block_size, s.slice_size, s.key_format, s.next_value, s.epoch);
EXCEPTION WHEN unique_violation THEN
    PERFORM _hilo.refuse('42710', format('hilo sequence "%s" already exists', s.name),
                         'Choose another name, or keep it with if_not_exists => true.');
END $$;
-- Whether a role may create sequences: the schema of the functions is that of the domain.
CREATE FUNCTION _hilo.may_create(caller name) RETURNS boolean LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT has_schema_privilege(caller, t.typnamespace, 'CREATE')
      FROM pg_type t JOIN pg_attribute a ON a.atttypid = t.oid
     WHERE a.attrelid = '_hilo.sequence'::regclass AND a.attname = 'name';
END;
CREATE FUNCTION _hilo.create(r _hilo.request) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT _hilo.may_create(r.caller) THEN
        PERFORM _hilo.refuse('42501', 'permission denied to create a hilo sequence',
            format('Role "%s" needs CREATE on the schema of hilo''s functions.', r.caller));
    ELSIF r.options ->> 'owned_by' IS NOT NULL THEN
        PERFORM _hilo.refuse('0A000', 'hilo_lite has no owned_by', 'Drop it with its table.');
    END IF;
    r.options := r.options || jsonb_build_object('name', r.names[1], 'owner',
        (SELECT oid FROM pg_roles WHERE rolname = r.caller)::text, 'id', nextval('_hilo.sequence_id'));
    PERFORM _hilo.define(r, NULL, NULL)
      WHERE NOT (r.options ->> 'if_not_exists')::boolean
         OR NOT EXISTS (SELECT FROM _hilo.sequence q WHERE q.name = r.names[1]);
END $$;
CREATE FUNCTION _hilo.grant(r _hilo.request, s _hilo.sequence) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    whom oid := (SELECT oid FROM pg_roles WHERE rolname = r.holder
                 UNION ALL SELECT 0 WHERE lower(r.holder) = 'public' LIMIT 1);
    wanted text[] := regexp_split_to_array(
        replace(upper(r.options ->> 'privilege'), 'ALL', 'USAGE,SELECT,UPDATE'), '\s*,\s*');
BEGIN
    IF whom IS NULL THEN
        PERFORM _hilo.refuse('42704', format('role "%s" does not exist', r.holder), 'Create it.');
    ELSIF (wanted <@ '{USAGE,SELECT,UPDATE}') IS NOT TRUE THEN
        PERFORM _hilo.refuse('22023', format('unknown privilege: %s', r.options ->> 'privilege'),
                             'Privileges are USAGE, SELECT, UPDATE and ALL.');
    END IF;
    DELETE FROM _hilo.privilege p
     WHERE p.sequence = s.id AND p.grantee::oid = whom AND p.privilege = ANY (wanted);
    INSERT INTO _hilo.privilege
    SELECT s.id, whom, unnest(wanted) WHERE (r.options ->> 'granted')::boolean;
END $$;

-- Does what a request asks for, with the rights of hilo_lite's owner.
CREATE FUNCTION _hilo.answer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s _hilo.sequence; o _hilo.outcome; n bigint := NEW.sizes[1];
    whose uuid[] := coalesce(NEW.returns, ARRAY(
        SELECT l.lease FROM _hilo.lease l JOIN _hilo.sequence q ON q.id = l.sequence
         WHERE l.holder = NEW.holder AND (l.expires_at > clock_timestamp()) IS NOT FALSE
           AND (pg_has_role(NEW.caller, l.role::oid, 'USAGE')
                OR pg_has_role(NEW.caller, q.owner::oid, 'USAGE'))));
BEGIN
    IF NEW.op IN ('draw', 'range', 'lease', 'set', 'alter', 'drop', 'grant') THEN
        s := _hilo.locked(NEW.caller, NEW.names[1], VARIADIC CASE
            WHEN NEW.op = 'draw' THEN '{USAGE,UPDATE}'::text[]
            WHEN NEW.op IN ('range', 'lease', 'set') THEN '{UPDATE}' ELSE '{}' END);
    ELSIF NEW.op IN ('returned', 'revoked') THEN
        PERFORM FROM _hilo.sequence q
          WHERE q.id IN (SELECT l.sequence FROM _hilo.lease l WHERE l.lease = ANY (whose))
          ORDER BY q.id FOR UPDATE;
    END IF;
    CASE NEW.op
        WHEN 'draw', 'range' THEN
            PERFORM _hilo.refuse('22023', 'number of values must be positive', 'Pass 1 or more.')
              WHERE n < 1;
            SELECT v, v + (n - 1) * s.increment, s.increment, n
              INTO o.first, o.last, o.increment, o.count FROM _hilo.cut(s, n) AS v;
        WHEN 'refill' THEN NEW.result := _hilo.refill(NEW);
        WHEN 'lease' THEN
            o := _hilo.take(NEW.caller, s, n, NEW.leases[1], NEW.holder, NEW.ttl);
        WHEN 'returned', 'renewed' THEN
            o := _hilo.change(NEW.caller, NEW.op, NEW.returns[1], NEW.nexts[1], NEW.ttl);
        WHEN 'revoked' THEN
            -- Of a holder's leases, some may have ended before the lock.
            SELECT count(_hilo.change(NEW.caller, 'revoked', w.id, NULL, NULL)) INTO o.count
              FROM unnest(whose) AS w (id)
             WHERE NEW.returns IS NOT NULL OR EXISTS (
                SELECT FROM _hilo.lease l WHERE l.lease = w.id
                   AND (l.expires_at > clock_timestamp()) IS NOT FALSE);
        WHEN 'create' THEN PERFORM _hilo.create(NEW);
        WHEN 'alter', 'set' THEN
            o.first := n;
            PERFORM _hilo.define(NEW, s, n);
        WHEN 'drop' THEN DELETE FROM _hilo.sequence q WHERE q.id = s.id;
        WHEN 'grant' THEN PERFORM _hilo.grant(NEW, s);
    END CASE;
    NEW.result := coalesce(NEW.result, ARRAY[o]);
    RETURN NEW;
END $$;
CREATE TRIGGER answer INSTEAD OF INSERT ON _hilo.request
    FOR EACH ROW EXECUTE FUNCTION _hilo.answer();

-- What a role may see: the sequences that it owns, or on which it has any privilege.
CREATE VIEW hilo_sequences WITH (security_barrier) AS
    SELECT s.name, pg_get_userbyid(s.owner) AS owner, s.data_type, s.start_value, s.min_value,
           s.max_value, s.increment, s.cycle, s.ordered, s.gapless, s.block_size, s.slice_size,
           s.key_format, s.next_value, s.id
      FROM _hilo.sequence s
     WHERE pg_has_role(s.owner::oid, 'USAGE') OR EXISTS (
        SELECT FROM _hilo.privilege p WHERE p.sequence = s.id
           AND (p.grantee::oid = 0::oid OR pg_has_role(p.grantee::oid, 'USAGE')));
CREATE VIEW hilo_leases WITH (security_barrier) AS
    SELECT CASE WHEN mine THEN l.lease END AS lease, s.name, l.holder,
           pg_get_userbyid(l.role) AS usename, CASE WHEN mine THEN l.client_addr END AS client_addr,
           l.first_value AS first, l.last_value AS last, l.count, l.leased_at, l.expires_at,
           0 AS node_id
      FROM _hilo.lease l JOIN hilo_sequences s ON s.id = l.sequence,
           LATERAL (SELECT pg_has_role(l.role::oid, 'USAGE') OR pg_has_role(s.owner, 'USAGE')) m (mine)
     WHERE (l.expires_at > clock_timestamp()) IS NOT FALSE;
CREATE VIEW hilo_gaps WITH (security_barrier) AS
    SELECT s.name, u.first_value AS first, u.last_value AS last, u.count, u.reason, 0 AS node_id,
           u.recorded_at
      FROM _hilo.unused u JOIN hilo_sequences s ON s.id = u.sequence WHERE u.reason <> 'free'
    UNION ALL
    SELECT s.name, l.first_value, l.last_value, l.count, 'expired', 0, l.expires_at
      FROM _hilo.lease l JOIN hilo_sequences s ON s.id = l.sequence
     WHERE l.expires_at <= clock_timestamp();
GRANT SELECT ON hilo_sequences, hilo_leases, hilo_gaps TO PUBLIC;

-- The functions that users call, with the names, arguments and results that they have in hilo.
CREATE FUNCTION _hilo.ask(op text, name text DEFAULT NULL, n bigint DEFAULT NULL,
    lease uuid DEFAULT NULL, next bigint DEFAULT NULL, holder text DEFAULT NULL,
    ttl interval DEFAULT NULL, options jsonb DEFAULT '{}', returns uuid[] DEFAULT NULL)
RETURNS _hilo.outcome LANGUAGE sql BEGIN ATOMIC
    INSERT INTO _hilo.request (op, names, sizes, leases, returns, nexts, holder, ttl, options)
    VALUES ($1, ARRAY[$2], ARRAY[$3], ARRAY[$4], $9, ARRAY[$5], $6, $7, $8)
    RETURNING (result[1]).*;
END;
CREATE FUNCTION hilo_create(name hilo_sequence, start_value bigint DEFAULT NULL,
    increment bigint DEFAULT 1, min_value bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT 'bigint', cycle boolean DEFAULT false, ordered boolean DEFAULT false,
    block_size bigint DEFAULT NULL, slice_size bigint DEFAULT NULL, key_format text DEFAULT NULL,
    if_not_exists boolean DEFAULT false, gapless boolean DEFAULT false, owned_by text DEFAULT NULL)
RETURNS hilo_sequence LANGUAGE sql BEGIN ATOMIC
    SELECT $1 FROM _hilo.ask('create', $1, options => jsonb_build_object(
        'start_value', $2, 'increment', $3, 'min_value', $4, 'max_value', $5, 'data_type', $6::text,
        'cycle', $7, 'ordered', $8, 'block_size', $9, 'slice_size', $10, 'key_format', $11,
        'if_not_exists', $12, 'gapless', $13, 'owned_by', $14));
END;
CREATE FUNCTION hilo_alter(name hilo_sequence, start_value bigint DEFAULT NULL,
    increment bigint DEFAULT NULL, min_value bigint DEFAULT NULL, max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT NULL, cycle boolean DEFAULT NULL, ordered boolean DEFAULT NULL,
    block_size bigint DEFAULT NULL, slice_size bigint DEFAULT NULL, key_format text DEFAULT NULL,
    restart_with bigint DEFAULT NULL, gapless boolean DEFAULT NULL)
RETURNS void LANGUAGE sql BEGIN ATOMIC
    SELECT FROM _hilo.ask('alter', $1, $12, options => jsonb_build_object(
        'start_value', $2, 'increment', $3, 'min_value', $4, 'max_value', $5, 'data_type', $6::text,
        'cycle', $7, 'ordered', $8, 'block_size', $9, 'slice_size', $10, 'key_format', $11,
        'gapless', $13));
END;
CREATE FUNCTION hilo_rename(name hilo_sequence, new_name hilo_sequence) RETURNS void LANGUAGE sql
    RETURN _hilo.ask('alter', $1, options => jsonb_build_object('name', $2));
CREATE FUNCTION hilo_drop(name hilo_sequence, if_exists boolean DEFAULT false) RETURNS void
LANGUAGE sql BEGIN ATOMIC
    SELECT _hilo.ask('drop', $1)
     WHERE NOT $2 OR EXISTS (SELECT FROM hilo_sequences s WHERE s.name = $1);
END;
CREATE FUNCTION hilo_grant(name hilo_sequence, grantee text, privilege text) RETURNS void
LANGUAGE sql RETURN _hilo.ask('grant', $1, holder => $2,
    options => jsonb_build_object('privilege', $3, 'granted', true));
CREATE FUNCTION hilo_revoke(name hilo_sequence, grantee text, privilege text) RETURNS void
LANGUAGE sql RETURN _hilo.ask('grant', $1, holder => $2,
    options => jsonb_build_object('privilege', $3, 'granted', false));
CREATE FUNCTION hilo_grant_all(grantee text, privilege text, pattern text DEFAULT '%')
RETURNS bigint LANGUAGE sql BEGIN ATOMIC
    SELECT count(*) FILTER (WHERE hilo_grant(s.name, $1, $2) IS NULL) FROM hilo_sequences s
     WHERE s.name LIKE $3 AND s.owner = current_user;
END;
CREATE FUNCTION hilo_setval(name hilo_sequence, value bigint, is_called boolean DEFAULT true)
RETURNS bigint LANGUAGE sql STRICT
    RETURN (_hilo.ask('set', $1, $2, options => jsonb_build_object('is_called', $3))).first;
CREATE FUNCTION hilo_nextval(name hilo_sequence) RETURNS bigint LANGUAGE sql STRICT
    RETURN (_hilo.ask('draw', $1, 1)).first;
CREATE FUNCTION hilo_nextvals(name hilo_sequence, n bigint) RETURNS SETOF bigint
LANGUAGE sql STRICT BEGIN ATOMIC
    SELECT o.first + i * o.increment FROM _hilo.ask('draw', $1, $2) AS o, generate_series(0::bigint, $2::bigint - 1::bigint) i;
END;
CREATE FUNCTION hilo_nextrange(name hilo_sequence, n bigint,
    OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint)
LANGUAGE sql STRICT BEGIN ATOMIC
    SELECT o.first, o.last, o.increment, o.count FROM _hilo.ask('range', $1, $2) AS o;
END;
CREATE FUNCTION hilo_lease(name hilo_sequence, n bigint, holder text DEFAULT NULL,
    ttl interval DEFAULT NULL, lease uuid DEFAULT NULL, OUT lease uuid, OUT first bigint,
    OUT last bigint, OUT increment bigint, OUT count bigint, OUT expires_at timestamptz,
    OUT key_format text, OUT server_prefix text, OUT suggested bigint)
LANGUAGE sql BEGIN ATOMIC
    SELECT o.lease, o.first, o.last, o.increment, o.count, o.expires_at, o.key_format,
           o.server_prefix, o.suggested
      FROM _hilo.ask('lease', $1, $2, $5, holder => $3, ttl => $4) AS o;
END;
CREATE FUNCTION hilo_lease_return(lease uuid, next bigint DEFAULT NULL) RETURNS bigint LANGUAGE sql
    RETURN (_hilo.ask('returned', returns => ARRAY[$1], next => $2)).count;
CREATE FUNCTION hilo_lease_renew(lease uuid, ttl interval) RETURNS timestamptz LANGUAGE sql
    RETURN (_hilo.ask('renewed', returns => ARRAY[$1], ttl => $2)).expires_at;
CREATE FUNCTION hilo_lease_revoke(lease uuid DEFAULT NULL, holder text DEFAULT NULL) RETURNS bigint
LANGUAGE sql RETURN (_hilo.ask('revoked', holder => $2,
    returns => CASE WHEN $1 IS NOT NULL OR $2 IS NULL THEN ARRAY[$1] END)).count;
CREATE FUNCTION hilo_refill(returns uuid[] DEFAULT '{}', nexts bigint[] DEFAULT '{}',
    renewals uuid[] DEFAULT '{}', names text[] DEFAULT '{}', sizes bigint[] DEFAULT '{}',
    leases uuid[] DEFAULT NULL, holder text DEFAULT NULL, ttl interval DEFAULT NULL)
RETURNS SETOF _hilo.outcome LANGUAGE sql BEGIN ATOMIC
    WITH done AS (
        INSERT INTO _hilo.request (op, returns, nexts, renewals, names, sizes, leases, holder, ttl)
        VALUES ('refill', $1, $2, $3, $4, $5, $6, $7, $8) RETURNING result)
    SELECT o.* FROM done, unnest(result) AS o;
END;

-- Keys. frame: what all keys of a sequence have.
CREATE FUNCTION _hilo.frame(name text, OUT before text, OUT width integer, OUT behind text)
LANGUAGE sql STABLE BEGIN ATOMIC
    SELECT p.* FROM (SELECT coalesce(max(s.key_format), '{name}/{server}{value}'), max(s.name::text),
                            bool_or(s.min_value < 0)
                       FROM hilo_sequences s WHERE s.name = $1) AS f (format, known, signed),
        _hilo.key_parts(format, coalesce(known, _hilo.refuse('42704',
                format('hilo sequence "%s" does not exist', $1), 'Or you have no privilege on it.')),
            coalesce(current_setting('hilo.server_prefix', true), ''), signed) AS p;
END;
CREATE FUNCTION hilo_key(name hilo_sequence, value bigint) RETURNS text
LANGUAGE sql STABLE STRICT BEGIN ATOMIC
    SELECT before || sign || lpad(digits, greatest(width - length(sign), length(digits)), '0') || behind
      FROM _hilo.frame($1), substring($2::text FROM '^-?') AS sign, ltrim($2::text, '-') AS digits;
END;
CREATE FUNCTION hilo_key_value(name hilo_sequence, key text) RETURNS bigint
LANGUAGE sql STABLE STRICT BEGIN ATOMIC
    SELECT CASE WHEN digits ~ '^-?\d{1,19}$' AND hilo_key($1, least(digits::numeric,
                         9223372036854775807)::bigint) = $2 THEN digits
                ELSE _hilo.refuse('22023', format('"%s" is no key of "%s"', $2, $1),
                                  'hilo_key makes keys.') END::bigint
      FROM _hilo.frame($1) AS f, substr($2, length(before) + 1,
               greatest(0, length($2) - length(before) - length(behind))) AS digits;
END;
CREATE FUNCTION hilo_nextkey(name hilo_sequence) RETURNS text LANGUAGE sql STRICT BEGIN ATOMIC
    SELECT hilo_key($1, hilo_nextval($1));
END;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA _hilo FROM PUBLIC;
GRANT EXECUTE ON FUNCTION _hilo.ask, _hilo.refuse, _hilo.key_parts, _hilo.frame TO PUBLIC;
DO $$
DECLARE
    c regclass;
BEGIN
    -- The rows of an extension are dumped if it says so.
    FOR c IN SELECT oid FROM pg_class WHERE relnamespace = '_hilo'::regnamespace AND relkind IN ('r', 'S')
    LOOP
        PERFORM pg_extension_config_dump(c, '');
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;
