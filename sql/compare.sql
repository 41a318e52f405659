-- hilo_compare: what differs between this server and another one, as the summaries of both say.
CREATE FUNCTION _hilo.hilo_server_state()
    RETURNS TABLE (
        system_id bigint, timeline integer, no_memory text, slots bigint, slots_taken bigint, slots_scarce boolean,
        turned_over_for bigint, failing bigint[], no_worker_for bigint, twin_seen_for bigint, sessions text, sessions_unknown boolean,
        sessions_hint text, create_for_column text, set_node_id text, alone boolean, restart text, pass text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 1 AS 'MODULE_PATHNAME', 'hilo_server_state_wrapper';
COMMENT ON FUNCTION _hilo.hilo_server_state() IS
    'Returns what sessions and shared memory say of this server, and advice that depends on settings';

CREATE FUNCTION _hilo.hilo_differences(mine jsonb, theirs jsonb)
    RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    WITH node AS MATERIALIZED (
        SELECT m.id, m.count, t.id AS their_id, t.count AS their_count, format('node %s', coalesce(t.id::text, 'unknown')) AS other,
               (SELECT s.restart FROM _hilo.hilo_server_state() s)
          FROM jsonb_to_record(mine -> 'node') AS m (id integer, count integer, server text)
         CROSS JOIN LATERAL jsonb_to_record(theirs -> 'node') AS t (id integer, count integer, server text)
         WHERE t.server <> m.server
    ), sequence AS (
        -- A source says which values come, and to no two servers the same.
        SELECT v.is_mine, w.name, w.owner, w.privileges, w.options, coalesce(w.nodes > 1, false) AS shared,
               w.options ->> 'source' IS NOT NULL AS is_fed,
               (w.options ->> 'min_value')::bigint AS low, (w.options ->> 'max_value')::bigint AS high,
               CASE WHEN w.base IS NOT NULL
                    THEN format('from %s with node count %s and stripes of %s', w.base, w.nodes, w.stripe) END AS numbering
          FROM node n
         CROSS JOIN LATERAL (VALUES (true, mine), (false, theirs)) AS v (is_mine, summary)
         CROSS JOIN LATERAL _hilo.hilo_wanted(v.summary) w
    ), pair AS MATERIALIZED (
        SELECT name, format('sequence "%s"', name) AS object, coalesce(m.shared, t.shared) AS shared,
               m.owner IS DISTINCT FROM t.owner OR m.privileges IS DISTINCT FROM t.privileges AS roles_differ,
               -- Null: one of the two lacks it.
               m.low <= t.high AND t.low <= m.high AS alike, m.is_mine, t.is_mine AS is_theirs,
               m.is_fed OR t.is_fed AS is_fed,
               m.options - '{source,reserve_ahead}'::text[] AS here, t.options - '{source,reserve_ahead}'::text[] AS there,
               m.numbering, t.numbering AS their_numbering
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
                   FROM pair WHERE alike AND NOT is_fed) p
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
      FROM pair p CROSS JOIN node n WHERE p.alike AND NOT p.is_fed AND p.numbering <> p.their_numbering
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
COMMENT ON FUNCTION _hilo.hilo_differences(jsonb, jsonb) IS 'Returns what is wrong between this server and another one';

CREATE FUNCTION @extschema@.hilo_compare(summary jsonb) RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10 SET jit = off
BEGIN ATOMIC
    SELECT _hilo.hilo_raise('22023', 'summary must not be null', 'It says what the other server has.', 'Pass what hilo_node_summary() returns there.')
     WHERE $1 IS NULL;
    SELECT _hilo.hilo_raise(f.code, f.message, f.detail, f.hint) FROM _hilo.hilo_document_fault($1) f WHERE f.code = '22023';
    SELECT _hilo.hilo_raise('22023', 'the document is not the summary of a node', 'It does not say which node it is of.',
                      'Pass what hilo_node_summary() returns on the other server.')
     WHERE pg_catalog.jsonb_typeof($1 -> 'node'::text) <> 'object' OR NOT $1 ? 'node'::text;
    SELECT d.object, d.severity, d.what, d.what_to_do
      FROM _hilo.hilo_differences(_hilo.hilo_node_summary(NULL::@extschema@.hilo_sequence), summary) d;
END;
COMMENT ON FUNCTION @extschema@.hilo_compare(jsonb) IS
    'Compares this server with the one whose hilo_node_summary() is given. It compares node ids, node counts, and the '
    'definitions and numberings of the sequences that the caller may read. Returns a row for each finding, as '
    'hilo_check does. Errors: 22023 if it is not such a summary.';
