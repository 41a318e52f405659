"""A server that misbehaves on purpose: it stands before a real one, and knows the protocol well enough to choose the moment.

Trouble comes to the next statement that takes, renews or returns leases:

    silence                     it does not arrive, and the connection stays open; others work
    silence after the rows      it is committed, and all but the end of the answer arrives
    silence everywhere          as silence, on all connections and on new ones, until it is calm
    refusal                     all connections are reset, and new ones are, until it is calm
    reset before its end        the server does not get all of it, and so rolls it back
    reset before the answer     it is committed, and nothing of the answer arrives
    half an answer              it is committed, and half of the answer arrives before the reset
    reset before the end        it is committed, and all but the end of the answer arrives before the reset
    failed commit               its rows arrive, and then the commit fails
    rows twice, no rows         it is committed, and its answer is not one to what was asked
    delay                       its answer comes late
    error 57014                 it is refused with this SQLSTATE
    fatal 57P01                 the same, and the connection ends
    pooler                      until it is calm, each transaction runs in another session
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Callable

LASTING = ("silence everywhere", "refusal", "pooler")
SSL, GSS, CANCEL = 80877103, 80877104, 80877102

Message = tuple[bytes, bytes]  # type and content


class Cut(Exception):
    """The connection is to end."""


class Server:
    """A port of this machine, before the server of PGHOST and PGPORT."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._trouble = ""
        self._lock = threading.Lock()
        self.came = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def trouble(self, kind: str) -> None:
        """What comes to the next statement; nothing if it is empty."""
        with self._lock:
            self._trouble = kind
            self.came.clear()

    def lasting(self) -> str:
        return self._trouble if self._trouble in LASTING else ""

    def take(self) -> str:
        """The trouble of a statement that has come."""
        with self._lock:
            kind = self._trouble
            if kind not in LASTING:
                self._trouble = ""
        if kind:
            self.came.set()
        return kind

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=Connection(self, client).run, daemon=True).start()


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def read(end: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        if not (part := end.recv(count - len(content))):
            raise Cut
        content += part
    return content


def message(end: socket.socket) -> Message:
    kind, length = struct.unpack("!ci", read(end, 5))
    return kind, read(end, length - 4)


def packed(messages: list[Message]) -> bytes:
    return b"".join(kind + struct.pack("!i", len(content) + 4) + content for kind, content in messages)


def error(sqlstate: str, severity: str = "ERROR") -> Message:
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": "trouble that was wanted"}
    return b"E", b"".join(f"{field}{text}".encode() + b"\0" for field, text in fields.items()) + b"\0"


READY = (b"Z", b"I")


class Connection:
    """One question and its answer after the other: no client of leases needs more."""

    def __init__(self, server: Server, client: socket.socket) -> None:
        self._server, self._client = server, client
        self._names: dict[bytes, bool] = {}  # of statements, and whether they are about leases
        self._trouble = ""  # of the transaction that is under way
        self._behind = socket.socket()  # to the server

    def run(self) -> None:
        try:
            if self._server.lasting() == "refusal":
                raise Cut
            if self._server.lasting() == "silence everywhere":
                self._wait_for_the_end()
            self._open()
            while True:
                self._serve(self._batch())
        except (Cut, OSError):
            reset(self._client)
            self._behind.close()

    def _wait_for_the_end(self) -> None:
        while self._client.recv(65536):
            pass
        raise Cut

    def _open(self) -> None:
        while True:
            [length] = struct.unpack("!i", read(self._client, 4))
            self._startup = struct.pack("!i", length) + read(self._client, length - 4)
            [code] = struct.unpack("!i", self._startup[4:8])
            if code not in (SSL, GSS):
                break
            self._client.sendall(b"N")
        self._client.sendall(packed(self._begin()))

    def _begin(self) -> list[Message]:
        """Opens a session of the server, which asks for no password."""
        host, port = os.environ["PGHOST"], os.environ["PGPORT"]
        if host.startswith("/"):
            self._behind = socket.socket(socket.AF_UNIX)
            self._behind.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self._behind = socket.create_connection((host, int(port)))
        self._behind.sendall(self._startup)
        if self._startup[4:8] == struct.pack("!i", CANCEL):
            raise Cut
        return self._answer()

    def _answer(self) -> list[Message]:
        """What the server says until it is ready."""
        messages = [message(self._behind)]
        while messages[-1][0] != b"Z":
            messages.append(message(self._behind))
        return messages

    def _batch(self) -> list[Message]:
        """All that the client says until it waits for an answer."""
        messages = [message(self._client)]
        while messages[-1][0] not in (b"S", b"Q"):
            if messages[-1][0] == b"X":
                raise Cut
            messages.append(message(self._client))
        return messages

    def _is_about_leases(self, batch: list[Message]) -> bool:
        found = False
        for kind, content in batch:
            about = b"hilo_refill(" in content or b"hilo_lease_revoke(" in content
            if kind == b"P":
                self._names[content.split(b"\0")[0]] = about
            elif kind == b"B":
                found |= self._names.get(content.split(b"\0")[1], False)
            elif kind == b"Q":
                found |= about
        return found

    def _serve(self, batch: list[Message]) -> None:
        if self._is_about_leases(batch) and not self._trouble:
            self._trouble = self._server.take()
        elif lasting := self._server.lasting():
            self._trouble = lasting
        kind, code = (self._trouble.split(" ", 1) + [""])[:2]
        if kind in ("error", "fatal"):
            self._client.sendall(packed([error(code, kind.upper())] + [READY] * (kind == "error")))
            if kind == "fatal":
                raise Cut
            self._trouble = ""
        elif act := BEFORE.get(self._trouble):
            act(self, batch)
        else:
            self._behind.sendall(packed(batch))
            self._deliver(self._answer())

    def _deliver(self, answer: list[Message]) -> None:
        trouble = self._trouble
        if answer[-1] == READY:
            self._trouble = ""
        if answer[-1] != READY or trouble not in AFTER:
            self._client.sendall(packed(answer))
        else:
            AFTER[trouble](self, answer)

    # What happens to a statement.

    def _is_silent(self, _: list[Message]) -> None:
        self._wait_for_the_end()

    def _is_refused(self, _: list[Message]) -> None:
        raise Cut

    def _loses_its_end(self, batch: list[Message]) -> None:
        self._behind.sendall(packed(batch[:-1] + [(b"H", b"")]))
        while message(self._behind)[0] not in b"CE":
            pass
        self._behind.close()
        raise Cut

    def _fails_to_commit(self, batch: list[Message]) -> None:
        self._behind.sendall(packed(batch[:-1] + [(b"H", b"")]))
        kind = b""
        while kind not in (b"C", b"E"):
            kind, content = message(self._behind)
            self._client.sendall(packed([(kind, content)]))
        self._next_session()
        # The client has time to serve what it has, if it does.
        time.sleep(0.1)
        self._client.sendall(packed([error("40001"), READY]))
        self._trouble = ""

    # What happens to the answer to one that is committed.

    def _next_session(self) -> None:
        self._behind.close()
        self._begin()

    def _goes_to_another_session(self, answer: list[Message]) -> None:
        self._next_session()
        self._client.sendall(packed(answer))

    def _is_lost(self, _: list[Message]) -> None:
        raise Cut

    def _is_halved(self, answer: list[Message]) -> None:
        text = packed(answer)
        self._client.sendall(text[: len(text) // 2])
        time.sleep(0.1)
        raise Cut

    def _loses_its_last(self, answer: list[Message]) -> None:
        self._client.sendall(packed(answer[:-1]))
        time.sleep(0.1)
        raise Cut

    def _is_silent_at_last(self, answer: list[Message]) -> None:
        self._client.sendall(packed(answer[:-1]))
        self._wait_for_the_end()

    def _is_doubled(self, answer: list[Message]) -> None:
        self._client.sendall(packed([one for one in answer for _ in range(1 + (one[0] == b"D"))]))

    def _is_emptied(self, answer: list[Message]) -> None:
        self._client.sendall(packed([one for one in answer if one[0] != b"D"]))

    def _is_late(self, answer: list[Message]) -> None:
        time.sleep(0.3)
        self._client.sendall(packed(answer))


Act = Callable[[Connection, list[Message]], None]

BEFORE: dict[str, Act] = {
    "silence": Connection._is_silent,
    "silence everywhere": Connection._is_silent,
    "refusal": Connection._is_refused,
    "reset before its end": Connection._loses_its_end,
    "failed commit": Connection._fails_to_commit,
}
AFTER: dict[str, Act] = {
    "reset before the answer": Connection._is_lost,
    "half an answer": Connection._is_halved,
    "reset before the end": Connection._loses_its_last,
    "silence after the rows": Connection._is_silent_at_last,
    "rows twice": Connection._is_doubled,
    "no rows": Connection._is_emptied,
    "delay": Connection._is_late,
    "pooler": Connection._goes_to_another_session,
}
