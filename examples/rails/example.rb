# hilo with ActiveRecord. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

require "active_record"
require "active_record/fixtures"
require "stringio"
require_relative "hilo"

def check(holds, otherwise)
  raise otherwise unless holds
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

# ... which hilo takes over, behind all that was used.
class NumberInvoicesByHilo < ActiveRecord::Migration[6.1]
  def up
    execute "SET LOCAL lock_timeout = '5s'"
    execute "LOCK TABLE invoices IN ACCESS EXCLUSIVE MODE"
    execute <<~SQL
      SELECT hilo_create('invoices', start_value => 1 + greatest(
          (SELECT max(id) FROM invoices),
          (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM invoices_id_seq)))
    SQL
    change_column_default :invoices, :id, -> { "hilo_nextval('invoices')" }
    execute "DROP SEQUENCE invoices_id_seq"
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

# The key of a table that has rows, the last of them deleted.
CreateInvoices.migrate(:up)
old = Array.new(10) { |number| Invoice.create!(number: number).id }
Invoice.delete(old.last)
connection.transaction { NumberInvoicesByHilo.migrate(:up) }
Invoice.reset_column_information
check Invoice.create!(number: 11).id == old.last + 1, "the first of hilo's ids"

# Fixtures, and rows behind them.
ActiveRecord::FixtureSet.create_fixtures(File.join(__dir__, "fixtures"), "invoices")
check Invoice.count == 2, "the fixtures are missing"
check Invoice.create!(number: 3).id == Invoice.where(number: [1, 2]).maximum(:id) + 1, "the id behind the fixtures"

# schema.rb has the extension and the default, but no sequence.
schema = StringIO.new
ActiveRecord::SchemaDumper.dump(connection, schema)
["enable_extension \"hilo\"", "default: -> { \"hilo_nextval('orders'"].each do |line|
  check schema.string.include?(line), "schema.rb lacks #{line}"
end

puts "ActiveRecord: no id twice"
