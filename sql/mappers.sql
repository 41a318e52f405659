-- Hi/Lo mappers: what each calls, over hilo's sequences. A block of size B holds first ... first +
-- B - 1. The mapper reads one number for it, and computes the rest.

CREATE VIEW _hilo.hilo_mapper AS
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
-- Functions read it with their callers' rights.
REVOKE ALL ON _hilo.hilo_mapper FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_mapper TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_mapper IS
    'The Hi/Lo mappers: what a facade makes, what the mapper reads for a block, and what it adds '
    'to that. origin: where block 0 begins, for those that count blocks';

CREATE FUNCTION _hilo.hilo_refuse_client(client text, problem text) RETURNS void
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SET search_path = pg_catalog, pg_temp
AS $refuse$
BEGIN
    IF client = 'nhibernate-optimizer-hilo' THEN
        RAISE feature_not_supported USING
            MESSAGE = 'NHibernate''s optimizer "hilo" shares a counter with nobody',
            DETAIL = 'It takes all its blocks for neighbours, and so uses those of others.',
            HINT = 'Map the optimizer "pooled" or "pooled-lo", or the generator "seqhilo".';
    END IF;
    PERFORM _hilo.hilo_refuse(
        problem, 'docs/clients.md has the names of the mappers.', NULL, '22023');
END;
$refuse$;
COMMENT ON FUNCTION _hilo.hilo_refuse_client(text, text) IS
    'Fails with 0A000 if this mapper cannot share a counter, else with 22023 and the problem';

-- The parts of facades. makes: the mappers whose facades have the part; is_core: core alone, or all
-- others. A part without a language is a view. hilo_facade fills in the names between @.
CREATE VIEW _hilo.hilo_facade_part AS
    SELECT part.place, part.makes::text[], part.is_core, part.signature, part.result,
           part.language, part.body
      FROM (VALUES
(1, '{nextval, hibernate_unique_key, hibernate_sequences, mt_hilo}', false,
 'hilo_block(name text)', 'bigint', 'plpgsql', $body$
DECLARE
    q record;
    first bigint;
    last bigint;
    size bigint;
BEGIN
    SELECT s.name, s.start_value, s.increment, s.block_size INTO q
      FROM _hilo.hilo_visible s WHERE s.name = $1;
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
    -- The mapper counts blocks, or the values of its blocks.
    IF @origin@ IS NULL THEN
        SELECT r.first, r.last INTO first, last
          FROM _hilo.hilo_nextrange(_hilo.hilo_sequence($1), size) r;
    ELSIF mod(q.start_value - @origin@, size) <> 0 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('hilo sequence "%s" does not begin with a block of %s', $1, size),
            HINT = 'Its start_value must be a multiple of its block_size, plus @origin@.';
    ELSE
        first := q.start_value + _hilo.hilo_next_hi(_hilo.hilo_sequence($1)) * size;
        last := first + size - 1;
    END IF;
    IF last - first + 1 <> size THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('hilo sequence "%s" gave a short block', $1);
    END IF;
    RETURN @value@;
END$body$),
(2, '{nextval}', true, 'nextval(sequence text)', 'bigint', 'plpgsql', $body$
BEGIN
    RETURN _hilo.hilo_nextval(_hilo.hilo_sequence(array_to_string(parse_ident($1), '.')));
END$body$),
(3, '{nextval, hibernate_unique_key}', false,
 'nextval(sequence text)', 'bigint', 'plpgsql', $body$
BEGIN
    RETURN @schema@.hilo_block(array_to_string(parse_ident($1), '.'));
END$body$),
(4, '{nextval, hibernate_unique_key}', NULL,
 'setval(sequence text, value bigint)', 'bigint', 'plpgsql', $body$
BEGIN
    RAISE feature_not_supported USING MESSAGE = 'the facade of a mapper only gives out blocks',
        HINT = 'Call hilo_setval or hilo_advance while no mapper runs.';
END$body$),
(5, '{nextval, hibernate_unique_key}', NULL,
 'setval(sequence text, value bigint, is_called boolean)', 'bigint', 'plpgsql',
 $body$
BEGIN
    RAISE feature_not_supported USING MESSAGE = 'the facade of a mapper only gives out blocks',
        HINT = 'Call hilo_setval or hilo_advance while no mapper runs.';
END$body$),
(6, '{mt_hilo}', NULL, 'mt_get_next_hi(entity varchar)', 'integer', 'plpgsql', $body$
BEGIN
    RETURN @schema@.hilo_block(entity::text);
END$body$),
-- STABLE, without settings: the planner then looks one name up.
(7, '{hibernate_sequences}', NULL, 'hilo_names()', 'SETOF text', 'sql', $body$
SELECT s.name::pg_catalog.text
  FROM _hilo.hilo_visible s
 WHERE s.block_size IS NOT NULL$body$),
(8, '{mt_hilo}', NULL, 'hilo_names()', 'TABLE (name varchar, hi bigint)', 'sql', $body$
SELECT s.name, (s.max_reserved OPERATOR(pg_catalog.-) 1::pg_catalog.int8)
               OPERATOR(pg_catalog./) s.block_size
  FROM _hilo.hilo_visible s
 WHERE s.block_size IS NOT NULL$body$),
-- A mapper reads a row and then writes behind it. Until it has written, its transaction reads the
-- same block again.
(9, '{hibernate_sequences, hibernate_unique_key}', NULL,
 'hilo_drawn(name text)', 'bigint', 'plpgsql', $body$
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
END$body$),
(10, '{hibernate_sequences, hibernate_unique_key}', NULL,
 'hilo_written()', 'trigger', 'plpgsql', $body$
DECLARE
    name CONSTANT text := @segment@;
BEGIN
    IF TG_OP = 'INSERT' THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('no hilo sequence "%s" has blocks that this role may read', name),
            HINT = 'Create it with hilo_create: it takes the place of this row.';
    ELSIF NEW.@column@ - OLD.@column@ IS DISTINCT FROM
          (SELECT @step@ FROM (SELECT s.block_size AS size FROM _hilo.hilo_visible s
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
END$body$),
(11, '{mt_hilo}', NULL, 'hilo_written()', 'trigger', 'plpgsql', $body$
BEGIN
    PERFORM _hilo.hilo_advance(_hilo.hilo_sequence(s.name),
                               ((NEW.hi_value + 1) * s.block_size)::bigint)
       FROM _hilo.hilo_visible s WHERE s.name = OLD.entity_name;
    RETURN NEW;
END$body$),
(12, '{hibernate_sequences}', NULL, 'hibernate_sequences', NULL, NULL, $body$
SELECT n.name AS sequence_name, @schema@.hilo_drawn(n.name) AS next_val
  FROM @schema@.hilo_names() AS n (name)$body$),
(12, '{hibernate_unique_key}', NULL, 'hibernate_unique_key', NULL, NULL, $body$
SELECT @schema@.hilo_drawn('hibernate_unique_key') AS next_hi$body$),
(12, '{mt_hilo}', NULL, 'mt_hilo', NULL, NULL, $body$
SELECT n.name AS entity_name, n.hi AS hi_value
  FROM @schema@.hilo_names() AS n$body$)
           ) AS part (place, makes, is_core, signature, result, language, body);
-- hilo_facade reads it with its caller's rights.
REVOKE ALL ON _hilo.hilo_facade_part FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_facade_part TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_facade_part IS
    'Functions and views of the facades that hilo_facade makes, in the order of their creation';

CREATE FUNCTION _hilo.hilo_fill_in(text text, marks text[]) RETURNS text
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $fill$
BEGIN
    FOR i IN 1 .. cardinality(marks) BY 2 LOOP
        text := replace(text, marks[i], COALESCE(marks[i + 1], ''));
    END LOOP;
    RETURN text;
END;
$fill$;
COMMENT ON FUNCTION _hilo.hilo_fill_in(text, text[]) IS
    'Replaces each mark in a text by the one that follows it in the array';

-- A façade belongs to who makes it. Its functions have the rights of who calls them, and depend on
-- nothing of the extension. They call what is in _hilo, so that the extension's schema can be
-- renamed. They cast each argument, because others may put functions into the façade's schema.
CREATE FUNCTION @extschema@.hilo_facade(schema name, client text) RETURNS SETOF text
    LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10 SET search_path = pg_catalog, pg_temp
AS $make$
DECLARE
    mapper record;
    part record;
BEGIN
    SELECT m.*, m.makes = 'hibernate_sequences' AS has_names INTO mapper
      FROM _hilo.hilo_mapper m WHERE m.client = hilo_facade.client;
    IF NOT FOUND THEN
        PERFORM _hilo.hilo_refuse_client(
            client, format('"%s" is no mapper for which hilo has a facade', client));
    END IF;
    FOR part IN
        SELECT p.*, _hilo.hilo_fill_in(p.body, ARRAY[
                   '@value@', mapper.value, '@step@', mapper.step,
                   '@origin@', COALESCE(mapper.origin::text, 'NULL'),
                   '@column@', CASE WHEN mapper.has_names THEN 'next_val' ELSE 'next_hi' END,
                   '@segment@', CASE WHEN mapper.has_names THEN 'NEW.sequence_name'
                                     ELSE quote_literal(mapper.makes) END,
                   '@key@', quote_literal(schema), '@schema@', quote_ident(schema)]) AS code
          FROM _hilo.hilo_facade_part p
         WHERE mapper.makes = ANY (p.makes)
           AND (p.is_core IS NULL OR p.is_core = (mapper.client = 'core'))
         ORDER BY p.place
    LOOP
        IF part.language IS NULL THEN
            EXECUTE format('CREATE VIEW %I.%I AS %s', schema, part.signature, part.code);
            EXECUTE format('CREATE TRIGGER hilo_written INSTEAD OF INSERT OR UPDATE ON %1$I.%2$I '
                           'FOR EACH ROW EXECUTE FUNCTION %1$I.hilo_written()',
                           schema, part.signature);
            -- It keeps no data. Whoever draws needs a privilege on the sequence.
            EXECUTE format('GRANT SELECT, INSERT, UPDATE ON %I.%I TO PUBLIC',
                           schema, part.signature);
            RETURN NEXT format('view %I.%I', schema, part.signature);
        ELSE
            EXECUTE format('CREATE FUNCTION %I.%s RETURNS %s LANGUAGE %s %s AS %L',
                           schema, part.signature, part.result, part.language,
                           CASE part.language WHEN 'sql' THEN 'STABLE'
                                ELSE 'SET search_path = pg_catalog, pg_temp' END, part.code);
            RETURN NEXT format('function %I.%s', schema, part.signature);
        END IF;
    END LOOP;
    EXECUTE format('COMMENT ON FUNCTION %I.%I(text) IS %L', schema,
                   CASE client WHEN 'core' THEN 'nextval' ELSE 'hilo_block' END,
                   'facade of hilo for ' || client);
    IF mapper.makes IN ('nextval', 'hibernate_unique_key') THEN
        RAISE NOTICE 'nextval with a regclass still draws from a sequence of Postgres'
            USING HINT = 'Drop the sequences that hilo''s take the place of, '
                         'and let the mapper call nextval with a text.';
    END IF;
END;
$make$;
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
