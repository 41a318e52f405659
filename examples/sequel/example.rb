# hilo with Sequel. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

require "sequel"

DB = Sequel.postgres(ENV["PGDATABASE"], host: ENV["PGHOST"], port: ENV["PGPORT"], user: ENV["PGUSER"])
DB.extension :schema_dumper

def check(holds, otherwise)
  raise otherwise unless holds
end

DB.run("SELECT hilo_create('orders', if_not_exists => true)")
DB.create_table(:orders) do
  column :id, :bigint, primary_key: true, default: Sequel.lit("hilo_nextval('orders')")
  String :customer, null: false
end

class Order < Sequel::Model
end

ada = Order.create(customer: "Ada")
names = (0...1000).map { |number| "bulk #{number}" }
many = DB[:orders].import([:customer], names.map { |name| [name] }, return: :primary_key)
check Order.where(id: many).order(:id).map(&:customer) == names, "the ids are not those of their rows"
check [ada.id, *many].uniq.size == 1001, "an id came twice"

# The key of a table that has rows: hilo's, Sequel's again, and hilo's again.
DB.create_table(:invoices) do
  primary_key :id
  Integer :number
end

class Invoice < Sequel::Model
end

move = {
  up: "SELECT hilo_adopt('invoices', 'id')",
  down: "SELECT hilo_release('invoices', 'id', NULL)",
}
used = Array.new(10) { |number| Invoice.create(number: number).id }
%i[up down up].each do |direction|
  DB.run(move[direction])
  used.concat(Array.new(10) { |number| Invoice.create(number: number).id })
  check used == [*1..used.size], "the ids after #{direction}: #{used}"
end

# Rows with ids of their own, and rows behind them.
Invoice.unrestrict_primary_key
Invoice.create(id: 100, number: 1)
begin
  DB.reset_primary_key_sequence(:invoices)
  raise "Sequel has found a sequence"
rescue Sequel::DatabaseError => error
  check error.message.include?("PG::UndefinedTable"), error.message
end
DB.get(Sequel.function(:hilo_sync, "invoices_id_seq", "invoices", "id"))
check Invoice.create(number: 2).id == 101, "the id behind the others"

# The sequence follows its table.
DB.rename_table(:invoices, :bills)
check DB[:bills].insert(number: 3) == 102, "the id after the table was renamed"
check DB[:hilo_sequences].where(name: "invoices_id_seq").get(:owned_by).end_with?(".bills.id"), "its owner"

# The migration that Sequel prints lacks the default.
printed = DB.dump_schema_migration
check printed.include?("create_table(:orders)") && !printed.include?("hilo_nextval"), printed

puts "Sequel #{Sequel.version}: no id twice"
