"""A time limit for statements that holds where the other side has gone silent."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg


class TimeLimit:
    """Ends a connection whose statement takes longer, as if the server had ended it.

    Its thread is there from the first statement on, because none can begin at the exit of the interpreter.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._changed = threading.Condition()
        self._socket: socket.socket | None = None
        self._deadline = math.inf
        self._ended = True

    @contextlib.contextmanager
    def on(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        # The same socket, which stays the connection's.
        end = socket.socket(fileno=connection.fileno())
        with self._changed:
            self._socket, self._deadline = end, time.monotonic() + self._seconds
            if self._ended:
                self._ended = False
                threading.Thread(target=self._watch, name="hilo time limit", daemon=True).start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._socket, self._deadline = None, math.inf
            end.detach()

    def give_up(self) -> None:
        """Ends the connection of the statement that is under way."""
        with self._changed:
            if self._socket:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
            self._deadline = math.inf

    def end(self) -> None:
        """Ends the thread, which the next statement begins again."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                left = self._deadline - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                else:
                    self.give_up()
