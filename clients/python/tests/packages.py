"""Ranges, asyncio, Django and SQLAlchemy. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import asyncio
import ctypes
import json
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from unittest import mock

import django
import psycopg
from django.conf import settings
from django.db import connection as django_connection
from django.db import models
from hilo_client import AsyncHiloClient, HiloClient
from hilo_client.limit import TimeLimit
from sqlalchemy import BigInteger, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

assert version("hilo-client")

with psycopg.connect(autocommit=True) as connection:
    connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
    connection.execute("SELECT hilo_create('orders', if_not_exists => true)")
    connection.execute("SELECT hilo_create('parcels', increment => -10), hilo_create('few', max_value => 50)")
    connection.execute("SELECT hilo_create('letters', key_format => 'L{value:06}'), hilo_create('slow')")

    connection.execute("SELECT hilo_create('many-' || n) FROM generate_series(1, 1200) n")

ids: list[int] = []

# More leases than one statement returns: all come back.
with HiloClient(first=2, timeout=120) as client:
    assert all(client.next(f"many-{n}") == 1 for n in range(1, 1201))

# Ranges are consecutive, and exactly as long as asked for.
with HiloClient(first=10) as client:
    assert client.next("parcels") == -1
    for n in [1, 5, 300, 10_000]:
        taken = client.next_range("orders", n)
        assert len(taken) == len(list(taken)) == n and taken.last == taken.first + n - 1, taken
        ids += taken
    assert list(client.next_range("parcels", 3)) == [-11, -21, -31]
    for wrong in [0, -1, 1_000_000_001]:
        try:
            raise AssertionError(client.next_range("orders", wrong))
        except ValueError:
            pass
    # What the server cannot be sent is refused here, and fails nobody else's statement.
    for name in ["a\0b", "a\udc00"]:
        try:
            raise AssertionError(client.next(name))
        except ValueError as error:
            assert "no name of a sequence" in str(error) or "surrogates" in str(error), error
    assert client.next("parcels") == -41

# A pool lends its connection, and gets it back as it was.
given_back = []
with psycopg.connect() as pooled:

    @contextmanager
    def lend() -> Iterator[psycopg.Connection]:
        yield pooled
        given_back.append((pooled.autocommit, pooled.prepare_threshold, pooled.closed))

    with HiloClient(connect=lend, idle=0) as client:
        ids += [client.next("orders") for _ in range(30)]
    assert set(given_back) == {(False, 5, False)}, given_back



def draw_in_two_processes(draw: Callable[[int], list[int]], close: Callable[[], None]) -> list[int]:
    """A fork in C, of which Python does not hear. Each process has values of its own, and returns its own leases."""
    drawn = draw(5)
    reading, writing = os.pipe()
    if not ctypes.PyDLL(None).fork():
        try:
            in_child = draw(20)
            close()
            os.write(writing, json.dumps(in_child).encode())
        finally:
            os._exit(0)
    os.wait()
    os.close(writing)
    drawn += draw(20)
    close()
    with open(reading) as answer:
        return drawn + json.loads(answer.read())


async def take(client: AsyncHiloClient, count: int) -> list[int]:
    return [await client.next("orders") for _ in range(count)]


for options in ({}, {"state": tempfile.mkdtemp() + "/ids"}):
    client = HiloClient(first=40, **options)
    ids += draw_in_two_processes(lambda n: [client.next("orders") for _ in range(n)], client.close)
waiting_client = AsyncHiloClient(first=40)
ids += draw_in_two_processes(
    lambda n: asyncio.run(take(waiting_client, n)), lambda: asyncio.run(waiting_client.close())
)

# A handler of SIGTERM that comes inside the block stays.
for handler in (signal.SIG_IGN, signal.SIG_DFL):
    with HiloClient():
        signal.signal(signal.SIGTERM, handler)
    assert signal.getsignal(signal.SIGTERM) == handler
with HiloClient():
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


async def use() -> None:
    async with AsyncHiloClient(first=10, timeout=5) as client:
        ids.extend(await asyncio.gather(*(client.next("orders") for _ in range(500))))
        ids.extend(await client.next_range("orders", 100))
        assert (await client.next_key("letters")) == "L000001"
        try:
            await client.next("unknown")
            raise AssertionError("there is none")
        except psycopg.errors.UndefinedObject as error:
            assert "unknown" in str(error), error
        # Who is canceled takes nothing: of twenty, one value.
        waiting = [asyncio.ensure_future(client.next("slow")) for _ in range(20)]
        await asyncio.sleep(0)
        for task in waiting[1:]:
            task.cancel()
        assert await waiting[0] == 1
        assert await client.next("slow") == 2
    try:
        await client.next("orders")
        raise AssertionError("it is closed")
    except RuntimeError:
        pass


asyncio.run(use())

# Django: many rows in one statement, whose keys are known before.
database = {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"], "USER": os.environ["PGUSER"]}
database |= {"HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"]}
database |= {"OPTIONS": {"application_name": "shop", "assume_role": os.environ["PGUSER"]}}
settings.configure(DATABASES={"default": database}, INSTALLED_APPS=[])
django.setup()

from django.db.migrations.writer import MigrationWriter  # noqa: E402
from hilo_client.django import HiloDefault, client_of  # noqa: E402


class Order(models.Model):
    id = models.BigIntegerField(primary_key=True, default=HiloDefault("orders"))

    class Meta:
        app_label = "shop"
        db_table = "orders"


class Letter(models.Model):
    id = models.TextField(primary_key=True, default=HiloDefault("letters", key=True))

    class Meta:
        app_label = "shop"
        db_table = "letters"


with django_connection.schema_editor() as editor:
    editor.create_model(Letter)
assert Letter.objects.create().id.startswith("L")
made = Order.objects.bulk_create(Order() for _ in range(200))
ids += [Order.objects.create().id]
assert Order.objects.filter(id__in=[order.id for order in made]).count() == 200
written, imports = MigrationWriter.serialize(HiloDefault("orders"))
assert written == "hilo_client.django.HiloDefault('orders', key=False, using='default')", written
assert HiloDefault("orders") == HiloDefault("orders") != HiloDefault("parcels")
Order.objects.filter(id=ids.pop()).delete()
with client_of()._connect() as as_django:
    told = as_django.execute("SELECT current_setting('application_name'), current_setting('role')").fetchone()
    assert told == ("shop", os.environ["PGUSER"]), told


class Silent:
    """A connection to a server that has gone silent."""

    def __init__(self, **arguments: object) -> None:
        self.arguments, self.ends = arguments, socket.socketpair()
        made.append(self)

    def fileno(self) -> int:
        return self.ends[0].fileno()

    def execute(self, *_: object) -> None:
        self.ends[0].settimeout(60)
        assert not self.ends[0].recv(1)
        raise psycopg.OperationalError("it was cut")


# Connecting ends in time, and so does the statement that takes the role.
made: list[Silent] = []
with mock.patch.object(client_of(), "_limit", TimeLimit(0.1)), mock.patch("psycopg.connect", Silent):
    try:
        client_of()._connect()
        raise AssertionError("nobody answers")
    except psycopg.OperationalError:
        assert made[0].arguments["connect_timeout"] == 10, made[0].arguments

# What a connection string says goes before the defaults.
with mock.patch("psycopg.connect") as connect:
    HiloClient("connect_timeout=3 target_session_attrs=any", port=1)._connect()
    assert connect.call_args.kwargs == {"connect_timeout": "3", "target_session_attrs": "any", "port": 1}

# A database of tests has a client of its own, and can be dropped.
shop, creation = django_connection.settings_dict["NAME"], django_connection.creation
django_connection.close()
django_connection.settings_dict |= {"USER": "postgres", "OPTIONS": {}}
creation.create_test_db(verbosity=0, autoclobber=True)
with django_connection.cursor() as cursor:
    cursor.execute("CREATE EXTENSION hilo; SELECT hilo_create('orders')")
assert HiloDefault("orders")() == 1
creation.destroy_test_db(shop, verbosity=0)
client_of().close()

# SQLAlchemy.
from hilo_client.sqlalchemy import hilo_default, hilo_key_default  # noqa: E402

with HiloClient() as client:

    class Base(DeclarativeBase):
        pass

    class Item(Base):
        __tablename__ = "items"
        id: Mapped[int] = mapped_column(BigInteger, primary_key=True, default=hilo_default(client, "orders"))
        key: Mapped[str] = mapped_column(default=hilo_key_default(client, "letters"))

    engine = create_engine("postgresql+psycopg://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all(Item() for _ in range(200))
        session.commit()
        items = list(session.scalars(select(Item)))
        assert len({item.id for item in items}) == len({item.key for item in items}) == 200
        ids += [item.id for item in items]

with psycopg.connect() as connection, connection.cursor() as cursor:
    with cursor.copy("COPY orders FROM STDIN") as copy:
        for id in ids:
            copy.write_row([id])
    leases = cursor.execute("SELECT * FROM hilo_leases").fetchall()
    assert leases == [], leases
    gaps = cursor.execute("SELECT name, reason FROM hilo_gaps").fetchall()
    assert gaps == [], gaps

print(f"{len(ids)} ids, none twice")
