"""The client in several processes and threads. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import asyncio
import contextlib
import os
import threading
import time
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from multiprocessing import get_context

import psycopg
from hilo_client import AsyncHiloClient, HiloClient


def process(number: int) -> list[int]:
    """Draws in eight threads, and returns what is left."""
    with HiloClient() as client, ThreadPoolExecutor(8) as threads:
        return list(threads.map(client.next, ["orders"] * (1000 + number)))


def one(query: str, *arguments: object) -> object:
    with psycopg.connect(autocommit=True) as connection:
        return connection.execute(query, arguments).fetchone()[0]


def refused(client: HiloClient, name: str) -> str | None:
    try:
        client.next(name)
    except psycopg.Error as error:
        return error.sqlstate


with psycopg.connect(autocommit=True) as connection:
    connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
    connection.execute("SELECT hilo_create('orders', if_not_exists => true)")
    connection.execute("SELECT hilo_create('falling', increment => -10, key_format => '{{{name}}} {value:06}{server}')")
    connection.execute("SELECT hilo_create('top', start_value => 9223372036854775800)")
    connection.execute("SELECT hilo_create('ordered', ordered => true)")
    connection.execute("SELECT hilo_create('short'), hilo_create('tens', increment => 10)")
    connection.execute("SELECT hilo_create('many-' || n) FROM generate_series(1, 200) n")

# Four processes of eight threads.
with ProcessPoolExecutor(4, mp_context=get_context("fork")) as processes:
    ids = [id for ids in processes.map(process, range(4)) for id in ids]
assert len(ids) == len(set(ids)) == 4006

client = HiloClient(pace=0.1, hold=60)

# Increments, and keys as the server makes them.
falling = [client.next("falling") for _ in range(100)]
assert falling == list(range(-1, -1000, -10)), falling
keys = [client.next_key("falling") for _ in range(10)]
assert keys == [one("SELECT hilo_key('falling', %s)", -1001 - 10 * n) for n in range(10)], keys

# Leases of one value, to begin with.
with HiloClient(first=1) as one_by_one:
    assert [one_by_one.next("tens") for _ in range(50)] == list(range(1, 500, 10))

# To the end of bigint, whose last value is never leased.
assert [client.next("top") for _ in range(7)] == list(range(2**63 - 8, 2**63 - 1))
assert refused(client, "top") == "2200H"

# What one sequence lacks, the others do not notice.
assert refused(client, "unknown") == "42704"
assert refused(client, "ordered") == "0A000"
assert client.next("falling") == -1101

# Two hundred sequences, which callers want at the same time.
with ThreadPoolExecutor(200) as threads:
    assert set(threads.map(client.next, [f"many-{n}" for n in range(1, 201)])) == {1}

# A child has nothing of its parent, and leaves it alone.
mine, found = client.next("orders"), client._ready["orders"]
reading, writing = os.pipe()
if (child := os.fork()) == 0:
    # Nor has a caller who was about to take a value.
    with contextlib.suppress(IndexError):
        os._exit(found())
    with client:
        os.write(writing, b" ".join(b"%d" % client.next("orders") for _ in range(100)))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
ids += [mine, *map(int, os.read(reading, 65536).split()), *(client.next("orders") for _ in range(100))]


# Whoever draws while it is closed gets a value or an error.
def until_closed() -> list[int]:
    drawn = []
    while True:
        try:
            drawn.append(client.next("orders"))
        except RuntimeError:
            return drawn


with ThreadPoolExecutor(8) as threads:
    drawing = [threads.submit(until_closed) for _ in range(8)]
    threading.Timer(0.2, client.close).start()
    for drawn in drawing:
        ids += drawn.result()

# Leases that are held for longer than their ttl are renewed.
with HiloClient(ttl=timedelta(seconds=2)) as client:
    before = client.next("short")
    while one("SELECT clock_timestamp() < max(leased_at) + interval '2.5 s' FROM hilo_leases WHERE name = 'short'"):
        time.sleep(0.05)
    assert client.next("short") == before + 1

with psycopg.connect() as connection, connection.cursor() as cursor:
    with cursor.copy("COPY orders FROM STDIN") as copy:
        for id in ids:
            copy.write_row([id])
    leases = cursor.execute("SELECT * FROM hilo_leases").fetchall()
    assert leases == [], leases
    gaps = cursor.execute("SELECT name, reason FROM hilo_gaps WHERE reason <> 'discarded'").fetchall()
    assert gaps == [], gaps

print(f"{len(ids)} ids, none twice")

# A lease that was not asked for is not served from.
stranger = HiloClient(timeout=1)
execute = stranger._execute
stranger._execute = lambda *queries: [(*row[:2], uuid.uuid4(), *row[3:]) for row in execute(*queries)]
try:
    stranger.next("short")
    raise AssertionError("a value of another lease")
except (TimeoutError, ValueError):
    pass

# A loop that is closed in the middle of a call leaves the client in order, for others.
shared = AsyncHiloClient(timeout=20)
loop = asyncio.new_event_loop()
left = loop.create_task(shared.next("short"))
loop.run_until_complete(asyncio.sleep(0))
loop.close()
assert asyncio.run(shared.next("short")) > 0
asyncio.run(shared.close())
