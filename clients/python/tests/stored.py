"""Draws from sequence orders with a state file, and appends each value to a file, 8 bytes each, until the standard input
ends. It is killed meanwhile.

    python3 stored.py state-file values-file threads [sync_every]
"""

import os
import sys
import threading
from datetime import timedelta

from hilo_client import HiloClient

state, seen, threads, *sync_every = sys.argv[1:]
file = os.open(seen, os.O_WRONLY | os.O_APPEND)
ended = False


def draw(ids: HiloClient) -> None:
    while not ended:
        os.write(file, ids.next("orders").to_bytes(8, sys.byteorder, signed=True))


options = {"sync_every": int(sync_every[0])} if sync_every else {}
with HiloClient(state=state, ttl=timedelta(minutes=10), pace=0.1, **options) as ids:
    drawing = [threading.Thread(target=draw, args=[ids]) for _ in range(int(threads))]
    for thread in drawing:
        thread.start()
    sys.stdin.read()
    ended = True
    for thread in drawing:
        thread.join()
