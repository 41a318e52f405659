// hilo with Sequelize. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

import assert from "node:assert/strict";
import { DataTypes, Sequelize } from "sequelize";

const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env;
const sequelize = new Sequelize(PGDATABASE, PGUSER, null, {
  dialect: "postgres",
  host: PGHOST,
  port: PGPORT,
  logging: false,
  define: { timestamps: false },
});

const Order = sequelize.define(
  "Order",
  {
    id: {
      type: DataTypes.BIGINT,
      primaryKey: true,
      defaultValue: sequelize.literal("hilo_nextval('orders')"),
    },
    customer: { type: DataTypes.TEXT, allowNull: false },
  },
  { tableName: "orders" },
);

await sequelize.query("SELECT hilo_create('orders', if_not_exists => true)");
await sequelize.sync();

const ada = await Order.create({ customer: "Ada" });
const names = Array.from({ length: 1000 }, (_, number) => ({ customer: `bulk ${number}` }));
const many = await Order.bulkCreate(names);

const ids = [ada, ...many].map((order) => order.id);
assert.equal(new Set(ids).size, 1001);
for (const order of many.slice(0, 20)) {
  assert.equal((await Order.findByPk(order.id)).customer, order.customer);
}

// A key that Sequelize has made becomes hilo's, Sequelize's again, and hilo's again. The model stays as it is.
const Invoice = sequelize.define(
  "Invoice",
  { id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true } },
  { tableName: "invoices" },
);
await Invoice.sync();
const up = "SELECT hilo_adopt('invoices', 'id')";
const down = "SELECT hilo_release('invoices', 'id', NULL)";
for (const [number, migration] of [up, down, up].entries()) {
  await sequelize.query(migration);
  assert.equal((await Invoice.create()).id, String(number + 1));
}

// An alteration of the tables leaves the defaults.
await sequelize.sync({ alter: true });
const later = await Order.create({ customer: "Grace" });
const [[plain]] = await sequelize.query("INSERT INTO orders (customer) VALUES ('plain') RETURNING id");
assert.equal(new Set([...ids, later.id, plain.id]).size, 1003);
assert.equal((await Invoice.create()).id, "4");

await sequelize.close();
console.log("Sequelize: 1003 rows, no id twice");
