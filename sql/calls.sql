-- Twins in _hilo of functions that users call, for the bodies of the extension's own functions and
-- of façades. A body names nothing in the extension's schema: others could put functions there that
-- match a call better, and ALTER SCHEMA may rename it. The twins are the same C functions. The
-- twins of hilo_create and hilo_alter are in sql/functions.sql.

CREATE FUNCTION _hilo.hilo_set_owner(name @extschema@.hilo_sequence, new_owner text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_set_owner_wrapper';
COMMENT ON FUNCTION _hilo.hilo_set_owner(@extschema@.hilo_sequence, text) IS
    'Does what hilo_set_owner does';

CREATE FUNCTION _hilo.hilo_sync(
    name @extschema@.hilo_sequence, relation regclass, column_name name
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_sync_wrapper';
COMMENT ON FUNCTION _hilo.hilo_sync(@extschema@.hilo_sequence, regclass, name) IS
    'Does what hilo_sync does';

CREATE FUNCTION _hilo.hilo_advance(name @extschema@.hilo_sequence, at_least bigint) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_advance_wrapper';
COMMENT ON FUNCTION _hilo.hilo_advance(@extschema@.hilo_sequence, bigint) IS
    'Does what hilo_advance does';

CREATE FUNCTION _hilo.hilo_nextval(name @extschema@.hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextval_wrapper';
COMMENT ON FUNCTION _hilo.hilo_nextval(@extschema@.hilo_sequence) IS 'Does what hilo_nextval does';

CREATE FUNCTION _hilo.hilo_nextrange(
    name @extschema@.hilo_sequence, n bigint,
    OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextrange_wrapper';
COMMENT ON FUNCTION _hilo.hilo_nextrange(@extschema@.hilo_sequence, bigint) IS
    'Does what hilo_nextrange does';

CREATE FUNCTION _hilo.hilo_next_hi(name @extschema@.hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_next_hi_wrapper';
COMMENT ON FUNCTION _hilo.hilo_next_hi(@extschema@.hilo_sequence) IS 'Does what hilo_next_hi does';

CREATE FUNCTION _hilo.hilo_lease(
    name @extschema@.hilo_sequence, n bigint, holder text DEFAULT NULL, ttl interval DEFAULT NULL,
    lease uuid DEFAULT NULL,
    OUT lease uuid, OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint,
    OUT expires_at timestamptz, OUT key_format text, OUT server_prefix text, OUT suggested bigint
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_wrapper';
COMMENT ON FUNCTION _hilo.hilo_lease(@extschema@.hilo_sequence, bigint, text, interval, uuid) IS
    'Does what hilo_lease does';

CREATE FUNCTION _hilo.hilo_lease_return(lease uuid, next bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_return_wrapper';
COMMENT ON FUNCTION _hilo.hilo_lease_return(uuid, bigint) IS 'Does what hilo_lease_return does';

CREATE FUNCTION _hilo.hilo_lease_renew(lease uuid, ttl interval) RETURNS timestamptz
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_renew_wrapper';
COMMENT ON FUNCTION _hilo.hilo_lease_renew(uuid, interval) IS 'Does what hilo_lease_renew does';

CREATE FUNCTION _hilo.hilo_lease_revoke(lease uuid DEFAULT NULL, holder text DEFAULT NULL)
    RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_revoke_wrapper';
COMMENT ON FUNCTION _hilo.hilo_lease_revoke(uuid, text) IS 'Does what hilo_lease_revoke does';

ALTER FUNCTION _hilo.hilo_nextval(@extschema@.hilo_sequence) SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION _hilo.hilo_nextrange(@extschema@.hilo_sequence, bigint)
    SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION _hilo.hilo_next_hi(@extschema@.hilo_sequence) SUPPORT _hilo.hilo_planner_support;
ALTER FUNCTION _hilo.hilo_lease(@extschema@.hilo_sequence, bigint, text, interval, uuid)
    SUPPORT _hilo.hilo_planner_support;

CREATE FUNCTION _hilo.hilo_node_summary(name @extschema@.hilo_sequence) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_node_summary_wrapper';
COMMENT ON FUNCTION _hilo.hilo_node_summary(@extschema@.hilo_sequence) IS
    'Does what hilo_node_summary does';

CREATE FUNCTION _hilo.hilo_apply(document jsonb, prune boolean, dry_run boolean)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_apply_wrapper';
COMMENT ON FUNCTION _hilo.hilo_apply(jsonb, boolean, boolean) IS 'Does what hilo_apply does';
