"""hilo with Alembic. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import Session

from models import Invoice, Line, Order, Receipt

config = Config("alembic.ini")
command.upgrade(config, "0002")
engine = create_engine("postgresql+psycopg://")

# A key of SQLAlchemy's own becomes hilo's, a bigserial again, and hilo's again, while another thread inserts.
insert = text("INSERT INTO invoices (customer) VALUES ('Ada') RETURNING id")
used = []
done = Event()


def insert_all_the_time():
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while not done.is_set():
            used.append(connection.scalar(insert))


with ThreadPoolExecutor() as pool:
    writer = pool.submit(insert_all_the_time)
    try:
        for migrate, revision in [(command.upgrade, "0003"), (command.downgrade, "0002"), (command.upgrade, "head")]:
            last = max(used, default=0)
            migrate(config, revision)
            with engine.begin() as connection:
                used.append(connection.scalar(insert))
            assert used[-1] > last
    finally:
        done.set()
    writer.result()
assert len(used) == len(set(used))

with Session(engine) as session, session.begin():
    session.add(Line(item="first"))
    # The sequence of a key that has become a bigint goes on beyond the integers.
    assert session.scalar(text("SELECT data_type::text FROM hilo_sequences WHERE name = 'receipts_id_seq'")) == "bigint"
    session.execute(text("SELECT hilo_setval('receipts_id_seq', 2147483647)"))
    receipt = Receipt()
    session.add(receipt)
    session.flush()
    assert receipt.id == 2**31

# The comparison finds nothing to do, and draws no numbers: it raises an error otherwise.
for _ in range(3):
    command.check(config)

with Session(engine) as session, session.begin():
    lines = [Line(item=f"bulk {number}") for number in range(1000)]
    orders = [Order(customer=f"bulk {number}") for number in range(1000)]
    invoices = [Invoice(customer=f"bulk {number}") for number in range(1000)]
    session.add_all([*lines, *orders, *invoices])
    # Without the model, the default of the database numbers the row.
    plain = session.scalar(text("INSERT INTO orders (customer) VALUES ('plain') RETURNING id"))
    session.flush()
    assert [line.id for line in lines] == list(range(2, 1002))
    assert sorted(session.scalars(select(Line.number))) == list(range(1, 1002)), "the comparison drew numbers"
    ids = [plain, *(order.id for order in orders)]
    assert len(ids) == len(set(ids)) == 1001
    assert {invoice.id for invoice in invoices}.isdisjoint(used)

print("Alembic: three comparisons, no difference, no number drawn")
