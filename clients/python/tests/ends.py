"""Ends processes as gunicorn, uvicorn and Celery end them: the next one goes on with the next value, and nothing is left
behind. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

    python3 ends.py
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

HERE = Path(__file__).parent
folder = Path(tempfile.mkdtemp())
os.environ["TASKS"] = str(folder)


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@contextlib.contextmanager
def running(program: str, *arguments: str) -> Iterator[None]:
    """A server with its processes, which is told to end after the block."""
    command = [sys.executable, "-m", program, *arguments]
    server = subprocess.Popen(command, cwd=HERE, env=os.environ | {"SEQUENCE": program})
    try:
        yield
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    finally:
        server.kill()


class Site:
    """A web server: the values that it has answered, and its process that was the last to answer."""

    def __init__(self, name: str) -> None:
        self.path, self.values, self.process = str(folder / name), [], 0

    def get(self) -> None:
        wait_until("there is an answer", self.is_answered)

    def is_answered(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            if connection.connect_ex(self.path):
                return False
            # A server that ends closes connections of which it has read nothing.
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                if answer := b"".join(iter(lambda: connection.recv(1000), b"")):
                    value, self.process = map(int, answer.split(b"\r\n\r\n")[1].split())
                    self.values.append(value)
                    return True
        return False


def gunicorn() -> list[int]:
    """Three workers one after the other, of three requests at most."""
    site = Site("gunicorn")
    with running("gunicorn", "--bind", f"unix:{site.path}", "--max-requests", "3", "--log-level", "warning", "--no-control-socket", "hosted:wsgi"):
        for _ in range(8):
            site.get()
    return site.values


def uvicorn() -> list[int]:
    """One that is stopped, and one that reloads before that."""
    stopped, site, changed = Site("stopped"), Site("reloaded"), folder / "watched" / "changed.py"
    common = ["hosted:asgi", "--log-level", "warning", "--uds"]
    with running("uvicorn", *common, stopped.path):
        stopped.get()
        stopped.get()
    changed.parent.mkdir()
    changed.touch()
    reload = ["--reload", "--reload-dir", str(changed.parent), "--reload-delay", "0.1"]
    with running("uvicorn", *common, site.path, *reload):
        site.get()
        first = site.process

        def is_reloaded() -> bool:
            os.utime(changed)
            site.get()
            return site.process != first

        wait_until("it reloads", is_reloaded)
    return stopped.values + site.values


def celery() -> list[int]:
    """A process of the pool that has had its tasks, and one that ends with its worker."""
    from tasks import draw, messages

    Path(messages).mkdir()
    drawn = folder / "drawn"
    drawn.touch()
    options = ["--concurrency", "1", "--max-tasks-per-child", "3", "--loglevel", "warning"]
    with running("celery", "--app", "tasks", "worker", *options, "--without-gossip", "--without-mingle"):
        for _ in range(3):
            draw.delay()
        wait_until("the first process has returned its lease", lambda: is_back("celery", 4))
        for _ in range(2):
            draw.delay()
        wait_until("the tasks are done", lambda: drawn.read_text().count("\n") == 5)
    return list(map(int, drawn.read_text().split()))


def is_back(name: str, first: int) -> bool:
    """Whether the server has taken up what came back, from this value on."""
    with psycopg.connect() as connection:
        back = "SELECT count(*) = 1 FROM hilo_blocks WHERE name = %s AND tier = 'returned' AND first = %s"
        return connection.execute(back, [name, first]).fetchone() == (True,)


def left(name: str) -> list[tuple[object, ...]]:
    with psycopg.connect() as connection:
        open_leases = "SELECT holder, first, last FROM hilo_leases WHERE name = %(name)s"
        gaps = "SELECT reason, first, last FROM hilo_gaps WHERE name = %(name)s"
        return connection.execute(f"{open_leases} UNION ALL {gaps}", {"name": name}).fetchall()


with ThreadPoolExecutor() as servers:
    ended = {one: servers.submit(one) for one in (gunicorn, uvicorn, celery)}
for one, values in ended.items():
    name = one.__name__
    assert sorted(values.result()) == list(range(1, len(values.result()) + 1)), (name, values.result())
    assert not left(name), (name, left(name))
    print(f"{name}: 1 to {len(values.result())}")
