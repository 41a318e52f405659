-- Leases: functions that take, return, renew and revoke ranges of values. They are transactional.

CREATE FUNCTION @extschema@.hilo_lease(
    name @extschema@.hilo_sequence, n bigint, holder text DEFAULT NULL, ttl interval DEFAULT NULL,
    lease uuid DEFAULT NULL,
    OUT lease uuid, OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint,
    OUT expires_at timestamptz, OUT key_format text, OUT server_prefix text, OUT suggested bigint
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_lease(@extschema@.hilo_sequence, bigint, text, interval,
    uuid) IS
    'Leases out up to n values: first, first + increment, ... last, which nobody else gets from '
    'the commit of the transaction on; count says how many. There are fewer than n at a bound of '
    'the sequence, at the end of a stripe, and where it leases a returned rest. holder: who takes '
    'it, for hilo_leases and hilo_lease_revoke. ttl: after this time the values become a gap; '
    'null: never. suggested: how many to ask for the next time, by the rate that the server sees. '
    'If the transaction is rolled back, the values become a gap. Requires UPDATE or LEASE. '
    'Errors: as for hilo_nextval, 22023 for NULL, unless n is from 1 to 1000000000, and unless '
    'ttl is positive, 0A000 if the sequence cycles, is ordered or gapless, or the transaction is '
    'prepared, 40001 at the commit if the sequence was renumbered or dropped meanwhile, 54000 for '
    'too many leases in open transactions. lease: its name, a random uuid; null: the server '
    'chooses one. The same call again, by the same role, returns the same lease as long as it is '
    'open. 42710: that lease has ended, or is another one.';

CREATE FUNCTION @extschema@.hilo_lease_return(lease uuid, next bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_return_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_lease_return(uuid, bigint) IS
    'Ends a lease and returns how many of its values will be served again. next: the first value '
    'that was not used, or the one behind the last if all were; null: none was. The values before '
    'it count as used. The result is 0 if the sequence has been renumbered, or another server has '
    'leased the values out: then the rest becomes a gap. Only the role that took the lease, the '
    'owner of the sequence and superusers may end it. Errors: 42704 if the lease is not open, '
    'also if it was returned before, was revoked or has expired, and at the commit if that has '
    'happened meanwhile, 22023 if next is no value of the lease, or for NULL, 0A000 if the '
    'transaction is prepared, 42501.';

CREATE FUNCTION @extschema@.hilo_lease_renew(lease uuid, ttl interval) RETURNS timestamptz
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_renew_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_lease_renew(uuid, interval) IS
    'Lets a lease expire when ttl has passed from now, and returns that time; null: it does not '
    'expire. Errors: as for hilo_lease_return, 22023 unless ttl is positive.';

CREATE FUNCTION @extschema@.hilo_lease_revoke(lease uuid DEFAULT NULL, holder text DEFAULT NULL)
    RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_revoke_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_lease_revoke(uuid, text) IS
    'Ends a lease, or all leases of a holder that the caller may end, and returns how many. Their '
    'values become a gap, because nobody knows which of them were used. For holders that will not '
    'come back. Errors: for a lease as for hilo_lease_return, 22023 if both arguments are null.';

CREATE FUNCTION _hilo.hilo_check_refill(
    returns uuid[], nexts bigint[], renewals uuid[], names text[], sizes bigint[], leases uuid[]
) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $check$
BEGIN
    IF num_nulls(returns, nexts, renewals, names, sizes) > 0
       OR num_nonnulls(array_position(returns, NULL), array_position(nexts, NULL),
                       array_position(renewals, NULL), array_position(names, NULL),
                       array_position(sizes, NULL), array_position(leases, NULL)) > 0
    THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'arrays must neither be null nor contain null',
            HINT = 'Only leases may be null as a whole: then the server names the leases.';
    ELSIF cardinality(returns) <> cardinality(nexts) OR cardinality(names) <> cardinality(sizes)
       OR cardinality(leases) <> cardinality(names)
    THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'arrays that belong together must be of one length',
            DETAIL = format('returns %s, nexts %s; names %s, sizes %s, leases %s.',
                            cardinality(returns), cardinality(nexts), cardinality(names),
                            cardinality(sizes), cardinality(leases)),
            HINT = 'Each lease to return has its next value, and each sequence a size and the name '
                   'of its lease.';
    ELSIF (SELECT count(DISTINCT l) <> count(*) FROM unnest(leases) l) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'two leases of one call have the same name',
            HINT = 'Give each lease a uuid of its own.';
    END IF;
END;
$check$;
COMMENT ON FUNCTION _hilo.hilo_check_refill(
    uuid[], bigint[], uuid[], text[], bigint[], uuid[]) IS
    'Fails with 22023 if hilo_refill cannot have these arguments';

-- PL/pgSQL, so that each row fails by itself. A row that somebody has locked must not hold up the
-- rest. So each such call halves how long the next one may wait: all of them together take no
-- longer than twice the first.
CREATE FUNCTION @extschema@.hilo_refill(
    returns uuid[] DEFAULT '{}', nexts bigint[] DEFAULT '{}', renewals uuid[] DEFAULT '{}',
    names text[] DEFAULT '{}', sizes bigint[] DEFAULT '{}', leases uuid[] DEFAULT NULL,
    holder text DEFAULT NULL, ttl interval DEFAULT NULL
) RETURNS TABLE (
    kind text, name text, lease uuid, first bigint, last bigint, increment bigint, count bigint,
    expires_at timestamptz, key_format text, server_prefix text, suggested bigint,
    sqlstate text, message text, detail text, hint text
)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
    SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $refill$
DECLARE
    call record;
    patience CONSTANT text := pg_catalog.current_setting('hilo.reserve_timeout', true);
    wait_ms double precision := least(250, 1000.0 * extract(epoch FROM patience::interval));
    lock_ms double precision := 100;
BEGIN
    PERFORM _hilo.hilo_check_refill(returns, nexts, renewals, names, sizes, leases);
    FOR call IN
        SELECT 'returned' AS kind, NULL::text AS name, r.lease, r.next AS n
          FROM unnest(returns, nexts) AS r (lease, next)
         UNION ALL
        SELECT 'renewed', NULL, r.lease, NULL FROM pg_catalog.unnest(renewals) AS r (lease)
         UNION ALL
        SELECT 'leased', a.name, a.lease, a.n
          FROM unnest(names, sizes, leases) AS a (name, n, lease)
    LOOP
        PERFORM pg_catalog.set_config('hilo.reserve_timeout', pg_catalog.ceil(wait_ms)::text, true),
                pg_catalog.set_config('lock_timeout', pg_catalog.ceil(lock_ms)::text, true);
        SELECT call.kind, call.name, call.lease
          INTO kind, name, lease, first, last, increment, count, expires_at,
               key_format, server_prefix, suggested, hilo_refill.sqlstate, message, detail, hint;
        BEGIN
            CASE call.kind
            WHEN 'returned' THEN count := _hilo.hilo_lease_return(call.lease, call.n);
            WHEN 'renewed' THEN expires_at := _hilo.hilo_lease_renew(call.lease, ttl);
            ELSE
                SELECT l.* INTO lease, first, last, increment, count, expires_at,
                                key_format, server_prefix, suggested
                  FROM _hilo.hilo_lease(
                           _hilo.hilo_sequence(call.name), call.n, holder, ttl, call.lease) AS l;
            END CASE;
        EXCEPTION
            WHEN read_only_sql_transaction THEN RAISE;
            WHEN OTHERS THEN
                hilo_refill.sqlstate := SQLSTATE;
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                                        hint = PG_EXCEPTION_HINT;
        END;
        detail := nullif(detail, ''); hint := nullif(hint, '');
        IF hilo_refill.sqlstate = '55P03' THEN
            wait_ms := wait_ms / 2::double precision;
            lock_ms := lock_ms / 2::double precision;
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM pg_catalog.set_config('hilo.reserve_timeout', patience, true);
END;
$refill$;
COMMENT ON FUNCTION @extschema@.hilo_refill(uuid[], bigint[], uuid[], text[], bigint[], uuid[],
    text, interval) IS
    'Does in one call all that a client needs that serves leases from its memory. Returns leases, '
    'each with the first value that was not used (nexts), and renews others for ttl. Takes leases '
    'of sequences (names), each of up to so many values (sizes), for a holder and a ttl. leases: '
    'their names; null: the server chooses them. Returns a row for each: kind (returned, renewed, '
    'leased), with the result of hilo_lease_return, hilo_lease_renew or hilo_lease. A row that '
    'was refused has sqlstate, message, detail and hint; it changes nothing, and the others are '
    'done all the same. Waits for half a second in all, or twice hilo.reserve_timeout, for '
    'sequences that others have locked, and 0.2 s for leases. Errors: 22023 for arrays that are '
    'null, contain null, or are not of one length; 25006; the commit may fail as for the '
    'functions of each row.';

CREATE FUNCTION _hilo.hilo_is_later(one uuid, other uuid) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN one > other
       AND pg_catalog.substr(one::text, 15, 1) = '7'
       AND pg_catalog.substr(other::text, 15, 1) = '7';
COMMENT ON FUNCTION _hilo.hilo_is_later(uuid, uuid) IS
    'Whether one request was made after the other. Only uuids of version 7 say so';

CREATE FUNCTION _hilo.hilo_end_requests(
    name text, receiver text, request uuid, answered uuid
) RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $end$
DECLARE
    other record;
    is_late boolean := false;
BEGIN
    FOR other IN
        SELECT l.* FROM _hilo.hilo_open_lease l
         WHERE l.holder = receiver AND l.name = hilo_end_requests.name
           AND l.lease <> request AND l.usename = current_user
    LOOP
        IF _hilo.hilo_is_later(other.lease, request) THEN
            is_late := true;
        ELSIF answered IS NULL OR other.lease = answered THEN
            PERFORM _hilo.hilo_lease_return(
                other.lease, other.last + pg_catalog.split_part(other.numbering, '.', 3)::bigint);
        ELSE
            -- The receiver has given the request up, or a copy of the receiver has made it.
            PERFORM _hilo.hilo_lease_revoke(other.lease, NULL::text);
        END IF;
    END LOOP;
    RETURN is_late;
END;
$end$;
COMMENT ON FUNCTION _hilo.hilo_end_requests(text, text, uuid, uuid) IS
    'Ends the earlier requests of a receiver, and returns whether there is a later one. The '
    'values of the answered one count as used, those of others are a gap; null: they count as '
    'used too';

-- PL/pgSQL, because an error has to name the request. A statement after hilo_lease reads the newest
-- rows, so a request that comes late finds the one that came after it. Most are refused before they
-- take values, which would be a gap.
CREATE FUNCTION _hilo.hilo_transfer(
    name @extschema@.hilo_sequence, n bigint, receiver text, request uuid, answered uuid,
    OUT lease uuid, OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint,
    OUT expires_at timestamptz, OUT key_format text, OUT server_prefix text, OUT suggested bigint,
    OUT numbering text
)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $transfer$
DECLARE
    known record;
    is_late boolean;
    is_of_another boolean;
BEGIN
    IF receiver IS NULL OR request IS NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'receiver and request must not be null',
            HINT = 'Name the server that gets the values, and give each of its requests a uuid of '
                   'its own.';
    ELSIF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'cannot transfer values in a transaction that is not READ COMMITTED',
            HINT = 'Such a transaction cannot see which requests others have made. Call it in a '
                   'transaction of its own.';
    END IF;
    SELECT pg_catalog.max(l.count) FILTER (WHERE l.lease = request) AS count,
           pg_catalog.bool_or(
               _hilo.hilo_is_later(l.lease, request) AND l.usename = current_user
               AND l.name = hilo_transfer.name::text AND l.holder = receiver) AS is_late
      INTO known
      FROM _hilo.hilo_open_lease l
     WHERE l.lease = request OR l.holder = receiver;
    is_late := known.is_late;
    IF is_late IS NOT TRUE THEN
        SELECT l.* INTO lease, first, last, increment, count, expires_at,
                        key_format, server_prefix, suggested
          FROM _hilo.hilo_lease(
                   name, greatest(n, known.count), receiver, NULL::interval, request) AS l;
        SELECT l.* INTO STRICT known FROM _hilo.hilo_open_lease l WHERE l.lease = request;
        numbering := known.numbering;
        is_of_another := known.holder IS DISTINCT FROM receiver;
        is_late := _hilo.hilo_end_requests(known.name, receiver, request, answered);
    END IF;
    IF is_late THEN
        RAISE duplicate_object USING
            MESSAGE = pg_catalog.format(
                'request %s comes after a later one of its receiver', request),
            DETAIL = 'The receiver has made another one since, so what this one has got is not '
                     'given again.',
            HINT = 'Make a new request, with another uuid.';
    ELSIF is_of_another THEN
        RAISE duplicate_object USING
            MESSAGE = pg_catalog.format('request %s has been made before', request),
            DETAIL = 'Another receiver has made it.',
            HINT = 'Make a new request, with another uuid.';
    END IF;
END;
$transfer$;
COMMENT ON FUNCTION _hilo.hilo_transfer(@extschema@.hilo_sequence, bigint, text, uuid, uuid) IS
    'Does what hilo_transfer does. answered: the last request of which the receiver has the '
    'answer. Values of others are a gap from the next one on; null: they count as used.';

CREATE FUNCTION @extschema@.hilo_transfer(
    name @extschema@.hilo_sequence, n bigint, receiver text, request uuid,
    OUT lease uuid, OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint,
    OUT expires_at timestamptz, OUT key_format text, OUT server_prefix text, OUT suggested bigint,
    OUT numbering text
)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT t.* FROM _hilo.hilo_transfer($1, $2, $3, $4, NULL::uuid) t;
END;
COMMENT ON FUNCTION @extschema@.hilo_transfer(@extschema@.hilo_sequence, bigint, text, uuid) IS
    'Gives up to n values to another server permanently, which serves them and accounts for them. '
    'Returns the columns of hilo_lease, for a lease that does not expire, and numbering, as in '
    'hilo_sequences. receiver: a name that only this server has. The same request again returns '
    'the same values, until the receiver makes the next request. Then they count as used, and are '
    'no lease any more. A receiver makes one request at a time, and repeats it until it has the '
    'answer. Requests that rise, as uuids of version 7 do, are refused if they come after a later '
    'one. Requires UPDATE or LEASE. Errors: as for hilo_lease, 42710 for a request that another '
    'receiver or role has made, or that has ended: the receiver needs a new uuid then; 22023 for '
    'NULL, 0A000 unless the transaction is READ COMMITTED, 42704 at the commit if the receiver '
    'makes two requests at once.';
ALTER FUNCTION @extschema@.hilo_lease(@extschema@.hilo_sequence, bigint, text, interval, uuid)
    SUPPORT _hilo.hilo_planner_support;
