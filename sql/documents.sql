-- Definitions as a document: hilo_export, and hilo_node_summary, by which servers compare them. docs/hilo.schema.json
-- describes the form. A field that is left out, or null, stands for its default.
--
-- jit is off, because the planner expects many rows where there may be one.

-- The sequences that the current user may read. options: all of them. entry: what a document says, which is the fewest fields
-- that make the same sequence. A role that does not exist any more is left out. Only who acts as the owner sees what runs as
-- the owner.
CREATE VIEW _hilo.hilo_described WITH (security_barrier) AS
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
      FROM _hilo.hilo_readable s
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
                        OPERATOR(pg_catalog.||) CASE WHEN pg_catalog.bool_or(p.privilege = 'LEASE') THEN '["LEASE"]'::jsonb ELSE '[]' END
                            AS privileges
                   FROM (SELECT q.grantee::oid AS role, q.privilege FROM _hilo.hilo_privilege q WHERE q.sequence = s.id) p
                  GROUP BY p.role) g
          WHERE g.grantee IS NOT NULL
     ) p;
-- The functions below and hilo_apply read it with their caller's rights.
REVOKE ALL ON _hilo.hilo_described FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_described TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_described IS 'Sequences that the current user may read, as documents describe them';

CREATE FUNCTION _hilo.hilo_may_see(name @extschema@.hilo_sequence, must_exist boolean) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_may_see_wrapper';
COMMENT ON FUNCTION _hilo.hilo_may_see(@extschema@.hilo_sequence, boolean) IS
    'Returns whether a sequence exists, or fails with 42704; and with 42501 if the current user may not read it';

CREATE FUNCTION @extschema@.hilo_export(name @extschema@.hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL RESTRICTED SET jit = off
BEGIN ATOMIC
    SELECT _hilo.hilo_may_see($1, true);
    SELECT pg_catalog.jsonb_build_object('hilo', 1, 'sequences', COALESCE(pg_catalog.jsonb_agg(d.entry ORDER BY d.name), '[]'))
      FROM (SELECT a.name, a.entry FROM _hilo.hilo_described a WHERE $1 IS NULL
             UNION ALL
            SELECT a.name, a.entry FROM _hilo.hilo_described a WHERE a.name = $1::text) d;
END;
COMMENT ON FUNCTION @extschema@.hilo_export(@extschema@.hilo_sequence) IS
    'Returns the definition of a sequence, with its owner and privileges, as a document for '
    'hilo_apply. Without a name, returns those of all sequences that the caller may read, '
    'ordered by name. Options at their default are left out; positions are not part of it. '
    'Requires any privilege on the sequence. Errors: 42704 if the sequence does not exist, 42501.';

CREATE FUNCTION _hilo.hilo_server() RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_server_wrapper';
COMMENT ON FUNCTION _hilo.hilo_server() IS 'Returns what tells this server from others, as long as it runs';

CREATE FUNCTION _hilo.hilo_numbering(sequence bigint)
    RETURNS TABLE (base bigint, nodes integer, stripe bigint, reserved_to bigint)
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED ROWS 1 AS 'MODULE_PATHNAME', 'hilo_numbering_wrapper';
COMMENT ON FUNCTION _hilo.hilo_numbering(bigint) IS
    'Returns how this node numbers a sequence, or will when it first serves it; nothing if it refuses to';

CREATE FUNCTION _hilo.hilo_node_summary(name @extschema@.hilo_sequence) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL RESTRICTED SET jit = off
BEGIN ATOMIC
    SELECT _hilo.hilo_may_see($1, false);
    SELECT pg_catalog.jsonb_build_object(
               'hilo', 1,
               'node', pg_catalog.jsonb_build_object(
                   'id', _hilo.hilo_node_id(), 'count', pg_catalog.current_setting('hilo.node_count')::integer,
                   'server', _hilo.hilo_server()),
               'sequences', COALESCE(pg_catalog.jsonb_agg(
                   d.entry OPERATOR(pg_catalog.||) pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object('numbering', n.numbering))
                   ORDER BY d.name), '[]'))
      FROM (SELECT a.id, a.name, a.entry FROM _hilo.hilo_described a WHERE $1 IS NULL
             UNION ALL
            SELECT a.id, a.name, a.entry FROM _hilo.hilo_described a WHERE a.name = $1::text) d
      LEFT JOIN LATERAL (SELECT pg_catalog.to_jsonb(u) AS numbering FROM _hilo.hilo_numbering(d.id) u) n ON true;
END;
COMMENT ON FUNCTION _hilo.hilo_node_summary(@extschema@.hilo_sequence) IS 'Does what hilo_node_summary does';

CREATE FUNCTION @extschema@.hilo_node_summary(name @extschema@.hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE sql VOLATILE PARALLEL RESTRICTED
    RETURN _hilo.hilo_node_summary($1);
COMMENT ON FUNCTION @extschema@.hilo_node_summary(@extschema@.hilo_sequence) IS
    'Returns what other servers need to know of this one. It is which node this is, and what '
    'hilo_export returns of a sequence or, without a name, of all that the caller may read. '
    'numbering: how this node numbers a sequence, or will when it first serves it; without one '
    'it refuses to serve it. A sequence that does not exist is left out. For hilo_compare and '
    'hilo_apply on another server. Errors: 42501.';

CREATE FUNCTION _hilo.hilo_raise(code text, message text, detail text, hint text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME', 'hilo_raise_wrapper';
COMMENT ON FUNCTION _hilo.hilo_raise(text, text, text, text) IS
    'Fails with this error, whose texts are cut at 8000 bytes. All that echoes an argument of any length goes through it';

-- The first fault of a document, if any: a form that is closed, and roles that do not exist.
CREATE FUNCTION _hilo.hilo_document_fault(document jsonb) RETURNS TABLE (code text, message text, detail text, hint text)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 SET jit = off
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
               CASE WHEN p.value IN ('"USAGE"', '"SELECT"', '"UPDATE"', '"LEASE"') THEN 'the privilege appears twice'
                    ELSE pg_catalog.format('unknown privilege %s, expected USAGE, SELECT, UPDATE or LEASE', pg_catalog.left(p.value::text, 60)) END
          FROM grants g
         CROSS JOIN LATERAL (
             SELECT e.value, e.at, pg_catalog.row_number() OVER (PARTITION BY e.value) AS number
               FROM pg_catalog.jsonb_array_elements(
                        CASE pg_catalog.jsonb_typeof(g.value -> 'privileges'::text) WHEN 'array' THEN g.value -> 'privileges'::text
                             ELSE '[]' END) WITH ORDINALITY AS e (value, at)) p
         WHERE p.number > 1 OR p.value NOT IN ('"USAGE"', '"SELECT"', '"UPDATE"', '"LEASE"')
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
COMMENT ON FUNCTION _hilo.hilo_document_fault(jsonb) IS 'Returns the error for the first fault of a document of sequences, if any';

-- The sequences of a document that has no fault, with all options. privileges: in the form and order of _hilo.hilo_described.
CREATE FUNCTION _hilo.hilo_wanted(document jsonb)
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
                              (SELECT pg_catalog.jsonb_agg(v.privilege ORDER BY v.privilege = 'LEASE', v.privilege = 'UPDATE', v.privilege = 'SELECT')
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
COMMENT ON FUNCTION _hilo.hilo_wanted(jsonb) IS 'Returns the sequences of a document, with all options';
