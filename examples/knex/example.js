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

// A table whose keys Knex has made: a migration's up() and down(). Not .alter(): that drops the default of a primary
// key, and then fails.
const up = (knex) => knex.raw("SET LOCAL lock_timeout = '5s'; SELECT hilo_adopt('invoices', 'id')");
const down = (knex) => knex.raw("SET LOCAL lock_timeout = '5s'; SELECT hilo_release('invoices', 'id', NULL)");

// The key becomes hilo's, Knex's again, and hilo's again, while others insert: no id comes twice.
await knex.schema.createTable("invoices", (table) => table.bigIncrements("id"));
const insert = async () => Number((await knex("invoices").insert({}).returning("id"))[0].id);
const used = [await insert()];
let done = false;
const writer = (async () => {
  while (!done) used.push(await insert());
})();
for (const migration of [up, down, up]) {
  const last = Math.max(...used);
  await knex.transaction(migration);
  used.push(await insert());
  assert(used.at(-1) > last);
}
done = true;
await writer;
assert.equal(new Set(used).size, used.length);

await knex.destroy();
console.log("Knex: 2001 rows, no id twice");
