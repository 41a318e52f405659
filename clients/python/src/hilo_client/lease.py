"""What a client holds: leases, and the state of a sequence."""

from __future__ import annotations

import re
import time
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field


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

    def take(self, n: int) -> IdRange:
        taken = IdRange(self.next, self.next + (n - 1) * self.increment, self.increment, n)
        self.next += n * self.increment
        self.left -= n
        return taken

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
    range: int = 1  # how many consecutive values somebody waits for
    waiting: bool = False  # somebody has found nothing here
    asked: tuple[uuid.UUID, int] | None = None  # a lease of which nobody knows whether it was taken, and its size
    failures: int = 0
    failure: Exception | None = None  # the last lease was refused: the next one is taken if somebody waits
    trouble: Exception | None = None  # why the last lease has to be asked for again
    served: int = 0  # since the last lease
    leased_at: float = field(default_factory=time.monotonic)
    rate: float = 0  # values a second, before the last lease

    def is_low(self) -> bool:
        return self.left < self.size / 2 and not self.failure

    def rate_now(self) -> float:
        return self.served / max(time.monotonic() - self.leased_at, 0.001)

    def find(self, n: int) -> Lease | None:
        """The first lease with so many values."""
        return next((lease for lease in self.leases if lease.left >= n), None)
