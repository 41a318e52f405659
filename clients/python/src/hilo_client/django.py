"""Keys of Django's models: ``id = BigIntegerField(primary_key=True, default=HiloDefault("orders"))``."""

from __future__ import annotations

import threading

from django.db import connections
from psycopg.conninfo import make_conninfo

from hilo_client.client import HiloClient

_clients: dict[str, HiloClient] = {}
_lock = threading.Lock()


def client_of(using: str = "default") -> HiloClient:
    """The client of a database of the settings, one for each process."""
    with _lock:
        if using not in _clients:
            settings = connections[using].settings_dict
            names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
            given = {to: str(settings[name]) for name, to in names.items() if settings.get(name)}
            _clients[using] = HiloClient(make_conninfo("", **given))
        return _clients[using]


class HiloDefault:
    """The default of a field: the next value of a sequence, or its next key. Migrations can write it down."""

    def __init__(self, name: str, *, key: bool = False, using: str = "default") -> None:
        self.name, self.key, self.using = name, key, using

    def __call__(self) -> int | str:
        client = client_of(self.using)
        return client.next_key(self.name) if self.key else client.next(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HiloDefault) and self.deconstruct() == other.deconstruct()

    def __hash__(self) -> int:
        return hash((self.name, self.key, self.using))

    def deconstruct(self) -> tuple[str, list[str], dict[str, bool | str]]:
        return "hilo_client.django.HiloDefault", [self.name], {"key": self.key, "using": self.using}
