-- hilo_find_gaps: the values of a sequence that a column lacks, and why.
--
-- A numbering gives each place, from 0 on, a value. The places of the present numbering are the
-- indexes of the sequence; gaps in the same steps may lie before them. Gaps in other steps are
-- numberings of their own. A segment is a range of places that are examined, and the reason why the
-- column may lack them.

CREATE FUNCTION _hilo.hilo_known(name @extschema@.hilo_sequence)
    RETURNS TABLE (
        base bigint, increment bigint, node integer, nodes integer, stripe bigint,
        next bigint, goes_on boolean, start_value bigint,
        first bigint, last bigint, count bigint, step bigint, reason text
    )
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'hilo_known_wrapper';
COMMENT ON FUNCTION _hilo.hilo_known(@extschema@.hilo_sequence) IS
    'Returns what is known of the values of a sequence on this node, and in each row how it is '
    'numbered. next: the index that is reserved next. goes_on: whether there is one. step: from '
    'one value to the next, in the numbering that they are of. There is at least one row; its '
    'count may be 0';

CREATE FUNCTION _hilo.hilo_absent(
    relation regclass, column_name name, first bigint, next bigint,
    base bigint, increment bigint, min_value bigint, max_value bigint, cycle boolean,
    node integer, nodes integer, stripe bigint
)
    RETURNS TABLE (absent_first bigint, absent_next bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'hilo_absent_wrapper';
COMMENT ON FUNCTION _hilo.hilo_absent(
    regclass, name, bigint, bigint, bigint, bigint, bigint, bigint, boolean, integer, integer,
    bigint) IS
    'Returns the places of a numbering, from first to the one before next, whose values a column '
    'lacks: ranges, in order';

CREATE FUNCTION _hilo.hilo_index_from(
    value bigint, base bigint, increment bigint, min_value bigint, max_value bigint, cycle boolean,
    node integer, nodes integer, stripe bigint
)
    RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_index_from_wrapper';
COMMENT ON FUNCTION _hilo.hilo_index_from(
    bigint, bigint, bigint, bigint, bigint, boolean, integer, integer, bigint) IS
    'Returns the first index whose value does not lie before a value';

CREATE TYPE _hilo.hilo_grid AS (
    base bigint, increment bigint, node integer, nodes integer, stripe bigint
);
COMMENT ON TYPE _hilo.hilo_grid IS
    'A numbering without bounds: the value of place 0, the step from one to the next, and the '
    'stripes of a node';

CREATE FUNCTION _hilo.hilo_value_at(place bigint, grid _hilo.hilo_grid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN _hilo.hilo_value_at(
        $1, ($2).base, ($2).increment, -9223372036854775808, 9223372036854775807, false,
        ($2).node, ($2).nodes, ($2).stripe);
COMMENT ON FUNCTION _hilo.hilo_value_at(bigint, _hilo.hilo_grid) IS
    'Returns the value of a place in a numbering without bounds';

CREATE FUNCTION _hilo.hilo_place_from(value bigint, grid _hilo.hilo_grid) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN _hilo.hilo_index_from(
        $1, ($2).base, ($2).increment, -9223372036854775808, 9223372036854775807, false,
        ($2).node, ($2).nodes, ($2).stripe);
COMMENT ON FUNCTION _hilo.hilo_place_from(bigint, _hilo.hilo_grid) IS
    'Returns the first place whose value does not lie before a value';

CREATE FUNCTION _hilo.hilo_places(from_value bigint, to_value bigint, grid _hilo.hilo_grid)
    RETURNS TABLE (from_place bigint, to_place bigint, first bigint, next bigint, are_on boolean)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT place.of_from, place.of_to, LEAST(place.of_from, place.of_to),
           GREATEST(place.of_from + exact.of_from, place.of_to + exact.of_to),
           exact.of_from + exact.of_to = 2::bigint
      FROM (SELECT _hilo.hilo_place_from($1, $3) AS of_from,
                   _hilo.hilo_place_from($2, $3) AS of_to) place
     CROSS JOIN LATERAL (
         SELECT CASE WHEN $1 = _hilo.hilo_value_at(place.of_from, $3)
                     THEN 1::bigint ELSE 0::bigint END AS of_from,
                CASE WHEN $2 = _hilo.hilo_value_at(place.of_to, $3)
                     THEN 1::bigint ELSE 0::bigint END AS of_to) exact;
END;
COMMENT ON FUNCTION _hilo.hilo_places(bigint, bigint, _hilo.hilo_grid) IS
    'Returns where two values lie in a numbering, or would. The values from one to the other have '
    'the places from first to the one before next. are_on: whether the numbering has both';

CREATE FUNCTION _hilo.hilo_steps_before(value bigint, grid _hilo.hilo_grid) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ($2).nodes <= 1
                     AND pg_catalog.mod(($2).base::numeric - $1::numeric,
                                        ($2).increment::numeric) = 0::numeric
                THEN pg_catalog.div(($2).base::numeric - $1::numeric, ($2).increment::numeric) END;
COMMENT ON FUNCTION _hilo.hilo_steps_before(bigint, _hilo.hilo_grid) IS
    'Returns how many steps a value lies before place 0. NULL: not in whole steps. With stripes, '
    'an earlier base had others';

CREATE FUNCTION _hilo.hilo_gap_reasons() RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY['slice', 'current', 'standby', 'returned', 'leased', 'free']
        || ARRAY(SELECT l.reason
                   FROM _hilo.hilo_losses() WITH ORDINALITY AS l (reason, meaning, at)
                  ORDER BY l.at)
        || ARRAY['not received, rolled back, deleted or unknown', 'rolled back, deleted or unknown',
                 'not received'];
COMMENT ON FUNCTION _hilo.hilo_gap_reasons() IS
    'Returns the reasons of hilo_find_gaps. The first one counts where a value has several';

CREATE FUNCTION _hilo.hilo_reason_rank(reason text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN COALESCE(
        pg_catalog.array_position(_hilo.hilo_gap_reasons(), $1),
        pg_catalog.array_position(_hilo.hilo_gap_reasons(),
                                  'rolled back, deleted or unknown'::text));
COMMENT ON FUNCTION _hilo.hilo_reason_rank(text) IS
    'Returns which of the reasons of hilo_find_gaps it is; for one that is not known, that the '
    'value was served';

CREATE FUNCTION _hilo.hilo_every_place(first bigint, next bigint, step bigint)
    RETURNS TABLE (part_first bigint, part_next bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT $1, $2 WHERE $3 IS NULL
     UNION ALL
    SELECT g.place, g.place + 1::bigint
      FROM pg_catalog.generate_series($1, $2 - 1::bigint, $3) AS g (place);
END;
COMMENT ON FUNCTION _hilo.hilo_every_place(bigint, bigint, bigint) IS
    'Returns a range of places, or each of its places in such steps as a range';

-- Volatile, as all that follow: it reads the pool, which no snapshot keeps unchanged.
CREATE FUNCTION _hilo.hilo_placed(name @extschema@.hilo_sequence)
    RETURNS TABLE (
        at bigint, rank integer, first bigint, count bigint, step bigint,
        is_whole boolean, places int8range, grid _hilo.hilo_grid
    )
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 100
BEGIN ATOMIC
    WITH known AS MATERIALIZED (
        SELECT k.at, _hilo.hilo_reason_rank(k.reason) AS rank,
               k.first, k.last, k.count, k.step, k.reason, k.start_value, k.next, k.goes_on,
               ROW(k.base, k.increment, k.node, k.nodes, k.stripe)::_hilo.hilo_grid AS grid
          FROM _hilo.hilo_known($1) WITH ORDINALITY AS k (
                   base, increment, node, nodes, stripe, next, goes_on, start_value,
                   first, last, count, step, reason, at)
    ), earlier AS (
        -- How far before the base the earliest of these values is a place.
        SELECT COALESCE(pg_catalog.max(s.steps), 0::numeric)::bigint AS places
          FROM known k
         CROSS JOIN LATERAL pg_catalog.unnest(ARRAY[k.first, k.last, k.start_value]) AS u (value)
         CROSS JOIN LATERAL (SELECT _hilo.hilo_steps_before(u.value, k.grid) AS steps) s
         WHERE s.steps BETWEEN 0::numeric AND 9223372036854775806::numeric - k.next::numeric
    ), present AS MATERIALIZED (
        -- Places are counted from there.
        SELECT ROW(((k.grid).base::numeric
                        - e.places::numeric * (k.grid).increment::numeric)::bigint,
                   (k.grid).increment, (k.grid).node, (k.grid).nodes, (k.grid).stripe
                   )::_hilo.hilo_grid AS grid,
               e.places AS earlier,
               CASE WHEN k.goes_on THEN k.next + e.places END AS next, k.start_value
          FROM known k CROSS JOIN earlier e
         LIMIT 1
    )
    SELECT k.at, k.rank, k.first, n.count,
           CASE WHEN (p.grid).nodes <= 1 OR n.count = k.count THEN k.step END, s.is_whole,
           CASE WHEN s.is_whole OR s.has_each
                THEN pg_catalog.int8range(r.part_first, GREATEST(r.part_first, LEAST(r.part_next,
                         -- The sequence has gone back since: what comes next is yet to be served.
                         CASE WHEN k.reason <> 'leased' THEN p.next END)))
           END, p.grid
      FROM known k
     CROSS JOIN present p
     CROSS JOIN LATERAL _hilo.hilo_places(k.first, k.last, p.grid) i
     -- If that is more than are lost, it is not known which.
     CROSS JOIN LATERAL (
         SELECT LEAST(
                    pg_catalog.div(k.last::numeric - k.first::numeric, k.step::numeric)
                        + 1::numeric,
                    9223372036854775807::numeric)::bigint AS count) n
     CROSS JOIN LATERAL (
         SELECT i.are_on
                AND pg_catalog.abs(i.to_place - i.from_place) >= k.count - 1::bigint
                AND pg_catalog.mod(k.step::numeric, (p.grid).increment::numeric) = 0::numeric
                    AS is_whole,
                pg_catalog.mod((p.grid).increment::numeric, k.step::numeric) = 0::numeric
                AND pg_catalog.mod((p.grid).base::numeric - k.first::numeric,
                                   k.step::numeric) = 0::numeric AS has_each) s
     CROSS JOIN LATERAL _hilo.hilo_every_place(
         i.first, i.next,
         -- Places of other values lie between them. If they are many, these count too.
         CASE WHEN s.is_whole AND NOT s.has_each AND (p.grid).nodes <= 1 AND n.count <= 100::bigint
              THEN pg_catalog.abs(pg_catalog.div(
                       k.step::numeric, (p.grid).increment::numeric))::bigint END) r
     WHERE k.count > 0::bigint
     UNION ALL
    -- The places before the base. This row is always there.
    SELECT 0::bigint, _hilo.hilo_reason_rank(NULL::text), 0::bigint, 0::bigint, NULL::bigint, true,
           CASE WHEN i.are_on THEN pg_catalog.int8range(LEAST(i.first, p.earlier), p.earlier) END,
           p.grid
      FROM present p
     CROSS JOIN LATERAL _hilo.hilo_places(p.start_value, p.start_value, p.grid) i;
END;
COMMENT ON FUNCTION _hilo.hilo_placed(@extschema@.hilo_sequence) IS
    'Returns what _hilo.hilo_known does, in more rows if other places lie between. places: in the '
    'present numbering; NULL: it does not have these values. is_whole: whether it has all of '
    'them. count: of the steps from first to last. rank: which reason it is';

CREATE FUNCTION _hilo.hilo_every_so_many(first bigint, step bigint, count bigint, steps bigint[])
    RETURNS TABLE (part_first bigint, part_count bigint, part_step bigint)
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE ROWS 1 SET search_path = pg_catalog, pg_temp
AS $$
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
    RETURN QUERY
        SELECT "first" + g.part * step, div("count" - 1 - g.part, parts)::bigint + 1,
               step * parts::bigint
          FROM generate_series(0::bigint, parts::bigint - 1) AS g (part);
END $$;
COMMENT ON FUNCTION _hilo.hilo_every_so_many(bigint, bigint, bigint, bigint[]) IS
    'Divides so many values, in steps from the first one, into parts that each have every so many '
    'of them. A numbering in one of the other steps then has all values of a part in a range, or '
    'none, unless there are few';

CREATE FUNCTION _hilo.hilo_numberings(name @extschema@.hilo_sequence)
    RETURNS TABLE (
        at bigint, grid _hilo.hilo_grid, firsts bigint[], nexts bigint[], reasons text[],
        first_value bigint, last_value bigint
    )
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    WITH placed AS MATERIALIZED (
        SELECT p.at, p.rank, p.first, p.count, p.step, p.is_whole, p.places, p.grid
          FROM _hilo.hilo_placed($1) p
    ), explained AS MATERIALIZED (
        SELECT p.rank, pg_catalog.range_agg(p.places) AS places
          FROM placed p
         WHERE p.places IS NOT NULL
         GROUP BY p.rank
    ), segment AS (
        SELECT pg_catalog.lower(s.places) AS first, pg_catalog.upper(s.places) AS next,
               (_hilo.hilo_gap_reasons())[e.rank] AS reason
          FROM explained e
         CROSS JOIN LATERAL pg_catalog.unnest(e.places OPERATOR(pg_catalog.-) COALESCE(
             (SELECT pg_catalog.range_agg(b.places) FROM explained b WHERE b.rank < e.rank),
             '{}'::int8multirange)) AS s (places)
    ), numbering AS (
        SELECT 0::bigint AS at, p.grid, s.firsts, s.nexts, s.reasons
          FROM (SELECT p.grid FROM placed p LIMIT 1) p
         CROSS JOIN (SELECT pg_catalog.array_agg(s.first ORDER BY s.first) AS firsts,
                            pg_catalog.array_agg(s.next ORDER BY s.first) AS nexts,
                            pg_catalog.array_agg(s.reason ORDER BY s.first) AS reasons
                       FROM segment s) s
         UNION ALL
        -- Values that lie between the places of the present one.
        SELECT p.at, ROW(e.part_first, e.part_step, 0, 1, 1::bigint)::_hilo.hilo_grid,
               ARRAY[0::bigint], ARRAY[e.part_count], ARRAY[(_hilo.hilo_gap_reasons())[p.rank]]
          FROM placed p
         CROSS JOIN (
             SELECT pg_catalog.array_agg(DISTINCT COALESCE(s.step, (s.grid).increment)) AS steps
               FROM placed s
              WHERE s.at = 0::bigint OR (NOT s.is_whole AND s.step IS NOT NULL)) o
         CROSS JOIN LATERAL _hilo.hilo_every_so_many(p.first, p.step, p.count, o.steps) e
         WHERE NOT p.is_whole AND p.step IS NOT NULL
    )
    SELECT n.at, n.grid, n.firsts, n.nexts, n.reasons, _hilo.hilo_value_at(n.firsts[1], n.grid),
           _hilo.hilo_value_at(n.nexts[pg_catalog.cardinality(n.nexts)] - 1::bigint, n.grid)
      FROM numbering n;
END;
COMMENT ON FUNCTION _hilo.hilo_numberings(@extschema@.hilo_sequence) IS
    'Returns the numberings whose values are examined, in the order of at. firsts, nexts, '
    'reasons: of the segments, the first places, the places after the last ones, and why';

CREATE FUNCTION _hilo.hilo_absent(
    relation regclass, column_name name, grid _hilo.hilo_grid,
    firsts bigint[], nexts bigint[], reasons text[]
)
    RETURNS TABLE (first bigint, next bigint, reason text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 1000
BEGIN ATOMIC
    SELECT GREATEST(a.first, $4[a.segment]), LEAST(a.next, $5[a.segment]), $6[a.segment]
      FROM (SELECT a.absent_first AS first, a.absent_next AS next,
                   pg_catalog.generate_series(
                       pg_catalog.width_bucket(a.absent_first, $4),
                       pg_catalog.width_bucket(a.absent_next - 1::bigint, $4)) AS segment
              -- Called without segments too, it checks that the caller may read the column.
              FROM _hilo.hilo_absent(
                       $1, $2, COALESCE($4[1], 0::bigint),
                       COALESCE($5[pg_catalog.cardinality($5)], 0::bigint),
                       ($3).base, ($3).increment, -9223372036854775808, 9223372036854775807, false,
                       ($3).node, ($3).nodes, ($3).stripe) a) a;
END;
COMMENT ON FUNCTION _hilo.hilo_absent(
    regclass, name, _hilo.hilo_grid, bigint[], bigint[], text[]) IS
    'Returns the places of a numbering, within its segments, whose values a column lacks: ranges, '
    'in order. A range may be empty';

CREATE FUNCTION _hilo.hilo_shared_places(
    grid _hilo.hilo_grid, first bigint, next bigint,
    other _hilo.hilo_grid, firsts bigint[], nexts bigint[], first_value bigint, last_value bigint
)
    RETURNS TABLE (shared_first bigint, shared_next bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    WITH range AS (
        -- Every so many places the two have a value in common.
        SELECT GREATEST(e.first, $2) AS first, LEAST(e.next, $3) AS next,
               pg_catalog.abs(($4).increment::numeric)
                   / pg_catalog.gcd(($4).increment::numeric, ($1).increment::numeric) AS step
          FROM _hilo.hilo_places($7, $8, $1) e
    ), common AS (
        SELECT b.first, b.next, s.step, s.is_each, c.first AS common
          FROM range b
         CROSS JOIN LATERAL (SELECT LEAST(b.step, (b.next - b.first)::numeric)::bigint AS step,
                                    b.step = 1::numeric AND ($4).nodes <= 1 AS is_each) s
         CROSS JOIN LATERAL (
             SELECT pg_catalog.min(g.place) AS first
               FROM pg_catalog.generate_series(b.first, b.first + s.step - 1::bigint) AS g (place)
              WHERE pg_catalog.mod(
                        ($1).base::numeric + ($1).increment::numeric * g.place::numeric
                            - ($4).base::numeric,
                        ($4).increment::numeric) = 0::numeric) c
         WHERE b.first < b.next AND c.first IS NOT NULL
    )
    -- A range for each segment,
    SELECT GREATEST(i.first, c.first), LEAST(i.next, c.next)
      FROM common c
     CROSS JOIN LATERAL _hilo.hilo_places(
         _hilo.hilo_value_at(c.first, $1), _hilo.hilo_value_at(c.next - 1::bigint, $1), $4) o
     CROSS JOIN LATERAL pg_catalog.generate_series(
         GREATEST(pg_catalog.width_bucket(o.first, $5), 1),
         pg_catalog.width_bucket(o.next - 1::bigint, $5)) AS s (segment)
     CROSS JOIN LATERAL _hilo.hilo_places(
         _hilo.hilo_value_at($5[s.segment], $4),
         _hilo.hilo_value_at($6[s.segment] - 1::bigint, $4), $1) i
     WHERE c.is_each AND $5[s.segment] < $6[s.segment]
       AND GREATEST(i.first, c.first) < LEAST(i.next, c.next)
     UNION ALL
    -- or one for each value.
    SELECT q.place, q.place + 1::bigint
      FROM common c
     CROSS JOIN LATERAL pg_catalog.generate_series(
         c.common, c.next - 1::bigint, c.step) AS q (place)
     CROSS JOIN LATERAL (SELECT _hilo.hilo_value_at(q.place, $1) AS value) v
     CROSS JOIN LATERAL _hilo.hilo_places(v.value, v.value, $4) i
     WHERE NOT c.is_each AND i.are_on AND i.first < $6[pg_catalog.width_bucket(i.first, $5)];
END;
COMMENT ON FUNCTION _hilo.hilo_shared_places(
    _hilo.hilo_grid, bigint, bigint, _hilo.hilo_grid, bigint[], bigint[], bigint, bigint) IS
    'Returns which places of a numbering, from first to the one before next, have values that a '
    'segment of another one has';

CREATE FUNCTION _hilo.hilo_in_stripes(first bigint, next bigint, grid _hilo.hilo_grid)
    RETURNS TABLE (part_first bigint, part_next bigint)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT GREATEST($1, n.start), n.start + LEAST($2 - n.start, n.width)
      FROM (SELECT w.width, w.width * pg_catalog.generate_series(
                       $1 / w.width, ($2 - 1::bigint) / w.width) AS start
              FROM (SELECT CASE WHEN ($3).nodes > 1 THEN ($3).stripe
                                ELSE 9223372036854775807 END AS width) w) n;
END;
COMMENT ON FUNCTION _hilo.hilo_in_stripes(bigint, bigint, _hilo.hilo_grid) IS
    'Returns the parts of a range of places that lie within one stripe each: there, values are in '
    'even steps';

-- jit is off, because the planner expects many rows.
CREATE FUNCTION @extschema@.hilo_find_gaps(
    name @extschema@.hilo_sequence, relation regclass, column_name name
)
    RETURNS TABLE (first bigint, last bigint, count bigint, reason text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 1000 SET jit = off
BEGIN ATOMIC
    WITH numbering AS MATERIALIZED (
        SELECT n.at, n.grid, n.firsts, n.nexts, n.reasons, n.first_value, n.last_value
          FROM _hilo.hilo_numberings($1) n
    ), absent AS MATERIALIZED (
        SELECT n.at, n.grid, a.reason, a.first, a.next
          FROM numbering n
         CROSS JOIN LATERAL _hilo.hilo_absent(
             $2, $3, n.grid, n.firsts, n.nexts, n.reasons) a
         WHERE a.first < a.next
    ), missing AS (
        SELECT a.at, a.grid, a.reason, a.first, a.next FROM absent a WHERE a.at = 0::bigint
         UNION ALL
        -- The parts that no numbering before this one has examined.
        SELECT a.at, a.grid, a.reason, rest.first, rest.next
          FROM absent a
         CROSS JOIN LATERAL (
             SELECT pg_catalog.max(examined.next) OVER (
                        ORDER BY examined.first, examined.next
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS first,
                    examined.first AS next
               FROM (VALUES (a.first, a.first), (a.next, a.next)
                      UNION ALL
                     SELECT s.shared_first, s.shared_next
                       FROM numbering n
                      CROSS JOIN LATERAL _hilo.hilo_shared_places(
                          a.grid, a.first, a.next,
                          n.grid, n.firsts, n.nexts, n.first_value, n.last_value) s
                      WHERE n.at < a.at) AS examined (first, next)) rest
         WHERE a.at > 0::bigint AND rest.first < rest.next
    )
    SELECT _hilo.hilo_value_at(s.part_first, m.grid),
           _hilo.hilo_value_at(s.part_next - 1::bigint, m.grid),
           s.part_next - s.part_first, m.reason
      FROM missing m
     CROSS JOIN LATERAL _hilo.hilo_in_stripes(m.first, m.next, m.grid) s
     ORDER BY m.at, s.part_first, (m.grid).base;
END;
COMMENT ON FUNCTION @extschema@.hilo_find_gaps(@extschema@.hilo_sequence, regclass, name) IS
    'Returns the values of a sequence that a column lacks, from the start of the sequence to its '
    'position on this node. They are ranges in steps of the increment, each with its reason. '
    'slice, current, standby, returned: in memory, to be served. free: in the catalog, to be '
    'served. leased: in use elsewhere. The reasons of hilo_gaps: as there. not received: the '
    'source has brought no value this far. Else: rolled back, deleted or unknown; with a source '
    'perhaps not received. Requires SELECT, USAGE, UPDATE or LEASE on the sequence and SELECT on '
    'the column, which must be of type smallint, integer, bigint or numeric. Errors: 42704 if the '
    'sequence does not exist, 42703 if the column does not exist, 42804 if the column has another '
    'type, 42809 if a superuser names a view, 0A000 if the sequence cycles, 42501.';
