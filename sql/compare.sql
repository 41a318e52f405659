-- hilo_compare: the differences between this server and another one, by the summaries of both.
CREATE FUNCTION @extschema@.hilo_compare(summary jsonb)
    RETURNS TABLE (object text, severity text, what text, what_to_do text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_compare_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_compare(jsonb) IS
    'Compares this server with the one whose hilo_node_summary() is given. It compares node ids, '
    'node counts, and the definitions and numberings of the sequences that the caller may read. '
    'Returns a row for each finding, as hilo_check does. Errors: 22023 if it is not such a '
    'summary.';
