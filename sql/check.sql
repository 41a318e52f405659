-- hilo_check: its findings are SQL over the views, in parts by what they are about.

-- Each finding of hilo_check that the current user may see.
CREATE VIEW _hilo.hilo_finding WITH (security_barrier) AS
    SELECT c.object, c.severity, c.what, c.what_to_do, c.fix FROM _hilo.hilo_column_finding c
     UNION ALL
    SELECT s.object, s.severity, s.what, s.what_to_do, s.fix FROM _hilo.hilo_sequence_finding s
     UNION ALL
    SELECT n.object, n.severity, n.what, n.what_to_do, n.fix FROM _hilo.hilo_server_finding n;
-- hilo_check reads it with its caller's rights.
REVOKE ALL ON _hilo.hilo_finding FROM PUBLIC;
GRANT SELECT ON _hilo.hilo_finding TO PUBLIC;
COMMENT ON VIEW _hilo.hilo_finding IS 'Findings of hilo_check that the current user may see';

CREATE FUNCTION @extschema@.hilo_check()
    RETURNS TABLE (object text, severity text, what text, what_to_do text, fix text)
    LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE ROWS 10
    SET search_path = pg_catalog, pg_temp SET jit = off
    -- Names of counters are compared with those that hilo_attach has read.
    SET quote_all_identifiers = off
BEGIN ATOMIC
    -- The most severe findings come first.
    SELECT f.object, f.severity, f.what, f.what_to_do, f.fix
      FROM _hilo.hilo_finding f
     ORDER BY pg_catalog.array_position(ARRAY['error', 'warning', 'note'], f.severity),
              f.object COLLATE "C", f.what COLLATE "C";
END;
COMMENT ON FUNCTION @extschema@.hilo_check() IS
    'Reports problems, present or near, of the settings, and of the sequences and columns that '
    'the caller may see. Each finding is a row and says what to do. severity is error, warning, '
    'or note for what may be meant to be so. fix is a statement that mends it, as for psql''s '
    'gexec; null: there is none that is right for everyone. Roles that may read every sequence, '
    'such as members of pg_monitor, see findings about hidden columns too, without names. Returns '
    'no row if nothing was found.';
