"""The same random acts on the memory store, the executable specification, and on SQLite: same answers, same state."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepwell.clock import Instant, Span
from stepwell.conformance.clock import ManualClock
from stepwell.conformance.scene import new_run, new_signal
from stepwell.conformance.snapshot import snapshot
from stepwell.environment import Environment, SystemExecutor
from stepwell.errors import StepwellError
from stepwell.ids import EventId, Incarnation, RunId, SystemIds
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Move, Park, Pause, Release, Verdict
from stepwell.model.entries import Attempt, Cursor, Entry, Progress
from stepwell.model.failures import FailureRecord, encode_failure
from stepwell.model.live import Append, ChunkKind, Published
from stepwell.model.locations import ROOT, Location, iteration, named, subtree
from stepwell.model.outbox import ANNOUNCED, Announce, Emit, Settled, Unsent
from stepwell.model.runs import NewRun, Parent
from stepwell.model.signals import Redelivery, Refusal, Reply, ReplyStatus
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.model.workers import Claimant, Fence, NewWorker, Renewed
from stepwell.stores.base.store import Store
from stepwell.stores.memory.store import MemoryStore
from stepwell.stores.sqlite.store import SqliteStore

_ACTS = 200
_KEYS = (None, None, "k1", "k2")
_SIGNALS = ("go", "stop")
_WORKERS = ("w1", "w2")
_FLOWS = ("flow@1", "flow@2")
_FAILURE = encode_failure(FailureRecord("Oops", "no", path="a"))
_ENDS = (
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.CANCELLED,
    RunStatus.COMPENSATED,
    RunStatus.COMPENSATION_FAILED,
)


class Refused:
    """The answer of a store that raised."""


class Double:
    """Both stores; every act is done to both and must be answered alike."""

    def __init__(self, seed: int) -> None:
        self.clock = ManualClock()
        self.random = random.Random(seed)
        self.memory, self.sqlite = (
            store(Environment(self.clock, SystemIds(self.clock), random.Random(0), SystemExecutor()))
            for store in (MemoryStore, lambda environment: SqliteStore(environment, ":memory:"))
        )
        self.answers: Counter[str] = Counter()
        self.ids = 0

    async def both(self, act: Callable[[Store], Awaitable[Any]]) -> Any:
        """Do it to both; the answer, or `Refused` (a commit may be wrong in two ways, and either be told)."""
        answers = []
        for store in (self.memory, self.sqlite):
            try:
                answers.append(await act(store))
            except (ValueError, StepwellError):
                answers.append(Refused)
        assert answers[0] == answers[1], f"\n{answers[0]}\n{answers[1]}"
        return answers[0]

    def next_id(self, letter: str) -> str:
        """Ids in the order of creation, so that both stores break ties alike."""
        self.ids += 1
        return f"{letter}{self.ids:06}"

    def location(self) -> Location:
        """One of few places, so that they meet."""
        place = named(ROOT, self.random.randrange(3))
        return iteration(place, self.random.randrange(3)) if self.random.random() < 0.5 else place

    def claimant(self) -> Claimant | None:
        """Who claims, if anybody."""
        if self.random.random() < 0.4:
            return None
        return Claimant(
            Incarnation(self.random.choice(_WORKERS)), self.random.randint(1, 4), _FLOWS[: self.random.randint(1, 2)]
        )

    def new(self, **changes: Any) -> NewRun:
        """A run to start."""
        dedup, delay = self.random.choice([0, 0, 5_000_000]), self.random.choice([0, 0, 2_000_000])
        key, version = self.random.choice(_KEYS), self.random.randint(1, 2)
        run = new_run(self.next_id("r"), key=key, version=version, dedup=Span(dedup), delay=Span(delay))
        deadline = self.random.choice([None, None, None, Instant(self.clock.now() + 2_500_000)])
        run = run._replace(
            priority=self.random.choice([0, 0, 0, 5, -5]),
            deadline_at=deadline,
            max_suspend=self.random.choice([None, Span(7)]),
            tags=self.random.choice([(), (("team", "a"), ("vip", ""))]),
            on_conflict=self.random.choice(["get", "get", "get", "raise", "replace"]),
            discards=self.random.random() < 0.3,
        )
        return run._replace(**changes)


async def _runs(double: Double) -> list[Any]:
    return [entry["run"] for entry in (await snapshot(double.memory))["runs"].values()]


async def _some_run(double: Double) -> Any:
    runs = await _runs(double)
    return double.random.choice(runs) if runs else None


async def create(double: Double) -> None:
    runs = [double.new(own_id=double.random.random() < 0.5) for _ in range(double.random.randint(1, 3))]
    if double.random.random() < 0.1 and (known := await _some_run(double)):
        runs.append(runs[0]._replace(run_id=known.run_id))
    claimant = double.claimant()
    await double.both(lambda store: store.runs.create(runs, claimant))


async def debounce(double: Double) -> None:
    new = double.new(key=double.random.choice(["k1", "k2"]), deadline_at=None)
    planned = [run for run in await _runs(double) if run.debounced_until is not None and run.key == new.key]
    if planned and double.random.random() < 0.8:
        new = new._replace(run_id=planned[-1].run_id)
    elif double.random.random() < 0.1 and (known := await _some_run(double)):
        new = new._replace(run_id=known.run_id)
    quiet, max_wait = Span(1_500_000), Span(4_000_000)
    answer = await double.both(lambda store: store.runs.debounce(new, quiet=quiet, max_wait=max_wait))
    double.answers["stale" if answer.is_stale else "debounced"] += 1


async def claim(double: Double) -> None:
    claimant = double.claimant()
    if claimant is not None:
        await double.both(lambda store: store.runs.claim(claimant))


def _entries(double: Double, last_seq: int) -> tuple[Entry, ...]:
    count = double.random.choice([0, 1, 1, 1, 2])
    gap = double.random.random() < 0.03
    return tuple(
        Entry(
            last_seq + 1 + n + gap,
            double.location()
            if double.random.random() < 0.05
            else Location(named(ROOT, 2) + bytes((0x21, last_seq + n & 0xFF))),
            double.random.choice(list(EntryKind)),
            double.random.choice(list(EntryStatus)),
            b"v",
            Instant(double.clock.now() + n),
            5,
            undo=b"u" if double.random.random() < 0.2 else None,
        )
        for n in range(count)
    )


def _waits(double: Double) -> tuple[Wait, ...] | None:
    if double.random.random() < 0.4:
        return None
    due = Instant(double.clock.now() + 3_000_000)
    waits = (
        Wait(double.location(), WaitKind.SIGNAL, 1, None, double.random.choice([(), ("go",), ("go", "stop")])),
        Wait(double.location(), WaitKind.CHILD, 2, limit_at=due),
        Wait(double.location(), WaitKind.TIMER, 3, due),
    )
    return tuple(wait for wait in waits if double.random.random() < 0.5)


def _published(double: Double) -> tuple[Published, ...]:
    count, chance = double.random.choice((0, 0, 1, 2)), double.random
    return tuple(
        Published(chance.choice("ab"), chance.randint(0, 5), b"%d" % chance.randint(0, 9)) for _ in range(count)
    )


def _appends(double: Double) -> tuple[Append, ...]:
    count, chance = double.random.choice((0, 0, 1, 3)), double.random
    kinds = (ChunkKind.DATA,) * 9 + (ChunkKind.CLOSE,)
    return tuple(
        Append(chance.choice("st"), chance.choice(kinds), b"v", chance.choice(("", "a", "b")), part, begins=part > 1)
        for part in (chance.randint(1, 3) for _ in range(count))
    )


def _move(double: Double, run: Any) -> Move | None:
    due = Instant(double.clock.now() + double.random.choice([-1, 1_000_000]))
    end = End(double.random.choice(_ENDS), b"out", double.random.choice([None, _FAILURE]))
    heir = End(RunStatus.CONTINUED, successor=new_run(double.next_id("r"), version=run.version))
    undo = BeginRollback(double.random.choice(["failed", "cancelled"]), double.random.choice([None, _FAILURE]), 1)
    forward: list[Move] = [Park(due), Park(due), Park(due), Release(), Pause(_FAILURE), undo, undo, end, heir]
    undoing: list[Move] = [Park(due), Release(), Pause(_FAILURE), end, end, end]
    moves = undoing if run.status is RunStatus.COMPENSATING else forward
    return double.random.choice(moves) if double.random.random() < 0.4 else None


def _child(double: Double, run: Any) -> NewRun:
    parent = Parent(run.run_id, double.location(), double.random.random() < 0.3, double.random.random() < 0.3)
    return double.new(parent=parent)


async def commit(double: Double, numbers: dict[tuple[str, int], int]) -> None:
    owned = [run for run in await _runs(double) if run.owner is not None]
    if not owned:
        return
    batch = []
    for run in double.random.sample(owned, min(len(owned), double.random.randint(1, 3))):
        number = numbers.get((run.run_id, run.epoch), 0) + double.random.choice([1] * 12 + [0, 2])
        [inbox] = [await double.memory.runs.inbox(run.run_id)]
        consumed = tuple(signal.number for signal in inbox.signals if double.random.random() < 0.5)
        left = [signal for signal in inbox.signals if signal.number not in consumed]
        at = double.location()
        chance = double.random.random
        batch.append(
            Commit(
                run.run_id,
                Fence(run.owner, run.epoch + (chance() < 0.02)),
                number,
                names=("a", "b", "c") if run.revision == 0 else (),
                entries=_entries(double, run.last_seq),
                attempts=(Attempt(at, double.random.randint(1, 3), double.clock.now(), b"f", None),) * (chance() < 0.2),
                cursors=(Cursor(at, 1, 0, b"s"),) * (chance() < 0.2),
                ended_cursors=(at,) * (chance() < 0.1),
                progress=(Progress(at, Instant(5), double.random.choice((None, b"s", b"t"))),) * (chance() < 0.2),
                ended_progress=(at,) * (chance() < 0.1),
                trims=(subtree(at),) * (chance() < 0.1),
                consumed=consumed,
                children=(_child(double, run),) * (chance() < 0.3),
                waits=_waits(double),
                move=_move(double, run),
                refused=tuple(Refusal(one.number, "no") for one in left if chance() < 0.1),
                replies=tuple(Reply(one.number, ReplyStatus.GIVEN, b"r") for one in inbox.signals if chance() < 0.2),
                emits=_emits(double),
                announce=Announce(dict.fromkeys(ANNOUNCED, ("s", "u"))) if chance() < 0.5 else None,
                published=_published(double),
                appends=_appends(double),
            )
        )
    claimant = double.claimant()
    answers = await double.both(lambda store: store.runs.apply(batch, claimant))
    if isinstance(answers, list):
        for one, answer in zip(batch, answers, strict=True):
            _count(double, numbers, one, answer)


def _count(double: Double, numbers: dict[tuple[str, int], int], one: Commit, answer: Applied) -> None:
    double.answers[answer.verdict] += 1
    if answer.verdict is Verdict.APPLIED:
        numbers[one.run_id, one.fence.epoch] = one.number


async def deliver(double: Double) -> None:
    run, signals = await _some_run(double), []
    for _ in range(double.random.randint(1, 3)):
        target = double.random.choice(["k1", "k2", run.run_id if run else "nobody"])
        dedup_key, hold = double.random.choice([None, "d1", "d2"]), double.random.random() < 0.5
        name = double.random.choice(_SIGNALS)
        asks = double.random.random() < 0.2
        signals.append(new_signal(double.next_id("s"), target, name, dedup_key=dedup_key, hold=hold, asks=asks))
    claimant = double.claimant()
    await double.both(lambda store: store.signals.deliver(signals, claimant))
    await double.both(lambda store: store.views.find_question(signals[0].signal_id))


async def start_or_deliver(double: Double) -> None:
    run, claimant = double.new(key=double.random.choice(["k1", "k2"]), dedup=Span(0)), double.claimant()
    signal = new_signal(double.next_id("s"), run.key or "", dedup_key=double.random.choice([None, "d1"]))
    for _ in range(double.random.choice([1, 1, 2])):
        await double.both(lambda store: store.signals.deliver_or_create(signal, run, claimant))


async def redeliver(double: Double) -> None:
    run, claimant = await _some_run(double), double.claimant()
    held = [one.signal for one in await double.memory.views.list_held(limit=3)]
    strays = held + [one.signal for one in await double.memory.views.list_unread(limit=3)]
    target = double.random.choice(["k1", "k2", run.run_id if run else "nobody"])
    letters = [Redelivery(one.number, target, one.payload) for one in strays if double.random.random() < 0.7]
    await double.both(lambda store: store.signals.redeliver([*letters, Redelivery(1, target, b"p")], claimant))


async def operate(double: Double) -> None:
    run = await _some_run(double)
    if run is None:
        return
    run_id: RunId = run.run_id
    if double.random.random() < 0.3:
        compensate = double.random.random() < 0.5
        await double.both(lambda store: store.runs.cancel(run_id, compensate=compensate, reason="why"))
        return
    verb = double.random.choice(["resume", "resume_rollback", "retry"])
    await double.both(lambda store: getattr(store.runs, verb)(run_id, by="me"))


def _emits(double: Double) -> tuple[Emit, ...]:
    count = double.random.choice([0, 0, 1, 2])
    now, sinks = double.clock.now(), ((), ("s",), ("s", "t"))
    return tuple(
        Emit(EventId(double.next_id("e")), "paid", "a", b"p", now, double.random.choice(sinks)) for _ in range(count)
    )


async def relay(double: Double) -> None:
    """Take, and settle some of it in some way."""
    worker, sink = Incarnation(double.random.choice(_WORKERS)), double.random.choice(["s", "t"])
    chance = double.random.random
    keep = frozenset(double.random.sample(range(30), 10))
    batches = await double.both(lambda store: store.outbox.take(worker, sink, limit=3, batch_max=2, keep=keep))
    await double.both(lambda store: store.outbox.next_due(sink))
    if not isinstance(batches, list) or chance() < 0.2:
        return
    settled = []
    for batch in batches:
        sent = double.random.randint(0, len(batch))
        retry_in = None if chance() < 0.4 else Span(2_000_000)
        unsent = Unsent(batch[sent].number, "no", retry_in) if sent < len(batch) and chance() < 0.7 else None
        settled.append(Settled(batch[0].number, tuple(one.number for one in batch[:sent]), unsent))
    for _ in range(double.random.choice([1, 1, 2])):
        await double.both(lambda store: store.outbox.settle(worker, settled))


async def sort_letters(double: Double) -> None:
    """Replay or drop what is dead, or drop what is not."""
    rows = [*(state := await snapshot(double.memory))["dead"], *state["owed"]]
    if rows:
        event, sink = double.random.choice(rows).event_id, double.random.choice([None, "s"])
        verb = double.random.choice(["replay", "drop"])
        await double.both(lambda store: getattr(store.outbox, verb)(event, sink, by="me"))


async def _sorted(answer: Awaitable[list[RunId]]) -> list[RunId]:
    return sorted(await answer)


async def _renew(store: Store, worker: Incarnation) -> Renewed:
    renewed = await store.workers.renew(worker, Span(20_000_000))
    return renewed._replace(cancelling=tuple(sorted(renewed.cancelling)))


async def keep_house(double: Double) -> None:
    worker = Incarnation(double.random.choice(_WORKERS))
    match double.random.randrange(6):
        case 0:
            await double.both(lambda store: _sorted(store.runs.rescue(stalls_max=3)))
        case 1:
            await double.both(lambda store: _sorted(store.runs.relinquish(worker, ())))
        case 2 if double.random.random() < 0.2:
            await double.both(lambda store: store.workers.retire(worker))
        case 3 | 4:
            await double.both(lambda store: _renew(store, worker))
        case _:
            await double.both(lambda store: store.workers.register(NewWorker(worker, worker, Span(20_000_000), _FLOWS)))


async def look(double: Double) -> None:
    run = await _some_run(double)
    targets = ["k1", "k2", "nobody", *([run.run_id] if run else [])]
    await double.both(lambda store: store.views.next_wake(_FLOWS))
    await double.both(lambda store: store.views.has_stranded())
    await double.both(lambda store: store.views.orphans())
    assert [one and one.run_id for one in await double.both(lambda store: store.views.find_many(targets))]
    if run is not None:
        await double.both(lambda store: store.runs.inbox(run.run_id))
        await double.both(lambda store: store.runs.load([run.run_id]))


@pytest.mark.parametrize("seed", range(20))
async def test_both_stores_answer_alike_and_end_alike(seed: int) -> None:
    double = Double(seed)
    numbers: dict[tuple[str, int], int] = {}
    for store in (double.memory, double.sqlite):
        await store.open()
        for worker in _WORKERS:
            await store.workers.register(NewWorker(Incarnation(worker), worker, Span(20_000_000), _FLOWS))
    acts = [create, claim, claim, claim, deliver, start_or_deliver, redeliver, operate, keep_house, look, debounce]
    acts += [relay, relay, sort_letters]

    for _ in range(_ACTS):
        double.clock.advance(double.random.choice(["0s", "1us", "100ms", "1s"]))
        if double.random.random() < 0.4:
            await commit(double, numbers)
        else:
            await double.random.choice(acts)(double)
        assert await snapshot(double.memory) == await snapshot(double.sqlite)

    assert double.answers[Verdict.APPLIED] > 0
    for store in (double.memory, double.sqlite):
        await store.close()
