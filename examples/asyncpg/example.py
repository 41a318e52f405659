"""hilo with asyncpg. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import asyncio

import asyncpg

INSERT = "INSERT INTO orders (customer) VALUES ($1) RETURNING id"


async def main():
    async with asyncpg.create_pool(min_size=4, max_size=4) as pool:
        await pool.execute("SELECT hilo_create('orders', if_not_exists => true)")
        await pool.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)"
        )

        # One row each, from many tasks on a few connections.
        single = await asyncio.gather(*(pool.fetchval(INSERT, f"task {number}") for number in range(200)))

        # Many rows in one statement, with their ids.
        names = [f"bulk {number}" for number in range(1000)]
        rows = await pool.fetch(
            "INSERT INTO orders (customer) SELECT * FROM unnest($1::text[]) RETURNING id, customer", names
        )
        assert [row["customer"] for row in rows] == names

        # COPY, with ids that are known before the rows are written.
        taken = await pool.fetchrow("SELECT * FROM hilo_nextrange('orders', $1)", 1000)
        copied = list(range(taken["first"], taken["last"] + 1, taken["increment"]))
        await pool.copy_records_to_table("orders", records=zip(copied, names), columns=["id", "customer"])

        # The name as a parameter: asyncpg sends it as text by itself.
        drawn = await pool.fetchval("SELECT hilo_nextval($1)", "orders")

        ids = [*single, *(row["id"] for row in rows), *copied, drawn]
        assert len(ids) == len(set(ids)) == 2201
        assert await pool.fetchval("SELECT count(*) FROM orders WHERE id = ANY($1)", ids) == 2200

    print("asyncpg: 2200 rows, no id twice")


asyncio.run(main())
