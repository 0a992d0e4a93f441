"""The result of a migration, or of a dry run."""

from __future__ import annotations

from typing import NamedTuple


class Migrated(NamedTuple):
    """The schema of a database before and after a migration."""

    where: str
    before: int  # the number of the schema; 0: there was none
    after: int
    functions: str = ""  # the functions that this release added to the database, if any
    dropped: tuple[str, ...] = ()  # the functions of other releases, which nobody used any more

    @property
    def is_change(self) -> bool:
        """Whether anything was missing in the database."""
        return self.before != self.after or bool(self.functions) or bool(self.dropped)
