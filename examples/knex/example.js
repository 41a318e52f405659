// hilo with Knex. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

import assert from "node:assert/strict";
import Knex from "knex";

const knex = Knex({ client: "pg", connection: {}, pool: { min: 0, max: 4 } });

// A migration's up(): the sequence comes before the table whose default names it.
await knex.raw("SELECT hilo_create('orders', if_not_exists => true)");
await knex.schema.createTable("orders", (table) => {
  table.bigInteger("id").primary().defaultTo(knex.raw("hilo_nextval('orders')"));
  table.text("customer").notNullable();
});

const [ada] = await knex("orders").insert({ customer: "Ada" }).returning("id");
const names = Array.from({ length: 1000 }, (_, number) => ({ customer: `bulk ${number}` }));
const many = await knex("orders").insert(names).returning(["id", "customer"]);
assert.deepEqual(many.map((row) => row.customer), names.map((row) => row.customer));
const batches = await knex.batchInsert("orders", names, 100).returning("id");

const ids = [ada, ...many, ...batches].map((row) => row.id);
assert.equal(new Set(ids).size, 2001);

// A table whose key Knex has made before: the column's new default, behind everything that was used.
await knex.schema.createTable("invoices", (table) => table.bigIncrements("id"));
await knex("invoices").insert(names.slice(0, 10).map(() => ({ id: knex.raw("DEFAULT") })));
await knex.transaction(async (transaction) => {
  await transaction.raw("SET LOCAL lock_timeout = '5s'");
  await transaction.raw("LOCK TABLE invoices IN ACCESS EXCLUSIVE MODE");
  await transaction.raw(`SELECT hilo_create('invoices', start_value => 1 + greatest(
    (SELECT max(id) FROM invoices),
    (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM invoices_id_seq)))`);
  // Not .alter(): that drops the default of a primary key, and then fails.
  await transaction.raw("ALTER TABLE invoices ALTER COLUMN id SET DEFAULT hilo_nextval('invoices')");
  await transaction.raw("DROP SEQUENCE invoices_id_seq");
});
const [next] = await knex("invoices").insert({}).returning("id");
assert.equal(next.id, "11");

await knex.destroy();
console.log("Knex: 2001 rows, no id twice");
