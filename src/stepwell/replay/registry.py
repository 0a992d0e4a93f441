"""The registry: workflows by name and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepwell.errors import DuplicateNameError, InvalidOptionError, UnknownWorkflowError
from stepwell.nearest import nearest
from stepwell.replay.step_options import qualified_name
from stepwell.replay.workflows import Workflow

SYSTEM = "stepwell."  # how the names of stepwell's own workflows begin


class Registry:
    """The workflows that one engine knows."""

    def __init__(self, workflows: Iterable[Workflow[Any, Any]] = ()) -> None:
        self._known: dict[str, Workflow[Any, Any]] = {}
        self._newest: dict[str, Workflow[Any, Any]] = {}
        self._latent: dict[str, Callable[[], Workflow[Any, Any]]] = {}
        self._patterns: dict[str, Workflow[Any, Any]] = {}  # by what the names that they serve begin with
        self.declares_signals = False  # whether any workflow declares its signals
        for each in workflows:
            self.add(each)

    def add(self, definition: Workflow[Any, Any]) -> None:
        """Register a workflow. Raises `DuplicateNameError` if another function has the same name and version."""
        if not isinstance(definition, Workflow):
            raise InvalidOptionError(f"{definition!r} is not a workflow", fix="decorate it with @workflow")
        if definition.is_pattern:
            self._add_pattern(definition)
            return
        known = self._known.get(definition.definition)
        if known is not None and known.fn is not definition.fn:
            raise DuplicateNameError(
                f"two workflows are called {definition.definition}",
                where=f"{qualified_name(known.fn)} and {qualified_name(definition.fn)}",
                fix="give one another name or version: @workflow(name=..., version=...)",
            )
        self._add_known(definition)
        newest = self._newest.get(definition.name)
        if newest is None or newest.version <= definition.version:
            self._newest[definition.name] = definition

    def serve(self, definition: str, make: Callable[[], Workflow[Any, Any]]) -> None:
        """Execute runs of a "name@version" that callers do not start by name. `make` is called for the first run; a
        known workflow is kept.
        """
        if definition not in self._known:
            self._latent[definition] = make

    @property
    def definitions(self) -> tuple[str, ...]:
        """Every "name@version"."""
        return (*self._known, *self._latent)

    def newest(self, name: str) -> Workflow[Any, Any]:
        """The newest version of a workflow. Raises `UnknownWorkflowError` with the nearest names."""
        found = self._newest.get(name) or self._named_like(name)
        if found is None:
            raise UnknownWorkflowError(
                "workflow", name, near=nearest(name, self._newest), fix=f"known: {', '.join(self._newest) or 'none'}"
            )
        return found

    def find_newest(self, name: str) -> Workflow[Any, Any] | None:
        """The newest version of a workflow, if one is known here."""
        return self._newest.get(name)

    def near(self, name: str) -> list[str]:
        """The names of workflows nearest to one that is not known."""
        return nearest(name, self._newest)

    def find(self, definition: str) -> Workflow[Any, Any] | None:
        """The workflow of a "name@version", if it is known here."""
        found = self._known.get(definition)
        if found is None and definition in self._latent:
            found = self._latent.pop(definition)()
            self._add_known(found)
        if found is None and self._patterns:
            name, _, version = definition.rpartition("@")
            found = self._named_like(name, version)
        return found

    @property
    def has_patterns(self) -> bool:
        """Whether it serves workflows whose names only begin like those of a pattern."""
        return bool(self._patterns)

    def _add_pattern(self, definition: Workflow[Any, Any]) -> None:
        beginning = definition.name[:-1]
        known = self._patterns.get(beginning)
        if known is not None and known.fn is not definition.fn:
            raise DuplicateNameError(
                f"two workflows serve the names {definition.name!r}",
                where=f"{qualified_name(known.fn)} and {qualified_name(definition.fn)}",
                fix="give one of them a longer beginning",
            )
        self._patterns[beginning] = definition

    def _named_like(self, name: str, version: str = "") -> Workflow[Any, Any] | None:
        """The workflow of a name that the longest fitting pattern serves; it is known from now on."""
        fitting = [one for beginning, one in self._patterns.items() if name.startswith(beginning) and name != one.name]
        if not fitting or name.startswith(SYSTEM):
            return None
        pattern = max(fitting, key=lambda one: len(one.name))
        if version not in ("", str(pattern.version)):
            return None
        found = pattern.called(name)
        self._add_known(found)
        self._newest.setdefault(name, found)
        return found

    def _add_known(self, definition: Workflow[Any, Any]) -> None:
        self._known[definition.definition] = definition
        self.declares_signals |= definition.mailbox.declared is not None
