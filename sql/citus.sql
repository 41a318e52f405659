-- Citus: sequences of the coordinator, and branches of them on its workers.

CREATE FUNCTION _hilo.hilo_check_all_nodes(names text[], options jsonb) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $check$
DECLARE
    is_coordinator boolean;
BEGIN
    IF names IS NULL OR options IS NULL OR pg_catalog.array_position(names, NULL) IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'name and options of a hilo sequence must not be null',
            HINT = 'Specify a value that is not null.';
    ELSIF pg_catalog.jsonb_typeof(options) <> 'object' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'options of a hilo sequence must be an object',
            HINT = 'Use the fields that hilo_export returns, such as {"data_type": "integer"}.';
    ELSIF pg_catalog.to_regprocedure('pg_catalog.run_command_on_coordinator(text,boolean)') IS NULL
    THEN
        RAISE feature_not_supported USING
            MESSAGE = 'Citus is not in this database',
            DETAIL = 'It says which nodes there are.',
            HINT = 'Elsewhere, make branches with hilo_attach_server, or pass what '
                   'hilo_node_summary() returns to hilo_apply().';
    END IF;
    EXECUTE 'SELECT l.groupid = 0 FROM pg_catalog.pg_dist_local_group l' INTO is_coordinator;
    IF is_coordinator IS NOT TRUE THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'this server is not the coordinator of Citus',
            HINT = 'Call hilo_create_on_all_nodes on the coordinator.';
    END IF;
END;
$check$;
COMMENT ON FUNCTION _hilo.hilo_check_all_nodes(text[], jsonb) IS
    'Fails if hilo_create_on_all_nodes cannot be called here, or with these arguments';

CREATE FUNCTION _hilo.hilo_on_workers(command text) RETURNS jsonb
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $workers$
DECLARE
    answers jsonb;
BEGIN
    EXECUTE 'SELECT pg_catalog.jsonb_object_agg('
            'pg_catalog.concat(r.nodename, '':'', r.nodeport), '
            'CASE WHEN r.success '
            'THEN coalesce(nullif(r.result, ''''), ''{}'')::pg_catalog.jsonb '
            'ELSE pg_catalog.to_jsonb(r.result) END) '
            'FROM pg_catalog.run_command_on_workers($1) r'
       INTO answers USING command;
    RETURN answers;
END;
$workers$;
COMMENT ON FUNCTION _hilo.hilo_on_workers(text) IS
    'Returns for each worker of Citus what a command returns there, an object, or its error, a '
    'text';

-- source: that of a branch, with '{name}' and '{numbering}', here and below.
CREATE FUNCTION _hilo.hilo_strangers_on_workers(names text[], source text) RETURNS text
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT pg_catalog.string_agg(
               pg_catalog.format(
                   'node %s: %s', answer.key, CASE
                       WHEN pg_catalog.jsonb_typeof(answer.value) = 'string'
                       THEN answer.value #>> '{}'::text[]
                       ELSE pg_catalog.format('its sequence "%s" is no branch of the coordinator: '
                                              'docs/multi-node.md says how to replace it',
                                              sequence.key) END),
               pg_catalog.chr(10) ORDER BY answer.key)
      FROM pg_catalog.jsonb_each(_hilo.hilo_on_workers(pg_catalog.format(
               'SELECT pg_catalog.jsonb_object_agg('
               'e.value OPERATOR(pg_catalog.->>) ''name''::pg_catalog.text, e.value) '
               'FROM pg_catalog.unnest(%L::pg_catalog.text[]) AS u (name) '
               'CROSS JOIN LATERAL pg_catalog.jsonb_array_elements('
               '_hilo.hilo_node_summary(_hilo.hilo_sequence(u.name)) '
               'OPERATOR(pg_catalog.->) ''sequences''::pg_catalog.text) AS e', $1))) answer
      LEFT JOIN LATERAL pg_catalog.jsonb_each(
               CASE pg_catalog.jsonb_typeof(answer.value)
                   WHEN 'object' THEN answer.value END) sequence
             ON NOT pg_catalog.starts_with(
                        COALESCE(sequence.value ->> 'source'::text, ''::text),
                        pg_catalog.split_part($2, pg_catalog.chr(10), 1))
     WHERE pg_catalog.jsonb_typeof(answer.value) = 'string' OR sequence.key IS NOT NULL;
END;
COMMENT ON FUNCTION _hilo.hilo_strangers_on_workers(text[], text) IS
    'Returns the workers that cannot be asked, or have a sequence of such a name that is no '
    'branch, and why; null: there are none';

CREATE FUNCTION _hilo.hilo_branch_documents(names text[], source text) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
    RETURN (
        SELECT pg_catalog.jsonb_agg(
                   document.value - '{owned_by,source,reserve_ahead,numbering}'::text[]
                   || pg_catalog.jsonb_build_object('source', pg_catalog.replace(
                          pg_catalog.replace($2, '''{numbering}''',
                                             pg_catalog.quote_literal(s.numbering)),
                          '''{name}''', pg_catalog.quote_literal(s.name))))
          FROM @extschema@.hilo_sequences s
         CROSS JOIN LATERAL (
             SELECT _hilo.hilo_node_summary(s.name) #> '{sequences,0}'::text[] AS value) document
         WHERE s.name = ANY ($1));
COMMENT ON FUNCTION _hilo.hilo_branch_documents(text[], text) IS
    'Returns the definitions of sequences of this server, changed so that they define branches of '
    'these sequences';

-- A rollback would not reach the other nodes.
CREATE FUNCTION _hilo.hilo_is_outside_block() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_is_outside_block_wrapper';
COMMENT ON FUNCTION _hilo.hilo_is_outside_block() IS
    'Returns true, or fails with 25001 in a transaction block';

-- Each step is committed elsewhere, so each node has what the next step reads.
CREATE FUNCTION _hilo.hilo_create_on_all_nodes(names text[], options jsonb)
    RETURNS TABLE (name text, node text, action text)
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1000 SET search_path = pg_catalog, pg_temp
AS $branches$
#variable_conflict use_column
DECLARE
    source CONSTANT text := CASE WHEN _hilo.hilo_is_outside_block()
        THEN _hilo.hilo_server_source(NULL, '{name}', '{numbering}') END;
    apply CONSTANT text :=
        'SELECT pg_catalog.jsonb_object_agg(a.name, a.action) '
        'FROM pg_catalog.set_config(''lock_timeout'', ''2s'', true) '
        'CROSS JOIN LATERAL _hilo.hilo_apply('
        'pg_catalog.jsonb_build_object(''hilo'', 1, ''sequences'', %L::pg_catalog.jsonb), '
        'false, false) AS a (action, name, detail)';
    new jsonb; on_coordinator jsonb; on_workers jsonb; answer record; problems text;
BEGIN
    PERFORM _hilo.hilo_check_all_nodes(names, options);
    names := ARRAY(SELECT DISTINCT u.name FROM pg_catalog.unnest(names) AS u (name));
    problems := _hilo.hilo_strangers_on_workers(names, source);
    SELECT pg_catalog.jsonb_agg(options || pg_catalog.jsonb_build_object('name', u.name)) INTO new
      FROM pg_catalog.unnest(names) AS u (name)
     WHERE problems IS NULL
       AND NOT EXISTS (SELECT FROM _hilo.hilo_visible d WHERE d.name = u.name);
    IF new IS NOT NULL THEN
        -- A sequence that cannot have branches is refused before anything is made.
        PERFORM _hilo.hilo_apply(pg_catalog.jsonb_build_object('hilo', 1, 'sequences', (
            SELECT pg_catalog.jsonb_agg(e || '{"source": "SELECT 1"}')
              FROM pg_catalog.jsonb_array_elements(new) e)), false, true);
        EXECUTE 'SELECT r.success, r.result FROM pg_catalog.run_command_on_coordinator($1) r'
           INTO answer USING pg_catalog.format(apply, new);
        on_coordinator := CASE WHEN answer.success THEN answer.result::jsonb END;
        problems := CASE WHEN NOT answer.success THEN 'coordinator: ' || answer.result END;
    END IF;
    IF problems IS NULL THEN
        on_workers := _hilo.hilo_on_workers(
            pg_catalog.format(apply, _hilo.hilo_branch_documents(names, source)));
        SELECT pg_catalog.string_agg(
                   pg_catalog.format('node %s: %s', n.key, n.value #>> '{}'::text[]),
                   E'\n' ORDER BY n.key)
          INTO problems
          FROM pg_catalog.jsonb_each(on_workers) n
         WHERE pg_catalog.jsonb_typeof(n.value) = 'string';
    END IF;
    IF problems IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = pg_catalog.format(
                'could not create hilo sequence "%s" on all nodes', names[1]),
            DETAIL = problems,
            HINT = 'Remove the cause and call it again: nodes that have the sequence keep it.';
    END IF;
    RETURN QUERY
        SELECT u.name, n.node, coalesce(n.actions ->> u.name, 'exists')
          FROM pg_catalog.unnest(names) AS u (name)
         CROSS JOIN (SELECT 'coordinator', on_coordinator
                      UNION ALL
                     SELECT w.key, w.value FROM pg_catalog.jsonb_each(on_workers) w
                    ) AS n (node, actions);
END;
$branches$;
COMMENT ON FUNCTION _hilo.hilo_create_on_all_nodes(text[], jsonb) IS
    'Does what hilo_create_on_all_nodes does';

CREATE FUNCTION @extschema@.hilo_create_on_all_nodes(names text[], options jsonb DEFAULT '{}')
    RETURNS TABLE (name text, node text, action text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1000
BEGIN ATOMIC
    SELECT d.name, d.node, d.action FROM _hilo.hilo_create_on_all_nodes($1, $2) d;
END;
COMMENT ON FUNCTION @extschema@.hilo_create_on_all_nodes(text[], jsonb) IS
    'Creates many sequences with the same options on all nodes of Citus, as this function does '
    'with one name. Returns a row for each sequence and node.';

CREATE FUNCTION @extschema@.hilo_create_on_all_nodes(
    name @extschema@.hilo_sequence, options jsonb DEFAULT '{}'
)
    RETURNS TABLE (node text, action text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT d.node, d.action FROM _hilo.hilo_create_on_all_nodes(ARRAY[$1::text], $2) d;
END;
COMMENT ON FUNCTION @extschema@.hilo_create_on_all_nodes(@extschema@.hilo_sequence, jsonb) IS
    'Creates a sequence on the coordinator of Citus, and makes it a branch on each worker, whose '
    'values come from there. Returns what was done on each node: create, exists, or an action of '
    'hilo_apply. A worker gets the definition, the owner and the privileges of the coordinator, '
    'and the numbering that it has by now. Values that the worker holds of an earlier numbering '
    'become a gap. Called again, it does the same on nodes that have come since, whatever the '
    'options. Options are the fields of a sequence in a document of hilo_export. A rollback does '
    'not undo it. Errors: 55000 on a worker, if a node cannot be asked or refuses, or if a worker '
    'has a sequence of this name that is no branch; 0A000 without Citus, or for one that cycles, '
    'is ordered or gapless; 25001 in a transaction block, 22023 for other options.';

CREATE FUNCTION _hilo.hilo_serial_column(relation regclass, column_name name)
    RETURNS TABLE (
        sequence regclass, name name, increment bigint, min_value bigint, max_value bigint,
        highest bigint, data_type text, rises boolean,
        table_name text, owner name, own boolean, of_others boolean
    )
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT s.seqrelid::regclass, q.relname, s.seqincrement, s.seqmin, s.seqmax,
           -- Citus lets a worker give a bigint column ids above 2^48, which are never reached.
           CASE type.name WHEN 'bigint' THEN 1::bigint << 48 ELSE s.seqmax END, type.name,
           a.attidentity = ''::"char" AND s.seqincrement > 0::bigint
               AND type.name IN ('smallint', 'integer', 'bigint'),
           pg_catalog.format('%I.%I', n.nspname, t.relname),
           pg_catalog.pg_get_userbyid(t.relowner), pg_catalog.pg_has_role(t.relowner, 'USAGE'),
           -- An owner can put code where a query of the table runs it.
           EXISTS (WITH RECURSIVE part AS (
                       SELECT $1::oid AS relation
                        UNION
                       SELECT i.inhrelid
                         FROM part p
                         JOIN pg_catalog.pg_inherits i ON i.inhparent = p.relation)
                   SELECT FROM part p
                     JOIN pg_catalog.pg_class c ON c.oid = p.relation
                     JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
                    WHERE NOT r.rolsuper AND r.rolname <> CURRENT_USER)
      FROM pg_catalog.pg_attribute a
      JOIN pg_catalog.pg_class t ON t.oid = a.attrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace
      JOIN pg_catalog.pg_sequence s
        ON s.seqrelid = pg_catalog.pg_get_serial_sequence($1::text, $2::text)::regclass::oid
      JOIN pg_catalog.pg_class q ON q.oid = s.seqrelid
     CROSS JOIN LATERAL (SELECT pg_catalog.format_type(a.atttypid, NULL) AS name) type
     WHERE a.attrelid = $1::oid AND a.attname = $2;
END;
COMMENT ON FUNCTION _hilo.hilo_serial_column(regclass, name) IS
    'Returns a column that owns a sequence of Postgres, with the sequence. highest: the highest '
    'value that the sequence can reach; rises: it is a serial column, and its values rise; own: '
    'the caller may act as the owner of the table; of_others: a part of the table belongs to '
    'another role than the caller that is no superuser';

CREATE FUNCTION _hilo.hilo_next_of_serial(
    table_name text, column_name name, highest bigint, sequence regclass, increment bigint
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $next$
DECLARE
    largest bigint;
    reached bigint;
BEGIN
    EXECUTE pg_catalog.format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', table_name);
    EXECUTE pg_catalog.format(
        'SELECT pg_catalog.max(%1$I) FROM %2$s WHERE %1$I <= %3$s',
        column_name, table_name, highest)
       INTO largest;
    EXECUTE pg_catalog.format(
        'SELECT CASE WHEN is_called THEN last_value ELSE last_value - %s END FROM %s',
        increment, sequence)
       INTO reached;
    RETURN greatest(largest, reached) + increment;
END;
$next$;
COMMENT ON FUNCTION _hilo.hilo_next_of_serial(text, name, bigint, regclass, bigint) IS
    'Locks a table against writers, and returns where a serial column of it continues';

CREATE FUNCTION @extschema@.hilo_adopt_on_all_nodes(
    relation regclass, column_name name, name @extschema@.hilo_sequence DEFAULT NULL
) RETURNS @extschema@.hilo_sequence
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
    SET search_path = pg_catalog, pg_temp
    -- Else Citus reads the shards over several connections, and then cannot alter the table.
    SET citus.multi_shard_modify_mode = 'sequential'
AS $adopt$
#variable_conflict use_column
DECLARE
    old record; new text;
BEGIN
    IF relation IS NULL OR column_name IS NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'relation and column name must not be null',
            HINT = 'Specify a serial column.';
    ELSIF pg_catalog.current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction USING
            MESSAGE = 'cannot execute hilo_adopt_on_all_nodes() in a read-only transaction';
    END IF;
    SELECT s.* INTO old FROM _hilo.hilo_serial_column(relation, column_name) s;
    IF NOT FOUND OR NOT old.rises THEN
        RAISE feature_not_supported USING
            MESSAGE = pg_catalog.format('column %s.%I is no serial column that rises',
                                        relation, column_name),
            HINT = 'For another column, create a sequence with hilo_create_on_all_nodes, and '
                   'change the default.';
    ELSIF NOT old.own THEN
        RAISE insufficient_privilege USING
            MESSAGE = pg_catalog.format('must be owner of table %s', relation),
            HINT = 'Do it as the owner of the table.';
    ELSIF old.of_others THEN
        RAISE wrong_object_type USING
            MESSAGE = pg_catalog.format('column %s.%I is read by a query, and not all of it '
                                        'belongs to this role', relation, column_name),
            DETAIL = 'The query would run what other roles have put into the table, with the '
                     'rights of this one.',
            HINT = 'SET ROLE to the owner of the table, and call it again.';
    END IF;
    new := coalesce($3::text, old.name::text);
    IF EXISTS (SELECT FROM _hilo.hilo_visible d WHERE d.name = new) THEN
        RAISE duplicate_object USING
            MESSAGE = pg_catalog.format('hilo sequence "%s" already exists', new),
            HINT = 'Choose another name, or drop it on all nodes.';
    END IF;
    PERFORM _hilo.hilo_create_on_all_nodes(ARRAY[new], pg_catalog.jsonb_build_object(
        'data_type', old.data_type, 'increment', old.increment,
        'min_value', old.min_value, 'max_value', old.max_value, 'owner', old.owner,
        'start_value', _hilo.hilo_next_of_serial(
            old.table_name, column_name, old.highest, old.sequence, old.increment)));
    EXECUTE (SELECT pg_catalog.format(
                        'ALTER TABLE %s ALTER %I '
                        'SET DEFAULT %3$s.hilo_nextval(%L::%3$s.hilo_sequence)',
                        old.table_name, column_name, e.extnamespace::regnamespace, new)
               FROM pg_catalog.pg_extension e
              WHERE e.extname = 'hilo');
    EXECUTE pg_catalog.format('DROP SEQUENCE %s', old.sequence);
    RETURN _hilo.hilo_sequence(new);
END;
$adopt$;
COMMENT ON FUNCTION @extschema@.hilo_adopt_on_all_nodes(regclass, name,
    @extschema@.hilo_sequence) IS
    'Makes a serial column of a distributed table draw from a new hilo sequence on all nodes of '
    'Citus, and returns its name; null: that of the old sequence, which is dropped. The new one '
    'continues beyond the old one, and beyond the values of the column that are not above 2^48. '
    'The owner of the table owns it. Keeps others from writing to the table meanwhile. If it '
    'fails, call it again with another name, or drop the new sequence on all nodes. Errors: 0A000 '
    'for another column, 42501 if the caller is not the owner, 42809 if a part of the table '
    'belongs to another role that is no superuser, 42710 if the name is taken, and those of '
    'hilo_create_on_all_nodes.';
