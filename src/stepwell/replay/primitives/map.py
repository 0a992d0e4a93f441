"""Run one function over many items, a limited number at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from stepwell.codec.signatures import hints_of
from stepwell.errors import InvalidOptionError, JoinError, ReplayError
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure, record_failure
from stepwell.model.locations import Location, iteration, subtree
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.branches import Guard, check_repeated, guard_of, is_failure, is_plain
from stepwell.replay.captured_variables import BodyKind
from stepwell.replay.event_loop import SCOPE
from stepwell.replay.headers import pack, unpack
from stepwell.replay.primitives.join import OnError
from stepwell.replay.recorded_errors import record_error
from stepwell.replay.recorded_values import decode_recorded, settle_value
from stepwell.replay.revival import revive
from stepwell.replay.scopes import Scope
from stepwell.replay.suspend import ContinueAsNew

ItemFunction = Callable[[Any, Any], Awaitable[Any]]  # takes the item's Context and the item


class _Items(NamedTuple):
    """The function, its items, and how they run."""

    function: ItemFunction
    items: Sequence[Any]
    guard: Guard | None
    is_kept: bool  # a replay runs recorded items again, with every result inside them taken from the record
    is_ended: bool  # the map itself is recorded: its results are decoded once the code has passed all items


def check_map(limit: int) -> None:
    """Reject a limit below 1."""
    if limit < 1:
        raise InvalidOptionError(f"ctx.map has limit={limit}", fix="write limit=1 or more")


async def run_map(
    scope: Scope,
    location: Location,
    entry: Entry | None,
    function: ItemFunction,
    items: Sequence[Any],
    limit: int,
    on_error: OnError,
) -> list[Any]:
    """The results in the order of the items. Raises `JoinError` with the failures by number."""
    turn, journal = scope.turn, scope.turn.journal
    is_kept = on_error == "wait_all" and not is_plain(function)
    if entry is None:
        started_at = scope.time
        failed = await _guard_items(scope, location, function, items, limit, on_error, is_kept=is_kept)
        await turn.order.reach_end()
        took = turn.now - started_at
        if failed:
            errors: dict[str, Exception] = {str(number): revive(decode_failure(one.value)) for number, one in failed}
            failure = encode_failure(record_failure(JoinError(journal.names.text(location), errors, part="item")))
            entry = journal.record(location, EntryKind.MAP, EntryStatus.FAILED, failure, turn.now, took)
        else:
            entry = journal.record(location, EntryKind.MAP, EntryStatus.DONE, pack([len(items)], b""), turn.now, took)
    elif is_kept:
        with journal.repeating(entry):
            failed = await _guard_items(scope, location, function, items, limit, on_error, is_kept=True)
        check_repeated(turn, entry, bool(failed))
        await turn.order.reach(entry)
    else:
        journal.skip_below(location)
        await turn.order.reach(entry)
    scope.note_result(entry)
    if entry.status is EntryStatus.FAILED:
        raise revive(decode_failure(entry.value))
    (count,), _ = unpack(entry.value)
    hint = hints_of(function).returns
    return [decode_recorded(turn, journal.entries[iteration(location, number)], hint) for number in range(count)]


async def _guard_items(
    scope: Scope,
    location: Location,
    function: ItemFunction,
    items: Sequence[Any],
    limit: int,
    on_error: OnError,
    *,
    is_kept: bool,
) -> list[tuple[int, Entry]]:
    """Run every item. Unless `is_kept`, a replay does not run them again, so they must not change outer variables."""
    kind: BodyKind = "fail_fast" if on_error == "fail_fast" else "plain"
    guard = None if is_kept else guard_of(scope, location, kind, "map", (function,))
    runner = _Items(function, items, guard, is_kept, location in scope.turn.journal.repeated)
    with guard or nullcontext():
        failed = await _run_items(scope, location, runner, limit, on_error)
        if guard is not None:
            guard.check()
    return failed


async def _run_items(
    scope: Scope, location: Location, runner: _Items, limit: int, on_error: OnError
) -> list[tuple[int, Entry]]:
    """Run every item, at most `limit` at once; returns the entries of failed items by number."""
    count = len(runner.items)
    numbers, failed = iter(range(count)), []
    running: dict[int, Scope] = {}
    over: asyncio.Future[None] = scope.turn.loop.own_future()
    left = min(limit, count)

    async def lane() -> None:
        nonlocal left
        if runner.guard is not None:
            runner.guard.enter()
        for number in numbers:
            inner = running[number] = scope.below(iteration(location, number))
            SCOPE.set(inner)
            try:
                entry = await _run_item(inner, runner, runner.items[number])
            except ContinueAsNew as request:
                if not over.done():
                    over.set_exception(request)
                return
            del running[number]
            if entry.status is EntryStatus.FAILED:
                failed.append((number, entry))
            if over.done() or (failed and on_error == "fail_fast"):
                break
        left -= 1
        if not over.done() and (left == 0 or (failed and on_error == "fail_fast")):
            over.set_result(None)

    lanes = [scope.turn.loop.own_task(lane()) for _ in range(left)]
    try:
        if lanes:
            await over
        if running:
            await _forget(scope, lanes, running)
    finally:
        _stop(lanes, running)
    return sorted(failed)


async def _run_item(inner: Scope, runner: _Items, item: Any) -> Entry:
    """Run one item to its end, and record its outcome at the item's own place."""
    turn, journal, location = inner.turn, inner.turn.journal, inner.location
    inner.check_open()
    journal.visited[location] = None
    entry = journal.recall(location)
    if entry is not None and entry.status is EntryStatus.DONE and not runner.is_ended:
        # A result that does not fit stops the run here, before the other items do anything new.
        decode_recorded(turn, entry, hints_of(runner.function).returns)
    if entry is not None and not runner.is_kept:
        journal.skip_below(location)
        await turn.order.reach(entry)
        return entry
    if entry is not None:
        with journal.repeating(entry):
            _, status = await _outcome_of(inner, runner.function, item)
        check_repeated(turn, entry, status is EntryStatus.FAILED)
        await turn.order.reach(entry)
    else:
        started_at = inner.time
        stored, status = await _outcome_of(inner, runner.function, item)
        inner.check_open()
        if runner.guard is not None:
            runner.guard.check_now()
        await turn.order.reach_end()
        entry = journal.record(location, EntryKind.ITEM, status, stored, turn.now, turn.now - started_at)
    if status is EntryStatus.DONE:
        inner.ended()
    else:
        inner.abandoned(is_recorded=entry.seq <= journal.loaded_seq)
    return entry


async def _outcome_of(inner: Scope, function: ItemFunction, item: Any) -> tuple[bytes, EntryStatus]:
    """The encoded result or failure of one item."""
    turn, hint = inner.turn, hints_of(function).returns
    try:
        value = await function(turn.context(inner), item)
        stored, _ = settle_value(turn, value, hint, lambda: turn.place(inner.location, "the result"))
    except ReplayError as problem:
        raise turn.diverge(problem) from None
    except ContinueAsNew:
        raise
    except BaseException as error:
        if not is_failure(error, inner):
            raise
        # The path names the item, so that a retry can remove it from the record, too.
        failure = record_error(turn, error, path=turn.journal.names.text(inner.location))
        return encode_failure(failure), EntryStatus.FAILED
    return stored, EntryStatus.DONE


def _stop(lanes: list[asyncio.Task[None]], running: dict[int, Scope]) -> None:
    """Ask the items that still run to stop, and let them record nothing more."""
    for inner in running.values():
        inner.is_closed = True
        inner.abandoned()
    for lane in lanes:
        lane.cancel()
    for inner in running.values():
        inner.turn.give_up(inner.location)


async def _forget(scope: Scope, lanes: list[asyncio.Task[None]], running: dict[int, Scope]) -> None:
    """Stop the items that still run, and drop their entries, except entries that can be undone."""
    _stop(lanes, running)
    await asyncio.sleep(0)
    for inner in running.values():
        scope.turn.journal.trim(*subtree(inner.location))
