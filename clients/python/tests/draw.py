"""Prints values of a sequence, one in a line, until the standard input ends; then returns what is left.

    python3 draw.py orders [threads] [pause between two values of a thread, in seconds]
"""

import sys
import threading
from datetime import timedelta

from hilo_client import HiloClient

name = sys.argv[1]
threads = int(sys.argv[2]) if len(sys.argv) > 2 else 4
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.001
ended = threading.Event()


def draw(ids: HiloClient) -> None:
    while not ended.wait(pause):
        # One write for a line: other threads print too.
        sys.stdout.write(f"{ids.next(name)}\n")
        sys.stdout.flush()


with HiloClient(ttl=timedelta(minutes=10), hold=4, pace=0.1) as ids:
    drawing = [threading.Thread(target=draw, args=[ids]) for _ in range(threads)]
    for thread in drawing:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in drawing:
        thread.join()
