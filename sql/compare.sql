-- hilo_compare: what differs between this server and another one, as the summaries of both say. As in views.sql, operands have exactly the types of core's own operators.

CREATE FUNCTION hilo.server_state() RETURNS jsonb
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_server_state_wrapper';
COMMENT ON FUNCTION hilo.server_state() IS
    'Returns what settings, sessions and shared memory say of this server, and advice that depends on them';

CREATE FUNCTION hilo.node_answers(command text) RETURNS TABLE (object text, node integer, answer text, failure text)
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_node_answers_wrapper';
COMMENT ON FUNCTION hilo.node_answers(text) IS
    'Returns what a command that returns one value says on each node of Citus, or why it says nothing';

CREATE FUNCTION hilo.read_summary(summary jsonb) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'hilo_read_summary_wrapper';
COMMENT ON FUNCTION hilo.read_summary(jsonb) IS
    'Checks a summary, and returns it with all options of each sequence and whether several nodes share it';

-- Compares a node, whose summary is given, with this one. other: how the findings call it.
CREATE FUNCTION hilo.differences(other text, summary jsonb)
    RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    WITH doc AS MATERIALIZED (
        SELECT hilo.read_summary(summary) AS there,
               hilo.read_summary(hilo_node_summary(NULL::hilo_sequence)) AS here
    ), node AS MATERIALIZED (
        SELECT m.id, m.count, t.id AS their_id, t.count AS their_count,
               a.restart, a.complete, d.here, d.there
          FROM doc d
         CROSS JOIN LATERAL pg_catalog.jsonb_to_record(pg_catalog.jsonb_extract_path(d.here, 'node'))
                            AS m (id integer, count integer, server text)
         CROSS JOIN LATERAL pg_catalog.jsonb_to_record(pg_catalog.jsonb_extract_path(d.there, 'node'))
                            AS t (id integer, count integer, server text)
         CROSS JOIN LATERAL pg_catalog.jsonb_to_record(hilo.server_state())
                            AS a (restart text, complete text)
         WHERE t.server <> m.server
    ), mine AS (
        SELECT s.*
          FROM node n
         CROSS JOIN LATERAL pg_catalog.jsonb_to_recordset(pg_catalog.jsonb_extract_path(n.here, 'sequences'))
                            AS s (name text, shared boolean, owner text, privileges jsonb, options jsonb,
                                  low bigint, high bigint, numbering text)
    ), theirs AS (
        SELECT s.*
          FROM node n
         CROSS JOIN LATERAL pg_catalog.jsonb_to_recordset(pg_catalog.jsonb_extract_path(n.there, 'sequences'))
                            AS s (name text, shared boolean, owner text, privileges jsonb, options jsonb,
                                  low bigint, high bigint, numbering text)
    ), pair AS MATERIALIZED (
        SELECT COALESCE(m.name, t.name) AS name,
               CASE WHEN t.name IS NULL THEN 'lacks' WHEN m.name IS NULL THEN 'has' END AS alone,
               COALESCE(m.shared, t.shared) AS shared,
               m.privileges IS DISTINCT FROM t.privileges OR m.owner IS DISTINCT FROM t.owner AS roles_differ,
               -- Null: one of the two has options that no sequence can have.
               m.low <= t.high AND t.low <= m.high AS alike,
               m.options AS here, t.options AS there, m.numbering, t.numbering AS their_numbering
          FROM mine m FULL JOIN theirs t ON t.name = m.name
    ), list (what, after, count, first, what_to_do) AS (
        SELECT p.alone, CASE p.alone WHEN 'lacks' THEN ' that several nodes serve' ELSE ' that this server lacks' END,
               pg_catalog.count(*), pg_catalog.min(p.name COLLATE "C"),
               n.complete
          FROM pair p CROSS JOIN node n
         WHERE p.alone IS NOT NULL AND p.shared
         GROUP BY p.alone, n.complete
         UNION ALL
        SELECT 'refuses to serve', ': it does not know how the others number them',
               pg_catalog.count(*), pg_catalog.min(p.name COLLATE "C"), n.complete
          FROM pair p CROSS JOIN node n
         WHERE p.alike AND p.shared AND p.their_numbering IS NULL
         GROUP BY n.complete
    )
    SELECT other, 'warning',
           pg_catalog.format('its hilo.node_count is %s, and here it is %s', n.their_count, n.count),
           'Set hilo.node_count to the same number on every node, more than there will ever be nodes, and reload.'
      FROM node n WHERE n.their_count <> n.count
     UNION ALL
    SELECT other, CASE WHEN p.count > 0 THEN 'error' ELSE 'warning' END,
           pg_catalog.format('its node id is %s, as that of this server', n.id)
           OPERATOR(pg_catalog.||) CASE WHEN p.count > 0
                THEN pg_catalog.format(': both serve the same values of %s sequences, such as "%s"', p.count, p.first)
                ELSE '' END,
           pg_catalog.format('Give each server its own hilo.node_id, and renumber the sequences that both have '
                             'served. %s', n.restart)
      FROM node n
     CROSS JOIN (SELECT pg_catalog.count(*) AS count, pg_catalog.min(a.name COLLATE "C") AS first
                   FROM pair a WHERE a.alike) p
     -- A server that shares no sequence needs no id.
     WHERE n.their_id = n.id AND (p.count > 0 OR n.count > 1)
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', p.name), 'warning',
           pg_catalog.format('owner or privileges differ on %s', other),
           'Repeat hilo_grant, hilo_revoke or hilo_set_owner on the node where it was left out.'
      FROM pair p WHERE p.alike IS NOT NULL AND p.roles_differ AND p.shared
     UNION ALL
    SELECT pg_catalog.format('sequence "%s"', p.name), 'error',
           pg_catalog.format('numbered %s here, and %s by %s: both may serve the same values',
                             p.numbering, p.their_numbering, other),
           n.restart
      FROM pair p CROSS JOIN node n WHERE p.alike AND p.numbering <> p.their_numbering
     UNION ALL
    -- Some options decide which values there are.
    SELECT pg_catalog.format('sequence "%s"', p.name),
           CASE WHEN pg_catalog.bool_or(h.key IN ('increment', 'cycle')) THEN 'error' ELSE 'warning' END,
           pg_catalog.format('%s differs on %s', pg_catalog.string_agg(h.key, ', ' ORDER BY h.key COLLATE "C"), other),
           'Alter the sequence on one of the two nodes with hilo_alter.'
      FROM pair p
     CROSS JOIN LATERAL pg_catalog.jsonb_each(p.here) h
      JOIN LATERAL pg_catalog.jsonb_each(p.there) t ON t.key = h.key AND t.value <> h.value
     WHERE p.alike AND p.here <> p.there
     GROUP BY p.name
     UNION ALL
    SELECT other, 'warning', pg_catalog.format('%s %s sequences, such as "%s"%s', s.what, s.count, s.first, s.after),
           s.what_to_do
      FROM list s;
END;
COMMENT ON FUNCTION hilo.differences(text, jsonb) IS 'Returns what is wrong between this server and another one';

CREATE FUNCTION hilo_compare(summary jsonb) RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
BEGIN ATOMIC
    SELECT d.object, d.severity, d.what, d.what_to_do
      FROM hilo.differences(pg_catalog.format('node %s', COALESCE(
               pg_catalog.jsonb_extract_path_text(summary, 'node', 'id'), 'unknown')), summary) d;
END;
COMMENT ON FUNCTION hilo_compare(jsonb) IS
    'Compares this server with the one whose hilo_node_summary() is given. It compares node ids, node counts, and the '
    'definitions and numberings of the sequences that the caller may read. Returns a row for each finding, as '
    'hilo_check does. Errors: 22023 if it is not such a summary.';
