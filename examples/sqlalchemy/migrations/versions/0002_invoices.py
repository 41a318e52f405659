"""A table with a key of SQLAlchemy's own, a bigserial."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.create_table(
        "invoices",
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("customer", sa.String, nullable=False),
    )


def downgrade():
    op.drop_table("invoices")
