-- Run in template1: each column that Django lets Postgres number is hilo's at once, in every database that it creates.
CREATE SCHEMA hilo;
CREATE EXTENSION hilo SCHEMA hilo;
ALTER ROLE CURRENT_USER SET search_path = "$user", public, hilo;

CREATE SCHEMA suite;
CREATE FUNCTION suite.adopt() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The identity column that hilo_release makes stays.
    IF current_query() NOT LIKE '%hilo_release%' THEN
        PERFORM hilo.hilo_adopt(c.oid, a.attname)
           FROM (SELECT DISTINCT objid FROM pg_event_trigger_ddl_commands() WHERE object_type LIKE 'table%') command
           JOIN pg_class c ON c.oid = command.objid AND c.relpersistence <> 't'
           JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attinhcount = 0
           LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
          WHERE pg_get_serial_sequence(c.oid::regclass::text, a.attname) IS NOT NULL
            -- hilo_adopt alters the table, too.
            AND coalesce(pg_get_expr(d.adbin, d.adrelid), '') NOT LIKE '%hilo_nextval%';
    END IF;
END $$;
CREATE EVENT TRIGGER adopt ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'ALTER TABLE')
    EXECUTE FUNCTION suite.adopt();
