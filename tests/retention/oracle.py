"""Which runs may go, worked out from a full dump in another way than the engine does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from stepwell.clock import Instant, Span
from stepwell.engine.retention import Retention
from stepwell.model.records import RecordFilter
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store
from stepwell.stores.base.views import RunFilter

_ALL = 1_000_000


class World(NamedTuple):
    """All runs, and those that something needs."""

    runs: dict[str, Run]
    needed: set[str]


async def dump(store: Store) -> World:
    """Read everything."""
    runs = {str(run.run_id): run for run in await store.views.list_runs(RunFilter(), limit=_ALL)}
    owed = await store.outbox.list_owed(is_dead=False, limit=_ALL)
    owed += await store.outbox.list_owed(is_dead=True, limit=_ALL)
    refused = [one for one in await store.views.list_unread(limit=_ALL) if one.reason]
    records = await store.records.list_records(RecordFilter("task", is_open=True), limit=_ALL)
    needed = {str(one.run_id) for one in owed} | {str(one.run_id) for one in refused}
    return World(runs, needed | {str(one.run_id) for one in records if one.run_id})


def allowed(world: World, retention: Retention, now: Instant) -> set[str]:
    """Every run that may be deleted now."""
    children: dict[str, set[str]] = defaultdict(set)
    for run in world.runs.values():
        if run.parent is not None:
            children[run.parent.run_id].add(run.run_id)

    def may_go(run_id: str) -> bool:
        run = world.runs[run_id]
        if run.ended_at is None or run_id in world.needed or run.ended_at + run.dedup > now:
            return False
        keep = retention.span_of(run.workflow, run.status)
        if keep is None:
            return run.status is RunStatus.CONTINUED
        return run.ended_at + max(keep, run.dedup) <= now

    def linked(run_id: str) -> Iterable[str]:
        run = world.runs[run_id]
        parent = None if run.parent is None else run.parent.run_id
        previous = None if run.previous is None else run.previous.run_id
        return [one for one in (parent, previous, run.successor, *children[run_id]) if one in world.runs]

    found: set[str] = set()
    seen: set[str] = set()
    for run_id in world.runs:
        if run_id not in seen:
            whole = _closure({run_id}, linked)
            seen |= whole
            if all(map(may_go, whole)) and any(_own(world.runs[one], retention) is not None for one in whole):
                found |= whole
    for run in world.runs.values():
        if run.status is RunStatus.CONTINUED and _own(run, retention) is not None:
            older = _closure({run.run_id}, lambda one: _previous(world, one))
            below = {child for one in older for child in children[one]}
            doomed = older | _closure(below, lambda one, older=older: [x for x in linked(one) if x not in older])
            heir = world.runs.get(run.successor or "")
            if (heir is None or heir.ended_at is not None) and all(map(may_go, doomed)):
                found |= doomed
    return found


def _own(run: Run, retention: Retention) -> Span | None:
    return retention.span_of(run.workflow, run.status)


def _previous(world: World, run_id: str) -> list[str]:
    previous = world.runs[run_id].previous
    return [previous.run_id] if previous is not None and previous.run_id in world.runs else []


def _closure(seeds: set[str], near: Callable[..., Iterable[str]]) -> set[str]:
    found, rest = set(seeds), list(seeds)
    while rest:
        for other in near(rest.pop()):
            if other not in found:
                found.add(other)
                rest.append(other)
    return found


def dangling(world: World) -> list[str]:
    """Runs whose parent or successor is gone. An older generation may be."""
    found = []
    for run in world.runs.values():
        parent = None if run.parent is None else run.parent.run_id
        named = [one for one in (parent, run.successor) if one is not None]
        found += [f"{run.run_id} -> {one}" for one in named if one not in world.runs]
    return found
