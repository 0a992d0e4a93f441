"""What a migration did, or would do."""

from __future__ import annotations

from typing import NamedTuple


class Migrated(NamedTuple):
    """A database before and after."""

    where: str
    before: int  # the number of the schema; 0: there was none
    after: int
    functions: str = ""  # what this release keeps in the database beside tables, if it was not there

    @property
    def is_change(self) -> bool:
        """Whether anything was missing."""
        return self.before != self.after or bool(self.functions)
