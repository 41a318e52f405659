# hilo with ActiveRecord. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

require "active_record"
require "stringio"

def check(holds, otherwise)
  raise otherwise unless holds
end

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"],
  username: ENV["PGUSER"], database: ENV["PGDATABASE"],
)

class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    reversible do |direction|
      direction.up { execute "SELECT hilo_create('orders', if_not_exists => true)" }
    end
    create_table :orders, id: :bigint, default: -> { "hilo_nextval('orders')" } do |table|
      table.text :customer, null: false
    end
    reversible do |direction|
      direction.down { execute "SELECT hilo_drop('orders')" }
    end
  end
end

class Order < ActiveRecord::Base
end

ActiveRecord::Migration.verbose = false
CreateOrders.migrate(:up)
Order.reset_column_information

ada = Order.create!(customer: "Ada")
names = (0...1000).map { |number| { customer: "bulk #{number}" } }
many = Order.insert_all!(names, returning: %w[id customer])
check many.rows.map(&:last) == names.map { |row| row[:customer] }, "the rows are not in order"
ids = [ada.id, *many.rows.map(&:first)]
check ids.uniq.size == 1001, "an id came twice"
check Order.where(id: ids).count == 1001, "rows are missing"

# schema.rb has the default, but not the sequence.
schema = StringIO.new
ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, schema)
check schema.string.include?(%q|default: -> { "hilo_nextval('orders'|), "schema.rb lacks the default"

puts "ActiveRecord: 1001 rows, no id twice"
