"""What gunicorn and uvicorn run for ends.py: each request gets the next value of sequence SEQUENCE, and the process."""

import asyncio
import os
from typing import Any

from hilo_client import HiloClient

ids = HiloClient()


def answer() -> bytes:
    return f"{ids.next(os.environ['SEQUENCE'])} {os.getpid()}".encode()


def wsgi(_: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [answer()]


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(ids.close)
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": answer()})
