# Lets Rails set sequences of hilo behind the rows that it has loaded: copy this file into config/initializers.
#
# Rails asks for that after loading fixtures. It takes hilo_nextval('orders') for core's nextval, and would fail with
# "orders" is not a sequence.

require "active_record/connection_adapters/postgresql_adapter"

module HiloSequences
  def reset_pk_sequence!(table, key = nil, sequence = nil)
    key ||= primary_key(table)
    column = columns(table).find { |column| column.name == key }
    name = column&.default_function.to_s[/\bhilo_nextval\('((?:[^']|'')*)'::/, 1]
    return super unless name

    # Never back: values that were used and deleted do not come again.
    execute(<<~SQL)
      SELECT hilo_setval('#{name}', max(#{quote_column_name(key)})) FROM #{quote_table_name(table)}
      HAVING max(#{quote_column_name(key)}) > (SELECT coalesce(max_reserved, 0) FROM hilo_sequences WHERE name = '#{name}')
    SQL
  end
end

ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.prepend(HiloSequences)
