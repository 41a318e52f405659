# hilo with ActiveRecord. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

require "active_record"
require "active_record/fixtures"
require "stringio"
require_relative "hilo"

def check(holds, otherwise)
  raise otherwise unless holds
end

def schema_rb
  stream = StringIO.new
  ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, stream)
  stream.string
end

class CreateOrders < ActiveRecord::Migration[6.1]
  def up
    execute "SELECT hilo_create('orders', if_not_exists => true)"
    create_table :orders, id: :bigint, default: -> { "hilo_nextval('orders')" } do |table|
      table.text :customer, null: false
    end
  end

  def down
    drop_table :orders
    execute "SELECT hilo_drop('orders')"
  end
end

# Begins with Rails' own key, ...
class CreateInvoices < ActiveRecord::Migration[6.1]
  def change
    create_table(:invoices) { |table| table.integer :number }
  end
end

# ... which hilo takes over, and gives back.
class NumberInvoicesByHilo < ActiveRecord::Migration[6.1]
  def up
    execute "SET LOCAL lock_timeout = '5s'"
    execute "SELECT hilo_adopt('invoices', 'id')"
  end

  def down
    execute "SET LOCAL lock_timeout = '5s'"
    execute "SELECT hilo_release('invoices', 'id', NULL)"
  end
end

# Begins with an integer key, as Rails made it before 5.1.
class CreateReceipts < ActiveRecord::Migration[6.1]
  def up
    create_table(:receipts, id: :integer) { |table| table.integer :number }
    execute "SELECT hilo_adopt('receipts', 'id')"
  end
end

class WidenReceipts < ActiveRecord::Migration[6.1]
  def up
    change_column :receipts, :id, :bigint
  end
end

class RenameReceipts < ActiveRecord::Migration[6.1]
  def up
    rename_table :receipts, :bills
  end
end

class Order < ActiveRecord::Base
end

class Invoice < ActiveRecord::Base
end

class Receipt < ActiveRecord::Base
end

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"],
  username: ENV["PGUSER"], database: ENV["PGDATABASE"],
)
connection = ActiveRecord::Base.connection
ActiveRecord::Migration.verbose = false
CreateOrders.migrate(:up)

ada = Order.create!(customer: "Ada")
names = (0...1000).map { |number| { customer: "bulk #{number}" } }
many = Order.insert_all!(names, returning: %w[id customer])
check many.rows.map(&:last) == names.map { |row| row[:customer] }, "the rows are not in order"
ids = [ada.id, *many.rows.map(&:first)]
check ids.uniq.size == 1001, "an id came twice"
check Order.where(id: ids).count == 1001, "rows are missing"

# The key of a table that has rows, the last of them deleted: hilo's, Rails' again, and hilo's again, while another
# thread inserts. No id comes twice, and schema.rb has hilo's default or Rails' own key.
CreateInvoices.migrate(:up)
used = Array.new(10) { |number| Invoice.create!(number: number).id }
Invoice.delete(used.last)
done = false
writer = Thread.new do
  Array.new.tap { |ids| ids << Invoice.create!(number: 0).id until done }
end
%i[up down up].each do |direction|
  connection.transaction { NumberInvoicesByHilo.migrate(direction) }
  Invoice.reset_column_information
  new = Array.new(10) { |number| Invoice.create!(number: number).id }
  check new.min > used.max, "#{direction}: #{new} after #{used.max}"
  used.concat(new)
  key = direction == :up ? "id: :bigint, default: -> { \"hilo_nextval('invoices_id_seq'::hilo_sequence)\" }, " : ""
  check schema_rb.include?("create_table \"invoices\", #{key}force: :cascade"), "schema.rb after #{direction}"
end
done = true
used.concat(writer.value)
check used.uniq.size == used.size && Invoice.count == used.size - 1, "an id came twice"

# Fixtures, and rows behind them.
ActiveRecord::FixtureSet.create_fixtures(File.join(__dir__, "fixtures"), "invoices")
check Invoice.count == 2, "the fixtures are missing"
check Invoice.create!(number: 3).id == Invoice.where(number: [1, 2]).maximum(:id) + 1, "the id behind the fixtures"

# So it is within a transaction, as in a test.
connection.transaction do
  ActiveRecord::FixtureSet.reset_cache
  ActiveRecord::FixtureSet.create_fixtures(File.join(__dir__, "fixtures"), "invoices")
  check Invoice.create!(number: 3).id > Invoice.where(number: [1, 2]).maximum(:id), "the id behind them in a transaction"
  raise ActiveRecord::Rollback
end

# The sequence widens with its key, and gets another name with the table. All of this is found whatever the search_path.
CreateReceipts.migrate(:up)
WidenReceipts.migrate(:up)
sequence = "SELECT name || ' ' || data_type FROM hilo_sequences WHERE owned_by LIKE '%.id' AND name ~ '^(receipt|bill)s_id'"
check connection.select_value(sequence) == "receipts_id_seq bigint", "the sequence of the receipts"
path = connection.schema_search_path
connection.schema_search_path = "public"
connection.set_pk_sequence!("receipts", 2**31)
check Receipt.create!(number: 1).id == 2**31 + 1, "the id that was set"
begin
  require "activerecord-import"
  require "activerecord-import/base"
  require "activerecord-import/active_record/adapters/postgresql_adapter"
  imported = Receipt.import([Receipt.new(number: 2), Receipt.new(number: 3)]).ids.map(&:to_i)
  check imported == [2**31 + 2, 2**31 + 3], "the ids that were imported: #{imported}"
rescue LoadError
  puts "ActiveRecord: activerecord-import is not installed"
end
RenameReceipts.migrate(:up)
connection.schema_search_path = path
check connection.select_value(sequence) == "bills_id_seq bigint", "the sequence of the bills"
Receipt.table_name = "bills"
Receipt.reset_column_information
last = Receipt.maximum(:id)
connection.reset_pk_sequence!("bills")
check Receipt.create!(number: 4).id == last + 1, "the id behind the import"

# schema.rb has the extension and the default, but no sequence.
["enable_extension \"hilo\"", "default: -> { \"hilo_nextval('orders'"].each do |line|
  check schema_rb.include?(line), "schema.rb lacks #{line}"
end

# Loading it leaves the sequences out, which one call creates. All of this is undone here.
connection.transaction do
  eval(schema_rb)
  connection.execute("SELECT hilo_create_missing()")
  check Invoice.create!(number: 1).id == 1, "the first id in a new database"
  raise ActiveRecord::Rollback
end

puts "ActiveRecord: no id twice"
