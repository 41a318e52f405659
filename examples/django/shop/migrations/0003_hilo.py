from django.db import migrations

from shop.hilo import HiloAutoField

ADOPT = "SET LOCAL lock_timeout = '5s'; SELECT hilo_adopt('invoices', 'id')"
RELEASE = "SET LOCAL lock_timeout = '5s'; SELECT hilo_release('invoices', 'id')"


class Migration(migrations.Migration):
    dependencies = [("shop", "0002_invoices")]
    # AlterField by itself would change nothing in the database.
    operations = [
        migrations.RunSQL(
            ADOPT,
            RELEASE,
            state_operations=[
                migrations.AlterField(
                    "Invoice", "id", HiloAutoField(sequence="invoices_id_seq", primary_key=True, serialize=False)
                )
            ],
        )
    ]
