"""Serves the HiLo ranges of RavenDB's clients from hilo, each tag from the sequence of that name.

    python3 server.py 8080

The database comes from PGHOST, PGPORT, PGUSER and PGDATABASE. Prints its port, which is any if the argument is 0.
"""

import json
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import psycopg

CREATE = "SELECT hilo_create(%(tag)s, if_not_exists => true)"
# The client has used up the range that ends at lastMax. Nothing else says so.
USED_UP = "SELECT hilo_lease_return(lease, last + 1) FROM hilo_leases WHERE name = %(tag)s AND last = %(lastMax)s"
# The client has had lastMax from a server that knew more, unless the sequence has come as far.
AT_LEAST = "SELECT hilo_advance(%(tag)s, %(lastMax)s) WHERE hilo_advance(%(tag)s, 0) <= %(lastMax)s"
# What is neither used up nor returned within a day is a gap.
LEASE = "SELECT first, last, server_prefix FROM hilo_lease(%(tag)s, %(size)s, 'ravendb', '1 day')"
# Who returns has used a value of the range. So a repeated return never ends the lease that has the rest by then.
RETURN = """SELECT hilo_lease_return(lease, least(%(last)s, last) + 1) FROM hilo_leases
             WHERE name = %(tag)s AND last = %(end)s AND %(last)s >= first"""


def size_of(last_size: int, last_at: str) -> int:
    """As in RavenDB: twice as many within 30 s of the last range, half as many after a minute."""
    if not last_at:
        return max(32, last_size)
    at = datetime.fromisoformat(last_at[:19]).replace(tzinfo=timezone.utc)
    seconds = (datetime.now(timezone.utc) - at).total_seconds()
    wished = last_size * 2 if seconds < 30 else last_size // 2 if seconds > 60 else last_size
    return min(max(32, wished), 1 << 20)


def run(values: Mapping[str, Any], *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last statement, once all are committed."""
    numbers = {name: int(values[name]) for name in ("lastMax", "last", "end") if name in values}
    with psycopg.connect() as connection:
        return [connection.execute(statement, {**values, **numbers}).fetchall() for statement in statements][-1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def topology(self, asked: dict[str, str]) -> tuple[int, object]:
        url = f"http://{self.headers['Host']}"
        node = {"Url": url, "ClusterTag": "A", "Database": asked["name"], "ServerRole": "Member"}
        return 200, {"Etag": 1, "Nodes": [node]}

    def next(self, asked: dict[str, str]) -> tuple[int, object]:
        size = size_of(int(asked.get("lastBatchSize", 0)), asked.get("lastRangeAt", ""))
        values = {"lastMax": 0, **asked, "size": size}
        # A transaction that has moved a sequence draws from it only after its commit.
        run(values, CREATE, USED_UP, AT_LEAST)
        [(low, high, prefix)] = run(values, LEASE)
        return 201, {
            "Prefix": asked["tag"] + asked.get("identityPartsSeparator", "/"),
            "Low": low,
            "High": high,
            "LastSize": size,
            "ServerTag": prefix or "A",
            "LastRangeAt": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f0Z"),
        }

    def give_back(self, asked: dict[str, str]) -> tuple[int, object]:
        try:
            run(asked, RETURN)
        except psycopg.errors.UndefinedObject:
            pass  # It has ended meanwhile.
        return 204, None

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        calls = {"/topology": self.topology, "/hilo/next": self.next, "/hilo/return": self.give_back}
        found = [call for end, call in calls.items() if url.path.endswith(end)]
        try:
            status, body = found[0](dict(parse_qsl(url.query))) if found else (404, None)
        except psycopg.Error as error:
            status, body = 503, {"Message": str(error)}
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(server.server_port, flush=True)
server.serve_forever()
