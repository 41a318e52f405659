"""What Django's tests do to sequences: ``python3 -m django test --settings settings``."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from django.core.management import call_command
from django.test import TestCase, TransactionTestCase

from shop.models import Invoice, Order


class Rollbacks(TestCase):
    """Each test is a transaction that is rolled back; its numbers are used up."""

    def test_keys(self):
        orders = Order.objects.bulk_create(Order(customer="Ada") for _ in range(10))
        self.assertEqual(len({order.pk for order in orders}), 10)
        self.assertTrue(Invoice.objects.create(order=orders[0]).pk)


class Restarts(TransactionTestCase):
    """Each test finds empty tables, and sequences that begin at the beginning."""

    reset_sequences = True

    def keys(self):
        order = Order.objects.create(customer="Ada")
        return order.pk, Invoice.objects.create(order=order).pk

    def test_first(self):
        self.assertEqual(self.keys(), (1, 1))
        self.assertEqual(self.keys(), (2, 2))

    def test_second(self):
        self.assertEqual(self.keys(), (1, 1))

    def test_the_next_key_is_behind_those_of_loaddata(self):
        rows = [{"model": "shop.order", "pk": 1234, "fields": {"customer": "Grace"}}]
        with TemporaryDirectory() as folder:
            fixture = Path(folder, "orders.json")
            fixture.write_text(json.dumps(rows))
            call_command("loaddata", fixture, verbosity=0)
        self.assertEqual(self.keys(), (1235, 1))
