-- The tables of hilo. Only the library writes to them, as core writes to its own catalogs, and it relies on
-- their column order. They are dumped with the database, so the sequences survive a dump and restore. They have a
-- schema of their own, which is in no search_path: tools that work on whatever tables they find do not find these.

CREATE SCHEMA _hilo;
REVOKE ALL ON SCHEMA _hilo FROM PUBLIC;
COMMENT ON SCHEMA _hilo IS 'Tables of the extension hilo. Use the functions and views named hilo_* instead.';

CREATE TABLE _hilo.sequence (
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
    source text,
    reserve_ahead bigint,
    CONSTRAINT sequence_pkey PRIMARY KEY (id),
    CONSTRAINT sequence_name_key UNIQUE (name)
);
-- Finds the sequences of an owner, for DROP ROLE, DROP OWNED and REASSIGN OWNED.
CREATE INDEX sequence_owner_idx ON _hilo.sequence (owner);
-- Finds the sequences of a column or table that is dropped, truncated or given to another role.
CREATE INDEX sequence_owned_by_idx ON _hilo.sequence (owned_by pg_catalog.int8_ops);
COMMENT ON TABLE _hilo.sequence IS 'Definitions of the sequences';
COMMENT ON COLUMN _hilo.sequence.id IS 'Identifier of the sequence in this database, never reused';
COMMENT ON COLUMN _hilo.sequence.name IS 'Name, in the form of type hilo_sequence';
COMMENT ON COLUMN _hilo.sequence.data_type IS 'smallint, integer or bigint: limits the values';
COMMENT ON COLUMN _hilo.sequence.start_value IS 'First value, and the value at which a restart begins';
COMMENT ON COLUMN _hilo.sequence.increment IS
    'Distance from one value to the next, negative for a descending sequence, never 0';
COMMENT ON COLUMN _hilo.sequence.min_value IS 'Smallest value';
COMMENT ON COLUMN _hilo.sequence.max_value IS 'Largest value';
COMMENT ON COLUMN _hilo.sequence.cycle IS 'Whether the sequence starts again at the other bound';
COMMENT ON COLUMN _hilo.sequence.ordered IS 'Whether a later call gets a later value across all sessions';
COMMENT ON COLUMN _hilo.sequence.block_size IS 'Number of values reserved at once; null: chosen by rate';
COMMENT ON COLUMN _hilo.sequence.slice_size IS
    'Maximum number of values that a session takes from the pool at once; null: hilo.max_slice_size';
COMMENT ON COLUMN _hilo.sequence.key_format IS
    'Template of the keys of the sequence; null: {name}/{server}{value}';
COMMENT ON COLUMN _hilo.sequence.owner IS
    'Role that may alter, rename and drop the sequence and grant privileges on it';
COMMENT ON COLUMN _hilo.sequence.created_at IS 'When the sequence was created';
COMMENT ON COLUMN _hilo.sequence.owned_by IS
    'Column that owns the sequence, which is dropped with it; null: none';
COMMENT ON COLUMN _hilo.sequence.gapless IS
    'Whether the committed values have no holes, so that its transactions follow each other';
COMMENT ON COLUMN _hilo.sequence.source IS
    'Query that brings the values, run as the owner; null: the sequence numbers itself';
COMMENT ON COLUMN _hilo.sequence.reserve_ahead IS
    'Number of seconds whose values are kept ahead of the source; null: as hilo.buffer says';

-- An update changes neither of the two index columns. With half of each page free it finds room next to the
-- old version (HOT), and no index grows. Old versions are removed early, because every reservation reads past
-- those that are left.
CREATE TABLE _hilo.position (
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
    served bigint NOT NULL DEFAULT 0,
    slices bigint NOT NULL DEFAULT 0,
    blocks_reserved bigint NOT NULL DEFAULT 0,
    blocks_prefetched bigint NOT NULL DEFAULT 0,
    waits bigint NOT NULL DEFAULT 0,
    wait_time bigint NOT NULL DEFAULT 0,
    recycled bigint NOT NULL DEFAULT 0,
    lost bigint NOT NULL DEFAULT 0,
    errors bigint NOT NULL DEFAULT 0,
    CONSTRAINT position_pkey PRIMARY KEY (sequence, node) WITH (fillfactor = 90)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE _hilo.position IS
    'How far each node has reserved each sequence. Indexes count the values of a node: 0, 1, 2, ...';
COMMENT ON COLUMN _hilo.position.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.position.node IS 'hilo.node_id of the server that the position belongs to';
COMMENT ON COLUMN _hilo.position.epoch IS 'Raised by every change that makes values in memory invalid';
COMMENT ON COLUMN _hilo.position.base IS 'Value at which the mapping from index to value starts';
COMMENT ON COLUMN _hilo.position.next_index IS 'First index that is not reserved';
COMMENT ON COLUMN _hilo.position.settled_index IS
    'Indexes below this one are served, in _hilo.free_range or in _hilo.gap; those from this one up to '
    'next_index may be in the memory of the server life "incarnation"';
COMMENT ON COLUMN _hilo.position.incarnation IS
    'Server life that holds the unsettled indexes; 0: no life holds them; -1: no life holds them yet, '
    'because the row comes from a dump';
COMMENT ON COLUMN _hilo.position.nodes IS 'hilo.node_count that the mapping was made with';
COMMENT ON COLUMN _hilo.position.stripe IS 'Number of values in a stripe; the nodes take stripes in turn';
COMMENT ON COLUMN _hilo.position.system_id IS
    'System identifier of the cluster that reserved last, by which a restored or cloned cluster is recognized';
COMMENT ON COLUMN _hilo.position.timeline IS
    'Timeline of the last reservation, by which a promoted server is recognized; -1: the row arrived by '
    'logical replication';
COMMENT ON COLUMN _hilo.position.skip IS
    'Number of values that a server skips by default if it takes over from a copy of this row, by the rate of '
    'reservations';
COMMENT ON COLUMN _hilo.position.served IS
    'Number of values that the node had served when the row was written';
COMMENT ON COLUMN _hilo.position.slices IS 'As served: slices that sessions had taken';
COMMENT ON COLUMN _hilo.position.blocks_reserved IS 'As served: blocks that had been reserved';
COMMENT ON COLUMN _hilo.position.blocks_prefetched IS 'As served: blocks that no caller had waited for';
COMMENT ON COLUMN _hilo.position.waits IS 'As served: calls that had waited for a block';
COMMENT ON COLUMN _hilo.position.wait_time IS 'As served: how long they had waited, in microseconds';
COMMENT ON COLUMN _hilo.position.recycled IS 'As served: values that one session had returned and another taken';
COMMENT ON COLUMN _hilo.position.lost IS 'As served: values that had left memory without being served';
COMMENT ON COLUMN _hilo.position.errors IS 'As served: reservations that had failed';

-- Rows are often added and removed, so these settings are as above, without the room for updates.
CREATE TABLE _hilo.free_range (
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
COMMENT ON TABLE _hilo.free_range IS
    'Ranges of indexes that were reserved and returned: free, or lent to the memory of a server again';
COMMENT ON COLUMN _hilo.free_range.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.free_range.node IS 'hilo.node_id of the server that may serve the range';
COMMENT ON COLUMN _hilo.free_range.epoch IS
    'Epoch that the indexes belong to; in any other epoch the range is meaningless';
COMMENT ON COLUMN _hilo.free_range.first_index IS 'First index';
COMMENT ON COLUMN _hilo.free_range.end_index IS 'Index after the last one';
COMMENT ON COLUMN _hilo.free_range.incarnation IS
    'Server life whose memory holds the range; 0: no life holds it, the range is free';

CREATE TABLE _hilo.gap (
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
CREATE INDEX gap_sequence_idx ON _hilo.gap (sequence);
-- The table has no key; this lets deletes be replicated all the same.
ALTER TABLE _hilo.gap REPLICA IDENTITY FULL;
COMMENT ON TABLE _hilo.gap IS
    'Ranges of values that will no longer be served and are not known to have been served';
COMMENT ON COLUMN _hilo.gap.sequence IS '_hilo.sequence.id; 0: the column of the sequence was released';
COMMENT ON COLUMN _hilo.gap.node IS 'hilo.node_id of the server that had reserved the range';
COMMENT ON COLUMN _hilo.gap.first_value IS 'First value, in the order of serving';
COMMENT ON COLUMN _hilo.gap.last_value IS 'Last value, in the order of serving';
COMMENT ON COLUMN _hilo.gap.count IS
    'Number of values that are lost, in steps of the increment that the sequence had at that time. Gaps of one reason that '
    'touch and come about in the same hour are one row. At about 1,000 rows the nearest of one reason become one, in '
    'which other values lie between those that are lost';
COMMENT ON COLUMN _hilo.gap.reason IS
    'crash: the server died with the range in memory; discarded: it could not be kept, was skipped after a promotion '
    'or a restore, or came in a refused answer of a source; or its lease was rolled back; altered: hilo_alter or '
    'hilo_setval made the range invalid, or the sequence was moved beyond it; expired: its lease expired; revoked: '
    'its lease was revoked';
COMMENT ON COLUMN _hilo.gap.recorded_at IS 'When the range, or the last part of it, was found to be lost';
COMMENT ON COLUMN _hilo.gap.name IS
    'Name of the sequence, if its column was released; null for a sequence that exists';
COMMENT ON COLUMN _hilo.gap.released_from IS
    'That column: a sequence that adopts it gets the row';

CREATE TABLE _hilo.lease (
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
CREATE INDEX lease_sequence_idx ON _hilo.lease (sequence, node, due_at);
-- Finds what is to be filed next.
CREATE INDEX lease_due_at_idx ON _hilo.lease (due_at);
-- Finds the leases of a holder.
CREATE INDEX lease_holder_idx ON _hilo.lease (holder);
COMMENT ON TABLE _hilo.lease IS 'Ranges of values that are in use outside of this server';
COMMENT ON COLUMN _hilo.lease.lease IS 'Random name of the lease, by which its holder ends or renews it';
COMMENT ON COLUMN _hilo.lease.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.lease.node IS 'hilo.node_id of the server that leased the range out';
COMMENT ON COLUMN _hilo.lease.epoch IS 'Epoch that the indexes belong to';
COMMENT ON COLUMN _hilo.lease.first_index IS 'First index';
COMMENT ON COLUMN _hilo.lease.end_index IS 'Index after the last one';
COMMENT ON COLUMN _hilo.lease.next_index IS 'First index that the holder has not used, as far as is known';
COMMENT ON COLUMN _hilo.lease.first_value IS 'First value, in the order of serving';
COMMENT ON COLUMN _hilo.lease.last_value IS 'Last value, in the order of serving';
COMMENT ON COLUMN _hilo.lease.increment IS 'Distance from one value to the next';
COMMENT ON COLUMN _hilo.lease.holder IS 'Who holds the lease, as it called itself; null: not stated';
COMMENT ON COLUMN _hilo.lease.role IS 'Role that took the lease';
COMMENT ON COLUMN _hilo.lease.client_addr IS 'Address from which the lease was taken; null: a socket of this machine';
COMMENT ON COLUMN _hilo.lease.leased_at IS 'When the lease was taken';
COMMENT ON COLUMN _hilo.lease.expires_at IS 'When the lease expires; null: never';
COMMENT ON COLUMN _hilo.lease.ended IS 'returned or revoked: how the lease ended before it expired; null: it has not';
COMMENT ON COLUMN _hilo.lease.ended_at IS 'When that happened';
COMMENT ON COLUMN _hilo.lease.due_at IS
    'When the worker files the lease: as free or as a gap; -infinity: at the next opportunity; null: never, as '
    'far as is known';
COMMENT ON COLUMN _hilo.lease.system_id IS 'System identifier of the cluster that leased the range out';
COMMENT ON COLUMN _hilo.lease.timeline IS
    'Timeline on which the range was leased out; -1: the row was restored. If its rest is returned to another server '
    'than the one that leased it out, it is not served again';
COMMENT ON COLUMN _hilo.lease.passed IS
    'Whether hilo_advance or hilo_sync has moved the sequence beyond values of the range: what comes back is not '
    'served again';

CREATE TABLE _hilo.source (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    request uuid,
    wanted bigint,
    requested_at timestamptz,
    system_id bigint NOT NULL,
    timeline integer NOT NULL,
    requested bigint NOT NULL,
    received bigint NOT NULL,
    first_value bigint,
    last_value bigint,
    own_first bigint,
    own_last bigint,
    latency bigint NOT NULL,
    failures integer NOT NULL,
    last_error text,
    last_error_at timestamptz,
    database bigint NOT NULL,
    receiver bigint NOT NULL,
    CONSTRAINT source_pkey PRIMARY KEY (sequence, node)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500
);
COMMENT ON TABLE _hilo.source IS
    'Requests to the sources of sequences, and the values that they have brought';
COMMENT ON COLUMN _hilo.source.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.source.node IS 'hilo.node_id of the server';
COMMENT ON COLUMN _hilo.source.request IS 'The request that has no answer yet; null: there is none';
COMMENT ON COLUMN _hilo.source.wanted IS 'How many values it asks for';
COMMENT ON COLUMN _hilo.source.requested_at IS 'When it was written down';
COMMENT ON COLUMN _hilo.source.system_id IS 'System identifier of the cluster that the row is of';
COMMENT ON COLUMN _hilo.source.timeline IS
    'Its timeline. A server on another one makes a request of its own: the answer may be the first server''s';
COMMENT ON COLUMN _hilo.source.requested IS 'Number of values asked for';
COMMENT ON COLUMN _hilo.source.received IS 'Number of values received';
COMMENT ON COLUMN _hilo.source.first_value IS 'Smallest value that the source has brought';
COMMENT ON COLUMN _hilo.source.last_value IS 'Largest value that the source has brought';
COMMENT ON COLUMN _hilo.source.own_first IS
    'Smallest value that the sequence may have served before it had this source; what the source brings may not touch these';
COMMENT ON COLUMN _hilo.source.own_last IS 'Largest of them';
COMMENT ON COLUMN _hilo.source.latency IS 'How long the last answer took, in microseconds';
COMMENT ON COLUMN _hilo.source.failures IS 'How often the source has failed since it last answered';
COMMENT ON COLUMN _hilo.source.last_error IS 'Error of the last failure, with its DETAIL and HINT';
COMMENT ON COLUMN _hilo.source.last_error_at IS 'Time of the last failure';
COMMENT ON COLUMN _hilo.source.database IS
    'Database that the row is of, by which a copy made from a template is recognized';
COMMENT ON COLUMN _hilo.source.receiver IS
    'Random number that a copy which was promoted or restored does not share: the first eight digits '
    'of each request';

CREATE TABLE _hilo.privilege (
    sequence bigint NOT NULL,
    grantee hilo.role NOT NULL,
    privilege text COLLATE "C" NOT NULL
        CONSTRAINT privilege_privilege_check CHECK (privilege IN ('USAGE', 'SELECT', 'UPDATE')),
    grantor hilo.role NOT NULL,
    CONSTRAINT privilege_pkey PRIMARY KEY (sequence, grantee, privilege)
);
CREATE INDEX privilege_grantee_idx ON _hilo.privilege (grantee);
COMMENT ON TABLE _hilo.privilege IS 'Roles other than the owner that may use, read or change a sequence';
COMMENT ON COLUMN _hilo.privilege.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.privilege.grantee IS 'Role that has the privilege, or public';
COMMENT ON COLUMN _hilo.privilege.privilege IS
    'USAGE: next values, currval, keys; SELECT: currval, reading; UPDATE: next values, setval, ranges and hi';
COMMENT ON COLUMN _hilo.privilege.grantor IS 'Role that granted it';

CREATE TABLE _hilo.default_privilege (
    owner hilo.role NOT NULL,
    pattern text COLLATE "C" NOT NULL,
    grantee hilo.role NOT NULL,
    privilege text COLLATE "C" NOT NULL
        CONSTRAINT default_privilege_privilege_check CHECK (privilege IN ('USAGE', 'SELECT', 'UPDATE')),
    CONSTRAINT default_privilege_pkey PRIMARY KEY (owner, pattern, grantee, privilege)
);
CREATE INDEX default_privilege_grantee_idx ON _hilo.default_privilege (grantee);
COMMENT ON TABLE _hilo.default_privilege IS 'Privileges that new sequences start with';
COMMENT ON COLUMN _hilo.default_privilege.owner IS 'Role that creates the sequences';
COMMENT ON COLUMN _hilo.default_privilege.pattern IS 'Pattern of LIKE that their names match';
COMMENT ON COLUMN _hilo.default_privilege.grantee IS 'Role that gets the privilege, or public';
COMMENT ON COLUMN _hilo.default_privilege.privilege IS 'USAGE, SELECT or UPDATE, as in _hilo.privilege';

-- Only the extension's owner reads or writes these tables. hilo_check reports roles that default privileges
-- have allowed to write to them.
REVOKE ALL ON _hilo.sequence, _hilo.position, _hilo.free_range, _hilo.gap, _hilo.lease, _hilo.source,
    _hilo.privilege, _hilo.default_privilege FROM PUBLIC;

-- pg_dump locks the tables and copies their rows, also if the owner of the database runs it. It
-- refuses row security.
GRANT USAGE ON SCHEMA _hilo TO pg_database_owner;
GRANT SELECT ON ALL TABLES IN SCHEMA _hilo TO pg_database_owner;

SELECT pg_catalog.pg_extension_config_dump('_hilo.sequence', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.position', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.free_range', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.gap', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.lease', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.source', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.privilege', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.default_privilege', '');
