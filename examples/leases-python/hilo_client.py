"""Serves values of hilo sequences from this process's memory, as docs/clients-protocol.md says. Needs psycopg 3.

with HiloClient() as ids:
    ids.next("orders")  # from any thread
    ids.next_key("orders")
"""

from __future__ import annotations

import math
import os
import random
import re
import socket
import threading
import time
import uuid
import weakref
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg

TAKE = """
SELECT asked.name, lease, first, last, increment, count, key_format, server_prefix
  FROM unnest(%s::text[], %s::bigint[]) AS asked (name, n),
       LATERAL hilo_lease(asked.name::hilo_sequence, asked.n, %s::text, %s::interval)
"""
GIVE_BACK = "SELECT hilo_lease_return(lease, next) FROM unnest(%s::uuid[], %s::bigint[]) AS ended (lease, next)"
RENEW = "SELECT hilo_lease_renew(lease, %s::interval) FROM pg_catalog.unnest(%s::uuid[]) AS held (lease)"
REVOKE = "SELECT hilo_lease_revoke(NULL::uuid, %s::text)"


@dataclass(slots=True, eq=False)
class Lease:
    name: str
    id: uuid.UUID
    next: int
    last: int
    increment: int
    left: int
    key_format: str
    server_prefix: str

    def take(self) -> int:
        value = self.next
        self.next += self.increment
        self.left -= 1
        return value

    def key(self, value: int) -> str:
        def part(found: re.Match[str]) -> str:
            match found[0]:
                case "{{" | "}}":
                    return found[0][0]
                case "{name}":
                    return self.name
                case "{server}":
                    return self.server_prefix
                case _:
                    return f"{value:0{found[1] or 1}d}"

        return re.sub(r"\{\{|\}\}|\{name\}|\{server\}|\{value(?::0(\d+))?\}", part, self.key_format)


@dataclass(slots=True)
class Sequence:
    name: str
    size: int  # how many values were asked for last
    leases: deque[Lease] = field(default_factory=deque)
    left: int = 0
    waiting: bool = False  # somebody has found nothing here
    failures: int = 0
    failure: Exception | None = None  # the last lease was refused: the next one is taken by itself, if somebody waits
    served: int = 0  # since the last lease
    leased_at: float = field(default_factory=time.monotonic)
    rate: float = 0  # values a second, before the last lease

    def is_low(self) -> bool:
        return self.left < self.size / 2 and not self.failure

    def rate_now(self) -> float:
        return self.served / max(time.monotonic() - self.leased_at, 0.001)


class HiloClient:
    """Any thread can use it. In a forked child it begins with nothing; the child closes it for itself.

    conninfo: as for psycopg.connect. ttl: what a process that dies has held is a gap after this time. hold: how many
    seconds a lease lasts; callers notice no outage that is half as long. first, most: the least and the most values of
    a lease. timeout: how many seconds a caller waits. pace: seconds between two statements while nobody waits.
    """

    def __init__(
        self,
        conninfo: str = "",
        *,
        ttl: timedelta | None = timedelta(hours=1),
        hold: float = 120,
        first: int = 10,
        most: int = 1_000_000,
        timeout: float = 30,
        pace: float = 1,
    ) -> None:
        self._conninfo, self._ttl, self._hold, self._first, self._most = conninfo, ttl, hold, first, most
        self._timeout, self._pace = timeout, pace
        self._renew_every = ttl.total_seconds() / 3 if ttl else 60.0
        self._connection: psycopg.Connection | None = None
        self._closed = False
        self._begin()
        _clients.add(self)

    def _begin(self) -> None:
        """Begins as a new process, which holds nothing."""
        # A parent's connection is not closed here, because that would end it for the parent.
        self._inherited, self._connection = self._connection, None
        self._holder = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4()}"
        self._changed = threading.Condition()
        self._sequences: dict[str, Sequence] = {}
        self._wanted: dict[str, Sequence] = {}  # those that need a lease
        self._returns: list[Lease] = []
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None  # why the server is out of reach
        self._attempt, self._at_once = 0, 1000
        self._sent_at = self._not_before = time.monotonic()
        self._renew_at = self._sent_at + self._renew_every

    def next(self, name: str) -> int:
        """The next value. Raises psycopg.Error if a lease is refused, TimeoutError, RuntimeError after close, and what has
        failed in the background, if that is a fault of this program."""
        return self._draw(name)[1]

    def next_key(self, name: str) -> str:
        """The next value as a key, which hilo_key makes of it too. Raises the same."""
        lease, value = self._draw(name)
        return lease.key(value)

    def _draw(self, name: str) -> tuple[Lease, int]:
        with self._changed:
            sequence = self._sequences.get(name) or self._sequences.setdefault(name, Sequence(name, self._first))
            if not sequence.leases:
                self._wait(sequence)
            lease = sequence.leases[0]
            value = lease.take()
            if not lease.left:
                self._returns.append(sequence.leases.popleft())
            sequence.left -= 1
            sequence.served += 1
            if sequence.is_low():
                self._want(sequence)
            return lease, value

    def _wait(self, sequence: Sequence) -> None:
        """Waits until the sequence has a value."""
        failures, deadline = sequence.failures, time.monotonic() + self._timeout
        while not sequence.leases:
            if self._closed:
                raise RuntimeError("the client is closed")
            if sequence.failure and sequence.failures > failures:
                raise sequence.failure
            if (left := deadline - time.monotonic()) <= 0:
                raise TimeoutError(f"no value of {sequence.name} within {self._timeout} s") from self._error
            if not sequence.waiting:
                sequence.waiting = True
                self._want(sequence)
                self._changed.notify_all()
            self._changed.wait(left)

    def _begin_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="hilo", daemon=True)
            self._thread.start()

    def _want(self, sequence: Sequence) -> None:
        self._begin_thread()
        if sequence.name not in self._wanted:
            self._wanted[sequence.name] = sequence
            self._changed.notify_all()

    def close(self) -> None:
        """Returns what is left. Raises TimeoutError if the server is out of reach: then the leases end by their ttl."""
        with self._changed:
            self._closed = True
            for sequence in self._sequences.values():
                self._returns += sequence.leases
                sequence.leases.clear()
            self._wanted.clear()
            self._not_before = 0
            self._changed.notify_all()
            if self._returns or self._error:
                self._begin_thread()
            thread, self._thread = self._thread, None
        if thread:
            thread.join()
            if self._error:
                raise TimeoutError(f"could not return the leases of {self._holder}") from self._error

    def __enter__(self) -> HiloClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The rest runs in the background thread, and only it uses the connection.

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # a fault of this program: those who wait hear of it, and the next one begins again
            self._back_off(error)
            with self._changed:
                self._thread = None
                self._refuse(list(self._wanted.values()), error)

    def _work(self) -> None:
        deadline = math.inf
        while True:
            with self._changed:
                while not self._closed and (pause := self._due() - time.monotonic()) > 0:
                    self._changed.wait(pause)
                closing, returns = self._closed, list(self._returns)
                asked = [(sequence, self._size(sequence)) for sequence in self._wanted.values()]
                asked = asked[: self._at_once]
            if closing:
                deadline = min(deadline, time.monotonic() + self._timeout)
            self._sent_at = time.monotonic()
            try:
                self._connect()
                self._exchange(returns, asked)
                if closing:
                    self._execute((REVOKE, [self._holder]))  # those of which it never learned
                elif self._sent_at >= self._renew_at:
                    self._renew()
                self._attempt, self._error, self._at_once = 0, None, min(1000, 2 * self._at_once)
            except psycopg.Error as error:
                self._back_off(error)
            if closing and (not self._error or time.monotonic() > deadline):
                if self._connection:
                    self._connection.close()
                return
            if closing:
                time.sleep(max(0, self._not_before - time.monotonic()))

    def _due(self) -> float:
        """When to send something."""
        if any(sequence.waiting for sequence in self._wanted.values()):
            at = self._sent_at
        else:
            at = self._sent_at + self._pace if self._wanted else self._renew_at
        return max(min(at, self._renew_at), self._not_before)

    def _size(self, sequence: Sequence) -> int:
        rate = max(sequence.rate, sequence.rate_now())
        return max(self._first, min(int(rate * self._hold), 2 * sequence.size, self._most))

    def _back_off(self, error: Exception) -> None:
        """Exponential backoff with full jitter. What has been sent may have been committed, or not."""
        if self._connection:
            self._connection.close()
        self._error = error
        self._not_before = time.monotonic() + random.uniform(0, min(5, 0.05 * 2**self._attempt))
        self._attempt = min(self._attempt + 1, 10)

    def _exchange(self, returns: list[Lease], asked: list[tuple[Sequence, int]]) -> None:
        """Does all, in one transaction if it may. Raises if the server is out of reach, or has no room for so much."""
        self._try(returns, [(sequence, size) for sequence, size in asked if not sequence.failure])
        for sequence, size in asked:
            if sequence.failure:
                self._try([], [(sequence, size)])

    def _try(self, returns: list[Lease], asked: list[tuple[Sequence, int]]) -> None:
        """Does all in one transaction; if the server refuses that, in halves, until what it refuses is found."""
        try:
            self._commit(returns, asked)
        except psycopg.Error as error:
            at_once, self._at_once = self._at_once, max(1, len(asked) // 2)  # it may have been too much
            self._raise_if_lost(error)
            if (str(error.sqlstate).startswith("53") or error.sqlstate in ("54000", "57014")) and len(asked) > 1:
                raise
            self._at_once = at_once
            if returns and asked:
                self._try(returns, [])
                self._try([], asked)
            elif len(returns) + len(asked) > 1:
                half = (len(returns) + len(asked)) // 2
                self._try(returns[:half], asked[:half])
                self._try(returns[half:], asked[half:])
            elif returns:
                if error.sqlstate != "55P03":  # somebody holds it: it is sent again
                    self._forget(returns)  # it has ended
            else:
                self._refuse([asked[0][0]], error)

    def _refuse(self, sequences: list[Sequence], error: Exception) -> None:
        """Tells those who wait."""
        with self._changed:
            for sequence in sequences:
                sequence.failure, sequence.failures, sequence.waiting = error, sequence.failures + 1, False
                self._wanted.pop(sequence.name, None)
            self._changed.notify_all()

    def _commit(self, returns: list[Lease], asked: list[tuple[Sequence, int]]) -> None:
        statements = []
        if returns:
            statements.append((GIVE_BACK, [[lease.id for lease in returns], [lease.next for lease in returns]]))
        if asked:
            names, sizes = [sequence.name for sequence, _ in asked], [size for _, size in asked]
            statements.append((TAKE, [names, sizes, self._holder, self._ttl]))
        rows = self._execute(*statements)
        # It is committed. If anything fails before this line, nothing of it is served.
        leases = {row[0]: Lease(*row) for row in rows} if asked else {}
        if asked and (leases.keys() != set(names) or len({lease.id for lease in leases.values()}) < len(rows)):
            raise ValueError("the server has not leased what it was asked for")
        self._forget(returns)
        with self._changed:
            for sequence, size in asked:
                sequence.rate, sequence.served, sequence.leased_at = sequence.rate_now(), 0, time.monotonic()
                sequence.size, sequence.failure, sequence.waiting = size, None, False
                self._add(sequence, leases[sequence.name])
            self._changed.notify_all()

    def _add(self, sequence: Sequence, lease: Lease) -> None:
        if self._closed:
            self._returns.append(lease)
            return
        sequence.leases.append(lease)
        sequence.left += lease.left
        if not sequence.is_low():
            self._wanted.pop(sequence.name, None)

    def _forget(self, returns: list[Lease]) -> None:
        with self._changed:
            self._returns = [lease for lease in self._returns if lease not in returns]

    def _renew(self) -> None:
        with self._changed:
            held = [lease.id for sequence in self._sequences.values() for lease in sequence.leases]
        if held and self._ttl:
            try:
                self._execute((RENEW, [self._ttl, held]))
            except psycopg.Error as error:
                self._raise_if_lost(error)
                for lease in held:
                    try:
                        self._execute((RENEW, [self._ttl, [lease]]))
                    except psycopg.Error as error:
                        self._raise_if_lost(error)  # else it has ended, and is served on
        self._renew_at = time.monotonic() + self._renew_every

    def _connect(self) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._conninfo, autocommit=True, connect_timeout=10, target_session_attrs="read-write"
            )

    def _execute(self, *statements: tuple[str, list[object]]) -> list[tuple[Any, ...]]:
        """Runs statements in one transaction, and returns the rows of the last one once it has committed."""
        if not statements:
            return []
        with self._connection.transaction():
            for statement, arguments in statements:
                rows = self._connection.execute(statement, arguments).fetchall()
        return rows

    def _raise_if_lost(self, error: psycopg.Error) -> None:
        """Raises the error unless the server has refused something, and would answer the next statement."""
        if self._connection is None or self._connection.closed or error.sqlstate == "25006":
            raise error


_clients: weakref.WeakSet[HiloClient] = weakref.WeakSet()


def _begin_in_child() -> None:
    for client in list(_clients):
        client._begin()


os.register_at_fork(after_in_child=_begin_in_child)
