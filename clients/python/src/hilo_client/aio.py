"""The client for asyncio. A thread talks to the server, and the event loop never waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from hilo_client.client import HiloClient
from hilo_client.lease import IdRange, Lease


class AsyncHiloClient:
    """The same as HiloClient, with the same arguments. A call that is cancelled takes no value."""

    def __init__(self, conninfo: str = "", **options: Any) -> None:
        self._client = HiloClient(conninfo, **options)

    async def next(self, name: str) -> int:
        """The next value. Raises what HiloClient.next raises."""
        here = self._client._here
        try:
            value = self._client._ready[name]()
            if here[0]:
                return value
        except (KeyError, IndexError):
            pass
        return (await self._draw(name, 1))[1].first

    async def next_range(self, name: str, n: int) -> IdRange:
        """The next n consecutive values. Raises the same."""
        return (await self._draw(name, n))[1]

    async def next_key(self, name: str) -> str:
        """The next value as a key. Raises the same."""
        lease, taken = await self._draw(name, 1)
        return lease.key(taken.first)

    async def _draw(self, name: str, n: int) -> tuple[Lease, IdRange]:
        client = self._client
        client._begin_if_forked()
        with client._changed:
            failures = client._failures(name)
            if drawn := client._try_draw(name, n, failures):
                return drawn
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def listener() -> None:
            # Who stops a loop in the middle of a call has closed it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(changed.set)

        deadline = time.monotonic() + client._timeout
        client._listeners.append(listener)
        try:
            while True:
                changed.clear()
                # A value is taken here, in the loop, and nothing is awaited after that.
                with client._changed:
                    if drawn := client._try_draw(name, n, failures):
                        return drawn
                    if (left := deadline - time.monotonic()) <= 0:
                        raise client._too_late(name)
                try:
                    await asyncio.wait_for(changed.wait(), left)
                except asyncio.TimeoutError:
                    pass
        finally:
            client._listeners.remove(listener)

    async def close(self) -> None:
        """Returns what is left, as HiloClient.close does."""
        await asyncio.to_thread(self._client.close)

    async def __aenter__(self) -> AsyncHiloClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
