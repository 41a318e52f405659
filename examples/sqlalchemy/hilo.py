"""A sequence of hilo for SQLAlchemy: copy this file into your project."""

from sqlalchemy import Sequence, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateSequence, DropSequence
from sqlalchemy.sql.functions import next_value


class HiloSequence(Sequence):
    """Numbers a primary key: ``mapped_column(BigInteger, HiloSequence("orders"), primary_key=True)``.

    SQLAlchemy treats it as a sequence, so one INSERT carries many rows and brings all their ids back.
    With the ``metadata`` of the tables, ``create_all`` creates it; ``DropSequence`` drops it.
    """


def quoted(sequence, compiler):
    return compiler.render_literal_value(sequence.name, String())


@compiles(HiloSequence, "postgresql")
def compile_default(sequence, compiler, **options):
    return f"hilo_nextval({quoted(sequence, compiler)})"


@compiles(next_value, "postgresql")
def compile_next_value(function, compiler, **options):
    if isinstance(function.sequence, HiloSequence):
        return compile_default(function.sequence, compiler)
    return compiler.visit_next_value_func(function, **options)


@compiles(CreateSequence, "postgresql")
def compile_create(ddl, compiler, **options):
    if isinstance(ddl.element, HiloSequence):
        return f"SELECT hilo_create({quoted(ddl.element, compiler.sql_compiler)}, if_not_exists => true)"
    return compiler.visit_create_sequence(ddl, **options)


@compiles(DropSequence, "postgresql")
def compile_drop(ddl, compiler, **options):
    if isinstance(ddl.element, HiloSequence):
        return f"SELECT hilo_drop({quoted(ddl.element, compiler.sql_compiler)}, if_exists => true)"
    return compiler.visit_drop_sequence(ddl, **options)
