"""The statements and migrations, read once."""

from __future__ import annotations

from pathlib import Path

from stepwell.stores.sql.migrations import load_migrations
from stepwell.stores.sql.statements import load_statements

FOLDER = Path(__file__).parent
SQL = load_statements(FOLDER / "statements")
MIGRATIONS = load_migrations(FOLDER / "migrations")
