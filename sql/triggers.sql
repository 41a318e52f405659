-- The triggers of the tables: for rows of a restore, rows that replication brings, and TRUNCATE.

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

CREATE TRIGGER missing_owner BEFORE INSERT ON _hilo.sequence
    FOR EACH ROW WHEN (NEW.owner = '-'::hilo.role OR (NEW.source IS NOT NULL AND NOT pg_catalog.pg_has_role(
        NEW.owner::pg_catalog.text::pg_catalog.regrole, 'USAGE'::pg_catalog.text)))
    EXECUTE FUNCTION hilo.own_row();
ALTER TABLE _hilo.sequence ENABLE ALWAYS TRIGGER missing_owner;
-- Whoever may write to the tables, as members of pg_write_all_data may, must not have others run a query.
CREATE TRIGGER refuse_source BEFORE UPDATE OF owner, source ON _hilo.sequence
    FOR EACH ROW WHEN (NEW.source IS NOT NULL AND NOT pg_catalog.pg_has_role(
        NEW.owner::pg_catalog.text::pg_catalog.regrole, 'USAGE'::pg_catalog.text))
    EXECUTE FUNCTION hilo.own_row();
ALTER TABLE _hilo.sequence ENABLE ALWAYS TRIGGER refuse_source;

CREATE TRIGGER missing_grantee BEFORE INSERT ON _hilo.privilege
    FOR EACH ROW WHEN (NEW.grantee = '-'::hilo.role) EXECUTE FUNCTION hilo.skip_row();
ALTER TABLE _hilo.privilege ENABLE ALWAYS TRIGGER missing_grantee;

CREATE TRIGGER missing_role BEFORE INSERT ON _hilo.default_privilege
    FOR EACH ROW WHEN (NEW.owner = '-'::hilo.role OR NEW.grantee = '-'::hilo.role)
    EXECUTE FUNCTION hilo.skip_default();
ALTER TABLE _hilo.default_privilege ENABLE ALWAYS TRIGGER missing_role;

-- These triggers handle what logical replication brings, from any publication. They fire for its
-- workers only (session_replication_role = replica), and not in a restore. docs/multi-node.md says
-- what they accept and keep out.

CREATE FUNCTION hilo.replicated() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_replicated';
COMMENT ON FUNCTION hilo.replicated() IS
    'Applies a replicated row, except for values that this server has numbered by or reserved. Keeps out free ranges '
    'and leases, which belong to another server';
REVOKE ALL ON FUNCTION hilo.replicated() FROM PUBLIC;

CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.sequence
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated();
ALTER TABLE _hilo.sequence ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.position
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated();
ALTER TABLE _hilo.position ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.privilege
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated();
ALTER TABLE _hilo.privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.default_privilege
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated();
ALTER TABLE _hilo.default_privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.free_range
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated();
ALTER TABLE _hilo.free_range ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.lease
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated();
ALTER TABLE _hilo.lease ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.source
    FOR EACH ROW EXECUTE FUNCTION hilo.replicated();
ALTER TABLE _hilo.source ENABLE REPLICA TRIGGER replicated;

CREATE TRIGGER note_roles AFTER INSERT ON _hilo.sequence
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.note_roles();
CREATE TRIGGER note_roles AFTER INSERT ON _hilo.privilege
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.note_roles();
CREATE TRIGGER note_roles AFTER INSERT ON _hilo.default_privilege
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

CREATE TRIGGER restored BEFORE INSERT ON _hilo.position
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_position();
CREATE TRIGGER restored BEFORE INSERT ON _hilo.free_range
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_free_range();
CREATE TRIGGER restored BEFORE INSERT ON _hilo.lease
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_lease();

CREATE FUNCTION hilo.restored_source() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_restored_source';
COMMENT ON FUNCTION hilo.restored_source() IS
    'Forgets the request of a restored row, which the dumped server may still make';
REVOKE ALL ON FUNCTION hilo.restored_source() FROM PUBLIC;
CREATE TRIGGER restored BEFORE INSERT ON _hilo.source
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_source();

-- TRUNCATE would make sequences begin again. The triggers fire for everybody, and where replication brings it.

CREATE FUNCTION hilo.refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'permission denied: "%" is a table of the extension hilo', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege',
              DETAIL = 'Without its rows, numbers would be served again.',
              HINT = 'Use hilo_drop for sequences, and hilo_alter with restart_with to begin again. Leave tables of schema '
                     '_hilo out of TRUNCATE.';
END
$$;
COMMENT ON FUNCTION hilo.refuse_truncate() IS 'Refuses TRUNCATE';
REVOKE ALL ON FUNCTION hilo.refuse_truncate() FROM PUBLIC;

CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.sequence
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.sequence ENABLE ALWAYS TRIGGER refuse_truncate;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.position
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.position ENABLE ALWAYS TRIGGER refuse_truncate;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.free_range
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.free_range ENABLE ALWAYS TRIGGER refuse_truncate;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.gap
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.gap ENABLE ALWAYS TRIGGER refuse_truncate;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.lease
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.lease ENABLE ALWAYS TRIGGER refuse_truncate;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.privilege
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.privilege ENABLE ALWAYS TRIGGER refuse_truncate;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.default_privilege
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.default_privilege ENABLE ALWAYS TRIGGER refuse_truncate;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.source
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.source ENABLE ALWAYS TRIGGER refuse_truncate;
