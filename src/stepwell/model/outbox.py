"""The outbox: events that a run has emitted and that a sink has not received yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from stepwell.clock import Instant, Span, to_datetime
from stepwell.errors import InvalidNameError
from stepwell.ids import EventId, RunId, derived_run_id
from stepwell.model.states import RunStatus

OWN_PREFIX: Final = "stepwell."
LIFECYCLE: Final = "stepwell.run."  # followed by a status: the names of lifecycle events
ANNOUNCED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.COMPENSATED, RunStatus.CANCELLED)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")


class Emit(NamedTuple):
    """An event that is published together with a commit, or not at all.

    The id is a function of the run and the place, so a step that runs again emits the same event. The store writes one
    row for each sink; without a sink, it writes nothing.
    """

    event_id: EventId
    name: str
    path: str
    payload: bytes
    at: Instant
    sinks: tuple[str, ...] = ()


class Announce(NamedTuple):
    """Which sinks are notified of runs that end."""

    sinks: Mapping[RunStatus, tuple[str, ...]]


class Owed(NamedTuple):
    """One event that one sink has not received yet."""

    number: int  # grows with every row: the order of a run's events
    sink: str
    event_id: EventId
    name: str
    path: str
    payload: bytes
    at: Instant
    run_id: RunId
    workflow: str
    key: str | None
    attempts: int = 0  # failed attempts
    next_at: Instant | None = (
        None  # when it is due; None while a worker sends it, an earlier one is owed, or it is dead
    )
    died_at: Instant | None = None  # when it became a dead letter
    failure: str = ""  # of the last attempt
    died_by: str = ""  # the incarnation of the worker whose attempt was the last
    headers: bytes | None = None  # of the run, encoded


class Unsent(NamedTuple):
    """An attempt that failed."""

    number: int
    failure: str
    retry_in: Span | None  # None: there is no further attempt, and it becomes a dead letter


class Settled(NamedTuple):
    """What became of the events of one run that a worker took for a sink, from the first on."""

    first: int
    sent: tuple[int, ...] = ()
    unsent: Unsent | None = None


def check_event_name(name: Any) -> str:
    """The name of an event to emit. Raises `InvalidNameError` unless it is valid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidNameError(
            f"{name!r:.120} is not a name of an event",
            why="a name has 1 to 100 letters, digits and _ . : -, and begins with a letter or digit",
            fix='use a name such as "order.paid"',
        )
    if name.startswith(OWN_PREFIX):
        raise InvalidNameError(
            f"event {name!r} cannot be emitted",
            why=f"names that begin with {OWN_PREFIX!r} are reserved for stepwell",
            fix=f"use {name.removeprefix(OWN_PREFIX) or 'another name'!r}",
        )
    return name


def derived_event_id(run_id: RunId, path: str, number: int = 0) -> EventId:
    """The id of the n-th event that a run emits at a place. It is the same however often it is computed."""
    return EventId(derived_run_id(run_id, f"~emit\x1f{path}\x1f{number}"))


def ended_event_id(run_id: RunId, created_at: Instant, epoch: int) -> EventId:
    """The id of the event of a run's end.

    A run that an operator retries ends again in a higher epoch. A run that was lost with its database and started again
    under the same id has the same epochs as before, but another creation time. So each of these ends has its own id.
    """
    return derived_event_id(run_id, f"~ended\x1f{created_at}", epoch)


class Ended(NamedTuple):
    """The facts of an ended run that leave the store: no input, no output, no message."""

    run_id: RunId
    workflow: str
    version: int
    key: str | None
    status: RunStatus
    epoch: int
    generation: int
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant


def lifecycle_event(ended: Ended, announce: Announce) -> Emit | None:
    """The event of a run's end; None if no sink wants it, or if another run continues this one."""
    sinks = announce.sinks.get(ended.status, ())
    if not sinks:
        return None
    payload = {
        "status": ended.status.value,
        "version": ended.version,
        "generation": ended.generation,
        "created_at": to_datetime(ended.created_at),
        "started_at": None if ended.started_at is None else to_datetime(ended.started_at),
        "ended_at": to_datetime(ended.ended_at),
    }
    event_id = ended_event_id(ended.run_id, ended.created_at, ended.epoch)
    name = LIFECYCLE + ended.status.value
    return Emit(event_id, name, "", b"j" + msgspec.json.encode(payload), ended.ended_at, sinks)
