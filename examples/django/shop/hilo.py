"""A key that hilo numbers, for Django, and migrations for it: copy this file into your project."""

from django.db import migrations, models, router
from django.db.migrations.operations.base import Operation


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


class HiloExtension(Operation):
    """Creates the extension in a schema of its own, before the first sequence, if it is not there.

    In a database of one's own this needs no superuser. If the search_path lacks the schema of hilo, the database
    gets one that ends with it. To undo the migration leaves both as they are: others may use them.
    """

    reversible = True

    def __init__(self, schema="hilo"):
        self.schema = schema

    def state_forwards(self, app_label, state):
        pass

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        pass

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        connection = schema_editor.connection
        if connection.vendor != "postgresql" or not router.allow_migrate(connection.alias, app_label):
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'hilo'")
            if found := cursor.fetchone():
                schema = found[0]
            else:
                schema = connection.ops.quote_name(self.schema)
                cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                cursor.execute(f"CREATE EXTENSION hilo SCHEMA {schema}")
                cursor.execute(f"GRANT USAGE ON SCHEMA {schema} TO PUBLIC")
            cursor.execute("SELECT to_regtype('hilo_sequence') IS NULL, current_setting('search_path')")
            hidden, path = cursor.fetchone()
            if hidden:
                database = connection.ops.quote_name(connection.settings_dict["NAME"])
                cursor.execute(f"ALTER DATABASE {database} SET search_path = {path}, {schema}")
                cursor.execute(f"SET search_path = {path}, {schema}")

    def describe(self):
        return "Creates the extension hilo"

    @property
    def migration_name_fragment(self):
        return "hilo"


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
