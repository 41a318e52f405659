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
console.log("TypeORM: 2001 rows, no id twice");
