-- The extension's schema, which is any, has what users call: functions, views and the type, each
-- named hilo_*. Everything else is in schema _hilo, which is in no search_path and where nobody
-- else may create anything.
--
-- A name without a schema is one of core's, here and in the other parts. Whoever may create
-- functions in the extension's schema could put one there that matches a call better. So bodies
-- call functions of pg_catalog and _hilo only, with arguments of exactly the declared types.
SET LOCAL search_path = pg_catalog, pg_temp;

-- Objects in somebody else's schema would be in the way of its owner, who could not even drop them.
DO $$
DECLARE
    other record;
BEGIN
    SELECT n.nspname AS schema, pg_get_userbyid(n.nspowner) AS owner INTO other
      FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
     WHERE e.extname = 'hilo' AND NOT pg_has_role(e.extowner, n.nspowner, 'USAGE');
    IF FOUND THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('schema "%s" belongs to role "%s"', other.schema, other.owner),
            DETAIL = 'The extension can be created in a schema that belongs to the role that '
                     'creates it.',
            HINT = 'Create a schema of your own, and then CREATE EXTENSION hilo SCHEMA followed '
                   'by its name.';
    END IF;
    IF to_regnamespace('_hilo') IS NOT NULL THEN
        RAISE duplicate_schema USING
            MESSAGE = 'schema "_hilo" already exists',
            DETAIL = 'The extension makes a schema of this name for its tables.',
            HINT = CASE
                WHEN EXISTS (SELECT FROM pg_class c
                              WHERE c.relnamespace = to_regnamespace('_hilo')
                                AND c.relname = 'hilo_request')
                THEN 'It is that of hilo_lite, whose sequences hilo takes over: docs/install.md '
                     'has the steps.'
                ELSE 'Rename or drop the schema.' END;
    END IF;
END
$$;

CREATE SCHEMA _hilo;
REVOKE ALL ON SCHEMA _hilo FROM PUBLIC;
-- PUBLIC uses what functions and views call with the rights of their users.
GRANT USAGE ON SCHEMA _hilo TO PUBLIC;
COMMENT ON SCHEMA _hilo IS
    'Tables and internals of the extension hilo. Use the functions and views named hilo_* of its '
    'own schema instead.';

-- hilo_sequence: the name of a sequence, with the layout of text. Only the functions that make
-- values of it have code of their own.

CREATE TYPE @extschema@.hilo_sequence;

CREATE FUNCTION _hilo.hilo_sequence_in(cstring) RETURNS @extschema@.hilo_sequence
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_sequence_in';

-- STABLE like textrecv and textsend: the client's encoding is a setting.
CREATE FUNCTION _hilo.hilo_sequence_recv(internal) RETURNS @extschema@.hilo_sequence
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_sequence_recv';

CREATE FUNCTION _hilo.hilo_sequence_out(@extschema@.hilo_sequence) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'textout';

CREATE FUNCTION _hilo.hilo_sequence_send(@extschema@.hilo_sequence) RETURNS bytea
    LANGUAGE internal STABLE STRICT PARALLEL SAFE AS 'textsend';

-- The type is in the string category, but is not its preferred type. Postgres compares, sorts and
-- concatenates its values as texts, with text's own operators, as it does those of varchar.
CREATE TYPE @extschema@.hilo_sequence (
    INPUT = _hilo.hilo_sequence_in,
    OUTPUT = _hilo.hilo_sequence_out,
    RECEIVE = _hilo.hilo_sequence_recv,
    SEND = _hilo.hilo_sequence_send,
    LIKE = pg_catalog.text,
    CATEGORY = 'S',
    COLLATABLE = true
);
COMMENT ON TYPE @extschema@.hilo_sequence IS
    'Name of a hilo sequence: 1 to 255 bytes of text without control characters; case matters';

COMMENT ON FUNCTION _hilo.hilo_sequence_in(cstring) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_sequence_out(@extschema@.hilo_sequence) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_sequence_recv(internal) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_sequence_send(@extschema@.hilo_sequence) IS 'I/O';

CREATE FUNCTION _hilo.hilo_sequence(text) RETURNS @extschema@.hilo_sequence
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_sequence_from_text';
COMMENT ON FUNCTION _hilo.hilo_sequence(text) IS
    'Converts text to the name of a hilo sequence. Errors: 22023 if the text is not a valid name.';

CREATE CAST (text AS @extschema@.hilo_sequence) WITH FUNCTION _hilo.hilo_sequence(text) AS IMPLICIT;
CREATE CAST (varchar AS @extschema@.hilo_sequence)
    WITH FUNCTION _hilo.hilo_sequence(text) AS IMPLICIT;
CREATE CAST (name AS @extschema@.hilo_sequence) WITH INOUT AS IMPLICIT;
CREATE CAST (@extschema@.hilo_sequence AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (@extschema@.hilo_sequence AS varchar) WITHOUT FUNCTION AS ASSIGNMENT;

-- _hilo.hilo_role: a role's OID that is printed, dumped and restored as the role's name.

CREATE TYPE _hilo.hilo_role;

-- STABLE: a name stands for the role that has it at the time.
CREATE FUNCTION _hilo.hilo_role_in(cstring) RETURNS _hilo.hilo_role
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_in';
CREATE FUNCTION _hilo.hilo_role_out(_hilo.hilo_role) RETURNS cstring
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_out';
CREATE FUNCTION _hilo.hilo_role_recv(internal) RETURNS _hilo.hilo_role
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_recv';
CREATE FUNCTION _hilo.hilo_role_send(_hilo.hilo_role) RETURNS bytea
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_send';

CREATE TYPE _hilo.hilo_role (
    INPUT = _hilo.hilo_role_in,
    OUTPUT = _hilo.hilo_role_out,
    RECEIVE = _hilo.hilo_role_recv,
    SEND = _hilo.hilo_role_send,
    LIKE = pg_catalog.oid
);
COMMENT ON TYPE _hilo.hilo_role IS
    'Role that owns or may use a hilo sequence: its name as an identifier, public for all roles, '
    'or - for one that does not exist';

COMMENT ON FUNCTION _hilo.hilo_role_in(cstring) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_role_out(_hilo.hilo_role) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_role_recv(internal) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_role_send(_hilo.hilo_role) IS 'I/O';

-- Roles are compared and indexed as OIDs.
CREATE CAST (_hilo.hilo_role AS oid) WITHOUT FUNCTION AS IMPLICIT;

-- _hilo.hilo_column: a table's OID and a column's number that are printed, dumped and restored as
-- names.

CREATE TYPE _hilo.hilo_column;

-- STABLE: a name stands for the column that has it at the time.
CREATE FUNCTION _hilo.hilo_column_in(cstring) RETURNS _hilo.hilo_column
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_in';
CREATE FUNCTION _hilo.hilo_column_out(_hilo.hilo_column) RETURNS cstring
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_out';
CREATE FUNCTION _hilo.hilo_column_recv(internal) RETURNS _hilo.hilo_column
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_recv';
CREATE FUNCTION _hilo.hilo_column_send(_hilo.hilo_column) RETURNS bytea
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_send';

CREATE TYPE _hilo.hilo_column (
    INPUT = _hilo.hilo_column_in,
    OUTPUT = _hilo.hilo_column_out,
    RECEIVE = _hilo.hilo_column_recv,
    SEND = _hilo.hilo_column_send,
    LIKE = pg_catalog.int8
);
COMMENT ON TYPE _hilo.hilo_column IS
    'Column that owns a hilo sequence: schema.table.column, each as an identifier, or - for a '
    'column that does not exist';

COMMENT ON FUNCTION _hilo.hilo_column_in(cstring) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_column_out(_hilo.hilo_column) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_column_recv(internal) IS 'I/O';
COMMENT ON FUNCTION _hilo.hilo_column_send(_hilo.hilo_column) IS 'I/O';

-- Column references are compared and indexed as the numbers that they are stored as.
CREATE CAST (_hilo.hilo_column AS bigint) WITHOUT FUNCTION AS IMPLICIT;
