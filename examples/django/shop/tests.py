"""What Django's tests do to sequences: ``python3 -m django test --settings settings``."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from django.core.management import call_command
from django.core.management.color import no_style
from django.db import connection, migrations, models
from django.db.migrations.state import ProjectState
from django.test import TestCase, TransactionTestCase

from shop.models import Invoice, Order


class Rollbacks(TestCase):
    """Each test is a transaction that is rolled back; its numbers are used up."""

    def test_keys(self):
        orders = Order.objects.bulk_create(Order(customer="Ada") for _ in range(10))
        self.assertEqual(len({order.pk for order in orders}), 10)
        self.assertTrue(Invoice.objects.create(order=orders[0]).pk)


class Fixtures(TestCase):
    """Each test finds the rows of the fixture, and is rolled back."""

    fixtures = ["orders"]

    def test_the_next_key_is_behind_those_of_the_fixture(self):
        first, second = (Order.objects.create(customer="Barbara").pk for _ in range(2))
        self.assertTrue(2 < first < second)

    def test_the_next_key_is_behind_those_of_a_migration(self):
        Order.objects.create(pk=10_000, customer="Barbara")
        (reset,) = connection.ops.sequence_reset_sql(no_style(), [Order])
        with connection.cursor() as cursor:
            # Whatever the search_path is.
            cursor.execute("SET LOCAL search_path = public")
            cursor.execute(reset)
            cursor.execute("INSERT INTO orders (customer) VALUES ('Edsger') RETURNING id")
            self.assertGreater(cursor.fetchone()[0], 10_000)


class Migrations(TransactionTestCase):
    """A table begins with a key of Django's own, which hilo takes over."""

    def setUp(self):
        self.state = ProjectState()
        self.migrate(
            migrations.CreateModel("Receipt", [("id", models.AutoField(primary_key=True)), ("note", models.TextField())]),
            migrations.RunSQL("SELECT hilo_adopt('shop_receipt', 'id')"),
        )

    def tearDown(self):
        self.migrate(migrations.DeleteModel("Receipt"))

    def migrate(self, *operations):
        for operation in operations:
            before, self.state = self.state, self.state.clone()
            operation.state_forwards("shop", self.state)
            with connection.schema_editor() as editor:
                operation.database_forwards("shop", editor, before, self.state)

    def become(self, field):
        self.migrate(migrations.AlterField("Receipt", "id", field(primary_key=True)))

    def sequences(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT data_type::text, max_value FROM hilo_sequences WHERE name = 'shop_receipt_id_seq'")
            return cursor.fetchall()

    def insert(self, **values):
        return self.state.apps.get_model("shop", "Receipt").objects.create(**values).pk

    def test_an_integer_key_becomes_a_bigint_one(self):
        self.assertEqual(self.sequences(), [("integer", 2**31 - 1)])
        self.become(models.BigAutoField)
        self.assertEqual(self.sequences(), [("bigint", 2**63 - 1)])
        self.insert(id=2**31 - 1)
        with connection.cursor() as cursor:
            cursor.execute("SELECT hilo_sync('shop_receipt_id_seq', 'shop_receipt', 'id')")
        self.assertEqual(self.insert(), 2**31)

    def test_a_migration_loads_a_fixture_and_creates_a_row(self):
        def load(apps, editor):
            call_command("loaddata", "orders", verbosity=0)
            self.assertGreater(Order.objects.create(customer="Barbara").pk, 2)

        self.migrate(migrations.RunPython(load))
        self.assertGreater(Order.objects.create(customer="Edsger").pk, 3)

    def test_a_column_that_hilo_numbers_becomes_a_key(self):
        self.become(models.IntegerField)
        self.migrate(
            migrations.RunSQL("SELECT hilo_create('receipts', 20, owned_by => 'shop_receipt.id')"),
            migrations.RunSQL("ALTER TABLE shop_receipt ALTER id SET DEFAULT hilo_nextval('receipts')"),
        )
        self.become(models.AutoField)
        self.assertEqual(self.insert(), 20)

    def test_a_key_becomes_an_ordinary_column_and_a_key_again(self):
        self.assertEqual(self.insert(), 1)
        self.become(models.IntegerField)
        self.assertEqual(self.sequences(), [])
        self.assertEqual(self.insert(id=7), 7)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_get_serial_sequence('shop_receipt', 'id')")
            self.assertIsNone(cursor.fetchone()[0])
        self.become(models.AutoField)
        self.migrate(migrations.RunSQL("SELECT hilo_adopt('shop_receipt', 'id')"))
        self.assertEqual(self.insert(), 8)


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
