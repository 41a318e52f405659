"""Serves the HiLo ranges of RavenDB's clients from hilo: each tag is a sequence. Prints its port: python3 server.py 8080"""

import json
import sys
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import psycopg

# The lease is a gap if its holder neither uses it up nor returns it.
TTL = "1 day"
# The client has used up the range that ends at lastMax. It is not returned: nobody else learns of its end.
USED_UP = "SELECT hilo_lease_return(lease, last + 1) FROM hilo_leases WHERE name = %(tag)s AND last = %(lastMax)s"
# The client has had a range up to lastMax from a server that knew more, unless the sequence has come as far.
AT_LEAST = "SELECT hilo_advance(%(tag)s, %(lastMax)s) WHERE hilo_advance(%(tag)s, 0) <= %(lastMax)s"
LEASE = "SELECT first, last, server_prefix FROM hilo_lease(%(tag)s, %(size)s, 'ravendb', %(ttl)s)"
# Who returns has used at least one value, so a repeated return never matches the lease that has its rest by now.
RETURN = """SELECT hilo_lease_return(lease, least(%(last)s::bigint, last) + 1) FROM hilo_leases
             WHERE name = %(tag)s AND last = %(end)s AND %(last)s >= first"""


def size_of(last_size: int, last_at: str) -> int:
    """As RavenDB does it: twice as many within 30 s of the last time, half as many after a minute."""
    if not last_at:
        return max(32, last_size)
    seconds = (datetime.now(timezone.utc) - datetime.fromisoformat(last_at[:19] + "+00:00")).total_seconds()
    return min(max(32, last_size * 2 if seconds < 30 else last_size // 2 if seconds > 60 else last_size), 1 << 20)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/topology":
            node = {"Url": f"http://{self.headers['Host']}", "ClusterTag": "A", "Database": asked["name"], "ServerRole": "Member"}
            self.answer(200, {"Etag": 1, "Nodes": [node]})
        elif url.path.endswith("/hilo/next"):
            self.answer(201, self.next(asked))
        else:
            self.answer(404, {})

    def do_PUT(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        if not url.path.endswith("/hilo/return"):
            return self.answer(404, {})
        try:
            with psycopg.connect() as connection:
                connection.execute(RETURN, {"tag": asked["tag"], "end": int(asked["end"]), "last": int(asked["last"])})
        except psycopg.errors.UndefinedObject:
            pass  # It has been returned meanwhile.
        self.answer(204)

    def next(self, asked: dict[str, str]) -> dict[str, object]:
        size = size_of(int(asked.get("lastBatchSize", 0)), asked.get("lastRangeAt", ""))
        values = {"tag": asked["tag"], "lastMax": int(asked.get("lastMax", 0)), "size": size, "ttl": TTL}
        with psycopg.connect() as connection:
            connection.execute("SELECT hilo_create(%(tag)s, if_not_exists => true)", values)
        with psycopg.connect() as connection:
            connection.execute(USED_UP, values)
            connection.execute(AT_LEAST, values)
            low, high, prefix = connection.execute(LEASE, values).fetchone()
        # It is committed.
        at = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f0Z")
        return {
            "Prefix": asked["tag"] + asked.get("identityPartsSeparator", "/"),
            "Low": low,
            "High": high,
            "LastSize": size,
            "ServerTag": prefix or "A",
            "LastRangeAt": at,
        }

    def answer(self, status: int, body: object = None) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
