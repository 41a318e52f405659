"""Serves values of hilo's sequences from this process's memory. Needs psycopg 3.

with HiloClient() as ids:
    ids.next("orders")  # from any thread
    ids.next_key("orders")
"""

from hilo_client.aio import AsyncHiloClient
from hilo_client.client import HiloClient, close_all
from hilo_client.lease import IdRange

__all__ = ["AsyncHiloClient", "HiloClient", "IdRange", "close_all"]
