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

    execute("SELECT hilo_sync('#{name}', #{quote(quote_table_name(table))}, #{quote(key)})")
  end
end

ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.prepend(HiloSequences)
