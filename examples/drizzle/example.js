// hilo with Drizzle. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { drizzle } from "drizzle-orm/node-postgres";
import { count, inArray, sql } from "drizzle-orm";
import pg from "pg";
import { invoices, orders } from "./schema.js";

const push = () => execFileSync("node_modules/.bin/drizzle-kit", ["push", "--force"], { encoding: "utf8" });

const pool = new pg.Pool();
const db = drizzle(pool);
await db.execute(sql`SELECT hilo_create('orders', if_not_exists => true)`);

// A key that was a bigserial becomes hilo's, a bigserial again, and hilo's again. push comes after the migration, because
// the schema names the new default.
await db.execute(sql`CREATE TABLE invoices (id bigserial PRIMARY KEY)`);
const up = sql`SELECT hilo_adopt('invoices', 'id')`;
const down = sql`SELECT hilo_release('invoices', 'id', NULL)`;
for (const [number, migration] of [up, down, up].entries()) {
  await db.execute(migration);
  const [invoice] = await db.insert(invoices).values({}).returning();
  assert.equal(invoice.id, number + 1);
}

assert.match(push(), /Changes applied/);

const [ada] = await db.insert(orders).values({ customer: "Ada" }).returning();
const names = Array.from({ length: 1000 }, (_, number) => ({ customer: `bulk ${number}` }));
const many = await db.insert(orders).values(names).returning();
assert.deepEqual(many.map((row) => row.customer), names.map((row) => row.customer));
const ids = [ada, ...many].map((row) => row.id);
assert.equal(new Set(ids).size, 1001);

// The schema and the table agree, because the default is written as the server prints it.
assert.match(push(), /No changes detected/);
const [{ found }] = await db.select({ found: count() }).from(orders).where(inArray(orders.id, ids));
assert.equal(found, 1001);
await pool.end();
console.log("Drizzle: 1001 rows, no id twice");
