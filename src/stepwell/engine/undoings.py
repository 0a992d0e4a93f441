"""Undoing a completed run in a run of its own."""

from __future__ import annotations

from stepwell.advice import Advice, Verb
from stepwell.codec.base import Place, Row
from stepwell.engine.backend import Backend
from stepwell.errors import InvalidMoveError, InvalidOptionError, RepairConflictError
from stepwell.ids import COMPENSATES, RunId, derived_run_id
from stepwell.model.amendments import Fork
from stepwell.model.attributes import read_person
from stepwell.model.entries import Entry
from stepwell.model.runs import NewRun
from stepwell.model.states import RunStatus
from stepwell.redaction import redact
from stepwell.replay.carried_undos import Carrier
from stepwell.replay.compensations import is_unnamed
from stepwell.replay.journal import Journal
from stepwell.stores.base.views import Detail

_TRIES_MAX = 5  # if the run keeps changing


async def compensate_run(backend: Backend, target: str, *, by: str, reason: str) -> tuple[RunId, bool]:
    """Start the run that undoes a completed one; returns its id, and whether this call started it."""
    for _ in range(_TRIES_MAX):
        detail = await backend.detail(target)
        while detail.run.successor is not None:
            detail = await backend.detail(detail.run.successor)
        run_id = derived_run_id(detail.run.run_id, COMPENSATES)
        if await backend.find(run_id) is not None:
            return run_id, False
        fork = _draft(backend, detail, run_id, by, redact(reason))
        created = await backend.retrying(lambda store, fork=fork: store.runs.fork(fork))  # type: ignore[misc]
        if created is not None:
            return run_id, created.is_new and not created.is_duplicate_id
    raise RepairConflictError(f"run {target} changed {_TRIES_MAX} times meanwhile", fix="try again")


def _draft(backend: Backend, detail: Detail, run_id: RunId, by: str, reason: str) -> Fork:
    run, codec = detail.run, backend.codec
    if run.status is not RunStatus.COMPLETED:
        raise InvalidMoveError(
            f"run {run.run_id} is {run.status.value} and cannot be compensated",
            where=run.run_id,
            why="it takes a completed run; a run that has not ended is undone when it is cancelled",
            fix=Advice(Verb.WHY, run.run_id),
        )
    journal = Journal(run.run_id, detail.history, run.last_seq)
    left = journal.left_to_undo(0)
    if not left:
        raise InvalidMoveError(
            f"run {run.run_id} has nothing to undo",
            where=run.run_id,
            why="no step, child or effect in its record has a compensation",
        )
    for entry in left:
        _check_findable(journal, entry)
    names, entries = Carrier(run.workflow, run.run_id, run_id, journal, codec).carry()
    place = Place(run.workflow, "", "the input", row=Row(run.run_id, "", "input"))
    new = NewRun(
        run_id,
        run.workflow,
        run.version,
        codec.rebind(run.input, place=place, to=place._replace(row=Row(run_id, "", "input"))),
        None,
        priority=run.priority,
        tags=run.tags,
        title=run.title,
        started_by=read_person(by, run.workflow) if by else run.started_by,
        attributes=run.attributes,
    )
    return Fork(new, run.run_id, run.epoch, run.revision, names, entries, (), by, reason, verb="compensate")


def _check_findable(journal: Journal, entry: Entry) -> None:
    if is_unnamed(entry):
        path = journal.names.text(entry.location)
        raise InvalidOptionError(
            f"the compensation of {path} cannot be found again",
            where=path,
            why="a run that undoes another one finds compensations by name, and this one is not a function at the top "
            "of a module",
            fix="undo it by hand; in new code write `def undo(...)` at the top of a module, and compensate=undo",
        )
