-- hilo_find_gaps: the values of a sequence that a column lacks, and why.

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
