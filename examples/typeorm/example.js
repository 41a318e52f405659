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

// A table whose keys TypeORM has generated. The entity changes together with the column: TypeORM drops the default of
// a column that the entity still calls generated.
const invoices = (id) => new EntitySchema({ name: "invoices", columns: { id, note: { type: "text" } } });
const connect = (id) =>
  new DataSource({ type: "postgres", database: process.env.PGDATABASE, entities: [Order, invoices(id)] }).initialize();

const before = await connect({ type: "bigint", primary: true, generated: "increment" });
await before.synchronize();
await before.getRepository("invoices").save([{ note: "1" }, { note: "2" }, { note: "3" }]);
await before.transaction(async (manager) => {
  await manager.query("SET LOCAL lock_timeout = '5s'");
  await manager.query("LOCK TABLE invoices IN ACCESS EXCLUSIVE MODE");
  await manager.query(`SELECT hilo_create('invoices', start_value => 1 + greatest(
    (SELECT max(id) FROM invoices),
    (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM invoices_id_seq)))`);
  await manager.query("ALTER TABLE invoices ALTER COLUMN id SET DEFAULT hilo_nextval('invoices')");
  await manager.query("DROP SEQUENCE invoices_id_seq");
});
const unchanged = await before.driver.createSchemaBuilder().log();
assert.match(unchanged.upQueries.map((query) => query.query).join("; "), /ALTER COLUMN "id" DROP DEFAULT/);
await before.destroy();

const after = await connect({ type: "bigint", primary: true, default: () => "hilo_nextval('invoices')" });
assert.deepEqual((await after.driver.createSchemaBuilder().log()).upQueries, []);
assert.equal((await after.getRepository("invoices").save({ note: "4" })).id, "4");
await after.destroy();
console.log("TypeORM: 2001 rows, no id twice");
