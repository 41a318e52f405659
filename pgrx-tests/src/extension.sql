-- What the extension hilo consists of in this database, a line for each property of each object: equal
-- for equal extensions, whatever way they came to be.
WITH extension AS (
    SELECT * FROM pg_extension WHERE extname = 'hilo'
), member AS (
    SELECT d.classid, d.objid, pg_describe_object(d.classid, d.objid, 0) AS object
      FROM pg_depend d JOIN extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
     WHERE d.deptype = 'e'
), relation AS (
    SELECT m.object, c.* FROM member m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
), property AS (
    SELECT object, 'member' AS what, coalesce(obj_description(objid, classid::regclass::name), '-') AS value FROM member
    UNION ALL
    SELECT m.object, 'initial privileges', i.objsubid || ' ' || ARRAY(SELECT a::text FROM unnest(i.initprivs) a ORDER BY 1)::text
      FROM member m JOIN pg_init_privs i ON i.classoid = m.classid AND i.objoid = m.objid
    UNION ALL
    SELECT 'extension', 'properties', concat_ws(' ', extversion, extrelocatable, extnamespace::regnamespace,
           (SELECT string_agg(config::text || coalesce(nullif(': ' || condition, ': '), ''), ', ' ORDER BY config::text)
              FROM unnest(extconfig::regclass[], extcondition) AS c (config, condition)))
      FROM extension
    UNION ALL
    SELECT m.object, 'schema', concat_ws(' ', n.nspacl, n.nspowner::regrole)
      FROM member m JOIN pg_namespace n ON m.classid = 'pg_namespace'::regclass AND n.oid = m.objid
    UNION ALL
    SELECT m.object, 'function', pg_get_functiondef(p.oid) || concat_ws(' ',
           CASE WHEN p.proacl IS NOT NULL THEN ARRAY(SELECT a::text FROM unnest(p.proacl) a ORDER BY 1) END, p.proowner::regrole)
      FROM member m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND p.oid = m.objid
    UNION ALL
    SELECT m.object, 'type', concat_ws(' ', t.typlen, t.typbyval, t.typtype, t.typcategory, t.typispreferred,
           t.typisdefined, t.typdelim, t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout,
           t.typanalyze, t.typsubscript, t.typalign, t.typstorage, t.typnotnull, t.typcollation, t.typdefault,
           t.typacl, t.typowner::regrole)
      FROM member m JOIN pg_type t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid
    UNION ALL
    SELECT m.object, 'cast', concat_ws(' ', c.castfunc::regprocedure, c.castcontext, c.castmethod)
      FROM member m JOIN pg_cast c ON m.classid = 'pg_cast'::regclass AND c.oid = m.objid
    UNION ALL
    SELECT m.object, 'operator', concat_ws(' ', o.oprcode, o.oprcom::regoperator, o.oprnegate::regoperator,
           o.oprrest, o.oprjoin, o.oprcanhash, o.oprcanmerge, o.oprresult::regtype)
      FROM member m JOIN pg_operator o ON m.classid = 'pg_operator'::regclass AND o.oid = m.objid
    UNION ALL
    SELECT m.object, 'class', concat_ws(' ', c.opcname, c.opcdefault, c.opcintype::regtype, c.opckeytype::regtype)
      FROM member m JOIN pg_opclass c ON m.classid = 'pg_opclass'::regclass AND c.oid = m.objid
    UNION ALL
    SELECT m.object, 'family', concat_ws(' ', a.amopstrategy, a.amopopr::regoperator, a.amoppurpose)
      FROM member m JOIN pg_amop a ON m.classid = 'pg_opfamily'::regclass AND a.amopfamily = m.objid
    UNION ALL
    SELECT m.object, 'family', concat_ws(' ', a.amprocnum, a.amproc::regprocedure)
      FROM member m JOIN pg_amproc a ON m.classid = 'pg_opfamily'::regclass AND a.amprocfamily = m.objid
    UNION ALL
    SELECT object, 'relation', concat_ws(' ', relkind, relpersistence, relreplident, relrowsecurity,
           relforcerowsecurity, reloptions, CASE WHEN relacl IS NOT NULL THEN ARRAY(SELECT a::text FROM unnest(relacl) a ORDER BY 1) END, relowner::regrole)
      FROM relation
    UNION ALL
    SELECT m.object, 'role', concat_ws(' ', s.deptype, s.refobjid::regrole)
      -- Rows with roles have dependencies of this type.
      FROM member m JOIN pg_shdepend s ON (s.classid, s.objid) = (m.classid, m.objid) AND m.object <> 'type _hilo.hilo_role'
       AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT object, 'view', pg_get_viewdef(oid) FROM relation WHERE relkind = 'v'
    UNION ALL
    SELECT r.object, 'column', concat_ws(' ', a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           a.attcollation::regcollation, a.attstorage, a.attcompression, a.attstattarget,
           -- Some minor releases of Postgres note there when the column was made.
           (SELECT array_agg(o) FROM unnest(a.attoptions) o WHERE o NOT LIKE 'pg_attver=%'), a.attacl,
           pg_get_expr(d.adbin, d.adrelid), '--', col_description(r.oid, a.attnum))
      FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
      LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
    UNION ALL
    SELECT r.object, 'constraint', concat_ws(' ', c.conname, pg_get_constraintdef(c.oid), c.convalidated)
      FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid
    UNION ALL
    SELECT r.object, 'index', concat_ws(' ', pg_get_indexdef(i.indexrelid), ic.reloptions)
      FROM relation r JOIN pg_index i ON i.indrelid = r.oid JOIN pg_class ic ON ic.oid = i.indexrelid
    UNION ALL
    SELECT r.object, 'trigger', concat_ws(' ', pg_get_triggerdef(t.oid), t.tgenabled)
      FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid
    UNION ALL
    SELECT r.object, 'rule', pg_get_ruledef(w.oid)
      FROM relation r JOIN pg_rewrite w ON w.ev_class = r.oid WHERE r.relkind <> 'v'
    UNION ALL
    SELECT r.object, 'policy', concat_ws(' ', p.polname, p.polcmd, p.polpermissive)
      FROM relation r JOIN pg_policy p ON p.polrelid = r.oid
)
SELECT object || ', ' || what || ': ' || value FROM property
