-- The views. Each runs with its owner's rights and shows a role the sequences that the role may
-- read.

-- Only the other views may read it.
CREATE VIEW _hilo.hilo_reader AS
    SELECT pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')
        OR pg_catalog.pg_has_role('pg_write_all_data', 'USAGE')
        OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE') AS reads_all;
REVOKE ALL ON _hilo.hilo_reader FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_reader IS 'Whether the current user may read every sequence';

-- The part that the other views share. It is not a security barrier itself, so each of them is
-- planned as one query that finds definitions by key. Only those views may read it.
--
-- A role may read a sequence under the same conditions as one of core's. It is the owner or a
-- member of it, has any privilege on the sequence, or belongs to a predefined role that reads
-- everything. The conditions are ordered from cheap to expensive.
CREATE VIEW _hilo.hilo_readable AS
    SELECT s.id, s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value,
           s.cycle, s.ordered, s.block_size, s.slice_size, s.key_format, s.owner, s.owned_by,
           s.gapless, s.source, s.reserve_ahead,
           -- How findings and the report name it.
           'sequence "' || s.name || COALESCE('" (' || s.description || ')', '"') AS label,
           s.name || COALESCE(' (' || s.description || ')', '') AS title,
           s.description
      FROM _hilo.hilo_definition s
     WHERE (SELECT r.reads_all FROM _hilo.hilo_reader r)
        OR pg_catalog.pg_has_role(s.owner::oid, 'USAGE')
        OR EXISTS (SELECT FROM _hilo.hilo_privilege p
                    WHERE p.sequence = s.id
                      AND (p.grantee = 'public'::_hilo.hilo_role
                           OR pg_catalog.pg_has_role(p.grantee::oid, 'USAGE')));
REVOKE ALL ON _hilo.hilo_readable FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_readable IS
    'Definitions of the sequences that the current user may read';

-- The catalog's data about each of these sequences, active or not. As above, only the other views
-- may read it.
CREATE VIEW _hilo.hilo_reserved AS
    SELECT s.id, s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value,
           s.cycle, s.ordered, s.block_size, s.slice_size, s.key_format, s.owner, s.owned_by,
           s.gapless,
           n.node_id, p.base, p.next_index, p.node, p.nodes, p.stripe,
           v.next_value,
           u.used_fraction,
           CASE WHEN s.cycle THEN NULL
                WHEN u.used_fraction >= 0.95::double precision THEN 'error'
                WHEN u.used_fraction >= 0.8::double precision THEN 'warning' END AS use_severity,
           COALESCE(l.leased, 0::bigint) AS leased,
           CASE WHEN NOT s.gapless THEN COALESCE(p.served, 0::bigint) END AS served,
           p.slices, p.blocks_reserved, p.blocks_prefetched, p.waits, p.wait_time, p.recycled,
           p.lost, p.errors,
           -- The restarts (Epoch::restart); a change of the increment is no restart.
           pg_catalog.concat_ws(
               '.', s.id, COALESCE(p.epoch, 0::bigint) >> 24, s.increment) AS numbering,
           s.source, s.label, s.title, s.description
      FROM _hilo.hilo_readable s
     CROSS JOIN (SELECT _hilo.hilo_node_id() AS node_id) n
      LEFT JOIN _hilo.hilo_position p ON p.sequence = s.id AND p.node = n.node_id
      -- One pass over all leases, however many sequences there are.
      LEFT JOIN (SELECT o.sequence, pg_catalog.sum(o.end_index - o.first_index)::bigint AS leased
                   FROM _hilo.hilo_lease o
                  WHERE o.ended IS NULL
                    AND (o.expires_at IS NULL OR o.expires_at > pg_catalog.clock_timestamp())
                  GROUP BY o.sequence) l ON l.sequence = s.id
     -- The value that would be reserved next; null beyond the last value, and without a position.
     CROSS JOIN LATERAL (
         SELECT _hilo.hilo_value_at(
                    p.next_index, p.base, s.increment, s.min_value, s.max_value, s.cycle,
                    p.node, p.nodes, p.stripe)::double precision AS next_value,
                s.min_value::double precision AS low,
                s.max_value::double precision AS high
     ) v
     CROSS JOIN LATERAL (
         SELECT pg_catalog.floor(10000::double precision * CASE
                    WHEN p.sequence IS NULL THEN NULL
                    WHEN v.next_value IS NULL THEN 1::double precision
                    WHEN s.increment > 0
                    THEN (v.next_value - v.low) / (v.high - v.low + 1::double precision)
                    ELSE (v.high - v.next_value) / (v.high - v.low + 1::double precision)
                END + 1e-6::double precision) / 10000::double precision AS used_fraction
     ) u;
REVOKE ALL ON _hilo.hilo_reserved FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_reserved IS
    'How far this server has reserved the sequences that the current user may read, and what of '
    'them is leased';

-- security_barrier, here and below: a function in a reader's WHERE clause must not see rows that
-- the conditions above exclude.
CREATE VIEW _hilo.hilo_visible WITH (security_barrier) AS
    SELECT s.name,
           pg_catalog.pg_get_userbyid(s.owner::oid) AS owner,
           s.data_type, s.start_value, s.min_value, s.max_value, s.increment, s.cycle, s.ordered,
           s.block_size, s.slice_size, s.key_format,
           s.node_id,
           _hilo.hilo_value_at(
               s.next_index - 1, s.base, s.increment, s.min_value, s.max_value, s.cycle,
               s.node, s.nodes, s.stripe) AS max_reserved,
           NULLIF(s.owned_by::text, '-') AS owned_by,
           s.gapless,
           s.used_fraction,
           s.leased,
           s.served AS total_served,
           COALESCE(s.slices, 0::bigint) AS total_slices,
           COALESCE(s.blocks_reserved, 0::bigint) AS total_blocks_reserved,
           COALESCE(s.blocks_prefetched, 0::bigint) AS total_blocks_prefetched,
           COALESCE(s.waits, 0::bigint) AS total_waits,
           COALESCE(s.wait_time, 0::bigint)::double precision / 1000::double precision
               AS total_wait_time,
           COALESCE(s.recycled, 0::bigint) AS total_recycled,
           COALESCE(s.lost, 0::bigint) AS total_lost,
           COALESCE(s.errors, 0::bigint) AS total_errors,
           s.numbering,
           _hilo.hilo_value_at(
               s.next_index, s.base, s.increment, s.min_value, s.max_value, s.cycle,
               s.node, s.nodes, s.stripe) AS next_value,
           s.description,
           s.id, s.label, s.title, s.use_severity
      FROM _hilo.hilo_reserved s;
-- Bodies of functions read it, and the library for the report, with their callers' rights: the
-- extension's schema may be renamed.
REVOKE ALL ON _hilo.hilo_visible FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_visible TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_visible IS
    'The rows of the view hilo_sequences, with the id of each and how findings name it';

CREATE VIEW @extschema@.hilo_sequences WITH (security_barrier) AS
    SELECT v.name, v.owner, v.data_type, v.start_value, v.min_value, v.max_value, v.increment,
           v.cycle, v.ordered, v.block_size, v.slice_size, v.key_format, v.node_id,
           v.max_reserved, v.owned_by, v.gapless, v.used_fraction, v.leased,
           v.total_served, v.total_slices, v.total_blocks_reserved, v.total_blocks_prefetched,
           v.total_waits, v.total_wait_time, v.total_recycled, v.total_lost, v.total_errors,
           v.numbering, v.next_value, v.description
      FROM _hilo.hilo_visible v;
COMMENT ON VIEW @extschema@.hilo_sequences IS
    'Sequences of this database that the current user may read. INSERT on it is the right to '
    'create sequences';
COMMENT ON COLUMN @extschema@.hilo_sequences.name IS 'Name';
COMMENT ON COLUMN @extschema@.hilo_sequences.owner IS
    'Role that may alter, rename and drop the sequence and grant privileges on it';
COMMENT ON COLUMN @extschema@.hilo_sequences.data_type IS 'smallint, integer or bigint';
COMMENT ON COLUMN @extschema@.hilo_sequences.start_value IS
    'First value, and the value at which a restart begins';
COMMENT ON COLUMN @extschema@.hilo_sequences.min_value IS 'Smallest value';
COMMENT ON COLUMN @extschema@.hilo_sequences.max_value IS 'Largest value';
COMMENT ON COLUMN @extschema@.hilo_sequences.increment IS 'Distance from one value to the next';
COMMENT ON COLUMN @extschema@.hilo_sequences.cycle IS
    'Whether the sequence starts again at the other bound';
COMMENT ON COLUMN @extschema@.hilo_sequences.ordered IS
    'Whether a later call gets a later value across all sessions';
COMMENT ON COLUMN @extschema@.hilo_sequences.block_size IS
    'Number of values reserved at once; null: chosen by rate';
COMMENT ON COLUMN @extschema@.hilo_sequences.slice_size IS
    'Maximum number of values that a session takes from the pool at once; null: '
    'hilo.max_slice_size';
COMMENT ON COLUMN @extschema@.hilo_sequences.key_format IS
    'Template of the keys of the sequence; null: {name}/{server}{value}';
COMMENT ON COLUMN @extschema@.hilo_sequences.node_id IS 'hilo.node_id of this server';
COMMENT ON COLUMN @extschema@.hilo_sequences.max_reserved IS
    'Furthest value that this server has reserved so far; null before the first reservation';
COMMENT ON COLUMN @extschema@.hilo_sequences.owned_by IS
    'Column that owns the sequence, as schema.table.column: the sequence is dropped with it; '
    'null: none';
COMMENT ON COLUMN @extschema@.hilo_sequences.gapless IS
    'Whether the committed values have no holes, so that its transactions follow each other';
COMMENT ON COLUMN @extschema@.hilo_sequences.used_fraction IS
    'Fraction of the way from one bound to the other that this server has reserved: 0 to 1, in '
    'steps of 0.0001; null: it has no position yet';
COMMENT ON COLUMN @extschema@.hilo_sequences.leased IS 'Values in open leases';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_served IS
    'Values served to callers, and used of leases that have ended, when the catalog was last '
    'written. While the sequence is active, hilo_stat_sequences.served has those since. Null for '
    'a gapless sequence, which is not counted';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_slices IS
    'Like total_served, for hilo_stat_sequences.slices';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_blocks_reserved IS
    'Like total_served, for hilo_stat_sequences.blocks_reserved';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_blocks_prefetched IS
    'Like total_served, for hilo_stat_sequences.blocks_prefetched';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_waits IS
    'Like total_served, for hilo_stat_sequences.waits';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_wait_time IS
    'Like total_served, for hilo_stat_sequences.wait_time_total, in milliseconds';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_recycled IS
    'Like total_served, for hilo_stat_sequences.recycled';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_lost IS
    'Like total_served, for hilo_stat_sequences.lost';
COMMENT ON COLUMN @extschema@.hilo_sequences.total_errors IS
    'Like total_served, for hilo_stat_sequences.errors';
COMMENT ON COLUMN @extschema@.hilo_sequences.next_value IS
    'Value that this server would reserve next; null: none is left, or it has no position yet';
COMMENT ON COLUMN @extschema@.hilo_sequences.numbering IS
    'Which numbering this is: another one after hilo_setval, a restart, or a change of the '
    'increment, but not after hilo_advance';
COMMENT ON COLUMN @extschema@.hilo_sequences.description IS
    'Purpose of the sequence; null: none is stated';

CREATE FUNCTION _hilo.hilo_stat_slots() RETURNS TABLE (
    sequence bigint, epoch bigint,
    served bigint, slices bigint, blocks_reserved bigint, blocks_prefetched bigint,
    refill_wanted boolean,
    waits bigint, wait_time_total double precision, wait_time_max double precision,
    rate double precision,
    in_slices bigint, in_current bigint, in_standby bigint, in_returned bigint,
    recycled bigint, lost bigint, errors bigint, last_error text, last_error_at timestamptz,
    source_failed boolean
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 100
    AS 'MODULE_PATHNAME', 'stat_slots_wrapper';
COMMENT ON FUNCTION _hilo.hilo_stat_slots() IS
    'Returns the slots in shared memory; times in milliseconds, rate in values per second';

CREATE VIEW @extschema@.hilo_stat_sequences WITH (security_barrier) AS
    SELECT s.name,
           st.served, st.slices, st.blocks_reserved, st.blocks_prefetched, st.refill_wanted,
           st.waits, st.wait_time_total, st.wait_time_max, st.rate,
           st.in_slices, st.in_current, st.in_standby, st.in_returned,
           st.recycled, st.lost, st.errors, st.last_error, st.last_error_at,
           s.used_fraction,
           CASE WHEN l.seconds < 31557600000::double precision
                THEN pg_catalog.justify_interval(pg_catalog.make_interval(
                         secs => pg_catalog.floor(l.seconds / l.unit) * l.unit))
           END AS exhausted_in,
           s.leased
      FROM _hilo.hilo_stat_slots() st
      JOIN _hilo.hilo_reserved s ON s.id = st.sequence
     CROSS JOIN LATERAL (
         SELECT (st.in_slices + st.in_current + st.in_standby + st.in_returned)::double precision
                    AS in_memory,
                pg_catalog.abs(s.increment::double precision) AS step,
                CASE WHEN s.increment > 0 THEN s.max_value::double precision - s.next_value
                     ELSE s.next_value - s.min_value::double precision
                END AS span
     ) v
     CROSS JOIN LATERAL (
         SELECT CASE WHEN v.span IS NULL THEN v.in_memory
                     ELSE v.in_memory + pg_catalog.floor(
                              (v.span + v.step) / v.step / s.nodes::double precision)
                END AS values_left
     ) f
     CROSS JOIN LATERAL (
         SELECT d.seconds,
                CASE WHEN d.seconds >= 864000::double precision THEN 86400
                     WHEN d.seconds >= 36000::double precision THEN 3600
                     WHEN d.seconds >= 600::double precision THEN 60
                     ELSE 1 END::double precision AS unit
           FROM (SELECT CASE WHEN st.rate > 0::double precision
                                  AND NOT s.cycle AND s.base IS NOT NULL
                             THEN f.values_left / st.rate END AS seconds) d
     ) l;
COMMENT ON VIEW @extschema@.hilo_stat_sequences IS
    'Shows for each active sequence the values that this server holds, and the work that it has '
    'done. Counters begin when the sequence is created or hilo_stat_reset is called. They are '
    'written with each block, and when the server stops: a crash may lose what came after that';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.name IS 'Name of the sequence';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.served IS
    'Values served to callers, and used of leases that have ended';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.slices IS
    'Slices that sessions have taken from the pool';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.blocks_reserved IS
    'Blocks reserved in the catalog';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.blocks_prefetched IS
    'Reserved blocks that were ready before any caller had to wait';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.refill_wanted IS
    'Whether a block has been requested and is not ready yet';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.waits IS 'Calls that had to wait for a block';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.wait_time_total IS
    'Total time that these calls waited, in milliseconds';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.wait_time_max IS
    'Longest wait, in milliseconds, since the sequence has become active';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.rate IS 'Values per second over hilo.window';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.in_slices IS 'Values that sessions hold now';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.in_current IS
    'Values left in the block that is being served';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.in_standby IS
    'Values in the blocks queued behind it';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.in_returned IS
    'Values that sessions have returned and that are ready to be taken again';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.recycled IS
    'Values that one session returned and another took';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.lost IS
    'Values that left memory without being served: the sequence was renumbered, or the pool had '
    'no room';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.errors IS 'Reservations that failed';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.last_error IS
    'Error message of the last reservation that failed';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.last_error_at IS
    'Time of the last reservation that failed';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.used_fraction IS
    'Fraction of the way from one bound to the other that is reserved: 0 to 1, in steps of 0.0001';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.exhausted_in IS
    'Time until the last value is served, at the current rate, in whole days, hours, minutes or '
    'seconds; null without traffic, for a sequence that cycles, and beyond a thousand years';
COMMENT ON COLUMN @extschema@.hilo_stat_sequences.leased IS 'Values in open leases';

CREATE VIEW @extschema@.hilo_stat_sources WITH (security_barrier) AS
    SELECT s.name,
           CASE WHEN pg_catalog.pg_has_role(s.owner::oid, 'USAGE') THEN s.source END AS source,
           CASE WHEN c.failures > 0 THEN 'failing'
                WHEN c.request IS NULL THEN 'idle'
                ELSE 'requested' END AS state,
           COALESCE(c.requested, 0::bigint) AS requested,
           COALESCE(c.received, 0::bigint) AS received,
           CASE WHEN pg_catalog.pg_has_role(s.owner::oid, 'USAGE') THEN c.last_error END
               AS last_error,
           c.last_error_at,
           CASE WHEN c.latency > 0::bigint THEN pg_catalog.make_interval(
               secs => c.latency::double precision / 1000000::double precision) END AS latency
      FROM _hilo.hilo_readable s
      LEFT JOIN _hilo.hilo_source c ON c.sequence = s.id AND c.node = (SELECT _hilo.hilo_node_id())
     WHERE s.source IS NOT NULL;
COMMENT ON VIEW @extschema@.hilo_stat_sources IS
    'Requests to the sources of sequences, and the values that they have brought';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.name IS 'Name of the sequence';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.source IS
    'The query; null unless the current user may act as its owner';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.state IS
    'idle; requested: a request has no answer yet; failing: it has failed, or its answer was '
    'refused';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.requested IS 'Values asked for so far';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.received IS 'Values received so far';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.last_error IS
    'Error of the last failure, with its DETAIL and HINT; null unless the current user may act as '
    'the owner';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.last_error_at IS 'Time of the last failure';
COMMENT ON COLUMN @extschema@.hilo_stat_sources.latency IS 'How long the last answer took';

CREATE VIEW @extschema@.hilo_stat_rates WITH (security_barrier) AS
    SELECT s.name, i.since, i.until,
           GREATEST(i.taken, 0::double precision)
               / EXTRACT(epoch FROM i.until - i.since)::double precision AS rate
      FROM (SELECT r.sequence, pg_catalog.lag(r.at) OVER earlier AS since, r.at AS until,
                   r.taken::double precision
                       - pg_catalog.lag(r.taken::double precision) OVER earlier AS taken
              FROM _hilo.hilo_rate_samples() r
            WINDOW earlier AS (PARTITION BY r.sequence ORDER BY r.at, r.taken)) i
      JOIN _hilo.hilo_readable s ON s.id = i.sequence
     WHERE i.since < i.until;
COMMENT ON VIEW @extschema@.hilo_stat_rates IS
    'Rate history of each active sequence: about eight intervals for each hilo.window, one in '
    'each row';
COMMENT ON COLUMN @extschema@.hilo_stat_rates.name IS 'Name of the sequence';
COMMENT ON COLUMN @extschema@.hilo_stat_rates.since IS 'When the rate was sampled first';
COMMENT ON COLUMN @extschema@.hilo_stat_rates.until IS
    'When it was sampled next; of the last row, now';
COMMENT ON COLUMN @extschema@.hilo_stat_rates.rate IS 'Values per second between the two';

CREATE VIEW @extschema@.hilo_stat_backends WITH (security_barrier) AS
    SELECT st.pid, s.name, st.next_value, st.last_value, st.left_in_slice
      FROM _hilo.hilo_stat_slices() st
      JOIN _hilo.hilo_readable s ON s.id = st.sequence;
COMMENT ON VIEW @extschema@.hilo_stat_backends IS 'Slices that sessions hold';
COMMENT ON COLUMN @extschema@.hilo_stat_backends.pid IS
    'Process ID of the session, as in pg_stat_activity';
COMMENT ON COLUMN @extschema@.hilo_stat_backends.name IS 'Name of the sequence';
COMMENT ON COLUMN @extschema@.hilo_stat_backends.next_value IS
    'Value that the session serves next; null if the slice is used up';
COMMENT ON COLUMN @extschema@.hilo_stat_backends.last_value IS
    'Value before next_value, usually the last one that the session served';
COMMENT ON COLUMN @extschema@.hilo_stat_backends.left_in_slice IS 'Values left in the slice';

CREATE VIEW @extschema@.hilo_blocks WITH (security_barrier) AS
    SELECT s.name, r.first_value AS first, r.last_value AS last, r.count, r.tier, r.pid
      FROM _hilo.hilo_stat_ranges() r
      JOIN _hilo.hilo_readable s ON s.id = r.sequence;
COMMENT ON VIEW @extschema@.hilo_blocks IS 'Values in memory, as ranges that never overlap';
COMMENT ON COLUMN @extschema@.hilo_blocks.name IS 'Name of the sequence';
COMMENT ON COLUMN @extschema@.hilo_blocks.first IS 'First value, in the order of serving';
COMMENT ON COLUMN @extschema@.hilo_blocks.last IS 'Last value, in the order of serving';
COMMENT ON COLUMN @extschema@.hilo_blocks.count IS 'Number of values, in steps of the increment';
COMMENT ON COLUMN @extschema@.hilo_blocks.tier IS
    'slice: held by a session. current: being served. standby: served next. returned: returned by '
    'a session and ready to be taken. leased: an open transaction leases them out';
COMMENT ON COLUMN @extschema@.hilo_blocks.pid IS
    'Process ID of the session that holds the slice; null in the other tiers';

CREATE VIEW _hilo.hilo_open_lease WITH (security_barrier) AS
    SELECT CASE WHEN e.may_end THEN l.lease END AS lease,
           s.name,
           l.holder,
           pg_catalog.pg_get_userbyid(l.role::oid) AS usename,
           CASE WHEN e.may_end THEN l.client_addr END AS client_addr,
           l.first_value AS first, l.last_value AS last,
           l.end_index - l.first_index AS count,
           l.leased_at, l.expires_at, l.node AS node_id,
           pg_catalog.concat_ws('.', s.id, l.epoch >> 24, l.increment) AS numbering
      FROM _hilo.hilo_lease l
      JOIN _hilo.hilo_readable s ON s.id = l.sequence
     CROSS JOIN LATERAL (
         SELECT pg_catalog.pg_has_role(s.owner::oid, 'USAGE')
             OR l.role <> '-'::_hilo.hilo_role
                AND pg_catalog.pg_has_role(l.role::oid, 'USAGE') AS may_end
     ) e
     WHERE l.ended IS NULL
       AND (l.expires_at IS NULL OR l.expires_at > pg_catalog.clock_timestamp());
-- As hilo_visible, for functions that must not name the extension's schema.
REVOKE ALL ON _hilo.hilo_open_lease FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_open_lease TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_open_lease IS 'The rows of the view hilo_leases';

CREATE VIEW @extschema@.hilo_leases WITH (security_barrier) AS
    SELECT l.* FROM _hilo.hilo_open_lease l;
COMMENT ON VIEW @extschema@.hilo_leases IS
    'Leases that are open: ranges of values in use outside of this server';
COMMENT ON COLUMN @extschema@.hilo_leases.lease IS
    'Name of the lease, for hilo_lease_return, hilo_lease_renew and hilo_lease_revoke; null for '
    'those who may not end it';
COMMENT ON COLUMN @extschema@.hilo_leases.name IS 'Name of the sequence';
COMMENT ON COLUMN @extschema@.hilo_leases.holder IS 'Who holds the lease, as it called itself';
COMMENT ON COLUMN @extschema@.hilo_leases.usename IS 'Role that took the lease';
COMMENT ON COLUMN @extschema@.hilo_leases.client_addr IS
    'Address from which the lease was taken; null for a socket of this machine, and for those who '
    'may not end it';
COMMENT ON COLUMN @extschema@.hilo_leases.first IS 'First value, in the order of serving';
COMMENT ON COLUMN @extschema@.hilo_leases.last IS 'Last value, in the order of serving';
COMMENT ON COLUMN @extschema@.hilo_leases.count IS 'Number of values, in steps of the increment';
COMMENT ON COLUMN @extschema@.hilo_leases.leased_at IS 'When the lease was taken';
COMMENT ON COLUMN @extschema@.hilo_leases.expires_at IS 'When the lease expires; null: never';
COMMENT ON COLUMN @extschema@.hilo_leases.node_id IS
    'hilo.node_id of the server that leased the values out';
COMMENT ON COLUMN @extschema@.hilo_leases.numbering IS
    'Numbering of the sequence that the values belong to, as in hilo_sequences';

-- All roles may see the privileges on the sequences that they may read, and the default privileges
-- that concern them.
CREATE VIEW @extschema@.hilo_privileges WITH (security_barrier) AS
    SELECT s.name,
           CASE WHEN p.grantee = 'public'::_hilo.hilo_role THEN 'PUBLIC'
                ELSE pg_catalog.pg_get_userbyid(p.grantee::oid)::text END AS grantee,
           p.privilege,
           pg_catalog.pg_get_userbyid(p.grantor::oid) AS grantor
      FROM _hilo.hilo_privilege p
      JOIN _hilo.hilo_readable s ON s.id = p.sequence;
COMMENT ON VIEW @extschema@.hilo_privileges IS
    'Privileges that hilo_grant and hilo_grant_all have given on the sequences that the current '
    'user may read';
COMMENT ON COLUMN @extschema@.hilo_privileges.name IS 'Name of the sequence';
COMMENT ON COLUMN @extschema@.hilo_privileges.grantee IS 'Role that has the privilege, or PUBLIC';
COMMENT ON COLUMN @extschema@.hilo_privileges.privilege IS 'USAGE, SELECT, UPDATE or LEASE';
COMMENT ON COLUMN @extschema@.hilo_privileges.grantor IS
    'Role that granted it: the owner at that time, or the present one';

CREATE VIEW @extschema@.hilo_default_privileges WITH (security_barrier) AS
    SELECT pg_catalog.pg_get_userbyid(d.owner::oid) AS owner,
           d.pattern,
           CASE WHEN d.grantee = 'public'::_hilo.hilo_role THEN 'PUBLIC'
                ELSE pg_catalog.pg_get_userbyid(d.grantee::oid)::text END AS grantee,
           d.privilege
      FROM _hilo.hilo_default_privilege d
     WHERE d.grantee = 'public'::_hilo.hilo_role
        OR pg_catalog.pg_has_role(d.owner::oid, 'USAGE')
        OR pg_catalog.pg_has_role(d.grantee::oid, 'USAGE');
COMMENT ON VIEW @extschema@.hilo_default_privileges IS
    'Privileges that new sequences start with, as hilo_default_grant has set them: on sequences '
    'of the current user, or for the current user';
COMMENT ON COLUMN @extschema@.hilo_default_privileges.owner IS 'Role that creates the sequences';
COMMENT ON COLUMN @extschema@.hilo_default_privileges.pattern IS
    'Pattern of LIKE that their names match';
COMMENT ON COLUMN @extschema@.hilo_default_privileges.grantee IS
    'Role that gets the privilege, or PUBLIC';
COMMENT ON COLUMN @extschema@.hilo_default_privileges.privilege IS 'USAGE, SELECT, UPDATE or LEASE';

-- Nobody can insert into this view: INSERT on it is the right to create sequences, and to own them.
-- It is granted, dumped and looked up as any other privilege, and it lets nobody put functions
-- where others call some.
GRANT INSERT ON @extschema@.hilo_sequences TO pg_database_owner WITH GRANT OPTION;

-- All roles may read these views: each role sees only the sequences that it may read, and nothing
-- of another database.
GRANT SELECT ON @extschema@.hilo_sequences, @extschema@.hilo_stat_sequences,
    @extschema@.hilo_stat_backends, @extschema@.hilo_blocks, @extschema@.hilo_leases,
    @extschema@.hilo_privileges, @extschema@.hilo_default_privileges,
    @extschema@.hilo_stat_rates, @extschema@.hilo_stat_sources TO PUBLIC;
