-- Definitions as a document: hilo_export, and hilo_node_summary, by which servers compare them. docs/hilo.schema.json
-- describes the form.

CREATE VIEW _hilo.hilo_visible WITH (security_barrier) AS
    SELECT s.id, s.name FROM _hilo.hilo_readable s;
-- The library reads it with its caller's rights.
REVOKE ALL ON _hilo.hilo_visible FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_visible TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_visible IS 'Sequences that the current user may read';

CREATE FUNCTION _hilo.hilo_may_see(name @extschema@.hilo_sequence, must_exist boolean) RETURNS boolean
    LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_may_see_wrapper';
COMMENT ON FUNCTION _hilo.hilo_may_see(@extschema@.hilo_sequence, boolean) IS
    'Returns whether a sequence exists, or fails with 42704; and with 42501 if the current user may not read it';

CREATE FUNCTION @extschema@.hilo_export(name @extschema@.hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_export_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_export(@extschema@.hilo_sequence) IS
    'Returns the definition of a sequence, with its owner and privileges, as a document for '
    'hilo_apply. Without a name, returns those of all sequences that the caller may read, '
    'ordered by name. Options at their default are left out; positions are not part of it. '
    'Requires any privilege on the sequence. Errors: 42704 if the sequence does not exist, 42501.';

CREATE FUNCTION _hilo.hilo_node_summary(name @extschema@.hilo_sequence) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_node_summary_wrapper';
COMMENT ON FUNCTION _hilo.hilo_node_summary(@extschema@.hilo_sequence) IS 'Does what hilo_node_summary does';

CREATE FUNCTION @extschema@.hilo_node_summary(name @extschema@.hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_node_summary_wrapper';
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
