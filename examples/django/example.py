"""hilo with Django. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import django
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from shop.models import Invoice, Order  # noqa: E402

call_command("migrate", "shop", "0002", verbosity=0)

ada = Order.objects.create(customer="Ada")

# One statement brings back the keys of 1,000 rows.
orders = [Order(customer=f"bulk {number}") for number in range(1000)]
with CaptureQueriesContext(connection) as queries:
    Order.objects.bulk_create(orders)
inserts = [query for query in queries if query["sql"].startswith("INSERT")]
assert len(inserts) == 1
stored = dict(Order.objects.values_list("pk", "customer"))
assert all(stored[order.pk] == order.customer for order in [ada, *orders])
assert len({order.pk for order in [ada, *orders]}) == 1001

# Keys that Django's identity column has made, the last of them deleted.
used = [Invoice.objects.create(order=ada).pk for _ in range(10)]
Invoice.objects.filter(pk=used[-1]).delete()


def insert():
    while not done.is_set():
        used.append(Invoice.objects.create(order=ada).pk)
    connection.close()


# The column becomes hilo's, Django's again, and hilo's again, while another thread inserts: no key comes twice.
done = Event()
with ThreadPoolExecutor() as pool:
    writer = pool.submit(insert)
    try:
        for migration in ["0003", "0002", "0003"]:
            last = max(used)
            call_command("migrate", "shop", migration, verbosity=0)
            new = [invoice.pk for invoice in Invoice.objects.bulk_create(Invoice(order=ada) for _ in range(100))]
            assert min(new) > last, f"{migration}: {new} after {last}"
            used.extend(new)
    finally:
        done.set()
    writer.result()
assert len(used) == len(set(used)) == Invoice.objects.count() + 1

# Django finds nothing to migrate; it would exit otherwise.
call_command("makemigrations", check=True, dry_run=True, verbosity=0)

print("Django: no key twice, in either direction")
