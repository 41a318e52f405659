-- Gaps: the values that a sequence will not serve, and those that a column lacks, and why.

-- The reasons of a gap, which the code names in src/catalog/sequence/gaps.rs.
CREATE VIEW _hilo.hilo_loss AS
    SELECT l.place, l.reason, l.meaning
      FROM (VALUES
          (1, 'crash', 'the server died with the values in memory'),
          (2, 'discarded', 'returned where nothing could take them, leased by a transaction that '
                           'was rolled back, or in a refused answer of a source'),
          (3, 'altered', 'made invalid by hilo_alter or hilo_setval, or the sequence was moved '
                         'beyond them'),
          (4, 'expired', 'their lease expired'),
          (5, 'revoked', 'their lease was revoked'),
          (6, 'restored', 'perhaps served by the server that this one is a copy of')
      ) AS l (place, reason, meaning);
REVOKE ALL ON _hilo.hilo_loss FROM PUBLIC;
-- The report and exporters read it with their caller's rights.
GRANT SELECT ON _hilo.hilo_loss TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_loss IS
    'Why values will not be served: the reasons of hilo_gaps, and what each means';

CREATE VIEW @extschema@.hilo_gaps WITH (security_barrier) AS
    SELECT COALESCE(s.name, g.name) AS name,
           g.first_value AS first, g.last_value AS last, g.count, g.reason,
           g.node AS node_id, g.recorded_at, g.increment,
           CASE WHEN g.epoch IS NOT NULL
                THEN pg_catalog.concat_ws('.', g.sequence, g.epoch >> 24, g.increment)
           END AS numbering
      FROM _hilo.hilo_gap g
      LEFT JOIN _hilo.hilo_readable s ON s.id = g.sequence
     WHERE s.id IS NOT NULL
        -- The sequence of a released column has no privileges any more.
        OR g.name IS NOT NULL
           AND (SELECT r.reads_all FROM _hilo.hilo_reader r)
    UNION ALL
    -- Leases that have ended without a return, and that the worker has not filed yet.
    SELECT s.name, l.first_value, l.last_value, l.end_index - l.first_index,
           COALESCE(l.ended, 'expired'), l.node, COALESCE(l.ended_at, l.expires_at), l.increment,
           pg_catalog.concat_ws('.', s.id, l.epoch >> 24, l.increment)
      FROM _hilo.hilo_lease l
      JOIN _hilo.hilo_readable s ON s.id = l.sequence
     WHERE l.ended = 'revoked'
        OR l.ended IS NULL AND l.expires_at <= pg_catalog.clock_timestamp();
COMMENT ON VIEW @extschema@.hilo_gaps IS
    'Ranges of values that will no longer be served and are not known to have been served, each '
    'with the reason';
COMMENT ON COLUMN @extschema@.hilo_gaps.name IS
    'Name of the sequence; those who may read everything also see what a released column has lost';
COMMENT ON COLUMN @extschema@.hilo_gaps.first IS 'First value, in the order of serving';
COMMENT ON COLUMN @extschema@.hilo_gaps.last IS 'Last value, in the order of serving';
COMMENT ON COLUMN @extschema@.hilo_gaps.count IS
    'Number of values that are lost, in steps of the increment. If there are fewer than from '
    'first to last, others lie between them. A sequence has about 1,000 rows at most; then the '
    'nearest of one numbering and reason become one, and the oldest numberings share rows';
COMMENT ON COLUMN @extschema@.hilo_gaps.reason IS
    'Why they will not be served: _hilo.hilo_loss says what it means. hilo_find_gaps returns '
    'which of them a column lacks';
COMMENT ON COLUMN @extschema@.hilo_gaps.node_id IS
    'hilo.node_id of the server that had reserved the values';
COMMENT ON COLUMN @extschema@.hilo_gaps.recorded_at IS
    'When the values, or the last of them, were found to be lost';
COMMENT ON COLUMN @extschema@.hilo_gaps.increment IS 'Distance from one value to the next';
COMMENT ON COLUMN @extschema@.hilo_gaps.numbering IS
    'Numbering that the values belong to, as in hilo_sequences and hilo_leases; null: several, or '
    'an unknown one';
GRANT SELECT ON @extschema@.hilo_gaps TO PUBLIC;

-- Volatile and unsafe: it reads the pool, which no snapshot keeps unchanged.
CREATE FUNCTION @extschema@.hilo_find_gaps(
    name @extschema@.hilo_sequence, relation regclass, column_name name
)
    RETURNS TABLE (first bigint, last bigint, count bigint, reason text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'hilo_find_gaps_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_find_gaps(@extschema@.hilo_sequence, regclass, name) IS
    'Returns the values of a sequence that a column lacks, from the start of the sequence to its '
    'position on this node. They are ranges in steps of the increment, each with its reason. '
    'slice, current, standby, returned: in memory, to be served. free: in the catalog, to be '
    'served. leased: in use elsewhere. The reasons of hilo_gaps: as there. not received: the '
    'source has brought no value this far. Else: rolled back, deleted or unknown; with a source '
    'perhaps not received. Requires SELECT, USAGE, UPDATE or LEASE on the sequence and SELECT on '
    'the column, which must be of type smallint, integer, bigint or numeric. Errors: 42704 if the '
    'sequence does not exist, 42703 if the column does not exist, 42804 if the column has another '
    'type, 42809 if a superuser names a view, 0A000 if the sequence cycles, 42501.';
