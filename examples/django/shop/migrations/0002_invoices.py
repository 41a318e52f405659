from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_orders")]
    operations = [
        migrations.CreateModel(
            name="Invoice",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("order", models.ForeignKey("shop.order", models.CASCADE)),
            ],
            options={"db_table": "invoices"},
        ),
    ]
