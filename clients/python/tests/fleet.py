"""Draws from many counters at random, at a fixed rate. It answers each line of its standard input but
"end": how many values it has drawn, and how often it found none in memory, since it last said so.

    python3 fleet.py counters values-a-second buffer-in-seconds
"""

import queue
import random
import sys
import threading
import time
from typing import Any

from hilo_client import HiloClient

TICK = 0.01
counters, rate, buffer = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
names = [f"counter {n}" for n in range(counters)]
commands: queue.Queue[str] = queue.Queue()


class Counting(HiloClient):
    """Counts looks in vain."""

    waits = 0

    def _try_draw(self, name: str, n: int, failures: int) -> Any:
        drawn = super()._try_draw(name, n, failures)
        self.waits += drawn is None
        return drawn


def listen() -> None:
    for line in sys.stdin:
        commands.put(line.strip())


threading.Thread(target=listen, daemon=True).start()
with Counting(hold=2 * buffer, timeout=300) as ids:
    began, drawn, said = time.monotonic(), 0, 0
    while True:
        due = int((time.monotonic() - began) * rate)
        # A machine that is too slow for the rate must hear what it is told, too.
        count = min(due - drawn, rate // 10)
        for name in random.choices(names, k=count):
            ids.next(name)
        drawn += count
        try:
            if commands.get(timeout=TICK) == "end":
                break
        except queue.Empty:
            continue
        print(drawn - said, ids.waits, flush=True)
        said, ids.waits = drawn, 0
