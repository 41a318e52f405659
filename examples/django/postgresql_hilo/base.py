"""Django's backend for PostgreSQL, which knows columns that hilo numbers: copy this package beside your settings.

With ``"ENGINE": "postgresql_hilo"``, ``reset_sequences`` of a ``TransactionTestCase``, fixtures, ``loaddata`` and
``sqlsequencereset`` find the sequences of such columns, and migrations can make an automatic key an ordinary column,
and back. Databases that ``test --parallel`` clones have the search_path of their original. All else is Django's own.
"""

from typing import NamedTuple

from django.db.backends.postgresql import base, creation, operations, schema

# The columns of some tables that hilo numbers. The default says in which schema hilo is, whatever the search_path.
COLUMNS = r"""
    SELECT format('%%I.%%I', s.nspname, c.relname), a.attname, quote_ident(n.nspname),
           substring(pg_get_expr(d.adbin, d.adrelid) FROM 'hilo_nextval(?:_always)?\((''(?:[^'']|'''')*'')')
      FROM unnest(%s::text[]) AS t (name)
      JOIN pg_attrdef d ON d.adrelid = to_regclass(t.name)
      JOIN pg_class c ON c.oid = d.adrelid
      JOIN pg_namespace s ON s.oid = c.relnamespace
      JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
      JOIN pg_depend u ON u.classid = 'pg_attrdef'::regclass AND u.objid = d.oid AND u.refclassid = 'pg_proc'::regclass
      JOIN pg_proc f ON f.oid = u.refobjid AND f.proname IN ('hilo_nextval', 'hilo_nextval_always')
      JOIN pg_namespace n ON n.oid = f.pronamespace
     ORDER BY d.adrelid, a.attnum
"""


class Column(NamedTuple):
    """A column that hilo numbers. All but its name is quoted for SQL."""

    table: str
    name: str
    schema: str
    sequence: str

    def call(self, function, *arguments):
        named = f"{self.sequence}::{self.schema}.hilo_sequence"
        return f"SELECT {self.schema}.{function}({', '.join([named, *arguments])})"

    @property
    def place(self):
        return f"{literal(self.table)}::regclass, {literal(self.name)}::name"

    @property
    def definition(self):
        return f"{self.schema}.hilo_sequences s WHERE s.name = {self.sequence}"


def literal(text):
    return "'" + text.replace("'", "''") + "'"


def hilo_columns(connection, *tables):
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS, [[connection.ops.quote_name(table) for table in tables]])
        return [Column(*row) for row in cursor.fetchall() if row[3]]


class DatabaseOperations(operations.DatabaseOperations):
    def sequence_reset_by_name_sql(self, style, sequences):
        tables = self.connection.introspection.django_table_names(only_existing=True, include_views=False)
        found = hilo_columns(self.connection, *tables)
        restarts = [f"{column.call('hilo_setval', 's.start_value', 'false')} FROM {column.definition};" for column in found]
        return [*super().sequence_reset_by_name_sql(style, sequences), *restarts]

    def sequence_reset_sql(self, style, model_list):
        output = []
        for model in model_list:
            found = hilo_columns(self.connection, model._meta.db_table)
            ours = [self.reset(column) for column in found]
            key = model._meta.auto_field
            if not any(key and column.name == key.column for column in found):
                output.extend(super().sequence_reset_sql(style, [model]))
            output.extend(ours)
        return output

    def reset(self, column):
        """Moves a sequence beyond the values of its column. Nobody gets a number a second time."""
        if not self.connection.in_atomic_block:
            return f"{column.call('hilo_sync', column.place)};"
        # As with setval, the transaction can draw afterwards. What others may have drawn is skipped.
        name = self.quote_name(column.name)
        values = f"(SELECT max({name}) AS last FROM {column.table}) m"
        call = column.call("hilo_setval", "greatest(m.last, s.max_reserved)")
        return f"{call} FROM {values}, {column.definition} AND m.last IS NOT NULL;"


class DatabaseSchemaEditor(schema.DatabaseSchemaEditor):
    def _alter_column_type_sql(self, model, old_field, new_field, *args):
        automatic = {"AutoField", "BigAutoField", "SmallAutoField"}
        was, becomes = (field.get_internal_type() in automatic for field in (old_field, new_field))
        found = hilo_columns(self.connection, model._meta.db_table) if was != becomes else []
        for column in found:
            if column.name == new_field.column and was:
                # It becomes an identity column, which Django makes an ordinary one.
                self.execute(f"SELECT {column.schema}.hilo_release({column.place})", None)
        fragment, actions = super()._alter_column_type_sql(model, old_field, new_field, *args)
        if becomes and any(column.name == new_field.column for column in found):
            # hilo numbers it already.
            actions = []
        return fragment, actions


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
    SchemaEditorClass = DatabaseSchemaEditor
    creation_class = DatabaseCreation
    ops_class = DatabaseOperations
