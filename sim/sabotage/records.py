"""Switches that break records: their changes and consequences, what is due, and how they end with their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sim.sabotage.patches import Patches, nothing, statement, switches
from stepwell.engine.records import Records as Noun
from stepwell.ids import derived_run_id
from stepwell.model.records import Changed, ChangeOutcome, RecordChange
from stepwell.model.signals import Delivered, Delivery
from stepwell.replay import mailbox
from stepwell.replay.journal import Journal
from stepwell.replay.primitives import record as primitive
from stepwell.services import loop
from stepwell.stores.sqlite.records import SqliteRecords
from stepwell.stores.sqlite.transitions import amendments, changes, commits, ends, moves, records, signals, starts
from stepwell.stores.sqlite.transitions.claims import Quota
from stepwell.worker.hints import HintListener

_ChangeOne = Callable[[Any, RecordChange, Any, Any], Changed]


def _change_one(change_one: Callable[[_ChangeOne, Any, RecordChange, Any, Any], Changed]) -> Patches:
    """One change of a record is made in another way, which is told the right one."""
    original = changes._change_one
    return [(changes, "_change_one", lambda *given: change_one(original, *given))]


# --- changes ---


def change_of_any_version() -> Patches:
    """A change is made, whatever the record has become since it was read."""

    def change_one(original: _ChangeOne, tx: Any, change: RecordChange, quota: Any, claimant: Any) -> Changed:
        known = tx.execute(changes._FIND_KNOWN, (change.record.kind, change.record.record_id)).fetchone()
        return original(tx, change._replace(expected=0 if known is None else known[1]), quota, claimant)

    return _change_one(change_one)


def change_made_twice() -> Patches:
    """A change that is repeated is made again."""

    def change_one(original: _ChangeOne, tx: Any, change: RecordChange, quota: Any, claimant: Any) -> Changed:
        made = tx.execute(changes._FIND_CHANGE, (change.change_id,)).fetchone()
        if made is None:
            return original(tx, change, quota, claimant)
        _, version, *_ = tx.execute(changes._FIND_KNOWN, (change.record.kind, change.record.record_id)).fetchone()
        again = change._replace(change_id=f"{change.change_id} of {version}", expected=version)
        return original(tx, again, quota, claimant)

    return _change_one(change_one)


def change_under_another_id() -> Patches:
    """A change whose answer was lost is sent again as another one."""

    async def apply(self: Noun[Any], record_id: str, before: Any, draft: Any) -> Changed:
        backend = self._backend
        [changed] = await backend.retrying(
            lambda store: backend.with_offer(
                lambda offer: store.records.change([self._change(record_id, before, draft)], offer)
            )
        )
        backend.adopt(changed.claimed)
        return changed

    return [(Noun, "_apply", apply)]


def stale_change_leaves_a_line() -> Patches:
    """A change that comes too late is noted in the history of the record."""

    def change_one(original: _ChangeOne, tx: Any, change: RecordChange, quota: Any, claimant: Any) -> Changed:
        answer = original(tx, change, quota, claimant)
        known = tx.execute(changes._FIND_KNOWN, (change.record.kind, change.record.record_id)).fetchone()
        if answer.outcome is ChangeOutcome.STALE and known is not None:
            records.append_events(tx, known[0], change.events[:1])
        return answer

    return _change_one(change_one)


def line_lost() -> Patches:
    """Of several lines of a change, the first is kept."""
    original = records.append_events
    return [(changes, "append_events", lambda tx, number, lines, change_id: original(tx, number, lines[:1], change_id))]


# --- consequences ---


def consequences_in_another_transaction() -> Patches:
    """A change is made, and its consequences happen a moment later."""

    async def change(self: SqliteRecords, made: Sequence[RecordChange], claimant: Any = None) -> list[Changed]:
        bare = [one._replace(signals=(), starts=()) for one in made]
        answers = await self._runner.write(lambda tx: changes.change(tx, bare, claimant))
        await asyncio.sleep(0.01)

        def follow(tx: Any) -> list[Changed]:
            return [_follow(tx, one, answer, claimant) for one, answer in zip(made, answers, strict=True)]

        return await self._runner.write(follow)

    return [(SqliteRecords, "change", change)]


def _follow(tx: Any, change: RecordChange, answer: Changed, claimant: Any) -> Changed:
    if answer.outcome is ChangeOutcome.STALE:
        return answer
    quota = Quota(tx, claimant)
    created = starts.create_some(tx, change.starts, quota, claimant)
    delivered, claimed = signals.deliver_all(tx, change.signals, quota)
    started = tuple(one.run_id for one in created)
    own = (one.claimed for one in created if one.claimed is not None)
    return answer._replace(delivered=tuple(delivered), started=started, claimed=(*own, *claimed))


def consequences_of_a_stale_change() -> Patches:
    """A change that comes too late still sends its signals."""

    def change_one(original: _ChangeOne, tx: Any, change: RecordChange, quota: Any, claimant: Any) -> Changed:
        answer = original(tx, change, quota, claimant)
        if answer.outcome is ChangeOutcome.STALE:
            signals.deliver_all(tx, change.signals, quota)
        return answer

    return _change_one(change_one)


def signal_after_the_end_lost() -> Patches:
    """A signal of a change is dropped if its run has ended."""

    original = signals._deliver_or_keep

    def deliver_or_keep(tx: Any, new: Any, woken: Any) -> Delivered:
        target, _ = signals._find_target(tx, new.target)
        ended = None if target is not None else signals._find_ended(tx, new.target)
        return original(tx, new, woken) if ended is None else Delivered(Delivery.MISSING, ended[1])

    return [(signals, "_deliver_or_keep", deliver_or_keep)]


# --- what is due ---


def due_records_scanned() -> Patches:
    """Who looks for due records takes also those that will be due."""
    return statement("records.list_due", "due_at <= :now", "due_at <= :now + 2000000")


def due_records_not_hinted() -> Patches:
    """Nobody hears of a record that is due earlier than before, and nobody looks without a hint."""
    return [(HintListener, "_wake_companions", nothing), (loop, "SWEEPS", 1_000_000)]


# --- the ends of runs ---


def records_left_by_the_end() -> Patches:
    """A run ends, and leaves its records open."""
    return statement("runs.find_family", "k.end_state is not null", "k.end_state is not null and k.state = ''")


def records_left_by_the_rollback() -> Patches:
    """A run begins to roll back, and leaves its records open."""
    original = records.close_all

    def close_all(tx: Any, run: int) -> None:
        [(status,)] = tx.execute("select status from stepwell_runs where id = ?", (run,)).fetchall()
        if status != "compensating":
            original(tx, run)

    return [(moves, "close_all", close_all)]


def records_left_by_the_cancel() -> Patches:
    """A run that is cancelled at once leaves its records open."""
    return [(ends, "close_all", nothing)]


def records_left_by_the_trim() -> Patches:
    """A branch that has lost leaves its records open."""
    return [(commits, "close_between", nothing)]


def records_left_by_the_repair() -> Patches:
    """A run that is taken back leaves the records open that it no longer waits for."""
    return [(amendments, "close_lost", nothing)]


def records_left_by_the_skip() -> Patches:
    """A record stays open although an operator has supplied its answer."""
    return [(amendments, "close_at", nothing)]


def record_not_withdrawn() -> Patches:
    """A record stays open although the task that waited for it was cancelled."""
    return [(Journal, "close_record", nothing)]


def record_closed_without_a_line() -> Patches:
    """That a record was closed with its run is not in its history."""

    def close(tx: Any, number: int, event: Any, state: str | None = None) -> None:
        tx.write(records._CLOSE, (state, tx.now, number))
        tx.write(records._MARK_LABELS, (0, None, number))

    return [(records, "_close", close)]


def closed_record_listed() -> Patches:
    """A record that was closed with its run is still listed by its labels."""

    def close(tx: Any, number: int, event: Any, state: str | None = None) -> None:
        tx.write(records._CLOSE, (state, tx.now, number))
        records.append_events(tx, number, [event])

    return [(records, "_close", close)]


# --- who waits ---


def answer_for_anybody() -> Patches:
    """Code that waits for any signal takes the answer to a record."""

    def is_accepted(name: str, names: Any) -> bool:
        return not names or name in names

    return [(mailbox, "is_accepted", is_accepted), (moves, "is_accepted", is_accepted)]


def record_opened_again() -> Patches:
    """A replay opens its record anew."""
    return [(primitive, "awaited_record", lambda names: None)]


def record_of_a_place() -> Patches:
    """A run that comes to a place again waits for the record that it had opened there before."""

    def new_id(scope: Any, location: Any) -> str:
        return derived_run_id(scope.turn.run.run_id, f"{scope.turn.journal.names.key(location)}/~record")

    return [(primitive, "_new_id", new_id)]


RECORD_SWITCHES = switches(
    change_of_any_version,
    change_made_twice,
    change_under_another_id,
    stale_change_leaves_a_line,
    line_lost,
    consequences_in_another_transaction,
    consequences_of_a_stale_change,
    signal_after_the_end_lost,
    due_records_scanned,
    due_records_not_hinted,
    records_left_by_the_end,
    records_left_by_the_rollback,
    records_left_by_the_cancel,
    records_left_by_the_trim,
    records_left_by_the_repair,
    records_left_by_the_skip,
    record_not_withdrawn,
    record_closed_without_a_line,
    closed_record_listed,
    answer_for_anybody,
    record_opened_again,
    record_of_a_place,
)
