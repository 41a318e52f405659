"""A table with an integer key, which hilo takes over."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade():
    op.create_table("receipts", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("SELECT hilo_adopt('receipts', 'id')")


def downgrade():
    op.drop_table("receipts")
