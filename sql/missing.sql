-- hilo_create_missing: the sequences that column defaults name and that do not exist. No query
-- reads the columns, and no code of their owners runs: hilo_sync reads what their tables store.

CREATE FUNCTION _hilo.hilo_missing_defaults()
    RETURNS TABLE (relation oid, number smallint, name text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    AS 'MODULE_PATHNAME', 'hilo_missing_defaults_wrapper';
COMMENT ON FUNCTION _hilo.hilo_missing_defaults() IS
    'Returns the columns whose default names a sequence that does not exist, and the name';

CREATE FUNCTION _hilo.hilo_stored_type(relation oid, number smallint) RETURNS oid
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_stored_type_wrapper';
COMMENT ON FUNCTION _hilo.hilo_stored_type(oid, smallint) IS
    'Returns the type of a column, below all domains; null unless its table is the caller''s, and '
    'stored in this database';

CREATE FUNCTION _hilo.hilo_lock_against_writers(relation oid) RETURNS oid
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'hilo_lock_against_writers_wrapper';
COMMENT ON FUNCTION _hilo.hilo_lock_against_writers(oid) IS
    'Lets nobody else write to a table of the caller, who may create sequences. Returns the table';

CREATE FUNCTION _hilo.hilo_missing() RETURNS TABLE (
    name text, relation oid, column_name name, type oid, owner oid,
    inherits boolean, lacked boolean, obstacle text
)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    WITH RECURSIVE named AS MATERIALIZED (
        SELECT DISTINCT d.name, d.relation, d.number, a.attname, c.relowner,
               pg_catalog.pg_has_role(c.relowner, 'USAGE') AS own,
               pg_catalog.format('Column %I.%I.%I uses it', n.nspname, c.relname, a.attname) AS uses
          FROM _hilo.hilo_missing_defaults() d
          JOIN pg_catalog.pg_class c ON c.oid = d.relation
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_catalog.pg_attribute a ON a.attrelid = d.relation AND a.attnum = d.number
         WHERE NOT pg_catalog.pg_is_other_temp_schema(n.oid)
    ), above AS (
        SELECT q.relation, q.relation AS parent FROM named q
         UNION
        SELECT a.relation, i.inhparent
          FROM above a
          JOIN pg_catalog.pg_inherits i ON i.inhrelid = a.parent
    ), judged AS MATERIALIZED (
        SELECT q.*, pg_catalog.bool_or(q.own) OVER of_name AS lacked,
               pg_catalog.min(q.relowner) OVER of_name <> pg_catalog.max(q.relowner) OVER of_name
                   AS several,
               CASE WHEN pg_catalog.bool_and(q.own) OVER of_name
                    THEN _hilo.hilo_stored_type(q.relation, q.number) END AS type
          FROM named q
        WINDOW of_name AS (PARTITION BY q.name)
    ), explained AS (
        SELECT j.*, j.uses || CASE
                   WHEN NOT j.own THEN ', whose table belongs to another role.'
                   WHEN j.several THEN ', and so do columns of other roles'' tables.'
                   WHEN j.type IS NULL
                   THEN ', whose rows are not read: only a table that is stored in this database '
                        'has any.' END AS why
          FROM judged j
    )
    SELECT e.name, e.relation, e.attname, e.type, e.relowner,
           EXISTS (SELECT FROM above a
                     JOIN named p ON p.relation = a.parent
                    WHERE a.relation = e.relation AND a.parent <> e.relation
                      AND p.name = e.name AND p.attname = e.attname),
           e.lacked,
           pg_catalog.first_value(e.why) OVER (
               PARTITION BY e.name ORDER BY e.why IS NULL, e.own, e.relation, e.number)
      FROM explained e;
END;
COMMENT ON FUNCTION _hilo.hilo_missing() IS
    'Returns the columns whose default names a sequence that does not exist. inherits: a column '
    'of a table above stands for both. obstacle: why the caller cannot create the sequence. '
    'lacked: a table of the caller lacks it';

CREATE FUNCTION _hilo.hilo_say_missing(name text, lacked boolean, obstacle text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $say$
DECLARE
    what CONSTANT text := format(
        'hilo sequence "%s" does not exist and is not created, skipping', name);
BEGIN
    IF lacked THEN
        RAISE WARNING USING
            ERRCODE = 'insufficient_privilege', MESSAGE = what, DETAIL = obstacle,
            HINT = 'Create it with hilo_create, with a start_value beyond what these columns hold.';
    ELSE
        RAISE NOTICE USING ERRCODE = 'insufficient_privilege', MESSAGE = what, DETAIL = obstacle;
    END IF;
END;
$say$;
COMMENT ON FUNCTION _hilo.hilo_say_missing(text, boolean, text) IS
    'Says which sequence hilo_create_missing leaves out, and why';

CREATE FUNCTION _hilo.hilo_create_beyond(
    name text, owner oid, relations oid[], columns name[], types oid[]
) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    -- The narrowest type, so that the sequence ends with an error of its own.
    SELECT _hilo.hilo_create(name::@extschema@.hilo_sequence, data_type => COALESCE((
               SELECT pg_catalog.min(u.type)
                 FROM pg_catalog.unnest(types) AS u (type)
                WHERE u.type IN (21::oid, 23::oid)), 20::oid)::regtype);
    SELECT _hilo.hilo_set_owner(name::@extschema@.hilo_sequence,
                                pg_catalog.pg_get_userbyid(owner)::text);
    SELECT _hilo.hilo_sync(name::@extschema@.hilo_sequence, u.relation::regclass, u.column_name)
      FROM ROWS FROM (pg_catalog.unnest(relations), pg_catalog.unnest(columns),
                      pg_catalog.unnest(types)) AS u (relation, column_name, type)
     WHERE u.type IN (20::oid, 21::oid, 23::oid, 25::oid, 1042::oid, 1043::oid, 1700::oid);
    SELECT _hilo.hilo_advance(name::@extschema@.hilo_sequence, 0::bigint);
END;
COMMENT ON FUNCTION _hilo.hilo_create_beyond(text, oid, oid[], name[], oid[]) IS
    'Creates a sequence that begins beyond what columns hold, and returns its next value';

CREATE FUNCTION _hilo.hilo_create_missing(locked oid[])
    RETURNS TABLE (name text, relation regclass, column_name name, next_value bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT _hilo.hilo_say_missing(o.name, o.lacked, o.obstacle)
      FROM (SELECT DISTINCT m.name, m.lacked, m.obstacle
              FROM _hilo.hilo_missing() m
             WHERE m.obstacle IS NOT NULL
             ORDER BY m.name) o;
    -- More may have appeared during a wait for a lock. They are left for the next call.
    WITH found AS MATERIALIZED (
        SELECT m.* FROM _hilo.hilo_missing() m WHERE m.obstacle IS NULL AND NOT m.inherits
    ), created AS MATERIALIZED (
        SELECT wanted.name, _hilo.hilo_create_beyond(
                   wanted.name, wanted.owner, wanted.relations, wanted.columns,
                   wanted.types) AS next_value
          FROM (SELECT f.name, pg_catalog.min(f.owner) AS owner,
                       pg_catalog.array_agg(f.relation ORDER BY f.relation, f.column_name)
                           AS relations,
                       pg_catalog.array_agg(f.column_name ORDER BY f.relation, f.column_name)
                           AS columns,
                       pg_catalog.array_agg(f.type ORDER BY f.relation, f.column_name) AS types
                  FROM found f
                 GROUP BY f.name
                HAVING pg_catalog.bool_and(f.relation = ANY (locked))
                 ORDER BY f.name) wanted
    )
    SELECT f.name, f.relation::regclass, f.column_name, created.next_value
      FROM created
      JOIN found f ON f.name = created.name
     ORDER BY f.name, f.relation, f.column_name;
END;
COMMENT ON FUNCTION _hilo.hilo_create_missing(oid[]) IS
    'Does what hilo_create_missing does, for tables that are locked';

CREATE FUNCTION @extschema@.hilo_create_missing()
    RETURNS TABLE (name text, relation regclass, column_name name, next_value bigint)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT c.name, c.relation, c.column_name, c.next_value
      FROM _hilo.hilo_create_missing(ARRAY(
               SELECT _hilo.hilo_lock_against_writers(t.relation)
                 FROM (SELECT DISTINCT m.relation
                         FROM _hilo.hilo_missing() m
                        WHERE m.obstacle IS NULL AND NOT m.inherits
                        ORDER BY m.relation) t)) c;
END;
COMMENT ON FUNCTION @extschema@.hilo_create_missing() IS
    'Creates the sequences that column defaults name and that do not exist. Each has the data '
    'type of its narrowest column, and is moved past what its columns hold, as by hilo_sync. '
    'Returns a row for each such column with the next value; null: none is left. The owner of the '
    'tables owns the sequence. Keeps other sessions from writing to the tables until the '
    'transaction ends. Leaves out sequences of tables that the caller does not own, or that '
    'several roles own. Leaves out those of views and other relations whose rows are not stored '
    'in this database, too. A WARNING says so if a table of the caller names the sequence, else a '
    'NOTICE. Errors: 42501 without INSERT on hilo_sequences, 55P03 after lock_timeout.';
