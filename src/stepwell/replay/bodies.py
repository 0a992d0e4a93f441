"""Step bodies: the work that workflow code requests and that runs outside of it, and the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stepwell.clock import Instant, Span
from stepwell.codec.base import ANY, JSON_V1, Codec, Payload, Place, event_row
from stepwell.codec.carried import NO_HEADERS, decode_headers
from stepwell.ids import EventId
from stepwell.model.entries import Entry, Progress
from stepwell.model.locations import Location, Names
from stepwell.model.outbox import check_event_name, derived_event_id
from stepwell.model.runs import Run
from stepwell.replay.budgets import Budget
from stepwell.replay.event_loop import TurnLoop
from stepwell.replay.step_context import Link, StepContext
from stepwell.replay.step_streams import StreamAppender, StreamWriter


@dataclass(slots=True, eq=False)
class Body:
    """One attempt at a step, to be run once everything before it is durable."""

    run: Run
    names: Names
    location: Location
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_async: bool
    takes_context: bool
    timeout: Span | None
    attempt: int
    is_final_attempt: bool
    settled: asyncio.Future[Attempted] = field(repr=False)
    is_unwanted: bool = False  # its branch lost or was cancelled: the result is dropped
    is_stopping: bool = False  # it was asked to stop; a result that it still returns is recorded
    output: str = ""  # what its process had written when it was killed
    codec: Codec | None = None  # for the events that it emits, if it takes a context
    emitted: list[tuple[str, Payload]] | tuple[()] = ()  # name and plain JSON, in the order of the body
    outlet: StreamAppender | None = field(default=None, repr=False)
    begun: frozenset[str] = frozenset()  # the streams that this attempt has appended to
    progress: Progress | None = None  # how far an earlier attempt or turn got
    budget: Budget | None = None
    may_yield: bool = True
    is_announced: bool = False  # its beginning is recorded: if this worker does not run it, none will
    is_noted: bool = False  # its beginning is recorded, which counts as an attempt once its timeout has passed
    link: Link | None = field(default=None, repr=False)  # while it runs
    # Of a transactional step: makes its entry inside the transaction, from its value; and the value as decoded.
    record: Callable[[Any, Instant], tuple[Entry, Any]] | None = field(default=None, repr=False)

    @property
    def info(self) -> StepContext:
        """The body's own context."""
        run_id, path = self.run.run_id, self.names.text(self.location)
        key = self.names.idempotency_key(run_id, self.location)
        writer = None if self.outlet is None else StreamWriter(self, self.outlet, path)
        if isinstance(self.emitted, tuple):
            self.emitted = []  # made here, on the loop's thread: threads of the body only append
        workflow, headers = self.run.workflow, NO_HEADERS
        if self.run.headers is not None and self.codec is not None:
            headers = dict(decode_headers(self.codec, self.run.headers, workflow=workflow, run_id=run_id))
        info = (run_id, workflow, path, self.attempt, self.is_final_attempt, key)
        return StepContext(*info, _link=self.link, _emit=self.emit, _writer=writer, headers=headers)

    @property
    def place(self) -> tuple[str, str | None, str, str, int]:
        """Run, key, workflow, path and attempt: the fields of what it logs."""
        return self.run.run_id, self.run.key, self.run.workflow, self.names.text(self.location), self.attempt

    def emit(self, event: str, payload: Any) -> None:
        """Keep an event until the step has succeeded. It is encoded now: later changes to the payload do not count."""
        assert self.codec is not None
        assert isinstance(self.emitted, list)
        if self.link is not None:
            self.link.check("emit")
        name = check_event_name(event)
        path = self.names.text(self.location)
        event_id = derived_event_id(self.run.run_id, self.names.key(self.location), len(self.emitted))
        place = emit_place(self.run, path, event_id)
        self.emitted.append((name, JSON_V1 + self.codec.encode_body(payload, ANY, place)))


def emit_place(run: Run, path: str, event_id: EventId) -> Place:
    """The place of the payload of an event."""
    return Place(run.workflow, path, "the event", row=event_row(run.run_id, path, event_id))


@dataclass(slots=True)
class Succeeded:
    """The body returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The body was still running at its timeout and was stopped; `output` is what its own process had written."""

    after: Span
    output: str = ""


@dataclass(frozen=True, slots=True)
class Yielded:
    """The body gave its slot back, and continues later."""


@dataclass(slots=True)
class Recorded:
    """The body returned, and its entry is made. The entry of a transactional step is durable."""

    entry: Entry
    value: Any


Attempted = Succeeded | Raised | TimedOut | Yielded | Recorded


class Bodies:
    """The bodies of a turn, from the code's request until the code has received the outcome."""

    __slots__ = ("_loop", "asked", "in_flight", "settled", "transactions", "unwanted", "yielded")

    def __init__(self, loop: TurnLoop) -> None:
        self._loop = loop
        self.asked: list[Body] = []  # requested, and not taken yet
        self.transactions: list[Body] = []  # requested, to run inside the commit of their result
        self.in_flight: set[Body] = set()
        self.settled: list[tuple[Body, Attempted]] = []  # ended, and the code has not received the outcome yet
        self.unwanted: list[Body] = []  # taken, and the code no longer waits for them
        self.yielded: dict[asyncio.Future[None], Location] = {}  # steps that gave their slot back

    # --- for the driver ---

    def take(self) -> list[Body]:
        """The bodies requested since the last call; the caller runs them and settles each."""
        bodies, self.asked = self.asked, []
        self.in_flight.update(bodies)
        return bodies

    def settle(self, body: Body, attempted: Attempted) -> None:
        """A body has ended; the code receives the outcome when the turn advances."""
        self.in_flight.discard(body)
        if isinstance(attempted, Recorded):
            # Its entry is already numbered, so the code must receive it before outcomes that are not recorded yet.
            self.settled.insert(0, (body, attempted))
        elif not body.is_unwanted:
            self.settled.append((body, attempted))

    def resume_yielded(self) -> None:
        """Let steps continue that gave their slot back: other runs have had their turn, or none waits for one."""
        yielded, self.yielded = self.yielded, {}
        for future in yielded:
            if not future.done():
                future.set_result(None)

    @property
    def are_idle(self) -> bool:
        """Whether no body is requested, running or settled: the turn can only wait."""
        return not (self.asked or self.in_flight or self.settled)

    # --- for the turn ---

    def hand_over(self) -> bool:
        """Give the code the outcome of the next settled body; whether there was one."""
        while self.settled:
            body, attempted = self.settled.pop(0)
            if not body.settled.done():
                body.settled.set_result(attempted)
                return True
        return False

    @property
    def open(self) -> tuple[Body, ...]:
        """The bodies that the code waits for."""
        return (*self.asked, *self.in_flight)

    # --- for primitives ---

    def ask_in_transaction(self, body: Body, record: Callable[[Any, Instant], tuple[Entry, Any]]) -> None:
        """Request a body that runs inside the commit of its result; `record` makes its entry."""
        body.record = record
        self.transactions.append(body)
        self.in_flight.add(body)

    def abandon(self, body: Body) -> None:
        """The code no longer waits for this body."""
        body.is_unwanted = True
        if body in self.in_flight:
            self.in_flight.discard(body)
            self.unwanted.append(body)
        elif body in self.asked:
            self.asked.remove(body)

    async def yield_slot(self, location: Location) -> None:
        """Wait until other runs have had their turn."""
        future: asyncio.Future[None] = self._loop.own_future()
        self.yielded[future] = location
        try:
            await future
        finally:
            self.yielded.pop(future, None)
