"""hilo with Alembic. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import Session

from models import Line, Order

config = Config("alembic.ini")
command.upgrade(config, "head")
engine = create_engine("postgresql+psycopg://")

with Session(engine) as session, session.begin():
    session.add(Line(item="first"))

# The comparison finds nothing to do, and draws no numbers: it raises an error otherwise.
for _ in range(3):
    command.check(config)

with Session(engine) as session, session.begin():
    lines = [Line(item=f"bulk {number}") for number in range(1000)]
    orders = [Order(customer=f"bulk {number}") for number in range(1000)]
    session.add_all([*lines, *orders])
    # Without the model, the default of the database numbers the row.
    plain = session.scalar(text("INSERT INTO orders (customer) VALUES ('plain') RETURNING id"))
    session.flush()
    assert [line.id for line in lines] == list(range(2, 1002))
    assert sorted(session.scalars(select(Line.number))) == list(range(1, 1002)), "the comparison drew numbers"
    ids = [plain, *(order.id for order in orders)]
    assert len(ids) == len(set(ids)) == 1001

print("Alembic: three comparisons, no difference, no number drawn")
