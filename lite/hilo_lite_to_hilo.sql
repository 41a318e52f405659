-- Puts hilo in the place of hilo_lite, in one transaction: definitions, owners, privileges,
-- positions, free ranges, gaps and open leases. A superuser runs it, where hilo is loaded:
--
--     psql -X -1 -v ON_ERROR_STOP=1 -f hilo_lite_to_hilo.sql shop
--
-- Column defaults call hilo afterwards. If a view, a function or a column's type depends on
-- hilo_lite, nothing happens: drop it before, and create it afterwards. Rows are written as a
-- restored dump writes them, so hilo takes them for another server's. The rest of a lease that
-- comes back is a gap.

LOCK TABLE _hilo.sequence, _hilo.lease, _hilo.unused, _hilo.privilege IN ACCESS EXCLUSIVE MODE;
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TEMP TABLE lite_sequence ON COMMIT DROP AS SELECT * FROM _hilo.sequence;
CREATE TEMP TABLE lite_lease ON COMMIT DROP AS
    SELECT * FROM _hilo.lease WHERE (expires_at > clock_timestamp()) IS NOT FALSE;
CREATE TEMP TABLE lite_privilege ON COMMIT DROP AS SELECT * FROM _hilo.privilege;
CREATE TEMP TABLE lite_unused ON COMMIT DROP AS
    SELECT * FROM _hilo.unused
    UNION ALL
    SELECT sequence, 'expired', first_value, last_value, count, expires_at
      FROM _hilo.lease WHERE expires_at <= clock_timestamp();
ALTER TABLE pg_temp.lite_sequence ALTER COLUMN name TYPE text;
CREATE TEMP TABLE lite_home ON COMMIT DROP AS
    SELECT t.oid AS domain, t.typnamespace::regnamespace AS schema, t.typowner AS owner
      FROM pg_type t JOIN pg_attribute a ON a.atttypid = t.oid
     WHERE a.attrelid = '_hilo.sequence'::regclass AND a.attname = 'name';
-- The functions that users call: they need hilo_lite's type for names, its view of sequences, or
-- what is in its schema.
CREATE TEMP TABLE lite_function ON COMMIT DROP AS
    SELECT DISTINCT p.oid::regprocedure AS function
      FROM pg_temp.lite_home h
      JOIN pg_proc p ON p.pronamespace = h.schema AND p.proowner = h.owner
                    AND p.proname LIKE 'hilo\_%'
      JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
     WHERE d.refobjid IN (
        SELECT h.domain UNION ALL SELECT oid FROM pg_proc WHERE pronamespace = '_hilo'::regnamespace
        UNION ALL SELECT oid FROM pg_type WHERE typnamespace = '_hilo'::regnamespace
        UNION ALL SELECT oid FROM pg_class
         WHERE relnamespace = h.schema AND relname = 'hilo_sequences');

-- Below this value of the counter no value of the present numbering lies: index 0.
ALTER TABLE pg_temp.lite_sequence ADD COLUMN base bigint;
UPDATE pg_temp.lite_sequence s SET base = CASE WHEN s.increment > 0 THEN r.low ELSE r.high END
  FROM (SELECT q.id, min(v) AS low, max(v) AS high
          FROM pg_temp.lite_sequence q,
               LATERAL (SELECT least(greatest(q.next_value, q.min_value), q.max_value) WHERE q.cycle
                        UNION ALL SELECT u.first_value FROM pg_temp.lite_unused u
                         WHERE u.sequence = q.id AND u.reason = 'free'
                        UNION ALL SELECT l.first_value FROM pg_temp.lite_lease l
                         WHERE l.sequence = q.id AND l.epoch = q.epoch
                        UNION ALL SELECT q.next_value - q.increment * greatest(trunc(
                            (q.next_value - q.start_value) / q.increment), 0)
                         WHERE NOT q.cycle) AS x (v)
         GROUP BY q.id) AS r
 WHERE r.id = s.id;

DO $$
DECLARE
    home lite_home := (SELECT h FROM pg_temp.lite_home h);
    d record;
BEGIN
    CREATE TEMP TABLE lite_default ON COMMIT DROP AS
        SELECT DISTINCT f.adrelid::regclass AS relation, a.attname,
               pg_get_expr(f.adbin, f.adrelid) AS expression
          FROM pg_attrdef f
          JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
          JOIN pg_depend p ON p.classid = 'pg_attrdef'::regclass AND p.objid = f.oid
                          AND p.refclassid = 'pg_proc'::regclass
          JOIN pg_temp.lite_function c ON c.function = p.refobjid;
    FOR d IN SELECT * FROM pg_temp.lite_default LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', d.relation, d.attname);
    END LOOP;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'hilo_lite') THEN
        DROP EXTENSION hilo_lite;
    ELSE
        EXECUTE format('DROP FUNCTION %s, _hilo.frame',
                       (SELECT string_agg(function::text, ', ') FROM pg_temp.lite_function));
        EXECUTE format('DROP VIEW %1$s.hilo_leases, %1$s.hilo_gaps, %1$s.hilo_sequences',
                       home.schema);
        DROP SCHEMA _hilo CASCADE;
        EXECUTE format('DROP DOMAIN %s.hilo_sequence', home.schema);
    END IF;
    EXECUTE format('CREATE EXTENSION hilo SCHEMA %s', home.schema);
END $$;

INSERT INTO _hilo.sequence (id, name, data_type, start_value, increment, min_value, max_value,
                            cycle, ordered, block_size, slice_size, key_format, owner, created_at,
                            gapless)
SELECT id, name, data_type, start_value, increment, min_value, max_value, cycle, ordered,
       block_size, slice_size, key_format, owner::text::hilo.role, now(), gapless
  FROM pg_temp.lite_sequence;
INSERT INTO _hilo.position (sequence, node, epoch, base, next_index, settled_index, incarnation,
                            nodes, stripe, system_id, timeline)
SELECT id, 0, epoch + 1, base, i, i, 0, 1,
       greatest(1024 / greatest(block_size, 1), 1) * greatest(block_size, 1), 0, 0
  FROM pg_temp.lite_sequence, LATERAL (SELECT (next_value - base) / increment) AS x (i);
INSERT INTO _hilo.free_range (sequence, node, epoch, first_index, end_index)
SELECT u.sequence, 0, s.epoch + 1, i, i + u.count
  FROM pg_temp.lite_unused u JOIN pg_temp.lite_sequence s ON s.id = u.sequence,
       LATERAL (SELECT ((u.first_value::numeric - s.base) / s.increment)::bigint) AS x (i)
 WHERE u.reason = 'free';
INSERT INTO _hilo.gap (sequence, node, first_value, last_value, count, reason, recorded_at)
SELECT sequence, 0, first_value, last_value, count, reason, recorded_at
  FROM pg_temp.lite_unused WHERE reason <> 'free';
INSERT INTO _hilo.lease (lease, sequence, node, epoch, first_index, end_index, next_index,
                         first_value, last_value, increment, holder, role, client_addr, leased_at,
                         expires_at, due_at, system_id, timeline, passed)
SELECT l.lease, l.sequence, 0, l.epoch + 1, i, i + l.count, i, l.first_value, l.last_value,
       l.increment, l.holder, l.role::text::hilo.role, l.client_addr, l.leased_at, l.expires_at,
       l.expires_at, 0, 0, false
  FROM pg_temp.lite_lease l JOIN pg_temp.lite_sequence s ON s.id = l.sequence,
       LATERAL (SELECT CASE WHEN l.epoch = s.epoch
                            THEN ((l.first_value::numeric - s.base) / s.increment)::bigint
                            ELSE 0 END) AS x (i);
INSERT INTO _hilo.privilege (sequence, grantee, privilege, grantor)
SELECT p.sequence, CASE WHEN p.grantee::oid = 0 THEN 'public' ELSE p.grantee::text END::hilo.role,
       p.privilege, s.owner::text::hilo.role
  FROM pg_temp.lite_privilege p JOIN pg_temp.lite_sequence s ON s.id = p.sequence;

DO $$
DECLARE
    d record;
BEGIN
    FOR d IN SELECT * FROM pg_temp.lite_default LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', d.relation, d.attname,
                       -- The name is a constant, so that hilo sees which sequence a column uses.
                       regexp_replace(d.expression,
                                      '\(''((?:[^'']|'''')*)''::text\)::\S*hilo_sequence',
                                      '''\1'''));
    END LOOP;
END $$;
