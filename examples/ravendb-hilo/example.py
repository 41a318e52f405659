"""RavenDB's own client draws its ids from hilo. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from urllib.request import Request, urlopen

import psycopg
from ravendb import DocumentStore


class Order:
    def __init__(self, Id: str | None = None) -> None:
        self.Id = Id


def application(url: str, number: int) -> list[str]:
    """A process with a store of its own, which returns the rest of its range when it closes."""
    store = DocumentStore(url, "shop")
    store.initialize()
    with store.open_session() as session:
        orders = [Order() for _ in range(200 + 10 * number)]
        for order in orders:
            session.store(order)
    store.close()
    return [order.Id for order in orders]


def call(method: str, path: str) -> dict | None:
    with urlopen(Request(f"{url}/databases/shop/hilo/{path}", method=method)) as answer:
        return json.loads(answer.read() or "null")


def open_leases(tag: str) -> list[tuple[int, int]]:
    with psycopg.connect() as connection:
        query = "SELECT first, last FROM hilo_leases WHERE name = %s ORDER BY first"
        return connection.execute(query, [tag]).fetchall()


def gaps(tag: str) -> int:
    with psycopg.connect() as connection:
        return connection.execute("SELECT count(*) FROM hilo_gaps WHERE name = %s", [tag]).fetchone()[0]


with psycopg.connect() as connection:
    connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, key text UNIQUE)")

server = subprocess.Popen([sys.executable, "server.py", "0"], stdout=subprocess.PIPE, text=True)
try:
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"

    # Eight processes at the same time, each of which stores documents and returns its last range.
    with ProcessPoolExecutor(8, mp_context=get_context("fork")) as processes:
        keys = [key for keys in processes.map(application, [url] * 8, range(8)) for key in keys]
    assert len(keys) == len(set(keys)) == 1880, len(keys)
    ids = [int(key.removeprefix("orders/").removesuffix("-A")) for key in keys]
    with psycopg.connect() as connection, connection.cursor() as cursor:
        with cursor.copy("COPY orders FROM STDIN") as copy:
            for row in zip(ids, keys, strict=True):
                copy.write_row(row)
    assert open_leases("orders") == [], "all ranges have been used up or returned"

    # A range that is returned is served again, and a second return changes nothing, whoever has the rest by then.
    first = call("GET", "next?tag=cases&lastBatchSize=0&lastMax=0")
    assert (first["Prefix"], first["Low"], first["High"], first["ServerTag"]) == ("cases/", 1, 32, "A"), first
    call("PUT", "return?tag=cases&end=32&last=10")
    assert open_leases("cases") == []
    rest = call("GET", "next?tag=cases&lastMax=0")
    while rest["Low"] != 11:  # until the return has reached what is served
        rest = call("GET", "next?tag=cases&lastMax=0")
    assert rest["High"] == 32
    before = open_leases("cases")
    for _ in range(3):
        call("PUT", "return?tag=cases&end=32&last=10")
    assert open_leases("cases") == before, "the rest belongs to somebody else"

    # A range that grows with use: the client has used up the last one within 30 seconds.
    grown = call("GET", f"next?tag=cases&lastBatchSize=32&lastRangeAt={rest['LastRangeAt']}&lastMax={rest['High']}")
    assert grown["LastSize"] == 64, grown
    assert (rest["Low"], rest["High"]) not in open_leases("cases")

    # lastMax: at least. A client that knows of larger ids gets ids beyond them, and asking again loses nothing.
    far = call("GET", "next?tag=cases&lastMax=5000")
    assert far["Low"] == 5001, far
    lost = gaps("cases")
    ranges = [far, *(call("GET", "next?tag=cases&lastMax=5000") for _ in range(5))]
    assert gaps("cases") == lost
    taken = [id for range_ in ranges for id in range(range_["Low"], range_["High"] + 1)]
    assert len(taken) == len(set(taken)) and min(taken) == 5001

    # The server's tag is hilo.server_prefix: keys of two servers differ.
    assert {key.rsplit("-")[1] for key in keys} == {"A"}
finally:
    server.terminate()
    server.wait()

print(f"RavenDB: {len(keys)} ids, none twice")
