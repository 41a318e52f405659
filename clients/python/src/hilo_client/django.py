"""Keys of Django's models: ``id = BigIntegerField(primary_key=True, default=HiloDefault("orders"))``."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql

from hilo_client.client import CONNECT_TIMEOUT, HiloClient

_clients: dict[tuple[str, str], HiloClient] = {}
_lock = threading.Lock()

# What Django's own connections have besides.
NOT_OURS = ("context", "cursor_factory", "prepare_threshold")


def client_of(using: str = "default") -> HiloClient:
    """The client of a database of the settings, one for each process.

    It connects as Django does, and stays connected only while it has something to ask. Before Django drops a database of
    tests, the client of that database is closed.
    """
    wrapper = connections[using]
    key = using, str(wrapper.settings_dict["NAME"])
    with _lock:
        if key not in _clients:
            client: HiloClient = HiloClient(connect=lambda: _connect(client, *key), idle=0)
            _clients[key] = client
            _close_with_test_database(wrapper, key)
        return _clients[key]


def _connect(client: HiloClient, using: str, name: str) -> psycopg.Connection[Any]:
    wrapper = connections[using]
    arguments: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT}
    arguments |= {key: value for key, value in wrapper.get_connection_params().items() if key not in NOT_OURS}
    if name:
        arguments["dbname"] = name
    connection = psycopg.connect(**arguments)
    if role := wrapper.settings_dict["OPTIONS"].get("assume_role"):
        with client._limit.on(connection):
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            connection.commit()
    return connection


def _close_with_test_database(wrapper: Any, key: tuple[str, str]) -> None:
    destroy = wrapper.creation._destroy_test_db

    def close_and_destroy(*arguments: Any) -> None:
        with _lock:
            client = _clients.pop(key, None)
        if client:
            client.close()
        destroy(*arguments)

    wrapper.creation._destroy_test_db = close_and_destroy


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
