// hilo with node-postgres. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

import assert from "node:assert/strict";
import pg from "pg";

const pool = new pg.Pool({ max: 4 });
await pool.query("SELECT hilo_create('orders', if_not_exists => true)");
await pool.query(
  "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)",
);

// One row each, on several connections. A bigint arrives as a string, as from any other bigint column.
const insert = "INSERT INTO orders (customer) VALUES ($1) RETURNING id";
const single = await Promise.all(
  Array.from({ length: 200 }, async (_, number) => {
    const { rows } = await pool.query(insert, [`task ${number}`]);
    return rows[0].id;
  }),
);
assert.equal(typeof single[0], "string");

// Many rows in one statement, with their ids.
const names = Array.from({ length: 1000 }, (_, number) => `bulk ${number}`);
const many = await pool.query(
  "INSERT INTO orders (customer) SELECT * FROM unnest($1::text[]) RETURNING id, customer",
  [names],
);
assert.deepEqual(many.rows.map((row) => row.customer), names);

// The ids first, for objects that refer to each other before they are written.
const taken = await pool.query("SELECT hilo_nextvals($1, $2) AS id", ["orders", 100]);
const ahead = taken.rows.map((row) => row.id);
await pool.query("INSERT INTO orders SELECT id, 'ahead' FROM unnest($1::bigint[]) AS id", [ahead]);

const ids = [...single, ...many.rows.map((row) => row.id), ...ahead];
assert.equal(new Set(ids).size, 1300);
const { rows } = await pool.query("SELECT count(*)::integer AS count FROM orders WHERE id = ANY($1)", [ids]);
assert.equal(rows[0].count, 1300);
await pool.end();
console.log("node-postgres: 1300 rows, no id twice");
