-- Objects that no user has to name are in schema hilo, and the tables in a schema _hilo. PUBLIC gets no USAGE on it: operators, casts and views
-- find their functions by OID.
--
-- The extension creates the schema, unless it is itself created in a schema of that name. Then the schema
-- belongs to whoever creates the extension, since its owner could rename it and put other tables in its place.
-- A script has no conditions, but a query decides whether it calls a function.
CREATE FUNCTION hilo_create_schema() RETURNS void LANGUAGE sql AS $$
    CREATE SCHEMA hilo;
    REVOKE ALL ON SCHEMA hilo FROM PUBLIC;
    COMMENT ON SCHEMA hilo IS
        'Internals of the extension hilo. Use the functions and views named hilo_* instead.';
$$;
CREATE FUNCTION hilo_take_schema() RETURNS void LANGUAGE sql AS $$
    ALTER SCHEMA hilo OWNER TO CURRENT_USER;
    -- As in schema public: all roles call the functions; who owns the database creates sequences,
    -- and says who else may.
    GRANT USAGE ON SCHEMA hilo TO PUBLIC;
    GRANT USAGE, CREATE ON SCHEMA hilo TO pg_database_owner WITH GRANT OPTION;
$$;
SELECT hilo_create_schema() WHERE pg_catalog.current_schema() <> 'hilo';
SELECT hilo_take_schema() WHERE pg_catalog.current_schema() = 'hilo';
DROP FUNCTION hilo_create_schema();
DROP FUNCTION hilo_take_schema();

-- hilo_sequence: the name of a sequence, with the layout of text. Only the functions that make values of it
-- have code of their own.

CREATE TYPE hilo_sequence;

CREATE FUNCTION hilo.sequence_in(cstring) RETURNS hilo_sequence
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_sequence_in';

-- STABLE like textrecv and textsend: the client's encoding is a setting.
CREATE FUNCTION hilo.sequence_recv(internal) RETURNS hilo_sequence
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_sequence_recv';

CREATE FUNCTION hilo.sequence_out(hilo_sequence) RETURNS cstring
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'textout';

CREATE FUNCTION hilo.sequence_send(hilo_sequence) RETURNS bytea
    LANGUAGE internal STABLE STRICT PARALLEL SAFE AS 'textsend';

-- The type is in the string category, but is not its preferred type. With a literal or a text beside it,
-- Postgres compares and concatenates it as text.
CREATE TYPE hilo_sequence (
    INPUT = hilo.sequence_in,
    OUTPUT = hilo.sequence_out,
    RECEIVE = hilo.sequence_recv,
    SEND = hilo.sequence_send,
    LIKE = pg_catalog.text,
    CATEGORY = 'S'
);
COMMENT ON TYPE hilo_sequence IS
    'Name of a hilo sequence: 1 to 255 bytes of text without control characters; case matters';

COMMENT ON FUNCTION hilo.sequence_in(cstring) IS 'I/O';
COMMENT ON FUNCTION hilo.sequence_out(hilo_sequence) IS 'I/O';
COMMENT ON FUNCTION hilo.sequence_recv(internal) IS 'I/O';
COMMENT ON FUNCTION hilo.sequence_send(hilo_sequence) IS 'I/O';

-- Named after the type, so that hilo_sequence(x) is a cast too.
CREATE FUNCTION hilo_sequence(text) RETURNS hilo_sequence
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_sequence_from_text';
COMMENT ON FUNCTION hilo_sequence(text) IS
    'Converts text to the name of a hilo sequence. Errors: 22023 if the text is not a valid name.';

CREATE FUNCTION hilo_sequence(name) RETURNS hilo_sequence
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_sequence_from_name';
COMMENT ON FUNCTION hilo_sequence(name) IS
    'Converts name to the name of a hilo sequence. Errors: 22023 if it is not a valid name.';

CREATE CAST (text AS hilo_sequence) WITH FUNCTION hilo_sequence(text) AS IMPLICIT;
CREATE CAST (varchar AS hilo_sequence) WITH FUNCTION hilo_sequence(text) AS IMPLICIT;
CREATE CAST (name AS hilo_sequence) WITH FUNCTION hilo_sequence(name) AS IMPLICIT;
CREATE CAST (hilo_sequence AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (hilo_sequence AS varchar) WITHOUT FUNCTION AS ASSIGNMENT;

-- Names are compared byte by byte and so without a collation, by the functions of bytea, which has the same
-- layout. LEAKPROOF as these functions of core are.

CREATE FUNCTION hilo.sequence_eq(hilo_sequence, hilo_sequence) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'byteaeq';
CREATE FUNCTION hilo.sequence_ne(hilo_sequence, hilo_sequence) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'byteane';
CREATE FUNCTION hilo.sequence_lt(hilo_sequence, hilo_sequence) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'bytealt';
CREATE FUNCTION hilo.sequence_le(hilo_sequence, hilo_sequence) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'byteale';
CREATE FUNCTION hilo.sequence_gt(hilo_sequence, hilo_sequence) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'byteagt';
CREATE FUNCTION hilo.sequence_ge(hilo_sequence, hilo_sequence) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'byteage';
CREATE FUNCTION hilo.sequence_cmp(hilo_sequence, hilo_sequence) RETURNS integer
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'byteacmp';
CREATE FUNCTION hilo.sequence_sortsupport(internal) RETURNS void
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'bytea_sortsupport';
CREATE FUNCTION hilo.sequence_hash(hilo_sequence) RETURNS integer
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'hashvarlena';
CREATE FUNCTION hilo.sequence_hash_extended(hilo_sequence, bigint) RETURNS bigint
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'hashvarlenaextended';

COMMENT ON FUNCTION hilo.sequence_eq(hilo_sequence, hilo_sequence) IS 'implementation of = operator';
COMMENT ON FUNCTION hilo.sequence_ne(hilo_sequence, hilo_sequence) IS 'implementation of <> operator';
COMMENT ON FUNCTION hilo.sequence_lt(hilo_sequence, hilo_sequence) IS 'implementation of < operator';
COMMENT ON FUNCTION hilo.sequence_le(hilo_sequence, hilo_sequence) IS 'implementation of <= operator';
COMMENT ON FUNCTION hilo.sequence_gt(hilo_sequence, hilo_sequence) IS 'implementation of > operator';
COMMENT ON FUNCTION hilo.sequence_ge(hilo_sequence, hilo_sequence) IS 'implementation of >= operator';
COMMENT ON FUNCTION hilo.sequence_cmp(hilo_sequence, hilo_sequence) IS 'less-equal-greater';
COMMENT ON FUNCTION hilo.sequence_sortsupport(internal) IS 'sort support';
COMMENT ON FUNCTION hilo.sequence_hash(hilo_sequence) IS 'hash';
COMMENT ON FUNCTION hilo.sequence_hash_extended(hilo_sequence, bigint) IS 'hash';

CREATE OPERATOR = (
    FUNCTION = hilo.sequence_eq, LEFTARG = hilo_sequence, RIGHTARG = hilo_sequence,
    COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
CREATE OPERATOR <> (
    FUNCTION = hilo.sequence_ne, LEFTARG = hilo_sequence, RIGHTARG = hilo_sequence,
    COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel
);
CREATE OPERATOR < (
    FUNCTION = hilo.sequence_lt, LEFTARG = hilo_sequence, RIGHTARG = hilo_sequence,
    COMMUTATOR = >, NEGATOR = >=, RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
CREATE OPERATOR <= (
    FUNCTION = hilo.sequence_le, LEFTARG = hilo_sequence, RIGHTARG = hilo_sequence,
    COMMUTATOR = >=, NEGATOR = >, RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
CREATE OPERATOR > (
    FUNCTION = hilo.sequence_gt, LEFTARG = hilo_sequence, RIGHTARG = hilo_sequence,
    COMMUTATOR = <, NEGATOR = <=, RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
CREATE OPERATOR >= (
    FUNCTION = hilo.sequence_ge, LEFTARG = hilo_sequence, RIGHTARG = hilo_sequence,
    COMMUTATOR = <=, NEGATOR = <, RESTRICT = scalargesel, JOIN = scalargejoinsel
);

COMMENT ON OPERATOR = (hilo_sequence, hilo_sequence) IS 'equal';
COMMENT ON OPERATOR <> (hilo_sequence, hilo_sequence) IS 'not equal';
COMMENT ON OPERATOR < (hilo_sequence, hilo_sequence) IS 'less than, byte by byte';
COMMENT ON OPERATOR <= (hilo_sequence, hilo_sequence) IS 'less than or equal, byte by byte';
COMMENT ON OPERATOR > (hilo_sequence, hilo_sequence) IS 'greater than, byte by byte';
COMMENT ON OPERATOR >= (hilo_sequence, hilo_sequence) IS 'greater than or equal, byte by byte';

CREATE OPERATOR CLASS hilo_sequence_ops DEFAULT FOR TYPE hilo_sequence USING btree AS
    OPERATOR 1 <,
    OPERATOR 2 <=,
    OPERATOR 3 =,
    OPERATOR 4 >=,
    OPERATOR 5 >,
    FUNCTION 1 hilo.sequence_cmp(hilo_sequence, hilo_sequence),
    FUNCTION 2 (hilo_sequence, hilo_sequence) hilo.sequence_sortsupport(internal),
    FUNCTION 4 (hilo_sequence, hilo_sequence) pg_catalog.btequalimage(oid);

CREATE OPERATOR CLASS hilo_sequence_ops DEFAULT FOR TYPE hilo_sequence USING hash AS
    OPERATOR 1 =,
    FUNCTION 1 hilo.sequence_hash(hilo_sequence),
    FUNCTION 2 hilo.sequence_hash_extended(hilo_sequence, bigint);

-- hilo.role: a role's OID that is printed, dumped and restored as the role's name.

CREATE TYPE hilo.role;

-- STABLE: a name stands for the role that has it at the time.
CREATE FUNCTION hilo.role_in(cstring) RETURNS hilo.role
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_in';
CREATE FUNCTION hilo.role_out(hilo.role) RETURNS cstring
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_out';
CREATE FUNCTION hilo.role_recv(internal) RETURNS hilo.role
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_recv';
CREATE FUNCTION hilo.role_send(hilo.role) RETURNS bytea
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_role_send';

CREATE TYPE hilo.role (
    INPUT = hilo.role_in,
    OUTPUT = hilo.role_out,
    RECEIVE = hilo.role_recv,
    SEND = hilo.role_send,
    LIKE = pg_catalog.oid
);
COMMENT ON TYPE hilo.role IS
    'Role that owns or may use a hilo sequence: its name as an identifier, public for all '
    'roles, or - for one that does not exist';

COMMENT ON FUNCTION hilo.role_in(cstring) IS 'I/O';
COMMENT ON FUNCTION hilo.role_out(hilo.role) IS 'I/O';
COMMENT ON FUNCTION hilo.role_recv(internal) IS 'I/O';
COMMENT ON FUNCTION hilo.role_send(hilo.role) IS 'I/O';

CREATE CAST (hilo.role AS oid) WITHOUT FUNCTION;

-- Roles are compared as OIDs, by the functions of that type.
CREATE FUNCTION hilo.role_eq(hilo.role, hilo.role) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'oideq';
CREATE FUNCTION hilo.role_ne(hilo.role, hilo.role) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'oidne';
CREATE FUNCTION hilo.role_lt(hilo.role, hilo.role) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'oidlt';
CREATE FUNCTION hilo.role_le(hilo.role, hilo.role) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'oidle';
CREATE FUNCTION hilo.role_gt(hilo.role, hilo.role) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'oidgt';
CREATE FUNCTION hilo.role_ge(hilo.role, hilo.role) RETURNS boolean
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'oidge';
CREATE FUNCTION hilo.role_cmp(hilo.role, hilo.role) RETURNS integer
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE LEAKPROOF AS 'btoidcmp';
CREATE FUNCTION hilo.role_sortsupport(internal) RETURNS void
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'btoidsortsupport';
CREATE FUNCTION hilo.role_hash(hilo.role) RETURNS integer
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'hashoid';
CREATE FUNCTION hilo.role_hash_extended(hilo.role, bigint) RETURNS bigint
    LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE AS 'hashoidextended';

COMMENT ON FUNCTION hilo.role_eq(hilo.role, hilo.role) IS 'implementation of = operator';
COMMENT ON FUNCTION hilo.role_ne(hilo.role, hilo.role) IS 'implementation of <> operator';
COMMENT ON FUNCTION hilo.role_lt(hilo.role, hilo.role) IS 'implementation of < operator';
COMMENT ON FUNCTION hilo.role_le(hilo.role, hilo.role) IS 'implementation of <= operator';
COMMENT ON FUNCTION hilo.role_gt(hilo.role, hilo.role) IS 'implementation of > operator';
COMMENT ON FUNCTION hilo.role_ge(hilo.role, hilo.role) IS 'implementation of >= operator';
COMMENT ON FUNCTION hilo.role_cmp(hilo.role, hilo.role) IS 'less-equal-greater';
COMMENT ON FUNCTION hilo.role_sortsupport(internal) IS 'sort support';
COMMENT ON FUNCTION hilo.role_hash(hilo.role) IS 'hash';
COMMENT ON FUNCTION hilo.role_hash_extended(hilo.role, bigint) IS 'hash';

CREATE OPERATOR = (
    FUNCTION = hilo.role_eq, LEFTARG = hilo.role, RIGHTARG = hilo.role,
    COMMUTATOR = =, NEGATOR = <>, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES
);
CREATE OPERATOR <> (
    FUNCTION = hilo.role_ne, LEFTARG = hilo.role, RIGHTARG = hilo.role,
    COMMUTATOR = <>, NEGATOR = =, RESTRICT = neqsel, JOIN = neqjoinsel
);
CREATE OPERATOR < (
    FUNCTION = hilo.role_lt, LEFTARG = hilo.role, RIGHTARG = hilo.role,
    COMMUTATOR = >, NEGATOR = >=, RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
CREATE OPERATOR <= (
    FUNCTION = hilo.role_le, LEFTARG = hilo.role, RIGHTARG = hilo.role,
    COMMUTATOR = >=, NEGATOR = >, RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
CREATE OPERATOR > (
    FUNCTION = hilo.role_gt, LEFTARG = hilo.role, RIGHTARG = hilo.role,
    COMMUTATOR = <, NEGATOR = <=, RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);
CREATE OPERATOR >= (
    FUNCTION = hilo.role_ge, LEFTARG = hilo.role, RIGHTARG = hilo.role,
    COMMUTATOR = <=, NEGATOR = <, RESTRICT = scalargesel, JOIN = scalargejoinsel
);

COMMENT ON OPERATOR = (hilo.role, hilo.role) IS 'equal';
COMMENT ON OPERATOR <> (hilo.role, hilo.role) IS 'not equal';
COMMENT ON OPERATOR < (hilo.role, hilo.role) IS 'less than';
COMMENT ON OPERATOR <= (hilo.role, hilo.role) IS 'less than or equal';
COMMENT ON OPERATOR > (hilo.role, hilo.role) IS 'greater than';
COMMENT ON OPERATOR >= (hilo.role, hilo.role) IS 'greater than or equal';

CREATE OPERATOR CLASS hilo.role_ops DEFAULT FOR TYPE hilo.role USING btree AS
    OPERATOR 1 <,
    OPERATOR 2 <=,
    OPERATOR 3 =,
    OPERATOR 4 >=,
    OPERATOR 5 >,
    FUNCTION 1 hilo.role_cmp(hilo.role, hilo.role),
    FUNCTION 2 (hilo.role, hilo.role) hilo.role_sortsupport(internal),
    FUNCTION 4 (hilo.role, hilo.role) pg_catalog.btequalimage(oid);

CREATE OPERATOR CLASS hilo.role_ops DEFAULT FOR TYPE hilo.role USING hash AS
    OPERATOR 1 =,
    FUNCTION 1 hilo.role_hash(hilo.role),
    FUNCTION 2 hilo.role_hash_extended(hilo.role, bigint);

-- hilo.column_ref: a table's OID and a column's number that are printed, dumped and restored as names.

CREATE TYPE hilo.column_ref;

-- STABLE: a name stands for the column that has it at the time.
CREATE FUNCTION hilo.column_ref_in(cstring) RETURNS hilo.column_ref
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_in';
CREATE FUNCTION hilo.column_ref_out(hilo.column_ref) RETURNS cstring
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_out';
CREATE FUNCTION hilo.column_ref_recv(internal) RETURNS hilo.column_ref
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_recv';
CREATE FUNCTION hilo.column_ref_send(hilo.column_ref) RETURNS bytea
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_column_ref_send';

CREATE TYPE hilo.column_ref (
    INPUT = hilo.column_ref_in,
    OUTPUT = hilo.column_ref_out,
    RECEIVE = hilo.column_ref_recv,
    SEND = hilo.column_ref_send,
    LIKE = pg_catalog.int8
);
COMMENT ON TYPE hilo.column_ref IS
    'Column that owns a hilo sequence: schema.table.column, each as an identifier, or - for a column that does '
    'not exist';

COMMENT ON FUNCTION hilo.column_ref_in(cstring) IS 'I/O';
COMMENT ON FUNCTION hilo.column_ref_out(hilo.column_ref) IS 'I/O';
COMMENT ON FUNCTION hilo.column_ref_recv(internal) IS 'I/O';
COMMENT ON FUNCTION hilo.column_ref_send(hilo.column_ref) IS 'I/O';

-- Column references are compared and indexed as the numbers that they are stored as.
CREATE CAST (hilo.column_ref AS bigint) WITHOUT FUNCTION AS IMPLICIT;
