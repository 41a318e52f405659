-- The tables of hilo. Only the library writes to them, as core writes to its own catalogs, and it
-- relies on their column order. They are dumped with the database, so the sequences survive a dump
-- and restore.

-- The options come last, in the order of each_option! (src/core/options.rs).
CREATE TABLE _hilo.hilo_definition (
    id bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner _hilo.hilo_role NOT NULL,
    created_at timestamptz NOT NULL,
    owned_by _hilo.hilo_column,
    extension text COLLATE "C",
    former text COLLATE "C",
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
    gapless boolean NOT NULL DEFAULT false,
    source text,
    reserve_ahead bigint,
    description text,
    CONSTRAINT hilo_definition_pkey PRIMARY KEY (id),
    CONSTRAINT hilo_definition_name_key UNIQUE (name)
);
-- Finds the sequences of an owner, for DROP ROLE, DROP OWNED and REASSIGN OWNED.
CREATE INDEX hilo_definition_owner_idx ON _hilo.hilo_definition (owner);
-- Finds the sequences of a column or table that is dropped, truncated or given to another role.
CREATE INDEX hilo_definition_owned_by_idx ON _hilo.hilo_definition (owned_by pg_catalog.int8_ops);
COMMENT ON TABLE _hilo.hilo_definition IS 'Definitions of the sequences';
COMMENT ON COLUMN _hilo.hilo_definition.id IS
    'Identifier of the sequence in this database, never reused';
COMMENT ON COLUMN _hilo.hilo_definition.name IS 'Name, in the form of type hilo_sequence';
COMMENT ON COLUMN _hilo.hilo_definition.owner IS
    'Role that may alter, rename and drop the sequence and grant privileges on it';
COMMENT ON COLUMN _hilo.hilo_definition.created_at IS 'When the sequence was created';
COMMENT ON COLUMN _hilo.hilo_definition.owned_by IS
    'Column that owns the sequence, which is dropped with it; null: none';
COMMENT ON COLUMN _hilo.hilo_definition.extension IS
    'Extension whose script created the sequence, which is dropped with it; null: none';
COMMENT ON COLUMN _hilo.hilo_definition.former IS
    'The sequence of Postgres that this one replaced, as hilo_release needs to know it, in JSON; '
    'null: none';
COMMENT ON COLUMN _hilo.hilo_definition.data_type IS
    'smallint, integer or bigint: limits the values';
COMMENT ON COLUMN _hilo.hilo_definition.start_value IS
    'First value, and the value at which a restart begins';
COMMENT ON COLUMN _hilo.hilo_definition.increment IS
    'Distance from one value to the next, negative for a descending sequence, never 0';
COMMENT ON COLUMN _hilo.hilo_definition.min_value IS 'Smallest value';
COMMENT ON COLUMN _hilo.hilo_definition.max_value IS 'Largest value';
COMMENT ON COLUMN _hilo.hilo_definition.cycle IS
    'Whether the sequence starts again at the other bound';
COMMENT ON COLUMN _hilo.hilo_definition.ordered IS
    'Whether a later call gets a later value across all sessions';
COMMENT ON COLUMN _hilo.hilo_definition.block_size IS
    'Number of values reserved at once; null: chosen by rate';
COMMENT ON COLUMN _hilo.hilo_definition.slice_size IS
    'Maximum number of values that a session takes from the pool at once; null: '
    'hilo.max_slice_size';
COMMENT ON COLUMN _hilo.hilo_definition.key_format IS
    'Template of the keys of the sequence; null: {name}/{server}{value}';
COMMENT ON COLUMN _hilo.hilo_definition.gapless IS
    'Whether the committed values have no holes, so that its transactions follow each other';
COMMENT ON COLUMN _hilo.hilo_definition.source IS
    'Query that brings the values, run as the owner; null: the sequence numbers itself';
COMMENT ON COLUMN _hilo.hilo_definition.reserve_ahead IS
    'Number of seconds whose values are kept ahead of the source; null: as hilo.buffer says';
COMMENT ON COLUMN _hilo.hilo_definition.description IS
    'Purpose of the sequence; null: none is stated';

-- An update changes neither of the two index columns. With half of each page free it finds room
-- next to the old version (HOT), and no index grows. Old versions are removed early, because every
-- reservation reads past those that are left.
CREATE TABLE _hilo.hilo_position (
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
    CONSTRAINT hilo_position_pkey PRIMARY KEY (sequence, node) WITH (fillfactor = 90)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE _hilo.hilo_position IS
    'How far each node has reserved each sequence. Indexes count the values of a node: 0, 1, 2, '
    '...';
COMMENT ON COLUMN _hilo.hilo_position.sequence IS '_hilo.hilo_definition.id';
COMMENT ON COLUMN _hilo.hilo_position.node IS
    'hilo.node_id of the server that the position belongs to';
COMMENT ON COLUMN _hilo.hilo_position.epoch IS
    'Raised by every change that makes values in memory invalid';
COMMENT ON COLUMN _hilo.hilo_position.base IS
    'Value at which the mapping from index to value starts';
COMMENT ON COLUMN _hilo.hilo_position.next_index IS 'First index that is not reserved';
COMMENT ON COLUMN _hilo.hilo_position.settled_index IS
    'Indexes below this one are served, in _hilo.hilo_free_range or in _hilo.hilo_gap; those from '
    'this one up to next_index may be in the memory of the server life "incarnation"';
COMMENT ON COLUMN _hilo.hilo_position.incarnation IS
    'Server life that holds the unsettled indexes; 0: no life holds them; -1: no life holds them '
    'yet, because the row comes from a dump';
COMMENT ON COLUMN _hilo.hilo_position.nodes IS 'hilo.node_count that the mapping was made with';
COMMENT ON COLUMN _hilo.hilo_position.stripe IS
    'Number of values in a stripe; the nodes take stripes in turn';
COMMENT ON COLUMN _hilo.hilo_position.system_id IS
    'System identifier of the cluster that reserved last, by which a restored or cloned cluster '
    'is recognized';
COMMENT ON COLUMN _hilo.hilo_position.timeline IS
    'Timeline of the last reservation, by which a promoted server is recognized; -1: the row '
    'arrived by logical replication';
COMMENT ON COLUMN _hilo.hilo_position.skip IS
    'Number of values that a server skips by default if it takes over from a copy of this row, by '
    'the rate of reservations';
COMMENT ON COLUMN _hilo.hilo_position.served IS
    'Number of values that the node had served when the row was written';
COMMENT ON COLUMN _hilo.hilo_position.slices IS
    'Number of slices that sessions had taken when the row was written';
COMMENT ON COLUMN _hilo.hilo_position.blocks_reserved IS
    'Number of blocks that had been reserved when the row was written';
COMMENT ON COLUMN _hilo.hilo_position.blocks_prefetched IS
    'Number of blocks that no caller had waited for when the row was written';
COMMENT ON COLUMN _hilo.hilo_position.waits IS
    'Number of calls that had waited for a block when the row was written';
COMMENT ON COLUMN _hilo.hilo_position.wait_time IS
    'How long these calls had waited, in microseconds';
COMMENT ON COLUMN _hilo.hilo_position.recycled IS
    'Number of values that one session had returned and another taken when the row was written';
COMMENT ON COLUMN _hilo.hilo_position.lost IS
    'Number of values that had left memory without being served when the row was written';
COMMENT ON COLUMN _hilo.hilo_position.errors IS
    'Number of reservations that had failed when the row was written';

-- Rows are often added and removed, so these settings are as above, without the room for updates.
CREATE TABLE _hilo.hilo_free_range (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    epoch bigint NOT NULL,
    first_index bigint NOT NULL,
    end_index bigint NOT NULL,
    incarnation bigint NOT NULL DEFAULT 0,
    CONSTRAINT hilo_free_range_pkey PRIMARY KEY (sequence, node, epoch, incarnation, first_index)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500
);
COMMENT ON TABLE _hilo.hilo_free_range IS
    'Ranges of indexes that were reserved and returned: free, or lent to the memory of a server '
    'again';
COMMENT ON COLUMN _hilo.hilo_free_range.sequence IS '_hilo.hilo_definition.id';
COMMENT ON COLUMN _hilo.hilo_free_range.node IS
    'hilo.node_id of the server that may serve the range';
COMMENT ON COLUMN _hilo.hilo_free_range.epoch IS
    'Epoch that the indexes belong to; in any other epoch the range is meaningless';
COMMENT ON COLUMN _hilo.hilo_free_range.first_index IS 'First index';
COMMENT ON COLUMN _hilo.hilo_free_range.end_index IS 'Index after the last one';
COMMENT ON COLUMN _hilo.hilo_free_range.incarnation IS
    'Server life whose memory holds the range; 0: no life holds it, the range is free';

CREATE TABLE _hilo.hilo_gap (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    epoch bigint,
    first_value bigint NOT NULL,
    last_value bigint NOT NULL,
    count bigint NOT NULL,
    increment bigint NOT NULL CONSTRAINT hilo_gap_increment_check CHECK (increment <> 0),
    reason text NOT NULL,
    recorded_at timestamptz NOT NULL,
    name text COLLATE "C",
    released_from _hilo.hilo_column
);
CREATE INDEX hilo_gap_sequence_idx ON _hilo.hilo_gap (sequence);
-- The table has no key; this lets deletes be replicated all the same.
ALTER TABLE _hilo.hilo_gap REPLICA IDENTITY FULL;
COMMENT ON TABLE _hilo.hilo_gap IS
    'Ranges of values that will no longer be served and are not known to have been served';
COMMENT ON COLUMN _hilo.hilo_gap.sequence IS
    '_hilo.hilo_definition.id; 0: the column of the sequence was released';
COMMENT ON COLUMN _hilo.hilo_gap.node IS 'hilo.node_id of the server that had reserved the range';
COMMENT ON COLUMN _hilo.hilo_gap.epoch IS
    'Epoch that the values were reserved in, or jumped over at its end; null: several, or an '
    'unknown one. Below 0: the column of the sequence was released before';
COMMENT ON COLUMN _hilo.hilo_gap.first_value IS 'First value, in the order of serving';
COMMENT ON COLUMN _hilo.hilo_gap.last_value IS 'Last value, in the order of serving';
COMMENT ON COLUMN _hilo.hilo_gap.count IS
    'Number of values that are lost. Gaps of one epoch and reason that touch and come about in '
    'the same hour are one row. At about 1,000 rows the nearest of one epoch and reason become '
    'one, in which other values lie between those that are lost. The oldest epochs share rows then';
COMMENT ON COLUMN _hilo.hilo_gap.increment IS
    'Distance from one lost value to the next, as the sequence had it in that epoch. If fewer '
    'values are lost than there are in such steps, it is not known which';
COMMENT ON COLUMN _hilo.hilo_gap.reason IS
    'Why they are lost: one of the reasons in _hilo.hilo_loss';
COMMENT ON COLUMN _hilo.hilo_gap.recorded_at IS
    'When the range, or the last part of it, was found to be lost';
COMMENT ON COLUMN _hilo.hilo_gap.name IS
    'Name of the sequence, if its column was released; null for a sequence that exists';
COMMENT ON COLUMN _hilo.hilo_gap.released_from IS
    'Column that was released: a sequence that adopts it gets the row';

CREATE TABLE _hilo.hilo_lease (
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
    role _hilo.hilo_role NOT NULL,
    client_addr inet,
    leased_at timestamptz NOT NULL,
    expires_at timestamptz,
    ended text CONSTRAINT hilo_lease_ended_check CHECK (ended IN ('returned', 'revoked')),
    ended_at timestamptz,
    due_at timestamptz,
    system_id bigint NOT NULL,
    timeline integer NOT NULL,
    passed boolean NOT NULL,
    CONSTRAINT hilo_lease_pkey PRIMARY KEY (lease)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500
);
-- Finds the leases of a sequence, those that are to be filed first.
CREATE INDEX hilo_lease_sequence_idx ON _hilo.hilo_lease (sequence, node, due_at);
-- Finds what is to be filed next.
CREATE INDEX hilo_lease_due_at_idx ON _hilo.hilo_lease (due_at);
-- Finds the leases of a holder.
CREATE INDEX hilo_lease_holder_idx ON _hilo.hilo_lease (holder);
COMMENT ON TABLE _hilo.hilo_lease IS 'Ranges of values that are in use outside of this server';
COMMENT ON COLUMN _hilo.hilo_lease.lease IS
    'Random name of the lease, by which its holder ends or renews it';
COMMENT ON COLUMN _hilo.hilo_lease.sequence IS '_hilo.hilo_definition.id';
COMMENT ON COLUMN _hilo.hilo_lease.node IS 'hilo.node_id of the server that leased the range out';
COMMENT ON COLUMN _hilo.hilo_lease.epoch IS 'Epoch that the indexes belong to';
COMMENT ON COLUMN _hilo.hilo_lease.first_index IS 'First index';
COMMENT ON COLUMN _hilo.hilo_lease.end_index IS 'Index after the last one';
COMMENT ON COLUMN _hilo.hilo_lease.next_index IS
    'First index that the holder has not used, as far as is known';
COMMENT ON COLUMN _hilo.hilo_lease.first_value IS 'First value, in the order of serving';
COMMENT ON COLUMN _hilo.hilo_lease.last_value IS 'Last value, in the order of serving';
COMMENT ON COLUMN _hilo.hilo_lease.increment IS 'Distance from one value to the next';
COMMENT ON COLUMN _hilo.hilo_lease.holder IS
    'Who holds the lease, as it called itself; null: not stated';
COMMENT ON COLUMN _hilo.hilo_lease.role IS 'Role that took the lease';
COMMENT ON COLUMN _hilo.hilo_lease.client_addr IS
    'Address from which the lease was taken; null: a socket of this machine';
COMMENT ON COLUMN _hilo.hilo_lease.leased_at IS 'When the lease was taken';
COMMENT ON COLUMN _hilo.hilo_lease.expires_at IS 'When the lease expires; null: never';
COMMENT ON COLUMN _hilo.hilo_lease.ended IS
    'returned or revoked: how the lease ended before it expired; null: it has not';
COMMENT ON COLUMN _hilo.hilo_lease.ended_at IS 'When the lease was returned or revoked';
COMMENT ON COLUMN _hilo.hilo_lease.due_at IS
    'When the worker files the lease, as free or as a gap; null: never, as far as is known. A '
    'lease that has ended is filed at the next opportunity. Its due_at is two thousand years '
    'before the time of the transaction that has ended it';
COMMENT ON COLUMN _hilo.hilo_lease.system_id IS
    'System identifier of the cluster that leased the range out';
COMMENT ON COLUMN _hilo.hilo_lease.timeline IS
    'Timeline on which the range was leased out; -1: the row was restored. If its rest is '
    'returned to another server than the one that leased it out, it is not served again';
COMMENT ON COLUMN _hilo.hilo_lease.passed IS
    'Whether hilo_advance or hilo_sync has moved the sequence beyond values of the range: what '
    'comes back is not served again';

CREATE TABLE _hilo.hilo_source (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    request uuid,
    wanted bigint,
    requested_at timestamptz,
    system_id bigint NOT NULL,
    timeline integer NOT NULL,
    requested bigint NOT NULL,
    received bigint NOT NULL,
    brought bigint[] NOT NULL,
    own bigint[] NOT NULL,
    own_epoch bigint NOT NULL,
    latency bigint NOT NULL,
    failures integer NOT NULL,
    last_error text,
    last_error_at timestamptz,
    database bigint NOT NULL,
    receiver bigint NOT NULL,
    answered uuid,
    most bigint,
    parted_at timestamptz,
    failing_since timestamptz,
    passes bigint,
    CONSTRAINT hilo_source_pkey PRIMARY KEY (sequence, node)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500
);
COMMENT ON TABLE _hilo.hilo_source IS
    'Requests to the sources of sequences, and the values that they have brought';
COMMENT ON COLUMN _hilo.hilo_source.sequence IS '_hilo.hilo_definition.id';
COMMENT ON COLUMN _hilo.hilo_source.node IS 'hilo.node_id of the server';
COMMENT ON COLUMN _hilo.hilo_source.request IS
    'The request that has no answer yet; null: there is none';
COMMENT ON COLUMN _hilo.hilo_source.wanted IS 'How many values the request asks for';
COMMENT ON COLUMN _hilo.hilo_source.requested_at IS 'When the request was written down';
COMMENT ON COLUMN _hilo.hilo_source.system_id IS
    'System identifier of the cluster that the row belongs to';
COMMENT ON COLUMN _hilo.hilo_source.timeline IS
    'Timeline of that cluster. A server on another timeline makes a request of its own, because '
    'the answer may be the first server''s';
COMMENT ON COLUMN _hilo.hilo_source.requested IS 'Number of values asked for';
COMMENT ON COLUMN _hilo.hilo_source.received IS 'Number of values received';
COMMENT ON COLUMN _hilo.hilo_source.brought IS
    'Values that the source has brought, three numbers for each span: the smallest, the largest, '
    'and their distance from each other; 0: it has brought some of those between, and is not '
    'known to have brought each';
COMMENT ON COLUMN _hilo.hilo_source.own IS
    'Values that the sequence may have served before it had this source, as spans like those of '
    'brought. They are not served again';
COMMENT ON COLUMN _hilo.hilo_source.own_epoch IS
    'Epoch with which the sequence began to number itself after it had a source: what it had '
    'before is in own; 0: it has not';
COMMENT ON COLUMN _hilo.hilo_source.latency IS 'How long the last answer took, in microseconds';
COMMENT ON COLUMN _hilo.hilo_source.failures IS
    'How often the source has failed since it last answered';
COMMENT ON COLUMN _hilo.hilo_source.last_error IS
    'Error of the last failure, with its DETAIL and HINT';
COMMENT ON COLUMN _hilo.hilo_source.last_error_at IS 'Time of the last failure';
COMMENT ON COLUMN _hilo.hilo_source.database IS
    'Database that the row belongs to, by which a copy made from a template is recognized';
COMMENT ON COLUMN _hilo.hilo_source.receiver IS
    'Random number that a copy which was promoted or restored does not share: the first eight '
    'digits of each request';
COMMENT ON COLUMN _hilo.hilo_source.answered IS
    'The last request whose answer has come, as a centre knows it; null: none of this name has '
    'been answered';
COMMENT ON COLUMN _hilo.hilo_source.most IS
    'The next request asks for at most so many values, because a larger one was refused. 0: an '
    'answer was refused, so the next request asks for one value, and comes late. null: it is not '
    'limited';
COMMENT ON COLUMN _hilo.hilo_source.failing_since IS
    'When the source first failed after its last answer';
COMMENT ON COLUMN _hilo.hilo_source.passes IS
    'How many of the values that the source brings next may have been served before: the next '
    'request asks for so many more; null: none, as far as is known';
COMMENT ON COLUMN _hilo.hilo_source.parted_at IS
    'When this server found that a copy of it asks by its name, and took a new name; null: it has '
    'not, or the sequence was attached again since';

CREATE TABLE _hilo.hilo_privilege (
    sequence bigint NOT NULL,
    grantee _hilo.hilo_role NOT NULL,
    privilege text COLLATE "C" NOT NULL
        CONSTRAINT hilo_privilege_privilege_check
            CHECK (privilege IN ('USAGE', 'SELECT', 'UPDATE', 'LEASE')),
    grantor _hilo.hilo_role NOT NULL,
    CONSTRAINT hilo_privilege_pkey PRIMARY KEY (sequence, grantee, privilege)
);
CREATE INDEX hilo_privilege_grantee_idx ON _hilo.hilo_privilege (grantee);
COMMENT ON TABLE _hilo.hilo_privilege IS
    'Roles other than the owner that may use, read or change a sequence';
COMMENT ON COLUMN _hilo.hilo_privilege.sequence IS '_hilo.hilo_definition.id';
COMMENT ON COLUMN _hilo.hilo_privilege.grantee IS 'Role that has the privilege, or public';
COMMENT ON COLUMN _hilo.hilo_privilege.privilege IS
    'USAGE: next values, currval, keys; SELECT: currval, reading; UPDATE: next values, setval, '
    'ranges, hi and leases; LEASE: leases';
COMMENT ON COLUMN _hilo.hilo_privilege.grantor IS 'Role that granted it';

CREATE TABLE _hilo.hilo_default_privilege (
    owner _hilo.hilo_role NOT NULL,
    pattern text COLLATE "C" NOT NULL,
    grantee _hilo.hilo_role NOT NULL,
    privilege text COLLATE "C" NOT NULL
        CONSTRAINT hilo_default_privilege_privilege_check
            CHECK (privilege IN ('USAGE', 'SELECT', 'UPDATE', 'LEASE')),
    CONSTRAINT hilo_default_privilege_pkey PRIMARY KEY (owner, pattern, grantee, privilege)
);
CREATE INDEX hilo_default_privilege_grantee_idx ON _hilo.hilo_default_privilege (grantee);
COMMENT ON TABLE _hilo.hilo_default_privilege IS 'Privileges that new sequences start with';
COMMENT ON COLUMN _hilo.hilo_default_privilege.owner IS 'Role that creates the sequences';
COMMENT ON COLUMN _hilo.hilo_default_privilege.pattern IS 'Pattern of LIKE that their names match';
COMMENT ON COLUMN _hilo.hilo_default_privilege.grantee IS 'Role that gets the privilege, or public';
COMMENT ON COLUMN _hilo.hilo_default_privilege.privilege IS
    'USAGE, SELECT, UPDATE or LEASE, as in _hilo.hilo_privilege';

-- Only the extension's owner reads or writes these tables. hilo_check reports roles that default
-- privileges have allowed to write to them.
REVOKE ALL ON _hilo.hilo_definition, _hilo.hilo_position, _hilo.hilo_free_range, _hilo.hilo_gap,
    _hilo.hilo_lease, _hilo.hilo_source, _hilo.hilo_privilege, _hilo.hilo_default_privilege
    FROM PUBLIC;

-- pg_dump locks the tables and copies their rows, also if the owner of the database runs it. It
-- refuses row security.
GRANT SELECT ON ALL TABLES IN SCHEMA _hilo TO pg_database_owner;

SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_definition', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_position', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_free_range', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_gap', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_lease', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_source', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_privilege', '');
SELECT pg_catalog.pg_extension_config_dump('_hilo.hilo_default_privilege', '');
