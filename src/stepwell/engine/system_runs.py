"""System runs: stepwell's own workflows. Listings leave them out unless they are asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.stores.base.filters import Field
from stepwell.stores.base.views import RunFilter

BULK: Final = "stepwell.bulk"  # acts on many runs
SYSTEM_WORKFLOWS: Final = frozenset({BULK})
_NAMING: Final = frozenset({Field.ID, Field.KEY, Field.WORKFLOW})

ListPage = Callable[[int, RunId | None], Awaitable[list[Run]]]
"""Reads up to so many runs behind one."""


def names_system(where: RunFilter) -> bool:
    """Whether a filter may ask for system runs by name: by id, key, parent or workflow."""
    if where.workflow is not None or where.key is not None or where.parent is not None:
        return True
    return any(one.field in _NAMING and not one.negated for one in where.conditions)


async def list_own(list_page: ListPage, limit: int, before: RunId | None) -> list[Run]:
    """A page without system runs. It is short only at the end of the list."""
    found: list[Run] = []
    while len(found) < limit:
        wanted = limit - len(found)
        page = await list_page(wanted, before)
        found += [run for run in page if run.workflow not in SYSTEM_WORKFLOWS]
        if len(page) < wanted:
            break
        before = page[-1].run_id
    return found
