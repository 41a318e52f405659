-- What tests ask of hilo and hilo_lite does not have: the values of a sequence that a column lacks.
CREATE FUNCTION hilo_find_gaps(name text, relation regclass, column_name name)
RETURNS TABLE (first bigint, last bigint, count bigint, reason text) LANGUAGE plpgsql AS $$
DECLARE
    s _hilo.hilo_definition;
    lacking int8multirange;
BEGIN
    SELECT * INTO s FROM _hilo.hilo_definition q WHERE q.name = hilo_find_gaps.name;
    EXECUTE pg_catalog.format('SELECT int8multirange(int8range(0, %s)) - coalesce(range_agg(int8range(
        (%I - %s) / %s, (%2$I - %3$s) / %4$s + 1)), int8multirange()) FROM %s',
        pg_catalog.div(s.next_value - s.start_value, s.increment), column_name, s.start_value, s.increment,
        relation) INTO lacking;
    RETURN QUERY
    WITH known AS (
        SELECT u.first_value, u.last_value, u.reason FROM _hilo.hilo_unused u WHERE u.sequence = s.id
        UNION ALL
        SELECT l.first_value, l.last_value, CASE WHEN l.expires_at <= now() THEN 'expired' ELSE 'leased' END
          FROM _hilo.hilo_lease l WHERE l.sequence = s.id
    ), ranges AS (
        SELECT int8range((k.first_value - s.start_value) / s.increment,
                         (k.last_value - s.start_value) / s.increment, '[]') AS r, k.reason FROM known k
    ), found AS (
        SELECT unnest(lacking * int8multirange(r)) AS r, ranges.reason FROM ranges
        UNION ALL
        SELECT unnest(lacking - coalesce((SELECT range_agg(r) FROM ranges), int8multirange())),
               'rolled back, deleted or unknown'
    )
    SELECT s.start_value + lower(r) * s.increment, s.start_value + (upper(r) - 1) * s.increment,
           upper(r) - lower(r), found.reason FROM found;
END $$;
-- In hilo a lease that has ended waits to be filed.
ALTER TABLE _hilo.hilo_lease ADD COLUMN ended text;
