"""A key that hilo numbers, for Django: copy this file into your project."""

from django.db import migrations, models


class HiloAutoField(models.BigAutoField):
    """``id = HiloAutoField(sequence="orders", primary_key=True)``: Django treats it as its own automatic keys."""

    def __init__(self, *args, sequence=None, **kwargs):
        self.sequence = sequence
        super().__init__(*args, **kwargs)

    def deconstruct(self):
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {**kwargs, "sequence": self.sequence}

    def db_type(self, connection):
        return "bigint"

    def rel_db_type(self, connection):
        return "bigint"

    def db_type_suffix(self, connection):
        return f"DEFAULT hilo_nextval({literal(self.sequence)})"


class CreateSequence(migrations.RunSQL):
    """Creates a sequence, before the table whose field names it."""

    def __init__(self, name):
        self.name = name
        super().__init__(
            f"SELECT hilo_create({literal(name)}, if_not_exists => true)",
            f"SELECT hilo_drop({literal(name)}, if_exists => true)",
        )

    def deconstruct(self):
        return self.__class__.__qualname__, [self.name], {}


def literal(text):
    return "'" + text.replace("'", "''") + "'"
