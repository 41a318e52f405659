"""hilo behind pgpool with a standby. The pooler comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import psycopg

with psycopg.connect(autocommit=True) as connection:
    connection.execute("SELECT hilo_create('orders', if_not_exists => true)")
    connection.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)"
    )

    # One statement: a pipeline of many, as executemany sends it, can block pgpool for ever.
    names = [f"bulk {number}" for number in range(1000)]
    bulk = "INSERT INTO orders (customer) SELECT unnest(%s::text[]) RETURNING id"
    ids = [id for [id] in connection.execute(bulk, [names])]

    # Functions that draw are volatile: pgpool sends their SELECT to the primary.
    ids.append(connection.execute("SELECT hilo_nextval('orders')").fetchone()[0])
    assert len(ids) == len(set(ids)) == 1001

    # Other reads go to the standby ...
    assert connection.execute("SELECT current_setting('in_hot_standby')").fetchone() == ("on",)
    # ... but not hilo's views, which the configuration names.
    [active] = connection.execute("SELECT count(*) FROM hilo_stat_sequences WHERE name = 'orders'").fetchone()
    assert active == 1

print("pgpool: 1000 rows, no id twice")
