"""What a client holds: leases, and the state of a sequence."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hilo_client.store import Record

# The most values that callers find without the lock.
READY = 256


@dataclass(frozen=True, slots=True)
class IdRange:
    """Consecutive values: first, first + increment, ... last."""

    first: int
    last: int
    increment: int
    count: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + self.increment, self.increment))

    def __len__(self) -> int:
        return self.count


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
    record: Record | None = None  # in a state file

    def take(self, n: int) -> IdRange:
        if self.record:
            self.record.take(self.left - n)
        taken = IdRange(self.next, self.next + (n - 1) * self.increment, self.increment, n)
        self.next += n * self.increment
        self.left -= n
        return taken

    def put_back(self, n: int) -> None:
        """The values that were taken last."""
        self.next -= n * self.increment
        self.left += n

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


def to_return(name: str, id: uuid.UUID, next: int) -> Lease:
    """A lease of which nothing is served any more."""
    return Lease(name, id, next, next, 1, 0, "", "")


@dataclass(slots=True)
class Sequence:
    """Its lock is that of the client, but for `ready`: callers take from its left end, one value in one step of the
    interpreter. Whoever has the lock fills it, and takes it back from the right end, so that what it gets is what follows
    the last value that was taken."""

    name: str
    size: int  # how many values were asked for last
    leases: deque[Lease] = field(default_factory=deque)
    ready: deque[int] = field(default_factory=deque)  # values of the first lease, which counts them as taken
    left: int = 0  # without those that are ready
    range: int = 1  # how many consecutive values somebody waits for
    waiting: bool = False  # somebody has found nothing here
    asked: tuple[uuid.UUID, int] | None = None  # a lease of which nobody knows whether it was taken, and its size
    resumed: list[tuple[uuid.UUID, int]] = field(default_factory=list)  # the same, of the process before
    failures: int = 0
    failure: Exception | None = None  # the last lease was refused: the next one is taken if somebody waits
    trouble: Exception | None = None  # why the last lease has to be asked for again
    served: int = 0  # since the last lease
    leased_at: float = field(default_factory=time.monotonic)
    rate: float = 0  # values a second, before the last lease

    def is_low(self) -> bool:
        return self.left + len(self.ready) < self.size / 2 and not self.failure

    def rate_now(self) -> float:
        return (self.served - len(self.ready)) / max(time.monotonic() - self.leased_at, 0.001)

    def take(self, n: int) -> tuple[Lease, IdRange] | None:
        """The next n values that are in one lease."""
        if n == 1:
            with contextlib.suppress(IndexError):
                value, first = self.ready.popleft(), self.leases[0]
                return first, IdRange(value, value, first.increment, 1)
        self.take_back()
        if not (lease := next((lease for lease in self.leases if lease.left >= n), None)):
            return None
        taken = lease.take(n)
        self._count(n)
        return lease, taken

    def make_ready(self) -> None:
        """Lets callers find values without the lock, up to the one with which a lease has to be asked for."""
        # With a state file, each value is written down when it is taken.
        if self.ready or not self.leases or self.leases[0].record:
            return
        until_low = self.left if self.is_low() else self.left - (self.size + 1) // 2
        if (n := min(READY, until_low, self.leases[0].left)) > 0:
            self._count(n)
            self.ready.extend(self.leases[0].take(n))

    def take_back(self) -> None:
        """What is ready belongs to its lease again."""
        n = 0
        with contextlib.suppress(IndexError):
            while True:
                self.ready.pop()
                n += 1
        if n:
            self._count(-n)
            self.leases[0].put_back(n)

    def used_up(self) -> list[Lease]:
        """Takes away the leases of which no value is left."""
        used_up = [] if self.ready else [lease for lease in self.leases if not lease.left]
        for lease in used_up:
            self.leases.remove(lease)
        return used_up

    def _count(self, n: int) -> None:
        self.left -= n
        self.served += n
