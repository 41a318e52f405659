"""Does what the scenes ask of a client: clients/scenes/README.md.

    python3 drive.py seconds-a-caller-waits seconds-a-statement-takes

STATE in the environment names a state file.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
from hilo_client import HiloClient

wait, limit = map(float, sys.argv[1:])
ids = HiloClient(
    **{"first": 10, "most": 10, "hold": 1, "pace": 0.05, "ttl": timedelta(minutes=10)},
    **{"timeout": wait, "statement_timeout": limit, "connect_timeout": 2, "state": os.environ.get("STATE")},
)


def drawn(name: str) -> str:
    try:
        return f"value {ids.next(name)}"
    except Exception as error:
        return failed(error)


def failed(error: Exception) -> str:
    match error:
        case psycopg.Error(sqlstate=str(sqlstate)):
            kind = sqlstate
        case TimeoutError():
            kind = "timeout"
        case RuntimeError():
            kind = "closed"
        case OSError():
            kind = "state"
        case _:
            kind = type(error).__name__
    return f"error {kind} " + str(error).replace("\n", " ")


def closed() -> str:
    try:
        ids.close()
        return "closed"
    except Exception as error:
        return failed(error)


def forked(name: str) -> str:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, drawn(name).encode())
        ids.close()
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(reading, 1000).decode()


def raced(name: str) -> str:
    """The values that threads draw while the client closes."""

    def draw() -> list[str]:
        values = []
        while (answer := drawn(name)).startswith("value"):
            values.append(answer.split()[1])
        return values

    with ThreadPoolExecutor(4) as threads:
        drawing = [threads.submit(draw) for _ in range(4)]
        threading.Event().wait(0.1)
        closed()
        return "values " + " ".join(value for values in drawing for value in values.result())


for line in sys.stdin:
    match line.rstrip("\n").split(" ", 1):
        case ["next", name]:
            print(drawn(name), flush=True)
        case ["close"]:
            print(closed(), flush=True)
        case ["fork", name]:
            print(forked(name), flush=True)
        case ["race", name]:
            print(raced(name), flush=True)
os._exit(0)
