"""Prints what SQLAlchemy reflects, and what Alembic would do to make the database like the models."""

import warnings

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import BigInteger, ForeignKey, MetaData, create_engine
from sqlalchemy.exc import SAWarning
from sqlalchemy.ext.automap import automap_base
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

warnings.simplefilter("error", SAWarning)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    customer: Mapped[str]


class Invoice(Base):
    __tablename__ = "invoices"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))


engine = create_engine("postgresql+psycopg://")
metadata = MetaData()
metadata.reflect(engine)
print("tables:", *sorted(metadata.tables))
automap = automap_base()
automap.prepare(engine)
print("classes:", *sorted(automap.classes.keys()))
with engine.connect() as connection:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True})
    for line in render_python_code(produce_migrations(context, Base.metadata).upgrade_ops).splitlines():
        print(line.strip())
