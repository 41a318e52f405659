-- hilo_apply: creates, changes and drops sequences until they are as a document describes them.

CREATE FUNCTION @extschema@.hilo_apply(
    document jsonb, prune boolean DEFAULT false, dry_run boolean DEFAULT false
)
    RETURNS TABLE (action text, name text, detail jsonb)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 10 AS 'MODULE_PATHNAME', 'hilo_apply_wrapper';
COMMENT ON FUNCTION @extschema@.hilo_apply(jsonb, boolean, boolean) IS
    'Creates and alters sequences until they are as a document describes them. Returns a row for '
    'each change: create, number, alter, set_owner, grant, revoke or drop. An option that is left '
    'out gets its default; owner and privileges that are left out stay as they are. Never moves '
    'the position of a sequence that exists. number: this server has not served the sequence '
    'under its present node id, and is told by the document how the other nodes number it. prune: '
    'also drops those sequences of the caller that the document does not contain. dry_run: '
    'changes nothing and returns the same rows. Requires what the functions for each change '
    'require. Errors: 22023 for a document that is not valid, with the place in DETAIL; 2BP01 if '
    'a column default uses a sequence that is to be dropped; those of hilo_create, hilo_alter, '
    'hilo_set_owner and hilo_grant.';
