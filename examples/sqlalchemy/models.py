"""The models that migrations/ creates the tables of."""

from sqlalchemy import BigInteger, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from hilo import HiloSequence


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(BigInteger, HiloSequence("orders"), primary_key=True)
    customer: Mapped[str]


class Line(Base):
    """A value that is no key. Its default is written exactly as the server prints it: see docs/clients.md."""

    __tablename__ = "lines"

    id: Mapped[int] = mapped_column(BigInteger, HiloSequence("lines"), primary_key=True)
    item: Mapped[str]
    number: Mapped[int] = mapped_column(BigInteger, server_default=text("hilo_nextval('numbers'::hilo_sequence)"))


class Receipt(Base):
    """Began with an integer key, as SQLAlchemy makes it; the model does not know of hilo."""

    __tablename__ = "receipts"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)


class Invoice(Base):
    """Began with a key of SQLAlchemy's own; the third migration gives it to hilo."""

    __tablename__ = "invoices"

    id: Mapped[int] = mapped_column(BigInteger, HiloSequence("invoices_id_seq"), primary_key=True)
    customer: Mapped[str]
