from django.db import models

from shop.hilo import HiloAutoField


class Order(models.Model):
    """Has been numbered by hilo from the beginning."""

    id = HiloAutoField(sequence="orders", primary_key=True)
    customer = models.TextField()

    class Meta:
        db_table = "orders"


class Invoice(models.Model):
    """Began with Django's own key; the third migration gives it to hilo."""

    id = HiloAutoField(sequence="invoices_id_seq", primary_key=True)
    order = models.ForeignKey(Order, models.CASCADE)

    class Meta:
        db_table = "invoices"
