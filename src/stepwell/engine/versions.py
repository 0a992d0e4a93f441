"""Versions of workflows: registered in this engine, or known to the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepwell.engine.backend import Backend
from stepwell.engine.bulks import BULK_DEFINITION
from stepwell.replay.workflows import Workflow


def of_users(definitions: Iterable[str]) -> list[str]:
    """The definitions, without system workflows."""
    return [each for each in definitions if each != BULK_DEFINITION]


class Versions:
    """`engine.versions`: which versions of which workflows there are."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def known(self) -> tuple[Workflow[Any, Any], ...]:
        """The workflows registered in this engine, by name and version."""
        registry = self._backend.registry
        known = (registry.find(definition) for definition in of_users(registry.definitions))
        return tuple(sorted((each for each in known if each), key=lambda each: (each.name, each.version)))

    async def list(self) -> list[str]:
        """Every "name@version" that a run or a worker in the store names, known here or not."""
        return of_users(await self._backend.retrying(lambda store: store.views.list_definitions()))
