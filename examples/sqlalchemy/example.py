"""hilo with SQLAlchemy. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

from sqlalchemy import BigInteger, Column, MetaData, String, Table, create_engine, event, func, insert, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.schema import CreateSequence, DropSequence

from hilo import HiloSequence


class Base(DeclarativeBase):
    pass


orders = HiloSequence("orders", metadata=Base.metadata)
slow = HiloSequence("slow", metadata=Base.metadata)


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(BigInteger, orders, primary_key=True)
    customer: Mapped[str]


class Invoice(Base):
    """As SQLAlchemy has it without hilo: the column is a bigserial until the database adopts it."""

    __tablename__ = "invoices"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    customer: Mapped[str]


class Slow(Base):
    """The way that is right and slow: SQLAlchemy sends one INSERT for each row."""

    __tablename__ = "slow"

    id: Mapped[int] = mapped_column(BigInteger, server_default=text("hilo_nextval('slow')"), primary_key=True)
    customer: Mapped[str]


# Without RETURNING, SQLAlchemy draws before it inserts: by the default of the model, not by core's nextval.
plain = Table(
    "plain",
    Base.metadata,
    Column("id", BigInteger, default=func.hilo_nextval("orders"), primary_key=True),
    Column("customer", String),
    implicit_returning=False,
)

engine = create_engine("postgresql+psycopg://")
statements = 0


@event.listens_for(engine, "before_cursor_execute")
def count(*_):
    global statements
    statements += 1


def flush(session, model, rows):
    """Inserts through the unit of work; returns the objects, and how many statements that took."""
    global statements
    objects = [model(customer=f"bulk {number}") for number in range(rows)]
    session.add_all(objects)
    statements = 0
    session.flush()
    return objects, statements


Base.metadata.create_all(engine)
Base.metadata.create_all(engine)  # changes nothing
with engine.begin() as connection:
    connection.execute(text("SELECT hilo_adopt('invoices', 'id')"))
with Session(engine) as session, session.begin():
    ada = Order(customer="Ada")
    session.add(ada)
    session.flush()

    # 5,000 rows with their ids are a few statements, and each object has the id of its own row.
    many, took = flush(session, Order, 5000)
    assert took <= 10, f"{took} statements"
    # So are they with a model that has never heard of hilo.
    invoices, took = flush(session, Invoice, 5000)
    assert took <= 10, f"{took} statements"
    customers = dict(session.execute(text("SELECT id, customer FROM invoices")).all())
    assert all(customers[invoice.id] == invoice.customer for invoice in invoices)
    assert sorted(customers) == list(range(1, 5001))
    print(f"SQLAlchemy: {took} statements for 5,000 objects of an unchanged model")
    _, took = flush(session, Slow, 100)
    assert took == 100, f"{took} statements"

    # insert() in bulk, and a value by itself.
    rows = [{"customer": f"core {number}"} for number in range(1000)]
    returned = session.scalars(insert(Order).returning(Order.id, sort_by_parameter_order=True), rows).all()
    drawn = session.scalar(select(orders.next_value()))

    (alone,) = session.execute(insert(plain).values(customer="plain")).inserted_primary_key

    stored = dict(session.execute(text("SELECT id, customer FROM orders")).all())
    assert all(stored[order.id] == order.customer for order in [ada, *many])
    assert [stored[id] for id in returned] == [row["customer"] for row in rows]
    ids = [ada.id, *(order.id for order in many), *returned, drawn, alone]
    assert len(ids) == len(set(ids)) == 6003

# Otherwise it asks core for the next value, whatever sequence the model names.
for default in ((), (HiloSequence("orders"),)):
    keyed = Table("orders", MetaData(), Column("id", BigInteger, *default, primary_key=True), Column("customer", String), implicit_returning=False)
    try:
        with engine.begin() as connection:
            connection.execute(insert(keyed).values(customer="never"))
        raise AssertionError("SQLAlchemy has found a sequence of Postgres")
    except ProgrammingError as refusal:
        assert "nextval" in str(refusal), refusal

# Any name will do. DropSequence drops it; drop_all leaves sequences of hilo alone.
odd = HiloSequence("100% o'clock")
with engine.begin() as connection:
    connection.execute(CreateSequence(odd))
    assert connection.scalar(select(odd.next_value())) == 1
    named = select(func.count()).select_from(text("hilo_sequences WHERE name = :name")).params(name=odd.name)
    assert connection.scalar(named) == 1
    connection.execute(DropSequence(odd))
    assert connection.scalar(named) == 0

print("SQLAlchemy: 6002 rows, no id twice")
