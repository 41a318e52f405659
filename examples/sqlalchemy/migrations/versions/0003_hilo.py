"""hilo numbers the invoices from now on. Their model says so in the same commit."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade():
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SELECT hilo_adopt('invoices', 'id')")


def downgrade():
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("SELECT hilo_release('invoices', 'id', NULL)")
