"""Django's backend for PostgreSQL, which resets sequences of hilo too: copy this package beside your settings.

``"ENGINE": "postgresql_hilo"`` makes ``reset_sequences`` of a ``TransactionTestCase``, ``loaddata`` and
``sqlsequencereset`` find the sequences of columns that hilo numbers. Databases that ``test --parallel`` clones have
the search_path of their original. All else is Django's own.
"""

from django.db.backends.postgresql import base, creation, operations

# The columns of some tables that hilo numbers, with their sequences.
COLUMNS = r"""
    SELECT replace(
               substring(pg_get_expr(d.adbin, d.adrelid) FROM 'hilo_nextval(?:_always)?\(''((?:[^'']|'''')*)'''),
               '''''', ''''
           ) AS name, d.adrelid::regclass AS relation, a.attname
      FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
     WHERE d.adrelid = ANY (ARRAY[{}]::regclass[])
"""


class DatabaseOperations(operations.DatabaseOperations):
    def sequence_reset_by_name_sql(self, style, sequences):
        tables = self.connection.introspection.django_table_names(only_existing=True, include_views=False)
        restart = f"SELECT hilo_setval(s.name, s.start_value, false) FROM ({self.columns(tables)}) c JOIN hilo_sequences s"
        return [*super().sequence_reset_by_name_sql(style, sequences), f"{restart} ON s.name = c.name"]

    def sequence_reset_sql(self, style, model_list):
        tables = [model._meta.db_table for model in model_list]
        sync = f"SELECT hilo_sync(name, relation, attname) FROM ({self.columns(tables)}) c WHERE name IS NOT NULL;"
        return [*super().sequence_reset_sql(style, model_list), sync]

    def columns(self, tables):
        return COLUMNS.format(", ".join("'" + self.quote_name(table).replace("'", "''") + "'" for table in tables))


class DatabaseCreation(creation.DatabaseCreation):
    def _clone_test_db(self, suffix, verbosity, keepdb=False):
        with self.connection.cursor() as cursor:
            cursor.execute("SHOW search_path")
            (path,) = cursor.fetchone()
        super()._clone_test_db(suffix, verbosity, keepdb)
        clone = self.connection.ops.quote_name(self.get_test_db_clone_settings(suffix)["NAME"])
        with self._nodb_cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {clone} SET search_path = {path}")


class DatabaseWrapper(base.DatabaseWrapper):
    creation_class = DatabaseCreation
    ops_class = DatabaseOperations
