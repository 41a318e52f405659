from django.db import migrations, models

from shop.hilo import CreateSequence, HiloAutoField, HiloExtension


class Migration(migrations.Migration):
    initial = True
    operations = [
        HiloExtension(),
        CreateSequence("orders"),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", HiloAutoField(sequence="orders", primary_key=True, serialize=False)),
                ("customer", models.TextField()),
            ],
            options={"db_table": "orders"},
        ),
    ]
