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
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_set_owner_wrapper';
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
