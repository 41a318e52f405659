-- Objects that no user has to name are in schema hilo. PUBLIC gets no USAGE on it: operators, casts and views
-- find their functions by OID.
--
-- The extension creates the schema, unless it is itself created in a schema of that name. Then the schema
-- belongs to whoever creates the extension, since its owner could rename it and put other tables in its place.
-- A script has no conditions, but a query decides whether it calls a function.
CREATE FUNCTION hilo_create_schema() RETURNS void LANGUAGE sql AS $$
    CREATE SCHEMA hilo;
    REVOKE ALL ON SCHEMA hilo FROM PUBLIC;
    COMMENT ON SCHEMA hilo IS
        'Catalog and internals of the extension hilo. Use the functions and views named hilo_* instead.';
$$;
CREATE FUNCTION hilo_take_schema() RETURNS void LANGUAGE sql AS 'ALTER SCHEMA hilo OWNER TO CURRENT_USER';
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

-- The type is in the string category, but is not its preferred type: with a literal or a text beside it,
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
    'Role that owns or may use a hilo sequence: the name of the role as an identifier, public for all roles, '
    'or - for no role (a role that does not exist)';

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
-- The tables of hilo. Only the library writes to them, as core writes to its own catalogs, and it relies on
-- their column order. They are dumped with the database, so the sequences survive a dump and restore.

CREATE TABLE hilo.sequence (
    id bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    data_type regtype NOT NULL,
    start_value bigint NOT NULL,
    increment bigint NOT NULL,
    min_value bigint NOT NULL,
    max_value bigint NOT NULL,
    cycle boolean NOT NULL,
    ordered boolean NOT NULL,
    block_size bigint,
    slice_size integer,
    key_format text,
    owner hilo.role NOT NULL,
    created_at timestamptz NOT NULL,
    owned_by hilo.column_ref,
    gapless boolean NOT NULL DEFAULT false,
    CONSTRAINT sequence_pkey PRIMARY KEY (id),
    CONSTRAINT sequence_name_key UNIQUE (name)
);
-- Finds the sequences of an owner, for DROP ROLE, DROP OWNED and REASSIGN OWNED.
CREATE INDEX sequence_owner_idx ON hilo.sequence (owner);
-- Finds the sequences of a column or table that is dropped, truncated or given to another role.
CREATE INDEX sequence_owned_by_idx ON hilo.sequence (owned_by pg_catalog.int8_ops);
COMMENT ON TABLE hilo.sequence IS 'Definitions of the sequences';
COMMENT ON COLUMN hilo.sequence.id IS 'Identifier of the sequence in this database, never reused';
COMMENT ON COLUMN hilo.sequence.name IS 'Name, in the form of type hilo_sequence';
COMMENT ON COLUMN hilo.sequence.data_type IS 'smallint, integer or bigint: limits the values';
COMMENT ON COLUMN hilo.sequence.start_value IS 'First value, and the value at which a restart begins';
COMMENT ON COLUMN hilo.sequence.increment IS
    'Distance from one value to the next, negative for a descending sequence, never 0';
COMMENT ON COLUMN hilo.sequence.min_value IS 'Smallest value';
COMMENT ON COLUMN hilo.sequence.max_value IS 'Largest value';
COMMENT ON COLUMN hilo.sequence.cycle IS 'Whether the sequence starts again at the other bound';
COMMENT ON COLUMN hilo.sequence.ordered IS 'Whether a later call gets a later value across all sessions';
COMMENT ON COLUMN hilo.sequence.block_size IS 'Number of values reserved at once; null: chosen by rate';
COMMENT ON COLUMN hilo.sequence.slice_size IS
    'Maximum number of values that a session takes from the pool at once; null: hilo.max_slice_size';
COMMENT ON COLUMN hilo.sequence.key_format IS
    'Template of the keys of the sequence; null: {name}/{server}{value}';
COMMENT ON COLUMN hilo.sequence.owner IS
    'Role that may alter, rename and drop the sequence and grant privileges on it';
COMMENT ON COLUMN hilo.sequence.created_at IS 'When the sequence was created';
COMMENT ON COLUMN hilo.sequence.owned_by IS
    'Column that owns the sequence, which is dropped with it; null: none';
COMMENT ON COLUMN hilo.sequence.gapless IS
    'Whether the committed values have no holes, so that its transactions follow each other';

-- An update changes neither of the two index columns. With half of each page free it finds room next to the
-- old version (HOT), and no index grows. Old versions are removed early, because every reservation reads past
-- those that are left.
CREATE TABLE hilo.position (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    epoch bigint NOT NULL,
    base bigint NOT NULL,
    next_index bigint NOT NULL,
    settled_index bigint NOT NULL,
    incarnation bigint NOT NULL,
    nodes integer NOT NULL,
    stripe bigint NOT NULL,
    system_id bigint NOT NULL,
    timeline integer NOT NULL,
    skip bigint NOT NULL DEFAULT 0,
    CONSTRAINT position_pkey PRIMARY KEY (sequence, node) WITH (fillfactor = 90)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE hilo.position IS
    'How far each node has reserved each sequence. Indexes count the values of a node: 0, 1, 2, ...';
COMMENT ON COLUMN hilo.position.sequence IS 'hilo.sequence.id';
COMMENT ON COLUMN hilo.position.node IS 'hilo.node_id of the server that the position belongs to';
COMMENT ON COLUMN hilo.position.epoch IS 'Raised by every change that makes values in memory invalid';
COMMENT ON COLUMN hilo.position.base IS 'Value at which the mapping from index to value starts';
COMMENT ON COLUMN hilo.position.next_index IS 'First index that is not reserved';
COMMENT ON COLUMN hilo.position.settled_index IS
    'Indexes below this one are served, in hilo.free_range or in hilo.gap; those from this one up to '
    'next_index may be in the memory of the server life "incarnation"';
COMMENT ON COLUMN hilo.position.incarnation IS
    'Server life that holds the unsettled indexes; 0: no life holds them; -1: no life holds them yet, '
    'because the row comes from a dump';
COMMENT ON COLUMN hilo.position.nodes IS 'hilo.node_count that the mapping was made with';
COMMENT ON COLUMN hilo.position.stripe IS 'Number of values in a stripe; the nodes take stripes in turn';
COMMENT ON COLUMN hilo.position.system_id IS
    'System identifier of the cluster that reserved last, by which a restored or cloned cluster is recognized';
COMMENT ON COLUMN hilo.position.timeline IS
    'Timeline of the last reservation, by which a promoted server is recognized; -1: the row arrived by '
    'logical replication';
COMMENT ON COLUMN hilo.position.skip IS
    'Number of values that a server skips by default if it takes over from a copy of this row, according to '
    'the rate at which values were reserved';

-- Rows are often added and removed, so these settings are as above, without the room for updates.
CREATE TABLE hilo.free_range (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    epoch bigint NOT NULL,
    first_index bigint NOT NULL,
    end_index bigint NOT NULL,
    incarnation bigint NOT NULL DEFAULT 0,
    CONSTRAINT free_range_pkey PRIMARY KEY (sequence, node, epoch, incarnation, first_index)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500
);
COMMENT ON TABLE hilo.free_range IS
    'Ranges of indexes that were reserved and returned: free, or lent to the memory of a server again';
COMMENT ON COLUMN hilo.free_range.sequence IS 'hilo.sequence.id';
COMMENT ON COLUMN hilo.free_range.node IS 'hilo.node_id of the server that may serve the range';
COMMENT ON COLUMN hilo.free_range.epoch IS
    'Epoch that the indexes belong to; in any other epoch the range is meaningless';
COMMENT ON COLUMN hilo.free_range.first_index IS 'First index';
COMMENT ON COLUMN hilo.free_range.end_index IS 'Index after the last one';
COMMENT ON COLUMN hilo.free_range.incarnation IS
    'Server life whose memory holds the range; 0: no life holds it, the range is free';

CREATE TABLE hilo.gap (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    first_value bigint NOT NULL,
    last_value bigint NOT NULL,
    count bigint NOT NULL,
    reason text NOT NULL CONSTRAINT gap_reason_check CHECK (reason IN ('crash', 'discarded', 'altered', 'expired', 'revoked')),
    recorded_at timestamptz NOT NULL,
    name text COLLATE "C",
    released_from hilo.column_ref
);
CREATE INDEX gap_sequence_idx ON hilo.gap (sequence);
-- The table has no key; this lets deletes be replicated all the same.
ALTER TABLE hilo.gap REPLICA IDENTITY FULL;
COMMENT ON TABLE hilo.gap IS
    'Ranges of values that will no longer be served and are not known to have been served';
COMMENT ON COLUMN hilo.gap.sequence IS 'hilo.sequence.id; 0: the column of the sequence was released';
COMMENT ON COLUMN hilo.gap.node IS 'hilo.node_id of the server that had reserved the range';
COMMENT ON COLUMN hilo.gap.first_value IS 'First value, in the order of serving';
COMMENT ON COLUMN hilo.gap.last_value IS 'Last value, in the order of serving';
COMMENT ON COLUMN hilo.gap.count IS
    'Number of values, in steps of the increment that the sequence had at that time';
COMMENT ON COLUMN hilo.gap.reason IS
    'crash: the server died with the range in memory; discarded: the range could not be kept, or was '
    'skipped after a promotion or a restore, or leased by a transaction that was rolled back; altered: hilo_alter or hilo_setval made the range '
    'invalid; expired: its lease expired; revoked: its lease was revoked';
COMMENT ON COLUMN hilo.gap.recorded_at IS 'When the range was found to be lost';
COMMENT ON COLUMN hilo.gap.name IS
    'Name of the sequence, if its column was released; null for a sequence that exists';
COMMENT ON COLUMN hilo.gap.released_from IS
    'That column: a sequence that adopts it gets the row';

CREATE TABLE hilo.lease (
    lease uuid NOT NULL,
    sequence bigint NOT NULL,
    node integer NOT NULL,
    epoch bigint NOT NULL,
    first_index bigint NOT NULL,
    end_index bigint NOT NULL,
    next_index bigint NOT NULL,
    first_value bigint NOT NULL,
    last_value bigint NOT NULL,
    increment bigint NOT NULL,
    holder text,
    role hilo.role NOT NULL,
    client_addr inet,
    leased_at timestamptz NOT NULL,
    expires_at timestamptz,
    ended text CONSTRAINT lease_ended_check CHECK (ended IN ('returned', 'revoked')),
    ended_at timestamptz,
    due_at timestamptz,
    system_id bigint NOT NULL,
    timeline integer NOT NULL,
    passed boolean NOT NULL,
    CONSTRAINT lease_pkey PRIMARY KEY (lease)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500
);
-- Finds the leases of a sequence, those that are to be filed first.
CREATE INDEX lease_sequence_idx ON hilo.lease (sequence, node, due_at);
-- Finds what is to be filed next.
CREATE INDEX lease_due_at_idx ON hilo.lease (due_at);
-- Finds the leases of a holder.
CREATE INDEX lease_holder_idx ON hilo.lease (holder);
COMMENT ON TABLE hilo.lease IS 'Ranges of values that are in use outside of this server';
COMMENT ON COLUMN hilo.lease.lease IS 'Random name of the lease, by which its holder ends or renews it';
COMMENT ON COLUMN hilo.lease.sequence IS 'hilo.sequence.id';
COMMENT ON COLUMN hilo.lease.node IS 'hilo.node_id of the server that leased the range out';
COMMENT ON COLUMN hilo.lease.epoch IS 'Epoch that the indexes belong to';
COMMENT ON COLUMN hilo.lease.first_index IS 'First index';
COMMENT ON COLUMN hilo.lease.end_index IS 'Index after the last one';
COMMENT ON COLUMN hilo.lease.next_index IS 'First index that the holder has not used, as far as is known';
COMMENT ON COLUMN hilo.lease.first_value IS 'First value, in the order of serving';
COMMENT ON COLUMN hilo.lease.last_value IS 'Last value, in the order of serving';
COMMENT ON COLUMN hilo.lease.increment IS 'Distance from one value to the next';
COMMENT ON COLUMN hilo.lease.holder IS 'Who holds the lease, as it called itself; null: not stated';
COMMENT ON COLUMN hilo.lease.role IS 'Role that took the lease';
COMMENT ON COLUMN hilo.lease.client_addr IS 'Address from which the lease was taken; null: a socket of this machine';
COMMENT ON COLUMN hilo.lease.leased_at IS 'When the lease was taken';
COMMENT ON COLUMN hilo.lease.expires_at IS 'When the lease expires; null: never';
COMMENT ON COLUMN hilo.lease.ended IS 'returned or revoked: how the lease ended before it expired; null: it has not';
COMMENT ON COLUMN hilo.lease.ended_at IS 'When that happened';
COMMENT ON COLUMN hilo.lease.due_at IS
    'When the worker files the lease: as free or as a gap; -infinity: at the next opportunity; null: never, as '
    'far as is known';
COMMENT ON COLUMN hilo.lease.system_id IS 'System identifier of the cluster that leased the range out';
COMMENT ON COLUMN hilo.lease.timeline IS
    'Timeline on which the range was leased out; -1: the row was restored. What comes back to another server than '
    'the one that leased it out is not served again';
COMMENT ON COLUMN hilo.lease.passed IS
    'Whether hilo_advance or hilo_sync has moved the sequence beyond values of the range: what comes back is not '
    'served again';

CREATE TABLE hilo.privilege (
    sequence bigint NOT NULL,
    grantee hilo.role NOT NULL,
    privilege text COLLATE "C" NOT NULL
        CONSTRAINT privilege_privilege_check CHECK (privilege IN ('USAGE', 'SELECT', 'UPDATE')),
    grantor hilo.role NOT NULL,
    CONSTRAINT privilege_pkey PRIMARY KEY (sequence, grantee, privilege)
);
CREATE INDEX privilege_grantee_idx ON hilo.privilege (grantee);
COMMENT ON TABLE hilo.privilege IS 'Roles other than the owner that may use, read or change a sequence';
COMMENT ON COLUMN hilo.privilege.sequence IS 'hilo.sequence.id';
COMMENT ON COLUMN hilo.privilege.grantee IS 'Role that has the privilege, or public';
COMMENT ON COLUMN hilo.privilege.privilege IS
    'USAGE: next values, currval, keys; SELECT: currval, reading; UPDATE: next values, setval, ranges and hi';
COMMENT ON COLUMN hilo.privilege.grantor IS 'Role that granted it';

CREATE TABLE hilo.default_privilege (
    owner hilo.role NOT NULL,
    pattern text COLLATE "C" NOT NULL,
    grantee hilo.role NOT NULL,
    privilege text COLLATE "C" NOT NULL
        CONSTRAINT default_privilege_privilege_check CHECK (privilege IN ('USAGE', 'SELECT', 'UPDATE')),
    CONSTRAINT default_privilege_pkey PRIMARY KEY (owner, pattern, grantee, privilege)
);
CREATE INDEX default_privilege_grantee_idx ON hilo.default_privilege (grantee);
COMMENT ON TABLE hilo.default_privilege IS 'Privileges that new sequences start with';
COMMENT ON COLUMN hilo.default_privilege.owner IS 'Role that creates the sequences';
COMMENT ON COLUMN hilo.default_privilege.pattern IS 'Pattern of LIKE that their names match';
COMMENT ON COLUMN hilo.default_privilege.grantee IS 'Role that gets the privilege, or public';
COMMENT ON COLUMN hilo.default_privilege.privilege IS 'USAGE, SELECT or UPDATE, as in hilo.privilege';

-- Only the extension's owner reads or writes these tables. hilo_check reports roles that default privileges
-- have allowed to write to them.
REVOKE ALL ON hilo.sequence, hilo.position, hilo.free_range, hilo.gap, hilo.lease, hilo.privilege,
    hilo.default_privilege FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('hilo.sequence', '');
SELECT pg_catalog.pg_extension_config_dump('hilo.position', '');
SELECT pg_catalog.pg_extension_config_dump('hilo.free_range', '');
SELECT pg_catalog.pg_extension_config_dump('hilo.gap', '');
SELECT pg_catalog.pg_extension_config_dump('hilo.lease', '');
SELECT pg_catalog.pg_extension_config_dump('hilo.privilege', '');
SELECT pg_catalog.pg_extension_config_dump('hilo.default_privilege', '');

-- A row whose role does not exist comes from a dump or by replication, because the library's own writes fire
-- no triggers. The triggers are also enabled where rows arrive by replication, because there too a second
-- grant to no role would collide with the first.

CREATE FUNCTION hilo.own_row() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_role_own_row';
COMMENT ON FUNCTION hilo.own_row() IS
    'Makes the current user the owner of a restored sequence whose owner does not exist';
CREATE FUNCTION hilo.skip_row() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_role_skip_row';
COMMENT ON FUNCTION hilo.skip_row() IS 'Omits a restored grant to a role that does not exist';
CREATE FUNCTION hilo.skip_default() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_role_skip_default';
COMMENT ON FUNCTION hilo.skip_default() IS 'Omits a restored default privilege of or for a role that does not exist';
CREATE FUNCTION hilo.note_roles() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_note_roles';
COMMENT ON FUNCTION hilo.note_roles() IS
    'Records the roles of restored rows, so that DROP ROLE knows of them';
-- No user needs to call these functions: Postgres runs a trigger's function without checking EXECUTE.
REVOKE ALL ON FUNCTION hilo.own_row(), hilo.skip_row(), hilo.skip_default(), hilo.note_roles() FROM PUBLIC;

CREATE TRIGGER missing_owner BEFORE INSERT ON hilo.sequence
    FOR EACH ROW WHEN (NEW.owner = '-'::hilo.role) EXECUTE FUNCTION hilo.own_row();
ALTER TABLE hilo.sequence ENABLE ALWAYS TRIGGER missing_owner;

CREATE TRIGGER missing_grantee BEFORE INSERT ON hilo.privilege
    FOR EACH ROW WHEN (NEW.grantee = '-'::hilo.role) EXECUTE FUNCTION hilo.skip_row();
ALTER TABLE hilo.privilege ENABLE ALWAYS TRIGGER missing_grantee;

CREATE TRIGGER missing_role BEFORE INSERT ON hilo.default_privilege
    FOR EACH ROW WHEN (NEW.owner = '-'::hilo.role OR NEW.grantee = '-'::hilo.role)
    EXECUTE FUNCTION hilo.skip_default();
ALTER TABLE hilo.default_privilege ENABLE ALWAYS TRIGGER missing_role;

-- These triggers handle what logical replication brings, from any publication. They fire for its workers only
-- (session_replication_role = replica), and not in a restore. What they accept and what they keep out:
-- docs/multi-node.md.

CREATE FUNCTION hilo.replicated_sequence() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_sequence';
COMMENT ON FUNCTION hilo.replicated_sequence() IS
    'Applies a replicated definition, except for the columns by which this server has numbered the sequence';
CREATE FUNCTION hilo.replicated_position() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_position';
COMMENT ON FUNCTION hilo.replicated_position() IS
    'Applies the replicated positions of other nodes, and that of this node if this server has not reserved '
    'from the sequence yet';
CREATE FUNCTION hilo.replicated_privilege() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_privilege';
COMMENT ON FUNCTION hilo.replicated_privilege() IS 'Applies a replicated privilege that does not exist yet';
CREATE FUNCTION hilo.replicated_default_privilege() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_default_privilege';
COMMENT ON FUNCTION hilo.replicated_default_privilege() IS
    'Applies a replicated default privilege that does not exist yet';
CREATE FUNCTION hilo.replicated_free_range() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_free_range';
COMMENT ON FUNCTION hilo.replicated_free_range() IS
    'Keeps out replicated free ranges, which another server is to serve';
CREATE FUNCTION hilo.replicated_lease() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_lease';
COMMENT ON FUNCTION hilo.replicated_lease() IS
    'Keeps out replicated leases, which belong to another server';
REVOKE ALL ON FUNCTION hilo.replicated_sequence(), hilo.replicated_position(),
    hilo.replicated_privilege(), hilo.replicated_default_privilege(), hilo.replicated_free_range(),
    hilo.replicated_lease() FROM PUBLIC;

CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.sequence
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_sequence();
ALTER TABLE hilo.sequence ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.position
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_position();
ALTER TABLE hilo.position ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.privilege
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_privilege();
ALTER TABLE hilo.privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.default_privilege
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_default_privilege();
ALTER TABLE hilo.default_privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.free_range
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_free_range();
ALTER TABLE hilo.free_range ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.lease
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_lease();
ALTER TABLE hilo.lease ENABLE REPLICA TRIGGER replicated;

CREATE TRIGGER note_roles AFTER INSERT ON hilo.sequence
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.note_roles();
CREATE TRIGGER note_roles AFTER INSERT ON hilo.privilege
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.note_roles();
CREATE TRIGGER note_roles AFTER INSERT ON hilo.default_privilege
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.note_roles();

-- A restore writes rows through SQL, which the library never does. So these triggers fire in a restore only,
-- and not where rows arrive by replication.

CREATE FUNCTION hilo.restored_position() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_restored_position';
COMMENT ON FUNCTION hilo.restored_position() IS
    'Marks a restored position as held by no server life, until the first reservation takes it over';
CREATE FUNCTION hilo.restored_free_range() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_restored_free_range';
COMMENT ON FUNCTION hilo.restored_free_range() IS
    'Rejects a restored free range of a sequence that is in use, which may have served the range since the '
    'dump';
CREATE FUNCTION hilo.restored_lease() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_restored_lease';
COMMENT ON FUNCTION hilo.restored_lease() IS
    'Marks a restored lease, of which nothing that comes back is served again; rejects one of a sequence that is '
    'in use';
REVOKE ALL ON FUNCTION hilo.restored_position(), hilo.restored_free_range(), hilo.restored_lease() FROM PUBLIC;

CREATE TRIGGER restored BEFORE INSERT ON hilo.position
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_position();
CREATE TRIGGER restored BEFORE INSERT ON hilo.free_range
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_free_range();
CREATE TRIGGER restored BEFORE INSERT ON hilo.lease
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_lease();
-- The functions that users call. They check privileges themselves for each sequence, as core does for its
-- own, so every user may call them. None is SECURITY DEFINER, and none resolves a name through the caller's
-- search_path.

-- Definitions. These functions are transactional: they take effect at commit.

CREATE FUNCTION hilo_create(
    name hilo_sequence,
    start_value bigint DEFAULT NULL,
    increment bigint DEFAULT 1,
    min_value bigint DEFAULT NULL,
    max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT 'bigint',
    cycle boolean DEFAULT false,
    ordered boolean DEFAULT false,
    block_size bigint DEFAULT NULL,
    slice_size bigint DEFAULT NULL,
    key_format text DEFAULT NULL,
    if_not_exists boolean DEFAULT false,
    gapless boolean DEFAULT false,
    owned_by text DEFAULT NULL
) RETURNS hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_create_wrapper';
COMMENT ON FUNCTION hilo_create(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, boolean, boolean, text) IS
    'Creates a sequence and returns its name. The bounds and start_value default as in CREATE SEQUENCE. '
    'block_size: number of values reserved at once; null: chosen by rate. slice_size: maximum number of '
    'values that a session takes from the pool at once; null: hilo.max_slice_size. ordered: a later call '
    'gets a later value across all sessions. key_format: template with {name}, {server}, {value} and '
    '{value:0N}. gapless: the committed values have no holes; the first draw of a transaction locks the sequence '
    'until the transaction ends, and a rollback gives its values to the next one. owned_by: the column, as table.column or schema.table.column, with which the sequence is '
    'dropped, and with whose table it restarts in TRUNCATE ... RESTART IDENTITY. Errors: 42710 if the sequence '
    'exists (with if_not_exists a NOTICE), 42501, 22023 if options are invalid or contradict each other, 0A000 '
    'for a gapless sequence that cycles or that several nodes share, 42P01 or 42703 if the column does not exist, 42809 if it cannot own a sequence, 55000 if its table has another '
    'owner.';

CREATE FUNCTION hilo_alter(
    name hilo_sequence,
    start_value bigint DEFAULT NULL,
    increment bigint DEFAULT NULL,
    min_value bigint DEFAULT NULL,
    max_value bigint DEFAULT NULL,
    data_type regtype DEFAULT NULL,
    cycle boolean DEFAULT NULL,
    ordered boolean DEFAULT NULL,
    block_size bigint DEFAULT NULL,
    slice_size bigint DEFAULT NULL,
    key_format text DEFAULT NULL,
    restart_with bigint DEFAULT NULL,
    gapless boolean DEFAULT NULL,
    owned_by text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_alter_wrapper';
COMMENT ON FUNCTION hilo_alter(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, bigint, boolean, text) IS
    'Changes a sequence. Null leaves an option unchanged; block_size 0 and slice_size 0 make these adaptive '
    'again. restart_with: the next value; required, and the same on every node, if several nodes share the '
    'sequence and its increment or cycle changes. gapless: as in hilo_create; values that were reserved and not '
    'served before are in hilo_gaps. owned_by: as in hilo_create, or none. Narrower bounds apply to the calling transaction at once, '
    'everything else takes effect at commit; after a change of increment, cycle or gapless without restart_with, the '
    'calling transaction cannot draw from the sequence before it has committed. Requires ownership of the '
    'sequence. Errors: 42704 if the sequence does not exist, 42501, 22023 if options are invalid or '
    'contradict each other, 0A000 as in hilo_create, 55000 if several nodes could serve a value twice; for owned_by as hilo_create.';

CREATE FUNCTION hilo_rename(name hilo_sequence, new_name hilo_sequence) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_rename_wrapper';
COMMENT ON FUNCTION hilo_rename(hilo_sequence, hilo_sequence) IS
    'Renames a sequence and rewrites the column defaults that use it; to do so, it waits for the '
    'transactions that write to their tables. Requires ownership of the sequence. Errors: 42704 if the '
    'sequence does not exist, 42710 if the new name is taken, 22023 for NULL, 42501.';

CREATE FUNCTION hilo_drop(name hilo_sequence, if_exists boolean DEFAULT false, cascade boolean DEFAULT false) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_drop_wrapper';
COMMENT ON FUNCTION hilo_drop(hilo_sequence, boolean, boolean) IS
    'Drops a sequence. Fails if a column default uses the sequence; with cascade, drops such defaults. '
    'Requires ownership of the sequence. Errors: 42704 if the sequence does not exist (with if_exists a '
    'NOTICE), 2BP01 if a default uses it, 22023 for NULL, 42501.';

CREATE FUNCTION hilo_set_owner(name hilo_sequence, new_owner text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_set_owner_wrapper';
COMMENT ON FUNCTION hilo_set_owner(hilo_sequence, text) IS
    'Gives a sequence to another role. Requires ownership of the sequence; unless the caller is a superuser, '
    'also membership in the new owner, which must have CREATE on the schema of the extension. Errors: 42704 '
    'if the sequence or the role does not exist, 42501.';

CREATE FUNCTION hilo_grant(name hilo_sequence, grantee text, privilege text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_grant_wrapper';
COMMENT ON FUNCTION hilo_grant(hilo_sequence, text, text) IS
    'Grants a privilege on a sequence to a role or to PUBLIC: USAGE (next values, currval, keys), SELECT '
    '(currval, reading), UPDATE (next values, setval, ranges and hi), ALL, or a list with commas. Requires '
    'ownership of the sequence. Errors: 42704 if the sequence or the role does not exist, 22023 for another privilege, 42501.';

CREATE FUNCTION hilo_revoke(name hilo_sequence, grantee text, privilege text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_revoke_wrapper';
COMMENT ON FUNCTION hilo_revoke(hilo_sequence, text, text) IS
    'Revokes a privilege on a sequence from a role or from PUBLIC: USAGE, SELECT, UPDATE, ALL, or a list with '
    'commas. Requires ownership of the sequence. Errors: 42704 if the sequence or the role does not exist, 22023 for another '
    'privilege, 42501.';

-- From core's sequences to hilo's and back. Transactional too.

CREATE FUNCTION hilo_adopt(relation regclass, column_name name, name hilo_sequence DEFAULT NULL) RETURNS hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_adopt_wrapper';
COMMENT ON FUNCTION hilo_adopt(regclass, name, hilo_sequence) IS
    'Makes a serial or identity column, or one whose default is nextval(...), draw from a new hilo sequence, and '
    'returns its name; null: the name of the old sequence. The new one continues beyond the old one and beyond '
    'the values of the column, with the same type, bounds, increment, start value and privileges. Drops the old '
    'sequence if nothing else uses it. Locks the table in SHARE ROW EXCLUSIVE mode: writers wait, readers do '
    'not. Requires ownership of the table. Errors: 42P01, 42703, 42809 for what is not a permanent table, 42804 '
    'for a column that is not smallint, integer, bigint or numeric, 55000 if the column has no sequence, uses '
    'hilo already, or shares its sequence with another column, 42710 if the name is taken, 42501, 55P03 after '
    'lock_timeout.';

CREATE FUNCTION hilo_release(relation regclass, column_name name, identity text DEFAULT 'BY DEFAULT') RETURNS regclass
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_release_wrapper';
COMMENT ON FUNCTION hilo_release(regclass, name, text) IS
    'Makes a column whose default is hilo_nextval(...) an identity column, or with null a serial column, which '
    'continues with the very next number, and returns its sequence. identity: BY DEFAULT, ALWAYS or null. Drops '
    'the hilo sequence; hilo_gaps keeps what it has lost. Locks the table as hilo_adopt does. Requires ownership '
    'of the table and of the sequence. Errors: as for hilo_adopt, 22023 for another identity, 55000 if several '
    'nodes share the sequence, or the column may be null and is to become an identity column.';

CREATE FUNCTION hilo_sync(name hilo_sequence, relation regclass, column_name name) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_sync_wrapper';
COMMENT ON FUNCTION hilo_sync(hilo_sequence, regclass, name) IS
    'Moves a sequence beyond the values of a column if it is yet to serve one of them, never back, and returns '
    'the next value; null: there is none left. Locks no table. Requires UPDATE on the sequence and SELECT on the '
    'column. Errors: 42704 if the sequence does not exist, 42P01, 42703, 42804 as for hilo_adopt, 55000 if '
    'several nodes share the sequence, 42501.';

CREATE FUNCTION hilo_nextval_always(name hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextval_wrapper';
COMMENT ON FUNCTION hilo_nextval_always(hilo_sequence) IS
    'Returns the next value of a sequence, as hilo_nextval does. A column with this default is GENERATED ALWAYS: an '
    'INSERT with another value than DEFAULT is refused without OVERRIDING SYSTEM VALUE, and so is an UPDATE (428C9).';

-- Privileges on many sequences, and on those to come.

CREATE FUNCTION hilo_grant_all(grantee text, privilege text, pattern text DEFAULT '%', owner text DEFAULT NULL)
    RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_grant_all_wrapper';
COMMENT ON FUNCTION hilo_grant_all(text, text, text, text) IS
    'Grants a privilege, as hilo_grant does, on every sequence whose name matches a pattern of LIKE and that '
    'the caller or, if owner is given, that role owns. Returns the number of these sequences. A WARNING '
    'counts other matching sequences that the caller may see. Sequences that are created later are not '
    'included: see hilo_default_grant. Errors: 42704 if a role does not exist, 22023 for another privilege, '
    'for NULL, and for a pattern that ends with an escape character, 42501 if the caller does not have the '
    'privileges of owner.';

CREATE FUNCTION hilo_revoke_all(grantee text, privilege text, pattern text DEFAULT '%', owner text DEFAULT NULL)
    RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_revoke_all_wrapper';
COMMENT ON FUNCTION hilo_revoke_all(text, text, text, text) IS
    'Revokes a privilege, as hilo_revoke does, on the sequences that hilo_grant_all grants on. Returns the '
    'number of these sequences. Errors: as for hilo_grant_all.';

CREATE FUNCTION hilo_default_grant(grantee text, privilege text, pattern text DEFAULT '%', for_role text DEFAULT NULL)
    RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_default_grant_wrapper';
COMMENT ON FUNCTION hilo_default_grant(text, text, text, text) IS
    'Makes sequences that the caller or, if for_role is given, that role will create start with a privilege '
    'for grantee, if their names match a pattern of LIKE. Existing sequences stay as they are: see '
    'hilo_grant_all. The view hilo_default_privileges shows these privileges. Errors: 42704 if a role does '
    'not exist, 22023 for another privilege, for NULL, and for a pattern that ends with an escape character, '
    '42501 if the caller does not have the privileges of for_role.';

CREATE FUNCTION hilo_default_revoke(grantee text, privilege text, pattern text DEFAULT '%', for_role text DEFAULT NULL)
    RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_default_revoke_wrapper';
COMMENT ON FUNCTION hilo_default_revoke(text, text, text, text) IS
    'Takes back what hilo_default_grant gave with the same pattern; without effect if it gave nothing. '
    'Existing sequences stay as they are: see hilo_revoke_all. Errors: as for hilo_default_grant.';

-- Definitions as a document.

CREATE FUNCTION hilo_export(name hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_export_wrapper';
COMMENT ON FUNCTION hilo_export(hilo_sequence) IS
    'Returns the definition of a sequence, with its owner and privileges, as a document for hilo_apply; without '
    'a name, those of all sequences that the caller may read, ordered by name. Options at their default are '
    'left out; positions are not part of it. Requires any privilege on the sequence. Errors: 42704 if the '
    'sequence does not exist, 42501, 22021 if a name has no UTF-8 form.';

CREATE FUNCTION hilo_apply(document jsonb, prune boolean DEFAULT false, dry_run boolean DEFAULT false)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_apply_wrapper';
COMMENT ON FUNCTION hilo_apply(jsonb, boolean, boolean) IS
    'Creates and alters sequences until they are as a document describes them, and returns a row for each '
    'change: create, number, alter, set_owner, grant, revoke or drop. An option that is left out gets its '
    'default; owner and privileges that are left out stay as they are. Never moves the position of a sequence '
    'that exists. number: this server has not served the sequence under its present node id, and is told by the '
    'document how the other nodes number it. prune: also drops those sequences of the caller that the document '
    'does not contain. dry_run: changes nothing and returns the same rows. Requires what the functions for each '
    'change require. Errors: 22023 for a document that is not valid, with the place in DETAIL; 2BP01 if a column default uses a '
    'sequence that is to be dropped; those of hilo_create, hilo_alter, hilo_set_owner and hilo_grant.';

CREATE FUNCTION hilo_node_summary(name hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_node_summary_wrapper';
COMMENT ON FUNCTION hilo_node_summary(hilo_sequence) IS
    'Returns what other servers need to know of this one: which node it is, and what hilo_export returns of a sequence '
    'or, without a name, of all that the caller may read, with how this node numbers them, or will when it first serves '
    'them, and the highest node id for which it has a position of them; one without a numbering it refuses to serve. A '
    'sequence that does not exist is left out. For hilo_compare and hilo_apply on another server. Errors: 42501, 22021 if '
    'a name has no UTF-8 form.';

CREATE FUNCTION hilo_compare(summary jsonb) RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_compare_wrapper';
COMMENT ON FUNCTION hilo_compare(jsonb) IS
    'Compares this server with another one, whose hilo_node_summary() is given: node ids, node counts, and the '
    'definitions and numberings of the sequences that the caller may read. Returns a row for each finding, as '
    'hilo_check does. Errors: 22023 if it is not such a summary.';

CREATE FUNCTION hilo_create_on_all_nodes(name hilo_sequence, options jsonb DEFAULT '{}')
    RETURNS TABLE (node text, action text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_create_on_all_nodes_wrapper';
COMMENT ON FUNCTION hilo_create_on_all_nodes(hilo_sequence, jsonb) IS
    'Creates a sequence on all nodes of Citus, and returns what was done on each: create, number or exists. options: the '
    'fields of a sequence in what hilo_export returns. Nodes that have the sequence keep it; if they agree on it, the others '
    'get it as it is there, whatever the options. number: a node that was removed and added again is told how the others '
    'number it. A rollback does not undo it. Errors: 55000 if a node cannot be asked, has another hilo.node_count, differs '
    'from others, or refuses, if no node knows how the sequence is numbered, or if a node that is to get it has an id that '
    'is not above all that nodes have had; then nodes may be left without the sequence until it is called again; 0A000 '
    'without Citus, 25001 in a transaction block, 22023 for other options.';

CREATE FUNCTION hilo_create_missing()
    RETURNS TABLE (name text, relation regclass, column_name name, next_value bigint)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_create_missing_wrapper';
COMMENT ON FUNCTION hilo_create_missing() IS
    'Creates the sequences that column defaults name and that do not exist, each with the data type of its '
    'column, behind the largest value or key that its columns hold. Returns a row for each such column with the '
    'next value; null: none is left. The owner of the tables owns the sequence. Keeps other sessions from '
    'writing to the tables until the transaction ends. Leaves out, with a NOTICE, sequences of tables that the '
    'caller does not own, or that several roles own. Errors: 42501 without CREATE on the schema of '
    'the extension, 55P03 after lock_timeout.';

-- Values. A rollback does not return them. Volatile, as nextval is. Restricted to the leader of a parallel query,
-- because values rise within a session, and currval and lastval are the session's.

CREATE FUNCTION hilo_nextval(name hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextval_wrapper';
COMMENT ON FUNCTION hilo_nextval(hilo_sequence) IS
    'Returns the next value of a sequence. Waits up to hilo.reserve_timeout if no value is ready, and for the '
    'transaction before it if the sequence is gapless. Requires '
    'USAGE or UPDATE. Errors: 42704 if the sequence does not exist, 2200H if it is exhausted, 42501, 25006 '
    'on a standby, and in a read-only transaction if the sequence is gapless, 55000 if hilo is not preloaded, or in a transaction that has changed the increment or '
    'cycle of the sequence or made it gapless no more; if the wait ends without success: 55P03, 53400 if no background worker is free, '
    'or the error that the worker met.';

-- There is no second hilo_nextvals for integers: Postgres could not decide between the two for a smallint or
-- for a parameter without a type.
CREATE FUNCTION hilo_nextvals(name hilo_sequence, n bigint) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000 AS 'MODULE_PATHNAME', 'hilo_nextvals_wrapper';
COMMENT ON FUNCTION hilo_nextvals(hilo_sequence, bigint) IS
    'Returns the next n values, one per row, as n calls of hilo_nextval would: other sessions may get values in between. '
    'Requires USAGE or UPDATE. Errors: as for hilo_nextval, 22023 if n is negative.';

CREATE FUNCTION hilo_nextrange(
    name hilo_sequence, n bigint,
    OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextrange_wrapper';
COMMENT ON FUNCTION hilo_nextrange(hilo_sequence, bigint) IS
    'Returns the next n values as one range without other values between them: first, first + increment, ... '
    'last. Requires UPDATE. Errors: as for hilo_nextval, 22023 unless n is positive, 2200H if no such range '
    'is left.';

CREATE FUNCTION hilo_next_hi(name hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_next_hi_wrapper';
COMMENT ON FUNCTION hilo_next_hi(hilo_sequence) IS
    'Returns a hi for classic Hi/Lo: the caller owns start_value + (hi * block_size + lo) * increment for lo '
    '= 0 ... block_size - 1. Requires UPDATE and a sequence with a fixed block_size. Errors: as for '
    'hilo_nextval, 22023 without block_size, 0A000 if the sequence is gapless.';

CREATE FUNCTION hilo_currval(name hilo_sequence) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_currval_wrapper';
COMMENT ON FUNCTION hilo_currval(hilo_sequence) IS
    'Returns the value that this session last obtained from a sequence; one that a rollback has taken back, as of '
    'a gapless sequence, does not count. Requires USAGE or SELECT. Errors: '
    '55000 if the session has obtained none, 42704, 42501.';

CREATE FUNCTION hilo_lastval() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_lastval_wrapper';
COMMENT ON FUNCTION hilo_lastval() IS
    'Returns the value that this session last obtained from any hilo sequence, as hilo_currval does for one. '
    'Requires USAGE or SELECT on that sequence. Errors: 55000 if the session has obtained none, 42501.';

CREATE FUNCTION hilo_setval(name hilo_sequence, value bigint, is_called boolean DEFAULT true) RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_setval_wrapper';
COMMENT ON FUNCTION hilo_setval(hilo_sequence, bigint, boolean) IS
    'Sets the value after which the next call continues; with is_called = false the next call returns it. '
    'Returns value. Transactional, unlike core''s setval: it takes effect at commit and is undone by a '
    'rollback. Requires UPDATE. Errors: 42704 if the sequence does not exist, 22003 if value is out of the '
    'bounds of the sequence, 42501, 55000 if several nodes could serve a value twice.';

CREATE FUNCTION hilo_advance(name hilo_sequence, at_least bigint) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_advance_wrapper';
COMMENT ON FUNCTION hilo_advance(hilo_sequence, bigint) IS
    'Serves nothing up to at_least any more, in the direction of the increment, and returns the next value; null: '
    'there is none left. Never moves a sequence back, and changes nothing if the sequence is beyond at_least. '
    'Otherwise transactional, as hilo_setval is. Requires UPDATE. Errors: 42704 if the sequence does not exist, '
    '22023 for NULL, 0A000 if the sequence cycles, 42501, 55000 if several nodes share the sequence.';

-- Leases: ranges of values that leave the server. Transactional too.

CREATE FUNCTION hilo_lease(
    name hilo_sequence, n bigint, holder text DEFAULT NULL, ttl interval DEFAULT NULL,
    OUT lease uuid, OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint,
    OUT expires_at timestamptz, OUT key_format text, OUT server_prefix text, OUT suggested bigint
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_wrapper';
COMMENT ON FUNCTION hilo_lease(hilo_sequence, bigint, text, interval) IS
    'Leases out up to n values: first, first + increment, ... last, which nobody else gets from the commit of the '
    'transaction on; count says how many. There are fewer than n at a bound of the sequence, at the end of a stripe, '
    'and where the rest of another lease is taken. holder: who takes it, for hilo_leases and hilo_lease_revoke. ttl: '
    'after this time the values become a gap; null: never. suggested: how many to ask for the next time, by the rate '
    'that the server sees. If the transaction is rolled back, the values become a gap. Requires UPDATE. Errors: as '
    'for hilo_nextval, 22023 for NULL, unless n is from 1 to 1000000000, and unless ttl is positive, 0A000 if the '
    'sequence cycles, is ordered or gapless, or the transaction is prepared, 40001 at the commit if the sequence was '
    'renumbered or dropped meanwhile, 54000 for too many leases in open transactions.';

CREATE FUNCTION hilo_lease_return(lease uuid, next bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_return_wrapper';
COMMENT ON FUNCTION hilo_lease_return(uuid, bigint) IS
    'Ends a lease and returns how many of its values will be served again. next: the first value that was not used, '
    'or the one behind the last if all were; null: none was. The values before it count as used. The result is 0 if '
    'the sequence has been renumbered, or another server has leased the values out: then the rest becomes a gap. '
    'Only the role that took the lease, the owner of the sequence and superusers may end it. Errors: 42704 if the '
    'lease is not open, also if it was returned before, was revoked or has expired, 22023 if next is no value of the '
    'lease, or for NULL, 0A000 if the transaction is prepared, 42501.';

CREATE FUNCTION hilo_lease_renew(lease uuid, ttl interval) RETURNS timestamptz
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_renew_wrapper';
COMMENT ON FUNCTION hilo_lease_renew(uuid, interval) IS
    'Lets a lease expire so long after now, and returns when; null: it does not expire. Errors: as for '
    'hilo_lease_return, 22023 unless ttl is positive.';

CREATE FUNCTION hilo_lease_revoke(lease uuid DEFAULT NULL, holder text DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_revoke_wrapper';
COMMENT ON FUNCTION hilo_lease_revoke(uuid, text) IS
    'Ends a lease, or all leases of a holder that the caller may end, and returns how many. Their values become a '
    'gap, because nobody knows which of them were used. For holders that will not come back. Errors: for a lease as '
    'for hilo_lease_return, 22023 if both arguments are null.';

-- Until 0.2.0 this was hilo_nextvals. Views and functions that were made then refer to it by its OID, and a dump
-- of them by this name.
CREATE FUNCTION hilo.nextvals(name hilo_sequence, n integer) RETURNS SETOF bigint
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000 AS 'MODULE_PATHNAME', 'hilo_nextvals_wrapper';
COMMENT ON FUNCTION hilo.nextvals(hilo_sequence, integer) IS
    'Returns the same as hilo_nextvals, for views and functions that were made with version 0.2.0';

-- Keys.

CREATE FUNCTION hilo_nextkey(name hilo_sequence) RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_nextkey_wrapper';
COMMENT ON FUNCTION hilo_nextkey(hilo_sequence) IS
    'Returns the next value of a sequence as a key in its key_format, for example orders/NorthServer/1. '
    'Requires USAGE or UPDATE. Errors: as for hilo_nextval.';

-- Not immutable: the result depends on the sequence's format and the server's prefix.
CREATE FUNCTION hilo_key(name hilo_sequence, value bigint) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_key_wrapper';
COMMENT ON FUNCTION hilo_key(hilo_sequence, bigint) IS
    'Returns the key of a value in the key_format of the sequence, with this server''s hilo.server_prefix. '
    'Requires USAGE or SELECT. Errors: 42704 if the sequence does not exist, 42501.';

CREATE FUNCTION hilo_key_value(name hilo_sequence, key text) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_key_value_wrapper';
COMMENT ON FUNCTION hilo_key_value(hilo_sequence, text) IS
    'Returns the value in a key of the key_format of the sequence. Requires USAGE or SELECT. Errors: 22023 '
    'if the text is not such a key, 42704, 42501.';

-- COPY FROM. Where a default is volatile, core inserts row by row; only its own nextval is exempt. So while a COPY plans
-- its defaults, the planner replaces calls of the functions that draw by calls of twins: the same C functions, declared
-- STABLE (src/sql/copy_defaults.rs). No SQL can call a twin, since there are no values of type internal.

CREATE FUNCTION hilo.planner_support(internal) RETURNS internal
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_planner_support_wrapper';
COMMENT ON FUNCTION hilo.planner_support(internal) IS
    'Planner support function of all functions that give out values. Lets COPY FROM insert many rows at a time into tables '
    'whose column defaults draw from a sequence; a session that has not loaded hilo loads it before it plans a call';
CREATE FUNCTION hilo.copy_nextval(name hilo_sequence, internal) RETURNS bigint
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_nextval_wrapper';
COMMENT ON FUNCTION hilo.copy_nextval(hilo_sequence, internal) IS
    'What COPY FROM calls instead of hilo_nextval and hilo_nextval_always in column defaults; cannot be called by SQL';
CREATE FUNCTION hilo.copy_nextkey(name hilo_sequence, internal) RETURNS text
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_nextkey_wrapper';
COMMENT ON FUNCTION hilo.copy_nextkey(hilo_sequence, internal) IS
    'What COPY FROM calls instead of hilo_nextkey in column defaults; cannot be called by SQL';
ALTER FUNCTION hilo_nextval(hilo_sequence) SUPPORT hilo.planner_support;
ALTER FUNCTION hilo_nextval_always(hilo_sequence) SUPPORT hilo.planner_support;
ALTER FUNCTION hilo_nextkey(hilo_sequence) SUPPORT hilo.planner_support;
ALTER FUNCTION hilo_nextvals(hilo_sequence, bigint) SUPPORT hilo.planner_support;
ALTER FUNCTION hilo.nextvals(hilo_sequence, integer) SUPPORT hilo.planner_support;
ALTER FUNCTION hilo_nextrange(hilo_sequence, bigint) SUPPORT hilo.planner_support;
ALTER FUNCTION hilo_next_hi(hilo_sequence) SUPPORT hilo.planner_support;
ALTER FUNCTION hilo_lease(hilo_sequence, bigint, text, interval) SUPPORT hilo.planner_support;

-- Inspection.

-- Volatile: it reads the pool, which no snapshot keeps unchanged.
CREATE FUNCTION hilo_find_gaps(name hilo_sequence, relation regclass, column_name name)
    RETURNS TABLE (first bigint, last bigint, count bigint, reason text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'hilo_find_gaps_wrapper';
COMMENT ON FUNCTION hilo_find_gaps(hilo_sequence, regclass, name) IS
    'Returns the values of a sequence that a column lacks, from the start of the sequence to its position on '
    'this node, as ranges in steps of the increment, each with its reason: slice, current, standby or '
    'returned (in memory, to be served), free (in the catalog, to be served), leased (in use elsewhere), crash, '
    'discarded, altered, expired or revoked (as in hilo_gaps), or "rolled back, deleted or unknown". Requires SELECT, USAGE or UPDATE on the '
    'sequence and SELECT on the column, which must be of type smallint, integer, bigint or numeric. Errors: '
    '42704 if the sequence does not exist, 42703 if the column does not exist, 42804 if the column has '
    'another type, 0A000 if the sequence cycles, 42501.';


CREATE FUNCTION hilo_check() RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_check_wrapper';
COMMENT ON FUNCTION hilo_check() IS
    'Reports what is wrong, or soon will be, with the settings and with the sequences and columns that the '
    'caller may see: one row for each finding, with what to do. severity is error, warning, or note for what '
    'may be meant to be so. Roles that may read every sequence, such as members of pg_monitor, also get a row '
    'without a name for each finding about a column that they may not see. Returns no row if nothing was found.';

-- Volatile and unsafe, as hilo_check is.
CREATE FUNCTION hilo_report() RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_report_wrapper';
COMMENT ON FUNCTION hilo_report() IS
    'Returns one HTML page that shows what the views and hilo_check show the caller: what is wrong, the sequences '
    'that need attention most, gaps, leases and changed settings, each up to 200 rows. The page is ASCII and loads '
    'nothing. It changes nothing, and runs on a standby too. A part that cannot be read is said to be so in the page.';

CREATE FUNCTION hilo_stat_reset(name hilo_sequence DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_stat_reset_wrapper';
COMMENT ON FUNCTION hilo_stat_reset(hilo_sequence) IS
    'Sets the counters of a sequence to zero; without a name, those of every sequence of this database. '
    'Requires ownership of the sequence; without a name, superuser rights. Errors: 42704 if the sequence '
    'does not exist, 42501.';

-- The functions that the views are made of. Postgres checks EXECUTE on a view's functions for the role that
-- reads the view, so PUBLIC keeps EXECUTE; other uses are prevented because PUBLIC has no USAGE on the
-- schema. Each function shows the current database only. ROWS is low on purpose: the planner then looks up
-- the definitions by key instead of reading all of them.

CREATE FUNCTION hilo.node_id() RETURNS integer
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'node_id_wrapper';
COMMENT ON FUNCTION hilo.node_id() IS 'Returns which node this server is; null if Citus is to say it and does not';

CREATE FUNCTION hilo.value_at(
    index bigint, base bigint, increment bigint, min_value bigint, max_value bigint, cycle boolean,
    node integer, nodes integer, stripe bigint
) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_value_at_wrapper';
COMMENT ON FUNCTION hilo.value_at(bigint, bigint, bigint, bigint, bigint, boolean, integer, integer, bigint) IS
    'Returns the value of an index; null before the first value and beyond the last';

CREATE FUNCTION hilo.stat_slots() RETURNS TABLE (
    sequence bigint, epoch bigint,
    served bigint, slices bigint, blocks_reserved bigint, blocks_prefetched bigint, refill_wanted boolean,
    waits bigint, wait_time_total double precision, wait_time_max double precision, rate double precision,
    in_slices bigint, in_current bigint, in_standby bigint, in_returned bigint,
    recycled bigint, lost bigint, errors bigint, last_error text, last_error_at timestamptz
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 100 AS 'MODULE_PATHNAME', 'stat_slots_wrapper';
COMMENT ON FUNCTION hilo.stat_slots() IS
    'Returns the slots in shared memory; times in milliseconds, rate in values per second';

CREATE FUNCTION hilo.stat_slices() RETURNS TABLE (
    sequence bigint, pid integer, next_value bigint, last_value bigint, left_in_slice bigint
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 100 AS 'MODULE_PATHNAME', 'stat_slices_wrapper';
COMMENT ON FUNCTION hilo.stat_slices() IS 'Returns the slices of the sessions';

CREATE FUNCTION hilo.stat_ranges() RETURNS TABLE (
    sequence bigint, first_value bigint, last_value bigint, count bigint, tier text, pid integer
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 300 AS 'MODULE_PATHNAME', 'stat_ranges_wrapper';
COMMENT ON FUNCTION hilo.stat_ranges() IS 'Returns the ranges of values in memory, each value exactly once';

CREATE FUNCTION hilo.stat_rates() RETURNS TABLE (
    sequence bigint, since timestamptz[], until timestamptz[], rate double precision[]
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 100 AS 'MODULE_PATHNAME', 'stat_rates_wrapper';
COMMENT ON FUNCTION hilo.stat_rates() IS
    'Returns, for each slot in shared memory, the intervals between samples, and the values per second in each';
-- The views. Each runs with its owner's rights and shows a role the sequences that the role may read.
--
-- The operands here have exactly the types of one of core's own operators: with other types, the schema of
-- the extension could contain an operator that matches better.

-- The part that the other views share. It is not a security barrier itself, so each of them is planned as one
-- query that finds definitions by key. Only those views may read it.
--
-- A role may read a sequence under the same conditions as one of core's: it is the owner or a member of it,
-- it has any privilege on the sequence, or it is a member of a predefined role that reads everything. The
-- conditions are ordered from cheap to expensive.
CREATE VIEW hilo.readable AS
    SELECT s.id, s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value,
           s.cycle, s.ordered, s.block_size, s.slice_size, s.key_format, s.owner, s.owned_by,
           s.gapless
      FROM hilo.sequence s
     WHERE (SELECT pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')
                OR pg_catalog.pg_has_role('pg_write_all_data', 'USAGE')
                OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
        OR pg_catalog.pg_has_role(s.owner::oid, 'USAGE')
        OR EXISTS (SELECT FROM hilo.privilege p
                    WHERE p.sequence = s.id
                      AND (p.grantee = 'public'::hilo.role
                           OR pg_catalog.pg_has_role(p.grantee::oid, 'USAGE')));
REVOKE ALL ON hilo.readable FROM PUBLIC;
COMMENT ON VIEW hilo.readable IS 'Definitions of the sequences that the current user may read';

-- What the catalog says of each of these sequences, active or not. As above, only the other views may read it.
CREATE VIEW hilo.reserved AS
    SELECT s.id, s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value,
           s.cycle, s.ordered, s.block_size, s.slice_size, s.key_format, s.owner, s.owned_by,
           s.gapless,
           n.node_id, p.base, p.next_index, p.node, p.nodes, p.stripe,
           v.next_value,
           CASE WHEN p.sequence IS NULL THEN NULL
                WHEN v.next_value IS NULL THEN 1
                WHEN s.increment > 0 THEN (v.next_value - v.low) / (v.high - v.low + 1::double precision)
                ELSE (v.high - v.next_value) / (v.high - v.low + 1::double precision)
           END AS used_fraction,
           COALESCE(l.leased, 0::bigint) AS leased
      FROM hilo.readable s
     CROSS JOIN (SELECT hilo.node_id() AS node_id) n
      LEFT JOIN hilo.position p ON p.sequence = s.id AND p.node = n.node_id
      -- One pass over all leases, however many sequences there are.
      LEFT JOIN (SELECT o.sequence, pg_catalog.sum(o.end_index - o.first_index)::bigint AS leased
                   FROM hilo.lease o
                  WHERE o.ended IS NULL AND (o.expires_at IS NULL OR o.expires_at > pg_catalog.clock_timestamp())
                  GROUP BY o.sequence) l ON l.sequence = s.id
     -- The value that would be reserved next; null beyond the last value, and without a position.
     CROSS JOIN LATERAL (
         SELECT hilo.value_at(p.next_index, p.base, s.increment, s.min_value, s.max_value, s.cycle,
                              p.node, p.nodes, p.stripe)::double precision AS next_value,
                s.min_value::double precision AS low,
                s.max_value::double precision AS high
     ) v;
REVOKE ALL ON hilo.reserved FROM PUBLIC;
COMMENT ON VIEW hilo.reserved IS
    'How far this server has reserved the sequences that the current user may read, and what of them is leased';

-- security_barrier, here and below: a function in a reader's WHERE clause must not see rows that the
-- conditions above exclude.
CREATE VIEW hilo_sequences WITH (security_barrier) AS
    SELECT s.name,
           pg_catalog.pg_get_userbyid(s.owner::oid) AS owner,
           s.data_type, s.start_value, s.min_value, s.max_value, s.increment, s.cycle, s.ordered,
           s.block_size, s.slice_size, s.key_format,
           s.node_id,
           hilo.value_at(s.next_index - 1, s.base, s.increment, s.min_value, s.max_value, s.cycle,
                         s.node, s.nodes, s.stripe) AS max_reserved,
           NULLIF(s.owned_by::text, '-') AS owned_by,
           s.gapless,
           s.used_fraction,
           s.leased
      FROM hilo.reserved s;
COMMENT ON VIEW hilo_sequences IS 'Sequences of this database that the current user may read';
COMMENT ON COLUMN hilo_sequences.name IS 'Name';
COMMENT ON COLUMN hilo_sequences.owner IS
    'Role that may alter, rename and drop the sequence and grant privileges on it';
COMMENT ON COLUMN hilo_sequences.data_type IS 'smallint, integer or bigint';
COMMENT ON COLUMN hilo_sequences.start_value IS 'First value, and the value at which a restart begins';
COMMENT ON COLUMN hilo_sequences.min_value IS 'Smallest value';
COMMENT ON COLUMN hilo_sequences.max_value IS 'Largest value';
COMMENT ON COLUMN hilo_sequences.increment IS 'Distance from one value to the next';
COMMENT ON COLUMN hilo_sequences.cycle IS 'Whether the sequence starts again at the other bound';
COMMENT ON COLUMN hilo_sequences.ordered IS 'Whether a later call gets a later value across all sessions';
COMMENT ON COLUMN hilo_sequences.block_size IS 'Number of values reserved at once; null: chosen by rate';
COMMENT ON COLUMN hilo_sequences.slice_size IS
    'Maximum number of values that a session takes from the pool at once; null: hilo.max_slice_size';
COMMENT ON COLUMN hilo_sequences.key_format IS
    'Template of the keys of the sequence; null: {name}/{server}{value}';
COMMENT ON COLUMN hilo_sequences.node_id IS 'hilo.node_id of this server';
COMMENT ON COLUMN hilo_sequences.max_reserved IS
    'Furthest value that this server has reserved so far; null before the first reservation';
COMMENT ON COLUMN hilo_sequences.owned_by IS
    'Column that owns the sequence, as schema.table.column: the sequence is dropped with it; null: none';
COMMENT ON COLUMN hilo_sequences.gapless IS
    'Whether the committed values have no holes, so that its transactions follow each other';
COMMENT ON COLUMN hilo_sequences.used_fraction IS
    'Fraction of the way from one bound to the other that this server has reserved: 0 to 1; null: it has no position yet';
COMMENT ON COLUMN hilo_sequences.leased IS 'Values in open leases';

CREATE VIEW hilo_stat_sequences WITH (security_barrier) AS
    SELECT s.name,
           st.served, st.slices, st.blocks_reserved, st.blocks_prefetched, st.refill_wanted,
           st.waits, st.wait_time_total, st.wait_time_max, st.rate,
           st.in_slices, st.in_current, st.in_standby, st.in_returned,
           st.recycled, st.lost, st.errors, st.last_error, st.last_error_at,
           s.used_fraction,
           -- Limited to what an interval can hold: some 289,000 years.
           CASE WHEN st.rate > 0::double precision AND NOT s.cycle AND s.base IS NOT NULL
                THEN pg_catalog.justify_interval(pg_catalog.make_interval(
                         secs => LEAST(f.values_left / st.rate, 9e12::double precision)))
           END AS exhausted_in,
           s.leased
      FROM hilo.stat_slots() st
      JOIN hilo.reserved s ON s.id = st.sequence
     CROSS JOIN LATERAL (
         SELECT (st.in_slices + st.in_current + st.in_standby + st.in_returned)::double precision AS in_memory,
                pg_catalog.abs(s.increment::double precision) AS step,
                CASE WHEN s.increment > 0 THEN s.max_value::double precision - s.next_value
                     ELSE s.next_value - s.min_value::double precision
                END AS span
     ) v
     CROSS JOIN LATERAL (
         SELECT CASE WHEN v.span IS NULL THEN v.in_memory
                     ELSE v.in_memory + pg_catalog.floor((v.span + v.step) / v.step / s.nodes::double precision)
                END AS values_left
     ) f;
COMMENT ON VIEW hilo_stat_sequences IS
    'What this server has done and holds for each active sequence since the server started, hilo_stat_reset '
    'was called, or the sequence became active again';
COMMENT ON COLUMN hilo_stat_sequences.name IS 'Name of the sequence';
COMMENT ON COLUMN hilo_stat_sequences.served IS 'Values served to callers';
COMMENT ON COLUMN hilo_stat_sequences.slices IS 'Slices that sessions have taken from the pool';
COMMENT ON COLUMN hilo_stat_sequences.blocks_reserved IS 'Blocks reserved in the catalog';
COMMENT ON COLUMN hilo_stat_sequences.blocks_prefetched IS
    'Reserved blocks that were ready before any caller had to wait';
COMMENT ON COLUMN hilo_stat_sequences.refill_wanted IS
    'Whether a block has been requested and is not ready yet';
COMMENT ON COLUMN hilo_stat_sequences.waits IS 'Calls that had to wait for a block';
COMMENT ON COLUMN hilo_stat_sequences.wait_time_total IS
    'Total time that these calls waited, in milliseconds';
COMMENT ON COLUMN hilo_stat_sequences.wait_time_max IS 'Longest wait, in milliseconds';
COMMENT ON COLUMN hilo_stat_sequences.rate IS 'Values per second over hilo.window';
COMMENT ON COLUMN hilo_stat_sequences.in_slices IS 'Values that sessions hold now';
COMMENT ON COLUMN hilo_stat_sequences.in_current IS 'Values left in the block that is being served';
COMMENT ON COLUMN hilo_stat_sequences.in_standby IS 'Values in the blocks queued behind it';
COMMENT ON COLUMN hilo_stat_sequences.in_returned IS
    'Values that sessions have returned and that are ready to be taken again';
COMMENT ON COLUMN hilo_stat_sequences.recycled IS 'Values that one session returned and another took';
COMMENT ON COLUMN hilo_stat_sequences.lost IS
    'Values that left memory without being served: the sequence was renumbered, or the pool had no room';
COMMENT ON COLUMN hilo_stat_sequences.errors IS 'Reservations that failed';
COMMENT ON COLUMN hilo_stat_sequences.last_error IS 'Error message of the last reservation that failed';
COMMENT ON COLUMN hilo_stat_sequences.last_error_at IS 'Time of the last reservation that failed';
COMMENT ON COLUMN hilo_stat_sequences.used_fraction IS
    'Fraction of the way from one bound to the other that is reserved: 0 to 1';
COMMENT ON COLUMN hilo_stat_sequences.exhausted_in IS
    'Time until the last value is served, at the current rate; null without traffic and for a sequence that '
    'cycles';
COMMENT ON COLUMN hilo_stat_sequences.leased IS 'Values in open leases';

CREATE VIEW hilo_stat_rates WITH (security_barrier) AS
    SELECT s.name, i.since, i.until, i.rate
      FROM hilo.stat_rates() st
      JOIN hilo.readable s ON s.id = st.sequence
     CROSS JOIN LATERAL unnest(st.since, st.until, st.rate) AS i (since, until, rate);
COMMENT ON VIEW hilo_stat_rates IS
    'How the rate of each active sequence has changed: an eighth or so of hilo.window in each row';
COMMENT ON COLUMN hilo_stat_rates.name IS 'Name of the sequence';
COMMENT ON COLUMN hilo_stat_rates.since IS 'When the rate was sampled first';
COMMENT ON COLUMN hilo_stat_rates.until IS 'When it was sampled next; of the last row, now';
COMMENT ON COLUMN hilo_stat_rates.rate IS 'Values per second between the two';

CREATE VIEW hilo_stat_backends WITH (security_barrier) AS
    SELECT st.pid, s.name, st.next_value, st.last_value, st.left_in_slice
      FROM hilo.stat_slices() st
      JOIN hilo.readable s ON s.id = st.sequence;
COMMENT ON VIEW hilo_stat_backends IS 'Slices that sessions hold';
COMMENT ON COLUMN hilo_stat_backends.pid IS 'Process ID of the session, as in pg_stat_activity';
COMMENT ON COLUMN hilo_stat_backends.name IS 'Name of the sequence';
COMMENT ON COLUMN hilo_stat_backends.next_value IS
    'Value that the session serves next; null if the slice is used up';
COMMENT ON COLUMN hilo_stat_backends.last_value IS
    'Value before next_value, usually the last one that the session served';
COMMENT ON COLUMN hilo_stat_backends.left_in_slice IS 'Values left in the slice';

CREATE VIEW hilo_blocks WITH (security_barrier) AS
    SELECT s.name, r.first_value AS first, r.last_value AS last, r.count, r.tier, r.pid
      FROM hilo.stat_ranges() r
      JOIN hilo.readable s ON s.id = r.sequence;
COMMENT ON VIEW hilo_blocks IS 'Values in memory, as ranges that never overlap';
COMMENT ON COLUMN hilo_blocks.name IS 'Name of the sequence';
COMMENT ON COLUMN hilo_blocks.first IS 'First value, in the order of serving';
COMMENT ON COLUMN hilo_blocks.last IS 'Last value, in the order of serving';
COMMENT ON COLUMN hilo_blocks.count IS 'Number of values, in steps of the increment';
COMMENT ON COLUMN hilo_blocks.tier IS
    'slice: held by a session; current: being served; standby: served next; returned: returned by a session '
    'and ready to be taken; leased: an open transaction leases them out';
COMMENT ON COLUMN hilo_blocks.pid IS
    'Process ID of the session that holds the slice; null in the other tiers';

CREATE VIEW hilo_gaps WITH (security_barrier) AS
    SELECT COALESCE(s.name, g.name) AS name, g.first_value AS first, g.last_value AS last, g.count, g.reason,
           g.node AS node_id, g.recorded_at
      FROM hilo.gap g
      LEFT JOIN hilo.readable s ON s.id = g.sequence
     WHERE s.id IS NOT NULL
        -- The sequence of a released column has no privileges any more.
        OR g.name IS NOT NULL
           AND (SELECT pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')
                    OR pg_catalog.pg_has_role('pg_write_all_data', 'USAGE')
                    OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
    UNION ALL
    -- Leases that have ended without a return, and that the worker has not filed yet.
    SELECT s.name, l.first_value, l.last_value, l.end_index - l.first_index,
           COALESCE(l.ended, 'expired'), l.node, COALESCE(l.ended_at, l.expires_at)
      FROM hilo.lease l
      JOIN hilo.readable s ON s.id = l.sequence
     WHERE l.ended = 'revoked'
        OR l.ended IS NULL AND l.expires_at <= pg_catalog.clock_timestamp();
COMMENT ON VIEW hilo_gaps IS
    'Ranges of values that were reserved, will no longer be served and are not known to have been served, '
    'each with the reason';
COMMENT ON COLUMN hilo_gaps.name IS
    'Name of the sequence; those who may read everything also see what a released column has lost';
COMMENT ON COLUMN hilo_gaps.first IS 'First value, in the order of serving';
COMMENT ON COLUMN hilo_gaps.last IS 'Last value, in the order of serving';
COMMENT ON COLUMN hilo_gaps.count IS 'Number of values, in steps of the increment';
COMMENT ON COLUMN hilo_gaps.reason IS
    'crash: the server died with the values in memory; discarded: the values could not be kept, or were '
    'skipped after a promotion or a restore, or leased by a transaction that was rolled back; altered: hilo_alter or hilo_setval made '
    'the values invalid; expired: their lease expired; revoked: their lease was revoked';
COMMENT ON COLUMN hilo_gaps.node_id IS 'hilo.node_id of the server that had reserved the values';
COMMENT ON COLUMN hilo_gaps.recorded_at IS 'When the values were found to be lost';

CREATE VIEW hilo_leases WITH (security_barrier) AS
    SELECT CASE WHEN e.may_end THEN l.lease END AS lease,
           s.name,
           l.holder,
           pg_catalog.pg_get_userbyid(l.role::oid) AS usename,
           CASE WHEN e.may_end THEN l.client_addr END AS client_addr,
           l.first_value AS first, l.last_value AS last,
           l.end_index - l.first_index AS count,
           l.leased_at, l.expires_at, l.node AS node_id
      FROM hilo.lease l
      JOIN hilo.readable s ON s.id = l.sequence
     CROSS JOIN LATERAL (
         SELECT pg_catalog.pg_has_role(s.owner::oid, 'USAGE')
             OR l.role <> '-'::hilo.role AND pg_catalog.pg_has_role(l.role::oid, 'USAGE') AS may_end
     ) e
     WHERE l.ended IS NULL AND (l.expires_at IS NULL OR l.expires_at > pg_catalog.clock_timestamp());
COMMENT ON VIEW hilo_leases IS 'Leases that are open: ranges of values in use outside of this server';
COMMENT ON COLUMN hilo_leases.lease IS
    'Name of the lease, for hilo_lease_return, hilo_lease_renew and hilo_lease_revoke; null for those who may not '
    'end it';
COMMENT ON COLUMN hilo_leases.name IS 'Name of the sequence';
COMMENT ON COLUMN hilo_leases.holder IS 'Who holds the lease, as it called itself';
COMMENT ON COLUMN hilo_leases.usename IS 'Role that took the lease';
COMMENT ON COLUMN hilo_leases.client_addr IS
    'Address from which the lease was taken; null for a socket of this machine, and for those who may not end it';
COMMENT ON COLUMN hilo_leases.first IS 'First value, in the order of serving';
COMMENT ON COLUMN hilo_leases.last IS 'Last value, in the order of serving';
COMMENT ON COLUMN hilo_leases.count IS 'Number of values, in steps of the increment';
COMMENT ON COLUMN hilo_leases.leased_at IS 'When the lease was taken';
COMMENT ON COLUMN hilo_leases.expires_at IS 'When the lease expires; null: never';
COMMENT ON COLUMN hilo_leases.node_id IS 'hilo.node_id of the server that leased the values out';

-- All roles may see the privileges on the sequences that they may read, and the default privileges that concern
-- them.
CREATE VIEW hilo_privileges WITH (security_barrier) AS
    SELECT s.name,
           CASE WHEN p.grantee = 'public'::hilo.role THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(p.grantee::oid)::text END AS grantee,
           p.privilege,
           pg_catalog.pg_get_userbyid(p.grantor::oid) AS grantor
      FROM hilo.privilege p
      JOIN hilo.readable s ON s.id = p.sequence;
COMMENT ON VIEW hilo_privileges IS
    'Privileges that hilo_grant and hilo_grant_all have given on the sequences that the current user may read';
COMMENT ON COLUMN hilo_privileges.name IS 'Name of the sequence';
COMMENT ON COLUMN hilo_privileges.grantee IS 'Role that has the privilege, or PUBLIC';
COMMENT ON COLUMN hilo_privileges.privilege IS 'USAGE, SELECT or UPDATE';
COMMENT ON COLUMN hilo_privileges.grantor IS 'Role that granted it: the owner at that time, or the present one';

CREATE VIEW hilo_default_privileges WITH (security_barrier) AS
    SELECT pg_catalog.pg_get_userbyid(d.owner::oid) AS owner,
           d.pattern,
           CASE WHEN d.grantee = 'public'::hilo.role THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(d.grantee::oid)::text END AS grantee,
           d.privilege
      FROM hilo.default_privilege d
     WHERE d.grantee = 'public'::hilo.role
        OR pg_catalog.pg_has_role(d.owner::oid, 'USAGE')
        OR pg_catalog.pg_has_role(d.grantee::oid, 'USAGE');
COMMENT ON VIEW hilo_default_privileges IS
    'Privileges that new sequences start with, as hilo_default_grant has set them: those for sequences of the '
    'current user, and those that the current user would get';
COMMENT ON COLUMN hilo_default_privileges.owner IS 'Role that creates the sequences';
COMMENT ON COLUMN hilo_default_privileges.pattern IS 'Pattern of LIKE that their names match';
COMMENT ON COLUMN hilo_default_privileges.grantee IS 'Role that gets the privilege, or PUBLIC';
COMMENT ON COLUMN hilo_default_privileges.privilege IS 'USAGE, SELECT or UPDATE';

-- All roles may read these views: each role sees only the sequences that it may read, and nothing of another
-- database.
GRANT SELECT ON hilo_sequences, hilo_stat_sequences, hilo_stat_backends, hilo_blocks, hilo_gaps,
    hilo_leases, hilo_privileges, hilo_default_privileges, hilo_stat_rates TO PUBLIC;
