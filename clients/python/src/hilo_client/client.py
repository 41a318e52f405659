"""The client: callers take values from memory, and one thread talks to the server (clients/protocol.md)."""

from __future__ import annotations

import atexit
import logging
import math
import os
import random
import signal
import socket
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from multiprocessing.util import Finalize, register_after_fork
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hilo_client.fork import mark
from hilo_client.lease import IdRange, Lease, Sequence, to_return
from hilo_client.limit import TimeLimit
from hilo_client.store import Store, other_name

REFILL = """
SELECT kind, name, lease, first, last, increment, count, key_format, server_prefix, sqlstate, message, detail, hint
  FROM hilo_refill(%s::uuid[], %s::bigint[], %s::uuid[], %s::text[], %s::bigint[], %s::uuid[], %s::text, %s::interval)
"""
WHICH_SERVER = """
SELECT c.system_identifier, d.oid::bigint
  FROM pg_catalog.pg_control_system() c, pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
"""
REVOKE = "SELECT hilo_lease_revoke(NULL::uuid, %s::text)"

CONNECT_TIMEOUT = 10  # seconds

# Refused for the moment: it is sent again.
TRANSIENT = ("40001", "40P01", "54000", "55P03", "57014")


def is_transient(sqlstate: str | None) -> bool:
    return sqlstate in TRANSIENT or str(sqlstate).startswith("53")


def refusal(sqlstate: str, message: str, detail: str | None, hint: str | None) -> psycopg.Error:
    """The error that the server has told of one row."""
    try:
        kind: type[psycopg.Error] = psycopg.errors.lookup(sqlstate)
    except KeyError:
        kind = type("Refused", (psycopg.DatabaseError,), {"sqlstate": sqlstate})
    lines = [message, *(f"{what}:  {text}" for what, text in [("DETAIL", detail), ("HINT", hint)] if text)]
    return kind("\n".join(lines))


class HiloClient:
    """Any thread can use it. In a forked child it begins with nothing; the child closes it for itself.

    conninfo, and arguments that are not named here: as for psycopg.connect. connect: makes a connection of psycopg instead,
    for those whose passwords change, or lends one, as `pool.connection` of psycopg_pool. ttl: what a process that dies has held is a gap after this time.
    hold: how many seconds a lease lasts; callers notice no outage that is half as long. first, most: the least and the most
    values of a lease. timeout: how many seconds a caller waits, and close(). pace: seconds between two statements while
    nobody waits. statement_timeout: the connection is given up if a statement takes so many seconds. idle: how many
    seconds a connection stays open without a statement. state: a file that keeps the leases, for this process alone: if it is
    killed and starts again, it goes on with them. sync_every: after a crash of the machine too, and at most so many values
    of each are lost. A forked child has no file.
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
        statement_timeout: float = 10,
        idle: float = math.inf,
        connect: Callable[[], AbstractContextManager[psycopg.Connection[Any]]] | None = None,
        state: str | os.PathLike[str] | None = None,
        sync_every: int | None = None,
        **connection: Any,
    ) -> None:
        defaults: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT, "target_session_attrs": "read-write"}
        self._connect = connect or (lambda: psycopg.connect(**(defaults | conninfo_to_dict(conninfo) | connection)))
        self._ttl, self._hold, self._first, self._most = ttl, hold, first, most
        self._timeout, self._pace, self._statement_timeout, self._idle = timeout, pace, statement_timeout, idle
        self._ends_at_sigterm = False
        self._renew_every = ttl.total_seconds() / 3 if ttl else math.inf
        self._connection: psycopg.Connection[Any] | None = None
        self._lender: AbstractContextManager[psycopg.Connection[Any]] | None = None
        self._inherited: list[object] = []
        self._closed = False
        self._sequences: dict[str, Sequence] = {}
        self._store: Store | None = None
        self._begin()
        if state is not None:
            self._resume(Store(os.fspath(state), self._holder, sync_every))
        _clients.add(self)
        _close_with_celery()

    def _begin(self) -> None:
        """Begins as a new process, which holds nothing. Of what a caller has found already, nothing is left either."""
        for sequence in self._sequences.values():
            sequence.ready.clear()
        if self._store:
            self._store.drop()
            self._store = None
        self._has_passed_on = False  # the leases, with the file
        # A parent's connection is not closed here, because that would end it for the parent.
        self._inherited += [self._connection, self._lender]
        self._connection = None
        self._limit = TimeLimit(self._statement_timeout)
        self._holder = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4()}"
        self._changed = threading.Condition()
        self._listeners: list[Callable[[], None]] = []  # of callers who do not block
        self._sequences = {}
        self._ready: dict[str, Callable[[], int]] = {}  # take a value without the lock
        self._wanted: dict[str, Sequence] = {}  # those that need a lease
        self._returns: list[Lease] = []
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None  # why the server is out of reach
        self._held_up: Exception | None = None  # why it has not taken all that the last statement returned
        self._attempt, self._at_once = 0, 1000
        self._sent_at = self._not_before = time.monotonic()
        self._renew_at = self._sent_at + self._renew_every
        self._here = mark()  # the last thing that is new: with it, all above is this process's

    def _begin_if_forked(self) -> None:
        """For a child that was forked in C, as uWSGI's workers are."""
        if not self._here[0]:
            # A lock of the parent may have been locked at the fork.
            with _beginning.setdefault(os.getpid(), threading.Lock()):
                if not self._here[0]:
                    self._begin()

    def _resume(self, store: Store) -> None:
        """Goes on with what is in a state file."""
        self._store, self._holder = store, store.holder
        with self._changed:
            for left in store.left:
                if left.next is None:
                    sequence = self._sequence(left.name)
                    sequence.resumed.append((left.token, left.size))
                    self._want(sequence)
                else:
                    self._returns.append(to_return(left.name, left.token, left.next))

    def next(self, name: str) -> int:
        """The next value. Raises psycopg.Error if a lease is refused, TimeoutError, RuntimeError after close, and what has
        failed in the background, if that is a fault of this program."""
        here = self._here
        try:
            value = self._ready[name]()
            if here[0]:
                return value
        except (KeyError, IndexError):
            pass
        return self._draw(name, 1)[1].first

    def next_range(self, name: str, n: int) -> IdRange:
        """The next n consecutive values. Raises the same."""
        return self._draw(name, n)[1]

    def next_key(self, name: str) -> str:
        """The next value as a key, which hilo_key makes of it too. Raises the same."""
        lease, taken = self._draw(name, 1)
        return lease.key(taken.first)

    def _draw(self, name: str, n: int) -> tuple[Lease, IdRange]:
        self._begin_if_forked()
        with self._changed:
            failures = self._failures(name)
            deadline = time.monotonic() + self._timeout
            while not (drawn := self._try_draw(name, n, failures)):
                if (left := deadline - time.monotonic()) <= 0:
                    raise self._too_late(name)
                self._changed.wait(left)
            return drawn

    # These need the lock.

    def _sequence(self, name: str) -> Sequence:
        if known := self._sequences.get(name):
            return known
        # One that cannot be sent would fail the statement, and so all others in it.
        if not isinstance(name, str) or "\0" in name:
            raise ValueError(f"no name of a sequence: {name!r}")
        name.encode()  # a lone surrogate raises UnicodeEncodeError, which is a ValueError
        sequence = self._sequences[name] = Sequence(name, self._first)
        self._ready[name] = sequence.ready.popleft
        return sequence

    def _failures(self, name: str) -> int:
        return self._sequence(name).failures

    def _too_late(self, name: str) -> TimeoutError:
        error = TimeoutError(f"no value of {name} within {self._timeout} s")
        error.__cause__ = self._error or self._sequence(name).trouble
        return error

    def _try_draw(self, name: str, n: int, failures: int) -> tuple[Lease, IdRange] | None:
        """Takes n values if they are there, and else has them fetched. failures: how many there were when the caller came."""
        if not 1 <= n <= 1_000_000_000:
            raise ValueError(f"number of values must be from 1 to 1000000000: {n}")
        sequence = self._sequence(name)
        if not (drawn := sequence.take(n)):
            if self._closed:
                raise RuntimeError("the client is closed")
            if sequence.failure and sequence.failures > failures:
                raise sequence.failure
            sequence.range = max(sequence.range, n)
            if not sequence.waiting:
                sequence.waiting = True
                self._want(sequence)
                self._tell()
            return None
        self._returns += sequence.used_up()
        if sequence.is_low():
            self._want(sequence)
        if n == 1:
            sequence.make_ready()
        return drawn

    def _tell(self) -> None:
        """Wakes all who wait for a change."""
        self._changed.notify_all()
        for listener in tuple(self._listeners):
            listener()

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
        """Returns what is left. Raises TimeoutError if the server is out of reach, or somebody holds a lease: then those that
        are left end by their ttl, or who has the state file next returns them.

        At the exit of the interpreter, clients that are still open are closed.
        """
        self._begin_if_forked()
        with self._changed:
            self._closed = True
            if self._has_passed_on:
                return
            unsure = any(sequence.asked for sequence in self._sequences.values())
            for sequence in self._sequences.values():
                sequence.take_back()
                self._returns += sequence.leases
                self._returns += self._unanswered(sequence)
                sequence.leases.clear()
            self._wanted.clear()
            self._not_before = 0
            self._tell()
            if self._store:  # who has the file next serves nothing of what this thread may still send
                self._store.write_returns((lease.id, lease.next) for lease in self._returns)
            if self._returns or self._error or unsure:
                self._begin_thread()
            thread = self._thread
        if thread:
            thread.join(self._timeout + 1)  # if a signal cuts this short, the next call waits on
            if is_late := thread.is_alive():
                self._limit.give_up()
            else:
                self._thread = None
            self._limit.end()
            is_over = not (is_late or self._error or self._returns)
            self._release(is_over)
            if not is_over:
                raise TimeoutError(f"could not return the leases of {self._holder}") from self._error
        self._release(True)

    def _unanswered(self, sequence: Sequence) -> list[Lease]:
        """Leases of the process before that the server was not yet asked about."""
        if not self._store:
            return []
        tokens = [token for token, _ in [*sequence.resumed, sequence.asked or (None, 0)] if token]
        nexts = [(token, self._store.next(token)) for token in tokens]
        sequence.resumed.clear()
        return [to_return(sequence.name, token, next) for token, next in nexts if next is not None]

    def _release(self, all_returned: bool) -> None:
        with self._changed:
            if self._store:
                self._store.release(all_returned)
                self._store = None
                self._returns.clear()
                self._has_passed_on = True

    def __enter__(self) -> HiloClient:
        """In the main thread of a program that does not handle SIGTERM, that signal leaves the block, too."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _leave)
            self._ends_at_sigterm = True
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        finally:
            if self._ends_at_sigterm and signal.getsignal(signal.SIGTERM) is _leave:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    # The rest runs in the background thread, and only it uses the connection.

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # a fault of this program: those who wait hear of it, and the next one begins again
            self._back_off(error)
            with self._changed:
                self._thread = None
                for sequence in list(self._wanted.values()):
                    self._refuse(sequence, error)
                self._tell()

    def _work(self) -> None:
        deadline = math.inf
        while True:
            with self._changed:
                while not self._closed and (pause := self._due() - time.monotonic()) > 0:
                    self._changed.wait(min(pause, self._until_idle(), threading.TIMEOUT_MAX))
                closing, over, returns = self._closed, self._has_passed_on, self._returns[: self._at_once]
                asked = list(self._wanted.values())[: self._at_once]
                for sequence in asked:
                    if not sequence.asked:
                        resumed = sequence.resumed.pop() if sequence.resumed else None
                        sequence.asked = resumed or (uuid.uuid4(), self._size(sequence))
            if over:
                self._disconnect()
                return
            if closing:
                deadline = min(deadline, time.monotonic() + self._timeout)
            self._sent_at = time.monotonic()
            try:
                self._exchange(returns, asked)
                if closing and not self._returns and self._may_revoke():
                    self._execute(REVOKE, [self._holder])  # those of which it never learned
                self._error, self._at_once = None, min(1000, 2 * self._at_once)
                if closing and self._held_up:
                    self._error = self._held_up
                    self._wait_before_the_next()
                else:
                    self._attempt = 0
            except psycopg.Error as error:
                self._at_once = max(1, max(len(asked), len(returns)) // 2)  # it may have been too much
                self._back_off(error)
                if error.sqlstate and not is_transient(error.sqlstate) and error.sqlstate[:2] not in ("08", "25", "57"):
                    with self._changed:  # the call itself is refused: there is no hilo
                        for sequence in asked:
                            self._refuse(sequence, error)
                        self._tell()
            if closing and (time.monotonic() > deadline or not (self._error or self._returns)):
                self._disconnect()
                return
            if closing:
                time.sleep(max(0, min(self._not_before, deadline) - time.monotonic()))

    def _may_revoke(self) -> bool:
        """Has the next one with the file take another name, which the statement does not concern."""
        with self._changed:
            if self._store:
                self._store.clear()
            return not self._has_passed_on

    def _until_idle(self) -> float:
        """For how long the connection stays open, while nothing is sent."""
        if self._connection is None:
            return math.inf
        if (left := self._sent_at + self._idle - time.monotonic()) > 0:
            return left
        self._disconnect()
        return math.inf

    def _due(self) -> float:
        """When to send something."""
        if any(sequence.waiting for sequence in self._wanted.values()):
            at = self._sent_at
        else:
            at = self._sent_at + self._pace if self._wanted else self._renew_at
        return max(min(at, self._renew_at), self._not_before)

    def _size(self, sequence: Sequence) -> int:
        rate = max(sequence.rate, sequence.rate_now())
        size = max(self._first, min(int(rate * self._hold), 2 * sequence.size, self._most))
        return max(size, sequence.range)

    def _back_off(self, error: Exception) -> None:
        """Exponential backoff with full jitter. What has been sent may have been committed, or not."""
        self._disconnect()
        self._error = error
        self._wait_before_the_next()

    def _wait_before_the_next(self) -> None:
        self._not_before = time.monotonic() + random.uniform(0, min(5, 0.05 * 2**self._attempt))
        self._attempt = min(self._attempt + 1, 10)

    def _exchange(self, returns: list[Lease], asked: list[Sequence]) -> None:
        """Does all in one transaction. Raises if the server is out of reach, or has no time for so much."""
        renewed: list[uuid.UUID] = []
        due = time.monotonic() >= self._renew_at
        if due:
            with self._changed:
                for sequence in self._sequences.values():
                    self._returns += sequence.used_up()
                renewed = [lease.id for sequence in self._sequences.values() for lease in sequence.leases]
        rows: list[tuple[Any, ...]] = []
        with self._changed:
            if self._has_passed_on:
                return
            if self._store:
                self._store.write_returns((lease.id, lease.next) for lease in returns)
                asked = [sequence for sequence in asked if self._write_ask(self._store, sequence)]
        asks = [sequence.asked for sequence in asked if sequence.asked]
        if returns or renewed or asks:
            arguments = [
                [lease.id for lease in returns],
                [lease.next for lease in returns],
                renewed,
                [sequence.name for sequence in asked],
                [size for _, size in asks],
                [name for name, _ in asks],
                self._holder,
                self._ttl,
            ]
            rows = self._execute(REFILL, arguments)
        # It is committed. If anything fails before this line, nothing of it is served.
        if due:
            refused = any(row[0] == "renewed" and is_transient(row[9]) for row in rows)
            self._renew_at = time.monotonic() + (min(60, self._renew_every / 6) if refused else self._renew_every)
        with self._changed:
            for row in rows:
                if self._store and row[0] == "renewed" and not row[9]:
                    self._store.renew(row[2], self._ttl)
            self._settle(returns, asked, rows)
            self._tell()

    def _write_ask(self, store: Store, sequence: Sequence) -> bool:
        """False: the disk is full. Who waits for this sequence hears it, and all else goes on."""
        try:
            if sequence.asked:
                store.write_ask(sequence.asked[0], sequence.name, sequence.asked[1])
        except OSError as error:
            self._refuse(sequence, error)
            self._tell()
            return False
        return True

    def _settle(self, returns: list[Lease], asked: list[Sequence], rows: list[tuple[Any, ...]]) -> None:
        """Does to what is in memory what the server says of each row."""
        answers = {row[1] if row[0] == "leased" else row[2]: row for row in rows if row[0] != "renewed"}
        expected = {sequence.name for sequence in asked} | {lease.id for lease in returns}
        if (
            answers.keys() != expected
            or len(expected) < sum(row[0] != "renewed" for row in rows)
            or any(sequence.asked and answers[sequence.name][2] != sequence.asked[0] for sequence in asked)
        ):
            for sequence in asked:
                self._give_up(sequence)
            raise ValueError("the server has not answered what it was asked for")
        kept = [lease for lease in returns if is_transient(answers[lease.id][9])]
        self._held_up = refusal(*answers[kept[0].id][9:]) if kept else None
        done = {lease.id for lease in returns} - {lease.id for lease in kept}
        self._returns = [lease for lease in self._returns if lease.id not in done]
        if self._store:
            for id in done:
                self._store.free(id)
        for sequence in asked:
            self._answered(sequence, answers[sequence.name])
        if self._store:
            self._store.sync()

    def _answered(self, sequence: Sequence, row: tuple[Any, ...]) -> None:
        size = sequence.asked[1] if sequence.asked else sequence.size
        if is_transient(row[9]) or row[9] == "42710":
            sequence.trouble = refusal(*row[9:])
            self._wait_before_the_next()
        if is_transient(row[9]):  # the same lease is asked for: an earlier statement may have taken it
            return
        if row[9]:
            self._return_resumed(sequence.name, row[2])
            self._give_up(sequence)
        sequence.asked = None
        if row[9] == "42710":  # another lease is asked for
            return
        if row[9]:
            self._refuse(sequence, refusal(*row[9:]))
        else:
            sequence.rate, sequence.served, sequence.leased_at = sequence.rate_now(), 0, time.monotonic()
            sequence.size, sequence.failure, sequence.waiting, sequence.range = size, None, False, 1
            sequence.trouble = None
            if all(row[2] != lease.id for lease in self._returns):  # close() returns what it was not yet told of
                self._add(sequence, self._lease(row))

    def _lease(self, row: tuple[Any, ...]) -> Lease:
        lease = Lease(row[1], row[2], row[3], *row[4:9])
        if self._store:
            held = self._store.hold(lease.id, lease.last, lease.increment, lease.left, self._ttl)
            lease.record, lease.left, is_resumed = held
            lease.next = lease.last - (lease.left - 1) * lease.increment
            if is_resumed:  # nobody knows how long it is open yet
                self._renew_at = min(self._renew_at, time.monotonic())
        return lease

    def _return_resumed(self, name: str, token: uuid.UUID) -> None:
        """The server refuses a lease that the process before had. It may be open nevertheless, under another name of its
        sequence."""
        if self._store and (next := self._store.next(token)) is not None:
            self._returns.append(to_return(name, token, next))
            self._renew_at = min(self._renew_at, time.monotonic())  # nobody knows how long it is open
            self._store.write_returns([(token, next)])

    def _give_up(self, sequence: Sequence) -> None:
        """A lease did not come. One that the process before had is asked for once more."""
        if self._store and sequence.asked and not self._store.forget(sequence.asked[0]):
            sequence.resumed.append(sequence.asked)
        sequence.asked = None

    def _refuse(self, sequence: Sequence, error: Exception) -> None:
        """Tells those who wait."""
        sequence.failure, sequence.failures, sequence.waiting = error, sequence.failures + 1, False
        self._give_up(sequence)
        sequence.range = 1
        self._wanted.pop(sequence.name, None)

    def _add(self, sequence: Sequence, lease: Lease) -> None:
        if self._closed:
            self._returns.append(lease)
            return
        sequence.leases.append(lease)
        sequence.left += lease.left
        if not sequence.is_low() and not sequence.resumed:
            self._wanted.pop(sequence.name, None)

    def _execute(self, statement: str, arguments: list[object]) -> list[tuple[Any, ...]]:
        """Runs a statement that is a transaction by itself, and returns its rows once it has committed: psycopg waits for
        the server's word that it is ready for the next one, and raises what has failed at the commit."""
        if self._connection is None or self._connection.closed:
            self._disconnect()
            self._lender = self._connect()
            self._connection = self._lender.__enter__()
            # A pooler may bring the next statement to another session, which does not know a name.
            self._before = self._connection.autocommit, self._connection.prepare_threshold
            self._connection.autocommit, self._connection.prepare_threshold = True, None
            if self._store:
                self._meet(self._store)
        with self._limit.on(self._connection):
            return self._connection.execute(statement, arguments).fetchall()

    def _meet(self, store: Store) -> None:
        """The leases of the file must be of this server. Those that nobody can use any more are ended."""
        server, database = self._execute(WHICH_SERVER, [])[0]
        with self._changed:
            if self._has_passed_on:
                raise psycopg.OperationalError("the client was closed meanwhile")
            store.meet(server % 2**64, database)
            before = other_name(store.holder) if store.revoke else None
        if before:
            self._execute(REVOKE, [before])
            with self._changed:
                if not self._has_passed_on:
                    store.note_revoked()

    def _disconnect(self) -> None:
        """Closes the connection, or gives it back as it was."""
        connection, self._connection, lender = self._connection, None, self._lender
        if connection and lender is connection:
            connection.close()
        elif connection and lender:
            if not connection.closed:
                connection.autocommit, connection.prepare_threshold = self._before
            lender.__exit__(None, None, None)


_clients: weakref.WeakSet[HiloClient] = weakref.WeakSet()
_beginning: dict[int, threading.Lock] = {}  # by the number of the process


def _leave(number: int, _: object) -> None:
    sys.exit(128 + number)


def _begin_in_child() -> None:
    for client in list(_clients):
        client._begin()


def close_all() -> None:
    """Closes the clients of this process, each in 5 seconds at most, as the exit of the interpreter does, and the ends of
    processes of multiprocessing and of Celery.

    For processes that end in another way.
    """
    for client in list(_clients):
        client._timeout = min(client._timeout, 5)
        try:
            client.close()
        except (OSError, RuntimeError) as error:  # at the exit, no thread can begin
            logging.getLogger("hilo_client").warning("%s: %s", error, error.__cause__)
        _clients.discard(client)  # unless a signal has cut it short: the exit that follows closes it


def _close_with_celery() -> None:
    """A process of Celery's pool ends without the exit of the interpreter. It says so before."""
    if signals := sys.modules.get("celery.signals"):
        signals.worker_process_shutdown.connect(_close_process_of_celery, weak=False)


def _close_process_of_celery(**_: object) -> None:
    close_all()


def _close_at_end_of_multiprocessing(_: object = None) -> None:
    Finalize(None, close_all, exitpriority=100)


os.register_at_fork(after_in_child=_begin_in_child)
atexit.register(close_all)
_close_at_end_of_multiprocessing()
register_after_fork(close_all, _close_at_end_of_multiprocessing)
