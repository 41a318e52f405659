// hilo with TypeORM. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

import "reflect-metadata";
import assert from "node:assert/strict";
import { DataSource, EntitySchema } from "typeorm";

// With decorators: @PrimaryColumn({ type: "bigint", default: () => "hilo_nextval('orders')" }) id: string
const Order = new EntitySchema({
  name: "orders",
  columns: {
    id: { type: "bigint", primary: true, default: () => "hilo_nextval('orders')" },
    customer: { type: "text" },
  },
});

const source = new DataSource({ type: "postgres", database: process.env.PGDATABASE, entities: [Order] });
await source.initialize();
await source.query("SELECT hilo_create('orders', if_not_exists => true)");
await source.synchronize();

const repository = source.getRepository(Order);
const ada = await repository.save({ customer: "Ada" });
const names = Array.from({ length: 1000 }, (_, number) => ({ customer: `bulk ${number}` }));
const saved = await repository.save(names.map((row) => ({ ...row })));
const inserted = await repository.insert(names);

const ids = [ada, ...saved, ...inserted.identifiers].map((row) => row.id);
assert.equal(new Set(ids).size, 2001);
for (const order of saved.slice(0, 20)) {
  assert.equal((await repository.findOneBy({ id: order.id })).customer, order.customer);
}

// The entity and the table agree: there is nothing to synchronize.
const { upQueries } = await source.driver.createSchemaBuilder().log();
assert.deepEqual(upQueries.map((query) => query.query), []);

await source.destroy();

// A table whose keys TypeORM has generated, and the migration that gives them to hilo.
class HiloNumbersInvoices1700000000000 {
  async up(runner) {
    await runner.query("SET LOCAL lock_timeout = '5s'; SELECT hilo_adopt('invoices', 'id')");
  }
  async down(runner) {
    await runner.query("SET LOCAL lock_timeout = '5s'; SELECT hilo_release('invoices', 'id', NULL)");
  }
}
const connect = (id) =>
  new DataSource({
    type: "postgres",
    database: process.env.PGDATABASE,
    entities: [Order, new EntitySchema({ name: "invoices", columns: { id, note: { type: "text" } } })],
    migrations: [HiloNumbersInvoices1700000000000],
  }).initialize();
const statements = async (source) =>
  (await source.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query);
const before = await connect({ type: "bigint", primary: true, generated: "increment" });
const after = await connect({ type: "bigint", primary: true, default: () => "hilo_nextval('invoices_id_seq')" });
await before.synchronize();

// Up, down, and up again, while others insert: no id comes twice.
const insert = async () => Number((await after.getRepository("invoices").save({ note: "one" })).id);
const used = [await insert()];
let done = false;
const writer = (async () => {
  while (!done) used.push(await insert());
})();
for (const direction of ["up", "down", "up"]) {
  const last = Math.max(...used);
  await (direction === "up" ? after.runMigrations() : after.undoLastMigration());
  used.push(await insert());
  assert(used.at(-1) > last);
  assert.deepEqual(await statements(direction === "up" ? after : before), []);
}
done = true;
await writer;
assert.equal(new Set(used).size, used.length);

// TypeORM drops the default of a column that the entity still calls generated.
assert.match((await statements(before)).join("; "), /ALTER COLUMN "id" DROP DEFAULT/);
await before.destroy();
await after.destroy();
console.log("TypeORM: 2001 rows, no id twice");
