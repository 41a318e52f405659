# Lets Rails work with the keys that hilo numbers as with its own: copy this file into config/initializers.
#
# Rails takes hilo_nextval('orders') for core's nextval. After loading fixtures, when it renames a table, and to set a
# key it would ask for a sequence of core's of that name, which fails with "orders" is not a sequence. And
# activerecord-import, which puts calls of nextval into its rows, would put NULL.

require "active_record/connection_adapters/postgresql_adapter"

module HiloSequences
  # The call that draws from a sequence of hilo's, as the name of a sequence.
  class Call < String
  end

  def default_sequence_name(table, key = "id")
    schema, name = hilo_sequence(table, key)
    name ? Call.new("#{schema}.hilo_nextval(#{name})") : super
  end

  # activerecord-import asks this for each row.
  def next_value_for_sequence(sequence)
    sequence.is_a?(Call) ? sequence : super
  end

  # Rails sets and renames the sequence that it finds here.
  def pk_and_sequence_for(table)
    key = primary_key(table)
    key.is_a?(String) && hilo_sequence(table, key) ? [key, nil] : super
  end

  def rename_table(table, new_name, **options)
    key = primary_key(table)
    schema, name = hilo_sequence(table, key)
    super
    return unless name == quote("#{table}_#{key}_seq")

    execute("SELECT #{schema}.hilo_rename(#{name}, #{quote("#{new_name}_#{key}_seq")})")
  end

  def set_pk_sequence!(table, value)
    schema, name = hilo_sequence(table, primary_key(table))
    name ? query_value("SELECT #{schema}.hilo_setval(#{name}, #{value.to_i})", "SCHEMA") : super
  end

  # Unlike that of core, it never goes back to values that were there before.
  def reset_pk_sequence!(table, key = nil, sequence = nil)
    key ||= primary_key(table)
    schema, name = hilo_sequence(table, key)
    return super unless name

    quoted = quote_table_name(table)
    unless transaction_open?
      return query_value("SELECT #{schema}.hilo_sync(#{name}, #{quote(quoted)}, #{quote(key)})", "SCHEMA")
    end
    # After this the transaction can draw. What others may have drawn is skipped.
    query_value(<<~SQL, "SCHEMA")
      SELECT #{schema}.hilo_setval(s.name, greatest(m.last, s.max_reserved))
        FROM #{schema}.hilo_sequences s, (SELECT max(#{quote_column_name(key)}) AS last FROM #{quoted}) m
       WHERE s.name = #{name} AND m.last IS NOT NULL
    SQL
  end

  private

  # Asked after an INSERT if insert_returning is false.
  def last_insert_id_result(sequence)
    return super unless sequence.is_a?(Call)

    exec_query("SELECT #{sequence.sub("hilo_nextval(", "hilo_currval(")}", "SQL")
  end

  # The schema of hilo and the name of the sequence, both as SQL has them: whatever the search_path, they are those of
  # the column's default.
  def hilo_sequence(table, key)
    return unless key.is_a?(String)

    query(format(<<~'SQL', table: quote(quote_table_name(table)), key: quote(key)), "SCHEMA").first
      SELECT quote_ident(n.nspname),
             substring(pg_get_expr(d.adbin, d.adrelid) FROM 'hilo_nextval(?:_always)?\((''(?:[^'']|'''')*'')')
        FROM pg_attrdef d
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        JOIN pg_depend u ON u.classid = 'pg_attrdef'::regclass AND u.objid = d.oid AND u.refclassid = 'pg_proc'::regclass
        JOIN pg_proc f ON f.oid = u.refobjid AND f.proname IN ('hilo_nextval', 'hilo_nextval_always')
        JOIN pg_namespace n ON n.oid = f.pronamespace
       WHERE d.adrelid = to_regclass(%{table}) AND a.attname = %{key}
    SQL
  end
end

ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.prepend(HiloSequences)
