"""Numbered, forward-only migrations from a folder of .sql files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from stepwell.errors import SchemaMismatchError


class Migration(NamedTuple):
    """One step of the schema, from `number - 1` to `number`."""

    number: int
    name: str
    text: str


def load_migrations(folder: Path) -> tuple[Migration, ...]:
    """The migrations in a folder, in order. Raises `ValueError` unless they are numbered 1, 2, 3 … without a gap."""
    found = []
    for file in sorted(folder.glob("*.sql")):
        number, _, name = file.stem.partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations are not numbered in order: {[m.number for m in found]}")
    return tuple(found)


def pending_migrations(migrations: tuple[Migration, ...], version: int, *, where: str) -> tuple[Migration, ...]:
    """The migrations that a database of schema `version` needs. Raises `SchemaMismatchError` if it is newer than this
    stepwell.
    """
    newest = migrations[-1].number
    if version > newest:
        raise SchemaMismatchError(
            f"this database has schema {version}, and this stepwell knows schemas up to {newest}",
            where=where,
            why="it was created or migrated by a newer stepwell",
            fix="upgrade stepwell, or use another database",
        )
    return migrations[version:]
