"""Switches that break what runs do to each other, headers, and deadlines that people move."""

from __future__ import annotations

import itertools
from typing import Any

from sim.sabotage.patches import Patches, nothing, switches
from stepwell.engine import reschedules, run_messages
from stepwell.engine.run_messages import RunMessages
from stepwell.ids import SignalId
from stepwell.model.entries import Entry
from stepwell.model.messages import MESSAGES, encode_message, message_name
from stepwell.model.outbox import Emit
from stepwell.model.signals import NewSignal
from stepwell.model.states import EntryKind
from stepwell.replay import bodies, context, driver
from stepwell.replay.headers import unpack
from stepwell.replay.journal import Journal
from stepwell.replay.primitives import child, reply, send


def messages_not_sent() -> Patches:
    """What a run sends is recorded, and sent only by the process that hears of it in another way: never."""
    original = Journal.emit

    def emit(self: Journal, one: Any) -> None:
        if not one.name.startswith(MESSAGES):
            original(self, one)

    return [(Journal, "emit", emit)]


def messages_sent_by_replays() -> Patches:
    """A replay sends what was sent already."""
    original = send.run_send

    async def run_send(scope: Any, location: Any, entry: Entry | None, kind: EntryKind, make: Any) -> None:
        if entry is not None:
            (event_id,), _ = unpack(entry.value)
            message = make(scope.turn, event_id)
            path, stored = scope.turn.journal.names.text(location), encode_message(message)
            scope.turn.journal.emit(Emit(event_id, message_name(message), path, stored, scope.turn.now))
        await original(scope, location, entry, kind, make)

    return [(send, "run_send", run_send), (context, "run_send", run_send)]


def signals_under_another_id() -> Patches:
    """Each delivery of a signal between runs is a signal of its own."""
    count = itertools.count()

    def new_signal(signal_id: str, *rest: Any) -> Any:
        return NewSignal(SignalId(f"{signal_id}-{next(count)}"), *rest)

    return [(run_messages, "NewSignal", new_signal)]


def events_under_another_id() -> Patches:
    """Each delivery of an event that a run publishes is an event of its own."""
    original, count = RunMessages._publish, itertools.count()

    async def publish(self: RunMessages, sent: Any, message_id: str) -> None:
        await original(self, sent, f"{message_id}-{next(count)}")

    return [(RunMessages, "_publish", publish)]


def cancels_between_runs_ignored() -> Patches:
    """The cancel of another run counts as sent, and nobody is cancelled."""

    async def cancel_run(*_: Any, **__: Any) -> bool:
        return False

    return [(run_messages, "cancel_run", cancel_run)]


def answers_not_told() -> Patches:
    """The answer to a run is stored, and the run is not told."""
    original = reply.send_reply

    def send_reply(turn: Any, _: str, given: Any) -> None:
        original(turn, "", given)

    return [(reply, "send_reply", send_reply)]


def started_as_a_child() -> Patches:
    """A run that is only started has a parent."""
    original = Journal.start_child

    def start_child(self: Journal, new: Any) -> None:
        if new.parent is None:
            new = new._replace(parent=made[new.run_id])
        original(self, new)

    def new_child(*args: Any, **options: Any) -> Any:
        new = right(*args, **options)
        made[new.run_id] = new.parent
        return new

    right, made = child.new_child, dict[str, Any]()
    return [(Journal, "start_child", start_child), (child, "new_child", new_child)]


def headers_left_behind() -> Patches:
    """Children have the headers that they are given, and not those of their parent."""
    original = child.new_child

    def new_child(scope: Any, location: Any, flow: Any, input: Any, options: Any, *, detached: bool) -> Any:
        new = original(scope, location, flow, input, options, detached=detached)
        return new if options.headers else new._replace(headers=None)

    return [(child, "new_child", new_child)]


def headers_end_with_the_run() -> Patches:
    """A run that continues another one has no headers."""
    return [(driver, "encode_headers", nothing)]


def headers_unknown_to_steps() -> Patches:
    """Bodies are given no headers."""
    return [(bodies, "decode_headers", lambda *_, **__: {})]


def wakes_move_deadlines() -> Patches:
    """Whoever is woken has waited long enough."""
    original = reschedules._amend

    async def amend(backend: Any, detail: Any, verb: str, waits: Any, wake_at: Any, *rest: Any) -> bool:
        if verb == "wake":
            waits = tuple(wait if wait.due_at is None else wait._replace(due_at=wake_at) for wait in waits)
        return await original(backend, detail, verb, waits, wake_at, *rest)

    return [(reschedules, "_amend", amend)]


def moves_forgotten() -> Patches:
    """A deadline that is moved stays where it was."""
    original = reschedules._plan

    def plan(detail: Any, *rest: Any) -> Any:
        return original(detail, *rest)._replace(waits=detail.history.waits)

    return [(reschedules, "_plan", plan)]


NEIGHBOUR_SWITCHES = switches(
    messages_not_sent,
    messages_sent_by_replays,
    signals_under_another_id,
    events_under_another_id,
    cancels_between_runs_ignored,
    answers_not_told,
    started_as_a_child,
    headers_left_behind,
    headers_end_with_the_run,
    headers_unknown_to_steps,
    wakes_move_deadlines,
    moves_forgotten,
)
