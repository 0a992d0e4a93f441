"""The outbox: events that a run emitted and that a sink has not had yet."""

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
LIFECYCLE: Final = "stepwell.run."  # and the status: the names of lifecycle events
ANNOUNCED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.COMPENSATED, RunStatus.CANCELLED)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")


class Emit(NamedTuple):
    """An event to be published because of a commit, and with it or not at all.

    The id is a function of the run and the place, so a step that is run again emits the same event. One row is
    written for each of the sinks; without any, nothing is.
    """

    event_id: EventId
    name: str
    path: str
    payload: bytes
    at: Instant
    sinks: tuple[str, ...] = ()


class Announce(NamedTuple):
    """Which sinks hear of runs that end. Who says nothing announces nothing."""

    sinks: Mapping[RunStatus, tuple[str, ...]]


class Owed(NamedTuple):
    """One event that one sink has not had yet."""

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
    attempts: int = 0  # that failed
    next_at: Instant | None = None  # when it is due; None while somebody has it, while an earlier one is owed, or dead
    died_at: Instant | None = None  # given up then: a dead letter
    failure: str = ""  # of the last attempt


class Unsent(NamedTuple):
    """An attempt that failed."""

    number: int
    failure: str
    retry_in: Span | None  # None: no more attempts, it becomes a dead letter


class Settled(NamedTuple):
    """What became of the events of one run that were taken for a sink, from the first on."""

    first: int
    sent: tuple[int, ...] = ()
    unsent: Unsent | None = None


def check_event_name(name: Any) -> str:
    """The name of an event, as it may be emitted. Raises `InvalidNameError`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidNameError(
            f"{name!r:.120} is no name of an event",
            why="a name has 1 to 100 letters, digits and _ . : -, and begins with a letter or digit",
            fix='write for example "order.paid"',
        )
    if name.startswith(OWN_PREFIX):
        raise InvalidNameError(
            f"event {name!r} cannot be emitted",
            why=f"names that begin with {OWN_PREFIX!r} are stepwell's own",
            fix=f"use {name.removeprefix(OWN_PREFIX) or 'another name'!r}",
        )
    return name


def derived_event_id(run_id: RunId, path: str, number: int = 0) -> EventId:
    """The one id of the n-th event that a run emits at a place: the same however often it is computed."""
    return EventId(derived_run_id(run_id, f"~emit\x1f{path}\x1f{number}"))


def ended_event_id(run_id: RunId, created_at: Instant, epoch: int) -> EventId:
    """The one id of the event of a run's end.

    A run that an operator retries ends again in a higher epoch. A run that was lost with its database and started again
    under the same id has the same epochs as before, but was created at another time. Each of these ends has its own id.
    """
    return derived_event_id(run_id, f"~ended\x1f{created_at}", epoch)


class Ended(NamedTuple):
    """What may be told of a run that has ended: no input, no output, no message."""

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
    """The event of a run's end; None if no sink wants it, or if another run continues this one.

    Its id differs for each end of a run, see `ended_event_id`.
    """
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
