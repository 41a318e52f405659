-- From 0.1.0 to 0.2.0. What an install script of 0.2.0 makes anew, this makes of what is there.

COMMENT ON COLUMN hilo.position.timeline IS 'Timeline on which it was reserved, to know a promoted one by; -1: the row came by logical replication';

-- What logical replication brings, from whatever publication: the triggers fire for its workers alone
-- (session_replication_role = replica), and not in a restore. What they take and what they keep out:
-- docs/multi-node.md.

CREATE FUNCTION hilo.replicated_sequence() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_sequence';
COMMENT ON FUNCTION hilo.replicated_sequence() IS 'Takes a replicated definition, but for what this server has numbered by';
CREATE FUNCTION hilo.replicated_position() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_position';
COMMENT ON FUNCTION hilo.replicated_position() IS 'Takes the replicated positions of other nodes, and our own where this server has not reserved yet';
CREATE FUNCTION hilo.replicated_privilege() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_privilege';
COMMENT ON FUNCTION hilo.replicated_privilege() IS 'Takes a replicated privilege that is not there yet';
CREATE FUNCTION hilo.replicated_free_range() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated_free_range';
COMMENT ON FUNCTION hilo.replicated_free_range() IS 'Keeps out what is for another server to serve';
REVOKE ALL ON FUNCTION hilo.replicated_sequence(), hilo.replicated_position(),
    hilo.replicated_privilege(), hilo.replicated_free_range() FROM PUBLIC;

CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.sequence
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_sequence();
ALTER TABLE hilo.sequence ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.position
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_position();
ALTER TABLE hilo.position ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.privilege
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_privilege();
ALTER TABLE hilo.privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON hilo.free_range
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated_free_range();
ALTER TABLE hilo.free_range ENABLE REPLICA TRIGGER replicated;

-- Owners and grantees known to DROP ROLE; the worker adds those of the sequences that are there.
CREATE INDEX sequence_owner_idx ON hilo.sequence (owner);
CREATE INDEX privilege_grantee_idx ON hilo.privilege (grantee);

CREATE FUNCTION hilo.note_roles() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_note_roles';
COMMENT ON FUNCTION hilo.note_roles() IS 'Has DROP ROLE know of the roles of restored rows';
REVOKE ALL ON FUNCTION hilo.note_roles() FROM PUBLIC;
CREATE TRIGGER note_roles AFTER INSERT ON hilo.sequence
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.note_roles();
CREATE TRIGGER note_roles AFTER INSERT ON hilo.privilege
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.note_roles();

CREATE FUNCTION hilo_set_owner(name hilo_sequence, new_owner text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_set_owner_wrapper';
COMMENT ON FUNCTION hilo_set_owner(hilo_sequence, text) IS
'Gives a sequence to another role. Needs its owner, who must be a member of the new one; and that must have CREATE on the schema of the extension. A superuser needs neither. Errors: 42704 if the sequence or the role does not exist, 42501.';

COMMENT ON COLUMN hilo.position.incarnation IS 'Life of the server that holds what is not settled; 0: nobody does; -1: it comes from a dump, and nobody does yet';

-- A dump brings rows as SQL writes them, which the library never does: these fire in a restore alone, not
-- where rows arrive by replication.

CREATE FUNCTION hilo.restored_position() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_restored_position';
COMMENT ON FUNCTION hilo.restored_position() IS 'Makes a restored position nobody''s, until the first reservation takes it over';
CREATE FUNCTION hilo.restored_free_range() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_restored_free_range';
COMMENT ON FUNCTION hilo.restored_free_range() IS 'Refuses a restored free range of a sequence that is in use, which may have served it since the dump';
REVOKE ALL ON FUNCTION hilo.restored_position(), hilo.restored_free_range() FROM PUBLIC;

CREATE TRIGGER restored BEFORE INSERT ON hilo.position
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_position();
CREATE TRIGGER restored BEFORE INSERT ON hilo.free_range
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_free_range();

-- Who has all privileges by a predefined role sees all.
CREATE OR REPLACE VIEW hilo.readable AS
    SELECT s.id, s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value,
           s.cycle, s.ordered, s.block_size, s.slice_size, s.key_format, s.owner
      FROM hilo.sequence s
     WHERE (SELECT pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')
                OR pg_catalog.pg_has_role('pg_write_all_data', 'USAGE')
                OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'))
        OR pg_catalog.pg_has_role(s.owner::oid, 'USAGE')
        OR EXISTS (SELECT FROM hilo.privilege p
                    WHERE p.sequence = s.id
                      AND (p.grantee = 'public'::hilo.role
                           OR pg_catalog.pg_has_role(p.grantee::oid, 'USAGE')));

-- Its operators took operands of types that Postgres has none for, so that the schema could hold a match.
CREATE OR REPLACE VIEW hilo_stat_sequences WITH (security_barrier) AS
    SELECT s.name,
           st.served, st.slices, st.blocks_reserved, st.blocks_prefetched, st.refill_wanted,
           st.waits, st.wait_time_total, st.wait_time_max, st.rate,
           st.in_slices, st.in_current, st.in_standby, st.in_returned,
           st.recycled, st.lost, st.errors, st.last_error, st.last_error_at,
           f.used_fraction,
           -- No more than an interval can hold: some 289,000 years.
           CASE WHEN st.rate > 0::double precision AND NOT s.cycle AND p.sequence IS NOT NULL
                THEN pg_catalog.justify_interval(pg_catalog.make_interval(
                         secs => LEAST(f.values_left / st.rate, 9e12::double precision)))
           END AS exhausted_in
      FROM hilo.stat_slots() st
      JOIN hilo.readable s ON s.id = st.sequence
      LEFT JOIN hilo.position p ON p.sequence = s.id AND p.node = hilo.node_id()
     -- The value that would be reserved next: null beyond the last, and without a position.
     CROSS JOIN LATERAL (
         SELECT hilo.value_at(p.next_index, p.base, s.increment, s.min_value, s.max_value, s.cycle,
                              p.node, p.nodes, p.stripe)::double precision AS next_value,
                s.min_value::double precision AS low,
                s.max_value::double precision AS high,
                pg_catalog.abs(s.increment::double precision) AS step,
                p.nodes::double precision AS nodes,
                (st.in_slices + st.in_current + st.in_standby + st.in_returned)::double precision AS in_memory
     ) v
     CROSS JOIN LATERAL (
         SELECT CASE WHEN p.sequence IS NULL THEN NULL
                     WHEN v.next_value IS NULL THEN 1
                     WHEN s.increment > 0 THEN (v.next_value - v.low) / (v.high - v.low + 1::double precision)
                     ELSE (v.high - v.next_value) / (v.high - v.low + 1::double precision)
                END AS used_fraction,
                CASE WHEN v.next_value IS NULL THEN v.in_memory
                     WHEN s.increment > 0 THEN v.in_memory + pg_catalog.floor((v.high - v.next_value + v.step) / v.step / v.nodes)
                     ELSE v.in_memory + pg_catalog.floor((v.next_value - v.low + v.step) / v.step / v.nodes)
                END AS values_left
     ) f;

-- A definition without its arguments is an error, rather than that nothing happens.
ALTER FUNCTION hilo_rename(hilo_sequence, hilo_sequence) CALLED ON NULL INPUT;
COMMENT ON FUNCTION hilo_rename(hilo_sequence, hilo_sequence) IS
'Renames a sequence and rewrites the column defaults that use it, for which it waits for those who write to their tables. Needs its owner. Errors: 42704 if it does not exist, 42710 if the new name is taken, 22023 for NULL, 42501.';
ALTER FUNCTION hilo_drop(hilo_sequence, boolean, boolean) CALLED ON NULL INPUT;
COMMENT ON FUNCTION hilo_drop(hilo_sequence, boolean, boolean) IS
'Drops a sequence. Refused while a column default uses it; with cascade it drops those defaults. Needs its owner. Errors: 42704 if it does not exist (with if_exists a NOTICE), 2BP01 if a default uses it, 22023 for NULL, 42501.';
ALTER FUNCTION hilo_grant(hilo_sequence, text, text) CALLED ON NULL INPUT;
ALTER FUNCTION hilo_revoke(hilo_sequence, text, text) CALLED ON NULL INPUT;

-- ASCII only, which every database's encoding has.
COMMENT ON SCHEMA hilo IS 'Catalog and internals of the extension hilo. Use the functions and views named hilo_* instead.';
COMMENT ON TABLE hilo.position IS 'How far each node has reserved each sequence. Indexes count the values of a node: 0, 1, 2, ...';
COMMENT ON FUNCTION hilo_nextrange(hilo_sequence, bigint) IS
'The next n values as one range without others between them: first, first + increment, ... last. Needs UPDATE. Errors: as hilo_nextval, 22023 unless n is positive, 2200H if no such range is left.';
COMMENT ON FUNCTION hilo_next_hi(hilo_sequence) IS
'A hi for classic Hi/Lo: the caller owns start_value + (hi * block_size + lo) * increment for lo = 0 ... block_size - 1. Needs UPDATE and a sequence with a fixed block_size. Errors: as hilo_nextval, 22023 without block_size.';
COMMENT ON COLUMN hilo_stat_sequences.used_fraction IS 'Part of the way from one bound to the other that is reserved: 0 to 1';

COMMENT ON FUNCTION hilo_key(hilo_sequence, bigint) IS
'The key of a value in the sequence''s key_format, with this server''s hilo.server_prefix. Needs USAGE or SELECT. Errors: 42704 if it does not exist, 42501.';
COMMENT ON FUNCTION hilo_key_value(hilo_sequence, text) IS
'The value in a key of the sequence''s key_format. Needs USAGE or SELECT. Errors: 22023 if it is not such a key, 42704, 42501.';

COMMENT ON FUNCTION hilo_alter(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, integer, text, bigint) IS
'Changes a sequence; null keeps an option as it is, block_size 0 and slice_size 0 make it adaptive again. restart_with: the next value; to be given, the same on every node, where several nodes deal the sequence and its increment or cycle changes. Needs its owner. Errors: 42704 if it does not exist, 42501, 22023 for options that are invalid or contradict each other, 55000 where several nodes could deal a value twice.';
COMMENT ON FUNCTION hilo_setval(hilo_sequence, bigint, boolean) IS
'Has a sequence go on after value, or with it if is_called is false, and returns value. Unlike setval, takes effect at commit and is undone by a rollback. Needs UPDATE. Errors: 42704 if it does not exist, 22003 out of its bounds, 42501, 55000 where several nodes could deal a value twice.';
