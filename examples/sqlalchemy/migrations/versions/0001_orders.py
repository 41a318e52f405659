"""Tables that hilo numbers. The sequence comes before the table whose default names it."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade():
    for name in ["orders", "lines", "numbers"]:
        op.execute(f"SELECT hilo_create('{name}', if_not_exists => true)")
    # The database has the default too, for those that insert without the model.
    op.create_table(
        "orders",
        sa.Column("id", sa.BigInteger, server_default=sa.text("hilo_nextval('orders')"), primary_key=True),
        sa.Column("customer", sa.String, nullable=False),
    )
    op.create_table(
        "lines",
        sa.Column("id", sa.BigInteger, server_default=sa.text("hilo_nextval('lines')"), primary_key=True),
        sa.Column("item", sa.String, nullable=False),
        sa.Column("number", sa.BigInteger, server_default=sa.text("hilo_nextval('numbers')"), nullable=False),
    )


def downgrade():
    for table in ["lines", "orders"]:
        op.drop_table(table)
    for name in ["numbers", "lines", "orders"]:
        op.execute(f"SELECT hilo_drop('{name}')")
