"""What a worker of Celery runs for ends.py: each task appends the next value of sequence celery to a file in folder TASKS."""

import contextlib
import os
from pathlib import Path
from queue import Empty
from typing import Any

from celery import Celery
from hilo_client import HiloClient
from kombu.transport import TRANSPORT_ALIASES, filesystem

folder = Path(os.environ["TASKS"])


class Transport(filesystem.Transport):
    """Messages are files. The event loop looks for them, so that Celery works as with Redis or RabbitMQ."""

    implements = filesystem.Transport.implements.extend(asynchronous=True)

    def register_with_event_loop(self, _: Any, loop: Any) -> None:
        loop.call_repeatedly(0.05, self.look)

    def look(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self.cycle.get(self._deliver)


TRANSPORT_ALIASES["files"] = f"{__name__}:Transport"
messages = str(folder / "messages")
app = Celery("tasks", broker="files://")
app.conf.task_ignore_result = True
app.conf.broker_transport_options = {
    "data_folder_in": messages,
    "data_folder_out": messages,
    "control_folder": str(folder / "control"),
}
ids = HiloClient()


@app.task
def draw() -> None:
    with open(folder / "drawn", "a") as file:
        file.write(f"{ids.next('celery')}\n")
