-- From 0.3.0 to 0.4.0. Makes of the objects of 0.3.0 what the install script of 0.4.0 creates.

-- The tables move to a schema of their own, with their indexes, constraints, triggers, privileges and rows. They remain
-- in publications of tables; those of all tables in schema hilo lose them.
CREATE SCHEMA _hilo;
REVOKE ALL ON SCHEMA _hilo FROM PUBLIC;
COMMENT ON SCHEMA _hilo IS 'Tables of the extension hilo. Use the functions and views named hilo_* instead.';
ALTER TABLE hilo.sequence SET SCHEMA _hilo;
ALTER TABLE hilo.position SET SCHEMA _hilo;
ALTER TABLE hilo.free_range SET SCHEMA _hilo;
ALTER TABLE hilo.gap SET SCHEMA _hilo;
ALTER TABLE hilo.lease SET SCHEMA _hilo;
ALTER TABLE hilo.privilege SET SCHEMA _hilo;
ALTER TABLE hilo.default_privilege SET SCHEMA _hilo;

-- pg_dump locks the tables and copies their rows, also if the owner of the database runs it. It
-- refuses row security.
GRANT USAGE ON SCHEMA _hilo TO pg_database_owner;
GRANT SELECT ON ALL TABLES IN SCHEMA _hilo TO pg_database_owner;

-- If the extension lives in schema hilo, the comment is the user's.
CREATE FUNCTION hilo_comment_on_schema() RETURNS void LANGUAGE sql AS $$
    COMMENT ON SCHEMA hilo IS
        'Internals of the extension hilo. Use the functions and views named hilo_* instead.';
$$;
SELECT hilo_comment_on_schema() WHERE pg_catalog.current_schema() <> 'hilo';
DROP FUNCTION hilo_comment_on_schema();

COMMENT ON FUNCTION hilo.node_id() IS 'Returns which node this server is';
COMMENT ON COLUMN _hilo.position.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.position.settled_index IS
    'Indexes below this one are served, in _hilo.free_range or in _hilo.gap; those from this one up to '
    'next_index may be in the memory of the server life "incarnation"';
COMMENT ON COLUMN _hilo.lease.timeline IS
    'Timeline on which the range was leased out; -1: the row was restored. If its rest is returned to another server '
    'than the one that leased it out, it is not served again';
COMMENT ON COLUMN _hilo.position.skip IS
    'Number of values that a server skips by default if it takes over from a copy of this row, by the rate of '
    'reservations';
COMMENT ON COLUMN _hilo.free_range.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.gap.sequence IS '_hilo.sequence.id; 0: the column of the sequence was released';
COMMENT ON COLUMN _hilo.gap.count IS
    'Number of values that are lost, in steps of the increment that the sequence had at that time. Gaps of one reason that '
    'touch and come about in the same hour are one row. At about 1,000 rows the nearest of one reason become one, in '
    'which other values lie between those that are lost';
COMMENT ON COLUMN _hilo.gap.reason IS
    'crash: the server died with the range in memory; discarded: it could not be kept, was skipped after a promotion '
    'or a restore, or came in a refused answer of a source; or its lease was rolled back; altered: hilo_alter or '
    'hilo_setval made the range invalid, or the sequence was moved beyond it; expired: its lease expired; revoked: '
    'its lease was revoked';
COMMENT ON COLUMN _hilo.gap.recorded_at IS 'When the range, or the last part of it, was found to be lost';
COMMENT ON COLUMN _hilo.lease.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.privilege.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.default_privilege.privilege IS 'USAGE, SELECT or UPDATE, as in _hilo.privilege';

-- PL/pgSQL judges replicated rows.

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

CREATE OR REPLACE FUNCTION hilo.replicated_sequence() RETURNS trigger
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

CREATE OR REPLACE FUNCTION hilo.replicated_position() RETURNS trigger
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

CREATE OR REPLACE FUNCTION hilo.replicated_privilege() RETURNS trigger
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

CREATE OR REPLACE FUNCTION hilo.replicated_default_privilege() RETURNS trigger
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

CREATE OR REPLACE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.sequence
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_sequence();
ALTER TABLE _hilo.sequence ENABLE REPLICA TRIGGER replicated;
-- It fires after the other, by its name.
CREATE TRIGGER replicated_owner BEFORE INSERT ON _hilo.sequence
    FOR EACH ROW WHEN (NEW.owner = '-'::hilo.role) EXECUTE FUNCTION hilo.own_replicated();
ALTER TABLE _hilo.sequence ENABLE REPLICA TRIGGER replicated_owner;
CREATE OR REPLACE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.position
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_position();
ALTER TABLE _hilo.position ENABLE REPLICA TRIGGER replicated;
CREATE OR REPLACE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.privilege
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_privilege();
ALTER TABLE _hilo.privilege ENABLE REPLICA TRIGGER replicated;
CREATE OR REPLACE TRIGGER replicated BEFORE INSERT OR UPDATE ON _hilo.default_privilege
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.replicated_default_privilege();
ALTER TABLE _hilo.default_privilege ENABLE REPLICA TRIGGER replicated;
CREATE OR REPLACE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.free_range
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.keep_out();
ALTER TABLE _hilo.free_range ENABLE REPLICA TRIGGER replicated;
CREATE OR REPLACE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.lease
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.keep_out();
ALTER TABLE _hilo.lease ENABLE REPLICA TRIGGER replicated;
DROP FUNCTION hilo.replicated_free_range(), hilo.replicated_lease();

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

ALTER TABLE _hilo.sequence ADD COLUMN source text;
ALTER TABLE _hilo.sequence ADD COLUMN reserve_ahead bigint;
COMMENT ON COLUMN _hilo.sequence.source IS
    'Query that brings the values, run as the owner; null: the sequence numbers itself';
COMMENT ON COLUMN _hilo.sequence.reserve_ahead IS
    'Number of seconds whose values are kept ahead of the source; null: as hilo.buffer says';

CREATE TABLE _hilo.source (
    sequence bigint NOT NULL,
    node integer NOT NULL,
    request uuid,
    wanted bigint,
    requested_at timestamptz,
    system_id bigint NOT NULL,
    timeline integer NOT NULL,
    requested bigint NOT NULL,
    received bigint NOT NULL,
    first_value bigint,
    last_value bigint,
    own_first bigint,
    own_last bigint,
    latency bigint NOT NULL,
    failures integer NOT NULL,
    last_error text,
    last_error_at timestamptz,
    database bigint NOT NULL,
    receiver bigint NOT NULL,
    CONSTRAINT source_pkey PRIMARY KEY (sequence, node)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500
);
COMMENT ON TABLE _hilo.source IS
    'Requests to the sources of sequences, and the values that they have brought';
COMMENT ON COLUMN _hilo.source.sequence IS '_hilo.sequence.id';
COMMENT ON COLUMN _hilo.source.node IS 'hilo.node_id of the server';
COMMENT ON COLUMN _hilo.source.request IS 'The request that has no answer yet; null: there is none';
COMMENT ON COLUMN _hilo.source.wanted IS 'How many values it asks for';
COMMENT ON COLUMN _hilo.source.requested_at IS 'When it was written down';
COMMENT ON COLUMN _hilo.source.system_id IS 'System identifier of the cluster that the row is of';
COMMENT ON COLUMN _hilo.source.timeline IS
    'Its timeline. A server on another one makes a request of its own: the answer may be the first server''s';
COMMENT ON COLUMN _hilo.source.requested IS 'Number of values asked for';
COMMENT ON COLUMN _hilo.source.received IS 'Number of values received';
COMMENT ON COLUMN _hilo.source.first_value IS 'Smallest value that the source has brought';
COMMENT ON COLUMN _hilo.source.last_value IS 'Largest value that the source has brought';
COMMENT ON COLUMN _hilo.source.own_first IS
    'Smallest value that the sequence may have served before it had this source; what the source brings may not touch these';
COMMENT ON COLUMN _hilo.source.own_last IS 'Largest of them';
COMMENT ON COLUMN _hilo.source.latency IS 'How long the last answer took, in microseconds';
COMMENT ON COLUMN _hilo.source.failures IS 'How often the source has failed since it last answered';
COMMENT ON COLUMN _hilo.source.last_error IS 'Error of the last failure, with its DETAIL and HINT';
COMMENT ON COLUMN _hilo.source.last_error_at IS 'Time of the last failure';
COMMENT ON COLUMN _hilo.source.database IS
    'Database that the row is of, by which a copy made from a template is recognized';
COMMENT ON COLUMN _hilo.source.receiver IS
    'Random number that a copy which was promoted or restored does not share: the first eight digits '
    'of each request';

REVOKE ALL ON _hilo.source FROM PUBLIC;
GRANT SELECT ON _hilo.source TO pg_database_owner;
SELECT pg_catalog.pg_extension_config_dump('_hilo.source', '');
CREATE OR REPLACE TRIGGER missing_owner BEFORE INSERT ON _hilo.sequence
    FOR EACH ROW WHEN (NEW.owner = '-'::hilo.role OR (NEW.source IS NOT NULL AND NOT pg_catalog.pg_has_role(
        NEW.owner::pg_catalog.text::pg_catalog.regrole, 'USAGE'::pg_catalog.text)))
    EXECUTE FUNCTION hilo.own_row();
-- Whoever may write to the tables, as members of pg_write_all_data may, must not have others run a query.
CREATE TRIGGER refuse_source BEFORE UPDATE OF owner, source ON _hilo.sequence
    FOR EACH ROW WHEN (NEW.source IS NOT NULL AND NOT pg_catalog.pg_has_role(
        NEW.owner::pg_catalog.text::pg_catalog.regrole, 'USAGE'::pg_catalog.text))
    EXECUTE FUNCTION hilo.own_row();
ALTER TABLE _hilo.sequence ENABLE ALWAYS TRIGGER refuse_source;
CREATE TRIGGER replicated BEFORE INSERT OR UPDATE OR DELETE ON _hilo.source
    FOR EACH ROW WHEN (pg_catalog.current_setting('session_replication_role') = 'replica')
    EXECUTE FUNCTION hilo.keep_out();
ALTER TABLE _hilo.source ENABLE REPLICA TRIGGER replicated;

CREATE FUNCTION hilo.restored_source() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'hilo_restored_source';
COMMENT ON FUNCTION hilo.restored_source() IS
    'Forgets the request of a restored row, which the dumped server may still make';
REVOKE ALL ON FUNCTION hilo.restored_source() FROM PUBLIC;
CREATE TRIGGER restored BEFORE INSERT ON _hilo.source
    FOR EACH ROW EXECUTE FUNCTION hilo.restored_source();

CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON _hilo.source
    FOR EACH STATEMENT EXECUTE FUNCTION hilo.refuse_truncate();
ALTER TABLE _hilo.source ENABLE ALWAYS TRIGGER refuse_truncate;

DROP FUNCTION hilo_create(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, boolean, boolean, text);
CREATE FUNCTION hilo_create(
    name hilo_sequence,
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
    reserve_ahead interval DEFAULT NULL
) RETURNS hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_create_wrapper';
COMMENT ON FUNCTION hilo_create(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, boolean, boolean, text, text, interval) IS
    'Creates a sequence and returns its name. The bounds and start_value default as in CREATE SEQUENCE. block_size: '
    'number of values reserved at once; null: chosen by rate. slice_size: maximum number of values that a session '
    'takes from the pool at once; null: hilo.max_slice_size. ordered: a later call gets a later value across all '
    'sessions. key_format: template with {name}, {server}, {value} and {value:0N}. gapless: the committed values have '
    'no holes. The first draw of a transaction locks the sequence until the transaction ends, and a rollback gives '
    'its values to the next one. owned_by: the column, as table.column or schema.table.column, with which the '
    'sequence is dropped, and with whose table it restarts in TRUNCATE ... RESTART IDENTITY. source: a query that '
    'brings the values, run as the owner. $1 is the name, $2 how many values are wanted, $3 the uuid of the request, '
    '$4 the furthest value that it has brought. Its rows are the first and the last value of ranges that are this '
    'sequence''s alone. reserve_ahead: how long an outage of the source may last; null: as hilo.buffer says. Errors: '
    '42710 if the sequence exists (with if_not_exists a NOTICE), 42501, 22023 if options are invalid or contradict '
    'each other, 0A000 for a gapless sequence that cycles or that several nodes share, or for a source with cycle, '
    'ordered or gapless or while several nodes share the sequence, 42P01 or 42703 if the column does not exist, 42809 '
    'if it cannot own a sequence, 55000 if its table has another owner, or several nodes share sequences and '
    'hilo.on_every_node is off.';

DROP FUNCTION hilo_alter(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, bigint, boolean, text);
CREATE FUNCTION hilo_alter(
    name hilo_sequence,
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
    reserve_ahead interval DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_alter_wrapper';
COMMENT ON FUNCTION hilo_alter(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, bigint, boolean, text, text, interval) IS
    'Changes a sequence. Null leaves an option unchanged; block_size 0 and slice_size 0 make '
    'these adaptive again. restart_with: the next value; required, and the same on every node, '
    'if several nodes share the sequence and its increment or cycle changes. gapless: as in '
    'hilo_create; values that were reserved and not served before are in hilo_gaps. owned_by: '
    'as in hilo_create, or none. source: as in hilo_create; an empty text takes it away as long '
    'as nothing was asked of it. reserve_ahead: 0 takes it away. Narrower bounds apply to the calling transaction at once, '
    'everything else takes effect at commit. After a change of increment, cycle or gapless '
    'without restart_with, the calling transaction draws from the sequence only after its '
    'commit. Requires ownership of the sequence. Errors: 42704 if the sequence does not exist, '
    '42501, 22023 if options are invalid or contradict each other, 0A000 as in hilo_create, '
    '55000 if several nodes could serve a value twice, or share the sequence and it is '
    'restarted while hilo.on_every_node is off, or the sequence has a source that has brought values, or that says which '
    'values come; for owned_by as hilo_create.';

CREATE FUNCTION hilo.detach(name hilo_sequence, start bigint) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_detach_wrapper';
COMMENT ON FUNCTION hilo.detach(hilo_sequence, bigint) IS
    'Takes the source of a sequence away: its own numbers begin with start, which is returned';

COMMENT ON FUNCTION hilo_adopt(regclass, name, hilo_sequence) IS
    'Makes a serial or identity column, or one whose default is nextval(...), draw from a new '
    'hilo sequence. Returns its name; null: the name of the old sequence. The new one continues '
    'beyond the old one and beyond the values of the column, with the same type, bounds, '
    'increment, start value and privileges. Drops the old sequence if nothing else uses it. '
    'Locks the table in ACCESS EXCLUSIVE mode, as ALTER TABLE does, in attempts of less than '
    'half a second. Requires ownership of the table. Errors: 42P01, 42703, 42809 for what is '
    'not a permanent table, 42804 for a column that is not smallint, integer, bigint or '
    'numeric, 55000 if the column has no sequence, uses hilo already, or shares its sequence '
    'with another column, 42710 if the name is taken, 42501, 55P03 after lock_timeout.';

COMMENT ON FUNCTION hilo_sync(hilo_sequence, regclass, name) IS
    'Moves a sequence past the largest value of a column, if it would serve a value of the column otherwise. The '
    'values of a text column are the numbers in its keys. Never moves it back. Returns the next value; null: there is none left. Locks no table. If it moves the sequence, its '
    'transaction draws from it as after hilo_advance. Values beyond the last bound of the sequence do not count: call '
    'it again after that bound is widened. Requires UPDATE on the sequence and SELECT on the column. Errors: 42704 if '
    'the sequence does not exist, 42P01, 42703, 42804 as for hilo_adopt, 42809 for a view, 55000 if several nodes '
    'share the sequence and hilo.on_every_node is off, 42501.';

COMMENT ON FUNCTION hilo_setval(hilo_sequence, bigint, boolean) IS
    'Sets the value after which the next call continues; with is_called = false the next call returns it. '
    'Returns value. Transactional, unlike core''s setval: it takes effect at commit and is undone by a '
    'rollback. Requires UPDATE. Errors: 42704 if the sequence does not exist, 22003 if value is out of the '
    'bounds of the sequence, 42501, 55000 if several nodes could serve a value twice, or '
    'share the sequence and hilo.on_every_node is off.';

COMMENT ON FUNCTION hilo_advance(hilo_sequence, bigint) IS
    'Serves nothing up to at_least any more, in the direction of the increment, and returns the '
    'next value. Null: there is none left, and wider bounds bring only values beyond at_least. '
    'Never moves a sequence back, and changes nothing if the sequence is beyond at_least. '
    'Otherwise transactional, and its transaction draws from the sequence only after the commit '
    '(55000), unless it has itself created, set or restarted it. The values that it jumps over '
    'are a gap. Requires UPDATE. Errors: 42704 if the sequence does not exist, 22023 for NULL, '
    '0A000 if the sequence cycles, 42501, 55000 if several nodes share the sequence and '
    'hilo.on_every_node is off. Each node keeps its own stripes.';

COMMENT ON FUNCTION hilo_lease_return(uuid, bigint) IS
    'Ends a lease and returns how many of its values will be served again. next: the first value that was not used, '
    'or the one behind the last if all were; null: none was. The values before it count as used. The result is 0 if '
    'the sequence has been renumbered, or another server has leased the values out: then the rest becomes a gap. '
    'Only the role that took the lease, the owner of the sequence and superusers may end it. Errors: 42704 if the '
    'lease is not open, also if it was returned before, was revoked or has expired, and at the commit if that has '
    'happened meanwhile, 22023 if next is no value of the '
    'lease, or for NULL, 0A000 if the transaction is prepared, 42501.';

CREATE FUNCTION hilo.known(name hilo_sequence)
    RETURNS TABLE (
        base bigint, increment bigint, node integer, nodes integer, stripe bigint, next bigint, goes_on boolean,
        start_value bigint, first bigint, last bigint, count bigint, reason text
    )
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'hilo_known_wrapper';
COMMENT ON FUNCTION hilo.known(hilo_sequence) IS
    'Returns what is known of the values of a sequence on this node, and in each row how it is numbered. next: the index that '
    'is reserved next. goes_on: whether there is one. There is at least one row; its count may be 0';

CREATE FUNCTION hilo.absent(
    relation regclass, column_name name, first bigint, next bigint, base bigint, increment bigint, min_value bigint,
    max_value bigint, cycle boolean, node integer, nodes integer, stripe bigint
)
    RETURNS TABLE (absent_first bigint, absent_next bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1000 AS 'MODULE_PATHNAME', 'hilo_absent_wrapper';
COMMENT ON FUNCTION hilo.absent(
    regclass, name, bigint, bigint, bigint, bigint, bigint, bigint, boolean, integer, integer, bigint) IS
    'Returns the places of a numbering, from first to the one before next, whose values a column lacks: ranges, in order';

CREATE FUNCTION hilo.index_from(
    value bigint, base bigint, increment bigint, min_value bigint, max_value bigint, cycle boolean, node integer,
    nodes integer, stripe bigint
)
    RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_index_from_wrapper';
COMMENT ON FUNCTION hilo.index_from(bigint, bigint, bigint, bigint, bigint, boolean, integer, integer, bigint) IS
    'Returns the first index whose value does not lie before a value';

CREATE TYPE hilo.grid AS (base bigint, increment bigint, node integer, nodes integer, stripe bigint);
COMMENT ON TYPE hilo.grid IS
    'A numbering without bounds: the value of place 0, the step from one to the next, and the stripes of a node';

CREATE FUNCTION hilo.value_at(place bigint, grid hilo.grid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hilo.value_at($1, ($2).base, ($2).increment, -9223372036854775808, 9223372036854775807, false, ($2).node,
                         ($2).nodes, ($2).stripe);
COMMENT ON FUNCTION hilo.value_at(bigint, hilo.grid) IS 'Returns the value of a place in a numbering without bounds';

CREATE FUNCTION hilo.place_from(value bigint, grid hilo.grid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hilo.index_from($1, ($2).base, ($2).increment, -9223372036854775808, 9223372036854775807, false, ($2).node,
                           ($2).nodes, ($2).stripe);
COMMENT ON FUNCTION hilo.place_from(bigint, hilo.grid) IS
    'Returns the first place whose value does not lie before a value';

CREATE FUNCTION hilo.places(one bigint, other bigint, grid hilo.grid)
    RETURNS TABLE (one_place bigint, other_place bigint, first bigint, next bigint, are_on boolean)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT p.one, p.other, LEAST(p.one, p.other), GREATEST(p.one + e.one, p.other + e.other),
           e.one + e.other = 2::bigint
      FROM (SELECT hilo.place_from($1, $3) AS one, hilo.place_from($2, $3) AS other) p
     CROSS JOIN LATERAL (SELECT CASE WHEN $1 = hilo.value_at(p.one, $3) THEN 1::bigint ELSE 0::bigint END AS one,
                                CASE WHEN $2 = hilo.value_at(p.other, $3) THEN 1::bigint ELSE 0::bigint END AS other) e;
END;
COMMENT ON FUNCTION hilo.places(bigint, bigint, hilo.grid) IS
    'Returns where two values lie in a numbering, or would. The values from one to the other have the places from first '
    'to the one before next. are_on: whether the numbering has both';

CREATE FUNCTION hilo.steps_before(value bigint, grid hilo.grid) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ($2).nodes <= 1
                     AND pg_catalog.mod(($2).base::numeric - $1::numeric, ($2).increment::numeric) = 0::numeric
                THEN pg_catalog.div(($2).base::numeric - $1::numeric, ($2).increment::numeric) END;
COMMENT ON FUNCTION hilo.steps_before(bigint, hilo.grid) IS
    'Returns how many steps a value lies before place 0. NULL: not in whole steps. With stripes, an earlier base had '
    'others';

CREATE FUNCTION hilo.even_step(first bigint, last bigint, count bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN w.way = 0::numeric THEN 1::bigint
                WHEN pg_catalog.mod(w.way, w.steps) = 0::numeric
                     AND pg_catalog.abs(w.way) <= 9223372036854775807::numeric * w.steps
                THEN pg_catalog.div(w.way, w.steps)::bigint END
      FROM (SELECT $2::numeric - $1::numeric AS way, GREATEST($3 - 1::bigint, 1::bigint)::numeric AS steps) w;
END;
COMMENT ON FUNCTION hilo.even_step(bigint, bigint, bigint) IS
    'Returns the step in which so many values lie from the first to the last. NULL: there is none';

CREATE FUNCTION hilo.gap_reasons() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY['slice', 'current', 'standby', 'returned', 'leased', 'free', 'crash', 'discarded', 'altered', 'expired',
                 'revoked', 'not received, rolled back, deleted or unknown', 'rolled back, deleted or unknown',
                 'not received'];
COMMENT ON FUNCTION hilo.gap_reasons() IS
    'Returns the reasons of hilo_find_gaps. The first one counts where a value has several';

-- Volatile, as all that follow: it reads the pool, which no snapshot keeps unchanged.
CREATE FUNCTION hilo.placed(name hilo_sequence)
    RETURNS TABLE (
        at bigint, rank integer, first bigint, count bigint, step bigint, is_whole boolean, places int8range,
        grid hilo.grid
    )
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    WITH known AS MATERIALIZED (
        SELECT k.at, COALESCE(pg_catalog.array_position(hilo.gap_reasons(), k.reason), 13) AS rank, k.first, k.last,
               k.count, k.reason, k.start_value, k.next, k.goes_on,
               ROW(k.base, k.increment, k.node, k.nodes, k.stripe)::hilo.grid AS grid
          FROM hilo.known($1) WITH ORDINALITY AS k (
                   base, increment, node, nodes, stripe, next, goes_on, start_value, first, last, count, reason, at)
    ), earlier AS (
        -- How far before the base the earliest of these values is a place.
        SELECT COALESCE(pg_catalog.max(s.steps), 0::numeric)::bigint AS places
          FROM known k
         CROSS JOIN LATERAL pg_catalog.unnest(ARRAY[k.first, k.last, k.start_value]) AS u (value)
         CROSS JOIN LATERAL (SELECT hilo.steps_before(u.value, k.grid) AS steps) s
         WHERE s.steps BETWEEN 0::numeric AND 9223372036854775806::numeric - k.next::numeric
    ), present AS MATERIALIZED (
        -- Places are counted from there.
        SELECT ROW(((k.grid).base::numeric - e.places::numeric * (k.grid).increment::numeric)::bigint,
                   (k.grid).increment, (k.grid).node, (k.grid).nodes, (k.grid).stripe)::hilo.grid AS grid,
               e.places AS earlier, CASE WHEN k.goes_on THEN k.next + e.places END AS next, k.start_value
          FROM known k CROSS JOIN earlier e
         LIMIT 1
    )
    SELECT k.at, k.rank, k.first, k.count, s.step, s.is_whole,
           CASE WHEN s.is_whole
                     OR (pg_catalog.mod((p.grid).increment::numeric, s.step::numeric) = 0::numeric
                         AND pg_catalog.mod((p.grid).base::numeric - k.first::numeric, s.step::numeric) = 0::numeric)
                THEN pg_catalog.int8range(i.first, GREATEST(i.first, LEAST(i.next,
                         -- The sequence has gone back since: what comes next is yet to be served.
                         CASE WHEN k.reason <> 'leased' THEN p.next END)))
           END, p.grid
      FROM known k
     CROSS JOIN present p
     CROSS JOIN LATERAL hilo.places(k.first, k.last, p.grid) i
     CROSS JOIN LATERAL (
         -- If there are more places than values, gaps became one row, and lie anywhere between its ends.
         SELECT i.are_on AND i.other_place - i.one_place >= k.count - 1::bigint AS is_whole,
                hilo.even_step(k.first, k.last, k.count) AS step) s
     WHERE k.count > 0::bigint
     UNION ALL
    -- The places before the base. This row is always there.
    SELECT 0::bigint, 13, 0::bigint, 0::bigint, NULL::bigint, true,
           CASE WHEN i.are_on THEN pg_catalog.int8range(LEAST(i.first, p.earlier), p.earlier) END, p.grid
      FROM present p
     CROSS JOIN LATERAL hilo.places(p.start_value, p.start_value, p.grid) i;
END;
COMMENT ON FUNCTION hilo.placed(hilo_sequence) IS
    'Returns what hilo.known does. places: in the present numbering; NULL: it does not have these values. is_whole: whether '
    'it has all of them. step: of the values. rank: which reason it is';

CREATE FUNCTION hilo.every_so_many(first bigint, step bigint, count bigint, steps bigint[])
    RETURNS TABLE (part_first bigint, part_count bigint, part_step bigint)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts numeric := 1;
    more numeric;
BEGIN
    FOR i IN 1 .. cardinality(steps) LOOP
        more := lcm(parts, abs(steps[i]::numeric) / gcd(steps[i]::numeric, step::numeric));
        -- Else fewer values have to be looked at one by one.
        IF more * more <= "count" AND more * abs(step::numeric) <= 9223372036854775807 THEN
            parts := more;
        END IF;
    END LOOP;
    RETURN QUERY SELECT "first" + g.part * step, div("count" - 1 - g.part, parts)::bigint + 1, step * parts::bigint
                   FROM generate_series(0::bigint, parts::bigint - 1) AS g (part);
END $$;
COMMENT ON FUNCTION hilo.every_so_many(bigint, bigint, bigint, bigint[]) IS
    'Divides so many values, in steps from the first one, into parts that each have every so many of them. A numbering in '
    'one of the other steps then has all values of a part in a range, or none, unless there are few';

CREATE FUNCTION hilo.numberings(name hilo_sequence)
    RETURNS TABLE (at bigint, grid hilo.grid, firsts bigint[], nexts bigint[], reasons text[], one bigint, other bigint)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    WITH placed AS MATERIALIZED (
        SELECT p.at, p.rank, p.first, p.count, p.step, p.is_whole, p.places, p.grid FROM hilo.placed($1) p
    ), explained AS MATERIALIZED (
        SELECT p.rank, pg_catalog.range_agg(p.places) AS places FROM placed p WHERE p.places IS NOT NULL GROUP BY p.rank
    ), segment AS (
        SELECT pg_catalog.lower(s.places) AS first, pg_catalog.upper(s.places) AS next,
               (hilo.gap_reasons())[e.rank] AS reason
          FROM explained e
         CROSS JOIN LATERAL pg_catalog.unnest(e.places OPERATOR(pg_catalog.-) COALESCE(
             (SELECT pg_catalog.range_agg(b.places) FROM explained b WHERE b.rank < e.rank),
             '{}'::int8multirange)) AS s (places)
    ), numbering AS (
        SELECT 0::bigint AS at, p.grid, s.firsts, s.nexts, s.reasons
          FROM (SELECT p.grid FROM placed p LIMIT 1) p
         CROSS JOIN (SELECT pg_catalog.array_agg(s.first ORDER BY s.first) AS firsts,
                            pg_catalog.array_agg(s.next ORDER BY s.first) AS nexts,
                            pg_catalog.array_agg(s.reason ORDER BY s.first) AS reasons FROM segment s) s
         UNION ALL
        -- Values that lie between the places of the present one.
        SELECT p.at, ROW(e.part_first, e.part_step, 0, 1, 1::bigint)::hilo.grid, ARRAY[0::bigint], ARRAY[e.part_count],
               ARRAY[(hilo.gap_reasons())[p.rank]]
          FROM placed p
         CROSS JOIN (
             SELECT pg_catalog.array_agg(DISTINCT COALESCE(s.step, (s.grid).increment)) AS steps
               FROM placed s
              WHERE s.at = 0::bigint OR (NOT s.is_whole AND s.step IS NOT NULL)) o
         CROSS JOIN LATERAL hilo.every_so_many(p.first, p.step, p.count, o.steps) e
         WHERE NOT p.is_whole AND p.step IS NOT NULL
    )
    SELECT n.at, n.grid, n.firsts, n.nexts, n.reasons, hilo.value_at(n.firsts[1], n.grid),
           hilo.value_at(n.nexts[pg_catalog.cardinality(n.nexts)] - 1::bigint, n.grid)
      FROM numbering n;
END;
COMMENT ON FUNCTION hilo.numberings(hilo_sequence) IS
    'Returns the numberings whose values are examined, in the order of at. firsts, nexts, reasons: of the segments, the '
    'first places, the places after the last ones, and why. one, other: the first and the last value';

CREATE FUNCTION hilo.absent(
    relation regclass, column_name name, grid hilo.grid, firsts bigint[], nexts bigint[], reasons text[]
)
    RETURNS TABLE (first bigint, next bigint, reason text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1000
BEGIN ATOMIC
    SELECT GREATEST(a.first, $4[a.segment]), LEAST(a.next, $5[a.segment]), $6[a.segment]
      FROM (SELECT a.absent_first AS first, a.absent_next AS next,
                   pg_catalog.generate_series(pg_catalog.width_bucket(a.absent_first, $4),
                                              pg_catalog.width_bucket(a.absent_next - 1::bigint, $4)) AS segment
              -- Called without segments too, it checks that the caller may read the column.
              FROM hilo.absent($1, $2, COALESCE($4[1], 0::bigint), COALESCE($5[pg_catalog.cardinality($5)], 0::bigint),
                               ($3).base, ($3).increment, -9223372036854775808, 9223372036854775807, false, ($3).node,
                               ($3).nodes, ($3).stripe) a) a;
END;
COMMENT ON FUNCTION hilo.absent(regclass, name, hilo.grid, bigint[], bigint[], text[]) IS
    'Returns the places of a numbering, within its segments, whose values a column lacks: ranges, in order. A range may '
    'be empty';

CREATE FUNCTION hilo.shared_places(
    grid hilo.grid, first bigint, next bigint, other hilo.grid, firsts bigint[], nexts bigint[], one_value bigint,
    other_value bigint
)
    RETURNS TABLE (shared_first bigint, shared_next bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    WITH range AS (
        -- Every so many places the two have a value in common.
        SELECT GREATEST(e.first, $2) AS first, LEAST(e.next, $3) AS next,
               pg_catalog.abs(($4).increment::numeric)
                   / pg_catalog.gcd(($4).increment::numeric, ($1).increment::numeric) AS step
          FROM hilo.places($7, $8, $1) e
    ), common AS (
        SELECT b.first, b.next, s.step, s.is_each, c.first AS common
          FROM range b
         CROSS JOIN LATERAL (SELECT LEAST(b.step, (b.next - b.first)::numeric)::bigint AS step,
                                    b.step = 1::numeric AND ($4).nodes <= 1 AS is_each) s
         CROSS JOIN LATERAL (
             SELECT pg_catalog.min(g.place) AS first
               FROM pg_catalog.generate_series(b.first, b.first + s.step - 1::bigint) AS g (place)
              WHERE pg_catalog.mod(($1).base::numeric + ($1).increment::numeric * g.place::numeric - ($4).base::numeric,
                                   ($4).increment::numeric) = 0::numeric) c
         WHERE b.first < b.next AND c.first IS NOT NULL
    )
    -- A range for each segment,
    SELECT GREATEST(i.first, c.first), LEAST(i.next, c.next)
      FROM common c
     CROSS JOIN LATERAL hilo.places(hilo.value_at(c.first, $1), hilo.value_at(c.next - 1::bigint, $1), $4) o
     CROSS JOIN LATERAL pg_catalog.generate_series(GREATEST(pg_catalog.width_bucket(o.first, $5), 1),
                                                   pg_catalog.width_bucket(o.next - 1::bigint, $5)) AS s (segment)
     CROSS JOIN LATERAL hilo.places(hilo.value_at($5[s.segment], $4),
                                    hilo.value_at($6[s.segment] - 1::bigint, $4), $1) i
     WHERE c.is_each AND $5[s.segment] < $6[s.segment] AND GREATEST(i.first, c.first) < LEAST(i.next, c.next)
     UNION ALL
    -- or one for each value.
    SELECT q.place, q.place + 1::bigint
      FROM common c
     CROSS JOIN LATERAL pg_catalog.generate_series(c.common, c.next - 1::bigint, c.step) AS q (place)
     CROSS JOIN LATERAL (SELECT hilo.value_at(q.place, $1) AS value) v
     CROSS JOIN LATERAL hilo.places(v.value, v.value, $4) i
     WHERE NOT c.is_each AND i.are_on AND i.first < $6[pg_catalog.width_bucket(i.first, $5)];
END;
COMMENT ON FUNCTION hilo.shared_places(hilo.grid, bigint, bigint, hilo.grid, bigint[], bigint[], bigint, bigint) IS
    'Returns which places of a numbering, from first to the one before next, have values that a segment of another one '
    'has';

CREATE FUNCTION hilo.in_stripes(first bigint, next bigint, grid hilo.grid)
    RETURNS TABLE (part_first bigint, part_next bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT GREATEST($1, n.start), n.start + LEAST($2 - n.start, n.width)
      FROM (SELECT w.width, w.width * pg_catalog.generate_series($1 / w.width, ($2 - 1::bigint) / w.width) AS start
              FROM (SELECT CASE WHEN ($3).nodes > 1 THEN ($3).stripe ELSE 9223372036854775807 END AS width) w) n;
END;
COMMENT ON FUNCTION hilo.in_stripes(bigint, bigint, hilo.grid) IS
    'Returns the parts of a range of places that lie within one stripe each: there, values are in even steps';

-- jit is off, because the planner expects many rows.
CREATE OR REPLACE FUNCTION hilo_find_gaps(name hilo_sequence, relation regclass, column_name name)
    RETURNS TABLE (first bigint, last bigint, count bigint, reason text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 1000 SET jit = off
BEGIN ATOMIC
    WITH numbering AS MATERIALIZED (
        SELECT n.at, n.grid, n.firsts, n.nexts, n.reasons, n.one, n.other FROM hilo.numberings($1) n
    ), absent AS MATERIALIZED (
        SELECT n.at, n.grid, a.reason, a.first, a.next
          FROM numbering n CROSS JOIN LATERAL hilo.absent($2, $3, n.grid, n.firsts, n.nexts, n.reasons) a
         WHERE a.first < a.next
    ), missing AS (
        SELECT a.at, a.grid, a.reason, a.first, a.next FROM absent a WHERE a.at = 0::bigint
         UNION ALL
        -- The parts that no numbering before this one has examined.
        SELECT a.at, a.grid, a.reason, f.first, f.next
          FROM absent a
         CROSS JOIN LATERAL (
             SELECT pg_catalog.max(t.next) OVER (
                        ORDER BY t.first, t.next ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS first,
                    t.first AS next
               FROM (VALUES (a.first, a.first), (a.next, a.next)
                      UNION ALL
                     SELECT s.shared_first, s.shared_next
                       FROM numbering n
                      CROSS JOIN LATERAL hilo.shared_places(
                          a.grid, a.first, a.next, n.grid, n.firsts, n.nexts, n.one, n.other) s
                      WHERE n.at < a.at) AS t (first, next)) f
         WHERE a.at > 0::bigint AND f.first < f.next
    )
    SELECT hilo.value_at(s.part_first, m.grid), hilo.value_at(s.part_next - 1::bigint, m.grid),
           s.part_next - s.part_first, m.reason
      FROM missing m
     CROSS JOIN LATERAL hilo.in_stripes(m.first, m.next, m.grid) s
     ORDER BY m.at, s.part_first, (m.grid).base;
END;
COMMENT ON FUNCTION hilo_find_gaps(hilo_sequence, regclass, name) IS
    'Returns the values of a sequence that a column lacks, from the start of the sequence to '
    'its position on this node. They are ranges in steps of the increment, each with its '
    'reason. slice, current, standby, returned: in memory, to be served. free: in the catalog, '
    'to be served. leased: in use elsewhere. crash, discarded, altered, expired, revoked: as in '
    'hilo_gaps. not received: the source has brought no value this far. Else: rolled back, '
    'deleted or unknown; with a source perhaps not received. Requires SELECT, USAGE or UPDATE on the '
    'sequence and SELECT on the column, which must be of type smallint, integer, bigint or '
    'numeric. Errors: 42704 if the sequence does not exist, 42703 if the column does not exist, '
    '42804 if the column has another type, 42809 if a superuser names a view, 0A000 if the '
    'sequence cycles, 42501.';

CREATE FUNCTION hilo.reads_all() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_catalog.pg_has_role('pg_read_all_data', 'USAGE')
        OR pg_catalog.pg_has_role('pg_write_all_data', 'USAGE')
        OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE');
COMMENT ON FUNCTION hilo.reads_all() IS 'Returns whether the current user may read every sequence';

CREATE OR REPLACE VIEW hilo.readable AS
    SELECT s.id, s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value,
           s.cycle, s.ordered, s.block_size, s.slice_size, s.key_format, s.owner, s.owned_by,
           s.gapless, s.source, s.reserve_ahead
      FROM _hilo.sequence s
     WHERE (SELECT hilo.reads_all())
        OR pg_catalog.pg_has_role(s.owner::oid, 'USAGE')
        OR EXISTS (SELECT FROM _hilo.privilege p
                    WHERE p.sequence = s.id
                      AND (p.grantee = 'public'::hilo.role
                           OR pg_catalog.pg_has_role(p.grantee::oid, 'USAGE')));
CREATE VIEW hilo_stat_sources WITH (security_barrier) AS
    SELECT s.name,
           CASE WHEN pg_catalog.pg_has_role(s.owner::oid, 'USAGE') THEN s.source END AS source,
           CASE WHEN c.failures > 0 THEN 'failing'
                WHEN c.request IS NULL THEN 'idle'
                ELSE 'requested' END AS state,
           COALESCE(c.requested, 0::bigint) AS requested,
           COALESCE(c.received, 0::bigint) AS received,
           CASE WHEN pg_catalog.pg_has_role(s.owner::oid, 'USAGE') THEN c.last_error END AS last_error,
           c.last_error_at,
           CASE WHEN c.latency > 0::bigint THEN pg_catalog.make_interval(
               secs => c.latency::double precision / 1000000::double precision) END AS latency
      FROM hilo.readable s
      LEFT JOIN _hilo.source c ON c.sequence = s.id AND c.node = (SELECT hilo.node_id())
     WHERE s.source IS NOT NULL;
COMMENT ON VIEW hilo_stat_sources IS
    'Requests to the sources of sequences, and the values that they have brought';
COMMENT ON COLUMN hilo_stat_sources.name IS 'Name of the sequence';
COMMENT ON COLUMN hilo_stat_sources.source IS 'The query; null unless the current user may act as its owner';
COMMENT ON COLUMN hilo_stat_sources.state IS
    'idle; requested: a request has no answer yet; failing: it has failed, or its answer was refused';
COMMENT ON COLUMN hilo_stat_sources.requested IS 'Values asked for so far';
COMMENT ON COLUMN hilo_stat_sources.received IS 'Values received so far';
COMMENT ON COLUMN hilo_stat_sources.last_error IS
    'Error of the last failure, with its DETAIL and HINT; null unless the current user may act as the owner';
COMMENT ON COLUMN hilo_stat_sources.last_error_at IS 'Time of the last failure';
COMMENT ON COLUMN hilo_stat_sources.latency IS 'How long the last answer took';
GRANT SELECT ON hilo_stat_sources TO PUBLIC;

CREATE OR REPLACE VIEW hilo_gaps WITH (security_barrier) AS
    SELECT COALESCE(s.name, g.name) AS name, g.first_value AS first, g.last_value AS last, g.count, g.reason,
           g.node AS node_id, g.recorded_at
      FROM _hilo.gap g
      LEFT JOIN hilo.readable s ON s.id = g.sequence
     WHERE s.id IS NOT NULL
        -- The sequence of a released column has no privileges any more.
        OR g.name IS NOT NULL
           AND (SELECT hilo.reads_all())
    UNION ALL
    -- Leases that have ended without a return, and that the worker has not filed yet.
    SELECT s.name, l.first_value, l.last_value, l.end_index - l.first_index,
           COALESCE(l.ended, 'expired'), l.node, COALESCE(l.ended_at, l.expires_at)
      FROM _hilo.lease l
      JOIN hilo.readable s ON s.id = l.sequence
     WHERE l.ended = 'revoked'
        OR l.ended IS NULL AND l.expires_at <= pg_catalog.clock_timestamp();
COMMENT ON VIEW hilo_gaps IS
    'Ranges of values that will no longer be served and are not known to have been served, '
    'each with the reason';
COMMENT ON COLUMN hilo_gaps.count IS
    'Number of values that are lost, in steps of the increment. If there are fewer than from '
    'first to last, others lie between them. A sequence has about 1,000 rows at most; then the '
    'nearest of one reason become one';
COMMENT ON COLUMN hilo_gaps.reason IS
    'crash: the server died with the values in memory. discarded: they could not be kept, were skipped after a '
    'promotion or a restore, or came in a refused answer of a source; or their lease was rolled back. altered: '
    'hilo_alter or hilo_setval made the values invalid, or the sequence was moved beyond them. expired: their lease '
    'expired. revoked: their lease was revoked';
COMMENT ON COLUMN hilo_gaps.recorded_at IS 'When the values, or the last of them, were found to be lost';

COMMENT ON FUNCTION hilo_stat_reset(hilo_sequence) IS
    'Sets the counters of a sequence to zero if it is active; without a name, those of every active sequence of this database. '
    'Requires ownership of the sequence; without a name, superuser rights. Errors: 42704 if the sequence '
    'does not exist, 42501.';

-- What is counted of each sequence is kept with its position, and shown in hilo_sequences too.
ALTER TABLE _hilo.position ADD COLUMN served bigint NOT NULL DEFAULT 0,
    ADD COLUMN slices bigint NOT NULL DEFAULT 0,
    ADD COLUMN blocks_reserved bigint NOT NULL DEFAULT 0,
    ADD COLUMN blocks_prefetched bigint NOT NULL DEFAULT 0,
    ADD COLUMN waits bigint NOT NULL DEFAULT 0,
    ADD COLUMN wait_time bigint NOT NULL DEFAULT 0,
    ADD COLUMN recycled bigint NOT NULL DEFAULT 0,
    ADD COLUMN lost bigint NOT NULL DEFAULT 0,
    ADD COLUMN errors bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN _hilo.position.served IS
    'Number of values that the node had served when the row was written';
COMMENT ON COLUMN _hilo.position.slices IS 'As served: slices that sessions had taken';
COMMENT ON COLUMN _hilo.position.blocks_reserved IS 'As served: blocks that had been reserved';
COMMENT ON COLUMN _hilo.position.blocks_prefetched IS 'As served: blocks that no caller had waited for';
COMMENT ON COLUMN _hilo.position.waits IS 'As served: calls that had waited for a block';
COMMENT ON COLUMN _hilo.position.wait_time IS 'As served: how long they had waited, in microseconds';
COMMENT ON COLUMN _hilo.position.recycled IS 'As served: values that one session had returned and another taken';
COMMENT ON COLUMN _hilo.position.lost IS 'As served: values that had left memory without being served';
COMMENT ON COLUMN _hilo.position.errors IS 'As served: reservations that had failed';
CREATE OR REPLACE VIEW hilo.reserved AS
    SELECT s.id, s.name, s.data_type, s.start_value, s.increment, s.min_value, s.max_value,
           s.cycle, s.ordered, s.block_size, s.slice_size, s.key_format, s.owner, s.owned_by,
           s.gapless,
           n.node_id, p.base, p.next_index, p.node, p.nodes, p.stripe,
           v.next_value,
           CASE WHEN p.sequence IS NULL THEN NULL
                WHEN v.next_value IS NULL THEN 1
                WHEN s.increment > 0 THEN (v.next_value - v.low) / (v.high - v.low + 1::double precision)
                ELSE (v.high - v.next_value) / (v.high - v.low + 1::double precision)
           END AS used_fraction,
           COALESCE(l.leased, 0::bigint) AS leased,
           CASE WHEN NOT s.gapless THEN COALESCE(p.served, 0::bigint) END AS served,
           p.slices, p.blocks_reserved, p.blocks_prefetched, p.waits, p.wait_time, p.recycled, p.lost, p.errors,
           -- The restarts (Epoch::restarted); a change of the increment is no restart.
           pg_catalog.concat_ws('.', s.id, COALESCE(p.epoch, 0::bigint) >> 24, s.increment) AS numbering,
           s.source
      FROM hilo.readable s
     CROSS JOIN (SELECT hilo.node_id() AS node_id) n
      LEFT JOIN _hilo.position p ON p.sequence = s.id AND p.node = n.node_id
      -- One pass over all leases, however many sequences there are.
      LEFT JOIN (SELECT o.sequence, pg_catalog.sum(o.end_index - o.first_index)::bigint AS leased
                   FROM _hilo.lease o
                  WHERE o.ended IS NULL AND (o.expires_at IS NULL OR o.expires_at > pg_catalog.clock_timestamp())
                  GROUP BY o.sequence) l ON l.sequence = s.id
     -- The value that would be reserved next; null beyond the last value, and without a position.
     CROSS JOIN LATERAL (
         SELECT hilo.value_at(p.next_index, p.base, s.increment, s.min_value, s.max_value, s.cycle,
                              p.node, p.nodes, p.stripe)::double precision AS next_value,
                s.min_value::double precision AS low,
                s.max_value::double precision AS high
     ) v;
CREATE OR REPLACE VIEW hilo_sequences WITH (security_barrier) AS
    SELECT s.name,
           pg_catalog.pg_get_userbyid(s.owner::oid) AS owner,
           s.data_type, s.start_value, s.min_value, s.max_value, s.increment, s.cycle, s.ordered,
           s.block_size, s.slice_size, s.key_format,
           s.node_id,
           hilo.value_at(s.next_index - 1, s.base, s.increment, s.min_value, s.max_value, s.cycle,
                         s.node, s.nodes, s.stripe) AS max_reserved,
           NULLIF(s.owned_by::text, '-') AS owned_by,
           s.gapless,
           pg_catalog.floor(s.used_fraction * 10000::double precision + 1e-6::double precision)
               / 10000::double precision AS used_fraction,
           s.leased,
           s.served AS total_served,
           COALESCE(s.slices, 0::bigint) AS total_slices,
           COALESCE(s.blocks_reserved, 0::bigint) AS total_blocks_reserved,
           COALESCE(s.blocks_prefetched, 0::bigint) AS total_blocks_prefetched,
           COALESCE(s.waits, 0::bigint) AS total_waits,
           COALESCE(s.wait_time, 0::bigint)::double precision / 1000::double precision AS total_wait_time,
           COALESCE(s.recycled, 0::bigint) AS total_recycled,
           COALESCE(s.lost, 0::bigint) AS total_lost,
           COALESCE(s.errors, 0::bigint) AS total_errors,
           s.numbering,
           hilo.value_at(s.next_index, s.base, s.increment, s.min_value, s.max_value, s.cycle,
                         s.node, s.nodes, s.stripe) AS next_value
      FROM hilo.reserved s;
COMMENT ON COLUMN hilo_sequences.used_fraction IS
    'Fraction of the way from one bound to the other that this server has reserved: 0 to 1, in steps of 0.0001; null: it has '
    'no position yet';
COMMENT ON COLUMN hilo_sequences.total_served IS
    'Values served to callers, and used of leases that have ended, when the catalog was last written. While the sequence is '
    'active, hilo_stat_sequences.served has those since. Null for a gapless sequence, which is not counted';
COMMENT ON COLUMN hilo_sequences.total_slices IS 'As total_served, of hilo_stat_sequences.slices';
COMMENT ON COLUMN hilo_sequences.total_blocks_reserved IS 'As total_served, of hilo_stat_sequences.blocks_reserved';
COMMENT ON COLUMN hilo_sequences.total_blocks_prefetched IS 'As total_served, of hilo_stat_sequences.blocks_prefetched';
COMMENT ON COLUMN hilo_sequences.total_waits IS 'As total_served, of hilo_stat_sequences.waits';
COMMENT ON COLUMN hilo_sequences.total_wait_time IS 'As total_served, of hilo_stat_sequences.wait_time_total, in milliseconds';
COMMENT ON COLUMN hilo_sequences.total_recycled IS 'As total_served, of hilo_stat_sequences.recycled';
COMMENT ON COLUMN hilo_sequences.total_lost IS 'As total_served, of hilo_stat_sequences.lost';
COMMENT ON COLUMN hilo_sequences.total_errors IS 'As total_served, of hilo_stat_sequences.errors';
COMMENT ON COLUMN hilo_sequences.next_value IS
    'Value that this server would reserve next; null: none is left, or it has no position yet';
COMMENT ON COLUMN hilo_sequences.numbering IS
    'Which numbering this is: another one after hilo_setval, a restart, or a change of the increment, but not after hilo_advance';
CREATE OR REPLACE VIEW hilo_stat_sequences WITH (security_barrier) AS
    SELECT s.name,
           st.served, st.slices, st.blocks_reserved, st.blocks_prefetched, st.refill_wanted,
           st.waits, st.wait_time_total, st.wait_time_max, st.rate,
           st.in_slices, st.in_current, st.in_standby, st.in_returned,
           st.recycled, st.lost, st.errors, st.last_error, st.last_error_at,
           pg_catalog.floor(s.used_fraction * 10000::double precision + 1e-6::double precision)
               / 10000::double precision AS used_fraction,
           CASE WHEN l.seconds < 31557600000::double precision
                THEN pg_catalog.justify_interval(pg_catalog.make_interval(
                         secs => pg_catalog.floor(l.seconds / l.unit) * l.unit))
           END AS exhausted_in,
           s.leased
      FROM hilo.stat_slots() st
      JOIN hilo.reserved s ON s.id = st.sequence
     CROSS JOIN LATERAL (
         SELECT (st.in_slices + st.in_current + st.in_standby + st.in_returned)::double precision AS in_memory,
                pg_catalog.abs(s.increment::double precision) AS step,
                CASE WHEN s.increment > 0 THEN s.max_value::double precision - s.next_value
                     ELSE s.next_value - s.min_value::double precision
                END AS span
     ) v
     CROSS JOIN LATERAL (
         SELECT CASE WHEN v.span IS NULL THEN v.in_memory
                     ELSE v.in_memory + pg_catalog.floor((v.span + v.step) / v.step / s.nodes::double precision)
                END AS values_left
     ) f
     CROSS JOIN LATERAL (
         SELECT d.seconds,
                CASE WHEN d.seconds >= 864000::double precision THEN 86400
                     WHEN d.seconds >= 36000::double precision THEN 3600
                     WHEN d.seconds >= 600::double precision THEN 60
                     ELSE 1 END::double precision AS unit
           FROM (SELECT CASE WHEN st.rate > 0::double precision AND NOT s.cycle AND s.base IS NOT NULL
                             THEN f.values_left / st.rate END AS seconds) d
     ) l;
COMMENT ON VIEW hilo_stat_sequences IS
    'Shows for each active sequence the values that this server holds, and the work that it has '
    'done. Counters begin when the sequence is created or hilo_stat_reset is called. They are '
    'written with each block, and when the server stops: a crash may lose what came after that';
COMMENT ON COLUMN hilo_stat_sequences.served IS
    'Values served to callers, and used of leases that have ended';
COMMENT ON COLUMN hilo_stat_sequences.wait_time_max IS
    'Longest wait, in milliseconds, since the sequence has become active';
COMMENT ON COLUMN hilo_stat_sequences.used_fraction IS
    'Fraction of the way from one bound to the other that is reserved: 0 to 1, in steps of 0.0001';
COMMENT ON COLUMN hilo_stat_sequences.exhausted_in IS
    'Time until the last value is served, at the current rate, in whole days, hours, minutes or seconds; null without '
    'traffic, for a sequence that cycles, and beyond a thousand years';
CREATE FUNCTION hilo.rate_samples() RETURNS TABLE (sequence bigint, at timestamptz, taken bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1000 AS 'MODULE_PATHNAME', 'rate_samples_wrapper';
COMMENT ON FUNCTION hilo.rate_samples() IS
    'Returns, for each slot in shared memory, the times of its samples, and how many values were taken by then. The last is now';

CREATE OR REPLACE VIEW hilo_stat_rates WITH (security_barrier) AS
    SELECT s.name, i.since, i.until,
           GREATEST(i.taken, 0::double precision) / EXTRACT(epoch FROM i.until - i.since)::double precision AS rate
      FROM (SELECT r.sequence, pg_catalog.lag(r.at) OVER earlier AS since, r.at AS until,
                   r.taken::double precision - pg_catalog.lag(r.taken::double precision) OVER earlier AS taken
              FROM hilo.rate_samples() r
            WINDOW earlier AS (PARTITION BY r.sequence ORDER BY r.at, r.taken)) i
      JOIN hilo.readable s ON s.id = i.sequence
     WHERE i.since < i.until;
DROP FUNCTION hilo.stat_rates();
COMMENT ON VIEW hilo_stat_rates IS
    'Rate history of each active sequence: about eight intervals for each hilo.window, one in each row';

-- Branches: sequences that get their values from the hilo of another server, through dblink, or through Citus from its
-- coordinator.

-- The connection of a source stays open for its next query. A query is sent and then looked after,
-- because a call that waits inside libpq hears no cancel and no shutdown.
CREATE FUNCTION hilo.remote(server name, query text, of_source boolean DEFAULT false) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $remote$
DECLARE
    dblink CONSTANT text := (
        SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e
          JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink');
    result CONSTANT text := pg_catalog.format(
        'SELECT r FROM %s.dblink_get_result($1) AS t (r jsonb)', dblink);
    disconnect CONSTANT text := pg_catalog.format(
        'SELECT %s.dblink_disconnect($1) WHERE $1 = ANY (%1$s.dblink_get_connections())', dblink);
    -- No session has opened one of this name before, for a function that runs as somebody else.
    connection CONSTANT text := CASE WHEN of_source
        THEN pg_catalog.format('hilo %L %L %L', session_user, current_user, server)
        ELSE pg_catalog.gen_random_uuid()::text END;
    deadline CONSTANT timestamptz := pg_catalog.clock_timestamp() + '10 s'::interval;
    is_open boolean;
    found boolean;
    answer jsonb;
    more jsonb;
    state text; message text; detail text; hint text;
BEGIN
    IF server IS NULL THEN
        -- Citus connects again as the current user, and gives back the first line of an error.
        EXECUTE 'SELECT r.success, r.result FROM pg_catalog.pg_dist_local_group l '
                'CROSS JOIN LATERAL pg_catalog.run_command_on_coordinator($1) r WHERE l.groupid <> 0'
           INTO found, message USING query;
        IF found THEN
            RETURN nullif(message, '')::jsonb;
        ELSIF of_source AND message LIKE ANY (ARRAY[
            '% request ________-____-____-____-____________ has been made before%',
            '% lease "________-____-____-____-____________" was taken before%'])
        THEN
            RETURN NULL;
        END IF;
        RAISE connection_failure USING
            MESSAGE = coalesce('the coordinator of Citus refused: ' || message, 'this server is the coordinator of Citus'),
            HINT = 'The owner of the sequence must be able to log in at the coordinator, and have UPDATE on it there.';
    ELSIF dblink IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'extension dblink is not installed',
            HINT = 'A superuser can install it: CREATE EXTENSION dblink.';
    END IF;
    LOOP
        EXECUTE pg_catalog.format(
            'SELECT coalesce($1 = ANY (%s.dblink_get_connections()), false)', dblink)
           INTO is_open USING connection;
        BEGIN
            IF NOT is_open THEN
                EXECUTE pg_catalog.format('SELECT %s.dblink_connect($1, $2)', dblink)
                  USING connection, server::text;
                EXECUTE pg_catalog.format('SELECT %s.dblink_exec($1, $2)', dblink)
                  USING connection, 'SET search_path = pg_catalog, pg_temp; '
                                    'SET default_transaction_isolation = ''read committed''; '
                                    'SET client_min_messages = error';
            END IF;
            EXECUTE pg_catalog.format('SELECT %s.dblink_send_query($1, $2) = 1', dblink)
               INTO found USING connection, query;
            IF NOT found THEN
                RAISE connection_failure USING MESSAGE = 'could not send a query to the server';
            END IF;
            LOOP
                EXECUTE pg_catalog.format('SELECT %s.dblink_is_busy($1) = 0', dblink)
                   INTO found USING connection;
                EXIT WHEN found;
                IF pg_catalog.clock_timestamp() > deadline THEN
                    RAISE query_canceled USING MESSAGE = pg_catalog.format(
                        'server "%s" did not answer within 10 seconds', server);
                END IF;
                PERFORM pg_catalog.pg_sleep(0.001);
            END LOOP;
            EXECUTE result INTO answer USING connection;
            -- The end of the results, after which the connection takes the next query.
            EXECUTE result INTO more USING connection;
            IF NOT of_source THEN
                EXECUTE disconnect USING connection;
            END IF;
            RETURN answer;
        EXCEPTION WHEN query_canceled OR OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
                detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        END;
        EXECUTE disconnect USING connection;
        IF state = '42710' AND of_source THEN
            RETURN NULL;
        END IF;
        -- A connection that had been open may be one to a server that was restarted since.
        EXIT WHEN NOT is_open OR state !~ '^(08|57P)';
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail,
        HINT = coalesce(nullif(hint, ''), pg_catalog.format(
            'Look whether server "%s" answers, and its user mapping.', server));
END;
$remote$;
COMMENT ON FUNCTION hilo.remote(name, text, boolean) IS
    'Runs a query on a foreign server, or null: the coordinator of Citus. Returns the first column '
    'of its first row; null: it has none. of_source: the connection stays, and the error that a name '
    'is taken is null too';

CREATE FUNCTION hilo.refuse(message text, hint text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $refuse$
BEGIN
    RAISE object_not_in_prerequisite_state USING MESSAGE = message, HINT = hint;
END;
$refuse$;
COMMENT ON FUNCTION hilo.refuse(text, text) IS 'Fails with 55000';

CREATE FUNCTION hilo.remote_sequence(server name, remote_name text) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT CASE WHEN r.found @> '{"cycle": false, "ordered": false, "gapless": false}'::jsonb
                     AND r.found ? 'numbering'::text
                THEN r.found
                ELSE hilo.refuse(
                    pg_catalog.format(
                        'hilo sequence "%s" on server "%s" cannot have branches', $2, $1),
                    'It must be of version 0.4.0 or later, and may neither cycle nor be ordered '
                    'or gapless.') END
      FROM (SELECT coalesce(
                       hilo.remote($1, pg_catalog.format(
                           'SELECT pg_catalog.to_jsonb(q) '
                           '|| pg_catalog.jsonb_build_object(''schema'', %L) '
                           'FROM %I.hilo_sequences q WHERE q.name = %L',
                           n.place #>> '{}'::text[], n.place #>> '{}'::text[], $2)),
                       hilo.refuse(
                           pg_catalog.format(
                               'there is no hilo sequence "%s" on server "%s"', $2, $1),
                           'Create it there, and grant UPDATE on it to the role of the user '
                           'mapping.')) AS found
              FROM (SELECT coalesce(
                               hilo.remote($1,
                                   'SELECT pg_catalog.to_jsonb(n.nspname) '
                                   'FROM pg_catalog.pg_extension e '
                                   'JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace '
                                   'WHERE e.extname = ''hilo'''),
                               hilo.refuse(
                                   pg_catalog.format(
                                       'extension hilo is not installed on server "%s"', $1),
                                   'The foreign server names the database: look at its option '
                                   'dbname.'))
                   ) n (place)) r;
END;
COMMENT ON FUNCTION hilo.remote_sequence(name, text) IS
    'Returns the row of hilo_sequences on a foreign server, with the schema of the extension there';

-- The request as the centre gets it rises with each new one, so it refuses one that comes late. It
-- is what was asked for so far, then the version (7) and the attempt.
CREATE FUNCTION hilo.remote_request(asked bigint, attempt integer, request uuid) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (pg_catalog.lpad(pg_catalog.to_hex(asked & 281474976710655::bigint), 12, '0')
            || '700' || attempt::text
            || pg_catalog.substr(pg_catalog.replace(request::text, '-', ''), 17))::uuid;
COMMENT ON FUNCTION hilo.remote_request(bigint, integer, uuid) IS
    'Returns the uuid by which a request is known at the centre';

-- This server and the sequence. Copies of it on the same timeline differ in what each request begins
-- with.
CREATE FUNCTION hilo.receiver(sequence bigint) RETURNS text
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN (SELECT pg_catalog.concat_ws(
                       '/', 'branch', c.system_identifier, pg_catalog.substr(
                           pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8),
                       d.oid, sequence)
              FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d
             WHERE d.datname = pg_catalog.current_database());
COMMENT ON FUNCTION hilo.receiver(bigint) IS
    'Returns the name by which a centre knows a sequence of this server';

CREATE FUNCTION hilo_ask_server(
    server name, name text, n bigint, request uuid,
    remote_schema name, remote_name text, numbering text
) RETURNS TABLE (first bigint, last bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1
BEGIN ATOMIC
    SELECT (a.answer ->> 'first'::text)::bigint, (a.answer ->> 'last'::text)::bigint
      FROM (SELECT pg_catalog.format(
                       -- The function is called for the row that the condition finds, so not
                       -- after a renumbering.
                       'SELECT pg_catalog.to_jsonb(t) FROM %1$I.hilo_sequences q, '
                       '%1$I.hilo_transfer(q.name::%1$I.hilo_sequence, %2$s::pg_catalog.int8, ',
                       $5, $3) AS head,
                   pg_catalog.format(
                       ') t WHERE q.name OPERATOR(pg_catalog.=) %1$L::pg_catalog.text '
                       'AND q.numbering OPERATOR(pg_catalog.=) %2$L::pg_catalog.text '
                       'AND t.numbering OPERATOR(pg_catalog.=) %2$L::pg_catalog.text',
                       $6, $7) AS tail,
                   '%L::pg_catalog.text, %L::pg_catalog.uuid' AS who,
                   pg_catalog.concat_ws(
                       '/', hilo.receiver(pg_catalog.split_part(q.numbering, '.', 1)::bigint),
                       pg_catalog.split_part($4::text, '-', 1)) AS receiver,
                   COALESCE(s.requested, 0::bigint) AS asked
              FROM hilo_sequences q
              LEFT JOIN hilo_stat_sources s ON s.name = q.name
             WHERE q.name = $2) r
     CROSS JOIN LATERAL (
           SELECT COALESCE(
               -- One that was revoked meanwhile is refused, and so is each that comes before a
               -- later one.
               hilo.remote($1, r.head || pg_catalog.format(
                   r.who, r.receiver, hilo.remote_request(r.asked, 0, $4)) || r.tail, true),
               hilo.remote($1, r.head || pg_catalog.format(
                   r.who, r.receiver, hilo.remote_request(r.asked, 1, $4)) || r.tail, true),
               hilo.refuse(
                   pg_catalog.format(
                       'hilo sequence "%s" must be attached to %s again', $2, COALESCE(
                           'server "'::text || $1::text || '"', 'the coordinator of Citus')),
                   pg_catalog.format(
                       'It has been renumbered there, dropped, or is not granted any more. '
                       'Call %s.', CASE WHEN $1 IS NULL
                                        THEN 'hilo_create_on_all_nodes on the coordinator'
                                        ELSE 'hilo_attach_server' END))
           ) AS answer) a;
END;
COMMENT ON FUNCTION hilo_ask_server(name, text, bigint, uuid, name, text, text) IS
    'The source of a sequence that hilo_attach_server has attached: takes values by hilo_transfer '
    'from a foreign server, or null: from the coordinator of Citus. remote_schema: the schema of the extension there. remote_name, '
    'numbering: the sequence there, as in hilo_sequences when it was attached. Errors: 55000 if '
    'its numbering is another by now, or without dblink; those of dblink and hilo_transfer.';

-- One process asks for all sequences whose queries begin with the same comment.
CREATE FUNCTION hilo.server_source(server name, remote_schema text, remote_name text, numbering text)
    RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN pg_catalog.format(
        '-- server %s' || pg_catalog.chr(10) || 'SELECT v.first, v.last '
        'FROM %I.hilo_ask_server(%L, $1, $2, $3, %L, %L, %L) AS v',
        COALESCE(pg_catalog.md5($1::text), 'citus'),
        (SELECT n.nspname FROM pg_catalog.pg_extension e
           JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
          WHERE e.extname = 'hilo'::name),
        $1, $2, $3, $4);
COMMENT ON FUNCTION hilo.server_source(name, text, text, text) IS 'Returns the source of a branch';

CREATE FUNCTION hilo_attach_server(
    name hilo_sequence, server name, remote_name hilo_sequence DEFAULT NULL
) RETURNS hilo_sequence
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT hilo_create($1, data_type => (r.there ->> 'data_type'::text)::regtype,
                       increment => (r.there ->> 'increment'::text)::bigint)
      FROM hilo.remote_sequence($2, COALESCE($3, $1)::text) AS r (there)
     WHERE NOT EXISTS (SELECT FROM hilo_sequences q WHERE q.name = $1::text);
    SELECT hilo_alter(
               $1,
               start_value => (r.there ->> 'start_value'::text)::bigint,
               increment => (r.there ->> 'increment'::text)::bigint,
               min_value => (r.there ->> 'min_value'::text)::bigint,
               max_value => (r.there ->> 'max_value'::text)::bigint,
               data_type => (r.there ->> 'data_type'::text)::regtype,
               block_size => COALESCE((r.there ->> 'block_size'::text)::bigint, 0::bigint),
               key_format => r.there ->> 'key_format'::text,
               source => hilo.server_source(
                   $2, r.there ->> 'schema'::text, r.there ->> 'name'::text,
                   r.there ->> 'numbering'::text))
      FROM hilo.remote_sequence($2, COALESCE($3, $1)::text) AS r (there);
    SELECT $1;
END;
COMMENT ON FUNCTION hilo_attach_server(hilo_sequence, name, hilo_sequence) IS
    'Makes a sequence a branch of one on another server, its centre, and returns its name. remote_name is the name '
    'there; null: the same name. If it does not exist here, it is created with the type, increment, bounds, start '
    'value, block size and key format of the one there. From then on its values come from there, by hilo_transfer, '
    'through dblink, the foreign server and the user mapping of the owner of the sequence. After a renumbering there '
    'it serves the values that it holds and gets no more, until it is attached again. Then these values become a gap. '
    'Requires ownership of the sequence, and USAGE on the foreign server. Errors: as for hilo_create and hilo_alter, '
    '55000 without dblink, or if the sequence there does not exist, cycles, is ordered or gapless; those of dblink.';

-- Each step is committed elsewhere, so each node has what the next step reads. source: that of a branch, with
-- '{name}' and '{numbering}'. The body runs as the caller, who has no USAGE of schema hilo.
CREATE FUNCTION hilo.branch_on_workers(names text[], options jsonb, source text)
    RETURNS TABLE (name text, node text, action text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1000 SET search_path = pg_catalog, pg_temp
AS $branches$
#variable_conflict use_column
DECLARE
    schema CONSTANT name := (SELECT n.nspname FROM pg_catalog.pg_extension e
                               JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo');
    on_workers CONSTANT text :=
        'SELECT pg_catalog.jsonb_object_agg(pg_catalog.concat(r.nodename, '':'', r.nodeport), CASE WHEN r.success '
        'THEN coalesce(nullif(r.result, ''''), ''{}'')::pg_catalog.jsonb ELSE pg_catalog.to_jsonb(r.result) END) '
        'FROM pg_catalog.run_command_on_workers($1) r';
    apply CONSTANT text :=
        'SELECT pg_catalog.jsonb_object_agg(a.name, a.action) FROM pg_catalog.set_config(''lock_timeout'', ''2s'', true) '
        'CROSS JOIN LATERAL %I.hilo_apply(pg_catalog.jsonb_build_object(''hilo'', 1, ''sequences'', %L::pg_catalog.jsonb), '
        'false, false) AS a (action, name, detail)';
    wanted text[];
    is_coordinator boolean;
    new jsonb;
    branches jsonb;
    made jsonb;
    found jsonb;
    answer record;
    problems text;
BEGIN
    -- It may have been renamed.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('%I, pg_temp', n.nspname), true)
       FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo';
    IF names IS NULL OR options IS NULL OR pg_catalog.array_position(names, NULL) IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'name and options of a hilo sequence must not be null',
            HINT = 'Specify a value that is not null.';
    ELSIF pg_catalog.jsonb_typeof(options) <> 'object' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'options of a hilo sequence must be an object',
            HINT = 'Use the fields that hilo_export returns, such as {"data_type": "integer"}.';
    ELSIF pg_catalog.to_regprocedure('pg_catalog.run_command_on_coordinator(text,boolean)') IS NULL THEN
        RAISE feature_not_supported USING MESSAGE = 'Citus is not in this database', DETAIL = 'It says which nodes there are.',
            HINT = 'Elsewhere, make branches with hilo_attach_server, or pass what hilo_node_summary() returns to hilo_apply().';
    END IF;
    EXECUTE 'SELECT l.groupid = 0 FROM pg_catalog.pg_dist_local_group l' INTO is_coordinator;
    IF is_coordinator IS NOT TRUE THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'this server is not the coordinator of Citus',
            HINT = 'Call hilo_create_on_all_nodes on the coordinator.';
    END IF;
    wanted := ARRAY(SELECT DISTINCT u.one FROM pg_catalog.unnest(names) AS u (one));
    EXECUTE on_workers INTO found USING pg_catalog.format(
        'SELECT pg_catalog.jsonb_object_agg(e.value OPERATOR(pg_catalog.->>) ''name''::pg_catalog.text, e.value) '
        'FROM pg_catalog.unnest(%1$L::pg_catalog.text[]) AS u (one) CROSS JOIN LATERAL pg_catalog.jsonb_array_elements('
        '%2$I.hilo_node_summary(u.one::%2$I.hilo_sequence) OPERATOR(pg_catalog.->) ''sequences''::pg_catalog.text) AS e',
        wanted, schema);
    SELECT pg_catalog.string_agg(pg_catalog.format('node %s: %s', n.key, CASE
               WHEN pg_catalog.jsonb_typeof(n.value) = 'string' THEN n.value #>> '{}'::text[]
               ELSE pg_catalog.format('its sequence "%s" is no branch of the coordinator: docs/citus.md says how to replace it',
                                      e.key) END), E'\n' ORDER BY n.key)
      INTO problems
      FROM pg_catalog.jsonb_each(found) n
      LEFT JOIN LATERAL pg_catalog.jsonb_each(CASE pg_catalog.jsonb_typeof(n.value) WHEN 'object' THEN n.value END) e
             ON NOT pg_catalog.starts_with(coalesce(e.value ->> 'source'::text, ''), pg_catalog.split_part(source, E'\n', 1))
     WHERE pg_catalog.jsonb_typeof(n.value) = 'string' OR e.key IS NOT NULL;
    SELECT pg_catalog.jsonb_agg(options || pg_catalog.jsonb_build_object('name', u.one)),
           pg_catalog.jsonb_agg(options || pg_catalog.jsonb_build_object('name', u.one, 'source', 'SELECT 1'))
      INTO new, branches
      FROM pg_catalog.unnest(wanted) AS u (one)
     WHERE problems IS NULL AND NOT EXISTS (SELECT FROM hilo_sequences q WHERE q.name = u.one);
    IF new IS NOT NULL THEN
        -- A sequence that cannot have branches is refused before anything is made.
        PERFORM hilo_apply(pg_catalog.jsonb_build_object('hilo', 1, 'sequences', branches), false, true);
        EXECUTE 'SELECT r.success, r.result FROM pg_catalog.run_command_on_coordinator($1) r' INTO answer
          USING pg_catalog.format(apply, schema, new);
        made := CASE WHEN answer.success THEN answer.result::jsonb END;
        problems := CASE WHEN NOT answer.success THEN 'coordinator: ' || answer.result END;
    END IF;
    IF problems IS NULL THEN
        SELECT pg_catalog.jsonb_agg(e.value - '{owned_by,source,reserve_ahead}'::text[] || pg_catalog.jsonb_build_object(
                   'source', pg_catalog.replace(pg_catalog.replace(source, '''{numbering}''', pg_catalog.quote_literal(q.numbering)),
                                                '''{name}''', pg_catalog.quote_literal(q.name))))
          INTO branches
          FROM hilo_sequences q
         CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(hilo_export(q.name::hilo_sequence) -> 'sequences'::text) e
         WHERE q.name = ANY (wanted);
        EXECUTE on_workers INTO found USING pg_catalog.format(apply, schema, branches);
        SELECT pg_catalog.string_agg(pg_catalog.format('node %s: %s', n.key, n.value #>> '{}'::text[]), E'\n' ORDER BY n.key)
          INTO problems
          FROM pg_catalog.jsonb_each(found) n WHERE pg_catalog.jsonb_typeof(n.value) = 'string';
    END IF;
    IF problems IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = pg_catalog.format('could not create hilo sequence "%s" on all nodes', wanted[1]),
            DETAIL = problems, HINT = 'Remove the cause and call it again: nodes that have the sequence keep it.';
    END IF;
    RETURN QUERY
        SELECT u.one, n.node, coalesce(n.actions ->> u.one, 'exists')
          FROM pg_catalog.unnest(wanted) AS u (one)
         CROSS JOIN (SELECT 'coordinator', made UNION ALL SELECT f.key, f.value FROM pg_catalog.jsonb_each(found) f)
                    AS n (node, actions);
END;
$branches$;
COMMENT ON FUNCTION hilo.branch_on_workers(text[], jsonb, text) IS 'Does what hilo_create_on_all_nodes does';

-- A rollback would not reach the other nodes.
CREATE FUNCTION hilo.is_outside_block() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_outside_block_wrapper';
COMMENT ON FUNCTION hilo.is_outside_block() IS 'Returns true, or fails with 25001 in a transaction block';

CREATE FUNCTION hilo_create_on_all_nodes(names text[], options jsonb DEFAULT '{}')
    RETURNS TABLE (name text, node text, action text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1000
BEGIN ATOMIC
    SELECT d.name, d.node, d.action
      FROM hilo.branch_on_workers($1, $2, CASE WHEN hilo.is_outside_block() THEN hilo.server_source(
               NULL, (SELECT n.nspname::text FROM pg_catalog.pg_extension e
                        JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
                       WHERE e.extname = 'hilo'::name), '{name}', '{numbering}') END) d;
END;
COMMENT ON FUNCTION hilo_create_on_all_nodes(text[], jsonb) IS
    'Creates many sequences with the same options on all nodes of Citus, as this function does '
    'with one name. Returns a row for each sequence and node.';

CREATE OR REPLACE FUNCTION hilo_create_on_all_nodes(name hilo_sequence, options jsonb DEFAULT '{}')
    RETURNS TABLE (node text, action text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT d.node, d.action FROM hilo_create_on_all_nodes(ARRAY[$1::text], $2) d;
END;
COMMENT ON FUNCTION hilo_create_on_all_nodes(hilo_sequence, jsonb) IS
    'Creates a sequence on the coordinator of Citus, and makes it a branch on each worker, whose values come from '
    'there. Returns what was done on each node: create, exists, or an action of hilo_apply. A worker gets the '
    'definition, the owner and the privileges of the coordinator, and the numbering that it has by now. Values that '
    'the worker holds of an earlier numbering become a gap. Called again, it completes later nodes, whatever the '
    'options. These are the fields of a sequence in a document of hilo_export. A rollback does not undo it. Errors: '
    '55000 on a worker, if a node cannot be asked or refuses, or if a worker has a sequence of this name that is no '
    'branch; 0A000 without Citus, or for one that cycles, is ordered or gapless; 25001 in a transaction block, 22023 '
    'for other options.';

CREATE FUNCTION hilo_adopt_on_all_nodes(relation regclass, column_name name, name hilo_sequence DEFAULT NULL) RETURNS hilo_sequence
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    -- Else Citus reads the shards over several connections, and then cannot alter the table.
    SET citus.multi_shard_modify_mode = 'sequential'
AS $adopt$
#variable_conflict use_column
DECLARE
    old record;
    largest bigint;
    reached bigint;
    new text;
BEGIN
    -- It may have been renamed.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('%I, pg_temp', n.nspname), true)
       FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo';
    IF relation IS NULL OR column_name IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'relation and column name must not be null',
            HINT = 'Specify a serial column.';
    ELSIF pg_catalog.current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction USING
            MESSAGE = 'cannot execute hilo_adopt_on_all_nodes() in a read-only transaction';
    END IF;
    SELECT s.seqrelid::regclass AS sequence, s.seqincrement, s.seqmin, s.seqmax, s.seqstart, c.relname, a.attidentity,
           pg_catalog.format_type(a.atttypid, NULL) AS data_type, pg_catalog.pg_get_userbyid(t.relowner) AS owner,
           pg_catalog.format('%I.%I', n.nspname, t.relname) AS "table", pg_catalog.pg_has_role(t.relowner, 'USAGE') AS own,
           -- An owner can put code where a query of the table runs it.
           EXISTS (WITH RECURSIVE part AS (
                       SELECT $1::oid AS relation
                        UNION
                       SELECT i.inhrelid FROM part p JOIN pg_catalog.pg_inherits i ON i.inhparent = p.relation)
                   SELECT FROM part p
                     JOIN pg_catalog.pg_class c ON c.oid = p.relation
                     JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
                    WHERE NOT r.rolsuper AND r.rolname <> CURRENT_USER) AS of_others
      INTO old
      FROM pg_catalog.pg_attribute a
      JOIN pg_catalog.pg_class t ON t.oid = a.attrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
      JOIN pg_catalog.pg_sequence s ON s.seqrelid = pg_catalog.pg_get_serial_sequence($1::text, $2::text)::regclass::oid
      JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
     WHERE a.attrelid = $1::oid AND a.attname = $2;
    IF NOT FOUND OR old.attidentity <> '' OR old.seqincrement < 0 OR old.data_type NOT IN ('smallint', 'integer', 'bigint') THEN
        RAISE feature_not_supported USING
            MESSAGE = pg_catalog.format('column %s.%I is no serial column that rises', relation, column_name),
            HINT = 'For another column, create a sequence with hilo_create_on_all_nodes, and change the default.';
    END IF;
    IF NOT old.own THEN
        RAISE insufficient_privilege USING MESSAGE = pg_catalog.format('must be owner of table %s', relation),
            HINT = 'Do it as the owner of the table.';
    ELSIF old.of_others THEN
        RAISE wrong_object_type USING
            MESSAGE = pg_catalog.format('column %s.%I is read by a query, and not all of it belongs to this role', relation, column_name),
            DETAIL = 'The query would run what other roles have put into the table, with the rights of this one.',
            HINT = 'SET ROLE to the owner of the table, and call it again.';
    END IF;
    new := coalesce($3::text, old.relname);
    IF EXISTS (SELECT FROM hilo_sequences q WHERE q.name = new) THEN
        RAISE duplicate_object USING MESSAGE = pg_catalog.format('hilo sequence "%s" already exists', new),
            HINT = 'Choose another name, or drop it on all nodes.';
    END IF;
    EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', old."table");
    -- Citus lets a worker give a bigint column ids above 2^48, which are never reached.
    EXECUTE pg_catalog.format('SELECT pg_catalog.max(%1$I) FROM %2$s WHERE %1$I <= %3$s', column_name, old."table",
                              CASE old.data_type WHEN 'bigint' THEN 1::bigint << 48 ELSE old.seqmax END)
       INTO largest;
    EXECUTE pg_catalog.format('SELECT CASE WHEN is_called THEN last_value ELSE last_value - %s END FROM %s',
                              old.seqincrement, old.sequence)
       INTO reached;
    PERFORM hilo_create_on_all_nodes(new::hilo_sequence, pg_catalog.jsonb_build_object(
        'data_type', old.data_type, 'increment', old.seqincrement, 'min_value', old.seqmin, 'max_value', old.seqmax,
        'start_value', greatest(largest, reached) + old.seqincrement, 'owner', old.owner));
    EXECUTE (SELECT pg_catalog.format('ALTER TABLE %s ALTER %I SET DEFAULT %I.hilo_nextval(%L)', old."table", column_name,
                                      n.nspname, new)
               FROM pg_catalog.pg_extension e
               JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo');
    EXECUTE pg_catalog.format('DROP SEQUENCE %s', old.sequence);
    RETURN new::hilo_sequence;
END;
$adopt$;
COMMENT ON FUNCTION hilo_adopt_on_all_nodes(regclass, name, hilo_sequence) IS
    'Makes a serial column of a distributed table draw from a new hilo sequence on all nodes of Citus, and returns '
    'its name; null: that of the old sequence, which is dropped. The new one continues beyond the old one, and beyond '
    'the values of the column that are not above 2^48. The owner of the table owns it. Keeps others from writing to the '
    'table meanwhile. If it fails, call it again with another name, or drop the new sequence on all nodes. Errors: '
    '0A000 for another column, 42501 if the caller is not the owner, 42809 if a part of the table belongs to another role '
    'that is no superuser, 42710 if the name is taken, and those of hilo_create_on_all_nodes.';

-- Hi/Lo mappers: what each calls, over hilo's sequences. A block of size B holds first ... first +
-- B - 1. The mapper reads one number for it, and computes the rest.

CREATE FUNCTION hilo.mappers()
    RETURNS TABLE (client text, makes text, origin bigint, value text, step text, first text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
    SELECT m.client, m.makes, m.origin, m.value, m.step, m.first
      FROM (VALUES
          ('core', 'nextval', NULL::bigint, NULL, NULL, 'value'),
          ('efcore', 'nextval', NULL, 'first', 'size', 'value'),
          ('doctrine', 'nextval', NULL, 'first', 'size', 'value'),
          ('hibernate', 'nextval', NULL, 'first + size - 1', 'size', 'value - size + 1'),
          ('hibernate-pooled-lo', 'nextval', NULL, 'first', 'size', 'value'),
          ('hibernate-pooled-old', 'nextval', NULL, 'first + size', 'size', 'value - size'),
          ('hibernate-hilo', 'nextval', 1, '(first - 1) / size + 1', '1', '(value - 1) * size + 1'),
          ('hibernate-legacy-hilo', 'hibernate_unique_key', 0, 'first / size', '1', 'value * size'),
          -- Hibernate since 5.3 stores the number before the one that it uses.
          ('hibernate-table', 'hibernate_sequences', NULL, 'first + size - 2', 'size',
           'value - size + 2'),
          ('hibernate-table-pooled-lo', 'hibernate_sequences', NULL, 'first - 1', 'size',
           'value + 1'),
          ('hibernate-table-hilo', 'hibernate_sequences', 1, '(first - 1) / size', '1',
           'value * size + 1'),
          ('hibernate-table-old', 'hibernate_sequences', NULL, 'first + size', 'size',
           'value - size'),
          ('nhibernate', 'hibernate_unique_key', 0, 'first / size', '1', 'value * size'),
          ('nhibernate-pooled', 'nextval', NULL, 'first + size', 'size', 'value - size'),
          ('nhibernate-table', 'hibernate_sequences', NULL, 'first + size', 'size', 'value - size'),
          ('marten', 'mt_hilo', 1, '(first - 1) / size', '1', 'value * size + 1')
      ) AS m (client, makes, origin, value, step, first);
END;
COMMENT ON FUNCTION hilo.mappers() IS
    'Returns the Hi/Lo mappers: what a facade makes, what the mapper reads for a block, and what '
    'it adds to that. origin: where block 0 begins, for those that count blocks';

-- A façade belongs to who makes it. Its functions have the rights of who calls them, and depend on
-- nothing of the extension.
CREATE FUNCTION hilo.make_facade(
    schema name, client text, makes text, origin bigint, value text, step text, extension text
) RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
AS $make$
DECLARE
    draw CONSTANT text :=
        'BEGIN RETURN @hilo@.hilo_nextval(array_to_string(parse_ident($1), ''.'')); END';
    next CONSTANT text :=
        'BEGIN RETURN @schema@.hilo_block(array_to_string(parse_ident($1), ''.'')); END';
    refuse CONSTANT text := $body$
BEGIN
    RAISE feature_not_supported USING MESSAGE = 'the facade of a mapper only gives out blocks',
        HINT = 'Call hilo_setval or hilo_advance while no mapper runs.';
END$body$;
    block CONSTANT text := $body$
DECLARE
    q record;
    first bigint;
    last bigint;
    size bigint;
BEGIN
    SELECT s.name, s.start_value, s.increment, s.block_size INTO q
      FROM @hilo@.hilo_sequences s WHERE s.name = $1;
    size := q.block_size;
    IF q.name IS NULL THEN
        RAISE undefined_object USING MESSAGE = format('hilo sequence "%s" does not exist', $1),
            HINT = 'Create it with the allocation size of the mapper as block_size: hilo_create.';
    ELSIF size IS NULL OR q.increment <> 1 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('hilo sequence "%s" has no blocks for a mapper', $1),
            DETAIL = format('Its increment is %s, and its block_size is %s.', q.increment,
                            COALESCE(size::text, 'adaptive')),
            HINT = 'Its increment must be 1, and its block_size the allocation size of the mapper.';
    END IF;
    @take@
    IF last - first + 1 <> size THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('hilo sequence "%s" gave a short block', $1);
    END IF;
    RETURN @value@;
END$body$;
    range CONSTANT text :=
        'SELECT r.first, r.last INTO first, last FROM @hilo@.hilo_nextrange($1, size) r;';
    hi CONSTANT text := $body$
    IF mod(q.start_value - @origin@, size) <> 0 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('hilo sequence "%s" does not begin with a block of %s', $1, size),
            HINT = 'Its start_value must be a multiple of its block_size, plus @origin@.';
    END IF;
    first := q.start_value + @hilo@.hilo_next_hi($1) * size;
    last := first + size - 1;$body$;
    -- STABLE, without settings: the planner then looks one name up.
    names CONSTANT text := 'SELECT s.name::pg_catalog.text FROM @hilo@.hilo_sequences s
                             WHERE s.block_size IS NOT NULL';
    -- A mapper reads a row and then writes behind it. Until it has written, its transaction reads
    -- the same block again.
    drawn CONSTANT text := $body$
DECLARE
    own CONSTANT text := format('%s %s', @key@, $1);
    held jsonb := NULLIF(current_setting('hilo_facade.drawn', true), '')::jsonb;
BEGIN
    IF held IS NULL OR held ->> 'transaction' <> pg_current_xact_id()::text THEN
        held := jsonb_build_object('transaction', pg_current_xact_id()::text);
    END IF;
    IF held ->> own IS NULL THEN
        held := jsonb_set(held, ARRAY[own], to_jsonb(@schema@.hilo_block($1)));
        PERFORM set_config('hilo_facade.drawn', held::text, true);
    END IF;
    RETURN (held ->> own)::bigint;
END$body$;
    written CONSTANT text := $body$
DECLARE
    name CONSTANT text := @segment@;
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('no hilo sequence "%s" has blocks that this role may read', name),
            HINT = 'Create it with hilo_create: it takes the place of this row.';
    ELSIF NEW.@column@ - OLD.@column@ IS DISTINCT FROM
          (SELECT @step@ FROM (SELECT s.block_size AS size FROM @hilo@.hilo_sequences s
                                WHERE s.name = @segment@) b)
    THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('the mapper and hilo sequence "%s" have different blocks', name),
            DETAIL = format('The mapper has added %s to the value that it read.',
                            NEW.@column@ - OLD.@column@),
            HINT = 'Let block_size be the allocation size of the mapper, '
                   'or make the facade for another client.';
    END IF;
    PERFORM set_config('hilo_facade.drawn', (current_setting('hilo_facade.drawn')::jsonb
                                             - format('%s %s', @key@, name))::text, true);
    RETURN NEW;
END$body$;
    get_hi CONSTANT text := 'BEGIN RETURN @schema@.hilo_block(entity); END';
    floor CONSTANT text := $body$
BEGIN
    PERFORM @hilo@.hilo_advance(s.name, (NEW.hi_value + 1) * s.block_size)
       FROM @hilo@.hilo_sequences s WHERE s.name = OLD.entity_name;
    RETURN NEW;
END$body$;
    hi_values CONSTANT text := 'SELECT s.name, (s.max_reserved - 1) / s.block_size
                                  FROM @hilo@.hilo_sequences s WHERE s.block_size IS NOT NULL';
    of_sequence CONSTANT boolean := makes IN ('nextval', 'hibernate_unique_key');
    marks CONSTANT text[] := ARRAY[
        '@take@', CASE WHEN origin IS NULL THEN range ELSE hi END,
        '@value@', COALESCE(value, ''), '@step@', COALESCE(step, ''),
        '@origin@', COALESCE(origin::text, ''),
        '@column@', CASE makes WHEN 'hibernate_sequences' THEN 'next_val' ELSE 'next_hi' END,
        '@segment@', CASE makes WHEN 'hibernate_sequences' THEN 'NEW.sequence_name'
                                ELSE quote_literal(makes) END,
        '@key@', quote_literal(schema), '@schema@', quote_ident(schema), '@hilo@', extension];
    part record;
    body text;
    view text;
BEGIN
    IF client = 'nhibernate-optimizer-hilo' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'NHibernate''s optimizer "hilo" shares a counter with nobody',
            DETAIL = 'It takes all its blocks for neighbours, and so uses those of others.',
            HINT = 'Map the optimizer "pooled" or "pooled-lo", or the generator "seqhilo".';
    ELSIF makes IS NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('"%s" is no mapper for which hilo has a facade', client),
            HINT = 'docs/mappers.md has the names.';
    END IF;
    FOR part IN
        SELECT p.* FROM (VALUES
            ('hilo_block(name text)', 'bigint', 'plpgsql', block, client <> 'core'),
            ('nextval(sequence text)', 'bigint', 'plpgsql',
             CASE client WHEN 'core' THEN draw ELSE next END, of_sequence),
            ('setval(sequence text, value bigint)', 'bigint', 'plpgsql', refuse, of_sequence),
            ('setval(sequence text, value bigint, is_called boolean)', 'bigint', 'plpgsql', refuse,
             of_sequence),
            ('mt_get_next_hi(entity varchar)', 'integer', 'plpgsql', get_hi, makes = 'mt_hilo'),
            ('hilo_names()', 'SETOF text', 'sql', names, makes = 'hibernate_sequences'),
            ('hilo_names()', 'TABLE (name varchar, hi bigint)', 'sql', hi_values,
             makes = 'mt_hilo'),
            ('hilo_drawn(name text)', 'bigint', 'plpgsql', drawn,
             makes IN ('hibernate_sequences', 'hibernate_unique_key')),
            ('hilo_written()', 'trigger', 'plpgsql',
             CASE makes WHEN 'mt_hilo' THEN floor ELSE written END, makes <> 'nextval')
        ) AS p (signature, result, language, body, wanted) WHERE p.wanted
    LOOP
        body := part.body;
        FOR i IN 1 .. cardinality(marks) BY 2 LOOP
            body := replace(body, marks[i], marks[i + 1]);
        END LOOP;
        EXECUTE format('CREATE FUNCTION %I.%s RETURNS %s LANGUAGE %s %s AS %L',
                       schema, part.signature, part.result, part.language,
                       CASE part.language WHEN 'sql' THEN 'STABLE'
                                          ELSE 'SET search_path = pg_catalog, pg_temp' END, body);
        RETURN NEXT format('function %I.%s', schema, part.signature);
    END LOOP;
    EXECUTE format('COMMENT ON FUNCTION %I.%I(text) IS %L', schema,
                   CASE client WHEN 'core' THEN 'nextval' ELSE 'hilo_block' END,
                   'facade of hilo for ' || client);
    view := CASE makes
        WHEN 'hibernate_sequences'
        THEN 'SELECT n.name AS sequence_name, %1$I.hilo_drawn(n.name) AS next_val '
             'FROM %1$I.hilo_names() AS n (name)'
        WHEN 'hibernate_unique_key'
        THEN 'SELECT %1$I.hilo_drawn(''hibernate_unique_key'') AS next_hi'
        WHEN 'mt_hilo'
        THEN 'SELECT n.name AS entity_name, n.hi AS hi_value FROM %1$I.hilo_names() AS n' END;
    IF view IS NOT NULL THEN
        EXECUTE format('CREATE VIEW %1$I.%2$I AS ' || view, schema, makes);
        EXECUTE format('CREATE TRIGGER hilo_written INSTEAD OF INSERT OR UPDATE ON %1$I.%2$I '
                       'FOR EACH ROW EXECUTE FUNCTION %1$I.hilo_written()', schema, makes);
        -- It holds nothing. Who draws needs a privilege on the sequence.
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON %I.%I TO PUBLIC', schema, makes);
        RETURN NEXT format('view %I.%I', schema, makes);
    END IF;
    IF of_sequence THEN
        RAISE NOTICE 'nextval with a regclass still draws from a sequence of Postgres'
            USING HINT = 'Drop the sequences that hilo''s take the place of, '
                         'and let the mapper call nextval with a text.';
    END IF;
END;
$make$;
COMMENT ON FUNCTION hilo.make_facade(name, text, text, bigint, text, text, text) IS
    'Makes the functions and views of a facade, for a row of hilo.mappers()';

CREATE FUNCTION hilo_facade(schema name, client text) RETURNS SETOF text
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT f.made
      FROM (SELECT hilo_facade.client) c
      JOIN pg_catalog.pg_extension e ON e.extname = 'hilo'
      LEFT JOIN hilo.mappers() m ON m.client = c.client
     CROSS JOIN LATERAL hilo.make_facade(
         hilo_facade.schema, c.client, m.makes, m.origin, m.value, m.step,
         e.extnamespace::pg_catalog.regnamespace::text) AS f (made);
END;
COMMENT ON FUNCTION hilo_facade(name, text) IS
    'Makes, in a schema, the functions and views that a Hi/Lo mapper calls, so that the mapper takes its blocks from '
    'hilo. Returns the objects that it has made. They belong to the caller; DROP removes them. Roles that run the '
    'mapper have the schema in their search_path. client: core, efcore, doctrine, marten, hibernate, '
    'hibernate-pooled-lo, hibernate-pooled-old, hibernate-hilo, hibernate-legacy-hilo, hibernate-table, '
    'hibernate-table-pooled-lo, hibernate-table-hilo, hibernate-table-old, nhibernate, nhibernate-pooled, '
    'nhibernate-table. The allocation size is the block_size of the sequence. Requires CREATE on the schema. Errors: '
    '22023 for another client, 0A000 for nhibernate-optimizer-hilo, 3F000 if the schema does not exist, 42501, 42723 '
    'or 42P07 if one of the names is taken.';

CREATE FUNCTION hilo_refuse_counter(message text, hint text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $refuse$
BEGIN
    RAISE object_not_in_prerequisite_state USING MESSAGE = message, HINT = hint;
END;
$refuse$;
COMMENT ON FUNCTION hilo_refuse_counter(text, text) IS
    'Fails with 55000. The sources that hilo_attach writes call it where their counter is not what it was';

-- The query that takes whole blocks from a mapper's own counter, as the mapper does. $2 is how many
-- values are wanted, $4 the furthest that has come. A million calls of nextval bring less, but in
-- time. A block below the minimum of the counter is cut there. Names are filled in last, so that no
-- name is taken for a part of the query.
CREATE FUNCTION hilo.make_source(
    relation regclass, client text, entity text, size bigint, makes text, origin bigint, step text,
    first text
) RETURNS text
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    SET quote_all_identifiers = off
AS $source$
DECLARE
    of_core CONSTANT text :=
        'WITH r AS (SELECT min(b.value) AS first, max(b.value) AS last '
        'FROM (SELECT v.value, v.value - @size@::bigint '
        '* row_number() OVER (ORDER BY v.value) AS island FROM (SELECT nextval(%1$s) AS value '
        'FROM generate_series(1::bigint, LEAST($2, 1000000::bigint))) v) b GROUP BY b.island) ';
    of_sequence CONSTANT text :=
        'WITH r AS (SELECT i.first, i.last '
        'FROM (SELECT GREATEST(@first@, @low@::bigint) AS first, '
        '(@first@) + size - 1 AS last FROM (SELECT nextval(%1$s) AS value, '
        '@size@::bigint AS size '
        'FROM generate_series(1::bigint, LEAST(@blocks@ + 1, 1000000::bigint))) b) i '
        'WHERE i.last >= i.first) ';
    of_table CONSTANT text :=
        'WITH b AS (@write@ RETURNING @read@ AS value, @size@::bigint AS size), '
        'r AS (SELECT @first@ AS first, (@first@) + ($2 + size - 1) / size * size - 1 AS last '
        'FROM b) ';
    -- It never comes back to what it has brought, $4.
    checked CONSTANT text :=
        'SELECT CASE WHEN r.first @beyond@ $4 OR $4 IS NULL THEN r.first '
        'ELSE %4$s.hilo_refuse_counter(''the counter was set back: it gives '' || r.first '
        '|| '' after '' || $4, ''Set it beyond all numbers of the tables that use it.'') '
        'END, r.last FROM r';
    -- The first statement has the lock of a session that draws, and so nobody changes what the
    -- second one finds.
    as_it_was CONSTANT text :=
        'SELECT pg_sequence_last_value(%1$s); SELECT CASE WHEN EXISTS (SELECT FROM pg_sequence o '
        'WHERE o.seqrelid = %1$s AND o.seqincrement = %2$s AND NOT o.seqcycle AND o.seqcache = 1) '
        'THEN 0 ELSE %3$s.hilo_refuse_counter('
        '''the counter has another INCREMENT, CYCLE or CACHE than when it was attached'', '
        '''Change it back, or call hilo_attach again.'') END; ';
    of_segment CONSTANT text :=
        'UPDATE %2$s SET next_val = next_val + @blocks@ * @step@ WHERE sequence_name = %3$s';
    of_unique_key CONSTANT text := 'UPDATE %2$s SET next_hi = next_hi + @blocks@';
    of_entity CONSTANT text :=
        'INSERT INTO %2$s AS t (entity_name, hi_value) VALUES (%3$s, @blocks@ - 1) '
        'ON CONFLICT (entity_name) DO UPDATE SET hi_value = t.hi_value + @blocks@';
    counter record;
    here CONSTANT text :=
        '(SELECT concat_ws(''/'', c.system_identifier, substr(pg_walfile_name('
        'pg_current_wal_lsn()), 1, 8), d.oid) FROM pg_control_system() c, pg_database d '
        'WHERE d.datname = current_database())';
    drawn CONSTANT text := quote_literal(relation::text) || '::regclass';
    extension CONSTANT text := (
        SELECT quote_ident(n.nspname) FROM pg_extension e
          JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo');
    place text;
    query text;
    marks text[];
BEGIN
    -- A standby refuses what comes next.
    IF NOT pg_is_in_recovery() THEN
        EXECUTE 'SELECT ' || here INTO place;
    END IF;
    SELECT c.relkind, c.relpersistence, o.seqincrement AS increment, o.seqmin AS low,
           o.seqcycle AS cycle, o.seqcache AS cache INTO counter
      FROM pg_class c LEFT JOIN pg_sequence o ON o.seqrelid = c.oid WHERE c.oid = relation;
    IF client = 'nhibernate-optimizer-hilo' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'NHibernate''s optimizer "hilo" shares a counter with nobody',
            DETAIL = 'It takes all its blocks for neighbours, and so uses those of others.',
            HINT = 'Map the optimizer "pooled" or "pooled-lo", or the generator "seqhilo".';
    ELSIF makes IS NULL OR counter.relkind IS NULL OR (CASE counter.relkind
            WHEN 'S' THEN makes NOT IN ('nextval', 'hibernate_unique_key')
            WHEN 'r' THEN makes = 'nextval' ELSE true END)
    THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('%s is no counter of the mapper "%s"', relation, client),
            HINT = 'docs/mappers.md has the names of the mappers.';
    ELSIF counter.relpersistence <> 'p' OR counter.cycle OR counter.cache > 1 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('%s cannot be shared with hilo', relation),
            DETAIL = 'It is temporary or unlogged, it cycles, or its CACHE is above 1.',
            HINT = 'ALTER SEQUENCE ... NO CYCLE CACHE 1 changes a sequence; sessions that have '
                   'numbers of it in their cache must end.';
    ELSIF counter.relkind = 'S' AND origin IS NULL THEN
        size := counter.increment;
        IF size < 1 AND client <> 'core' THEN
            RAISE invalid_parameter_value USING
                MESSAGE = format('%s counts down, and a mapper''s blocks rise', relation);
        END IF;
    ELSIF counter.increment <> 1 OR size IS NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'the size of the mapper''s blocks is not known',
            HINT = 'Create the sequence with hilo_create, and block_size the allocation size of '
                   'the mapper. INCREMENT BY of a sequence that counts blocks must be 1.';
    ELSIF entity IS NULL AND makes IN ('hibernate_sequences', 'mt_hilo') THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the table has a counter for each entity: say which',
            HINT = 'entity is the name in its first column.';
    END IF;
    query := CASE WHEN client = 'core' THEN of_core WHEN counter.relkind = 'S' THEN of_sequence
                  ELSE of_table END || checked;
    marks := ARRAY[
        '@write@', CASE makes WHEN 'hibernate_sequences' THEN of_segment
                                     WHEN 'hibernate_unique_key' THEN of_unique_key
                                     ELSE of_entity END,
        '@read@', CASE makes WHEN 'hibernate_sequences' THEN 'next_val - @blocks@ * @step@'
                                    WHEN 'hibernate_unique_key' THEN 'next_hi - @blocks@'
                                    ELSE 't.hi_value - @blocks@ + 1' END,
        '@blocks@', '($2 + @size@ - 1) / @size@',
        '@step@', CASE step WHEN 'size' THEN size ELSE 1 END::text,
        '@beyond@', CASE WHEN size < 0 THEN '<' ELSE '>' END,
        '@first@', first, '@low@', COALESCE(counter.low, 1)::text, '@size@', size::text];
    FOR i IN 1 .. cardinality(marks) BY 2 LOOP
        query := replace(query, marks[i], marks[i + 1]);
    END LOOP;
    -- hilo_check reads what the comment says.
    -- A server that took over from another may have the counter as it was earlier.
    RETURN format('/* %s of %s from %s */ SELECT CASE WHEN %s = %L THEN 0 ELSE %s.hilo_refuse_counter('
                  '''the counter may lack numbers, since another server drew from it'', '
                  '''Set it beyond all numbers of the tables that use it, and call hilo_attach '
                  'again.'') END; ', client, size, hashtextextended(concat_ws(' ', relation::text, CASE
                      WHEN makes IN ('hibernate_sequences', 'mt_hilo') THEN entity END), 0),
                  here, place, extension)
           || CASE WHEN counter.relkind = 'S'
                   THEN format(as_it_was, drawn, counter.increment, extension) ELSE '' END
           || format(query, drawn, relation::text, quote_literal(entity), extension);
END;
$source$;
COMMENT ON FUNCTION hilo.make_source(regclass, text, text, bigint, text, bigint, text, text) IS
    'Makes the query that takes blocks from the counter of a mapper, for a row of hilo.mappers()';

CREATE FUNCTION hilo.source_of(relation regclass, client text, entity text, size bigint)
    RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT hilo.make_source($1, $2, $3, $4, m.makes, m.origin, m.step, m.first)
      FROM (SELECT $2 AS client) c LEFT JOIN hilo.mappers() m ON m.client = c.client;
END;
COMMENT ON FUNCTION hilo.source_of(regclass, text, text, bigint) IS
    'Returns the query that takes blocks from the counter of a mapper: $2 is how many values are '
    'wanted, $4 the furthest that has come';

-- With the rights of the caller. It takes one block, as the counter must be one that can be drawn
-- from. A mapper that finds a fresh counter takes the second block for its own too.
CREATE FUNCTION hilo.first_drawn(source text, client text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $drawn$
DECLARE
    brought record;
BEGIN
    IF client <> 'core' THEN
        EXECUTE source INTO brought USING ''::text, 1::bigint, NULL::uuid, NULL::bigint;
        IF brought IS NULL THEN
            RAISE object_not_in_prerequisite_state USING
                MESSAGE = 'the counter has no row for this entity',
                HINT = 'Let the mapper take its first block, or insert the row.';
        END IF;
    END IF;
    RETURN true;
END;
$drawn$;
COMMENT ON FUNCTION hilo.first_drawn(text, text) IS
    'Takes the first block of the counter of a mapper, unless the client takes single numbers';

CREATE FUNCTION hilo_attach(
    name hilo_sequence, relation regclass, client text DEFAULT 'core', entity text DEFAULT NULL
) RETURNS hilo_sequence
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT hilo_create($1, data_type => COALESCE(o.seqtypid, 'bigint'::regtype::oid)::regtype)
      FROM (SELECT $2::oid AS oid) r
      LEFT JOIN pg_catalog.pg_sequence o ON o.seqrelid = r.oid AND $3 = 'core'
     WHERE NOT EXISTS (SELECT FROM hilo_sequences q WHERE q.name = $1::text);
    SELECT hilo_alter($1, start_value => CASE WHEN q.max_reserved IS NULL THEN o.seqstart END,
                      increment => COALESCE(o.seqincrement, 1::bigint),
                      min_value => o.seqmin, max_value => o.seqmax, source => r.source)
      FROM hilo_sequences q
     CROSS JOIN LATERAL (SELECT hilo.source_of($2, $3, $4, q.block_size) AS source) r
      LEFT JOIN pg_catalog.pg_sequence o ON o.seqrelid = $2::oid AND $3 = 'core'
     WHERE q.name = $1::text AND hilo.first_drawn(r.source, $3);
    SELECT $1;
END;
COMMENT ON FUNCTION hilo_attach(hilo_sequence, regclass, text, text) IS
    'Lets a sequence take its values from a counter that stays in charge: a sequence of Postgres, or the counter of a '
    'Hi/Lo mapper. Returns the name of the sequence, which is created if it does not exist. client: as in '
    'hilo_facade; core: whatever calls nextval for each number. entity: the row of a table with counters. A mapper''s '
    'counter loses a block or two. Requires ownership of the sequence, and of its owner the privileges to draw from '
    'the counter. Errors: as for hilo_create and hilo_alter, 22023 if the relation is no counter of the client or '
    'entity is missing, 0A000 for nhibernate-optimizer-hilo, 55000 if the counter cycles, has a CACHE above 1, is not '
    'permanent or has no row for the entity, or the size of the blocks is not known.';

CREATE FUNCTION hilo.core_feeds() RETURNS TABLE (relation oid, number smallint, sequence oid)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT f.adrelid, f.adnum, d.refobjid
      FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_attrdef f ON f.oid = d.objid
      JOIN pg_catalog.pg_class c ON c.oid = d.refobjid AND c.relkind = 'S'
     WHERE d.classid = 2604::oid AND d.refclassid = 1259::oid
     UNION
    SELECT d.refobjid, d.refobjsubid::smallint, d.objid
      FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S'
     WHERE d.classid = 1259::oid AND d.refclassid = 1259::oid AND d.deptype = 'i';
END;
COMMENT ON FUNCTION hilo.core_feeds() IS
    'Returns the columns that a sequence of Postgres feeds, as their default or as that of an identity column';

-- A sequence that was attached to one of Postgres goes on with the next number of that. Only a query
-- that hilo_attach has written is believed. It is not run, since it is its owner's.
CREATE FUNCTION hilo_detach(name hilo_sequence, start bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT hilo.detach($1, COALESCE($2, (
        SELECT CASE WHEN EXISTS (
                   SELECT FROM hilo.core_feeds() f WHERE f.sequence = o.seqrelid)
               THEN hilo.refuse(
                   pg_catalog.format(
                       'columns still draw from the sequence that "%s" is attached to', $1),
                   'Let their defaults call hilo_nextval, or say where the numbers begin.')::text::bigint
               ELSE pg_catalog.nextval(o.seqrelid::regclass) END
          FROM hilo_stat_sources q
         CROSS JOIN pg_catalog.pg_sequence o
          JOIN pg_catalog.pg_class c ON c.oid = o.seqrelid
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE q.name = $1::text AND pg_catalog.starts_with(q.source, '/* core of '::text)
           AND CASE WHEN pg_catalog.strpos(q.source, pg_catalog.quote_literal(
                             pg_catalog.format('%I.%I', n.nspname, c.relname))) > 0
                    THEN q.source = hilo.source_of(
                             o.seqrelid::regclass, 'core', NULL, o.seqincrement) END)));
END;
COMMENT ON FUNCTION hilo_detach(hilo_sequence, bigint) IS
    'Removes the source of a sequence, which numbers itself from start on, and returns start. It must lie where '
    'nobody else serves values. null: the next number of the sequence of Postgres to which it was attached as client '
    'core, and from which nobody may draw any more. Values that it holds and has not served become a gap. Requires '
    'ownership of the sequence. Errors: those of hilo_alter, 22023 if start is null and the source another one, 55000 '
    'if start is null and columns still draw from that sequence, if start is not beyond what the sequence may have '
    'served, or if it has no source.';

-- hilo_compare: what differs between this server and another one, as the summaries of both say. As in check_server.sql, a name
-- without a schema is one of core's.
-- Definitions as a document: hilo_export, and hilo_node_summary, by which servers compare them. docs/hilo.schema.json
-- describes the form. A field that is left out, or null, stands for its default.
--
-- jit is off, because the planner expects many rows where there may be one.

-- The sequences that the current user may read. options: all of them. entry: what a document says, which is the fewest fields
-- that make the same sequence. A role that does not exist any more is left out. Only who acts as the owner sees what runs as
-- the owner.
CREATE VIEW hilo.described WITH (security_barrier) AS
    SELECT s.id, s.name, o.is_owned, o.owner, p.privileges,
           pg_catalog.jsonb_build_object(
               'data_type', s.data_type::text, 'start_value', s.start_value, 'increment', s.increment,
               'min_value', s.min_value, 'max_value', s.max_value, 'cycle', s.cycle, 'ordered', s.ordered,
               'block_size', s.block_size, 'slice_size', s.slice_size,
               'key_format', NULLIF(s.key_format, '{name}/{server}{value}'), 'gapless', s.gapless,
               'source', CASE WHEN o.is_owned THEN s.source END,
               'reserve_ahead', CASE WHEN o.is_owned THEN s.reserve_ahead END,
               'owned_by', NULLIF(s.owned_by::text, '-')) AS options,
           pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
               'name', s.name, 'data_type', NULLIF(s.data_type::text, 'bigint'),
               'start_value', NULLIF(s.start_value, CASE WHEN s.increment > 0 THEN s.min_value ELSE s.max_value END),
               'increment', NULLIF(s.increment, 1),
               'min_value', NULLIF(s.min_value, CASE WHEN s.increment > 0 THEN 1 ELSE -1 - o.furthest END),
               'max_value', NULLIF(s.max_value, CASE WHEN s.increment > 0 THEN o.furthest ELSE -1 END),
               'cycle', NULLIF(s.cycle, false), 'ordered', NULLIF(s.ordered, false),
               'block_size', s.block_size, 'slice_size', s.slice_size,
               'key_format', NULLIF(s.key_format, '{name}/{server}{value}'), 'gapless', NULLIF(s.gapless, false),
               'source', CASE WHEN o.is_owned THEN s.source END,
               'reserve_ahead', CASE WHEN o.is_owned THEN s.reserve_ahead END,
               'owned_by', NULLIF(s.owned_by::text, '-'), 'owner', o.owner, 'privileges', p.privileges)) AS entry
      FROM hilo.readable s
     CROSS JOIN LATERAL (
         SELECT pg_catalog.pg_has_role(s.owner::oid, 'USAGE') AS is_owned,
                (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = s.owner::oid) AS owner,
                CASE s.data_type::text WHEN 'smallint' THEN 32767 WHEN 'integer' THEN 2147483647
                     ELSE 9223372036854775807 END AS furthest
     ) o
     CROSS JOIN LATERAL (
         SELECT COALESCE(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('grantee', g.grantee, 'privileges', g.privileges)
                                              ORDER BY g.grantee COLLATE "C"), '[]') AS privileges
           -- By a type of core's: pg_upgrade may restore the view before the operators of hilo's types.
           FROM (SELECT CASE p.role WHEN 0::oid THEN 'public'
                             ELSE (SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.oid = p.role) END AS grantee,
                        CASE WHEN pg_catalog.bool_or(p.privilege = 'USAGE') THEN '["USAGE"]'::jsonb ELSE '[]' END
                        OPERATOR(pg_catalog.||) CASE WHEN pg_catalog.bool_or(p.privilege = 'SELECT') THEN '["SELECT"]'::jsonb ELSE '[]' END
                        OPERATOR(pg_catalog.||) CASE WHEN pg_catalog.bool_or(p.privilege = 'UPDATE') THEN '["UPDATE"]'::jsonb ELSE '[]' END
                            AS privileges
                   FROM (SELECT q.grantee::oid AS role, q.privilege FROM _hilo.privilege q WHERE q.sequence = s.id) p
                  GROUP BY p.role) g
          WHERE g.grantee IS NOT NULL
     ) p;
REVOKE ALL ON hilo.described FROM PUBLIC;
GRANT SELECT ON hilo.described TO PUBLIC;
COMMENT ON VIEW hilo.described IS 'Sequences that the current user may read, as documents describe them';

CREATE FUNCTION hilo.may_see(name hilo_sequence, must_exist boolean) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_may_see_wrapper';
COMMENT ON FUNCTION hilo.may_see(hilo_sequence, boolean) IS
    'Returns whether a sequence exists, or fails with 42704; and with 42501 if the current user may not read it';

CREATE OR REPLACE FUNCTION hilo_export(name hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL RESTRICTED SET jit = off
BEGIN ATOMIC
    SELECT hilo.may_see($1, true);
    SELECT pg_catalog.jsonb_build_object('hilo', 1, 'sequences', COALESCE(pg_catalog.jsonb_agg(d.entry ORDER BY d.name), '[]'))
      FROM (SELECT a.name, a.entry FROM hilo.described a WHERE $1 IS NULL
             UNION ALL
            SELECT a.name, a.entry FROM hilo.described a WHERE a.name = $1::text) d;
END;
COMMENT ON FUNCTION hilo_export(hilo_sequence) IS
    'Returns the definition of a sequence, with its owner and privileges, as a document for '
    'hilo_apply. Without a name, returns those of all sequences that the caller may read, '
    'ordered by name. Options at their default are left out; positions are not part of it. '
    'Requires any privilege on the sequence. Errors: 42704 if the sequence does not exist, 42501.';

CREATE FUNCTION hilo.server() RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_server_wrapper';
COMMENT ON FUNCTION hilo.server() IS 'Returns what tells this server from others, as long as it runs';

CREATE FUNCTION hilo.numbering(sequence bigint)
    RETURNS TABLE (base bigint, nodes integer, stripe bigint, reserved_to bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1 AS 'MODULE_PATHNAME', 'hilo_numbering_wrapper';
COMMENT ON FUNCTION hilo.numbering(bigint) IS
    'Returns how this node numbers a sequence, or will when it first serves it; nothing if it refuses to';

CREATE OR REPLACE FUNCTION hilo_node_summary(name hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL RESTRICTED SET jit = off
BEGIN ATOMIC
    SELECT hilo.may_see($1, false);
    SELECT pg_catalog.jsonb_build_object(
               'hilo', 1,
               'node', pg_catalog.jsonb_build_object(
                   'id', hilo.node_id(), 'count', pg_catalog.current_setting('hilo.node_count')::integer,
                   'server', hilo.server()),
               'sequences', COALESCE(pg_catalog.jsonb_agg(
                   d.entry OPERATOR(pg_catalog.||) pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object('numbering', n.numbering))
                   ORDER BY d.name), '[]'))
      FROM (SELECT a.id, a.name, a.entry FROM hilo.described a WHERE $1 IS NULL
             UNION ALL
            SELECT a.id, a.name, a.entry FROM hilo.described a WHERE a.name = $1::text) d
      LEFT JOIN LATERAL (SELECT pg_catalog.to_jsonb(u) AS numbering FROM hilo.numbering(d.id) u) n ON true;
END;
COMMENT ON FUNCTION hilo_node_summary(hilo_sequence) IS
    'Returns what other servers need to know of this one. It is which node this is, and what '
    'hilo_export returns of a sequence or, without a name, of all that the caller may read. '
    'numbering: how this node numbers a sequence, or will when it first serves it; without one '
    'it refuses to serve it. A sequence that does not exist is left out. For hilo_compare and '
    'hilo_apply on another server. Errors: 42501.';

CREATE FUNCTION hilo.raise(code text, message text, detail text, hint text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $raise$
BEGIN
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
END;
$raise$;
COMMENT ON FUNCTION hilo.raise(text, text, text, text) IS 'Fails with this error';

-- The first fault of a document, if any: a form that is closed, and roles that do not exist.
CREATE FUNCTION hilo.document_fault(document jsonb) RETURNS TABLE (code text, message text, detail text, hint text)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    WITH field (kind, name, type, required, low, high) AS (
        VALUES ('document', 'hilo', 'integer', true, 0::numeric, 2147483647::numeric),
               ('document', 'node', 'object', false, NULL, NULL),
               ('document', 'sequences', 'array', true, NULL, NULL),
               ('node', 'id', 'integer', true, 0, 1023),
               ('node', 'count', 'integer', true, 1, 1024),
               ('node', 'server', 'string', true, NULL, NULL),
               ('sequence', 'name', 'string', true, NULL, NULL),
               ('sequence', 'data_type', 'string', false, NULL, NULL),
               ('sequence', 'start_value', 'integer', false, -9223372036854775808, 9223372036854775807),
               ('sequence', 'increment', 'integer', false, -9223372036854775808, 9223372036854775807),
               ('sequence', 'min_value', 'integer', false, -9223372036854775808, 9223372036854775807),
               ('sequence', 'max_value', 'integer', false, -9223372036854775808, 9223372036854775807),
               ('sequence', 'cycle', 'boolean', false, NULL, NULL),
               ('sequence', 'ordered', 'boolean', false, NULL, NULL),
               ('sequence', 'block_size', 'integer', false, -9223372036854775808, 9223372036854775807),
               ('sequence', 'slice_size', 'integer', false, -9223372036854775808, 9223372036854775807),
               ('sequence', 'key_format', 'string', false, NULL, NULL),
               ('sequence', 'gapless', 'boolean', false, NULL, NULL),
               ('sequence', 'source', 'string', false, NULL, NULL),
               ('sequence', 'reserve_ahead', 'integer', false, 0, 31622400),
               ('sequence', 'owned_by', 'string', false, NULL, NULL),
               ('sequence', 'owner', 'string', false, NULL, NULL),
               ('sequence', 'privileges', 'array', false, NULL, NULL),
               ('sequence', 'numbering', 'object', false, NULL, NULL),
               ('grant', 'grantee', 'string', true, NULL, NULL),
               ('grant', 'privileges', 'array', true, NULL, NULL),
               ('numbering', 'base', 'integer', true, -9223372036854775808, 9223372036854775807),
               ('numbering', 'nodes', 'integer', true, 1, 1024),
               ('numbering', 'stripe', 'integer', true, 1, 9223372036854775807),
               ('numbering', 'reserved_to', 'integer', false, -9223372036854775808, 9223372036854775807)
    ), sequence AS MATERIALIZED (
        SELECT e.at - 1 AS at, e.value
          FROM pg_catalog.jsonb_array_elements(
                   CASE pg_catalog.jsonb_typeof($1 -> 'sequences'::text) WHEN 'array' THEN $1 -> 'sequences'::text ELSE '[]' END)
               WITH ORDINALITY AS e (value, at)
    ), grants AS MATERIALIZED (
        SELECT s.at, g.at - 1 AS grant_at, g.value,
               CASE WHEN pg_catalog.lower(g.value ->> 'grantee'::text) = 'public'
                         AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname::text = g.value ->> 'grantee'::text)
                    THEN 'public' ELSE g.value ->> 'grantee'::text END AS grantee
          FROM sequence s
         CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(
                   CASE pg_catalog.jsonb_typeof(s.value -> 'privileges'::text) WHEN 'array' THEN s.value -> 'privileges'::text
                        ELSE '[]' END) WITH ORDINALITY AS g (value, at)
    ), object (kind, at, grant_at, value) AS (
        SELECT 'document', -1, NULL::bigint, $1
         UNION ALL
        SELECT 'node', -1, NULL, $1 -> 'node'::text WHERE pg_catalog.jsonb_typeof($1 -> 'node'::text) = 'object'
         UNION ALL
        SELECT 'sequence', s.at, NULL, s.value FROM sequence s
         UNION ALL
        SELECT 'numbering', s.at, NULL, s.value -> 'numbering'::text
          FROM sequence s WHERE pg_catalog.jsonb_typeof(s.value -> 'numbering'::text) = 'object'
         UNION ALL
        SELECT 'grant', g.at, g.grant_at, g.value FROM grants g
    ), fault (kind, at, grant_at, field, what) AS (
        SELECT o.kind, o.at, o.grant_at, NULL, pg_catalog.format('expected an object, found %s', pg_catalog.left(o.value::text, 60))
          FROM object o WHERE pg_catalog.jsonb_typeof(o.value) <> 'object'
         UNION ALL
        SELECT o.kind, o.at, o.grant_at, v.key,
               CASE WHEN f.name IS NULL
                    THEN pg_catalog.format('unknown field "%s", expected one of %s', v.key,
                             (SELECT pg_catalog.string_agg(pg_catalog.format('"%s"', k.name), ', ') FROM field k WHERE k.kind = o.kind))
                    ELSE pg_catalog.format('expected %s, found %s',
                             CASE f.type WHEN 'integer' THEN pg_catalog.format('a number from %s to %s', f.low, f.high) ELSE f.type END, pg_catalog.left(v.value::text, 60))
               END
          FROM object o
         CROSS JOIN LATERAL pg_catalog.jsonb_each(CASE pg_catalog.jsonb_typeof(o.value) WHEN 'object' THEN o.value ELSE '{}' END) v
          LEFT JOIN field f ON f.kind = o.kind AND f.name = v.key
         WHERE CASE WHEN f.name IS NULL THEN true
                    WHEN pg_catalog.jsonb_typeof(v.value) = 'null' THEN f.required
                    WHEN f.type <> 'integer' THEN pg_catalog.jsonb_typeof(v.value) <> f.type
                    WHEN pg_catalog.jsonb_typeof(v.value) <> 'number' THEN true
                    ELSE pg_catalog.scale(v.value::numeric) > 0 OR v.value::numeric NOT BETWEEN f.low AND f.high END
         UNION ALL
        SELECT o.kind, o.at, o.grant_at, NULL, pg_catalog.format('missing field "%s"', f.name)
          FROM object o JOIN field f ON f.kind = o.kind
         WHERE f.required AND pg_catalog.jsonb_typeof(o.value) = 'object' AND NOT o.value ? f.name
         UNION ALL
        SELECT 'document', -1, NULL, 'hilo',
               pg_catalog.format('version %s of the document is not known; this version of hilo reads 1', $1 -> 'hilo'::text)
         WHERE $1 -> 'hilo'::text <> '1'
         UNION ALL
        SELECT 'sequence', s.at, NULL, 'data_type',
               pg_catalog.format('unknown data type "%s", expected smallint, integer or bigint', s.value ->> 'data_type'::text)
          FROM sequence s WHERE s.value ->> 'data_type'::text NOT IN ('smallint', 'integer', 'bigint')
         UNION ALL
        SELECT 'sequence', s.at, NULL, 'name', pg_catalog.format('sequences[%s] has the same name "%s"', s.first, s.name)
          FROM (SELECT q.at, q.value ->> 'name'::text AS name,
                       pg_catalog.min(q.at) OVER (PARTITION BY q.value ->> 'name'::text) AS first
                  FROM sequence q WHERE q.value ? 'name'::text) s
         WHERE s.at > s.first
         UNION ALL
        SELECT 'grant', g.at, g.grant_at, 'grantee', pg_catalog.format('the grantee "%s" appears twice', g.value ->> 'grantee'::text)
          FROM (SELECT q.*, pg_catalog.min(q.grant_at) OVER (PARTITION BY q.at, q.grantee) AS first
                  FROM grants q WHERE q.grantee IS NOT NULL) g
         WHERE g.grant_at > g.first
         UNION ALL
        SELECT 'grant', g.at, g.grant_at, pg_catalog.format('privileges[%s]', p.at - 1),
               CASE WHEN p.value IN ('"USAGE"', '"SELECT"', '"UPDATE"') THEN 'the privilege appears twice'
                    ELSE pg_catalog.format('unknown privilege %s, expected USAGE, SELECT or UPDATE', pg_catalog.left(p.value::text, 60)) END
          FROM grants g
         CROSS JOIN LATERAL (
             SELECT e.value, e.at, pg_catalog.row_number() OVER (PARTITION BY e.value) AS number
               FROM pg_catalog.jsonb_array_elements(
                        CASE pg_catalog.jsonb_typeof(g.value -> 'privileges'::text) WHEN 'array' THEN g.value -> 'privileges'::text
                             ELSE '[]' END) WITH ORDINALITY AS e (value, at)) p
         WHERE p.number > 1 OR p.value NOT IN ('"USAGE"', '"SELECT"', '"UPDATE"')
    ), role_missing (kind, at, grant_at, field, role) AS (
        SELECT 'sequence', s.at, NULL::bigint, 'owner', s.value ->> 'owner'::text
          FROM sequence s
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname::text = s.value ->> 'owner'::text)
           AND s.value ->> 'owner'::text IS NOT NULL
         UNION ALL
        SELECT 'grant', g.at, g.grant_at, 'grantee', g.grantee
          FROM grants g
         WHERE g.grantee <> 'public' AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname::text = g.grantee)
    ), placed AS (
        SELECT '22023' AS code, pg_catalog.format('invalid document of hilo sequences: %s', f.what) AS message, f.at,
               pg_catalog.concat_ws('.', CASE WHEN f.at >= 0 THEN pg_catalog.format('sequences[%s]', f.at) END,
                                    CASE f.kind WHEN 'grant' THEN pg_catalog.format('privileges[%s]', f.grant_at)
                                                WHEN 'document' THEN NULL WHEN 'sequence' THEN NULL ELSE f.kind END,
                                    f.field) AS path,
               'Compare the document with what hilo_export() returns, or check it against docs/hilo.schema.json.' AS hint
          FROM fault f
         UNION ALL
        SELECT '42704', pg_catalog.format('role "%s" does not exist', m.role), m.at,
               pg_catalog.concat_ws('.', pg_catalog.format('sequences[%s]', m.at),
                                    CASE m.kind WHEN 'grant' THEN pg_catalog.format('privileges[%s]', m.grant_at) END, m.field),
               'Create the role first, or leave it out.'
          FROM role_missing m
    )
    SELECT p.code, p.message,
           CASE p.path WHEN '' THEN 'The error is at the top level of the document.'
                ELSE pg_catalog.format('The error is at %s of the document.', p.path) END,
           p.hint
      -- A field that is missing may be one that is misspelled.
      FROM placed p ORDER BY p.code, p.at, p.message LIKE '%: missing field %', p.path LIMIT 1;
END;
COMMENT ON FUNCTION hilo.document_fault(jsonb) IS 'Returns the error for the first fault of a document of sequences, if any';

-- The sequences of a document that has no fault, with all options. privileges: in the form and order of hilo.described.
CREATE FUNCTION hilo.wanted(document jsonb)
    RETURNS TABLE (at bigint, name text, entry jsonb, owner text, owned_by text, privileges jsonb, options jsonb,
                   base bigint, nodes integer, stripe bigint)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 100
BEGIN ATOMIC
    SELECT e.at - 1, r.name, e.value, r.owner, r.owned_by,
           CASE WHEN pg_catalog.jsonb_typeof(r.privileges) = 'array' THEN (
               SELECT COALESCE(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('grantee', g.grantee, 'privileges', g.privileges)
                                                    ORDER BY g.grantee COLLATE "C"), '[]')
                 FROM (SELECT CASE WHEN pg_catalog.lower(p.grantee) <> 'public' OR p.grantee IN (SELECT c.rolname::text FROM pg_catalog.pg_roles c)
                                   THEN p.grantee ELSE 'public' END AS grantee,
                              (SELECT pg_catalog.jsonb_agg(v.privilege ORDER BY v.privilege = 'UPDATE', v.privilege = 'SELECT')
                                 FROM pg_catalog.jsonb_array_elements_text(p.privileges) AS v (privilege)) AS privileges
                         FROM pg_catalog.jsonb_to_recordset(r.privileges) AS p (grantee text, privileges jsonb)) g
                WHERE g.privileges IS NOT NULL) END,
           pg_catalog.jsonb_build_object(
               'data_type', t.data_type,
               'start_value', COALESCE(r.start_value, CASE WHEN t.increment > 0 THEN b.min_value ELSE b.max_value END),
               'increment', t.increment, 'min_value', b.min_value, 'max_value', b.max_value,
               'cycle', COALESCE(r.cycle, false), 'ordered', COALESCE(r.ordered, false),
               'block_size', r.block_size, 'slice_size', r.slice_size,
               'key_format', NULLIF(r.key_format, '{name}/{server}{value}'), 'gapless', COALESCE(r.gapless, false),
               'source', NULLIF(r.source, ''), 'reserve_ahead', NULLIF(r.reserve_ahead, 0::bigint),
               'owned_by', r.owned_by),
           (r.numbering ->> 'base'::text)::bigint, (r.numbering ->> 'nodes'::text)::integer,
           (r.numbering ->> 'stripe'::text)::bigint
      FROM pg_catalog.jsonb_array_elements($1 -> 'sequences'::text) WITH ORDINALITY AS e (value, at)
     CROSS JOIN LATERAL pg_catalog.jsonb_to_record(e.value) AS r (
         name text, data_type text, start_value bigint, increment bigint, min_value bigint, max_value bigint, cycle boolean,
         ordered boolean, block_size bigint, slice_size bigint, key_format text, gapless boolean, source text,
         reserve_ahead bigint, owned_by text, owner text, privileges jsonb, numbering jsonb)
     CROSS JOIN LATERAL (
         SELECT COALESCE(r.data_type, 'bigint') AS data_type, COALESCE(r.increment, 1::bigint) AS increment,
                CASE r.data_type WHEN 'smallint' THEN 32767 WHEN 'integer' THEN 2147483647
                     ELSE 9223372036854775807 END AS furthest
     ) t
     CROSS JOIN LATERAL (
         SELECT COALESCE(r.min_value, CASE WHEN t.increment > 0 THEN 1 ELSE -1 - t.furthest END) AS min_value,
                COALESCE(r.max_value, CASE WHEN t.increment > 0 THEN t.furthest ELSE -1 END) AS max_value
     ) b;
END;
COMMENT ON FUNCTION hilo.wanted(jsonb) IS 'Returns the sequences of a document, with all options';

-- hilo_apply: makes the sequences those that a document describes.
--
-- Everything goes the way of hilo_create, hilo_alter, hilo_set_owner, hilo_grant, hilo_revoke and hilo_drop. A sequence that
-- is already as described is neither locked nor changed. Whoever may not change one of them learns nothing of it.

CREATE FUNCTION hilo.grants_without(these jsonb, others jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('grantee', r.grantee, 'privileges', r.privileges) ORDER BY r.grantee COLLATE "C")
      FROM (SELECT s.grantee, s.privileges - COALESCE(
                       (SELECT pg_catalog.array_agg(v.privilege)
                          FROM pg_catalog.jsonb_to_recordset($2) AS o (grantee text, privileges jsonb)
                         CROSS JOIN LATERAL pg_catalog.jsonb_array_elements_text(o.privileges) AS v (privilege)
                         WHERE o.grantee = s.grantee), '{}') AS privileges
              FROM pg_catalog.jsonb_to_recordset($1) AS s (grantee text, privileges jsonb)) r
     WHERE r.privileges <> '[]';
END;
COMMENT ON FUNCTION hilo.grants_without(jsonb, jsonb) IS 'Returns the privileges of some that others do not have; null: none';

CREATE FUNCTION hilo.begin_apply(document jsonb) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_begin_apply_wrapper';
COMMENT ON FUNCTION hilo.begin_apply(jsonb) IS 'Fails where nothing can be written, and if there is no document';

CREATE FUNCTION hilo.check_may_apply(name text, at bigint) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_check_may_apply_wrapper';
COMMENT ON FUNCTION hilo.check_may_apply(text, bigint) IS
    'Fails unless the caller may change the sequence of this name or, if there is none, create it. at: its place in a document';

CREATE FUNCTION hilo.owning_column(column_name text, at bigint, lock boolean) RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_owning_column_wrapper';
COMMENT ON FUNCTION hilo.owning_column(text, bigint, boolean) IS
    'Returns the column of an owned_by as schema.table.column, or null for none. at: its place in a document. lock: the table stays '
    'as it is until the transaction ends, which takes its owner';

CREATE FUNCTION hilo.lock(name text) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lock_wrapper';
COMMENT ON FUNCTION hilo.lock(text) IS 'Locks the sequence of this name, if there is one. Requires ownership of it';

CREATE FUNCTION hilo.lock_definitions(keep boolean) RETURNS void
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lock_definitions_wrapper';
COMMENT ON FUNCTION hilo.lock_definitions(boolean) IS
    'Waits for other transactions that apply a document, and for DROP EXTENSION. keep: and keeps the lock until the transaction ends';

-- A sequence that is to be made, changed or, if it is in no place of the document, dropped.
CREATE TYPE hilo.task AS (
    at bigint,
    name text,
    is_new boolean,
    -- Arguments of hilo_apply_one
    entry jsonb,
    base bigint,
    nodes integer,
    stripe bigint,
    -- The row of the result for one that is made or dropped
    detail jsonb,
    privileges jsonb,
    changes jsonb,
    gives jsonb,
    revokes jsonb,
    grants jsonb
);
COMMENT ON TYPE hilo.task IS 'The work of hilo_apply on a sequence';

CREATE FUNCTION hilo.tasks(document jsonb, prune boolean) RETURNS SETOF hilo.task
    LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    SELECT w.at, w.name, d.id IS NULL,
           CASE WHEN d.id IS NULL
                THEN w.entry OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('owned_by', w.options -> 'owned_by'::text)
                -- A bound that is left out may follow the data type, so all options are given.
                ELSE (SELECT pg_catalog.jsonb_object_agg(a.key, CASE a.value WHEN 'null' THEN n.none -> a.key ELSE a.value END)
                        FROM pg_catalog.jsonb_each(w.options) a
                       WHERE a.value <> d.options -> a.key
                          OR (a.key <> ALL (ARRAY['key_format', 'owned_by'])
                              AND w.options - 'owned_by'::text <> d.options - 'owned_by'::text)) END,
           w.base, w.nodes, w.stripe,
           CASE WHEN d.id IS NULL
                THEN pg_catalog.jsonb_strip_nulls(w.entry - '{name,numbering,privileges}'::text[])
                     OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('owner', COALESCE(w.owner, CURRENT_USER::text)) END,
           CASE WHEN d.id IS NULL THEN w.privileges END,
           CASE WHEN w.options <> d.options THEN (
               SELECT pg_catalog.jsonb_object_agg(a.key, pg_catalog.jsonb_build_object('from', b.value, 'to', a.value))
                 FROM pg_catalog.jsonb_each(w.options) a
                 JOIN pg_catalog.jsonb_each(d.options) b ON b.key = a.key AND b.value <> a.value) END,
           CASE WHEN g.is_given THEN pg_catalog.jsonb_build_object('from', d.owner, 'to', w.owner) END,
           CASE WHEN h.are_others THEN hilo.grants_without(h.held, w.privileges) END,
           CASE WHEN h.are_others THEN hilo.grants_without(w.privileges, h.held) END
      FROM (SELECT a.at, a.name, a.entry, a.owner, a.privileges, a.base, a.nodes, a.stripe,
                   CASE WHEN a.owned_by IS NULL THEN a.options
                        ELSE pg_catalog.jsonb_set(a.options, '{owned_by}', COALESCE(
                                 pg_catalog.to_jsonb(hilo.owning_column(a.owned_by, a.at, false)), 'null')) END AS options
              FROM hilo.wanted($1) a OFFSET 0) w
      -- By key: conditions of a join do not pass the barrier of a view.
      LEFT JOIN LATERAL (SELECT v.* FROM hilo.described v WHERE v.name = w.name OFFSET 0) d ON true
     CROSS JOIN LATERAL (SELECT d.id IS NOT NULL AND COALESCE(w.owner <> d.owner, w.owner IS NOT NULL) AS is_given) g
     CROSS JOIN (SELECT '{"block_size": 0, "slice_size": 0, "key_format": "{name}/{server}{value}", "source": "", "reserve_ahead": 0,
                          "owned_by": "none"}'::jsonb AS none) n
     -- Privileges of both owners end when one gives the sequence to the other.
     CROSS JOIN LATERAL (
         SELECT CASE WHEN NOT g.is_given THEN d.privileges ELSE (
             SELECT COALESCE(pg_catalog.jsonb_agg(p.value), '[]')
               FROM pg_catalog.jsonb_array_elements(d.privileges) p
              WHERE p.value ->> 'grantee'::text NOT IN (w.owner, COALESCE(d.owner, w.owner))) END AS held) p
     CROSS JOIN LATERAL (
         SELECT p.held, pg_catalog.jsonb_typeof(w.entry -> 'privileges'::text) = 'array' AND w.entry -> 'privileges'::text <> p.held
                            AS are_others) h
     WHERE d.id IS NULL OR w.options <> d.options OR g.is_given
        OR CASE WHEN w.entry -> 'privileges'::text = d.privileges THEN false ELSE w.privileges <> d.privileges END
        OR (w.base IS NOT NULL
            AND NOT EXISTS (SELECT FROM hilo.numbering(d.id) n WHERE n.base = w.base AND n.nodes = w.nodes AND n.stripe = w.stripe))
     UNION ALL
    SELECT NULL, d.name, false, NULL, NULL, NULL, NULL, d.entry - 'name'::text, NULL, NULL, NULL, NULL, NULL
      FROM hilo.described d
     WHERE $2 AND d.is_owned AND d.name NOT IN (SELECT w.name FROM hilo.wanted($1) w);
END;
COMMENT ON FUNCTION hilo.tasks(jsonb, boolean) IS 'Returns the sequences that are not as a document, whose caller may change them, wants them';

-- Not for users: the body of hilo.apply, which runs as the caller, cannot name what lies in schema hilo.
CREATE FUNCTION hilo_apply_one(
    name hilo_sequence,
    start_value bigint,
    increment bigint,
    min_value bigint,
    max_value bigint,
    data_type regtype,
    cycle boolean,
    ordered boolean,
    block_size bigint,
    slice_size bigint,
    key_format text,
    is_new boolean,
    gapless boolean,
    owned_by text,
    source text,
    reserve_ahead interval,
    base bigint,
    nodes integer,
    stripe bigint,
    dry_run boolean
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_apply_one_wrapper';
COMMENT ON FUNCTION hilo_apply_one(hilo_sequence, bigint, bigint, bigint, bigint, regtype, boolean, boolean, bigint, bigint, text, boolean, boolean, text, text, interval, bigint, integer, bigint, boolean) IS
    'Creates a sequence if is_new, as hilo_create does, or alters one, as hilo_alter does. base, nodes and stripe: how other servers number it. '
    'Returns whether this server has been told that of a sequence that exists. dry_run: leaves the numbers as they are';

-- Each task, and the place of an error in the document. Rows that were returned stay when their work is rolled back.
CREATE FUNCTION hilo.apply(tasks hilo.task[], dry_run boolean, of_server boolean)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp
AS $apply$
#variable_conflict use_column
DECLARE
    -- hilo_default_grant has given privileges on sequences that are new.
    has_defaults boolean;
    task record;
    of_role record;
    held jsonb;
    is_told boolean;
    place bigint;
    code text;
    message text;
    details text;
    advice text;
BEGIN
    -- It may have been renamed.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('%I, pg_temp', n.nspname), true)
       FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo';
    has_defaults := EXISTS (SELECT FROM hilo_default_privileges);
    FOR task IN
        SELECT t.at, t.name AS of, t.is_new, t.base, t.nodes, t.stripe, t.detail AS description, t.privileges, t.changes, t.gives,
               t.revokes, t.grants, e.*
          FROM pg_catalog.unnest(tasks) t
         CROSS JOIN LATERAL pg_catalog.jsonb_to_record(coalesce(t.entry, '{}')) AS e (
             start_value bigint, increment bigint, min_value bigint, max_value bigint, data_type text, cycle boolean,
             ordered boolean, block_size bigint, slice_size bigint, key_format text, owner text, gapless boolean,
             owned_by text, source text, reserve_ahead bigint)
         ORDER BY t.name COLLATE "C"
    LOOP
        place := task.at;
        name := task.of;
        IF task.at IS NULL THEN
            IF NOT dry_run THEN
                PERFORM hilo_drop(name::hilo_sequence, true, false);
            END IF;
            action := 'drop';
            detail := task.description;
            RETURN NEXT;
            CONTINUE;
        END IF;
        IF task.is_new AND of_server AND task.base IS NULL THEN
            -- This server would begin as nobody did.
            RAISE EXCEPTION USING ERRCODE = '55000',
                MESSAGE = pg_catalog.format('it is not known how hilo sequence "%s" is numbered', name),
                DETAIL = 'The server that the summary is of refuses to serve it.',
                HINT = 'Pass the summary of a server that serves it.';
        END IF;
        -- A table and its sequence have one owner, so a new column waits until that is settled.
        is_told := hilo_apply_one(
            name::hilo_sequence, task.start_value, task.increment, task.min_value, task.max_value, task.data_type::regtype,
            task.cycle, task.ordered, task.block_size, task.slice_size, task.key_format, task.is_new, task.gapless,
            CASE WHEN NOT task.is_new AND task.owned_by IS NOT NULL THEN 'none' END, task.source,
            pg_catalog.make_interval(secs => task.reserve_ahead::double precision), task.base, task.nodes, task.stripe, dry_run);
        IF coalesce(task.owner, task.gives ->> 'to'::text) IS NOT NULL THEN
            PERFORM hilo_set_owner(name::hilo_sequence, coalesce(task.owner, task.gives ->> 'to'::text));
        END IF;
        IF task.owned_by <> 'none' THEN
            -- All arguments, so that no function with fewer is another candidate.
            PERFORM hilo_alter(
                name::hilo_sequence, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::regtype, NULL::boolean,
                NULL::boolean, NULL::bigint, NULL::bigint, NULL::text, NULL::bigint, NULL::boolean, task.owned_by, NULL::text,
                NULL::interval);
        END IF;
        IF is_told THEN
            action := 'number';
            detail := pg_catalog.jsonb_build_object('base', task.base, 'nodes', task.nodes, 'stripe', task.stripe);
            RETURN NEXT;
        END IF;
        IF task.is_new THEN
            held := CASE WHEN has_defaults
                         THEN hilo_export(name::hilo_sequence) #> '{sequences,0,privileges}'::text[] ELSE '[]' END;
            action := 'create';
            detail := task.description || pg_catalog.jsonb_build_object('privileges', coalesce(task.privileges, held));
            RETURN NEXT;
            IF task.privileges IS NOT NULL THEN
                task.revokes := held;
                task.grants := task.privileges;
            END IF;
        ELSE
            IF task.changes IS NOT NULL THEN
                action := 'alter';
                detail := task.changes;
                RETURN NEXT;
            END IF;
            IF task.gives IS NOT NULL THEN
                action := 'set_owner';
                detail := task.gives;
                RETURN NEXT;
            END IF;
        END IF;
        FOR of_role IN
            SELECT 'revoke' AS action, r.grantee, r.privileges
              FROM pg_catalog.jsonb_to_recordset(task.revokes) AS r (grantee text, privileges jsonb)
             UNION ALL
            SELECT 'grant', g.grantee, g.privileges
              FROM pg_catalog.jsonb_to_recordset(task.grants) AS g (grantee text, privileges jsonb)
        LOOP
            held := of_role.privileges;
            IF dry_run AND NOT task.is_new THEN
                NULL;
            ELSIF of_role.action = 'revoke' THEN
                PERFORM hilo_revoke(name::hilo_sequence, of_role.grantee, pg_catalog.translate(held::text, '[]"', ''));
            ELSE
                PERFORM hilo_grant(name::hilo_sequence, of_role.grantee, pg_catalog.translate(held::text, '[]"', ''));
            END IF;
            IF NOT task.is_new THEN
                action := of_role.action;
                detail := pg_catalog.jsonb_build_object('grantee', of_role.grantee, 'privileges', held);
                RETURN NEXT;
            END IF;
        END LOOP;
    END LOOP;
    IF dry_run THEN
        RAISE EXCEPTION 'the dry run has ended' USING ERRCODE = 'HI000';
    END IF;
EXCEPTION
    WHEN SQLSTATE 'HI000' THEN
        NULL;
    WHEN OTHERS THEN
        IF place IS NULL THEN
            RAISE;
        END IF;
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, details = PG_EXCEPTION_DETAIL,
            advice = PG_EXCEPTION_HINT;
        details := pg_catalog.ltrim(pg_catalog.format('%s The error is at sequences[%s] of the document.', details, place));
        IF advice = '' THEN
            RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = details;
        END IF;
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = details, HINT = advice;
END;
$apply$;
COMMENT ON FUNCTION hilo.apply(hilo.task[], boolean, boolean) IS 'Does these tasks. dry_run: and rolls them back';

CREATE FUNCTION hilo.column_defaults() RETURNS TABLE (relation oid, number smallint, name text, missing boolean)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'hilo_column_defaults_wrapper';
COMMENT ON FUNCTION hilo.column_defaults() IS 'Returns the columns whose default names a sequence, the name, and whether there is no such sequence';

-- The tables that own sequences are locked first, and stay as they are until the transaction ends. Then the extension, so that
-- one call waits for another instead of colliding with it over a name. Then the sequences that differ, in the order of
-- their names. Each statement sees what others have committed before it. A dry run keeps none of these locks, and locks one
-- sequence at a time.
CREATE FUNCTION hilo.apply_locked(document jsonb, prune boolean, dry_run boolean)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    SELECT hilo.owning_column(w.owned_by, w.at, NOT $3) FROM hilo.wanted($1) w WHERE w.owned_by IS NOT NULL ORDER BY w.at;
    SELECT hilo.lock_definitions(NOT $3);
    SELECT hilo.raise('2BP01', 'cannot drop hilo sequences that the document does not contain because other objects depend on them',
                      pg_catalog.string_agg(u.what, E'\n'),
                      'Add these sequences to the document, change the defaults, or drop the sequences with '
                      'hilo_drop(name, cascade => true).')
      FROM (SELECT pg_catalog.format('%s depends on hilo sequence "%s"',
                                     pg_catalog.pg_describe_object('pg_catalog.pg_attrdef'::regclass, a.oid, 0), c.name) AS what
              FROM hilo.column_defaults() c
              JOIN pg_catalog.pg_attrdef a ON a.adrelid = c.relation AND a.adnum = c.number
              JOIN hilo.described d ON d.name = c.name
             WHERE $2 AND d.is_owned AND d.name NOT IN (SELECT w.name FROM hilo.wanted($1) w)
             ORDER BY 1 LIMIT 100) u
    HAVING pg_catalog.count(*) > 0;
    SELECT hilo.lock(t.name) FROM (
        SELECT a.name FROM hilo.tasks($1, $2) a WHERE NOT $3 AND NOT a.is_new AND a.at IS NOT NULL ORDER BY a.name COLLATE "C") t;
    SELECT a.action, a.name, a.detail
      FROM (SELECT pg_catalog.array_agg(t) AS tasks FROM hilo.tasks($1, $2) t
             GROUP BY CASE WHEN $3 THEN t.name END ORDER BY pg_catalog.min(t.name COLLATE "C")) t
     CROSS JOIN LATERAL hilo.apply(t.tasks, $3,
                                   COALESCE(pg_catalog.jsonb_typeof($1 -> 'node'::text) = 'object', false)) a;
END;
COMMENT ON FUNCTION hilo.apply_locked(jsonb, boolean, boolean) IS 'Does what hilo_apply does, for a caller who may';

CREATE OR REPLACE FUNCTION hilo_apply(document jsonb, prune boolean DEFAULT false, dry_run boolean DEFAULT false)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10 SET jit = off
BEGIN ATOMIC
    SELECT hilo.begin_apply($1);
    SELECT hilo.raise(f.code, f.message, f.detail, f.hint) FROM hilo.document_fault($1) f;
    SELECT hilo.raise('55000', pg_catalog.format('node %s is another server', hilo.node_id()),
                      'The summary is of a server that has the hilo.node_id of this one.', 'Give each server its own hilo.node_id.')
     WHERE ($1 #>> '{node,id}'::text[])::integer = hilo.node_id() AND $1 #>> '{node,server}'::text[] <> hilo.server();
    -- Before the caller learns whether that is needed.
    SELECT hilo.check_may_apply(e.value ->> 'name'::text, e.at - 1)
      FROM pg_catalog.jsonb_array_elements($1 -> 'sequences'::text) WITH ORDINALITY AS e (value, at) ORDER BY e.at;
    SELECT a.action, a.name, a.detail
      FROM (SELECT $1 AS document WHERE EXISTS (SELECT FROM hilo.tasks($1, $2)) OFFSET 0) d
     CROSS JOIN LATERAL hilo.apply_locked(d.document, $2, COALESCE($3, false)) a;
END;
COMMENT ON FUNCTION hilo_apply(jsonb, boolean, boolean) IS
    'Creates and alters sequences until they are as a document describes them. Returns a row '
    'for each change: create, number, alter, set_owner, grant, revoke or drop. An option that '
    'is left out gets its default; owner and privileges that are left out stay as they are. '
    'Never moves the position of a sequence that exists. number: this server has not served the '
    'sequence under its present node id, and is told by the document how the other nodes number '
    'it. prune: also drops those sequences of the caller that the document does not contain. '
    'dry_run: changes nothing and returns the same rows. Requires what the functions for each '
    'change require. Errors: 22023 for a document that is not valid, with the place in DETAIL; '
    '2BP01 if a column default uses a sequence that is to be dropped; those of hilo_create, '
    'hilo_alter, hilo_set_owner and hilo_grant.';

SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION hilo.server_state()
    RETURNS TABLE (
        system_id bigint, timeline integer, no_memory text, slots bigint, slots_taken bigint, slots_scarce boolean,
        failing bigint[], no_worker_for bigint, twin_seen_for bigint, sessions text, sessions_unknown boolean,
        sessions_hint text, create_for_column text, set_node_id text, alone boolean, restart text, pass text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'hilo_server_state_wrapper';
COMMENT ON FUNCTION hilo.server_state() IS
    'Returns what sessions and shared memory say of this server, and advice that depends on settings';

CREATE FUNCTION hilo.differences(mine jsonb, theirs jsonb)
    RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    WITH node AS MATERIALIZED (
        SELECT m.id, m.count, t.id AS their_id, t.count AS their_count, format('node %s', coalesce(t.id::text, 'unknown')) AS other,
               (SELECT s.restart FROM hilo.server_state() s)
          FROM jsonb_to_record(mine -> 'node') AS m (id integer, count integer, server text)
         CROSS JOIN LATERAL jsonb_to_record(theirs -> 'node') AS t (id integer, count integer, server text)
         WHERE t.server <> m.server
    ), sequence AS (
        SELECT v.is_mine, w.name, w.owner, w.privileges, w.options, coalesce(w.nodes > 1, false) AS shared,
               (w.options ->> 'min_value')::bigint AS low, (w.options ->> 'max_value')::bigint AS high,
               CASE WHEN w.base IS NOT NULL
                    THEN format('from %s with node count %s and stripes of %s', w.base, w.nodes, w.stripe) END AS numbering
          FROM node n
         CROSS JOIN LATERAL (VALUES (true, mine), (false, theirs)) AS v (is_mine, summary)
         CROSS JOIN LATERAL hilo.wanted(v.summary) w
    ), pair AS MATERIALIZED (
        SELECT name, format('sequence "%s"', name) AS object, coalesce(m.shared, t.shared) AS shared,
               m.owner IS DISTINCT FROM t.owner OR m.privileges IS DISTINCT FROM t.privileges AS roles_differ,
               -- Null: one of the two lacks it.
               m.low <= t.high AND t.low <= m.high AS alike, m.is_mine, t.is_mine AS is_theirs,
               m.options AS here, t.options AS there, m.numbering, t.numbering AS their_numbering
          FROM (SELECT * FROM sequence WHERE is_mine) m FULL JOIN (SELECT * FROM sequence WHERE NOT is_mine) t USING (name)
    )
    SELECT other, 'warning', format('its hilo.node_count is %s, and here it is %s', their_count, count),
           'Set hilo.node_count to the same number on every node, more than there will ever be nodes, and reload.'
      FROM node WHERE their_count <> count
     UNION ALL
    SELECT n.other, CASE WHEN p.count > 0 THEN 'error' ELSE 'warning' END,
           concat('its node id is ', n.id, ', as that of this server', ': both serve the same values of ' || p.what),
           'Give each server its own hilo.node_id, and renumber the sequences that both have served. ' || n.restart
      FROM node n
     CROSS JOIN (SELECT count(*), CASE WHEN count(*) > 0 THEN
                            format('%s sequences, such as "%s"', count(*), min(name COLLATE "C")) END AS what
                   FROM pair WHERE alike) p
     -- A server that shares no sequence needs no id.
     WHERE n.their_id = n.id AND (p.count > 0 OR n.count > 1)
     UNION ALL
    SELECT p.object, 'warning', format('owner or privileges differ on %s', n.other),
           'Repeat hilo_grant, hilo_revoke or hilo_set_owner on the node where it was left out.'
      FROM pair p CROSS JOIN node n WHERE p.alike IS NOT NULL AND p.roles_differ AND p.shared
     UNION ALL
    SELECT p.object, 'error',
           format('numbered %s here, and %s by %s: both may serve the same values', p.numbering, p.their_numbering, n.other),
           n.restart
      FROM pair p CROSS JOIN node n WHERE p.alike AND p.numbering <> p.their_numbering
     UNION ALL
    -- Some options decide which values there are.
    SELECT p.object, CASE WHEN bool_or(h.key IN ('increment', 'cycle')) THEN 'error' ELSE 'warning' END,
           format('%s differs on %s', string_agg(h.key, ', ' ORDER BY h.key COLLATE "C"), n.other),
           'Alter the sequence on one of the two nodes with hilo_alter.'
      FROM pair p
     CROSS JOIN node n
     CROSS JOIN LATERAL jsonb_each(p.here) h
      JOIN LATERAL jsonb_each(p.there) t ON t.key = h.key AND t.value <> h.value
     WHERE p.alike
     GROUP BY p.object, n.other
     UNION ALL
    SELECT n.other, 'warning',
           format(w.what, count(*), min(p.name COLLATE "C")),
           'Pass what hilo_node_summary() returns on the server that has them to hilo_apply() on the other.'
      FROM pair p
     CROSS JOIN node n
     CROSS JOIN LATERAL (VALUES
         (p.is_theirs IS NULL, 'lacks %s sequences, such as "%s" that several nodes serve'),
         (p.is_mine IS NULL, 'has %s sequences, such as "%s" that this server lacks'),
         (p.alike AND p.their_numbering IS NULL,
          'refuses to serve %s sequences, such as "%s": it does not know how the others number them')) AS w (is_so, what)
     WHERE p.shared AND w.is_so
     GROUP BY n.other, w.what;
END;
COMMENT ON FUNCTION hilo.differences(jsonb, jsonb) IS 'Returns what is wrong between this server and another one';

SELECT set_config('search_path', format('%s, pg_temp', e.extnamespace::regnamespace), true)
  FROM pg_extension e WHERE e.extname = 'hilo';

CREATE OR REPLACE FUNCTION hilo_compare(summary jsonb) RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10 SET jit = off
BEGIN ATOMIC
    SELECT hilo.raise('22023', 'summary must not be null', 'It says what the other server has.', 'Pass what hilo_node_summary() returns there.')
     WHERE $1 IS NULL;
    SELECT hilo.raise(f.code, f.message, f.detail, f.hint) FROM hilo.document_fault($1) f WHERE f.code = '22023';
    SELECT hilo.raise('22023', 'the document is not the summary of a node', 'It does not say which node it is of.',
                      'Pass what hilo_node_summary() returns on the other server.')
     WHERE pg_catalog.jsonb_typeof($1 -> 'node'::text) <> 'object' OR NOT $1 ? 'node'::text;
    SELECT d.object, d.severity, d.what, d.what_to_do
      FROM hilo.differences(hilo_node_summary(NULL::hilo_sequence), summary) d;
END;
COMMENT ON FUNCTION hilo_compare(jsonb) IS
    'Compares this server with the one whose hilo_node_summary() is given. It compares node ids, node counts, and the '
    'definitions and numberings of the sequences that the caller may read. Returns a row for each finding, as '
    'hilo_check does. Errors: 22023 if it is not such a summary.';

-- Findings of hilo_check about the server, the tables of the extension, and the nodes of Citus.
--
-- Here and in check.sql a name without a schema is one of core's. In the schema of the extension there could be a
-- function or an operator that matches better.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION hilo.node_answers(command text, everywhere boolean)
    RETURNS TABLE (object text, node integer, answer text, failure text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_node_answers_wrapper';
COMMENT ON FUNCTION hilo.node_answers(text, boolean) IS
    'Returns what a command that returns one value says on each node of Citus, or on the coordinator alone, or why it '
    'says nothing';

-- Only the other views may read it.
CREATE VIEW hilo.state AS
    SELECT s.*, hilo.node_id() AS node, current_setting('hilo.node_count')::integer AS node_count,
           e.extnamespace::regnamespace AS schema
      FROM hilo.server_state() s
      JOIN pg_extension e ON e.extname = 'hilo';
REVOKE ALL ON hilo.state FROM PUBLIC;
COMMENT ON VIEW hilo.state IS 'This server, and advice that depends on its settings';

CREATE VIEW hilo.server_finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        TABLE hilo.state
    ), answered AS MATERIALIZED (
        SELECT a.*
          FROM state s
         CROSS JOIN LATERAL hilo.node_answers(format(
             'SELECT pg_catalog.jsonb_agg(e) FROM (SELECT q.name, q.numbering, '
             'coalesce(b.source, b.name) AS source, b.state, b.last_error FROM %1$s.hilo_sequences q '
             'LEFT JOIN %1$s.hilo_stat_sources b ON b.name OPERATOR(pg_catalog.=) q.name) AS e', s.schema), true) a
    ), on_node AS MATERIALIZED (
        SELECT a.object, a.node, e.*
          FROM answered a
         CROSS JOIN LATERAL jsonb_to_recordset(nullif(a.answer, '')::jsonb)
                            AS e (name text, numbering text, source text, state text, last_error text)
    )
    -- Settings, and what shared memory knows. The command line, a database or a role can hide what ALTER SYSTEM sets.
    SELECT coalesce('setting ' || v.name, format('node %s', coalesce(s.node, 0))) AS object, v.severity, v.what,
           coalesce(v.what_to_do, format('Set %s = on and reload.', v.name)) AS what_to_do, NULL AS fix
      FROM state s
     CROSS JOIN LATERAL (
         SELECT EXISTS (SELECT FROM _hilo.sequence q WHERE q.owned_by::text <> '-') AS owned,
                EXISTS (SELECT FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid
                         WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_proc'::regclass
                           AND p.proname = 'hilo_nextval_always' AND p.pronamespace = s.schema) AS always) t
     CROSS JOIN LATERAL (VALUES
         ('hilo.node_id', 'warning', current_setting('hilo.node_id') = '' AND s.node_count > 1,
          format('hilo.node_id is not set, and hilo.node_count is %s: no sequence can be created or renumbered', s.node_count),
          s.set_node_id),
         ('hilo.node_id', 'error', s.node >= s.node_count,
          format('hilo.node_id = %s is not less than hilo.node_count = %s: nothing can be reserved', s.node, s.node_count),
          'Set hilo.node_id to a value from 0 to hilo.node_count - 1 and reload.'),
         (NULL, 'error', s.twin_seen_for < 3600,
          format('%s s ago a position of this node arrived by replication from another server, which serves the same values',
                 s.twin_seen_for),
          'Stop one of the two servers, or give it its own hilo.node_id.'),
         ('hilo.prefetch', 'warning', NOT current_setting('hilo.prefetch')::boolean,
          'with hilo.prefetch = off, callers wait for every block, and hilo.min_threshold and hilo.buffer have no effect', NULL),
         ('fsync', 'error', NOT current_setting('fsync')::boolean,
          'with fsync = off, reserved values may be served again after a crash of the machine', NULL),
         ('full_page_writes', 'error', NOT current_setting('full_page_writes')::boolean,
          'with full_page_writes = off, reserved values may be served again after a crash of the machine', NULL),
         ('shared_preload_libraries', 'error', s.no_memory IS NOT NULL, s.no_memory,
          'Add hilo to shared_preload_libraries in postgresql.conf and restart the server.'),
         ('hilo.max_sequences', 'warning', s.slots_scarce,
          format('%s of %s slots for active sequences are taken', s.slots_taken, s.slots),
          'Raise hilo.max_sequences and restart the server, or make sure that fewer sequences are in use at the same time.'),
         ('max_worker_processes', 'error', s.no_worker_for < 3600,
          format('%s s ago a session found no free background worker slot for the worker of its database', s.no_worker_for),
          'Raise max_worker_processes and restart the server.'),
         -- Sessions that do not load hilo.
         ('session_preload_libraries',
          CASE WHEN t.always AND NOT s.sessions_unknown THEN 'error'
               WHEN t.always OR t.owned THEN 'warning' ELSE 'note' END,
          s.no_memory IS NULL,
          s.sessions || CASE
              WHEN t.always
              THEN ', but columns are GENERATED ALWAYS by hilo, into which other sessions insert values of their own'
              WHEN t.owned
              THEN ', but columns own sequences, which stay behind when other sessions drop or truncate the table'
              ELSE ', so columns cannot own sequences' END,
          format('%s, and let all sessions connect again.', s.sessions_hint))
     ) AS v (name, severity, is_so, what, what_to_do)
     WHERE v.is_so AND v.what IS NOT NULL
     UNION ALL

    SELECT format('setting %s', a.name), 'warning',
           format('%s = %s is greater than %s = %s, so one of the two has no effect',
                  a.name, current_setting(a.name), b.name, current_setting(b.name)),
           'Lower the first or raise the second, and reload.', NULL
      FROM (VALUES
          ('hilo.min_block_size', 'hilo.max_block_size', 1),
          ('hilo.min_threshold', 'hilo.max_block_size', 1),
          -- Milliseconds and seconds.
          ('hilo.sample_interval', 'hilo.window', 1000)) AS v (name, bound, unit)
      JOIN pg_settings a ON a.name = v.name
      JOIN pg_settings b ON b.name = v.bound AND a.setting::bigint > b.setting::bigint * v.unit
     UNION ALL

    -- Default privileges, for example, let roles in.
    SELECT format('role %s', r.role), 'error',
           format('the role may write to the catalog of hilo, such as %s, and so cause values to be served twice',
                  min(c.oid::regclass::text)),
           'Take these privileges from the role, and find out how it got them.',
           format('REVOKE %s ON %s FROM %s CASCADE;', string_agg(DISTINCT x.privilege_type, ', '),
                  string_agg(DISTINCT c.oid::regclass::text, ', '), r.role)
      FROM pg_class c
      JOIN pg_depend e ON e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e'
                          AND e.refclassid = 'pg_extension'::regclass
     CROSS JOIN LATERAL aclexplode(c.relacl) x
     CROSS JOIN LATERAL (SELECT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS role) r
     WHERE c.relnamespace IN ('_hilo'::regnamespace, 'hilo'::regnamespace)
       AND x.grantee <> c.relowner AND x.privilege_type <> 'SELECT'
     GROUP BY r.role
     UNION ALL

    -- Each trigger has the rows for which it fires: ordinary ones (O), replicated ones (R) or all (A). That changes with
    -- ALTER TABLE ... ENABLE TRIGGER ALL, as of a restore or of test fixtures.
    SELECT format('table _hilo.%s', r.relation), 'error',
           format('triggers do not fire as they should (%s), so that rows which are restored or replicated, or TRUNCATE, may '
                  'cause a value to be served twice', string_agg(w.name, ', ' ORDER BY w.name)),
           'Let them fire as before. If any was dropped, create it with its statement of sql/triggers.sql.',
           'ALTER TABLE _hilo.' || r.relation || ' ' || string_agg(
               format('ENABLE %sTRIGGER %s', CASE w.fires WHEN 'R' THEN 'REPLICA ' WHEN 'A' THEN 'ALWAYS ' END, w.name),
               ', ' ORDER BY w.name) FILTER (WHERE t.oid IS NOT NULL) || ';'
      FROM (VALUES
          ('missing_grantee', 'A', '{privilege}'::text[]),
          ('missing_owner', 'O', '{sequence}'),
          ('missing_role', 'A', '{default_privilege}'),
          ('note_roles', 'O', '{sequence, privilege, default_privilege}'),
          ('refuse_source', 'A', '{sequence}'),
          ('refuse_truncate', 'A', '{sequence, position, free_range, gap, lease, source, privilege, default_privilege}'),
          ('replicated', 'R', '{sequence, position, free_range, lease, source, privilege, default_privilege}'),
          ('replicated_owner', 'R', '{sequence}'),
          ('restored', 'O', '{position, free_range, lease, source}')) AS w (name, fires, relations)
     CROSS JOIN unnest(w.relations) AS r (relation)
      JOIN pg_class c ON c.relname = r.relation AND c.relnamespace = '_hilo'::regnamespace
      LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = w.name
     WHERE t.tgenabled::text IS DISTINCT FROM w.fires
     GROUP BY r.relation
     UNION ALL

    -- Any node of Citus may be asked to serve a sequence.
    SELECT n.object, v.severity, format(v.what, count(*), min(k.name COLLATE "C"), min(h.last_error)), v.what_to_do, NULL
      FROM answered n
     CROSS JOIN (SELECT o.name, bool_or(o.node > 0 AND o.source IS NOT NULL) AS is_branch FROM on_node o GROUP BY o.name) k
      LEFT JOIN on_node h ON h.object = n.object AND h.name = k.name
      LEFT JOIN on_node c ON c.node = 0 AND c.name = k.name
     CROSS JOIN LATERAL (VALUES
         ('warning', h.name IS NULL AND k.is_branch,
          'lacks %s sequences, such as "%s", that are branches on other workers',
          'Run hilo_create_on_all_nodes(name) on the coordinator for each of them.'),
         ('error', h.name IS NOT NULL AND h.source IS NULL,
          'does not serve %s sequences, such as "%s": they are no branches of the coordinator',
          'If a column uses one, replace it: docs/citus.md says how. Drop each other one there with hilo_drop, and run '
          'hilo_create_on_all_nodes(name) on the coordinator.'),
         ('warning', starts_with(h.source, '-- server citus') AND strpos(h.source, quote_literal(c.numbering)) = 0,
          'serves of %s sequences, such as "%s", what it holds of an earlier numbering, and gets no more',
          'Run hilo_create_on_all_nodes(name) on the coordinator for each of them.'),
         ('warning', h.state = 'failing' AND h.last_error IS NOT NULL, 'gets no values of %s sequences, such as "%s": %s',
          'Remove the cause: the owner of each sequence must be able to log in at its source.')
     ) AS v (severity, is_so, what, what_to_do)
     WHERE n.node > 0 AND n.failure IS NULL AND v.is_so
     GROUP BY n.object, v.severity, v.what, v.what_to_do
     UNION ALL
    SELECT a.object, 'warning', format('could not ask it: %s', a.failure),
           'Find out why: the node must be running, and the role that calls hilo_check must be able to log in there.', NULL
      FROM answered a
     WHERE a.failure IS NOT NULL;
REVOKE ALL ON hilo.server_finding FROM PUBLIC;
COMMENT ON VIEW hilo.server_finding IS 'Findings of hilo_check about the server, which every role may see';

-- hilo_check: what is wrong is SQL over the views. Functions in C say what only this server's memory and an index know.
-- As in check_server.sql, a name without a schema is one of core's.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE FUNCTION hilo.unserved_values(relation oid, number smallint, sequence bigint)
    RETURNS TABLE (value bigint, failure text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'hilo_unserved_values_wrapper';
COMMENT ON FUNCTION hilo.unserved_values(oid, smallint, bigint) IS
    'Returns the furthest value of a column that its sequence will still serve on this node, or why it cannot be read';

CREATE FUNCTION hilo.is_of_callers(relation oid) RETURNS boolean
    LANGUAGE c STABLE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_of_callers_wrapper';
COMMENT ON FUNCTION hilo.is_of_callers(oid) IS
    'Whether a distributed table and all that inherits from it belong to the caller or to superusers; then a query of it '
    'runs no code of others. Null: Citus does not distribute it';

-- Each finding of hilo_check that the current user may see.
CREATE VIEW hilo.finding WITH (security_barrier) AS
    WITH state AS MATERIALIZED (
        TABLE hilo.state
    ), readable AS MATERIALIZED (
        SELECT q.id, q.name, q.increment, q.min_value, q.max_value, q.cycle, q.gapless, q.owner, q.owned_by, q.nodes,
               q.next_value, q.used_fraction, q.block_size, q.source
          FROM hilo.reserved q
    ), source AS MATERIALIZED (
        -- hilo_attach has written these. Only who may act as the owner sees a query.
        SELECT q.id, q.name, m.client, m.first, w.part[2]::bigint AS size, w.part[3] AS counter,
               CASE WHEN m.origin IS NULL THEN w.part[2]::bigint ELSE 1 END AS increment
          FROM readable q
         CROSS JOIN LATERAL regexp_match(q.source, '^/\* ([a-z-]+) of (-?[1-9][0-9]{0,17}) from (-?[0-9]+) \*/') AS w (part)
          JOIN hilo.mappers() m ON m.client = w.part[1]
         WHERE q.source IS NOT NULL AND pg_has_role(q.owner::oid, 'USAGE')
    ), counter AS MATERIALIZED (
        SELECT r.id, q.seqrelid::regclass AS name,
               -- A counter of blocks has not come to this value, or of values.
               (coalesce(pg_sequence_last_value(q.seqrelid), q.seqstart - q.seqincrement)::numeric + r.increment)
               * (r.size / r.increment) AS reached
          FROM source r
          JOIN pg_sequence q ON hashtextextended(q.seqrelid::regclass::text, 0)::text = r.counter
         WHERE r.size > 0 AND has_sequence_privilege(q.seqrelid, 'USAGE, SELECT')
    ), slot AS MATERIALIZED (
        SELECT t.*, t.in_slices + t.in_current + t.in_standby + t.in_returned AS ready
          FROM hilo.stat_slots() t WHERE (SELECT s.no_memory IS NULL FROM state s)
    ), named AS MATERIALIZED (
        SELECT DISTINCT f.* FROM hilo.column_defaults() f
    ), in_use AS MATERIALIZED (
        -- The columns that concern the caller: each that it has a privilege on, and all for those who may read
        -- everything. known: it may know of the column; readable: it may read all rows.
        SELECT d.*, s.id, s.min_value, s.max_value, s.increment, s.cycle, s.owner, s.owned_by, s.next_value,
               s.source IS NOT NULL AS has_source, c.relowner, c.relacl, a.attinhcount,
               coalesce(s.nodes, current_setting('hilo.node_count')::integer) AS nodes,
               -- A fix does nothing for a table's owner that he may not do himself.
               pg_has_role(c.relowner, s.owner::oid, 'USAGE') AS one_owner,
               format('%I.%I', n.nspname, c.relname) AS table_name, a.attname::text AS column_name,
               format('%I.%I.%I', n.nspname, c.relname, a.attname) AS object, h.high, -h.high - 1 AS low,
               c.relkind IN ('r', 'p', 'f') AS in_table, c.relkind IN ('r', 'p') AS is_stored,
               c.relkind IN ('r', 'p') AND NOT c.relrowsecurity AND h.high IS NOT NULL
               AND (v.readable OR w.all_readable) AS checked,
               hilo.is_of_callers(c.oid) AS of_callers, v.known, v.readable
          FROM named d
          JOIN pg_class c ON c.oid = d.relation
          JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.number AND NOT a.attisdropped
          LEFT JOIN readable s ON s.name = d.name
         CROSS JOIN (SELECT hilo.reads_all() AS all_readable) w
         CROSS JOIN LATERAL (
             SELECT CASE a.atttypid WHEN 'int2'::regtype THEN 32767 WHEN 'int4'::regtype THEN 2147483647
                                    WHEN 'int8'::regtype THEN 9223372036854775807 END AS high) h
         CROSS JOIN LATERAL (
             SELECT has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES') AS known,
                    has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT') AS readable) v
         WHERE (v.known OR w.all_readable) AND (s.id IS NOT NULL OR d.missing)
    ), furthest AS MATERIALIZED (
        -- Only a query sees the rows of a distributed table, and an index of the column makes it cheap. The numbers of
        -- workers that Citus gives by itself are beyond 2^48. Each operand has its type, so that no other operator fits better.
        SELECT a.answer::jsonb AS answer
          FROM (SELECT string_agg(format(
                           'SELECT %L::pg_catalog.text, pg_catalog.%s(%I)::pg_catalog.int8 FROM %s '
                           'WHERE %3$I OPERATOR(pg_catalog.<) 281474976710656::pg_catalog.int8', c.object,
                           CASE WHEN c.increment > 0 THEN 'max' ELSE 'min' END, c.column_name, c.table_name),
                           ' UNION ALL ') AS parts
                  FROM in_use c
                 WHERE c.of_callers AND c.checked AND c.readable AND NOT c.has_source AND c.next_value IS NOT NULL
                   AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.relation AND i.indkey[0] = c.number
                                                        AND i.indisvalid AND i.indpred IS NULL)) p
         CROSS JOIN LATERAL hilo.node_answers(format(
             'SELECT pg_catalog.json_object_agg(e.object, e.value) FROM (%s) AS e (object, value)', p.parts), false) a
         WHERE p.parts IS NOT NULL
    ), of_column (shown, object, severity, what, what_to_do, fix) AS (
        SELECT c.known, c.object, 'error', format('its default uses hilo sequence "%s", which does not exist', c.name),
               s.create_for_column,
               CASE WHEN s.alone AND c.is_stored THEN format('SELECT * FROM %s.hilo_create_missing();', s.schema) END
          FROM in_use c CROSS JOIN state s
         WHERE c.id IS NULL
         UNION ALL
        SELECT c.known, c.object, 'warning',
               format('hilo sequence "%s" continues to %s, which the column''s type cannot hold', c.name,
                      CASE WHEN c.max_value > c.high THEN c.max_value ELSE c.min_value END),
               'Change the column''s type to bigint, or give the sequence the column''s data type with hilo_alter, so '
               'that a clear error is raised in time.', NULL
          FROM in_use c
         WHERE c.max_value > c.high OR c.min_value < c.low
         UNION ALL
        SELECT c.readable, c.object, CASE WHEN u.failure IS NULL THEN 'error' ELSE 'warning' END,
               coalesce('its values cannot be read: ' || u.failure, format(
                   'its value %s is yet to %s hilo sequence "%s": inserts will fail or repeat it', u.value,
                   coalesce('come from ' || o.name || ', the counter of', 'be served by'), c.name)),
               CASE WHEN u.failure IS NOT NULL
                    THEN 'Find out what is wrong with the table''s files; if an index is damaged, REINDEX it.'
                    WHEN c.has_source THEN 'Set the counter beyond it with setval, as long as no mapper holds a block.'
                    WHEN c.of_callers
                    THEN 'Let the coordinator continue beyond it with hilo_setval, and then run hilo_create_on_all_nodes(name).'
                    WHEN c.nodes > 1 THEN format(s.pass, c.name, u.value)
                    WHEN v.leaves_enough THEN 'Let the sequence continue beyond it with hilo_sync.'
                    ELSE 'Find out whether the row is right: beyond its value, few or none are left to the sequence. '
                         'If it is, give the column another sequence, or call hilo_sync.' END,
               CASE WHEN c.of_callers IS NULL AND NOT c.has_source AND c.nodes = 1 AND v.leaves_enough AND c.one_owner
                    THEN format('SELECT %1$s.hilo_sync(%2$L::%1$s.hilo_sequence, %3$L::pg_catalog.regclass, '
                                '%4$L::pg_catalog.name);', s.schema, c.name, c.table_name, c.column_name) END
          FROM in_use c
         CROSS JOIN state s
         CROSS JOIN LATERAL (
             SELECT w.* FROM hilo.unserved_values(c.relation, c.number, c.id) w WHERE c.of_callers IS NULL
              UNION ALL
             SELECT e.value, NULL
               FROM furthest f
              CROSS JOIN LATERAL (SELECT (f.answer ->> c.object)::bigint AS value) e
              WHERE e.value BETWEEN c.min_value AND c.max_value
                AND mod(e.value::numeric - c.next_value::numeric, c.increment) = 0
                AND (e.value - c.next_value) / c.increment >= 0) u
          LEFT JOIN counter o ON o.id = c.id
         -- Beyond a value near the end the sequence would be reported in turn.
         CROSS JOIN LATERAL (
             SELECT abs(u.value::numeric - CASE WHEN c.increment > 0 THEN c.min_value ELSE c.max_value END)
                    < (c.max_value::numeric - c.min_value) * 0.8 AS leaves_enough) v
         -- Others draw from a counter too, so what lies beyond the position need not be wrong.
         WHERE c.checked AND (NOT c.has_source OR u.failure IS NOT NULL OR u.value >= o.reached)
    )
    -- Columns. Roles that may read everything are told how much there is to find about the others.
    SELECT CASE WHEN c.shown THEN format('column %s', c.object) ELSE 'a column' END AS object, c.severity,
           CASE WHEN c.shown THEN c.what ELSE 'this role may not see which column has this finding, nor what it is' END AS what,
           CASE WHEN c.shown THEN c.what_to_do
                ELSE 'Run hilo_check as a superuser, or grant the role pg_read_all_data.' END AS what_to_do,
           CASE WHEN c.shown THEN c.fix END AS fix
      FROM of_column c
     UNION ALL
    -- An inherited column has rows of the table above.
    SELECT format('sequence "%s"', c.name), 'note',
           format('it feeds %s columns: %s', count(*),
                  array_to_string((array_agg(c.object ORDER BY c.object COLLATE "C"))[1:10], ', ')),
           'Nothing, if the columns are meant to share it; CREATE TABLE ... (LIKE ... INCLUDING ALL) lets them. Otherwise '
           'give each its own with hilo_create and ALTER TABLE ... SET DEFAULT.', NULL
      FROM in_use c
     WHERE c.known AND c.in_table AND c.id IS NOT NULL AND c.attinhcount = 0
     GROUP BY c.name
    HAVING count(*) > 1
     UNION ALL
    -- A sequence whose owner column is gone need not have been used. A block that was read ahead is no use.
    SELECT 'sequences', 'note',
           format('no column uses %s of them: %s', count(*),
                  array_to_string((array_agg(format('"%s"', q.name) ORDER BY q.name))[1:10], ', ')),
           'Drop those that nothing else draws from: no application, no function, and no default that computes the name.', NULL
      FROM readable q
      LEFT JOIN slot t ON t.sequence = q.id
     WHERE CASE WHEN q.owned_by IS NULL
                THEN EXISTS (SELECT FROM _hilo.position p
                              WHERE p.sequence = q.id AND (p.next_index > coalesce(t.ready, 0) OR p.epoch > 1))
                ELSE q.owned_by::text = '-' END
       AND NOT EXISTS (SELECT FROM named d WHERE d.name = q.name)
    HAVING count(*) > 0
     UNION ALL

    -- Sequences. First those of which the largest part is reserved, or half of it if the rest lasts for less than a week.
    SELECT format('sequence "%s"', q.name), CASE WHEN q.used_fraction >= 0.95 THEN 'error' ELSE 'warning' END,
           format('%s %% of its values are reserved, up to its %s%s', to_char(q.used_fraction * 100, 'FM990.00'),
                  CASE WHEN q.increment > 0 THEN concat('maximum ', q.max_value) ELSE concat('minimum ', q.min_value) END,
                  CASE WHEN e.hours < 16800 THEN format('; at the current rate the rest lasts %s hours', e.hours::bigint) END),
           'Use hilo_alter to give the sequence a wider data type or wider bounds, and give the columns that it fills a '
           'wider type.', NULL
      FROM readable q
      LEFT JOIN slot t ON t.sequence = q.id
     CROSS JOIN LATERAL (
         SELECT (CASE WHEN q.increment > 0 THEN q.max_value ELSE q.min_value END - q.next_value)
                / q.increment / q.nodes / nullif(t.rate, 0) / 3600 AS hours) e
     WHERE NOT q.cycle AND (q.used_fraction >= 0.8 OR q.used_fraction >= 0.4 AND e.hours < 168)
     UNION ALL
    -- A restore without roles, for example, leaves these.
    SELECT format('sequence "%s"', min(q.name)), 'warning',
           format('%s sequences, such as this one, belong to no role that exists', count(*)),
           'Give each of them an owner with hilo_set_owner; until then they belong to the superusers.', NULL
      FROM readable q
     WHERE NOT EXISTS (SELECT FROM pg_authid r WHERE r.oid = q.owner::oid)
    HAVING count(*) > 0
     UNION ALL
    SELECT format('sequence "%s"', q.name), 'error',
           format('reservations have failed %s times, last %s ago: %s', t.errors, date_trunc('second', now() - t.last_error_at),
                  t.last_error),
           'Remove the cause; hilo retries by itself. hilo_stat_reset clears the count.', NULL
      FROM slot t
      JOIN readable q ON q.id = t.sequence
     WHERE t.last_error_at > now() - '1 hour'::interval
       AND t.sequence IN (SELECT unnest(s.failing) FROM state s)
     UNION ALL
    -- Sources.
    SELECT format('sequence "%s"', q.name), 'warning',
           format('its source has failed %s times since %s: %s', c.failures,
                  date_trunc('second', coalesce(c.requested_at, c.last_error_at)),
                  CASE WHEN pg_has_role(q.owner::oid, 'USAGE') THEN c.last_error
                       ELSE 'its owner sees the error in hilo_stat_sources' END),
           'Remove the cause; hilo asks again by itself. Until then the sequence serves what it holds.', NULL
      FROM _hilo.source c
      JOIN state s ON s.node = c.node
      JOIN readable q ON q.id = c.sequence AND q.source IS NOT NULL
     WHERE c.failures > 0 AND (c.failures >= 30 OR c.requested_at < now() - '1 minute'::interval)
     UNION ALL
    SELECT format('sequence "%s"', a.name), 'error',
           format('it takes blocks of %s from its counter as "%s", and sequence "%s" blocks of %s as "%s": values come twice',
                  a.size, a.client, o.name, o.size, o.client),
           'Find out which is the mapper''s way, and detach the other sequence with hilo_detach.', NULL
      FROM source a
      JOIN source o ON o.counter = a.counter AND o.name > a.name
     WHERE (a.first, a.size) <> (o.first, o.size)
       -- Who uses each number by itself collides with nobody who uses it as the first or last of a block.
       AND NOT ('core' IN (a.client, o.client) AND a.first IN ('value', 'value - size + 1')
                AND o.first IN ('value', 'value - size + 1'))
     UNION ALL
    -- Whoever leases has last been heard of then, or holds a lease that it would have to renew.
    SELECT format('holder %s', coalesce(quote_ident(l.holder), 'without a name')), 'note',
           format('it has %s leases without an end, such as one of "%s", and has taken none since %s',
                  count(*), min(q.name), date_trunc('second', max(l.leased_at))),
           'If it no longer exists, revoke its leases with hilo_lease_revoke: what it may have left unused becomes a gap.', NULL
      FROM _hilo.lease l
      JOIN readable q ON q.id = l.sequence
     WHERE l.ended IS NULL AND (l.expires_at IS NULL OR l.expires_at > clock_timestamp())
     GROUP BY l.holder
    HAVING bool_and(l.expires_at IS NULL) AND max(l.leased_at) < now() - '30 days'::interval
     UNION ALL
    -- hilo_adopt keeps a sequence that something else uses, or that another role owns. Values drawn
    -- from it are not looked at, which would wait for locks.
    SELECT format('sequence "%s"', r.name), CASE WHEN f.differs THEN 'warning' ELSE 'note' END,
           format('sequence %s of Postgres lives on beside it: whoever draws from that one gets the same numbers%s', c.oid::regclass,
                  CASE WHEN f.differs THEN format('; mappers take blocks of %s here, and INCREMENT BY there is %s',
                                                  r.block_size, o.seqincrement) END),
           format('If no tool needs it to be there, let everything call hilo_nextval instead, and drop it: DROP SEQUENCE %s. '
                  'For mappers, block_size must be their allocation size: with another one ids come twice.', c.oid::regclass), NULL
      FROM pg_sequence o
      JOIN pg_class c ON c.oid = o.seqrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN unnest(ARRAY[c.relname::text, concat_ws('.', n.nspname, c.relname)]) AS u (name)
      JOIN readable r ON r.name = u.name
     CROSS JOIN LATERAL (
         -- hilo_facade leaves this comment.
         SELECT r.block_size IS NOT NULL
                AND EXISTS (SELECT FROM pg_description d WHERE d.classoid = 'pg_proc'::regclass
                                                           AND d.description LIKE 'facade of hilo for %') AS in_blocks) b
     CROSS JOIN LATERAL (SELECT b.in_blocks AND o.seqincrement NOT IN (1, r.block_size) AS differs) f
     WHERE b.in_blocks OR EXISTS (SELECT FROM named d WHERE d.name = r.name)
     UNION ALL
    -- Whoever may insert draws from a sequence that the column owns. From others he needs a privilege.
    SELECT format('role %s', CASE i.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(i.role) END), 'warning',
           format('it may insert where the defaults of %s columns draw, such as %s from hilo sequence "%s", and may not draw',
                  count(*), min(c.object), (array_agg(c.name ORDER BY c.object))[1]),
           'Grant it USAGE with hilo_grant, or let the columns own their sequences with hilo_alter(name, owned_by => ...).',
           CASE WHEN bool_and(c.one_owner) THEN format(
               'SELECT %s.hilo_grant(s::%1$s.hilo_sequence, %L::pg_catalog.text, ''USAGE''::pg_catalog.text) '
               'FROM pg_catalog.unnest(%L::pg_catalog.text[]) s;', s.schema, i.role, array_agg(c.name ORDER BY c.object)) END
      FROM in_use c
     CROSS JOIN state s
     CROSS JOIN LATERAL (
         SELECT DISTINCT x.grantee, CASE x.grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(x.grantee)::text END AS role
           FROM (SELECT coalesce(c.relacl, acldefault('r', c.relowner)) AS acl
                  UNION ALL
                 SELECT b.attacl FROM pg_attribute b WHERE b.attrelid = c.relation AND b.attacl IS NOT NULL) a
          CROSS JOIN LATERAL aclexplode(a.acl) x
          WHERE x.privilege_type = 'INSERT') i
     WHERE c.id IS NOT NULL AND c.known AND c.in_table
       AND (c.owned_by IS NULL OR c.attinhcount = 0 AND c.owned_by::text <> c.object)
       AND NOT EXISTS (SELECT FROM _hilo.privilege p
                        WHERE p.sequence = c.id AND p.privilege IN ('USAGE', 'UPDATE')
                          AND (p.grantee::oid = 0 OR pg_has_role(i.grantee, p.grantee::oid, 'USAGE')))
       AND NOT pg_has_role(i.grantee, c.owner::oid, 'USAGE') AND NOT pg_has_role(i.grantee, 'pg_write_all_data', 'USAGE')
     GROUP BY i.grantee, i.role, s.schema
     UNION ALL
    -- Positions of this node that may lack reservations from which values were served. pg_upgrade requires a clean
    -- shutdown, and leaves the server on its first timeline: what it brought lacks nothing.
    SELECT format('node %s', s.node), 'warning',
           format('%s positions of this node, such as that of "%s", %s', count(*), min(q.name), v.what),
           'If the server that they come from is stopped permanently before this one serves, do nothing: the first use of '
           'each sequence skips hilo.failover_skip values. If both are to serve, give each its own hilo.node_id.', NULL
      FROM state s
      JOIN _hilo.position p ON p.node = s.node
      JOIN readable q ON q.id = p.sequence
     CROSS JOIN LATERAL (
         -- As core prints it: without a sign.
         SELECT mod(p.system_id + 18446744073709551616, 18446744073709551616) AS system_id) o
     CROSS JOIN LATERAL (
         SELECT CASE
             WHEN p.timeline < 0 AND p.incarnation = -1 AND p.system_id = s.system_id
             THEN 'were restored from a dump of a server at which they had arrived by replication'
             WHEN p.timeline < 0
             THEN format('arrived by replication from another server (%s)', o.system_id)
             WHEN p.system_id = s.system_id AND s.timeline NOT IN (0, p.timeline)
             THEN format('were last written on timeline %s, before this server was promoted or copied', p.timeline)
             WHEN p.system_id NOT IN (0, s.system_id) AND s.timeline > 1 AND p.next_index > 0
             THEN format('were last written by the server %s, from which this server was made by pg_createsubscriber, or by '
                         'pg_upgrade before it was promoted', o.system_id) END AS what) v
     WHERE v.what IS NOT NULL
     GROUP BY s.node, v.what
     UNION ALL
    SELECT format('sequence "%s"', q.name), CASE WHEN v.overlap THEN 'error' ELSE 'warning' END,
           format('numbered differently: here from %s with node count %s, by node %s from %s with node count %s%s',
                  o.base, o.nodes, p.node, p.base, p.nodes,
                  CASE WHEN v.overlap THEN '; the values that the two have reserved may overlap' END),
           format('%s A node that is permanently gone can be left as it is.', s.restart), NULL
      FROM state s
      JOIN _hilo.position o ON o.node = s.node
      JOIN _hilo.position p ON p.sequence = o.sequence AND p.node <> o.node
      JOIN readable q ON q.id = p.sequence
     CROSS JOIN LATERAL (
         SELECT hilo.value_at(p.next_index - 1, p.base, q.increment, q.min_value, q.max_value, q.cycle, p.node, p.nodes, p.stripe)
                    AS their_last,
                hilo.value_at(o.next_index - 1, o.base, q.increment, q.min_value, q.max_value, q.cycle, o.node, o.nodes, o.stripe)
                    AS last) e
     CROSS JOIN LATERAL (
         SELECT p.next_index > 0 AND o.next_index > 0 AND NOT q.cycle AND greatest(p.base, e.their_last) >= least(o.base, e.last)
                AND greatest(o.base, e.last) >= least(p.base, e.their_last) AS overlap) v
     WHERE (p.base, p.nodes, p.stripe) <> (o.base, o.nodes, o.stripe)
     UNION ALL
    SELECT 'setting hilo.node_count', 'warning',
           format('%s sequences, such as "%s", are numbered for hilo.node_count = %s, but the setting is %s',
                  count(*), min(q.name), q.nodes, s.node_count), s.restart, NULL
      FROM state s JOIN readable q ON q.nodes <> s.node_count AND NOT q.gapless
     GROUP BY q.nodes, s.node_count, s.restart
     UNION ALL
    SELECT f.* FROM hilo.server_finding f;
-- PUBLIC has no USAGE of the schema, so only hilo_check reads it.
REVOKE ALL ON hilo.finding FROM PUBLIC;
GRANT SELECT ON hilo.finding TO PUBLIC;
COMMENT ON VIEW hilo.finding IS 'Findings of hilo_check that the current user may see';

SELECT set_config('search_path', format('%s, pg_temp', e.extnamespace::regnamespace), true)
  FROM pg_extension e WHERE e.extname = 'hilo';

DROP FUNCTION hilo_check();
CREATE FUNCTION hilo_check() RETURNS TABLE (object text, severity text, what text, what_to_do text, fix text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off
    -- Names of counters are compared with those that hilo_attach has read.
    SET quote_all_identifiers = off
BEGIN ATOMIC
    -- The worst come first.
    SELECT f.object, f.severity, f.what, f.what_to_do, f.fix
      FROM hilo.finding f
     ORDER BY pg_catalog.array_position(ARRAY['error', 'warning', 'note'], f.severity),
              f.object COLLATE "C", f.what COLLATE "C";
END;
COMMENT ON FUNCTION hilo_check() IS
    'Reports problems, present or near, of the settings, and of the sequences and columns that the caller may see. '
    'Each finding is a row and says what to do. severity is error, warning, or note for what may be meant to be so. '
    'fix is a statement that mends it, as for psql''s \gexec; null: there is none that is right for everyone. Roles '
    'that may read every sequence, such as members of pg_monitor, see findings about hidden columns too, without '
    'names. Returns no row if nothing was found.';

-- Leases that the caller names, and many in one call.

DROP FUNCTION hilo_lease(hilo_sequence, bigint, text, interval);
CREATE FUNCTION hilo_lease(
    name hilo_sequence, n bigint, holder text DEFAULT NULL, ttl interval DEFAULT NULL, lease uuid DEFAULT NULL,
    OUT lease uuid, OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint,
    OUT expires_at timestamptz, OUT key_format text, OUT server_prefix text, OUT suggested bigint
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lease_wrapper';
COMMENT ON FUNCTION hilo_lease(hilo_sequence, bigint, text, interval, uuid) IS
    'Leases out up to n values: first, first + increment, ... last, which nobody else gets from the commit of the '
    'transaction on; count says how many. There are fewer than n at a bound of the sequence, at the end of a stripe, '
    'and where it leases a returned rest. holder: who takes it, for hilo_leases and hilo_lease_revoke. ttl: after '
    'this time the values become a gap; null: never. suggested: how many to ask for the next time, by the rate that '
    'the server sees. If the transaction is rolled back, the values become a gap. Requires UPDATE. Errors: as for '
    'hilo_nextval, 22023 for NULL, unless n is from 1 to 1000000000, and unless ttl is positive, 0A000 if the '
    'sequence cycles, is ordered or gapless, or the transaction is prepared, 40001 at the commit if the sequence was '
    'renumbered or dropped meanwhile, 54000 for too many leases in open transactions. lease: its name, a random uuid; '
    'null: the server chooses one. The same call again, by the same role, returns the same lease as long as it is '
    'open. 42710: it has ended, or is another one.';
ALTER FUNCTION hilo_lease(hilo_sequence, bigint, text, interval, uuid) SUPPORT hilo.planner_support;

-- The search_path is that of this script: the extension's schema, after pg_catalog. Others may create objects there, so what
-- has no exact operand of core's is written with its schema.
--
-- PL/pgSQL, so that what is refused fails by itself. What somebody has locked must not hold up the rest: each such call
-- halves how long the next one may wait, so that all of them together take no longer than twice the first.
CREATE FUNCTION hilo_refill(
    returns uuid[] DEFAULT '{}', nexts bigint[] DEFAULT '{}', renewals uuid[] DEFAULT '{}', names text[] DEFAULT '{}',
    sizes bigint[] DEFAULT '{}', leases uuid[] DEFAULT NULL, holder text DEFAULT NULL, ttl interval DEFAULT NULL
) RETURNS TABLE (
    kind text, name text, lease uuid, first bigint, last bigint, increment bigint, count bigint,
    expires_at timestamptz, key_format text, server_prefix text, suggested bigint,
    sqlstate text, message text, detail text, hint text
)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 100
    SET search_path FROM CURRENT SET lock_timeout = '100ms'
AS $refill$
DECLARE
    call record;
    patience CONSTANT text := pg_catalog.current_setting('hilo.reserve_timeout', true);
    reserve_ms double precision := least(250, 1000.0 * extract(epoch FROM patience::interval));
    lock_ms double precision := 100;
BEGIN
    IF (SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
         WHERE e.extname = 'hilo') IS DISTINCT FROM (pg_catalog.current_schemas(false))[1]
    THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'the schema of extension hilo has been renamed',
            HINT = 'Let the search_path of hilo_refill begin with that schema: ALTER FUNCTION ... SET search_path.';
    ELSIF returns IS NULL OR nexts IS NULL OR renewals IS NULL OR names IS NULL OR sizes IS NULL
       OR pg_catalog.array_position(returns, NULL) IS NOT NULL
       OR pg_catalog.array_position(nexts, NULL) IS NOT NULL
       OR pg_catalog.array_position(renewals, NULL) IS NOT NULL
       OR pg_catalog.array_position(names, NULL) IS NOT NULL
       OR pg_catalog.array_position(sizes, NULL) IS NOT NULL
       OR pg_catalog.array_position(leases, NULL) IS NOT NULL
    THEN
        RAISE invalid_parameter_value USING MESSAGE = 'arrays must neither be null nor contain null',
            HINT = 'Only leases may be null as a whole: then the server names the leases.';
    ELSIF pg_catalog.cardinality(returns) <> pg_catalog.cardinality(nexts) OR pg_catalog.cardinality(names) <> pg_catalog.cardinality(sizes)
       OR pg_catalog.cardinality(leases) <> pg_catalog.cardinality(names)
    THEN
        RAISE invalid_parameter_value USING MESSAGE = 'arrays that belong together must be of one length',
            DETAIL = pg_catalog.format('returns %s, nexts %s; names %s, sizes %s, leases %s.', pg_catalog.cardinality(returns),
                            pg_catalog.cardinality(nexts), pg_catalog.cardinality(names), pg_catalog.cardinality(sizes), pg_catalog.cardinality(leases)),
            HINT = 'Each lease to return has its next value, and each sequence a size and the name of its lease.';
    ELSIF (SELECT pg_catalog.count(DISTINCT l) <> pg_catalog.count(*) FROM pg_catalog.unnest(leases) l)
    THEN
        RAISE invalid_parameter_value USING MESSAGE = 'two leases of one call have the same name',
            HINT = 'Give each lease a uuid of its own.';
    END IF;
    PERFORM pg_catalog.set_config('hilo.reserve_timeout', pg_catalog.format('%sms', pg_catalog.ceil(reserve_ms)), true);
    FOR call IN
        SELECT 'returned' AS kind, NULL::text AS name, r.lease, r.next AS n
          FROM ROWS FROM (pg_catalog.unnest(returns), pg_catalog.unnest(nexts)) AS r (lease, next)
        UNION ALL SELECT 'renewed', NULL, r.lease, NULL FROM pg_catalog.unnest(renewals) AS r (lease)
        UNION ALL SELECT 'leased', a.name, a.lease, a.n
          FROM ROWS FROM (pg_catalog.unnest(names), pg_catalog.unnest(sizes), pg_catalog.unnest(leases)) AS a (name, n, lease)
    LOOP
        SELECT call.kind, call.name, call.lease INTO kind, name, lease, first, last, increment, count, expires_at,
               key_format, server_prefix, suggested, hilo_refill.sqlstate, message, detail, hint;
        BEGIN
            CASE call.kind
            WHEN 'returned' THEN count := hilo_lease_return(call.lease, call.n);
            WHEN 'renewed' THEN expires_at := hilo_lease_renew(call.lease, ttl);
            ELSE
                SELECT l.* INTO lease, first, last, increment, count, expires_at, key_format, server_prefix, suggested
                  FROM hilo_lease(call.name::hilo_sequence, call.n, holder, ttl, call.lease) AS l;
            END CASE;
        EXCEPTION
            WHEN read_only_sql_transaction THEN
                RAISE;
            WHEN OTHERS THEN
                hilo_refill.sqlstate := SQLSTATE;
                GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                                        hint = PG_EXCEPTION_HINT;
                detail := nullif(detail, '');
                hint := nullif(hint, '');
        END;
        IF hilo_refill.sqlstate = '55P03' THEN
            reserve_ms := reserve_ms / 2::double precision;
            lock_ms := lock_ms / 2::double precision;
            PERFORM pg_catalog.set_config('hilo.reserve_timeout', pg_catalog.format('%sms', pg_catalog.ceil(reserve_ms)), true),
                    pg_catalog.set_config('lock_timeout', pg_catalog.format('%sms', pg_catalog.ceil(lock_ms)), true);
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM pg_catalog.set_config('hilo.reserve_timeout', patience, true);
END;
$refill$;
COMMENT ON FUNCTION hilo_refill(uuid[], bigint[], uuid[], text[], bigint[], uuid[], text, interval) IS
    'Does in one call all that a client needs that serves leases from its memory. Returns '
    'leases, each with the first value that was not used (nexts), and renews others for ttl. '
    'Takes leases of sequences (names), each of up to so many values (sizes), for a holder and '
    'a ttl. leases: their names; null: the server chooses them. Returns a row for each: kind '
    '(returned, renewed, leased), with the result of hilo_lease_return, hilo_lease_renew or '
    'hilo_lease. One that was refused has sqlstate, message, detail and hint; it changes '
    'nothing and fails no other. Waits for half a second in all, or twice hilo.reserve_timeout, '
    'for sequences that others have locked, and 0.2 s for leases. Errors: 22023 for arrays that '
    'are null, contain null, or are not of one length; 25006; the commit may fail as for the '
    'functions of each row.';
COMMENT ON FUNCTION hilo_set_owner(hilo_sequence, text) IS
    'Gives a sequence to another role. Requires ownership of the sequence. Unless the caller is '
    'a superuser, it must be a member of the new owner, which must have CREATE on the schema of '
    'the extension. Errors: 42704 if the sequence or the role does not exist, 42501.';
COMMENT ON FUNCTION hilo_grant(hilo_sequence, text, text) IS
    'Grants a privilege on a sequence to a role or to PUBLIC. USAGE: next values, currval, '
    'keys. SELECT: currval, reading. UPDATE: next values, setval, ranges and hi. ALL, or a list '
    'with commas, are possible too. Requires ownership of the sequence. Errors: 42704 if the '
    'sequence or the role does not exist, 22023 for another privilege, 42501.';
COMMENT ON FUNCTION hilo_nextval_always(hilo_sequence) IS
    'Returns the next value of a sequence, as hilo_nextval does. A column with this default is '
    'GENERATED ALWAYS. An INSERT with another value than DEFAULT is refused without OVERRIDING '
    'SYSTEM VALUE, and so is an UPDATE (428C9).';
COMMENT ON FUNCTION hilo_grant_all(text, text, text, text) IS
    'Grants a privilege, as hilo_grant does, on every sequence of the caller whose name matches '
    'a pattern of LIKE. owner: the sequences of that role instead. Returns the number of these '
    'sequences. A WARNING counts other matching sequences that the caller may see. Sequences '
    'that are created later are not included: see hilo_default_grant. Errors: 42704 if a role '
    'does not exist, 22023 for another privilege, for NULL, and for a pattern that ends with an '
    'escape character, 42501 if the caller does not have the privileges of owner.';
COMMENT ON FUNCTION hilo_default_grant(text, text, text, text) IS
    'Makes sequences that the caller will create start with a privilege for grantee, if their '
    'names match a pattern of LIKE. for_role: the sequences of that role instead. Existing '
    'sequences stay as they are: see hilo_grant_all. The view hilo_default_privileges shows '
    'these privileges. Errors: 42704 if a role does not exist, 22023 for another privilege, for '
    'NULL, and for a pattern that ends with an escape character, 42501 if the caller does not '
    'have the privileges of for_role.';
COMMENT ON FUNCTION hilo_currval(hilo_sequence) IS
    'Returns the value that this session last obtained from a sequence. One that a rollback has '
    'taken back, as of a gapless sequence, does not count. Requires USAGE or SELECT. Errors: '
    '55000 if the session has obtained none, 42704, 42501.';
COMMENT ON FUNCTION hilo.planner_support(internal) IS
    'Planner support function of all functions that give out values. Lets COPY FROM insert many '
    'rows at a time into tables whose column defaults draw from a sequence. A session that has '
    'not loaded hilo loads it before it plans a call';
COMMENT ON FUNCTION hilo.copy_nextval(hilo_sequence, internal) IS
    'COPY FROM calls it instead of hilo_nextval and hilo_nextval_always in column defaults; SQL '
    'cannot call it';
COMMENT ON FUNCTION hilo.copy_nextkey(hilo_sequence, internal) IS
    'COPY FROM calls it instead of hilo_nextkey in column defaults; SQL cannot call it';
COMMENT ON FUNCTION hilo_report() IS
    'Returns one HTML page of what the views and hilo_check show the caller. It has the '
    'findings, the sequences that need attention most, gaps, leases and changed settings, each '
    'up to 200 rows. The page is ASCII and loads nothing. It changes nothing, and runs on a '
    'standby too. A part that cannot be read is said to be so in the page.';
COMMENT ON COLUMN hilo_blocks.tier IS
    'slice: held by a session. current: being served. standby: served next. returned: returned '
    'by a session and ready to be taken. leased: an open transaction leases them out';
COMMENT ON VIEW hilo_default_privileges IS
    'Privileges that new sequences start with, as hilo_default_grant has set them: on sequences '
    'of the current user, or for the current user';
COMMENT ON TYPE hilo.role IS
    'Role that owns or may use a hilo sequence: its name as an identifier, public for all '
    'roles, or - for one that does not exist';

-- Adopting many columns at once: SQL over what hilo_adopt does with one.

CREATE FUNCTION hilo.has_word(source text, word text) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN pg_catalog.strpos(pg_catalog.lower(source), pg_catalog.lower(word)) > 0
           AND (word ~ '[^[:alnum:]_]'
                OR pg_catalog.lower(word) = ANY (pg_catalog.regexp_split_to_array(pg_catalog.lower(source), '[^[:alnum:]_]+')));
COMMENT ON FUNCTION hilo.has_word(text, text) IS 'Whether a text contains a word, in whatever case';

CREATE FUNCTION hilo.mentions(sequence oid) RETURNS SETOF text
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    WITH named AS (
        SELECT c.relname::text AS name FROM pg_catalog.pg_class c WHERE c.oid = sequence
    ), fed AS (
        SELECT DISTINCT c.relname::text AS name
          FROM hilo.core_feeds() f JOIN pg_catalog.pg_class c ON c.oid = f.relation
         WHERE f.sequence = mentions.sequence
    ), code AS (
        SELECT p.oid, p.prosrc FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
         WHERE l.lanname NOT IN ('internal'::name, 'c'::name)
           -- Not those of Postgres and of extensions.
           AND p.oid >= 16384::oid
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
                            WHERE d.classid = 1255::oid AND d.objid = p.oid AND d.deptype = 'e')
    )
    -- Postgres itself knows views, rules, triggers, policies, domains, and functions with a body of
    -- SQL.
    SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
      FROM pg_catalog.pg_depend d
     WHERE d.refclassid = 1259::oid AND d.refobjid = mentions.sequence AND d.deptype = 'n' AND d.classid <> 2604::oid
     UNION
    -- Only the text tells of the rest.
    SELECT pg_catalog.pg_describe_object(1255::oid, p.oid, 0) FROM code p JOIN named n ON hilo.has_word(p.prosrc, n.name)
     UNION
    SELECT pg_catalog.pg_describe_object(1255::oid, p.oid, 0)
      FROM code p JOIN fed n ON p.prosrc ~* 'lastval|pg_get_serial_sequence' AND hilo.has_word(p.prosrc, n.name)
     UNION
    SELECT pg_catalog.pg_describe_object(1247::oid, t.oid, 0)
      FROM pg_catalog.pg_type t JOIN named n ON hilo.has_word(t.typdefault, n.name)
     UNION
    SELECT pg_catalog.pg_describe_object(2620::oid, t.oid, 0)
      FROM pg_catalog.pg_trigger t JOIN named n ON hilo.has_word(pg_catalog.encode(t.tgargs, 'escape'), n.name)
     ORDER BY 1;
END;
COMMENT ON FUNCTION hilo.mentions(oid) IS
    'Returns the objects that draw from a sequence of Postgres, besides column defaults. They depend on it, or have '
    'its name in their text. Others are functions that call lastval or pg_get_serial_sequence and name a table that '
    'it feeds';

CREATE FUNCTION hilo.adopt_sequence(sequence regclass, name hilo_sequence, mentions text) RETURNS hilo_sequence
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_adopt_columns_wrapper';
COMMENT ON FUNCTION hilo.adopt_sequence(regclass, hilo_sequence, text) IS
    'hilo_adopt for all columns that a sequence feeds, with a NOTICE of what else mentions it';

CREATE FUNCTION hilo_adopt_sequence(sequence regclass, name hilo_sequence DEFAULT NULL) RETURNS hilo_sequence
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN hilo.adopt_sequence(sequence, name, (SELECT pg_catalog.string_agg(m.what, pg_catalog.chr(10))
                                                  FROM hilo.mentions(sequence::oid) AS m (what)));
COMMENT ON FUNCTION hilo_adopt_sequence(regclass, hilo_sequence) IS
    'Makes all columns that a sequence of Postgres feeds draw from one new hilo sequence, as hilo_adopt does for one '
    'column, and returns its name. It continues beyond the old one and beyond the values of all the columns. The owner of '
    'the tables owns it; if they have several, the owner of the old one. A NOTICE lists functions, views, rules, triggers, '
    'policies and domains that still name the old one, as far as their text or Postgres tells. Requires ownership of all '
    'the tables. Changes nothing if one of the columns cannot be moved. Errors: as for hilo_adopt, 55000 if it feeds no column.';

CREATE FUNCTION hilo.adoptable(schema oid)
    RETURNS TABLE (
        place bigint, relation regclass, column_name name, sequence regclass, follows boolean, name text, action text, detail text
    )
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    WITH fed AS MATERIALIZED (
        SELECT f.relation, f.number, pg_catalog.min(f.sequence) AS sequence FROM hilo.core_feeds() f GROUP BY f.relation, f.number
    ), heir AS MATERIALIZED (
        SELECT f.relation, f.number, pg_catalog.min(i.inhparent) AS parent
          FROM fed f
          JOIN pg_catalog.pg_attribute a ON a.attrelid = f.relation AND a.attnum = f.number
          JOIN pg_catalog.pg_inherits i ON i.inhrelid = f.relation
          JOIN pg_catalog.pg_attribute p ON p.attrelid = i.inhparent AND p.attname = a.attname
          JOIN fed q ON q.relation = p.attrelid AND q.number = p.attnum
         GROUP BY f.relation, f.number
    ), root AS (
        SELECT f.relation, f.number, f.sequence, c.relnamespace <> adoptable.schema AS elsewhere,
               pg_catalog.format('%s.%I', f.relation::regclass::text, a.attname) AS object
          FROM fed f
          JOIN pg_catalog.pg_class c ON c.oid = f.relation
          JOIN pg_catalog.pg_attribute a ON a.attrelid = f.relation AND a.attnum = f.number
         WHERE NOT EXISTS (SELECT FROM heir h WHERE h.relation = f.relation AND h.number = f.number)
    ), shared AS (
        SELECT r.sequence, pg_catalog.count(*) > 1 AS several, pg_catalog.min(r.object) FILTER (WHERE r.elsewhere) AS elsewhere,
               pg_catalog.min(r.object) AS leader, pg_catalog.string_agg(r.object, ', ' ORDER BY r.object) AS objects
          FROM root r GROUP BY r.sequence
    ), drawn AS (
        SELECT d.relation, d.number, pg_catalog.min(d.name) AS name, pg_catalog.min(d.name) FILTER (WHERE d.missing) AS missing
          FROM hilo.column_defaults() d GROUP BY d.relation, d.number
    ), every AS (
        SELECT c.oid AS relation, a.attname AS column_name, f.sequence, d.name, d.missing, h.parent, s.several, s.elsewhere, s.objects,
               s.leader, pg_catalog.format('%s.%I', c.oid::regclass::text, a.attname) AS object,
               CASE WHEN e.oid IS NULL THEN t.typdefault END AS of_domain, t.oid::regtype::text AS domain,
               (SELECT pg_catalog.min(x.extname::text) FROM pg_catalog.pg_depend e JOIN pg_catalog.pg_extension x ON x.oid = e.refobjid
                 WHERE e.classid = 1259::oid AND e.objid = c.oid AND e.refclassid = 3079::oid AND e.deptype = 'e') AS extension
          FROM pg_catalog.pg_class c
          JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0::smallint AND NOT a.attisdropped
          LEFT JOIN pg_catalog.pg_attrdef e ON e.adrelid = c.oid AND e.adnum = a.attnum
          LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid AND t.typtype = 'd' AND c.relkind <> 'v'
          LEFT JOIN fed f ON f.relation = c.oid AND f.number = a.attnum
          LEFT JOIN heir h ON h.relation = c.oid AND h.number = a.attnum
          LEFT JOIN shared s ON s.sequence = f.sequence
          LEFT JOIN drawn d ON d.relation = c.oid AND d.number = a.attnum
         WHERE c.relnamespace = adoptable.schema AND c.relkind IN ('r', 'p', 'f', 'v')
           AND (f.sequence IS NOT NULL OR d.name IS NOT NULL OR COALESCE(pg_catalog.pg_get_expr(e.adbin, e.adrelid), t.typdefault) ~ 'nextval[(]')
    )
    SELECT pg_catalog.row_number() OVER (
               -- The columns of a shared sequence follow the first of them.
               ORDER BY COALESCE(CASE WHEN e.parent IS NULL THEN e.leader END, e.object) COLLATE "C",
                        e.object <> e.leader, e.object COLLATE "C") AS place,
           e.relation::regclass, e.column_name, e.sequence::regclass,
           e.leader IS NOT NULL AND e.parent IS NULL AND e.object <> e.leader, e.name,
           CASE WHEN e.name IS NOT NULL OR e.parent IS NOT NULL OR e.of_domain ~ 'hilo_nextval[(]' THEN 'skip'
                WHEN e.sequence IS NULL AND e.of_domain IS NOT NULL OR e.extension IS NOT NULL OR e.several AND e.elsewhere IS NOT NULL THEN 'refuse' END,
           CASE WHEN e.missing IS NOT NULL
                THEN pg_catalog.format('its default names hilo sequence "%s", which does not exist: use hilo_create_missing', e.missing)
                WHEN e.name IS NOT NULL OR e.of_domain ~ 'hilo_nextval[(]' THEN 'hilo feeds it already'
                WHEN e.parent IS NOT NULL THEN pg_catalog.format('it goes along with %s', e.parent::regclass::text)
                WHEN e.sequence IS NULL AND e.of_domain IS NOT NULL
                THEN pg_catalog.format('its domain %s has the default %s: use hilo_create, with the next value of the sequence, '
                                       'and ALTER DOMAIN', e.domain, e.of_domain)
                WHEN e.extension IS NOT NULL THEN pg_catalog.format('its table belongs to extension %I', e.extension)
                WHEN e.several AND e.elsewhere IS NOT NULL
                THEN pg_catalog.format('sequence %s feeds columns of other schemas too, such as %s: use hilo_adopt_sequence',
                                       e.sequence::regclass::text, e.elsewhere)
                WHEN e.several THEN pg_catalog.format('sequence %s, with all that it feeds: %s', e.sequence::regclass::text, e.objects)
                WHEN e.sequence IS NOT NULL THEN pg_catalog.format('sequence %s', e.sequence::regclass::text) END
      FROM every e
     ORDER BY place;
END;
COMMENT ON FUNCTION hilo.adoptable(oid) IS
    'Returns the columns of a schema that draw from a sequence of Postgres or of hilo''s. action: what hilo_adopt_all does '
    'without trying. follows: it goes along with the row before it';

CREATE FUNCTION hilo.try_adopt(
    relation regclass, column_name name, sequence regclass, dry_run boolean, OUT name text, OUT failure text, OUT said text
)
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_try_adopt_wrapper';
COMMENT ON FUNCTION hilo.try_adopt(regclass, name, regclass, boolean) IS
    'hilo_adopt for a column or, with a sequence, for all columns that it feeds. Returns the name of the new sequence and what '
    'hilo_adopt tells, or the error. dry_run: only checks what can be checked without a lock';

CREATE FUNCTION hilo_adopt_all(schema name, dry_run boolean DEFAULT false)
    RETURNS TABLE (relation regclass, column_name name, name text, action text, detail text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    -- One row after the other: what names a sequence is looked up before that is gone.
    WITH found AS MATERIALIZED (
        SELECT a.*, a.sequence::text AS old,
               CASE WHEN a.action IS NULL AND NOT a.follows THEN ARRAY(SELECT m FROM hilo.mentions(a.sequence::oid) m) END AS mentions
          FROM hilo.adoptable(pg_catalog.quote_ident(schema::text)::regnamespace::oid) a
    ), tried AS MATERIALIZED (
        SELECT f.place, f.sequence, f.old, f.mentions, t.name, t.failure, t.said
          FROM found f CROSS JOIN LATERAL hilo.try_adopt(f.relation, f.column_name, f.sequence, dry_run) t
         WHERE f.action IS NULL AND NOT f.follows
    )
    SELECT r.relation, r.column_name, r.name, r.action, r.detail
      FROM (SELECT f.place, 0 AS part, f.relation, f.column_name, COALESCE(f.name, t.name) AS name,
                   COALESCE(f.action, CASE WHEN t.failure IS NULL THEN 'adopt' ELSE 'refuse' END) AS action,
                   COALESCE(t.failure, pg_catalog.concat_ws('; ', f.detail, CASE WHEN NOT f.follows THEN t.said END)) AS detail
              FROM found f
              LEFT JOIN tried t ON f.action IS NULL AND (t.place = f.place OR f.follows AND t.sequence::oid = f.sequence::oid)
             UNION ALL
            SELECT t.place, 1, NULL::regclass, NULL::name, t.name, 'change',
                   pg_catalog.format('%s still names sequence %s: let it use hilo sequence "%s"', m.what, t.old, t.name)
              FROM tried t
             CROSS JOIN LATERAL pg_catalog.unnest(t.mentions) AS m (what)
             WHERE t.failure IS NULL) r
     ORDER BY r.place, r.part, r.detail COLLATE "C";
END;
COMMENT ON FUNCTION hilo_adopt_all(name, boolean) IS
    'Calls hilo_adopt or hilo_adopt_sequence for each column of a schema that a sequence of Postgres feeds. Returns a '
    'row for each column that draws from any sequence. action: adopt; skip, if hilo feeds it or should, or it follows '
    'the table that it inherits from; refuse, for a reason that detail has, such as a domain that draws; change, '
    'without a column, for an object that still names an old sequence, as hilo_adopt_sequence lists it. detail also '
    'has the notices and warnings of hilo_adopt. dry_run: changes and locks nothing, and returns the same rows, as '
    'far as that can be told without locks. Requires ownership of each table: the others are refused. Errors: 3F000 '
    'if the schema does not exist.';

-- Branches.
CREATE OR REPLACE VIEW hilo_leases WITH (security_barrier) AS
    SELECT CASE WHEN e.may_end THEN l.lease END AS lease,
           s.name,
           l.holder,
           pg_catalog.pg_get_userbyid(l.role::oid) AS usename,
           CASE WHEN e.may_end THEN l.client_addr END AS client_addr,
           l.first_value AS first, l.last_value AS last,
           l.end_index - l.first_index AS count,
           l.leased_at, l.expires_at, l.node AS node_id,
           pg_catalog.concat_ws('.', s.id, l.epoch >> 24, l.increment) AS numbering
      FROM _hilo.lease l
      JOIN hilo.readable s ON s.id = l.sequence
     CROSS JOIN LATERAL (
         SELECT pg_catalog.pg_has_role(s.owner::oid, 'USAGE')
             OR l.role <> '-'::hilo.role AND pg_catalog.pg_has_role(l.role::oid, 'USAGE') AS may_end
     ) e
     WHERE l.ended IS NULL AND (l.expires_at IS NULL OR l.expires_at > pg_catalog.clock_timestamp());
COMMENT ON COLUMN hilo_leases.numbering IS 'Numbering of the sequence that the values belong to, as in hilo_sequences';

-- PL/pgSQL, because an error has to name the request. A statement after hilo_lease reads the newest
-- rows, so a request that comes late finds the one that came after it.
CREATE FUNCTION hilo_transfer(
    name hilo_sequence, n bigint, receiver text, request uuid,
    OUT lease uuid, OUT first bigint, OUT last bigint, OUT increment bigint, OUT count bigint,
    OUT expires_at timestamptz, OUT key_format text, OUT server_prefix text, OUT suggested bigint, OUT numbering text
)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $transfer$
DECLARE
    known record;
    refusal text;
BEGIN
    -- It may have been renamed.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('%I, pg_temp', n.nspname), true)
       FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'hilo';
    IF receiver IS NULL OR request IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'receiver and request must not be null',
            HINT = 'Name the server that gets the values, and give each of its requests a uuid of its own.';
    ELSIF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE feature_not_supported USING MESSAGE = 'cannot transfer values in a transaction that is not READ COMMITTED',
            HINT = 'Such a transaction cannot see which requests others have made. Call it in a transaction of its own.';
    END IF;
    SELECT l.* INTO known FROM hilo_leases l WHERE l.lease = request;
    SELECT l.* INTO lease, first, last, increment, count, expires_at, key_format, server_prefix, suggested
      FROM hilo_lease(name, greatest(n, known.count), receiver, NULL::interval, request) AS l;
    SELECT l.* INTO STRICT known FROM hilo_leases l WHERE l.lease = request;
    numbering := known.numbering;
    IF known.holder <> receiver OR known.holder IS NULL THEN
        refusal := 'Another receiver has made it.';
    END IF;
    FOR known IN
        SELECT l.* FROM hilo_leases l
         WHERE l.holder = receiver AND l.name = known.name AND l.lease <> request AND l.usename = current_user
    LOOP
        IF pg_catalog.substr(request::text, 15, 1) = '7' AND pg_catalog.substr(known.lease::text, 15, 1) = '7'
           AND request < known.lease
        THEN
            refusal := 'The receiver has made another one since, so its range counts as used.';
        ELSE
            PERFORM hilo_lease_return(known.lease,
                known.last + pg_catalog.split_part(known.numbering, '.', 3)::bigint);
        END IF;
    END LOOP;
    IF refusal IS NOT NULL THEN
        RAISE duplicate_object USING MESSAGE = pg_catalog.format('request %s has been made before', request),
            DETAIL = refusal, HINT = 'Make a new request, with another uuid.';
    END IF;
END;
$transfer$;
COMMENT ON FUNCTION hilo_transfer(hilo_sequence, bigint, text, uuid) IS
    'Gives up to n values to another server permanently, which serves them and accounts for them. Returns the columns '
    'of hilo_lease, for a lease that does not expire, and numbering, as in hilo_sequences. receiver: a name that only '
    'this server has. The same request again returns the same values, until the receiver makes the next request. Then '
    'they count as used, and are no lease any more. A receiver makes one request at a time, and repeats it until it '
    'has the answer. Requests that rise, as uuids of version 7 do, are refused if they come after a later one. '
    'Requires UPDATE. Errors: as for hilo_lease, 42710 for a request that another receiver or role has made, or that '
    'has ended: the receiver needs a new uuid then; 22023 for NULL, 0A000 unless the transaction is READ COMMITTED, '
    '42704 at the commit if the receiver makes two requests at once.';

-- The sequences that column defaults name and that do not exist. No query reads the columns, and no code of their
-- owners runs: hilo_sync reads what their tables store.

CREATE FUNCTION hilo.missing_defaults() RETURNS TABLE (relation oid, number smallint, name text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_missing_defaults_wrapper';
COMMENT ON FUNCTION hilo.missing_defaults() IS
    'Returns the columns whose default names a sequence that does not exist, and the name';

CREATE FUNCTION hilo.stored_type(relation oid, number smallint) RETURNS oid
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_stored_type_wrapper';
COMMENT ON FUNCTION hilo.stored_type(oid, smallint) IS
    'Returns the type of a column, below all domains; null unless its table is the caller''s, and stored in this database';

CREATE FUNCTION hilo.lock_against_writers(relation oid) RETURNS oid
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_lock_against_writers_wrapper';
COMMENT ON FUNCTION hilo.lock_against_writers(oid) IS
    'Lets nobody else write to a table of the caller, who may create sequences. Returns the table';

CREATE FUNCTION hilo.missing() RETURNS TABLE (
    name text, relation oid, column_name name, type oid, owner oid, inherits boolean, lacked boolean, obstacle text
)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    WITH RECURSIVE named AS MATERIALIZED (
        SELECT DISTINCT d.name, d.relation, d.number, a.attname, c.relowner,
               pg_catalog.pg_has_role(c.relowner, 'USAGE') AS own,
               pg_catalog.format('Column %I.%I.%I uses it', n.nspname, c.relname, a.attname) AS uses
          FROM hilo.missing_defaults() d
          JOIN pg_catalog.pg_class c ON c.oid = d.relation
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_catalog.pg_attribute a ON a.attrelid = d.relation AND a.attnum = d.number
         WHERE NOT pg_catalog.pg_is_other_temp_schema(n.oid)
    ), above AS (
        SELECT q.relation, q.relation AS parent FROM named q
         UNION
        SELECT a.relation, i.inhparent FROM above a JOIN pg_catalog.pg_inherits i ON i.inhrelid = a.parent
    ), judged AS MATERIALIZED (
        SELECT q.*, pg_catalog.bool_or(q.own) OVER one AS lacked,
               pg_catalog.min(q.relowner) OVER one <> pg_catalog.max(q.relowner) OVER one AS several,
               CASE WHEN pg_catalog.bool_and(q.own) OVER one THEN hilo.stored_type(q.relation, q.number) END AS type
          FROM named q WINDOW one AS (PARTITION BY q.name)
    ), explained AS (
        SELECT j.*, j.uses || CASE
                   WHEN NOT j.own THEN ', whose table belongs to another role.'
                   WHEN j.several THEN ', and so do columns of other roles'' tables.'
                   WHEN j.type IS NULL
                   THEN ', whose rows are not read: only a table that is stored in this database has any.' END AS why
          FROM judged j
    )
    SELECT e.name, e.relation, e.attname, e.type, e.relowner,
           EXISTS (SELECT FROM above a JOIN named p ON p.relation = a.parent
                    WHERE a.relation = e.relation AND a.parent <> e.relation AND p.name = e.name
                      AND p.attname = e.attname),
           e.lacked,
           pg_catalog.first_value(e.why) OVER (
               PARTITION BY e.name ORDER BY e.why IS NULL, e.own, e.relation, e.number)
      FROM explained e;
END;
COMMENT ON FUNCTION hilo.missing() IS
    'Returns the columns whose default names a sequence that does not exist. inherits: a column of a table above stands for '
    'both. obstacle: why the caller cannot create the sequence. lacked: a table of the caller lacks it';

CREATE FUNCTION hilo.say_missing(name text, lacked boolean, obstacle text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $say$
DECLARE
    what CONSTANT text := format('hilo sequence "%s" does not exist and is not created, skipping', name);
BEGIN
    IF lacked THEN
        RAISE WARNING USING ERRCODE = 'insufficient_privilege', MESSAGE = what, DETAIL = obstacle,
            HINT = 'Create it with hilo_create, with a start_value beyond what these columns hold.';
    ELSE
        RAISE NOTICE USING ERRCODE = 'insufficient_privilege', MESSAGE = what, DETAIL = obstacle;
    END IF;
END;
$say$;
COMMENT ON FUNCTION hilo.say_missing(text, boolean, text) IS
    'Says which sequence hilo_create_missing leaves out, and why';

CREATE FUNCTION hilo.create_beyond(name text, owner oid, relations oid[], columns name[], types oid[]) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    -- The narrowest type, so that the sequence ends with an error of its own.
    SELECT hilo_create(name::hilo_sequence, data_type => COALESCE((
               SELECT pg_catalog.min(u.type) FROM pg_catalog.unnest(types) AS u (type) WHERE u.type IN (21::oid, 23::oid)
           ), 20::oid)::regtype);
    SELECT hilo_set_owner(name::hilo_sequence, pg_catalog.pg_get_userbyid(owner)::text);
    SELECT hilo_sync(name::hilo_sequence, u.relation::regclass, u.column_name)
      FROM ROWS FROM (pg_catalog.unnest(relations), pg_catalog.unnest(columns), pg_catalog.unnest(types)) AS u (relation, column_name, type)
     WHERE u.type IN (20::oid, 21::oid, 23::oid, 25::oid, 1042::oid, 1043::oid, 1700::oid);
    SELECT hilo_advance(name::hilo_sequence, 0);
END;
COMMENT ON FUNCTION hilo.create_beyond(text, oid, oid[], name[], oid[]) IS
    'Creates a sequence that begins beyond what columns hold, and returns its next value';

CREATE FUNCTION hilo.create_missing(locked oid[])
    RETURNS TABLE (name text, relation regclass, column_name name, next_value bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT hilo.say_missing(o.name, o.lacked, o.obstacle)
      FROM (SELECT DISTINCT m.name, m.lacked, m.obstacle FROM hilo.missing() m
             WHERE m.obstacle IS NOT NULL ORDER BY m.name) o;
    -- A wait for a lock may have brought more. They are left for the next call.
    WITH found AS MATERIALIZED (
        SELECT m.* FROM hilo.missing() m WHERE m.obstacle IS NULL AND NOT m.inherits
    ), made AS MATERIALIZED (
        SELECT w.name, hilo.create_beyond(w.name, w.owner, w.relations, w.columns, w.types) AS next_value
          FROM (SELECT f.name, pg_catalog.min(f.owner) AS owner,
                       pg_catalog.array_agg(f.relation ORDER BY f.relation, f.column_name) AS relations,
                       pg_catalog.array_agg(f.column_name ORDER BY f.relation, f.column_name) AS columns,
                       pg_catalog.array_agg(f.type ORDER BY f.relation, f.column_name) AS types
                  FROM found f GROUP BY f.name HAVING pg_catalog.bool_and(f.relation = ANY (locked))
                 ORDER BY f.name) w
    )
    SELECT f.name, f.relation::regclass, f.column_name, m.next_value
      FROM made m JOIN found f ON f.name = m.name
     ORDER BY f.name, f.relation, f.column_name;
END;
COMMENT ON FUNCTION hilo.create_missing(oid[]) IS 'Does what hilo_create_missing does, for tables that are locked';

CREATE OR REPLACE FUNCTION hilo_create_missing()
    RETURNS TABLE (name text, relation regclass, column_name name, next_value bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT c.name, c.relation, c.column_name, c.next_value
      FROM hilo.create_missing(ARRAY(
               SELECT hilo.lock_against_writers(t.relation)
                 FROM (SELECT DISTINCT m.relation FROM hilo.missing() m
                        WHERE m.obstacle IS NULL AND NOT m.inherits ORDER BY m.relation) t)) c;
END;
COMMENT ON FUNCTION hilo_create_missing() IS
    'Creates the sequences that column defaults name and that do not exist. Each has the data '
    'type of its narrowest column, and is moved past what its columns hold, as by hilo_sync. '
    'Returns a row for each such column with the next value; null: none is left. The owner of '
    'the tables owns the sequence. Keeps other sessions from writing to the tables until the '
    'transaction ends. Leaves out sequences of tables that the caller does not own, or that '
    'several roles own. Leaves out those of views and other relations whose rows are not stored '
    'in this database, too. A WARNING says so if a table of the caller names the sequence, else '
    'a NOTICE. Errors: 42501 without CREATE on the schema of the extension, 55P03 after '
    'lock_timeout.';
