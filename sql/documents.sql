-- Definitions as a document: hilo_export, and hilo_node_summary, by which servers compare them.
-- docs/hilo.schema.json describes the form.

CREATE FUNCTION @extschema@.hilo_export(name @extschema@.hilo_sequence DEFAULT NULL) RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_export_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_export(@extschema@.hilo_sequence) IS
    'Returns the definition of a sequence, with its owner and privileges, as a document for '
    'hilo_apply. Without a name, returns those of all sequences that the caller may read, ordered '
    'by name. Options at their default are left out; positions are not part of it. Requires any '
    'privilege on the sequence. Errors: 42704 if the sequence does not exist, 42501.';

CREATE FUNCTION @extschema@.hilo_node_summary(name @extschema@.hilo_sequence DEFAULT NULL)
    RETURNS jsonb
    LANGUAGE c VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'hilo_node_summary_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_node_summary(@extschema@.hilo_sequence) IS
    'Returns which node this server is, and what hilo_export returns of a sequence or, without a '
    'name, of all that the caller may read. numbering: how this node numbers a sequence, or will '
    'when it first serves it; left out if it refuses to serve the sequence. fed: a source brings '
    'its values. A sequence that does not exist is left out. For hilo_compare and hilo_apply on '
    'another server. Errors: 42501.';
