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

class Order < ActiveRecord::Base
end

class Invoice < ActiveRecord::Base
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
