-- hilo_find_gaps: the values of a sequence that a column lacks, and why.
--
-- A numbering gives each place, from 0 on, a value. The places of the present numbering are the indexes of the sequence;
-- gaps in the same steps may lie before them. Gaps in other steps are numberings of their own. A segment is a range of
-- places that are examined, and the reason why the column may lack them.

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

CREATE FUNCTION hilo.value_at(place bigint, base bigint, increment bigint, node integer, nodes integer, stripe bigint)
    RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hilo.value_at($1, $2, $3, -9223372036854775808, 9223372036854775807, false, $4, $5, $6);
COMMENT ON FUNCTION hilo.value_at(bigint, bigint, bigint, integer, integer, bigint) IS
    'Returns the value of a place in a numbering without bounds';

CREATE FUNCTION hilo.places(
    one bigint, other bigint, base bigint, increment bigint, node integer, nodes integer, stripe bigint
)
    RETURNS TABLE (one_place bigint, other_place bigint, first bigint, next bigint, are_on boolean)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
    SELECT p.one, p.other, LEAST(p.one, p.other), GREATEST(p.one + e.one, p.other + e.other), e.one + e.other = 2::bigint
      FROM (SELECT hilo.index_from($1, $3, $4, -9223372036854775808, 9223372036854775807, false, $5, $6, $7) AS one,
                   hilo.index_from($2, $3, $4, -9223372036854775808, 9223372036854775807, false, $5, $6, $7) AS other) p
     CROSS JOIN LATERAL (
         SELECT CASE WHEN $1 = hilo.value_at(p.one, $3, $4, $5, $6, $7) THEN 1::bigint ELSE 0::bigint END AS one,
                CASE WHEN $2 = hilo.value_at(p.other, $3, $4, $5, $6, $7) THEN 1::bigint ELSE 0::bigint END AS other) e;
END;
COMMENT ON FUNCTION hilo.places(bigint, bigint, bigint, bigint, integer, integer, bigint) IS
    'Returns where two values lie in a numbering, or would. The values from one to the other have the places from first to '
    'the one before next. are_on: whether the numbering has both';

-- Volatile: it reads the pool, which no snapshot keeps unchanged. jit is off, because the planner expects many rows.
CREATE FUNCTION hilo_find_gaps(name hilo_sequence, relation regclass, column_name name)
    RETURNS TABLE (first bigint, last bigint, count bigint, reason text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 1000 SET jit = off
BEGIN ATOMIC
    WITH why AS MATERIALIZED (
        -- The first one counts where a place has several.
        SELECT ARRAY['slice', 'current', 'standby', 'returned', 'leased', 'free', 'crash', 'discarded', 'altered', 'expired',
                     'revoked', 'not received, rolled back, deleted or unknown', 'rolled back, deleted or unknown',
                     'not received'] AS reasons
    ), known AS MATERIALIZED (
        SELECT k.*, COALESCE(pg_catalog.array_position(w.reasons, k.reason), 13) AS rank
          FROM hilo.known($1) WITH ORDINALITY AS k (
                   base, increment, node, nodes, stripe, next, goes_on, start_value, first, last, count, reason, at)
         CROSS JOIN why w
    ), earlier AS (
        -- How far before the base the earliest of these values is a place. With stripes, an earlier base had others.
        SELECT COALESCE(pg_catalog.max(v.places), 0::numeric)::bigint AS places
          FROM known k
         CROSS JOIN LATERAL pg_catalog.unnest(ARRAY[k.first, k.last, k.start_value]) AS u (value)
         CROSS JOIN LATERAL (
             SELECT pg_catalog.div(k.base::numeric - u.value::numeric, k.increment::numeric) AS places,
                    pg_catalog.mod(k.base::numeric - u.value::numeric, k.increment::numeric) AS rest) v
         WHERE k.nodes <= 1 AND v.rest = 0::numeric
           AND v.places BETWEEN 0::numeric AND 9223372036854775806::numeric - k.next::numeric
    ), present AS MATERIALIZED (
        SELECT (k.base::numeric - e.places::numeric * k.increment::numeric)::bigint AS base, k.increment, k.node, k.nodes,
               k.stripe, e.places AS earlier, CASE WHEN k.goes_on THEN k.next + e.places END AS next, k.start_value
          FROM known k CROSS JOIN earlier e
         LIMIT 1
    ), placed AS MATERIALIZED (
        SELECT k.at, k.rank, k.first, k.last, k.count, s.step, s.is_whole,
               CASE WHEN s.is_whole
                         OR CASE WHEN s.step IS NOT NULL
                                 THEN pg_catalog.mod(p.increment::numeric, s.step) = 0::numeric
                                      AND pg_catalog.mod(p.base::numeric - k.first::numeric, s.step) = 0::numeric END
                    THEN pg_catalog.int8range(i.first, GREATEST(i.first, LEAST(i.next,
                             -- The sequence has gone back since: what comes next is yet to be served.
                             CASE WHEN k.reason <> 'leased' THEN p.next END)))
               END AS places
          FROM known k
         CROSS JOIN present p
         CROSS JOIN LATERAL hilo.places(k.first, k.last, p.base, p.increment, p.node, p.nodes, p.stripe) i
         CROSS JOIN LATERAL (
             SELECT k.last::numeric - k.first::numeric AS way, GREATEST(k.count - 1::bigint, 1::bigint)::numeric AS steps) w
         CROSS JOIN LATERAL (
             -- If there are more places than values, gaps became one row, and lie anywhere between its ends.
             SELECT i.are_on AND i.other_place - i.one_place >= k.count - 1::bigint AS is_whole,
                    CASE WHEN w.way = 0::numeric THEN 1::numeric
                         WHEN pg_catalog.mod(w.way, w.steps) = 0::numeric
                              AND pg_catalog.abs(w.way) <= 9223372036854775807::numeric * w.steps
                         THEN pg_catalog.div(w.way, w.steps) END AS step) s
         WHERE k.count > 0::bigint
    ), explained AS MATERIALIZED (
        SELECT r.rank, pg_catalog.range_agg(r.places) AS places
          FROM (SELECT p.rank, p.places FROM placed p WHERE p.places IS NOT NULL
                 UNION ALL
                SELECT 13, pg_catalog.int8range(LEAST(i.first, p.earlier), p.earlier)
                  FROM present p
                 CROSS JOIN LATERAL hilo.places(
                     p.start_value, p.start_value, p.base, p.increment, p.node, p.nodes, p.stripe) i
                 WHERE i.are_on) r
         GROUP BY r.rank
    ), segment AS (
        SELECT pg_catalog.lower(s.places) AS first, pg_catalog.upper(s.places) AS next, w.reasons[e.rank] AS reason
          FROM explained e
         CROSS JOIN why w
         CROSS JOIN LATERAL pg_catalog.unnest(e.places OPERATOR(pg_catalog.-) COALESCE(
             (SELECT pg_catalog.range_agg(b.places) FROM explained b WHERE b.rank < e.rank),
             '{}'::int8multirange)) AS s (places)
    ), numbering AS MATERIALIZED (
        SELECT 0::bigint AS at, p.base, p.increment, p.node, p.nodes, p.stripe, s.firsts, s.nexts, s.reasons
          FROM present p
         CROSS JOIN (SELECT pg_catalog.array_agg(s.first ORDER BY s.first) AS firsts,
                            pg_catalog.array_agg(s.next ORDER BY s.first) AS nexts,
                            pg_catalog.array_agg(s.reason ORDER BY s.first) AS reasons FROM segment s) s
         UNION ALL
        SELECT p.at, p.first, p.step::bigint, 0, 1, 1::bigint, ARRAY[0::bigint], ARRAY[p.count], ARRAY[w.reasons[p.rank]]
          FROM placed p CROSS JOIN why w
         WHERE NOT p.is_whole AND p.step IS NOT NULL
    ), bounded AS MATERIALIZED (
        SELECT n.*, e.first, e.next, hilo.value_at(e.first, n.base, n.increment, n.node, n.nodes, n.stripe) AS one,
               hilo.value_at(e.next - 1::bigint, n.base, n.increment, n.node, n.nodes, n.stripe) AS other
          FROM numbering n
         CROSS JOIN LATERAL (
             SELECT COALESCE(n.firsts[1], 0::bigint) AS first,
                    COALESCE(n.nexts[pg_catalog.cardinality(n.nexts)], 0::bigint) AS next) e
    ), absent AS MATERIALIZED (
        SELECT n.at, n.base, n.increment, n.node, n.nodes, n.stripe, n.reasons[a.segment] AS reason,
               GREATEST(a.absent_first, n.firsts[a.segment]) AS first, LEAST(a.absent_next, n.nexts[a.segment]) AS next
          FROM bounded n
         CROSS JOIN LATERAL (
             SELECT a.absent_first, a.absent_next,
                    pg_catalog.generate_series(pg_catalog.width_bucket(a.absent_first, n.firsts),
                                               pg_catalog.width_bucket(a.absent_next - 1::bigint, n.firsts)) AS segment
               FROM hilo.absent($2, $3, n.first, n.next, n.base, n.increment, -9223372036854775808, 9223372036854775807,
                                false, n.node, n.nodes, n.stripe) a) a
    ), missing AS (
        SELECT a.at, a.base, a.increment, a.node, a.nodes, a.stripe, a.reason, a.first, a.next
          FROM absent a
         WHERE a.at = 0::bigint AND a.first < a.next
         UNION ALL
        -- The parts that no numbering before this one examines.
        SELECT a.at, a.base, a.increment, a.node, a.nodes, a.stripe, a.reason, f.first, f.next
          FROM absent a
         CROSS JOIN LATERAL (
             SELECT pg_catalog.max(t.next) OVER (
                        ORDER BY t.first, t.next ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS first,
                    t.first AS next
               FROM (VALUES (a.first, a.first), (a.next, a.next)
                      UNION ALL
                     SELECT q.place, q.place + s.length
                       FROM bounded n
                      CROSS JOIN LATERAL hilo.places(n.one, n.other, a.base, a.increment, a.node, a.nodes, a.stripe) e
                      CROSS JOIN LATERAL (
                          SELECT GREATEST(e.first, a.first) AS first, LEAST(e.next, a.next) AS next,
                                 pg_catalog.abs(n.increment::numeric)
                                     / pg_catalog.gcd(n.increment::numeric, a.increment::numeric) AS step) b
                      CROSS JOIN LATERAL (
                          SELECT LEAST(b.step, (b.next - b.first)::numeric)::bigint AS step,
                                 CASE WHEN b.step = 1::numeric AND n.nodes <= 1 AND pg_catalog.cardinality(n.firsts) = 1
                                      THEN b.next - b.first ELSE 1::bigint END AS length) s
                      -- Every so many places the two have a value in common.
                      CROSS JOIN LATERAL (
                          SELECT pg_catalog.min(g.place) AS first
                            FROM pg_catalog.generate_series(b.first, b.first + s.step - 1::bigint) AS g (place)
                           WHERE pg_catalog.mod(a.base::numeric + a.increment::numeric * g.place::numeric - n.base::numeric,
                                                n.increment::numeric) = 0::numeric) c
                      CROSS JOIN LATERAL pg_catalog.generate_series(
                          c.first, b.next - 1::bigint, GREATEST(s.step, s.length)) AS q (place)
                      CROSS JOIN LATERAL (
                          SELECT hilo.value_at(q.place, a.base, a.increment, a.node, a.nodes, a.stripe) AS value) v
                      CROSS JOIN LATERAL hilo.places(
                          v.value, v.value, n.base, n.increment, n.node, n.nodes, n.stripe) i
                      WHERE n.at < a.at AND b.first < b.next
                        AND i.are_on AND i.first < n.nexts[pg_catalog.width_bucket(i.first, n.firsts)]
                    ) AS t (first, next)) f
         WHERE a.at > 0::bigint AND f.first < f.next
    )
    -- Values are in even steps within a stripe.
    SELECT hilo.value_at(r.first, r.base, r.increment, r.node, r.nodes, r.stripe),
           hilo.value_at(r.next - 1::bigint, r.base, r.increment, r.node, r.nodes, r.stripe), r.next - r.first, r.reason
      FROM (SELECT m.*, GREATEST(m.missing_first, m.width * m.number) AS first,
                   m.width * m.number + LEAST(m.missing_next - m.width * m.number, m.width) AS next
              FROM (SELECT m.at, m.base, m.increment, m.node, m.nodes, m.stripe, m.reason, m.first AS missing_first,
                           m.next AS missing_next, w.width,
                           pg_catalog.generate_series(m.first / w.width, (m.next - 1::bigint) / w.width) AS number
                      FROM missing m
                     CROSS JOIN LATERAL (
                         SELECT CASE WHEN m.nodes > 1 THEN m.stripe ELSE 9223372036854775807 END AS width) w) m) r
     ORDER BY r.at, r.first;
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
