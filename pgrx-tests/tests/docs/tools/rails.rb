# Prints what Rails finds in the database, and whether what it does to all tables leaves hilo's alone.

require "active_record"
require "active_record/fixtures"
require "database_cleaner"
require "stringio"
require_relative "hilo"

class Order < ActiveRecord::Base
end

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"],
  username: ENV["PGUSER"], database: ENV["PGDATABASE"],
)
connection = ActiveRecord::Base.connection
ActiveRecord::Schema.verbose = false

# What hilo knows, but for the positions.
state = lambda do
  connection.select_rows("SELECT * FROM hilo_privileges ORDER BY 1, 2") +
    connection.select_rows("SELECT name, owner, owned_by FROM hilo_sequences ORDER BY name") +
    connection.select_rows("SELECT severity, object, what FROM hilo_check() WHERE severity <> 'note'")
end

puts "tables: #{connection.tables.sort.join(' ')}"
puts "table_exists?: #{%w[position sequence lease].map { |name| connection.table_exists?(name) }}"
stream = StringIO.new
ActiveRecord::SchemaDumper.dump(connection, stream)
schema = stream.string
puts schema.lines.grep(/^ *(enable_extension|create_table|add_foreign_key|#.*not dump)/)

# db:schema:load
connection.transaction do
  eval(schema)
  connection.execute("SELECT hilo_create_missing()")
  puts "loaded: #{Order.create!(customer: 'Ada').id}"
  raise ActiveRecord::Rollback
end

before = state.call
same = -> { state.call == before && Order.create!(customer: "Ada").id ? "the same" : state.call - before }

connection.truncate_tables(*connection.tables)
puts "truncate_tables: #{same.call}"

DatabaseCleaner[:active_record].strategy = :truncation
DatabaseCleaner.clean
puts "DatabaseCleaner: #{Order.count}: #{same.call}"

connection.disable_referential_integrity { Order.create!(customer: "Ada") }
puts "disable_referential_integrity: #{same.call}"

ActiveRecord::FixtureSet.create_fixtures(__dir__, "orders")
puts "fixtures: #{Order.count}: #{same.call}"
