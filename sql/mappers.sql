-- Hi/Lo mappers: what each calls, over hilo's sequences. A block of size B holds first ... first +
-- B - 1. The mapper reads one number for it, and computes the rest.

CREATE FUNCTION _hilo.hilo_mappers()
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
COMMENT ON FUNCTION _hilo.hilo_mappers() IS
    'Returns the Hi/Lo mappers: what a facade makes, what the mapper reads for a block, and what '
    'it adds to that. origin: where block 0 begins, for those that count blocks';

-- A façade belongs to who makes it. Its functions have the rights of who calls them, and depend on
-- nothing of the extension. They call what is in _hilo, so that the extension's schema can be
-- renamed. They cast each argument, because others may put functions into the façade's schema.
CREATE FUNCTION _hilo.hilo_make_facade(
    schema name, client text, makes text, origin bigint, value text, step text
) RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
AS $make$
DECLARE
    draw CONSTANT text :=
        'BEGIN RETURN _hilo.hilo_nextval(_hilo.hilo_sequence(array_to_string(parse_ident($1), ''.''))); END';
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
      FROM _hilo.hilo_sequences() s WHERE s.name = $1;
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
        'SELECT r.first, r.last INTO first, last FROM _hilo.hilo_nextrange(_hilo.hilo_sequence($1), size::bigint) r;';
    hi CONSTANT text := $body$
    IF mod(q.start_value - @origin@, size) <> 0 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('hilo sequence "%s" does not begin with a block of %s', $1, size),
            HINT = 'Its start_value must be a multiple of its block_size, plus @origin@.';
    END IF;
    first := q.start_value + _hilo.hilo_next_hi(_hilo.hilo_sequence($1)) * size;
    last := first + size - 1;$body$;
    -- STABLE, without settings: the planner then looks one name up.
    names CONSTANT text := 'SELECT s.name::pg_catalog.text FROM _hilo.hilo_sequences() s
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
          (SELECT @step@ FROM (SELECT s.block_size AS size FROM _hilo.hilo_sequences() s
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
    get_hi CONSTANT text := 'BEGIN RETURN @schema@.hilo_block(entity::text); END';
    floor CONSTANT text := $body$
BEGIN
    PERFORM _hilo.hilo_advance(_hilo.hilo_sequence(s.name), ((NEW.hi_value + 1) * s.block_size)::bigint)
       FROM _hilo.hilo_sequences() s WHERE s.name = OLD.entity_name;
    RETURN NEW;
END$body$;
    hi_values CONSTANT text := 'SELECT s.name, (s.max_reserved OPERATOR(pg_catalog.-) 1::pg_catalog.int8)
                                               OPERATOR(pg_catalog./) s.block_size
                                  FROM _hilo.hilo_sequences() s WHERE s.block_size IS NOT NULL';
    of_sequence CONSTANT boolean := makes IN ('nextval', 'hibernate_unique_key');
    marks CONSTANT text[] := ARRAY[
        '@take@', CASE WHEN origin IS NULL THEN range ELSE hi END,
        '@value@', COALESCE(value, ''), '@step@', COALESCE(step, ''),
        '@origin@', COALESCE(origin::text, ''),
        '@column@', CASE makes WHEN 'hibernate_sequences' THEN 'next_val' ELSE 'next_hi' END,
        '@segment@', CASE makes WHEN 'hibernate_sequences' THEN 'NEW.sequence_name'
                                ELSE quote_literal(makes) END,
        '@key@', quote_literal(schema), '@schema@', quote_ident(schema)];
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
        PERFORM _hilo.hilo_raise('22023'::text, format('"%s" is no mapper for which hilo has a facade', client),
                           NULL::text, 'docs/mappers.md has the names.'::text);
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
COMMENT ON FUNCTION _hilo.hilo_make_facade(name, text, text, bigint, text, text) IS
    'Makes the functions and views of a facade, for a row of _hilo.hilo_mappers()';

CREATE FUNCTION @extschema@.hilo_facade(schema name, client text) RETURNS SETOF text
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT f.made
      FROM (SELECT hilo_facade.client) c
      LEFT JOIN _hilo.hilo_mappers() m ON m.client = c.client
     CROSS JOIN LATERAL _hilo.hilo_make_facade(
         hilo_facade.schema, c.client, m.makes, m.origin, m.value, m.step) AS f (made);
END;
COMMENT ON FUNCTION @extschema@.hilo_facade(name, text) IS
    'Makes, in a schema, the functions and views that a Hi/Lo mapper calls, so that the mapper '
    'takes its blocks from hilo. Returns the objects that it has made. They belong to the caller; '
    'DROP removes them. Roles that run the mapper have the schema in their search_path. client: '
    'core, efcore, doctrine, marten, hibernate, hibernate-pooled-lo, hibernate-pooled-old, '
    'hibernate-hilo, hibernate-legacy-hilo, hibernate-table, hibernate-table-pooled-lo, '
    'hibernate-table-hilo, hibernate-table-old, nhibernate, nhibernate-pooled, nhibernate-table. '
    'The allocation size is the block_size of the sequence. Requires CREATE on the schema. '
    'Errors: 22023 for another client, 0A000 for nhibernate-optimizer-hilo, 3F000 if the schema '
    'does not exist, 42501, 42723 or 42P07 if one of the names is taken.';

CREATE FUNCTION _hilo.hilo_refuse_counter(message text, hint text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $refuse$
BEGIN
    PERFORM _hilo.hilo_raise('55000'::text, message, NULL::text, hint);
END;
$refuse$;
COMMENT ON FUNCTION _hilo.hilo_refuse_counter(text, text) IS
    'Fails with 55000. The sources that hilo_attach writes call it where their counter is not '
    'what it was';

-- The query that takes whole blocks from a mapper's own counter, as the mapper does. $2 is how many
-- values are wanted, $4 the furthest that has come. A million calls of nextval bring less, but in
-- time. A block below the minimum of the counter is cut there. Names are filled in last, so that no
-- name is taken for a part of the query.
CREATE FUNCTION _hilo.hilo_make_source(
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
        'ELSE _hilo.hilo_refuse_counter(''the counter was set back: it gives '' || r.first::text '
        '|| '' after '' || $4::text, ''Set it beyond all numbers of the tables that use it.''::text) '
        'END, r.last FROM r';
    -- The first statement has the lock of a session that draws, and so nobody changes what the
    -- second one finds.
    as_it_was CONSTANT text :=
        'SELECT pg_sequence_last_value(%1$s); SELECT CASE WHEN EXISTS (SELECT FROM pg_sequence o '
        'WHERE o.seqrelid = %1$s AND o.seqincrement = %2$s AND NOT o.seqcycle AND o.seqcache = 1) '
        'THEN 0 ELSE _hilo.hilo_refuse_counter('
        '''the counter has another INCREMENT, CYCLE or CACHE than when it was attached''::text, '
        '''Change it back, or call hilo_attach again.''::text) END; ';
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
        PERFORM _hilo.hilo_raise('22023'::text, format('%s is no counter of the mapper "%s"', relation, client),
                           NULL::text, 'docs/mappers.md has the names of the mappers.'::text);
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
    RETURN format('/* %s of %s from %s */ SELECT CASE WHEN %s = %L THEN 0 ELSE _hilo.hilo_refuse_counter('
                  '''the counter may lack numbers, since another server drew from it''::text, '
                  '''Set it beyond all numbers of the tables that use it, and call hilo_attach '
                  'again.''::text) END; ', client, size, hashtextextended(concat_ws(' ', relation::text, CASE
                      WHEN makes IN ('hibernate_sequences', 'mt_hilo') THEN entity END), 0),
                  here, place)
           || CASE WHEN counter.relkind = 'S'
                   THEN format(as_it_was, drawn, counter.increment) ELSE '' END
           || format(query, drawn, relation::text, quote_literal(entity));
END;
$source$;
COMMENT ON FUNCTION _hilo.hilo_make_source(regclass, text, text, bigint, text, bigint, text,
    text) IS
    'Makes the query that takes blocks from the counter of a mapper, for a row of '
    '_hilo.hilo_mappers()';

CREATE FUNCTION _hilo.hilo_source_of(relation regclass, client text, entity text, size bigint)
    RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT _hilo.hilo_make_source($1, $2, $3, $4, m.makes, m.origin, m.step, m.first)
      FROM (SELECT $2 AS client) c LEFT JOIN _hilo.hilo_mappers() m ON m.client = c.client;
END;
COMMENT ON FUNCTION _hilo.hilo_source_of(regclass, text, text, bigint) IS
    'Returns the query that takes blocks from the counter of a mapper: $2 is how many values are '
    'wanted, $4 the furthest that has come';

-- With the rights of the caller. It takes one block, as the counter must be one that can be drawn
-- from. A mapper that finds a fresh counter takes the second block for its own too.
CREATE FUNCTION _hilo.hilo_first_drawn(source text, client text, relation regclass) RETURNS bigint
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $drawn$
DECLARE
    first bigint;
    last bigint;
BEGIN
    IF client = 'core' THEN
        RETURN (SELECT COALESCE(pg_sequence_last_value(relation) + o.seqincrement, o.seqstart)
                  FROM pg_sequence o WHERE o.seqrelid = relation AND has_sequence_privilege(o.seqrelid, 'USAGE, SELECT'));
    END IF;
    EXECUTE source INTO first, last USING ''::text, 1::bigint, NULL::uuid, NULL::bigint;
    IF first IS NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = 'the counter has no row for this entity',
            HINT = 'Let the mapper take its first block, or insert the row.';
    END IF;
    RETURN first;
END;
$drawn$;
COMMENT ON FUNCTION _hilo.hilo_first_drawn(text, text, regclass) IS
    'Takes the first block of the counter of a mapper, unless the client takes single numbers. '
    'Returns where it begins, or the next number';

CREATE FUNCTION @extschema@.hilo_attach(
    name @extschema@.hilo_sequence, relation regclass, client text DEFAULT 'core', entity text DEFAULT NULL
) RETURNS @extschema@.hilo_sequence
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT _hilo.hilo_create($1, data_type => COALESCE(o.seqtypid, 'bigint'::regtype::oid)::regtype)
      FROM (SELECT $2::oid AS oid) r
      LEFT JOIN pg_catalog.pg_sequence o ON o.seqrelid = r.oid AND $3 = 'core'
     WHERE NOT EXISTS (SELECT FROM @extschema@.hilo_sequences q WHERE q.name = $1::text);
    SELECT _hilo.hilo_refuse_barred($1, a.next)
      FROM (SELECT d.next, _hilo.hilo_alter(
                       $1, start_value => CASE WHEN q.max_reserved IS NULL THEN o.seqstart END,
                       increment => COALESCE(o.seqincrement, 1::bigint),
                       min_value => o.seqmin, max_value => o.seqmax, source => r.source) AS altered
              FROM @extschema@.hilo_sequences q
             CROSS JOIN LATERAL (SELECT _hilo.hilo_source_of($2, $3, $4, q.block_size) AS source) r
             CROSS JOIN LATERAL (SELECT _hilo.hilo_first_drawn(r.source, $3, $2) AS next OFFSET 0) d
              LEFT JOIN pg_catalog.pg_sequence o ON o.seqrelid = $2::oid AND $3 = 'core'
             WHERE q.name = $1::text
            OFFSET 0) a;
    SELECT $1;
END;
COMMENT ON FUNCTION @extschema@.hilo_attach(@extschema@.hilo_sequence, regclass, text, text) IS
    'Lets a sequence take its values from a counter that stays in charge: a sequence of Postgres, '
    'or the counter of a Hi/Lo mapper. Returns the name of the sequence, which is created if it '
    'does not exist. client: as in hilo_facade; core: whatever calls nextval for each number. '
    'entity: the row of a table with counters. A mapper''s counter loses a block or two. Requires '
    'ownership of the sequence, and of its owner the privileges to draw from the counter. Errors: '
    'as for hilo_create and hilo_alter, 22023 if the relation is no counter of the client or '
    'entity is missing, 0A000 for nhibernate-optimizer-hilo, 55000 if the counter cycles, has a '
    'CACHE above 1, is not permanent or has no row for the entity, the size of the blocks is not '
    'known, or the counter continues with a value that the sequence may have served.';

CREATE FUNCTION _hilo.hilo_core_feeds() RETURNS TABLE (relation oid, number smallint, sequence oid)
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
COMMENT ON FUNCTION _hilo.hilo_core_feeds() IS
    'Returns the columns that a sequence of Postgres feeds, as their default or as that of an '
    'identity column';

-- A sequence that was attached to one of Postgres goes on with the next number of that. Only a
-- query that hilo_attach has written is believed. It is not run, since it is its owner's.
CREATE FUNCTION @extschema@.hilo_detach(name @extschema@.hilo_sequence, start bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT _hilo.hilo_detach($1, COALESCE($2, (
        SELECT CASE WHEN EXISTS (
                   SELECT FROM _hilo.hilo_core_feeds() f WHERE f.sequence = o.seqrelid)
               THEN _hilo.hilo_refuse(
                   pg_catalog.format(
                       'columns still draw from the sequence that "%s" is attached to', $1),
                   'Let their defaults call hilo_nextval, or say where the numbers begin.')::text::bigint
               ELSE pg_catalog.nextval(o.seqrelid::regclass) END
          FROM @extschema@.hilo_stat_sources q
         CROSS JOIN pg_catalog.pg_sequence o
          JOIN pg_catalog.pg_class c ON c.oid = o.seqrelid
          JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE q.name = $1::text AND pg_catalog.starts_with(q.source, '/* core of '::text)
           AND CASE WHEN pg_catalog.strpos(q.source, pg_catalog.quote_literal(
                             pg_catalog.format('%I.%I', n.nspname, c.relname))) > 0
                    THEN q.source = _hilo.hilo_source_of(
                             o.seqrelid::regclass, 'core', NULL, o.seqincrement) END)));
END;
COMMENT ON FUNCTION @extschema@.hilo_detach(@extschema@.hilo_sequence, bigint) IS
    'Removes the source of a sequence, which numbers itself from start on, and returns start. It '
    'must lie where nobody else serves values. null: the next number of the sequence of Postgres '
    'to which it was attached as client core, and from which nobody may draw any more. Values '
    'that it holds and has not served become a gap. Requires ownership of the sequence. Errors: '
    'those of hilo_alter, 22023 if start is null and the source another one, 55000 if start is '
    'null and columns still draw from that sequence, if start is not beyond what the sequence may '
    'have served, or if it has no source.';
