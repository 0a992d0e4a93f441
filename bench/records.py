"""What records cost: a change that signals a run against a signal, and pages and due times among many records."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

from bench.arenas import Arena
from bench.probes import QUIET, opened
from bench.report import Report, at_most
from bench.sizes import Size
from bench.workflows import waiting
from stepwell import Start
from stepwell.clock import DAY, Instant
from stepwell.ids import SignalId
from stepwell.model.records import NewRecord, NewRecordEvent, RecordChange, RecordFilter
from stepwell.model.signals import NewSignal
from stepwell.stores.base.store import Store

_RATIO_MAX = 1.2
_PAGE, _PAGE_MS_MAX = 50, 20
_GROWTH_MAX = 1.5
_BATCH = 1_000
_BODY = b'{"title": "Approve order A-17", "facts": {"customer": "Ann", "amount": "42.00"}}' * 4


async def records(arena: Arena, size: Size, report: Report) -> None:
    """Changes with signals, then everything else in a database with many records."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(arena.database())
        async with opened(url) as bench:
            runs = await bench.engine.runs.start_many(waiting, [Start()] * (size.signals * 3))
            await bench.until("waiting", size.signals * 3)
            targets = [str(run.run_id) for run in runs]
        store = (await stack.enter_async_context(opened(url, serves=False, **QUIET))).probe.store
        report.say("records: changes that signal a run, and signals, by turns")
        random.Random(1).shuffle(targets)
        await _signals(store, targets, report)
        few = [await _timed(partial(_look_up, store)) for _ in range(size.asked)]
        report.say(f"records: {size.closed_records:,} closed and {size.open_records:,} open ones are made")
        await _fill(store, 0, size.closed_records, is_open=False)
        await _fill(store, size.closed_records, size.open_records, is_open=True)
        report.say("records: pages and due times")
        report.line(f"records  {size.closed_records:,} closed, {size.open_records:,} open", "p50 ms")
        await _pages(store, size, report)
        many = [await _timed(partial(_look_up, store)) for _ in range(size.asked)]
    one, ratio = statistics.median(many) * 1e3, statistics.median(many) / statistics.median(few)
    report.line("records    nothing is due, and when something will be", f"{one:.2f}")
    report.timed("records    the same, times as long as with few", f"{ratio:.2f}", *at_most(ratio, _GROWTH_MAX))


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def _signals(store: Store, targets: list[str], report: Report) -> None:
    """A decision on a task, which closes it and wakes its run; a note, which moves it in no index; and a signal."""
    count = len(targets) // 3
    await _fill(store, -2 * count, 2 * count, is_open=True)
    took: dict[str, list[float]] = {"decision": [], "note": [], "signal": []}
    for number in range(count):
        alike = _alike(number, count, targets[number * 3 : number * 3 + 3])
        what: dict[str, RecordChange | NewSignal] = {"decision": alike[0], "note": alike[1], "signal": alike[2]}
        for name in random.Random(number).sample(list(took), 3):
            took[name].append(await _timed(partial(_send, store, what[name])))
    decision, note, signal = (statistics.median(took[name]) * 1e3 for name in took)
    report.line("records  decision, note, each with a signal, p50 ms", f"{decision:.2f} / {note:.2f}")
    report.line("records  a signal alone, p50 ms", f"{signal:.2f}")
    ratio = decision / signal
    report.timed("records  a decision with a signal, in signals", f"{ratio:.2f}", *at_most(ratio, _RATIO_MAX))
    report.line("records  a note with a signal, in signals", f"{note / signal:.2f}")


def _alike(number: int, count: int, targets: list[str]) -> tuple[RecordChange, RecordChange, NewSignal]:
    """A decision, a note and a signal, each of which wakes a run."""
    first, second, third = (
        NewSignal(SignalId(f"s{number}-{at}"), target, "go", b"j1") for at, target in enumerate(targets)
    )
    decided, noted = number - count, number - 2 * count
    closed = _task(decided, is_open=False)._replace(state="completed")
    same = _task(noted, is_open=True)
    return (
        RecordChange(f"d{number}", 1, closed, (NewRecordEvent("completed", "ann"),), signals=(first,)),
        RecordChange(f"n{number}", 1, same, (NewRecordEvent("commented", "ann", b"why"),), signals=(second,)),
        third,
    )


async def _send(store: Store, what: RecordChange | NewSignal) -> None:
    if isinstance(what, NewSignal):
        await store.signals.deliver([what])
    else:
        await store.records.change([what])


async def _fill(store: Store, first: int, count: int, *, is_open: bool) -> None:
    for begin in range(first, first + count, _BATCH):
        numbers = range(begin, min(begin + _BATCH, first + count))
        await store.records.change(
            [
                RecordChange(f"c{number}", 0, _task(number, is_open=is_open), (NewRecordEvent("created"),))
                for number in numbers
            ]
        )


def _task(number: int, *, is_open: bool) -> NewRecord:
    """A task with two labels: one that all have, and one that few have. Ids are in no order."""
    return NewRecord(
        "task",
        f"{number * 2_654_435_761 % (1 << 32):08x}",
        "open" if is_open else "completed",
        _BODY,
        (f"assignee:{number % 10_000}", "role:managers"),
        Instant(4_000_000_000_000_000 + number % 977 * DAY) if is_open else None,
        is_open,
        "cancelled",
    )


async def _pages(store: Store, size: Size, report: Report) -> None:
    common, rare = ("role:managers",), ("assignee:77", "role:managers")
    wanted = {
        "of a label that all have, newest first": RecordFilter("task", labels=common, is_open=True),
        "of a label that all have, oldest first": RecordFilter("task", labels=common, is_open=True, order="oldest"),
        "of a label that all have, by due time": RecordFilter("task", labels=common, order="due"),
        "of a label that all have, open or closed": RecordFilter("task", labels=common),
        "of a rare label": RecordFilter("task", labels=rare, is_open=True),
        "of a state": RecordFilter("task", ("open",)),
        "of all": RecordFilter("task"),
    }
    for name, where in wanted.items():
        took = [await _timed(partial(store.records.list_records, where, limit=_PAGE)) for _ in range(size.asked)]
        one = statistics.median(took) * 1e3
        report.timed(f"records    first {_PAGE} {name}", f"{one:.2f}", *at_most(one, _PAGE_MS_MAX))


async def _look_up(store: Store) -> None:
    """What a service asks before it sleeps."""
    assert await store.records.due(("task",), limit=100) == []
    await store.records.next_due(("task",))
