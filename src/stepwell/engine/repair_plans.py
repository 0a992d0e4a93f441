"""Plans of repairs: what a repair does to a run, as data and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from stepwell.engine.repair_drafts import Draft
from stepwell.model.locations import Location, is_undoing
from stepwell.model.states import EntryKind

RepairVerb = Literal["rewind", "skip", "redrive", "fork"]
SHOWN = 12  # paths in a line


class Foresight(NamedTuple):
    """What a dry replay of a repaired record has shown. Nothing, if the workflow is not known here."""

    is_known: bool = False
    warnings: tuple[str, ...] = ()
    following: tuple[str, ...] = ()  # the steps that run first
    waits: tuple[str, ...] = ()  # where it waits beside them


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair keeps, drops and runs again. `is_applied` tells whether it was done."""

    verb: RepairVerb
    run_id: str
    before: str  # the run's status
    version: int  # of the workflow that it continues with
    path: str | None = None  # where it continues, or what was skipped
    kept: tuple[str, ...] = ()  # recorded, and not run again
    dropped: tuple[str, ...] = ()  # recorded, and run again if the code reaches it
    undone: tuple[str, ...] = ()  # of the dropped: steps that had been undone
    not_undone: tuple[str, ...] = ()  # of the dropped: steps with a compensation, whose effects stay
    supplied: tuple[str, ...] = ()  # recorded with the result that was given
    cancelled: tuple[str, ...] = ()  # children that are stopped
    left: tuple[str, ...] = ()  # children that ended, or that the run does not wait for
    retried: tuple[str, ...] = ()  # failed children that are retried
    has_new_input: bool = False
    new_version: int | None = None
    fork_id: str | None = None  # the run that a fork makes
    warnings: tuple[str, ...] = ()
    is_rehearsed: bool = False  # the code is known here, and a dry replay has shown the following two
    following: tuple[str, ...] = ()  # the steps that run first
    waits: tuple[str, ...] = ()  # where it waits beside them
    is_applied: bool = False

    @property
    def lines(self) -> list[str]:
        """The plan for people, one fact per line."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        done = "" if self.is_applied else "would "
        yield f"{self.verb} {'done' if self.is_applied else 'planned'}: run {self.run_id} was {self.before}"
        if self.fork_id is not None and self.is_applied:
            yield f"  new run: {self.fork_id}"
        if self.path is not None and self.verb != "skip":
            yield f"  from: {self.path}"
        if self.new_version is not None:
            yield f"  version: {self.new_version} instead of {self.version}"
        if self.has_new_input:
            yield "  input: changed"
        for label, paths in (
            ("kept, not run again", self.kept),
            ("run again", self.dropped),
            ("run again because it was undone", self.undone),
            ("not undone, its effect stays", self.not_undone),
            ("recorded with the given result", self.supplied),
            (f"children that {done}be stopped" if done else "children stopped", self.cancelled),
            ("children left as they are", self.left),
            (f"failed children that {done}try again" if done else "failed children that are retried", self.retried),
        ):
            if paths:
                yield f"  {label}: {_some(paths)}"
        yield from (f"  careful: {warning}" for warning in self.warnings)


def _some(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


def describe(verb: RepairVerb, draft: Draft, path: str | None, seen: Foresight) -> RepairPlan:
    """The plan of a draft."""
    supplied = {entry.location for entry in draft.entries}
    dropped = sorted(draft.dropped.values(), key=lambda entry: entry.seq)
    again = [entry for entry in dropped if entry.location not in supplied and not is_undoing(entry.location)]
    stays = [entry for entry in again if entry.undo is not None and entry.location not in draft.undone]
    stopped = {one.run_id for one in draft.children}
    children = [child for child in draft.detail.children if child.run_id in stopped]
    active = [one for one in children if one.ended_at is None and one.parent is not None and not one.parent.detached]

    def paths(locations: list[Location]) -> tuple[str, ...]:
        return tuple(draft.path(location) for location in locations)

    return RepairPlan(
        verb,
        draft.run.run_id,
        draft.run.status.value,
        draft.run.version,
        path,
        kept=paths([entry.location for entry in draft.kept if entry.kind is not EntryKind.UNDO]),
        dropped=paths([entry.location for entry in again]),
        undone=paths(sorted(draft.undone)),
        not_undone=paths([entry.location for entry in stays]),
        supplied=paths(sorted(supplied)),
        cancelled=tuple(one.run_id for one in active),
        left=tuple(one.run_id for one in children if one not in active),
        retried=tuple(draft.retries),
        has_new_input=draft.input is not None,
        new_version=draft.version,
        warnings=seen.warnings,
        is_rehearsed=seen.is_known,
        following=seen.following,
        waits=seen.waits,
    )
