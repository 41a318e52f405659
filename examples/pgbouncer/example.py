"""hilo behind PgBouncer. The pooler comes from PGHOST, PGPORT, PGUSER and PGDATABASE; POOL_MODE is how it pools."""

import os
from concurrent.futures import ThreadPoolExecutor

import psycopg

INSERT = "INSERT INTO orders (customer) VALUES (%s) RETURNING id"
mode = os.environ["POOL_MODE"]


def connect():
    # PgBouncer before 1.21 knows no prepared statements of its clients, unless it pools sessions.
    return psycopg.connect(autocommit=True, prepare_threshold=None)


def client(number):
    """Inserts single rows, each in a transaction of its own."""
    with connect() as connection:
        return [connection.execute(INSERT, [f"client {number}"]).fetchone()[0] for _ in range(20)]


def current(number):
    """Asks for the value that its own transaction has drawn, while others draw in the same server sessions."""
    with connect() as connection, connection.transaction():
        [id] = connection.execute(INSERT, [f"current {number}"]).fetchone()
        [value] = connection.execute("SELECT hilo_currval('orders')").fetchone()
        assert value == id, f"{value} instead of {id}"
        return [id]


with connect() as connection:
    connection.execute("SELECT hilo_create('orders', if_not_exists => true)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS orders "
        "(id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)"
    )

with ThreadPoolExecutor(50) as clients:
    rows = list(clients.map(client, range(100)))
    if mode != "statement":  # which allows no transaction of more than one statement
        rows += clients.map(current, range(100))

ids = [id for some in rows for id in some]
assert len(ids) == len(set(ids)) >= 2000
with connect() as connection:
    [stored] = connection.execute("SELECT count(*) FROM orders WHERE id = ANY(%s)", [ids]).fetchone()
    assert stored == len(ids)

print(f"PgBouncer, {mode} pooling: {len(ids)} rows, no id twice")
