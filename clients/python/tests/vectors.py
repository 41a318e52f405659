"""What the client makes of the server's answers: the examples of clients/vectors.json. Needs no server.

    python3 vectors.py ../../vectors.json
"""

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import psycopg
from hilo_client import HiloClient
from hilo_client.lease import Lease

COLUMNS = (
    "kind name lease first last increment count key_format server_prefix sqlstate message detail hint"
).split()


def row(columns: dict[str, Any]) -> tuple[Any, ...]:
    """As psycopg returns it."""
    return tuple(uuid.UUID(columns[name]) if name == "lease" else columns.get(name) for name in COLUMNS)


def answered(vector: dict[str, Any]) -> tuple[HiloClient, list[Lease]]:
    """A client that has sent the call of a vector, and got its rows; and the leases that it has returned."""
    client = HiloClient()
    client._begin_thread = lambda: None  # type: ignore[method-assign]
    asked = []
    for lease in vector["leases"]:
        assert refusal(client, lease["name"]) is None
        sequence = client._sequences[lease["name"]]
        sequence.asked = (uuid.UUID(lease["lease"]), lease["size"])
        asked.append(sequence)
    returns = [Lease("", uuid.UUID(back["lease"]), back["next"], 0, 1, 0, "", "") for back in vector["returns"]]
    client._returns = list(returns)
    with client._changed:
        client._settle(returns, asked, [row(columns) for columns in vector["rows"]])
    return client, returns


def refusal(client: HiloClient, name: str) -> str | None:
    """The error that a caller gets who was there when the answer came; None: the caller waits on."""
    try:
        with client._changed:
            assert client._try_draw(name, 1, 0) is None
    except psycopg.Error as error:
        return error.sqlstate
    return None


for vector in json.loads(Path(sys.argv[1]).read_text()):
    client, returns = answered(vector)
    keyed, _ = answered(vector)
    for columns, then in zip(vector["rows"], vector["client"], strict=True):
        match then["then"]:
            case "serves":
                sequence = client._sequences[columns["name"]]
                assert sequence.left == len(then["values"]), vector["name"]
                assert [client.next(columns["name"]) for _ in then["values"]] == then["values"], vector["name"]
                assert [keyed.next_key(columns["name"]) for _ in then["keys"]] == then["keys"], vector["name"]
                held = [*sequence.leases, *client._returns]
                [back] = [lease.next for lease in held if str(lease.id) == columns["lease"]]
                assert back == then["next"], vector["name"]
            case "fails":
                assert refusal(client, columns["name"]) == columns["sqlstate"], vector["name"]
            case "waits":
                assert refusal(client, columns["name"]) is None, vector["name"]
                assert columns["name"] in client._wanted, vector["name"]
            case "sends" | "forgets":
                kept = [str(lease.id) for lease in client._returns]
                assert (columns["lease"] in kept) == (then["then"] == "sends"), vector["name"]
            case "keeps":
                assert not client._returns, vector["name"]
            case other:
                raise AssertionError(other)
