"""Switches that break events on their way out."""

from __future__ import annotations

from typing import Any

from sim.sabotage.patches import Patches, nothing, statement, switches
from sim.sabotage.stores import stands
from stepwell.errors import StoreUnavailableError
from stepwell.model.outbox import Emit, Settled, lifecycle_event
from stepwell.model.states import RunStatus
from stepwell.replay import context
from stepwell.replay.journal import Journal
from stepwell.replay.primitives import emit
from stepwell.sinks.routes import Routes
from stepwell.stores.sqlite.texts import SQL
from stepwell.stores.sqlite.transitions import commits, ends, operators, outbox, rescues
from stepwell.worker.relay import Relay
from stepwell.worker.rounds import until_answered


def sent_before_sending() -> Patches:
    """Events count as sent before they are."""

    async def relay(self: Any, batch: Any, lease: Any) -> None:
        try:
            settled = Settled(batch[0].number, tuple(owed.number for owed in batch))
            await until_answered(lambda: self._store.outbox.settle(lease.incarnation, [settled]))
            await self._send_all(batch, lease)
        finally:
            self._busy.pop(batch[0].number, None)
            self._wake.set()

    return [(Relay, "_relay", relay)]


def failure_counts_as_sent() -> Patches:
    """An event that was refused is not tried again."""
    original = Relay._send

    async def send(self: Any, owed: Any) -> None:
        await original(self, owed)

    return [(Relay, "_send", send)]


def emits_outside_the_commit() -> Patches:
    """Events are written whether or not their commit is."""
    original = commits._apply_one

    def apply_one(tx: Any, commit: Any, quota: Any, claimant: Any) -> Any:
        run, _, _, number = stands(tx, commit)
        if run and number != commit.number:
            outbox.store_emits(tx, run, commit.run_id, commit.emits)
        return original(tx, commit._replace(emits=()), quota, claimant)

    return [(commits, "_apply_one", apply_one), (commits, "_advance", nothing), (commits, "_finish", nothing)]


def emits_lost() -> Patches:
    """Events are not in the commit of their entries."""
    return [(Journal, "emit", lambda self, emit: None)]


def emits_on_replay() -> Patches:
    """A replay emits again."""
    original = emit.run_emit

    async def run_emit(scope: Any, location: Any, entry: Any, name: str, payload: Any) -> Any:
        event_id = await original(scope, location, entry, name, payload)
        if entry is not None:
            path = scope.turn.journal.names.text(location)
            scope.turn.journal.emit(Emit(event_id, name, path, b"jnull", scope.turn.now))
        return event_id

    return [(context, "run_emit", run_emit)]


def id_of_each_attempt() -> Patches:
    """An event has another id each time it is sent."""
    original = Relay._event

    def event(self: Any, owed: Any) -> Any:
        return original(self, owed._replace(event_id=self._resources.environment.ids.uuid()))

    return [(Relay, "_event", event)]


def batch_reversed() -> Patches:
    """A run's events are handed out last first."""
    original = outbox.take
    return [(outbox, "take", lambda *args: [tuple(reversed(batch)) for batch in original(*args)])]


def failed_event_overtaken() -> Patches:
    """What comes behind an event that was refused is sent all the same."""

    async def send_all(self: Any, batch: Any, lease: Any) -> Settled:
        sent, unsent = [], None
        for owed in batch:
            error = await self._send(owed)
            if error is None:
                sent.append(owed.number)
            elif unsent is None:
                unsent = self._unsent(owed, error)
        return Settled(batch[0].number, tuple(sent), unsent)

    return [(Relay, "_send_all", send_all)]


def everything_is_due() -> Patches:
    """Events of a run are due although earlier ones are still owed."""
    original = SQL["outbox.owe"]
    start, end = original.index("case when exists"), original.index(" then null else")
    return [(outbox, "_OWE", original[:start] + "case when :run < 0 and :sink = ''" + original[end:])]


def taken_by_two() -> Patches:
    """What one worker has, another gets too."""
    return statement(
        "outbox.list_due", "next_at is not null and next_at <= :now", "(next_at <= :now or owner is not null)"
    )


def lost_answer_not_doubted() -> Patches:
    """What was handed out in an answer that got lost is not asked for again."""
    original = Relay._take

    async def take(self: Any, lease: Any, limit: int) -> Any:
        try:
            return await original(self, lease, limit)
        except StoreUnavailableError:
            self._in_doubt = False
            raise

    return [(Relay, "_take", take)]


def sends_after_the_lease() -> Patches:
    """A worker goes on sending although others may be sending the same by now."""

    async def send_all(self: Any, batch: Any, lease: Any) -> Settled:
        sent: list[int] = []
        for owed in batch:
            error = await self._send(owed)
            if error is not None:
                return Settled(batch[0].number, tuple(sent), self._unsent(owed, error))
            sent.append(owed.number)
        return Settled(batch[0].number, tuple(sent))

    return [(Relay, "_send_all", send_all)]


def dead_keep_their_events() -> Patches:
    """What a dead worker had taken stays with it."""
    return [(rescues, "free_taken", lambda tx, incarnation: None)]


def every_link_is_announced() -> Patches:
    """A run that is continued tells that it has ended."""

    def of_each(ended: Any, announce: Any) -> Any:
        is_continued = ended.status is RunStatus.CONTINUED
        return lifecycle_event(ended._replace(status=RunStatus.COMPLETED) if is_continued else ended, announce)

    return [(outbox, "lifecycle_event", of_each)]


def cancel_not_announced() -> Patches:
    """Runs that a cancel ends say nothing."""
    original = ends.cancel_family

    def cancel_family(tx: Any, root: Any, **options: Any) -> Any:
        return original(tx, root, **{**options, "announce": None})

    return [(operators, "cancel_family", cancel_family)]


def only_the_first_sink() -> Patches:
    """An event goes to the first sink only."""
    original = Routes.sinks_of
    return [(Routes, "sinks_of", lambda self, name: original(self, name)[:1])]


OUTBOX_SWITCHES = switches(
    sent_before_sending,
    failure_counts_as_sent,
    emits_outside_the_commit,
    emits_lost,
    emits_on_replay,
    id_of_each_attempt,
    batch_reversed,
    failed_event_overtaken,
    everything_is_due,
    taken_by_two,
    lost_answer_not_doubted,
    dead_keep_their_events,
    sends_after_the_lease,
    every_link_is_announced,
    cancel_not_announced,
    only_the_first_sink,
)
