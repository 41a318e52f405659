"""Keys of SQLAlchemy's tables: ``mapped_column(primary_key=True, default=hilo_default(ids, "orders"))``."""

from __future__ import annotations

from collections.abc import Callable

from hilo_client.client import HiloClient


def hilo_default(client: HiloClient, name: str) -> Callable[[], int]:
    """The default of a column: the next value of a sequence. Many rows then need one statement and no RETURNING."""
    return lambda: client.next(name)


def hilo_key_default(client: HiloClient, name: str) -> Callable[[], str]:
    """The default of a column: the next key of a sequence."""
    return lambda: client.next_key(name)
