-- The triggers of the tables: for rows of a restore, rows that replication brings, and all other
-- writes by SQL.

-- A row whose role does not exist comes from a dump or by replication, because the library's own
-- writes fire no triggers. Triggers of privileges also fire where rows arrive by replication: there
-- too a second grant to no role would collide with the first.

CREATE FUNCTION _hilo.hilo_judge_row() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_judge_row';
COMMENT ON FUNCTION _hilo.hilo_judge_row() IS
    'Makes a restored or replicated row one of this server, or omits it, as the name of the '
    'trigger says';
CREATE FUNCTION _hilo.hilo_note_roles() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_note_roles';
COMMENT ON FUNCTION _hilo.hilo_note_roles() IS
    'Records the roles of restored rows, so that DROP ROLE knows of them';
-- No user needs to call these functions: Postgres runs a trigger's function without checking
-- EXECUTE.
REVOKE ALL ON FUNCTION _hilo.hilo_judge_row(), _hilo.hilo_note_roles() FROM PUBLIC;

-- The current user becomes the owner of a sequence whose owner does not exist. A grant to such a
-- role is omitted.
CREATE TRIGGER missing_owner BEFORE INSERT ON _hilo.hilo_definition
    FOR EACH ROW WHEN (
        NEW.owner = '-'::_hilo.hilo_role
        OR (NEW.source IS NOT NULL AND NOT pg_catalog.pg_has_role(
                NEW.owner::pg_catalog.text::pg_catalog.regrole, 'USAGE'::pg_catalog.text)))
    EXECUTE FUNCTION _hilo.hilo_judge_row();
-- Whoever may write to the tables, as members of pg_write_all_data may, must not have others run a
-- query.
CREATE FUNCTION _hilo.hilo_refuse_source() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION
        'permission denied to give hilo sequence "%" a source or another owner', NEW.name
        USING ERRCODE = 'insufficient_privilege',
              DETAIL = format('Its source would run with the rights of role %s, which role %I does '
                              'not have.', NEW.owner, current_user),
              HINT = 'Use hilo_alter as the owner of the sequence.';
END
$$;
COMMENT ON FUNCTION _hilo.hilo_refuse_source() IS
    'Refuses a source that would run with rights which the writer lacks';
REVOKE ALL ON FUNCTION _hilo.hilo_refuse_source() FROM PUBLIC;
CREATE TRIGGER refuse_source BEFORE UPDATE OF owner, source ON _hilo.hilo_definition
    FOR EACH ROW WHEN (NEW.source IS NOT NULL AND NOT pg_catalog.pg_has_role(
        NEW.owner::pg_catalog.text::pg_catalog.regrole, 'USAGE'::pg_catalog.text))
    EXECUTE FUNCTION _hilo.hilo_refuse_source();
ALTER TABLE _hilo.hilo_definition ENABLE ALWAYS TRIGGER refuse_source;

CREATE TRIGGER missing_grantee BEFORE INSERT ON _hilo.hilo_privilege
    FOR EACH ROW WHEN (NEW.grantee = '-'::_hilo.hilo_role) EXECUTE FUNCTION _hilo.hilo_judge_row();
ALTER TABLE _hilo.hilo_privilege ENABLE ALWAYS TRIGGER missing_grantee;

CREATE TRIGGER missing_role BEFORE INSERT ON _hilo.hilo_default_privilege
    FOR EACH ROW WHEN (NEW.owner = '-'::_hilo.hilo_role OR NEW.grantee = '-'::_hilo.hilo_role)
    EXECUTE FUNCTION _hilo.hilo_judge_row();
ALTER TABLE _hilo.hilo_default_privilege ENABLE ALWAYS TRIGGER missing_role;

-- These triggers handle what logical replication brings, from any publication. They fire for its
-- workers only (session_replication_role = replica), and not in a restore. docs/multi-node.md says
-- what they accept and keep out. No value is served twice because of replication, memory learns of
-- what has changed, and no row stops a worker permanently.
--
-- A position belongs to its node. Rows of other nodes are accepted, and marked by the timeline -1.
-- Rows of this server's own node are accepted only if this server has not reserved yet, as on a
-- replica that is to take over. Once it has, neither its position nor the columns that determine
-- the numbers are replaced by rows from elsewhere.

CREATE FUNCTION _hilo.hilo_is_served_here(sequence bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_served_here_wrapper';
COMMENT ON FUNCTION _hilo.hilo_is_served_here(bigint) IS
    'Returns whether this server has reserved from a sequence, or made its position';
CREATE FUNCTION _hilo.hilo_is_twin(sequence bigint, system_id bigint, incarnation bigint)
    RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_twin_wrapper';
COMMENT ON FUNCTION _hilo.hilo_is_twin(bigint, bigint, bigint) IS
    'Returns whether a replicated position of this node is that of another server with the same '
    'values, which hilo_check then reports';
CREATE FUNCTION _hilo.hilo_is_due(moved boolean) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_due_wrapper';
COMMENT ON FUNCTION _hilo.hilo_is_due(boolean) IS
    'Returns once a minute that it is time for the warning of a moved node, or else for that of a '
    'twin';
CREATE FUNCTION _hilo.hilo_depend_on(role _hilo.hilo_role) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_depend_on_wrapper';
COMMENT ON FUNCTION _hilo.hilo_depend_on(_hilo.hilo_role) IS
    'Records a role, so that DROP ROLE knows of it';
CREATE FUNCTION _hilo.hilo_note_replicated(sequence bigint, change text) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_note_replicated_wrapper';
COMMENT ON FUNCTION _hilo.hilo_note_replicated(bigint, text) IS
    'Lets sessions learn at commit that a sequence was altered, dropped with its numbers, or is '
    'out of date for another reason';

CREATE FUNCTION _hilo.hilo_has_name(name text) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_has_name_wrapper';
COMMENT ON FUNCTION _hilo.hilo_has_name(text) IS 'Returns whether a sequence has this name';
CREATE FUNCTION _hilo.hilo_has_id(id bigint) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_has_id_wrapper';
COMMENT ON FUNCTION _hilo.hilo_has_id(bigint) IS 'Returns whether a sequence has this id';
CREATE FUNCTION _hilo.hilo_has_position(sequence bigint, node integer) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_has_position_wrapper';
COMMENT ON FUNCTION _hilo.hilo_has_position(bigint, integer) IS
    'Returns whether a node has a position in a sequence';

CREATE FUNCTION _hilo.hilo_merge_definitions(
    own _hilo.hilo_definition, theirs _hilo.hilo_definition, elsewhere text
) RETURNS _hilo.hilo_definition
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF theirs.name <> own.name AND _hilo.hilo_has_name(theirs.name) THEN
        RAISE WARNING
            'hilo sequence "%" was renamed to "%" on another server', own.name, theirs.name
            USING DETAIL = 'Another sequence on this server has the new name, so the sequence '
                           'keeps its old name here.',
                  HINT = 'Rename one of the two sequences.';
        theirs.name := own.name;
    END IF;
    -- A query that runs here runs as nobody else.
    IF theirs.owner::text = '-' OR own.source <> elsewhere THEN
        theirs.owner := own.owner;
    ELSIF theirs.owner::oid <> own.owner::oid THEN
        PERFORM _hilo.hilo_depend_on(theirs.owner);
    END IF;
    IF (theirs.data_type, theirs.start_value, theirs.increment, theirs.min_value, theirs.max_value,
        theirs.cycle, theirs.ordered, theirs.gapless)
       IS DISTINCT FROM
       (own.data_type, own.start_value, own.increment, own.min_value, own.max_value,
        own.cycle, own.ordered, own.gapless)
       AND _hilo.hilo_is_served_here(own.id)
    THEN
        RAISE WARNING 'hilo sequence "%" is numbered differently on another server', own.name
            USING DETAIL = 'A row of _hilo.hilo_definition arrived by replication with a different '
                           'data type, increment, start value, bounds, cycle, order, or gapless. '
                           'This server kept its own, because it has numbered the sequence by '
                           'them.',
                  HINT = 'Make the same change on every node that serves the sequence.';
        theirs.data_type := own.data_type;
        theirs.start_value := own.start_value;
        theirs.increment := own.increment;
        theirs.min_value := own.min_value;
        theirs.max_value := own.max_value;
        theirs.cycle := own.cycle;
        theirs.ordered := own.ordered;
        theirs.gapless := own.gapless;
    END IF;
    -- A source is this server's own: what the other one brings there is not brought here. So are
    -- these.
    theirs.reserve_ahead := own.reserve_ahead;
    theirs.created_at := own.created_at;
    theirs.extension := own.extension;
    theirs.source := CASE WHEN theirs.source IS NULL OR own.source IS NOT NULL
                               OR _hilo.hilo_is_served_here(own.id)
                          THEN own.source ELSE elsewhere END;
    RETURN theirs;
END
$$;
COMMENT ON FUNCTION _hilo.hilo_merge_definitions(
    _hilo.hilo_definition, _hilo.hilo_definition, text) IS
    'Returns the replicated definition of a sequence, with this server''s values in the columns '
    'in which another server has no say. elsewhere: what a replicated sequence has as its source '
    'if its source is on the other server';

-- The functions of these triggers have the rights of their owner. Whoever applies rows may write to
-- the tables, and needs no other right. Nobody else can call them, or have a table of his own call
-- them. A copy brings rows that are here already, as after a restore: each becomes an update.

CREATE FUNCTION _hilo.hilo_replicated_sequence() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- A server runs no query that another sends, and makes no numbers between those of a source.
    elsewhere CONSTANT text :=
        'SELECT _hilo.hilo_refuse('
        '''the source of this sequence is on the server that it was replicated from''::text, '
        '''Give it its source on this server, with hilo_attach_server, hilo_attach or hilo_alter, '
        'or numbers of its own, with hilo_detach(name, start).''::text), '
        'NULL::bigint /* the sequence has its source on another server */';
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM _hilo.hilo_note_replicated(OLD.id, 'dropped');
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' AND _hilo.hilo_has_id(NEW.id) THEN
        -- All columns: this function judges them when it is called for the update.
        EXECUTE (
            SELECT format(
                       'UPDATE _hilo.hilo_definition AS t SET (%s) = ROW (%s) WHERE t.id = ($1).id',
                       string_agg(c.name, ', '), string_agg('($1).' || c.name, ', '))
              FROM pg_attribute a
             CROSS JOIN LATERAL (SELECT quote_ident(a.attname::text) AS name) c
             WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped) USING NEW;
        -- It may have been dropped while this waited.
        IF _hilo.hilo_has_id(NEW.id) THEN
            RETURN NULL;
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF _hilo.hilo_has_name(NEW.name) THEN
            RAISE WARNING 'hilo sequence "%" was also created on another server', NEW.name
                USING DETAIL = 'A row of _hilo.hilo_definition arrived by replication with a name '
                               'that another sequence has on this server. The row was not '
                               'applied.',
                      HINT = 'Each server continues with its own sequence. Their values stay '
                             'disjoint as long as both have the same definition and numbering.';
            RETURN NULL;
        END IF;
        IF NEW.source IS NOT NULL THEN
            NEW.source := elsewhere;
        END IF;
        -- A role that does not exist is replaced by the trigger replicated_owner.
        PERFORM _hilo.hilo_depend_on(NEW.owner);
        RETURN NEW;
    END IF;
    NEW := _hilo.hilo_merge_definitions(OLD, NEW, elsewhere);
    IF NEW *= OLD THEN
        RETURN NULL;
    END IF;
    PERFORM _hilo.hilo_note_replicated(NEW.id, 'altered');
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION _hilo.hilo_replicated_sequence() IS
    'Applies a replicated definition, except for the columns by which this server has numbered '
    'the sequence';

CREATE FUNCTION _hilo.hilo_replicated_position() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    node CONSTANT integer := _hilo.hilo_node_id();
    is_ours CONSTANT boolean := NEW.node = node AND _hilo.hilo_is_served_here(NEW.sequence);
BEGIN
    IF TG_OP = 'DELETE' THEN
        -- A position of this server is deleted with its sequence.
        RETURN CASE WHEN OLD.node = node AND _hilo.hilo_is_served_here(OLD.sequence)
                    THEN NULL ELSE OLD END;
    ELSIF is_ours THEN
        IF _hilo.hilo_is_twin(NEW.sequence, NEW.system_id, NEW.incarnation)
           AND _hilo.hilo_is_due(false)
        THEN
            RAISE WARNING
                'another server reserves values as node %, which is the node of this server', node
                USING DETAIL = 'A row of _hilo.hilo_position for this node arrived by replication, '
                               'but this server has already reserved from that sequence. The row '
                               'was not applied.',
                      HINT = 'Both servers serve the same values and, with the same '
                             'hilo.server_prefix, the same keys. Stop one of them, or give it its '
                             'own hilo.node_id.';
        END IF;
        RETURN NULL;
    ELSIF TG_OP = 'INSERT' AND _hilo.hilo_has_position(NEW.sequence, NEW.node) THEN
        -- The position may become this server's while this waits: then the call for the update sees
        -- it. A position that is this server's already is not locked, because refills would wait.
        UPDATE _hilo.hilo_position AS t
           SET (epoch, base, next_index, settled_index,
                incarnation, nodes, stripe, system_id, timeline, skip,
                served, slices, blocks_reserved, blocks_prefetched,
                waits, wait_time, recycled, lost, errors) =
               ROW (NEW.epoch, NEW.base, NEW.next_index, NEW.settled_index,
                    NEW.incarnation, NEW.nodes, NEW.stripe, NEW.system_id, NEW.timeline, NEW.skip,
                    NEW.served, NEW.slices, NEW.blocks_reserved, NEW.blocks_prefetched,
                    NEW.waits, NEW.wait_time, NEW.recycled, NEW.lost, NEW.errors)
         WHERE t.sequence = NEW.sequence AND t.node = NEW.node;
        IF _hilo.hilo_has_position(NEW.sequence, NEW.node) THEN
            RETURN NULL;
        END IF;
    END IF;
    NEW.timeline := -1;
    IF TG_OP = 'UPDATE' AND NEW.node <> node
       AND NEW.system_id <> OLD.system_id AND 0 NOT IN (NEW.system_id, OLD.system_id)
       AND _hilo.hilo_is_due(true)
    THEN
        RAISE WARNING 'node % is now a different server', NEW.node
            USING DETAIL = 'A row of _hilo.hilo_position arrived by replication from a different '
                           'server than before.',
                  HINT = 'After a failover of that node this is expected. Otherwise two servers '
                         'have the same hilo.node_id and serve the same values.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION _hilo.hilo_replicated_position() IS
    'Applies the replicated positions of other nodes, and that of this node if this server has '
    'not reserved from the sequence yet';

CREATE FUNCTION _hilo.hilo_replicated_default_privilege() RETURNS trigger
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM _hilo.hilo_default_privilege t WHERE t *= NEW) THEN
        RETURN NULL;
    END IF;
    PERFORM _hilo.hilo_depend_on(NEW.owner), _hilo.hilo_depend_on(NEW.grantee);
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION _hilo.hilo_replicated_default_privilege() IS
    'Applies a replicated default privilege that does not exist yet';
REVOKE ALL ON FUNCTION _hilo.hilo_is_served_here(bigint),
    _hilo.hilo_is_twin(bigint, bigint, bigint), _hilo.hilo_is_due(boolean),
    _hilo.hilo_depend_on(_hilo.hilo_role), _hilo.hilo_note_replicated(bigint, text),
    _hilo.hilo_has_name(text), _hilo.hilo_has_id(bigint), _hilo.hilo_has_position(bigint, integer),
    _hilo.hilo_merge_definitions(_hilo.hilo_definition, _hilo.hilo_definition, text),
    _hilo.hilo_replicated_sequence(), _hilo.hilo_replicated_position(),
    _hilo.hilo_replicated_default_privilege() FROM PUBLIC;

-- They may have been enabled for all sessions: hilo_check reports that.
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.hilo_definition
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION _hilo.hilo_replicated_sequence();
ALTER TABLE _hilo.hilo_definition ENABLE REPLICA TRIGGER replicated;
-- It fires after the other, by its name.
CREATE TRIGGER replicated_owner BEFORE INSERT ON _hilo.hilo_definition
    FOR EACH ROW WHEN (NEW.owner = '-'::_hilo.hilo_role)
    EXECUTE FUNCTION _hilo.hilo_judge_row();
ALTER TABLE _hilo.hilo_definition ENABLE REPLICA TRIGGER replicated_owner;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.hilo_position
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION _hilo.hilo_replicated_position();
ALTER TABLE _hilo.hilo_position ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.hilo_privilege
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION _hilo.hilo_judge_row();
ALTER TABLE _hilo.hilo_privilege ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE ON _hilo.hilo_default_privilege
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION _hilo.hilo_replicated_default_privilege();
ALTER TABLE _hilo.hilo_default_privilege ENABLE REPLICA TRIGGER replicated;
-- Free ranges, leases and requests to sources belong to the server that wrote them: these rows are
-- kept out.
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.hilo_free_range
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION _hilo.hilo_judge_row();
ALTER TABLE _hilo.hilo_free_range ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.hilo_lease
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION _hilo.hilo_judge_row();
ALTER TABLE _hilo.hilo_lease ENABLE REPLICA TRIGGER replicated;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.hilo_source
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION _hilo.hilo_judge_row();
ALTER TABLE _hilo.hilo_source ENABLE REPLICA TRIGGER replicated;

CREATE TRIGGER note_roles AFTER INSERT ON _hilo.hilo_definition
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_note_roles();
CREATE TRIGGER note_roles AFTER INSERT ON _hilo.hilo_privilege
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_note_roles();
CREATE TRIGGER note_roles AFTER INSERT ON _hilo.hilo_default_privilege
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_note_roles();

-- A restore writes rows through SQL, which the library never does. So these triggers fire in a
-- restore only, and not where rows arrive by replication.

CREATE TRIGGER restored BEFORE INSERT ON _hilo.hilo_position
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_judge_row();
CREATE TRIGGER restored BEFORE INSERT ON _hilo.hilo_free_range
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_judge_row();
CREATE TRIGGER restored BEFORE INSERT ON _hilo.hilo_lease
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_judge_row();
CREATE TRIGGER restored BEFORE INSERT ON _hilo.hilo_source
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_judge_row();
CREATE TRIGGER restored BEFORE INSERT ON _hilo.hilo_definition
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_judge_row();
-- The extension's script may have given such default privileges too.
CREATE TRIGGER restored BEFORE INSERT ON _hilo.hilo_default_privilege
    FOR EACH ROW EXECUTE FUNCTION _hilo.hilo_replicated_default_privilege();

-- Numbers would be served again without the rows, or after a change by SQL. The triggers fire for
-- everybody, also where replication brings rows, and judge each statement: the library's own writes
-- fire none.

CREATE FUNCTION _hilo.hilo_refuse_write() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_refuse_write';
COMMENT ON FUNCTION _hilo.hilo_refuse_write() IS
    'Refuses TRUNCATE, and every other change by SQL that is none of a restore, of replication or '
    'of an extension''s script';
REVOKE ALL ON FUNCTION _hilo.hilo_refuse_write() FROM PUBLIC;

CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_definition
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_definition ENABLE ALWAYS TRIGGER refuse_write;
CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_position
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_position ENABLE ALWAYS TRIGGER refuse_write;
CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_free_range
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_free_range ENABLE ALWAYS TRIGGER refuse_write;
CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_gap
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_gap ENABLE ALWAYS TRIGGER refuse_write;
CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_lease
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_lease ENABLE ALWAYS TRIGGER refuse_write;
CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_source
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_source ENABLE ALWAYS TRIGGER refuse_write;
CREATE TRIGGER refuse_write BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_privilege
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_privilege ENABLE ALWAYS TRIGGER refuse_write;
CREATE TRIGGER refuse_write
    BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON _hilo.hilo_default_privilege
    FOR EACH STATEMENT EXECUTE FUNCTION _hilo.hilo_refuse_write();
ALTER TABLE _hilo.hilo_default_privilege ENABLE ALWAYS TRIGGER refuse_write;
