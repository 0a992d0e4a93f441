"""The migrations and functions, read once. Both are templates in which the names of the schemas are inserted."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from stepwell.stores.postgres.composites import resolve
from stepwell.stores.sql.migrations import load_migrations
from stepwell.stores.sql.statements import load_statements

FOLDER = Path(__file__).parent
MIGRATIONS = load_migrations(FOLDER / "migrations")
SQL = load_statements(FOLDER / "statements")

# In the order of creation: types first, and inlined functions before their users.
_ORDER: Final = (
    "shared",
    "histories",
    "attributes",
    "claims",
    "outbox",
    "events",
    "ends",
    "starts",
    "moves",
    "batch_fast",
    "commits",
    "signals",
    "records",
    "single_fast",
    "workers",
    "operators",
    "holds",
    "amendments",
    "views",
    "listings",
    "overviews",
    "blobs",
    "ledger",
    "retention",
    "packed_items",
    "transfers",
)
FUNCTIONS: Final = resolve(
    "\n".join((FOLDER / "functions" / f"{name}.sql").read_text(encoding="utf-8") for name in _ORDER)
)
# The functions of a release are in a schema of their own, named by their digest. So workers of two releases can share
# the tables, and neither changes the functions of the other.
USE_LOCK: Final = 1398034262  # the class of the advisory locks that sessions hold on the functions they use
DIGEST: Final = hashlib.sha256(FUNCTIONS.encode()).hexdigest()[:10]


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def functions_schema(schema: str) -> str:
    """The schema that holds this release's functions."""
    return f"{schema}_{DIGEST}"


def render(text: str, schema: str) -> str:
    """A template with the names of the schemas inserted."""
    return text.replace("{t}", quoted(schema)).replace("{f}", quoted(functions_schema(schema)))
