-- Findings of hilo_check about sequences, their leases, sources and positions.

CREATE VIEW _hilo.hilo_sequence_finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        TABLE _hilo.hilo_state
    ), readable AS MATERIALIZED (
        TABLE _hilo.hilo_reserved
    ), slot AS MATERIALIZED (
        SELECT s.*, s.in_slices + s.in_current + s.in_standby + s.in_returned AS ready
          FROM _hilo.hilo_stat_slots() s
         WHERE (SELECT state.no_memory IS NULL FROM state)
    ), named AS MATERIALIZED (
        SELECT DISTINCT d.name FROM _hilo.hilo_column_defaults() d
    ), attached AS MATERIALIZED (
        TABLE _hilo.hilo_attached
    )
    -- Sequences. First those of which the largest part is reserved, or half of it if the rest lasts
    -- for less than a week.
    SELECT readable.label AS object, coalesce(readable.use_severity, 'warning') AS severity,
           format('%s %% of its values are reserved, up to its %s%s',
                  to_char(readable.used_fraction * 100, 'FM990.00'),
                  CASE WHEN readable.increment > 0 THEN concat('maximum ', readable.max_value)
                       ELSE concat('minimum ', readable.min_value) END,
                  CASE WHEN rest.hours < 16800
                       THEN format('; at the current rate the rest lasts %s hours',
                                   rest.hours::bigint) END) AS what,
           'Use hilo_alter to give the sequence a wider data type or wider bounds, and give the '
           'columns that it fills a wider type.' AS what_to_do, NULL AS fix
      FROM readable
      LEFT JOIN slot ON slot.sequence = readable.id
     CROSS JOIN LATERAL (
         SELECT (CASE WHEN readable.increment > 0 THEN readable.max_value
                      ELSE readable.min_value END - readable.next_value)
                / readable.increment / readable.nodes / nullif(slot.rate, 0) / 3600 AS hours) rest
     WHERE NOT readable.cycle
       AND (readable.use_severity IS NOT NULL OR readable.used_fraction >= 0.4 AND rest.hours < 168)
     UNION ALL
    -- A sequence whose owner column is gone is reported even if unused. A block that was read ahead
    -- is no use of a sequence.
    SELECT 'sequences', 'note',
           format('no column uses %s of them: %s', count(*),
                  array_to_string((array_agg(format('"%s"', readable.name)
                                             ORDER BY readable.name))[1:10], ', ')),
           'Drop those that nothing else draws from: no application, no function, and no default '
           'that computes the name.', NULL
      FROM readable
      LEFT JOIN slot ON slot.sequence = readable.id
     WHERE CASE WHEN readable.owned_by IS NULL
                THEN EXISTS (SELECT FROM _hilo.hilo_position p
                              WHERE p.sequence = readable.id
                                AND (p.next_index > coalesce(slot.ready, 0) OR p.epoch > 1))
                ELSE readable.owned_by::text = '-' END
       AND NOT EXISTS (SELECT FROM named WHERE named.name = readable.name)
    HAVING count(*) > 0
     UNION ALL
    -- Such owners are left by a restore without roles, for example.
    SELECT min(readable.label), 'warning',
           format('%s sequences, such as this one, belong to no role that exists', count(*)),
           'Give each of them an owner with hilo_set_owner; until then they belong to the '
           'superusers.', NULL
      FROM readable
     WHERE NOT EXISTS (SELECT FROM pg_authid r WHERE r.oid = readable.owner::oid)
    HAVING count(*) > 0
     UNION ALL
    -- Whoever leases has last been heard of then, or holds a lease that it would have to renew.
    SELECT format('holder %s', coalesce(quote_ident(lease.holder), 'without a name')), 'note',
           format('it has %s leases without an end, such as one of "%s", and has taken none since '
                  '%s', count(*), min(readable.name), date_trunc('second', max(lease.leased_at))),
           'If it no longer exists, revoke its leases with hilo_lease_revoke: what it may have '
           'left unused becomes a gap.', NULL
      FROM _hilo.hilo_lease lease
      JOIN readable ON readable.id = lease.sequence
     WHERE lease.ended IS NULL
       AND (lease.expires_at IS NULL OR lease.expires_at > clock_timestamp())
     GROUP BY lease.holder
    HAVING bool_and(lease.expires_at IS NULL) AND max(lease.leased_at) < now() - '30 days'::interval
     UNION ALL
    -- hilo_adopt keeps a sequence that something else uses, or that another role owns. Values drawn
    -- from it are not looked at, which would wait for locks.
    SELECT readable.label, CASE WHEN mapper.differs THEN 'warning' ELSE 'note' END,
           format('sequence %s of Postgres lives on beside it: whoever draws from that one gets '
                  'the same numbers%s', c.oid::regclass,
                  CASE WHEN mapper.differs
                       THEN format('; mappers take blocks of %s here, and INCREMENT BY there is %s',
                                   readable.block_size, o.seqincrement) END),
           format('If no tool needs it to be there, let everything call hilo_nextval instead, and '
                  'drop it: DROP SEQUENCE %s. For mappers, block_size must be their allocation '
                  'size: with another one ids come twice.', c.oid::regclass), NULL
      FROM pg_sequence o
      JOIN pg_class c ON c.oid = o.seqrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN unnest(ARRAY[c.relname::text,
                             concat_ws('.', n.nspname, c.relname)]) AS likely (name)
      JOIN readable ON readable.name = likely.name
     CROSS JOIN LATERAL (
         -- hilo_facade leaves this comment.
         SELECT readable.block_size IS NOT NULL
                AND EXISTS (SELECT FROM pg_description d
                             WHERE d.classoid = 'pg_proc'::regclass
                               AND d.description LIKE 'facade of hilo for %') AS in_blocks) facade
     CROSS JOIN LATERAL (
         SELECT facade.in_blocks AND o.seqincrement NOT IN (1, readable.block_size)
                    AS differs) mapper
     WHERE facade.in_blocks OR EXISTS (SELECT FROM named WHERE named.name = readable.name)
     UNION ALL
    SELECT readable.label, 'error',
           format('reservations have failed %s times, last %s ago: %s', slot.errors,
                  date_trunc('second', now() - slot.last_error_at), slot.last_error),
           'Remove the cause; hilo retries by itself. hilo_stat_reset clears the count.', NULL
      FROM slot
      JOIN readable ON readable.id = slot.sequence
     WHERE slot.last_error_at > now() - '1 hour'::interval AND NOT slot.source_failed
       AND slot.sequence IN (SELECT unnest(state.failing) FROM state)
     UNION ALL
    -- Sources.
    SELECT readable.label, CASE WHEN slot.sequence IS NULL THEN 'warning' ELSE 'error' END,
           format('its source has failed %s times since %s: %s', request.failures,
                  date_trunc('second', request.failing_since),
                  CASE WHEN pg_has_role(readable.owner::oid, 'USAGE') THEN request.last_error
                       ELSE format('role %s, which owns the sequence, sees the error in '
                                   'hilo_stat_sources', pg_get_userbyid(readable.owner::oid)) END),
           'Remove the cause; hilo asks again by itself. Until then the sequence serves what it '
           'holds.', NULL
      FROM _hilo.hilo_source request
      JOIN state ON state.node = request.node
      JOIN readable ON readable.id = request.sequence AND readable.source IS NOT NULL
      LEFT JOIN slot ON slot.sequence = request.sequence AND slot.source_failed
                    AND slot.sequence = ANY (state.failing)
                    AND slot.last_error_at > now() - '1 hour'::interval
     WHERE request.failures > 0
       AND (request.failing_since < now() - '1 minute'::interval OR slot.sequence IS NOT NULL)
     UNION ALL
    -- As sql/triggers.sql writes it.
    SELECT 'sequences', 'warning',
           format('%s sequences, such as "%s", have their source on the server that they were '
                  'replicated from: here they get no values',
                  count(*), min(readable.name COLLATE "C")),
           'Before or after this server takes over, attach each to its source here, with '
           'hilo_attach_server or hilo_attach, or give it numbers of its own beyond all that the '
           'source has brought, with hilo_detach(name, start).', NULL
      FROM readable
     WHERE readable.source LIKE '%/* the sequence has its source on another server */'
    HAVING count(*) > 0
     UNION ALL
    SELECT readable.label, 'error',
           format('a copy of this server asked by its name until %s: both may have served the same '
                  'values', date_trunc('second', request.parted_at)),
           format('Stop the copy, or attach the sequence there again. What this server held then '
                  'is a gap. When the copy is gone, call hilo_attach_server for %s here, which '
                  'ends this message.', quote_ident(readable.name)), NULL
      FROM _hilo.hilo_source request
      JOIN state ON state.node = request.node
      JOIN readable ON readable.id = request.sequence AND readable.source IS NOT NULL
     WHERE request.parted_at IS NOT NULL
     UNION ALL
    SELECT attached.label, 'error',
           format('it takes blocks of %s from its counter as "%s", and sequence "%s" blocks of %s '
                  'as "%s": values come twice',
                  attached.size, attached.client, other.name, other.size, other.client),
           'Find out which is the mapper''s way, and detach the other sequence with hilo_detach.',
           NULL
      FROM attached
      JOIN attached other ON other.counter = attached.counter AND other.name > attached.name
     WHERE (attached.first, attached.size) <> (other.first, other.size)
       -- Who uses each number by itself collides with nobody who uses it as the first or last of a
       -- block.
       AND NOT ('core' IN (attached.client, other.client)
                AND attached.first IN ('value', 'value - size + 1')
                AND other.first IN ('value', 'value - size + 1'))
     UNION ALL
    -- Positions of this node that may lack reservations from which values were served. pg_upgrade
    -- requires a clean shutdown, and leaves the server on its first timeline: what it brought lacks
    -- nothing.
    SELECT format('node %s', state.node), 'warning',
           format('%s positions of this node, such as that of "%s", %s',
                  count(*), min(readable.name), origin.what),
           'If the server that they come from is stopped permanently before this one serves, do '
           'nothing: the first use of each sequence skips hilo.failover_skip values. If both are '
           'to serve, give each its own hilo.node_id.', NULL
      FROM state
      JOIN _hilo.hilo_position position ON position.node = state.node
      JOIN readable ON readable.id = position.sequence
     CROSS JOIN LATERAL (
         -- As core prints it: without a sign.
         SELECT mod(position.system_id + 18446744073709551616, 18446744073709551616)
                    AS system_id) writer
     CROSS JOIN LATERAL (
         SELECT CASE
             WHEN position.timeline < 0 AND position.incarnation = -1
                  AND position.system_id = state.system_id
             THEN 'were restored from a dump of a server at which they had arrived by replication'
             WHEN position.timeline < 0
             THEN format('arrived by replication from another server (%s)', writer.system_id)
             WHEN position.system_id = state.system_id
                  AND state.timeline NOT IN (0, position.timeline)
             THEN format('were last written on timeline %s, before this server was promoted or '
                         'copied', position.timeline)
             WHEN position.system_id NOT IN (0, state.system_id) AND state.timeline > 1
                  AND position.next_index > 0
             THEN format('were last written by the server %s, from which this server was made by '
                         'pg_createsubscriber, or by pg_upgrade before it was promoted',
                         writer.system_id) END AS what) origin
     WHERE origin.what IS NOT NULL
     GROUP BY state.node, origin.what
     UNION ALL
    SELECT readable.label, CASE WHEN reserved.overlap THEN 'error' ELSE 'warning' END,
           format('numbered differently: here from %s with node count %s, by node %s from %s with '
                  'node count %s%s', ours.base, ours.nodes, theirs.node, theirs.base, theirs.nodes,
                  CASE WHEN reserved.overlap
                       THEN '; the values that the two have reserved may overlap' END),
           format('%s A node that is permanently gone can be left as it is.', state.restart), NULL
      FROM state
      JOIN _hilo.hilo_position ours ON ours.node = state.node
      JOIN _hilo.hilo_position theirs ON theirs.sequence = ours.sequence
                                     AND theirs.node <> ours.node
      JOIN readable ON readable.id = theirs.sequence
     CROSS JOIN LATERAL (
         SELECT _hilo.hilo_value_at(
                    theirs.next_index - 1, theirs.base, readable.increment,
                    readable.min_value, readable.max_value, readable.cycle,
                    theirs.node, theirs.nodes, theirs.stripe) AS their_last,
                _hilo.hilo_value_at(
                    ours.next_index - 1, ours.base, readable.increment,
                    readable.min_value, readable.max_value, readable.cycle,
                    ours.node, ours.nodes, ours.stripe) AS last) reached
     CROSS JOIN LATERAL (
         SELECT theirs.next_index > 0 AND ours.next_index > 0 AND NOT readable.cycle
                AND greatest(theirs.base, reached.their_last) >= least(ours.base, reached.last)
                AND greatest(ours.base, reached.last) >= least(theirs.base, reached.their_last)
                    AS overlap) reserved
     WHERE (theirs.base, theirs.nodes, theirs.stripe) <> (ours.base, ours.nodes, ours.stripe)
     UNION ALL
    SELECT 'setting hilo.node_count', 'warning',
           format('%s sequences, such as "%s", are numbered for hilo.node_count = %s, but the '
                  'setting is %s', count(*), min(readable.name), readable.nodes, state.node_count),
           state.restart, NULL
      FROM state
      JOIN readable ON readable.nodes <> state.node_count AND NOT readable.gapless
     GROUP BY readable.nodes, state.node_count, state.restart;
REVOKE ALL ON _hilo.hilo_sequence_finding FROM PUBLIC;
COMMENT ON VIEW _hilo.hilo_sequence_finding IS
    'Findings of hilo_check about sequences, their leases and sources, and their positions on '
    'this node and others';
