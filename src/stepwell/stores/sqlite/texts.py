"""The statements and migrations, read once."""

from __future__ import annotations

from pathlib import Path

from stepwell.stores.sql.migrations import load_migrations
from stepwell.stores.sql.statements import load_statements
from stepwell.stores.sqlite.columns import resolve

FOLDER = Path(__file__).parent
SQL = {name: resolve(text) for name, text in load_statements(FOLDER / "statements").items()}
MIGRATIONS = load_migrations(FOLDER / "migrations")
