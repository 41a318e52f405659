"""Takes many small leases through a pooler. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import threading

from hilo_client import HiloClient

ids: list[int] = []


def draw() -> None:
    with HiloClient(first=2, most=10, hold=0.1, pace=0.01) as client:
        for _ in range(300):
            ids.append(client.next("orders"))


drawing = [threading.Thread(target=draw) for _ in range(3)]
for thread in drawing:
    thread.start()
for thread in drawing:
    thread.join()
assert len(set(ids)) == len(ids) == 900, len(ids)
print("900 values of small leases, none twice")
