-- The functions that users call to define sequences and to look at them. They check privileges
-- themselves for each sequence, as core does for its own, so every user may call them. None is
-- SECURITY DEFINER, and none resolves a name through the caller's search_path.

-- Definitions. These functions are transactional: they take effect at commit. sql/calls.sql says
-- what the twins in _hilo are for.

CREATE FUNCTION @extschema@.hilo_create(
    name @extschema@.hilo_sequence,
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
    owned_by text DEFAULT NULL,
    source text DEFAULT NULL,
    reserve_ahead interval DEFAULT NULL,
    description text DEFAULT NULL
) RETURNS @extschema@.hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_create_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_create(
    @extschema@.hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint,
    bigint, text, boolean, boolean, text, text, interval, text) IS
    'Creates a sequence and returns its name. The bounds and start_value default as in CREATE '
    'SEQUENCE. block_size: number of values reserved at once; null: chosen by rate. slice_size: '
    'maximum number of values that a session takes from the pool at once; null: '
    'hilo.max_slice_size. ordered: a later call gets a later value across all sessions. '
    'key_format: template with {name}, {server}, {value} and {value:0N}. gapless: the committed '
    'values have no holes. The first draw of a transaction locks the sequence until the '
    'transaction ends, and a rollback gives its values to the next one. owned_by: the column, as '
    'table.column or schema.table.column, with which the sequence is dropped, and with whose '
    'table it restarts in TRUNCATE ... RESTART IDENTITY. source: a query that brings the values, '
    'run as the owner. $1 is the name, $2 how many values are wanted, $3 the uuid of the request, '
    '$4 the furthest value that it has brought. Its rows are the first and the last value of '
    'ranges that are this sequence''s alone. reserve_ahead: how long an outage of the source may '
    'last; null: as hilo.buffer says. description: its purpose, in at most 1,000 bytes; '
    'hilo_sequences, hilo_check and hilo_report show it. Errors: 42710 if the sequence exists '
    '(with if_not_exists a NOTICE), 42501 without INSERT on hilo_sequences, 22023 if options are '
    'invalid or contradict each other, 0A000 for a gapless sequence that cycles or that several '
    'nodes share, or for a source with cycle, ordered or gapless or while several nodes share the '
    'sequence, 42P01 or 42703 if the column does not exist, 42809 if it cannot own a sequence, '
    '55000 if its table has another owner, or several nodes share sequences and '
    'hilo.on_every_node is off.';

CREATE FUNCTION _hilo.hilo_create(
    name @extschema@.hilo_sequence,
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
    owned_by text DEFAULT NULL,
    source text DEFAULT NULL,
    reserve_ahead interval DEFAULT NULL,
    description text DEFAULT NULL
) RETURNS @extschema@.hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_create_wrapper';
COMMENT ON FUNCTION _hilo.hilo_create(
    @extschema@.hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint,
    bigint, text, boolean, boolean, text, text, interval, text) IS
    'Does what hilo_create does';

CREATE FUNCTION @extschema@.hilo_alter(
    name @extschema@.hilo_sequence,
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
    owned_by text DEFAULT NULL,
    source text DEFAULT NULL,
    reserve_ahead interval DEFAULT NULL,
    description text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_alter_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_alter(
    @extschema@.hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint,
    bigint, text, bigint, boolean, text, text, interval, text) IS
    'Changes a sequence. Null leaves an option unchanged; block_size 0 and slice_size 0 make '
    'these adaptive again. restart_with: the next value; required, and the same on every node, if '
    'several nodes share the sequence and its increment or cycle changes. gapless: as in '
    'hilo_create; values that were reserved and not served before are in hilo_gaps. owned_by: as '
    'in hilo_create, or none. source: as in hilo_create; an empty text takes it away as long as '
    'nothing was asked of it. reserve_ahead: 0 takes it away. description: an empty text takes it '
    'away. Narrower bounds apply to the calling transaction at once, everything else takes effect '
    'at commit. After a change of increment, cycle or gapless without restart_with, the calling '
    'transaction draws from the sequence only after its commit. Requires ownership of the '
    'sequence. Errors: 42704 if the sequence does not exist, 42501, 22023 if options are invalid '
    'or contradict each other, 0A000 as in hilo_create, 55000 if several nodes could serve a '
    'value twice, or share the sequence and it is restarted while hilo.on_every_node is off, or '
    'the sequence has a source that has brought values, or that says which values come; for '
    'owned_by as hilo_create.';

CREATE FUNCTION _hilo.hilo_alter(
    name @extschema@.hilo_sequence,
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
    owned_by text DEFAULT NULL,
    source text DEFAULT NULL,
    reserve_ahead interval DEFAULT NULL,
    description text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_alter_wrapper';
COMMENT ON FUNCTION _hilo.hilo_alter(
    @extschema@.hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint,
    bigint, text, bigint, boolean, text, text, interval, text) IS
    'Does what hilo_alter does';

CREATE FUNCTION _hilo.hilo_detach(name @extschema@.hilo_sequence, start bigint) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_detach_wrapper';
COMMENT ON FUNCTION _hilo.hilo_detach(@extschema@.hilo_sequence, bigint) IS
    'Takes the source of a sequence away: its own numbers begin with start, which is returned';

CREATE FUNCTION @extschema@.hilo_rename(
    name @extschema@.hilo_sequence, new_name @extschema@.hilo_sequence
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_rename_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_rename(@extschema@.hilo_sequence, @extschema@.hilo_sequence) IS
    'Renames a sequence and rewrites the column defaults that use it; to do so, it waits for the '
    'transactions that write to their tables. Requires ownership of the sequence. Errors: 42704 '
    'if the sequence does not exist, 42710 if the new name is taken, 22023 for NULL, 42501.';

CREATE FUNCTION @extschema@.hilo_drop(
    name @extschema@.hilo_sequence, if_exists boolean DEFAULT false, cascade boolean DEFAULT false
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_drop_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_drop(@extschema@.hilo_sequence, boolean, boolean) IS
    'Drops a sequence. Fails if a column default uses the sequence; with cascade, drops such '
    'defaults. Requires ownership of the sequence. Errors: 42704 if the sequence does not exist '
    '(with if_exists a NOTICE), 2BP01 if a default uses it, 22023 for NULL, 42501.';

CREATE FUNCTION @extschema@.hilo_set_owner(name @extschema@.hilo_sequence, new_owner text)
    RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_set_owner_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_set_owner(@extschema@.hilo_sequence, text) IS
    'Gives a sequence to another role. Requires ownership of the sequence. Unless the caller is a '
    'superuser, it must be a member of the new owner, which must have INSERT on hilo_sequences. '
    'Errors: 42704 if the sequence or the role does not exist, 42501.';

CREATE FUNCTION @extschema@.hilo_grant(name @extschema@.hilo_sequence, grantee text, privilege text)
    RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_grant_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_grant(@extschema@.hilo_sequence, text, text) IS
    'Grants a privilege on a sequence to a role or to PUBLIC. USAGE: next values, currval, keys. '
    'SELECT: currval, reading. UPDATE: next values, setval, ranges, hi and leases. LEASE: leases. '
    'ALL, or a list with commas, are possible too. Requires ownership of the sequence. Errors: '
    '42704 if the sequence or the role does not exist, 22023 for another privilege, 42501.';

CREATE FUNCTION @extschema@.hilo_revoke(
    name @extschema@.hilo_sequence, grantee text, privilege text
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_revoke_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_revoke(@extschema@.hilo_sequence, text, text) IS
    'Revokes a privilege on a sequence from a role or from PUBLIC: USAGE, SELECT, UPDATE, LEASE, '
    'ALL, or a list with commas. Requires ownership of the sequence. Errors: 42704 if the '
    'sequence or the role does not exist, 22023 for another privilege, 42501.';

-- From core's sequences to hilo's and back. Transactional too.

CREATE FUNCTION @extschema@.hilo_adopt(
    relation regclass, column_name name, name @extschema@.hilo_sequence DEFAULT NULL,
    ordered boolean DEFAULT NULL
)
    RETURNS @extschema@.hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_adopt_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_adopt(regclass, name, @extschema@.hilo_sequence, boolean) IS
    'Makes a serial or identity column, or one whose default is nextval(...), draw from a new '
    'hilo sequence. Returns its name; null: the name of the old sequence. The new one continues '
    'beyond the old one and beyond the values of the column, with the same type, bounds, '
    'increment, start value and privileges. ordered: whether it is ordered; null: if the old one '
    'has CACHE 1, which is in order across sessions. Drops the old sequence if nothing else uses '
    'it. Locks the table in ACCESS EXCLUSIVE mode, as ALTER TABLE does, in attempts of less than '
    'half a second. Requires ownership of the table, and INSERT on hilo_sequences. Errors: 42P01, '
    '42703, 42809 for what is not a permanent table, 42804 for a column that is not smallint, '
    'integer, bigint or numeric, 55000 if the column has no sequence, uses hilo already, or '
    'shares its sequence with another column, 42710 if the name is taken, 42501, 55P03 after '
    'lock_timeout.';

CREATE FUNCTION @extschema@.hilo_release(
    relation regclass, column_name name, identity text DEFAULT 'BY DEFAULT',
    sequence_name name DEFAULT NULL
)
    RETURNS regclass
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_release_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_release(regclass, name, text, name) IS
    'Makes a column whose default is hilo_nextval(...) an identity column, or with null a serial '
    'column, which continues with the very next number, and returns its sequence. identity: BY '
    'DEFAULT, ALWAYS or null. sequence_name: its name, in the schema of the table; null: that of '
    'the hilo sequence or, if another relation has that, one that core chooses. After hilo_adopt, '
    'the sequence is as it was before, with its CACHE, its comment, and a type that is wider than '
    'the column. Drops the hilo sequence; hilo_gaps keeps what it has lost. Locks the table as '
    'hilo_adopt does. Requires ownership of the table and of the sequence. Errors: as for '
    'hilo_adopt, 22023 for another identity, 42P07 if the name is taken, 55000 if several nodes '
    'share the sequence, or the column may be null and is to become an identity column.';

CREATE FUNCTION @extschema@.hilo_sync(
    name @extschema@.hilo_sequence, relation regclass, column_name name
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_sync_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_sync(@extschema@.hilo_sequence, regclass, name) IS
    'Moves a sequence past the largest value of a column, if it would serve a value of the column '
    'otherwise. The values of a text column are the numbers in its keys. Never moves it back. '
    'Returns the next value; null: there is none left. Locks no table. If it moves the sequence, '
    'its transaction draws from it as after hilo_advance. Values beyond the last bound of the '
    'sequence do not count: call it again after that bound is widened. Requires UPDATE on the '
    'sequence and SELECT on the column. Errors: 42704 if the sequence does not exist, 42P01, '
    '42703, 42804 as for hilo_adopt, 42809 for a view, 55000 if several nodes share the sequence '
    'and hilo.on_every_node is off, 42501.';

-- Privileges on many sequences, and on those to come.

CREATE FUNCTION @extschema@.hilo_grant_all(
    grantee text, privilege text, pattern text DEFAULT '%', owner text DEFAULT NULL
)
    RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_grant_all_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_grant_all(text, text, text, text) IS
    'Grants a privilege, as hilo_grant does, on every sequence of the caller whose name matches a '
    'pattern of LIKE. owner: the sequences of that role instead. Returns the number of these '
    'sequences. A WARNING counts other matching sequences that the caller may see. Sequences that '
    'are created later are not included: see hilo_default_grant. Errors: 42704 if a role does not '
    'exist, 22023 for another privilege, for NULL, and for a pattern that ends with an escape '
    'character, 42501 if the caller does not have the privileges of owner.';

CREATE FUNCTION @extschema@.hilo_revoke_all(
    grantee text, privilege text, pattern text DEFAULT '%', owner text DEFAULT NULL
)
    RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_revoke_all_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_revoke_all(text, text, text, text) IS
    'Revokes a privilege, as hilo_revoke does, on the sequences that hilo_grant_all grants on. '
    'Returns the number of these sequences. Errors: as for hilo_grant_all.';

CREATE FUNCTION @extschema@.hilo_default_grant(
    grantee text, privilege text, pattern text DEFAULT '%', for_role text DEFAULT NULL
)
    RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_default_grant_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_default_grant(text, text, text, text) IS
    'Makes sequences that the caller will create start with a privilege for grantee, if their '
    'names match a pattern of LIKE. for_role: the sequences of that role instead. Existing '
    'sequences stay as they are: see hilo_grant_all. The view hilo_default_privileges shows these '
    'privileges. Errors: 42704 if a role does not exist, 22023 for another privilege, for NULL, '
    'and for a pattern that ends with an escape character, 42501 if the caller does not have the '
    'privileges of for_role.';

CREATE FUNCTION @extschema@.hilo_default_revoke(
    grantee text, privilege text, pattern text DEFAULT '%', for_role text DEFAULT NULL
)
    RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_default_revoke_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_default_revoke(text, text, text, text) IS
    'Takes back what hilo_default_grant gave with the same pattern; without effect if it gave '
    'nothing. Existing sequences stay as they are: see hilo_revoke_all. Errors: as for '
    'hilo_default_grant.';

-- Inspection.

-- Volatile and unsafe, as hilo_check is.
CREATE FUNCTION @extschema@.hilo_report() RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_report_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_report() IS
    'Returns one HTML page of what the views and hilo_check show the caller. It has the findings, '
    'the sequences that need attention most, gaps, leases and changed settings, each up to 200 '
    'rows. The page is ASCII and loads nothing. It changes nothing, and runs on a standby too. '
    'Where a part cannot be read, the page says so.';

CREATE FUNCTION @extschema@.hilo_stat_reset(name @extschema@.hilo_sequence DEFAULT NULL)
    RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_stat_reset_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_stat_reset(@extschema@.hilo_sequence) IS
    'Sets the counters of a sequence to zero if it is active; without a name, those of every '
    'active sequence of this database. Requires ownership of the sequence; without a name, '
    'superuser rights. Errors: 42704 if the sequence does not exist, 42501.';

-- The functions that the views are made of. Postgres checks EXECUTE on a view's functions for the
-- role that reads the view, so PUBLIC keeps EXECUTE. Other uses are prevented because PUBLIC has no
-- USAGE on the schema. Each function shows the current database only. ROWS is low on purpose: the
-- planner then looks up the definitions by key instead of reading all of them.

CREATE FUNCTION _hilo.hilo_node_id() RETURNS integer
    LANGUAGE c STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'node_id_wrapper';
COMMENT ON FUNCTION _hilo.hilo_node_id() IS 'Returns which node this server is';

CREATE FUNCTION _hilo.hilo_value_at(
    index bigint, base bigint, increment bigint, min_value bigint, max_value bigint, cycle boolean,
    node integer, nodes integer, stripe bigint
) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_value_at_wrapper';
COMMENT ON FUNCTION _hilo.hilo_value_at(
    bigint, bigint, bigint, bigint, bigint, boolean, integer, integer, bigint) IS
    'Returns the value of an index; null before the first value and beyond the last';

CREATE FUNCTION _hilo.hilo_stat_slices() RETURNS TABLE (
    sequence bigint, pid integer, next_value bigint, last_value bigint, left_in_slice bigint
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 100
    AS 'MODULE_PATHNAME', 'stat_slices_wrapper';
COMMENT ON FUNCTION _hilo.hilo_stat_slices() IS 'Returns the slices of the sessions';

CREATE FUNCTION _hilo.hilo_stat_ranges() RETURNS TABLE (
    sequence bigint, first_value bigint, last_value bigint, count bigint, tier text, pid integer
)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 100
    AS 'MODULE_PATHNAME', 'stat_ranges_wrapper';
COMMENT ON FUNCTION _hilo.hilo_stat_ranges() IS
    'Returns the ranges of values in memory, each value exactly once';

CREATE FUNCTION _hilo.hilo_rate_samples()
    RETURNS TABLE (sequence bigint, at timestamptz, taken bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000
    AS 'MODULE_PATHNAME', 'rate_samples_wrapper';
COMMENT ON FUNCTION _hilo.hilo_rate_samples() IS
    'Returns, for each slot in shared memory, the times of its samples, and how many values were '
    'taken by then. The last is now';
