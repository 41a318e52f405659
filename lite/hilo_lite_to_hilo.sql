-- Puts hilo in the place of hilo_lite, in one transaction: definitions, owners, privileges,
-- positions, free ranges, gaps and open leases. A superuser runs it, where hilo is loaded:
--
--     psql -X -1 -v ON_ERROR_STOP=1 -f hilo_lite_to_hilo.sql shop
--
-- Column defaults call hilo afterwards. If a view, a function or a column's type depends on
-- hilo_lite, nothing happens: drop it before, and create it afterwards. Rows are written as a
-- restored dump writes them, so hilo takes them for another server's. The rest of a lease that
-- comes back is a gap.
--
-- Rights: the owner of hilo_lite need not be a superuser, and may have put anything in the place
-- of its objects. None of his code runs here. The functions and views are dropped and never
-- called. The tables are locked, in a schema that is no longer his, before anything is read. They
-- must be plain tables of the known columns. They must have nothing that a query evaluates, such
-- as rules, policies, generated columns, and expressions of indexes, constraints or statistics.

LOCK TABLE ONLY _hilo.hilo_definition, ONLY _hilo.hilo_lease, ONLY _hilo.hilo_unused,
    ONLY _hilo.hilo_privilege IN ACCESS EXCLUSIVE MODE;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
-- Nobody else can rename it now. The names may have been given to others before.
ALTER SCHEMA _hilo OWNER TO CURRENT_USER;
LOCK TABLE ONLY _hilo.hilo_definition, ONLY _hilo.hilo_lease, ONLY _hilo.hilo_unused,
    ONLY _hilo.hilo_privilege IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
    wrong text;
BEGIN
    SELECT string_agg(e.name, ', ') INTO wrong
      FROM (VALUES
        ('hilo_definition', 'block_size bigint, cycle boolean, data_type regtype, epoch bigint, '
            'gapless boolean, id bigint, increment bigint, key_format text, max_value bigint, '
            'min_value bigint, name text, next_value numeric, ordered boolean, owner regrole, '
            'slice_size integer, start_value bigint'),
        ('hilo_lease', 'client_addr inet, count bigint, epoch bigint, '
            'expires_at timestamp with time zone, first_value bigint, holder text, '
            'increment bigint, last_value bigint, lease uuid, '
            'leased_at timestamp with time zone, role regrole, sequence bigint'),
        ('hilo_privilege', 'grantee regrole, privilege text, sequence bigint'),
        ('hilo_unused', 'count bigint, first_value bigint, last_value bigint, reason text, '
            'recorded_at timestamp with time zone, sequence bigint')) AS e (name, columns)
      LEFT JOIN pg_class c ON c.relnamespace = '_hilo'::regnamespace AND c.relname = e.name
     WHERE (c.relkind = 'r' AND c.relpersistence = 'p' AND NOT c.relhasrules
            AND NOT c.relrowsecurity AND NOT c.relispartition AND NOT c.relhassubclass
            AND c.relowner = (SELECT q.relowner FROM pg_class q
                               WHERE q.oid = '_hilo.hilo_definition'::regclass)
            AND e.columns = (
                SELECT string_agg(a.attname || ' ' || format_type(
                           CASE a.attname WHEN 'name' THEN t.typbasetype ELSE t.oid END, NULL)
                           || a.attgenerated::text, ', ' ORDER BY a.attname::text COLLATE "C")
                  FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
            AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid
                               AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
            AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = c.oid
                               AND (n.contype = 'c' OR n.contype = 'x'))
            AND NOT EXISTS (SELECT FROM pg_statistic_ext x WHERE x.stxrelid = c.oid)
           ) IS NOT TRUE;
    IF wrong IS NOT NULL THEN
        RAISE 'not as hilo_lite 1.0.0 makes them: %', wrong USING ERRCODE = '55000',
            HINT = 'Tables of hilo_lite must have its columns, and no rules, policies, '
            'constraints, statistics or indexes of expressions besides its own.';
    END IF;
END $$;

CREATE TEMP TABLE lite_definition ON COMMIT DROP AS
    SELECT id, name::text AS name, data_type, start_value, increment, min_value, max_value, cycle,
           ordered, gapless, block_size, slice_size, key_format, owner, next_value, epoch
      FROM ONLY _hilo.hilo_definition;
CREATE TEMP TABLE lite_lease ON COMMIT DROP AS
    SELECT * FROM ONLY _hilo.hilo_lease WHERE (expires_at > clock_timestamp()) IS NOT FALSE;
CREATE TEMP TABLE lite_privilege ON COMMIT DROP AS SELECT * FROM ONLY _hilo.hilo_privilege;
CREATE TEMP TABLE lite_unused ON COMMIT DROP AS
    SELECT sequence, reason, first_value, last_value, count, recorded_at
      FROM ONLY _hilo.hilo_unused
    UNION ALL
    SELECT sequence, 'expired', first_value, last_value, count, expires_at
      FROM ONLY _hilo.hilo_lease WHERE expires_at <= clock_timestamp();
-- Where hilo_lite is, and whose it is. Nothing of anybody else is touched.
CREATE TEMP TABLE lite_home ON COMMIT DROP AS
    SELECT t.oid::regtype AS domain, t.typnamespace::regnamespace AS schema, c.relowner AS owner
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'name'
      JOIN pg_type t ON t.oid = a.atttypid AND t.typowner = c.relowner
     WHERE c.oid = '_hilo.hilo_definition'::regclass AND t.typname = 'hilo_sequence';
-- The functions that users call: they need hilo_lite's type for names, or what is in its schema.
CREATE TEMP TABLE lite_function ON COMMIT DROP AS
    SELECT DISTINCT p.oid::regprocedure AS function
      FROM pg_temp.lite_home h
      JOIN pg_proc p ON p.pronamespace = h.schema AND p.proowner = h.owner
      JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
     WHERE p.proname IN (
        'hilo_create', 'hilo_alter', 'hilo_rename', 'hilo_drop', 'hilo_grant', 'hilo_revoke',
        'hilo_grant_all', 'hilo_setval', 'hilo_nextval', 'hilo_nextrange', 'hilo_lease',
        'hilo_lease_return', 'hilo_lease_renew', 'hilo_lease_revoke', 'hilo_refill', 'hilo_key',
        'hilo_key_value', 'hilo_nextkey')
       AND d.refobjid IN (
        SELECT h.domain UNION ALL SELECT oid FROM pg_proc WHERE pronamespace = '_hilo'::regnamespace
        UNION ALL SELECT oid FROM pg_type WHERE typnamespace = '_hilo'::regnamespace);
-- Who may create sequences. The owner of hilo_lite could do so without a grant.
CREATE TEMP TABLE lite_creator ON COMMIT DROP AS
    SELECT x.grantee, x.is_grantable
      FROM pg_temp.lite_home h
      JOIN pg_class c ON c.relnamespace = h.schema AND c.relname = 'hilo_sequences'
                     AND c.relowner = h.owner,
           aclexplode(c.relacl) AS x WHERE x.privilege_type = 'INSERT';

-- Below this value of the counter no value of the present numbering lies: index 0.
ALTER TABLE pg_temp.lite_definition ADD COLUMN base bigint;
UPDATE pg_temp.lite_definition s SET base = CASE WHEN s.increment > 0 THEN r.low ELSE r.high END
  FROM (SELECT q.id, min(v) AS low, max(v) AS high
          FROM pg_temp.lite_definition q,
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
    home pg_temp.lite_home := (SELECT h FROM pg_temp.lite_home h);
    d record;
BEGIN
    IF home IS NULL THEN
        RAISE 'not as hilo_lite 1.0.0 makes them: the type of names' USING ERRCODE = '55000',
            HINT = 'It is the domain hilo_sequence, of the owner of hilo_lite''s tables.';
    END IF;
    CREATE TEMP TABLE lite_default ON COMMIT DROP AS
        SELECT f.adrelid::regclass AS relation, a.attname,
               pg_get_expr(f.adbin, f.adrelid) AS expression
          FROM pg_attrdef f
          JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
         WHERE EXISTS (SELECT FROM pg_depend p JOIN pg_temp.lite_function c
                           ON p.refclassid = 'pg_proc'::regclass AND p.refobjid = c.function
                        WHERE p.classid = 'pg_attrdef'::regclass AND p.objid = f.oid);
    FOR d IN SELECT * FROM pg_temp.lite_default LOOP
        EXECUTE format('ALTER TABLE ONLY %s ALTER COLUMN %I DROP DEFAULT', d.relation, d.attname);
    END LOOP;
    IF EXISTS (SELECT FROM pg_extension WHERE extname = 'hilo_lite') THEN
        DROP EXTENSION hilo_lite;
    ELSE
        DROP TRIGGER hilo_1_note_caller ON _hilo.hilo_request;
        DROP TRIGGER hilo_2_answer ON _hilo.hilo_request;
        EXECUTE format('DROP FUNCTION %s', (
            SELECT string_agg(f::text, ', ')
              FROM (SELECT function FROM pg_temp.lite_function
                    UNION SELECT oid::regprocedure FROM pg_proc
                     WHERE pronamespace = '_hilo'::regnamespace) AS a (f)));
        EXECUTE format('DROP VIEW %1$s.hilo_leases, %1$s.hilo_gaps, %1$s.hilo_sequences, '
                       '_hilo.hilo_readable, _hilo.hilo_request', home.schema);
        DROP TABLE _hilo.hilo_definition, _hilo.hilo_privilege, _hilo.hilo_lease,
                   _hilo.hilo_unused;
        DROP TYPE _hilo.hilo_outcome, _hilo.hilo_options;
        DROP SEQUENCE _hilo.hilo_definition_id;
        DROP SCHEMA _hilo;
        EXECUTE format('DROP DOMAIN %s', home.domain);
    END IF;
    EXECUTE format('CREATE EXTENSION hilo SCHEMA %s', home.schema);
END $$;

-- hilo takes rows by SQL from restores only, which say this.
SET LOCAL check_function_bodies = off;
-- A role that has been dropped cannot own or take anything: the superuser does.
CREATE FUNCTION pg_temp.lite_role(role regrole) RETURNS _hilo.hilo_role LANGUAGE sql
RETURN coalesce((SELECT r.oid::regrole FROM pg_roles r WHERE r.oid = role),
                quote_ident(CURRENT_USER)::regrole)::text::_hilo.hilo_role;
INSERT INTO _hilo.hilo_definition (
    id, name, data_type, start_value, increment, min_value, max_value, cycle, ordered,
    block_size, slice_size, key_format, owner, created_at, gapless)
SELECT id, name, data_type, start_value, increment, min_value, max_value, cycle, ordered,
       block_size, slice_size, key_format, pg_temp.lite_role(owner), now(), gapless
  FROM pg_temp.lite_definition;
INSERT INTO _hilo.hilo_position (
    sequence, node, epoch, base, next_index, settled_index, incarnation, nodes, stripe, system_id,
    timeline)
SELECT id, 0, epoch + 1, base, i, i, 0, 1,
       greatest(1024 / greatest(block_size, 1), 1) * greatest(block_size, 1), 0, 0
  FROM pg_temp.lite_definition, LATERAL (SELECT (next_value - base) / increment) AS x (i);
INSERT INTO _hilo.hilo_free_range (sequence, node, epoch, first_index, end_index)
SELECT u.sequence, 0, s.epoch + 1, i, i + u.count
  FROM pg_temp.lite_unused u JOIN pg_temp.lite_definition s ON s.id = u.sequence,
       LATERAL (SELECT ((u.first_value::numeric - s.base) / s.increment)::bigint) AS x (i)
 WHERE u.reason = 'free';
-- Their numbering is not known: what they touch is no part of them.
INSERT INTO _hilo.hilo_gap (
    sequence, node, first_value, last_value, count, increment, reason, recorded_at)
SELECT u.sequence, 0, u.first_value, u.last_value, u.count,
       CASE WHEN u.count = 1 THEN s.increment
            WHEN mod(way, u.count - 1) = 0 THEN (way / (u.count - 1))::bigint
            ELSE sign(way)::bigint END, u.reason, u.recorded_at
  FROM pg_temp.lite_unused u JOIN pg_temp.lite_definition s ON s.id = u.sequence,
       LATERAL (SELECT u.last_value::numeric - u.first_value) AS w (way)
 WHERE u.reason <> 'free';
INSERT INTO _hilo.hilo_lease (
    lease, sequence, node, epoch, first_index, end_index, next_index, first_value, last_value,
    increment, holder, role, client_addr, leased_at, expires_at, due_at, system_id, timeline,
    passed)
SELECT l.lease, l.sequence, 0, l.epoch + 1, i, i + l.count, i, l.first_value, l.last_value,
       l.increment, l.holder, pg_temp.lite_role(l.role), l.client_addr, l.leased_at, l.expires_at,
       l.expires_at, 0, 0, false
  FROM pg_temp.lite_lease l JOIN pg_temp.lite_definition s ON s.id = l.sequence,
       LATERAL (SELECT CASE WHEN l.epoch = s.epoch
                            THEN ((l.first_value::numeric - s.base) / s.increment)::bigint
                            ELSE 0 END) AS x (i);
INSERT INTO _hilo.hilo_privilege (sequence, grantee, privilege, grantor)
SELECT p.sequence, CASE WHEN p.grantee::oid = 0 THEN 'public'::_hilo.hilo_role
                        ELSE pg_temp.lite_role(p.grantee) END,
       p.privilege, pg_temp.lite_role(s.owner)
  FROM pg_temp.lite_privilege p JOIN pg_temp.lite_definition s ON s.id = p.sequence
 WHERE p.grantee::oid = 0 OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = p.grantee);

DO $$
DECLARE
    home name := (SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
                   WHERE e.extname = 'hilo');
    d record;
BEGIN
    -- A default that only calls hilo with a constant gets a constant of hilo's type, in which hilo
    -- sees which sequence the column uses. In all others every argument has its type as it is.
    FOR d IN
        SELECT f.relation, f.attname, CASE WHEN m.part IS NULL THEN f.expression ELSE
                   format('%I.%I(%s::%1$I.hilo_sequence)', home, m.part[1], m.part[2]) END AS value
          FROM pg_temp.lite_default f
          LEFT JOIN LATERAL regexp_match(f.expression, format(
                '^%s[.](hilo_nextval|hilo_nextkey)[(][(](''(?:[^'']|'''')*'')::text[)]::%1$s[.]'
                'hilo_sequence[)]$', regexp_replace(quote_ident(home), '[^[:alnum:]_]', '\\\&', 'g')
            )) AS m (part) ON true
    LOOP
        EXECUTE format('ALTER TABLE ONLY %s ALTER COLUMN %I SET DEFAULT %s', d.relation, d.attname,
                       d.value);
    END LOOP;
    FOR d IN
        SELECT CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE x.grantee::regrole::text END AS role,
               CASE WHEN x.is_grantable THEN 'WITH GRANT OPTION' ELSE '' END AS option
          FROM pg_temp.lite_creator x
         WHERE x.grantee = 0 OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = x.grantee)
    LOOP
        EXECUTE format('GRANT INSERT ON %I.hilo_sequences TO %s %s', home, d.role, d.option);
    END LOOP;
END $$;
