-- The functions by which a session draws values and keys, and sets where a sequence continues.
-- They check privileges themselves for each sequence, as those in sql/functions.sql do.

-- Values. A rollback does not return them. Volatile, as nextval is. Restricted to the leader of a
-- parallel query, because values rise within a session, and currval and lastval are the session's.

CREATE FUNCTION @extschema@.hilo_nextval(name @extschema@.hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextval_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_nextval(@extschema@.hilo_sequence) IS
    'Returns the next value of a sequence. Waits up to hilo.reserve_timeout if no value is ready, '
    'and for the transaction before it if the sequence is gapless. Requires USAGE or UPDATE. '
    'Errors: 42704 if the sequence does not exist, 2200H if it is exhausted, 42501, 25006 on a '
    'standby, and in a read-only transaction if the sequence is gapless, 55000 if hilo is not '
    'preloaded, or in a transaction that has changed the increment or cycle of the sequence or '
    'made it gapless no more; if the wait ends without success: 55P03, 53400 if no background '
    'worker is free, or the error that the worker met.';

CREATE FUNCTION @extschema@.hilo_nextval_always(name @extschema@.hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextval_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_nextval_always(@extschema@.hilo_sequence) IS
    'Returns the next value of a sequence, as hilo_nextval does. A column with this default is '
    'GENERATED ALWAYS. An INSERT with another value than DEFAULT is refused without OVERRIDING '
    'SYSTEM VALUE, and so is an UPDATE (428C9).';

-- There is no second hilo_nextvals for integers: Postgres could not decide between the two for a
-- smallint or for a parameter without a type.
CREATE FUNCTION @extschema@.hilo_nextvals(name @extschema@.hilo_sequence, n bigint)
    RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000
    AS 'MODULE_PATHNAME', 'hilo_nextvals_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_nextvals(@extschema@.hilo_sequence, bigint) IS
    'Returns the next n values, one per row, as n calls of hilo_nextval would: other sessions may '
    'get values in between. Requires USAGE or UPDATE. Errors: as for hilo_nextval, 22023 if n is '
    'negative.';

CREATE FUNCTION @extschema@.hilo_nextrange(
    name @extschema@.hilo_sequence, n bigint,
    OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextrange_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_nextrange(@extschema@.hilo_sequence, bigint) IS
    'Returns the next n values as one range without other values between them: first, first + '
    'increment, ... last. Requires UPDATE. Errors: as for hilo_nextval, 22023 unless n is '
    'positive, 2200H if no such range is left.';

CREATE FUNCTION @extschema@.hilo_next_hi(name @extschema@.hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_next_hi_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_next_hi(@extschema@.hilo_sequence) IS
    'Returns a hi for classic Hi/Lo: the caller owns start_value + (hi * block_size + lo) * '
    'increment for lo = 0 ... block_size - 1. Requires UPDATE and a sequence with a fixed '
    'block_size. Errors: as for hilo_nextval, 22023 without block_size, 0A000 if the sequence is '
    'gapless.';

CREATE FUNCTION @extschema@.hilo_currval(name @extschema@.hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_currval_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_currval(@extschema@.hilo_sequence) IS
    'Returns the value that this session last obtained from a sequence. One that a rollback has '
    'taken back, as of a gapless sequence, does not count. Requires USAGE or SELECT. Errors: '
    '55000 if the session has obtained none, 42704, 42501.';

CREATE FUNCTION @extschema@.hilo_lastval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_lastval_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_lastval() IS
    'Returns the value that this session last obtained from any hilo sequence, as hilo_currval '
    'does for one. Requires USAGE or SELECT on that sequence. Errors: 55000 if the session has '
    'obtained none, 42501.';

CREATE FUNCTION @extschema@.hilo_setval(
    name @extschema@.hilo_sequence, value bigint, is_called boolean DEFAULT true
) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_setval_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_setval(@extschema@.hilo_sequence, bigint, boolean) IS
    'Sets the value after which the next call continues; with is_called = false the next call '
    'returns it. Returns value. Transactional, unlike core''s setval: it takes effect at commit '
    'and is undone by a rollback. Requires UPDATE. Errors: 42704 if the sequence does not exist, '
    '22003 if value is out of the bounds of the sequence, 42501, 55000 if several nodes could '
    'serve a value twice, or share the sequence and hilo.on_every_node is off.';

CREATE FUNCTION @extschema@.hilo_advance(name @extschema@.hilo_sequence, at_least bigint)
    RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_advance_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_advance(@extschema@.hilo_sequence, bigint) IS
    'Serves nothing up to at_least any more, in the direction of the increment, and returns the '
    'next value. Null: there is none left, and wider bounds bring only values beyond at_least. '
    'Never moves a sequence back, and changes nothing if the sequence is beyond at_least. '
    'Otherwise transactional, and its transaction draws from the sequence only after the commit '
    '(55000), unless it has itself created, set or restarted it. The values that it jumps over '
    'are a gap. Requires UPDATE. Errors: 42704 if the sequence does not exist, 22023 for NULL, '
    '0A000 if the sequence cycles, 42501, 55000 if several nodes share the sequence and '
    'hilo.on_every_node is off. Each node keeps its own stripes.';

-- Keys.

CREATE FUNCTION @extschema@.hilo_nextkey(name @extschema@.hilo_sequence) RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextkey_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_nextkey(@extschema@.hilo_sequence) IS
    'Returns the next value of a sequence as a key in its key_format, for example '
    'orders/NorthServer/1. Requires USAGE or UPDATE. Errors: as for hilo_nextval.';

-- Not immutable: the result depends on the sequence's format and the server's prefix.
CREATE FUNCTION @extschema@.hilo_key(name @extschema@.hilo_sequence, value bigint) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_key_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_key(@extschema@.hilo_sequence, bigint) IS
    'Returns the key of a value in the key_format of the sequence, with this server''s '
    'hilo.server_prefix. Requires USAGE or SELECT. Errors: 42704 if the sequence does not exist, '
    '42501.';

CREATE FUNCTION @extschema@.hilo_key_value(name @extschema@.hilo_sequence, key text) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_key_value_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_key_value(@extschema@.hilo_sequence, text) IS
    'Returns the value in a key of the key_format of the sequence. Requires USAGE or SELECT. '
    'Errors: 22023 if the text is not such a key, 42704, 42501.';

-- COPY FROM. Where a default is volatile, core inserts row by row; only its own nextval is exempt.
-- So while a COPY plans its defaults, the planner replaces calls of the functions that draw by
-- calls of twins. These are the same C functions, declared STABLE (src/sql/draw/copy_defaults.rs).
-- No SQL can call a twin, since there are no values of type internal.

CREATE FUNCTION _hilo.hilo_planner_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_planner_support_wrapper';
COMMENT ON FUNCTION _hilo.hilo_planner_support(internal) IS
    'Planner support function of all functions that give out values. Lets COPY FROM insert many '
    'rows at a time into tables whose column defaults draw from a sequence. A session that has '
    'not loaded hilo loads it before it plans a call';
CREATE FUNCTION _hilo.hilo_copy_nextval(name @extschema@.hilo_sequence, internal) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_nextval_wrapper';
COMMENT ON FUNCTION _hilo.hilo_copy_nextval(@extschema@.hilo_sequence, internal) IS
    'COPY FROM calls it instead of hilo_nextval and hilo_nextval_always in column defaults; SQL '
    'cannot call it';
CREATE FUNCTION _hilo.hilo_copy_nextkey(name @extschema@.hilo_sequence, internal) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_nextkey_wrapper';
COMMENT ON FUNCTION _hilo.hilo_copy_nextkey(@extschema@.hilo_sequence, internal) IS
    'COPY FROM calls it instead of hilo_nextkey in column defaults; SQL cannot call it';
ALTER FUNCTION @extschema@.hilo_nextval(@extschema@.hilo_sequence)
    SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION @extschema@.hilo_nextval_always(@extschema@.hilo_sequence)
    SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION @extschema@.hilo_nextkey(@extschema@.hilo_sequence)
    SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION @extschema@.hilo_nextvals(@extschema@.hilo_sequence, bigint)
    SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION @extschema@.hilo_nextrange(@extschema@.hilo_sequence, bigint)
    SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION @extschema@.hilo_next_hi(@extschema@.hilo_sequence)
    SUPPORT _hilo.hilo_planner_support;
