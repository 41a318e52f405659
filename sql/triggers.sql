-- The triggers of the tables: for rows of a restore, rows that replication brings, and TRUNCATE.

-- A row whose role does not exist comes from a dump or by replication, because the library's own writes fire
-- no triggers. Triggers of privileges also fire where rows arrive by replication: there too a
-- second grant to no role would collide with the first.

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
-- what they accept and keep out. No value is served twice because of replication, memory learns of
-- what has changed, and no row stops a worker permanently.
--
-- A position belongs to its node. Rows of other nodes are accepted, and marked by the timeline -1.
-- Rows of this server's own node are accepted only if this server has not reserved yet, as on a
-- replica that is to take over. Once it has, neither its position nor the columns that determine
-- the numbers are replaced by rows from elsewhere.

CREATE FUNCTION hilo.is_served_here(sequence bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_served_here_wrapper';
COMMENT ON FUNCTION hilo.is_served_here(bigint) IS
    'Returns whether this server has reserved from a sequence, or made its position';
CREATE FUNCTION hilo.is_twin(system_id bigint, incarnation bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_twin_wrapper';
COMMENT ON FUNCTION hilo.is_twin(bigint, bigint) IS
    'Returns whether a replicated position of this node is that of another server, which hilo_check then reports';
CREATE FUNCTION hilo.is_due(moved boolean) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_due_wrapper';
COMMENT ON FUNCTION hilo.is_due(boolean) IS
    'Returns once a minute that it is time for the warning of a moved node, or else for that of a twin';
CREATE FUNCTION hilo.depend_on(role hilo.role) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_depend_on_wrapper';
COMMENT ON FUNCTION hilo.depend_on(hilo.role) IS 'Records a role, so that DROP ROLE knows of it';
CREATE FUNCTION hilo.note_replicated(sequence bigint, change text) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_note_replicated_wrapper';
COMMENT ON FUNCTION hilo.note_replicated(bigint, text) IS
    'Lets sessions learn at commit that a sequence was altered, dropped with its numbers, or otherwise outdated';

CREATE FUNCTION hilo.own_replicated() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_role_own_replicated';
COMMENT ON FUNCTION hilo.own_replicated() IS
    'Makes the current user the owner of a replicated sequence whose owner does not exist';
CREATE FUNCTION hilo.has_name(name text) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_has_name_wrapper';
COMMENT ON FUNCTION hilo.has_name(text) IS 'Returns whether a sequence has this name';
CREATE FUNCTION hilo.has_id(id bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_has_id_wrapper';
COMMENT ON FUNCTION hilo.has_id(bigint) IS 'Returns whether a sequence has this id';
CREATE FUNCTION hilo.has_position(sequence bigint, node integer) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_has_position_wrapper';
COMMENT ON FUNCTION hilo.has_position(bigint, integer) IS 'Returns whether a node has a position in a sequence';
CREATE FUNCTION hilo.is_recorded(sequence bigint, grantee hilo.role, privilege text) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_recorded_wrapper';
COMMENT ON FUNCTION hilo.is_recorded(bigint, hilo.role, text) IS
    'Returns whether a privilege is recorded for exactly this grantee';

-- The functions of these triggers have the rights of their owner. Whoever applies rows may write to the
-- tables, and needs no other right. Nobody else can call them, or have a table of his own call them.
-- A copy brings rows that are here already, as after a restore: each becomes an update. The statements name no
-- schema, because the tables are in schema hilo while older servers send their rows there.

CREATE FUNCTION hilo.replicated_sequence() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- A server runs no query that another sends, and makes no numbers between those of a source.
    elsewhere CONSTANT text := 'SELECT NULL::bigint, NULL::bigint /* the sequence has its source on another server */';
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM hilo.note_replicated(OLD.id, 'dropped');
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' AND hilo.has_id(NEW.id) THEN
        -- All but what is this server's own. This function judges it when it is called for the update.
        EXECUTE format(
            'UPDATE %s AS t
                SET (name, data_type, start_value, increment, min_value, max_value, cycle, ordered, block_size,
                     slice_size, key_format, owner, owned_by, gapless, source) =
                    ROW ($1.name, $1.data_type, $1.start_value, $1.increment, $1.min_value, $1.max_value, $1.cycle,
                         $1.ordered, $1.block_size, $1.slice_size, $1.key_format, $1.owner, $1.owned_by, $1.gapless,
                         $1.source)
              WHERE t.id = $1.id', TG_RELID::regclass) USING NEW;
        -- It may have been dropped while this waited.
        IF hilo.has_id(NEW.id) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF hilo.has_name(NEW.name) THEN
            RAISE WARNING 'hilo sequence "%" was also created on another server', NEW.name
                USING DETAIL = 'A row of _hilo.sequence arrived by replication with a name that another sequence has on this '
                               'server. The row was not applied.',
                      HINT = 'Each server continues with its own sequence. Their values stay disjoint as long as both have the '
                             'same definition and numbering.';
            RETURN NULL;
        END IF;
        IF NEW.source IS NOT NULL THEN
            NEW.source := elsewhere;
        END IF;
        -- A role that does not exist is replaced by the trigger replicated_owner.
        PERFORM hilo.depend_on(NEW.owner);
        RETURN NEW;
    END IF;
    IF NEW.name <> OLD.name AND hilo.has_name(NEW.name) THEN
        RAISE WARNING 'hilo sequence "%" was renamed to "%" on another server', OLD.name, NEW.name
            USING DETAIL = 'Another sequence on this server has the new name, so the sequence keeps its old name here.',
                  HINT = 'Rename one of the two sequences.';
        NEW.name := OLD.name;
    END IF;
    -- A query that runs here runs as nobody else.
    IF NEW.owner::text = '-' OR OLD.source <> elsewhere THEN
        NEW.owner := OLD.owner;
    ELSIF NEW.owner::oid <> OLD.owner::oid THEN
        PERFORM hilo.depend_on(NEW.owner);
    END IF;
    IF (NEW.data_type, NEW.start_value, NEW.increment, NEW.min_value, NEW.max_value, NEW.cycle, NEW.ordered, NEW.gapless)
       IS DISTINCT FROM
       (OLD.data_type, OLD.start_value, OLD.increment, OLD.min_value, OLD.max_value, OLD.cycle, OLD.ordered, OLD.gapless)
       AND hilo.is_served_here(OLD.id)
    THEN
        RAISE WARNING 'hilo sequence "%" is numbered differently on another server', OLD.name
            USING DETAIL = 'A row of _hilo.sequence arrived by replication with a different data type, increment, start value, '
                           'bounds, cycle, order, or gapless. This server kept its own, because it has numbered the sequence '
                           'by them.',
                  HINT = 'Make the same change on every node that serves the sequence.';
        NEW.data_type := OLD.data_type;
        NEW.start_value := OLD.start_value;
        NEW.increment := OLD.increment;
        NEW.min_value := OLD.min_value;
        NEW.max_value := OLD.max_value;
        NEW.cycle := OLD.cycle;
        NEW.ordered := OLD.ordered;
        NEW.gapless := OLD.gapless;
    END IF;
    -- A source is this server's own: what the other one brings there is not brought here.
    NEW.reserve_ahead := OLD.reserve_ahead;
    NEW.source := CASE WHEN NEW.source IS NULL OR OLD.source IS NOT NULL OR hilo.is_served_here(OLD.id) THEN OLD.source
                       ELSE elsewhere END;
    IF NEW *= OLD THEN
        RETURN NULL;
    END IF;
    PERFORM hilo.note_replicated(NEW.id, 'altered');
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION hilo.replicated_sequence() IS
    'Applies a replicated definition, except for the columns by which this server has numbered the sequence';

CREATE FUNCTION hilo.replicated_position() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    node CONSTANT integer := hilo.node_id();
    is_ours CONSTANT boolean := NEW.node = node AND hilo.is_served_here(NEW.sequence);
BEGIN
    IF TG_OP = 'DELETE' THEN
        -- A position of this server is deleted with its sequence.
        RETURN CASE WHEN OLD.node = node AND hilo.is_served_here(OLD.sequence) THEN NULL ELSE OLD END;
    ELSIF is_ours THEN
        IF hilo.is_twin(NEW.system_id, NEW.incarnation) AND hilo.is_due(false) THEN
            RAISE WARNING 'another server reserves values as node %, which is the node of this server', node
                USING DETAIL = 'A row of _hilo.position for this node arrived by replication, but this server has already reserved '
                               'from that sequence. The row was not applied.',
                      HINT = 'Both servers serve the same values and, with the same hilo.server_prefix, the same keys. Stop one '
                             'of them, or give it its own hilo.node_id.';
        END IF;
        RETURN NULL;
    ELSIF TG_OP = 'INSERT' AND hilo.has_position(NEW.sequence, NEW.node) THEN
        -- It may become ours while this waits: the call for the update sees it. One that is ours by now is not
        -- locked, for refills would wait.
        EXECUTE format(
            'UPDATE %s AS t
                SET (epoch, base, next_index, settled_index, incarnation, nodes, stripe, system_id, timeline, skip,
                     served, slices, blocks_reserved, blocks_prefetched, waits, wait_time, recycled, lost, errors) =
                    ROW ($1.epoch, $1.base, $1.next_index, $1.settled_index, $1.incarnation, $1.nodes, $1.stripe,
                         $1.system_id, $1.timeline, $1.skip, $1.served, $1.slices, $1.blocks_reserved,
                         $1.blocks_prefetched, $1.waits, $1.wait_time, $1.recycled, $1.lost, $1.errors)
              WHERE t.sequence = $1.sequence AND t.node = $1.node', TG_RELID::regclass) USING NEW;
        IF hilo.has_position(NEW.sequence, NEW.node) THEN
            RETURN NULL;
        END IF;
    END IF;
    NEW.timeline := -1;
    IF TG_OP = 'UPDATE' AND NEW.node <> node
       AND NEW.system_id <> OLD.system_id AND 0 NOT IN (NEW.system_id, OLD.system_id)
       AND hilo.is_due(true)
    THEN
        RAISE WARNING 'node % is now a different server', NEW.node
            USING DETAIL = 'A row of _hilo.position arrived by replication from a different server than before.',
                  HINT = 'After a failover of that node this is expected. Otherwise two servers have the same hilo.node_id and '
                         'serve the same values.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION hilo.replicated_position() IS
    'Applies the replicated positions of other nodes, and that of this node if this server has not reserved '
    'from the sequence yet';

CREATE FUNCTION hilo.replicated_privilege() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' AND hilo.is_recorded(NEW.sequence, NEW.grantee, NEW.privilege) THEN
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM hilo.depend_on(NEW.grantee);
    END IF;
    PERFORM hilo.note_replicated(COALESCE(NEW.sequence, OLD.sequence), 'outdated');
    RETURN COALESCE(NEW, OLD);
END
$$;
COMMENT ON FUNCTION hilo.replicated_privilege() IS 'Applies a replicated privilege that does not exist yet';

CREATE FUNCTION hilo.replicated_default_privilege() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_recorded boolean;
BEGIN
    -- Rows of servers older than 0.4.0 need the table in schema hilo.
    EXECUTE format('SELECT true FROM %s AS t WHERE t *= $1', TG_RELID::regclass) INTO is_recorded USING NEW;
    IF is_recorded THEN
        RETURN NULL;
    END IF;
    PERFORM hilo.depend_on(NEW.owner), hilo.depend_on(NEW.grantee);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION hilo.replicated_default_privilege() IS 'Applies a replicated default privilege that does not exist yet';

-- A range that another server returned is for that server to serve, and a lease is ended at the server that made it.
CREATE FUNCTION hilo.keep_out() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION hilo.keep_out() IS
    'Keeps out replicated free ranges, leases and requests to sources, which belong to another server';
REVOKE ALL ON FUNCTION hilo.is_served_here(bigint), hilo.is_twin(bigint, bigint), hilo.is_due(boolean), hilo.depend_on(hilo.role),
    hilo.own_replicated(), hilo.note_replicated(bigint, text), hilo.has_name(text), hilo.has_id(bigint),
    hilo.has_position(bigint, integer), hilo.is_recorded(bigint, hilo.role, text), hilo.replicated_sequence(), hilo.replicated_position(),
    hilo.replicated_privilege(), hilo.replicated_default_privilege(), hilo.keep_out() FROM PUBLIC;

-- They may have been enabled for all sessions: hilo_check reports that.
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.sequence
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_sequence();
ALTER TABLE _hilo.sequence ENABLE REPLICA TRIGGER replicated;
-- It fires after the other, by its name.
CREATE TRIGGER replicated_owner BEFORE INSERT ON _hilo.sequence
    FOR EACH ROW WHEN (NEW.owner = '-'::hilo.role) EXECUTE FUNCTION hilo.own_replicated();
ALTER TABLE _hilo.sequence ENABLE REPLICA TRIGGER replicated_owner;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.position
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_position();
ALTER TABLE _hilo.position ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.privilege
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_privilege();
ALTER TABLE _hilo.privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE ON _hilo.default_privilege
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_default_privilege();
ALTER TABLE _hilo.default_privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.free_range
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.keep_out();
ALTER TABLE _hilo.free_range ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.lease
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.keep_out();
ALTER TABLE _hilo.lease ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.source
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.keep_out();
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
