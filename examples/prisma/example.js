// hilo with Prisma. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

import assert from "node:assert/strict";
import { PrismaPg } from "@prisma/adapter-pg";
import prismaClient from "./generated/index.js";

const prisma = new prismaClient.PrismaClient({ adapter: new PrismaPg({}) });

// What a migration holds: the sequence comes before the table whose default names it.
await prisma.$executeRaw`SELECT hilo_create('orders', if_not_exists => true)`;
await prisma.$executeRaw`
  CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)`;

const ada = await prisma.order.create({ data: { customer: "Ada" } });
const names = Array.from({ length: 1000 }, (_, number) => ({ customer: `bulk ${number}` }));
const many = await prisma.order.createManyAndReturn({ data: names });

const ids = [ada, ...many].map((order) => order.id);
assert.equal(new Set(ids).size, 1001);
assert.deepEqual(many.map((order) => order.customer), names.map((row) => row.customer));
assert.equal(await prisma.order.count({ where: { id: { in: ids } } }), 1001);

// A key that Prisma Migrate has made, as autoincrement(), becomes hilo's, Prisma's again, and hilo's again.
await prisma.$executeRaw`CREATE TABLE invoices (id bigserial PRIMARY KEY)`;
const up = () => prisma.$executeRaw`SELECT hilo_adopt('invoices', 'id')`;
const down = () => prisma.$executeRaw`SELECT hilo_release('invoices', 'id', NULL)`;
for (const [number, migration] of [up, down, up].entries()) {
  await migration();
  assert.equal((await prisma.invoice.create({ data: {} })).id, BigInt(number + 1));
}

// Types that Prisma does not know, such as interval and regtype in hilo's views, are cast to text.
const [row] = await prisma.$queryRaw`SELECT name::text, data_type::text FROM hilo_sequences WHERE name = 'orders'`;
assert.deepEqual(row, { name: "orders", data_type: "bigint" });

await prisma.$disconnect();
console.log("Prisma: 1001 rows, no id twice");
