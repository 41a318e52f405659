"""The key becomes a bigint, and its sequence with it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade():
    op.alter_column("receipts", "id", existing_type=sa.Integer, type_=sa.BigInteger)


def downgrade():
    op.alter_column("receipts", "id", existing_type=sa.BigInteger, type_=sa.Integer)
