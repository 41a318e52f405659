"""What the client makes of its state file when something goes wrong. Needs no server.

    python3 state.py
"""

import contextlib
import dataclasses
import gc
import math
import os
import resource
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
from hilo_client import HiloClient, store
from hilo_client.client import REVOKE, WHICH_SERVER, close_all
from hilo_client.lease import Lease
from hilo_client.store import Place, Store

ENDED = (None,) * 6 + ("42704", "it is not open", None, None)
UNKNOWN = (None,) * 6 + ("42704", "there is no such sequence", None, None)
LOCKED = (None,) * 6 + ("55P03", "somebody holds it", None, None)
HOUR = timedelta(hours=1)


class Server:
    """What hilo does with leases, as far as these tests need it."""

    def __init__(self) -> None:
        self.is_up = True
        self.stalls = False
        self.stalled = threading.Event()  # a statement has met that
        self.locked: set[str] = set()  # the kinds of rows that are refused for the moment
        self.faults: list[str] = []  # of the next statements that ask for leases: "lost", "locked"
        self.unknown: set[str] = set()  # sequences
        self.statements = 0
        self.revoked: list[uuid.UUID] = []
        self.next: dict[str, int] = {}
        self.free: dict[str, list[int]] = {}
        self.leases: dict[uuid.UUID, tuple[str, int, int, str]] = {}

    def draw(self, name: str) -> int:
        """As hilo_nextval, in another session."""
        if self.free.get(name):
            return self.free[name].pop(0)
        value = self.next.get(name, 1)
        self.next[name] = value + 1
        return value

    def refill(self, arguments: list[Any], locked: set[str]) -> Iterator[tuple[Any, ...]]:
        returned, nexts, renewed, names, sizes, tokens, holder, _ = arguments
        for token, next in zip(returned, nexts, strict=True):
            if "returned" in locked:
                yield ("returned", None, token, *LOCKED)
            elif token in self.leases:
                name, _, last, _ = self.leases.pop(token)
                self.free.setdefault(name, []).extend(range(next, last + 1))
                yield ("returned", None, token, None, None, None, last - next + 1, *(None,) * 6)
            else:
                yield ("returned", None, token, *ENDED)
        for token in renewed:
            row = LOCKED if "renewed" in locked else (None,) * 10 if token in self.leases else ENDED
            yield ("renewed", None, token, *row)
        for name, size, token in zip(names, sizes, tokens, strict=True):
            if "leased" in locked or name in self.unknown:
                yield ("leased", name, token, *(UNKNOWN if name in self.unknown else LOCKED))
                continue
            if token not in self.leases:
                first = self.next.get(name, 1)
                self.next[name] = first + size
                self.leases[token] = (name, first, first + size - 1, holder)
            _, first, last, _ = self.leases[token]
            yield ("leased", name, token, first, last, 1, last - first + 1, "{value}", "", *(None,) * 4)

    def connect(self) -> Any:
        return Connection(self)


class Connection:
    closed, autocommit, prepare_threshold = False, False, 5

    def __init__(self, server: Server) -> None:
        self.server, self.rows = server, []
        self.ends = socket.socketpair()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    close = __exit__

    def fileno(self) -> int:
        return self.ends[0].fileno()

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.rows

    def execute(self, statement: str, arguments: list[Any]) -> "Connection":
        server = self.server
        if server.stalls:
            server.stalled.set()
            self.ends[0].recv(1)  # until the client cuts the connection
            server.stalls = False
            self.closed = True
        if self.closed or not server.is_up:
            raise psycopg.OperationalError("the server is out of reach")
        if statement == WHICH_SERVER:
            self.rows = [(7, 5)]
        elif statement == REVOKE:
            server.revoked += [token for token, lease in server.leases.items() if lease[3] == arguments[0]]
            server.leases = {token: lease for token, lease in server.leases.items() if lease[3] != arguments[0]}
            self.rows = []
        else:
            self.refill(arguments)
        return self

    def refill(self, arguments: list[Any]) -> None:
        server, names = self.server, arguments[3]
        server.statements += 1
        fault = server.faults.pop(0) if names and server.faults else ""
        self.rows = list(server.refill(arguments, {"leased"} if fault == "locked" else server.locked))
        if fault == "lost":
            self.closed = True
            raise psycopg.OperationalError("the answer is lost")


def client(server: Server, path: str | None, **options: Any) -> HiloClient:
    return HiloClient(connect=server.connect, state=path, first=100, pace=0.01, hold=0.001, **options)


def close_in_vain(ids: HiloClient) -> None:
    ids._timeout = 0.1
    with contextlib.suppress(TimeoutError):
        ids.close()
        raise AssertionError("it cannot return its leases")


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def draw(ids: HiloClient, name: str, count: int) -> list[tuple[str, int]]:
    return [(name, ids.next(name)) for _ in range(count)]


def assert_served_once(server: Server, served: list[tuple[str, int]]) -> None:
    """Neither by clients, nor by a session that draws now."""
    others = [(name, server.draw(name)) for name in ("orders", "parcels") for _ in range(300)]
    twice = [value for value in served + others if (served + others).count(value) > 1]
    assert not twice, twice


def one_that_could_not_close_returns_nothing_more(path: str) -> None:
    server = Server()
    first = client(server, path)
    served = draw(first, "orders", 40) + draw(first, "parcels", 40)
    server.is_up, first._at_once = False, 1
    close_in_vain(first)
    server.is_up = True
    second = client(server, path)
    served += draw(second, "orders", 20) + draw(second, "parcels", 20)
    first.close()
    close_all()  # as the exit does: of the second one too
    assert not server.leases
    assert_served_once(server, served)


def one_whose_thread_is_late_returns_and_revokes_nothing(path: str) -> None:
    server, go_on = Server(), threading.Event()
    first = client(server, path)
    served = draw(first, "parcels", 40) + draw(first, "orders", 40)
    server.stalls = True
    served += draw(first, "orders", 20)
    assert server.stalled.wait(10)
    thread, exchange = first._thread, first._exchange

    def late_exchange(*arguments: Any) -> None:
        go_on.wait(10)
        exchange(*arguments)

    first._exchange = late_exchange  # type: ignore[method-assign]
    close_in_vain(first)
    second = client(server, path)
    served += draw(second, "parcels", 20)
    before = dict(server.leases)
    go_on.set()
    assert thread
    thread.join(10)
    assert not thread.is_alive() and server.leases == before
    served += draw(second, "parcels", 10)
    second.close()
    assert_served_once(server, served)


def a_close_that_cannot_return_all_fails_and_passes_the_file_on(path: str) -> None:
    for state in (path, None):
        server = Server()
        ids = client(server, state)
        served = draw(ids, "orders", 40)
        server.locked, before = {"returned"}, server.statements
        with mock.patch("random.uniform", lambda _, most: most):
            close_in_vain(ids)
        # It pauses between two, longer and longer.
        assert server.statements - before < 10, server.statements
        server.locked = set()
        if state:
            ids = client(server, state)
        ids.close()
        assert not server.leases and not server.revoked
        assert_served_once(server, served)
        assert server.next["orders"] == 341, "the rest is served again"


def a_lease_that_may_have_been_taken_is_asked_for_by_the_same_name(path: str) -> None:
    for state in (path, None):
        server = Server()
        server.faults = ["lost", "locked"]
        ids = client(server, state)
        served = draw(ids, "orders", 40)
        ids.close()
        assert not server.faults and not server.leases and not server.revoked
        assert [value for _, value in served] == list(range(1, 41))


def one_without_a_ttl_renews_what_expires_until_it_can(path: str) -> None:
    server = Server()
    first = client(server, path)
    draw(first, "orders", 10)
    first._release(False)  # as a kill does
    server.locked = {"renewed"}
    second = client(server, path, ttl=None)
    draw(second, "orders", 1)
    wait_until("it is refused for the moment", lambda: second._renew_at > time.monotonic())
    assert second._renew_at < math.inf
    second.close()


def one_whose_sequence_was_renamed_returns_its_leases(path: str) -> None:
    server = Server()
    first = client(server, path)
    draw(first, "orders", 10)
    first._release(False)  # as a kill does
    server.unknown.add("orders")
    second = client(server, path)
    with contextlib.suppress(psycopg.errors.UndefinedObject):
        raise AssertionError(second.next("orders"))
    wait_until("it is returned", lambda: not server.leases)
    second.close()
    assert not server.revoked and server.draw("orders") == 11


@contextlib.contextmanager
def on_a_full_disk(path: str) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def a_full_disk_is_an_error_of_what_has_no_room(path: str) -> None:
    server, names, refused = Server(), [f"parcels {number}" for number in range(130)], []
    ids = client(server, path)
    served = draw(ids, "orders", 40)

    def try_to_draw(name: str) -> None:
        try:
            served.append((name, ids.next(name)))
        except OSError as error:
            assert error.filename == path, error
            refused.append(name)

    with on_a_full_disk(path):
        for name in names:
            try_to_draw(name)
        assert 0 < len(refused) < 10, refused
        # The others go on: what was used up and returned makes room.
        while ("orders", 140) not in served:
            try_to_draw("orders")
    for name in set(refused) - {"orders"}:
        served += draw(ids, name, 1)
    ids.close()
    assert not server.leases
    assert sorted(served) == [("orders", value) for value in range(1, 141)] + [(name, 1) for name in sorted(names)]
    assert_served_once(server, served)


def a_file_with_holes_gets_its_room_when_it_is_opened(path: str) -> None:
    opened, _ = new_store(path, None)
    opened.drop()
    content = Path(path).read_bytes()
    with open(path, "r+b") as file:
        file.truncate(0)
        file.write(content[: store.SLOT])
        file.truncate(2 * store.CHUNK)
    opened = Store(path, "test", None)
    assert os.stat(path).st_blocks * 512 >= 2 * store.CHUNK
    opened.drop()


def a_place_where_nothing_can_be_written_is_an_error(_: str) -> None:
    try:
        Store("/proc/hilo-state", "test", None)
        raise AssertionError("it has written to /sys")
    except OSError as error:
        assert error.filename == "/proc/hilo-state", error


TOKEN = uuid.UUID(int=7)


def lease(opened: Store, count: int) -> Lease:
    """The lease of the values from 1 to this one."""
    record, left, _ = opened.hold(TOKEN, count, 1, count, HOUR)
    return Lease("orders", TOKEN, count - left + 1, count, 1, left, "", "", record)


def new_store(path: str, sync_every: int | None) -> tuple[Store, Lease]:
    opened = Store(path, "test", sync_every)
    opened.write_ask(TOKEN, "orders", 100)
    return opened, lease(opened, 100)


def left(path: str, sync_every: int | None = None) -> list[int | None]:
    opened = Store(path, "test", sync_every)
    opened.drop()
    return [one.left for one in opened.left]


@contextlib.contextmanager
def after_a_crash_of_the_machine() -> Iterator[None]:
    of = Place.of
    with mock.patch.object(Place, "of", lambda number: dataclasses.replace(of(number), boot=b"another start 16")):
        yield


def a_file_that_is_put_in_the_place_of_another_is_a_copy(path: str) -> None:
    opened, taken = new_store(path, None)
    taken.take(20)
    shutil.copy(path, path + ".bak")
    taken.take(30)
    opened.drop()
    assert left(path) == [50]
    os.remove(path)
    shutil.copy(path + ".bak", path)  # it may get the same inode
    assert left(path) == []


def a_file_whose_birth_is_not_known_is_a_copy(path: str) -> None:
    with mock.patch.object(store, "_birth", lambda _: 0):
        opened, _ = new_store(path, None)
        opened.drop()
        assert left(path) == []


def a_floor_ends_where_nobody_keeps_it(path: str) -> None:
    opened, taken = new_store(path, 10)
    taken.take(5)
    opened.drop()
    opened = Store(path, "test", None)
    assert lease(opened, 100).take(95).last == 100
    opened.drop()
    with after_a_crash_of_the_machine():
        assert left(path, 10) == []


def a_lease_that_has_come_outlives_a_crash_of_the_machine(path: str) -> None:
    disk = b""

    def write_to_the_disk(_: int) -> None:
        nonlocal disk
        disk = Path(path).read_bytes()

    with mock.patch("os.fdatasync", write_to_the_disk):
        ids = client(Server(), path, sync_every=10)
        draw(ids, "orders", 51)

        def has_two() -> bool:
            with ids._changed:
                return len(ids._sequences["orders"].leases) == 2

        wait_until("the next lease has come", has_two)
        ids._release(False)
    Path(path).write_bytes(disk)
    with after_a_crash_of_the_machine():
        assert left(path, 10) == [100, 45]


def a_store_that_nobody_has_any_more_lets_its_file_go(path: str) -> None:
    opened, taken = new_store(path, None)
    taken.take(20)
    del opened, taken
    gc.collect()
    assert left(path) == [80]


def nothing_is_served_before_it_is_on_the_disk(path: str) -> None:
    opened, taken = new_store(path, 10)
    taken.take(11)
    served = taken.take(9)
    with mock.patch.object(opened, "sync", side_effect=OSError("the disk fails")) as sync:
        for tries in range(1, 4):
            with contextlib.suppress(OSError):
                taken.take(2)
                raise AssertionError("the disk fails")
            assert sync.call_count == tries and taken.next == served.last + 1
    taken.take(2)
    opened.drop()
    with after_a_crash_of_the_machine():
        assert left(path, 10) == [100 - 22 - 10]


def no_more_is_left_than_the_lease_has(path: str) -> None:
    opened, taken = new_store(path, None)
    assert taken.record
    taken.record.words[store.LEFT] = 101
    opened.drop()
    assert left(path) == [100]


def what_was_in_use_is_asked_for_first(path: str) -> None:
    opened, _ = new_store(path, None)
    for number in (1, 2, 3):
        token = uuid.UUID(int=number)
        opened.write_ask(token, "orders", 100)
        record, *_ = opened.hold(token, 100 * number + 100, 1, 100, HOUR)
        assert record
        if number == 2:
            record.take(60)
    opened.drop()
    assert left(path)[-1] == 60


def a_file_that_others_can_write_or_put_there_is_refused(path: str) -> None:
    def is_refused(path: str) -> bool:
        try:
            return not left(path)
        except OSError:
            return True

    new_store(path, None)[0].drop()
    assert not is_refused(path)
    os.symlink(path, path + ".link")
    assert is_refused(path + ".link")
    os.chmod(path, 0o620)
    assert is_refused(path)
    for sync_every in (0, -5):
        with contextlib.suppress(ValueError):
            Store(path, "test", sync_every)
            raise AssertionError(sync_every)


for test in (
    one_that_could_not_close_returns_nothing_more,
    one_whose_thread_is_late_returns_and_revokes_nothing,
    a_close_that_cannot_return_all_fails_and_passes_the_file_on,
    a_lease_that_may_have_been_taken_is_asked_for_by_the_same_name,
    one_without_a_ttl_renews_what_expires_until_it_can,
    one_whose_sequence_was_renamed_returns_its_leases,
    a_full_disk_is_an_error_of_what_has_no_room,
    a_file_with_holes_gets_its_room_when_it_is_opened,
    a_place_where_nothing_can_be_written_is_an_error,
    a_file_that_is_put_in_the_place_of_another_is_a_copy,
    a_file_whose_birth_is_not_known_is_a_copy,
    a_floor_ends_where_nobody_keeps_it,
    a_lease_that_has_come_outlives_a_crash_of_the_machine,
    a_store_that_nobody_has_any_more_lets_its_file_go,
    nothing_is_served_before_it_is_on_the_disk,
    no_more_is_left_than_the_lease_has,
    what_was_in_use_is_asked_for_first,
    a_file_that_others_can_write_or_put_there_is_refused,
):
    print(test.__name__, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        test(str(Path(folder) / "state"))
