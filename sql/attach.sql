-- hilo_attach and hilo_detach: sequences that take their values from a counter. The counter, that
-- of a mapper or a sequence of Postgres, stays in charge.

CREATE FUNCTION _hilo.hilo_counter_size(
    relation regclass, client text, entity text, size bigint, makes text, origin bigint
) RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $size$
DECLARE
    counter record;
BEGIN
    SELECT c.relkind, c.relpersistence, o.seqincrement AS increment,
           o.seqcycle AS cycle, o.seqcache AS cache
      INTO counter
      FROM pg_class c
      LEFT JOIN pg_sequence o ON o.seqrelid = c.oid
     WHERE c.oid = relation;
    IF makes IS NULL OR counter.relkind IS NULL OR (CASE counter.relkind
            WHEN 'S' THEN makes NOT IN ('nextval', 'hibernate_unique_key')
            WHEN 'r' THEN makes = 'nextval' ELSE true END)
    THEN
        PERFORM _hilo.hilo_refuse_client(
            client, format('%s is no counter of the mapper "%s"', relation, client));
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
    RETURN size;
END;
$size$;
COMMENT ON FUNCTION _hilo.hilo_counter_size(regclass, text, text, bigint, text, bigint) IS
    'Returns how many values a block of a counter has, or fails if a mapper cannot share it';

-- hilo_check reads what the comment says. A server that took over from another may have the counter
-- as it was earlier.
CREATE FUNCTION _hilo.hilo_guard_counter(
    relation regclass, client text, size bigint, entity text
) RETURNS text
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    SET quote_all_identifiers = off
AS $guard$
DECLARE
    here CONSTANT text :=
        '(SELECT concat_ws(''/'', c.system_identifier, substr(pg_walfile_name('
        'pg_current_wal_lsn()), 1, 8), d.oid) FROM pg_control_system() c, pg_database d '
        'WHERE d.datname = current_database())';
    -- The first statement has the lock of a session that draws, and so nobody changes what the
    -- second one finds.
    as_it_was CONSTANT text :=
        'SELECT pg_sequence_last_value(%1$s); SELECT CASE WHEN EXISTS (SELECT FROM pg_sequence o '
        'WHERE o.seqrelid = %1$s AND o.seqincrement = %2$s AND NOT o.seqcycle AND o.seqcache = 1) '
        'THEN 0 ELSE _hilo.hilo_refuse('
        '''the counter has another INCREMENT, CYCLE or CACHE than when it was attached''::text, '
        '''Change it back, or call hilo_attach again.''::text) END; ';
    increment CONSTANT bigint := (
        SELECT o.seqincrement FROM pg_sequence o WHERE o.seqrelid = relation);
    place text;
BEGIN
    -- A standby refuses the next statement.
    IF NOT pg_is_in_recovery() THEN
        EXECUTE 'SELECT ' || here INTO place;
    END IF;
    RETURN format('/* %s of %s from %s */ SELECT CASE WHEN %s = %L THEN 0 '
                  'ELSE _hilo.hilo_refuse('
                  '''the counter may lack numbers, since another server drew from it''::text, '
                  '''Set it beyond all numbers of the tables that use it, and call hilo_attach '
                  'again.''::text) END; ',
                  client, size, hashtextextended(concat_ws(' ', relation::text, entity), 0),
                  here, place)
           || CASE WHEN increment IS NULL THEN ''
                   ELSE format(as_it_was, quote_literal(relation::text) || '::regclass',
                               increment) END;
END;
$guard$;
COMMENT ON FUNCTION _hilo.hilo_guard_counter(regclass, text, bigint, text) IS
    'Returns queries that fail if a counter may have lost numbers or works otherwise than now. '
    'entity: which of the counters of a table';

-- The queries that take whole blocks from a counter, as the mapper does. $2 is how many values are
-- wanted, $4 the furthest that has come. A million calls of nextval bring less, but in time. A
-- block below the minimum of the counter is cut there. hilo_source_of fills in the names between
-- @, and those that begin with %.
CREATE VIEW _hilo.hilo_counter_query AS
    SELECT q.counter, q.query
      FROM (VALUES
('core', $query$
  WITH r AS (SELECT min(b.value) AS first, max(b.value) AS last
               FROM (SELECT v.value,
                            v.value - @size@::bigint * row_number() OVER (ORDER BY v.value)
                                AS island
                       FROM (SELECT nextval(%1$s) AS value
                               FROM generate_series(1::bigint, LEAST($2, 1000000::bigint))) v) b
              GROUP BY b.island)
$query$),
('sequence', $query$
  WITH r AS (SELECT i.first, i.last
               FROM (SELECT GREATEST(@first@, @low@::bigint) AS first, (@first@) + size - 1 AS last
                       FROM (SELECT nextval(%1$s) AS value, @size@::bigint AS size
                               FROM generate_series(
                                        1::bigint, LEAST(@blocks@ + 1, 1000000::bigint))) b) i
              WHERE i.last >= i.first)
$query$),
('hibernate_sequences', $query$
  WITH b AS (UPDATE %2$s SET next_val = next_val + @blocks@ * @step@
              WHERE sequence_name = %3$s
          RETURNING next_val - @blocks@ * @step@ AS value, @size@::bigint AS size), @rows@
$query$),
('hibernate_unique_key', $query$
  WITH b AS (UPDATE %2$s SET next_hi = next_hi + @blocks@
          RETURNING next_hi - @blocks@ AS value, @size@::bigint AS size), @rows@
$query$),
('mt_hilo', $query$
  WITH b AS (INSERT INTO %2$s AS t (entity_name, hi_value) VALUES (%3$s, @blocks@ - 1)
                 ON CONFLICT (entity_name) DO UPDATE SET hi_value = t.hi_value + @blocks@
          RETURNING t.hi_value - @blocks@ + 1 AS value, @size@::bigint AS size), @rows@
$query$)
           ) AS q (counter, query);
-- hilo_source_of reads it with its caller's rights.
REVOKE ALL ON _hilo.hilo_counter_query FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_counter_query TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_counter_query IS
    'Queries that take whole blocks from a counter. counter: core for nextval of each number, '
    'sequence for the sequence of a mapper, or the name of the mapper''s table';

-- Names are filled in last, so that no name is taken for a part of the query.
CREATE FUNCTION _hilo.hilo_source_of(relation regclass, client text, entity text, size bigint)
    RETURNS text
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    SET quote_all_identifiers = off
AS $source$
DECLARE
    -- Refuses a counter whose value is not beyond $4.
    checked CONSTANT text :=
        'SELECT CASE WHEN r.first @beyond@ $4 OR $4 IS NULL THEN r.first '
        'ELSE _hilo.hilo_refuse(''the counter was set back: it gives '' || r.first::text '
        '|| '' after '' || $4::text, '
        '''Set it beyond all numbers of the tables that use it.''::text) END, r.last FROM r';
    low CONSTANT bigint := (SELECT o.seqmin FROM pg_sequence o WHERE o.seqrelid = relation);
    mapper _hilo.hilo_mapper;
    query text;
BEGIN
    SELECT m.* INTO mapper FROM _hilo.hilo_mapper m WHERE m.client = hilo_source_of.client;
    size := _hilo.hilo_counter_size(relation, client, entity, size, mapper.makes, mapper.origin);
    SELECT q.query || checked INTO query
      FROM _hilo.hilo_counter_query q
     WHERE q.counter = CASE WHEN client = 'core' THEN 'core'
                            WHEN low IS NOT NULL THEN 'sequence'
                            ELSE mapper.makes END;
    query := _hilo.hilo_fill_in(query, ARRAY[
        '@rows@', 'r AS (SELECT @first@ AS first, '
                  '(@first@) + ($2 + size - 1) / size * size - 1 AS last FROM b)',
        '@blocks@', '($2 + @size@ - 1) / @size@',
        '@step@', CASE mapper.step WHEN 'size' THEN size ELSE 1 END::text,
        '@beyond@', CASE WHEN size < 0 THEN '<' ELSE '>' END,
        '@first@', mapper.first, '@low@', low::text, '@size@', size::text]);
    RETURN _hilo.hilo_guard_counter(
               relation, client, size,
               CASE WHEN mapper.makes IN ('hibernate_sequences', 'mt_hilo') THEN entity END)
           || format(query, quote_literal(relation::text) || '::regclass', relation::text,
                     quote_literal(entity));
END;
$source$;
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
                  FROM pg_sequence o
                 WHERE o.seqrelid = relation
                   AND has_sequence_privilege(o.seqrelid, 'USAGE, SELECT'));
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
    name @extschema@.hilo_sequence, relation regclass, client text DEFAULT 'core',
    entity text DEFAULT NULL
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

CREATE VIEW _hilo.hilo_core_feed AS
    SELECT f.adrelid AS relation, f.adnum AS number, d.refobjid AS sequence
      FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_attrdef f ON f.oid = d.objid
      JOIN pg_catalog.pg_class c ON c.oid = d.refobjid AND c.relkind = 'S'
     WHERE d.classid = 2604::oid AND d.refclassid = 1259::oid
     UNION
    SELECT d.refobjid, d.refobjsubid::smallint, d.objid
      FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S'
     WHERE d.classid = 1259::oid AND d.refclassid = 1259::oid AND d.deptype = 'i';
-- Functions read it with their callers' rights.
REVOKE ALL ON _hilo.hilo_core_feed FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_core_feed TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_core_feed IS
    'The columns that a sequence of Postgres feeds, as their default or as that of an identity '
    'column';

-- A sequence that was attached to one of Postgres goes on with the next number of that. Only a
-- query that hilo_attach has written is believed. It is not run, since it is its owner's.
CREATE FUNCTION @extschema@.hilo_detach(name @extschema@.hilo_sequence, start bigint DEFAULT NULL)
    RETURNS bigint
    LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
    SELECT _hilo.hilo_detach($1, COALESCE($2, (
        SELECT CASE WHEN EXISTS (
                   SELECT FROM _hilo.hilo_core_feed f WHERE f.sequence = o.seqrelid)
               THEN _hilo.hilo_refuse(
                   pg_catalog.format(
                       'columns still draw from the sequence that "%s" is attached to', $1),
                   'Let their defaults call hilo_nextval, or say where the numbers begin.')
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
    'Removes the source of a sequence, which numbers itself from start on, and returns start. '
    'start must lie where nobody else serves values. null: the next number of the sequence of '
    'Postgres to which it was attached as client core, and from which nobody may draw any more. '
    'Values that the sequence holds and has not served become a gap. Requires ownership of the '
    'sequence. Errors: those of hilo_alter, 22023 if start is null and the source another one, '
    '55000 if start is null and columns still draw from that sequence, if start is not beyond '
    'what the sequence may have served, or if it has no source.';
