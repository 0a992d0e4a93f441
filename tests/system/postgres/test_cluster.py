"""The life of a cluster of `stepwell worker` processes: restarts, deaths, pauses, and clocks that are wrong."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from stepwell import Engine
from stepwell.addresses import open_store
from stepwell.clock import SECOND, Instant
from stepwell.environment import system_environment
from stepwell.errors import LeaseLostError
from stepwell.ids import Incarnation
from stepwell.model.entries import Entry
from stepwell.model.runs import History
from stepwell.model.states import EntryKind
from stepwell.stores.base.store import Store
from tests.system.evidence import Execution, executions_of
from tests.system.fleet import LEDGER
from tests.system.ledger import Ledger
from tests.system.postgres.crew import SECONDS_MAX, Crew, Hand, until
from tests.system.postgres.load import Load
from tests.system.postgres.served import TABLE, WORKFLOWS, holding
from tests.system.storm_workflows import Job, chain, naps, saga
from tests.system.takeovers import Takeovers

LEASE_SECONDS = 2.0
TAKEOVER_SECONDS_MAX = LEASE_SECONDS + 15.0  # the tight bound is for `make storm`
HOUR_SECONDS = 3600.0
NAPS_SECONDS = (0.2, 1.3)  # as `naps` takes them


@asynccontextmanager
async def client(crew: Crew) -> AsyncIterator[tuple[Engine, Store]]:
    """This very process as a client, and the store below it."""
    store = open_store(crew.url, system_environment())
    async with Engine(store, workflows=WORKFLOWS, worker=False) as engine:
        await engine.transact(lambda tx: tx.execute(TABLE))
        yield engine, store


@asynccontextmanager
async def lag() -> AsyncIterator[Callable[[], float]]:
    """How long the machine kept this process waiting: that is not the workers' doing."""
    takeovers = Takeovers()
    watch = asyncio.ensure_future(takeovers.measure_lag())
    try:
        yield lambda: takeovers.lag
    finally:
        watch.cancel()


def executions(crew: Crew) -> list[Execution]:
    return executions_of(crew.lines())


async def begun(crew: Crew, path: str, *, run: str | None = None, by: int | None = None) -> Execution:
    """The body at a path, as soon as that process, or any, has begun it."""

    def found() -> list[Execution]:
        return [
            each
            for each in executions(crew)
            if each.path == path and by in (None, each.pid) and run in (None, each.run)
        ]

    await until(lambda: bool(found()), f"{path} is not begun")
    return found()[0]


def owner_first(hands: Sequence[Hand], execution: Execution) -> list[Hand]:
    return sorted(hands, key=lambda hand: hand.pid != execution.pid)


async def test_a_rolling_restart_under_load_repeats_no_step(crew: Crew) -> None:
    hands = await asyncio.gather(*(crew.hire(f"old{number}") for number in range(2)))
    codes: list[int] = []
    async with Load(crew, has_sinks=False) as load:
        load.begin()
        for number, hand in enumerate(hands):
            await load.goes_on()
            hand.send(signal.SIGTERM)
            codes.append(await hand.left())
            await crew.hire(f"new{number}")
        await load.goes_on()

        await load.check(await load.settle())

    assert codes == [0, 0]


async def test_the_runs_of_a_killed_worker_are_taken_over_within_its_lease_and_two_seconds(crew: Crew) -> None:
    hands = await asyncio.gather(*(crew.hire(name, lease=LEASE_SECONDS) for name in ("first", "second")))
    async with client(crew) as (engine, _), lag() as lost:
        handle = await engine.start(saga, Job(3, slow=1.0))
        killed = await begun(crew, "book#2")
        first, second = owner_first(hands, killed)

        first.kill()
        killed_at = time.monotonic()
        again = await begun(crew, "book#2", by=second.pid)
        result = await handle.result(timeout=SECONDS_MAX)
        late = lost()

    assert again.began - killed_at < TAKEOVER_SECONDS_MAX + late
    assert (again.key, again.attempt, again.given) == (killed.key, killed.attempt, killed.given)
    assert result[1] == again.value
    assert Counter(each.path for each in executions(crew)) == {"book": 1, "book#2": 2, "book#3": 1}


async def test_a_worker_of_the_same_name_is_somebody_new_and_does_not_renew_the_old_lease(crew: Crew) -> None:
    first = await crew.hire("alpha", lease=LEASE_SECONDS)
    async with client(crew) as (engine, store):
        handle = await engine.start(saga, Job(2, slow=0.5))
        await begun(crew, "book", by=first.pid)
        first.kill()
        [old] = await store.views.list_workers()
        second = await crew.hire("alpha", lease=LEASE_SECONDS)

        seen: set[tuple[Incarnation, Instant]] = set()
        while not any(each.pid == second.pid for each in executions(crew)):
            seen |= {(each.incarnation, each.lease_until) for each in await store.views.list_workers()}
        run = await store.views.find(handle.run_id)
        result = await handle.result(timeout=SECONDS_MAX)
        [new] = await store.views.list_workers()
        with pytest.raises(LeaseLostError):
            await store.workers.renew(old.incarnation, 1)

    assert (old.name, new.name) == ("alpha", "alpha")
    assert old.incarnation != new.incarnation
    assert {until for incarnation, until in seen if incarnation == old.incarnation} == {old.lease_until}
    assert run is not None
    assert (run.owner, run.epoch) == (new.incarnation, 2)
    assert len(result) == 2


async def test_a_worker_that_was_stopped_past_its_lease_commits_nothing_and_starts_no_body(crew: Crew) -> None:
    ledger = Ledger(crew.folder / LEDGER)
    hands = await asyncio.gather(*(crew.hire(name, lease=1.0) for name in ("first", "second")))
    async with client(crew) as (engine, _):
        handles = [await engine.start(saga, Job(2, slow=1.5)) for _ in range(4)]
        handles += [await engine.start(naps, Job(2)), await engine.start(chain, Job(5, slow=0.3))]
        first, second = owner_first(hands, await begun(crew, "book#2"))

        first.send(signal.SIGSTOP)
        broken_off = [
            each
            for each in executions(crew)
            if each.pid == first.pid and each.ended is None and each.path.startswith("book")
        ]
        for each in broken_off:
            await begun(crew, each.path, run=each.run, by=second.pid)
        ledger.note("continued", pid=first.pid)
        first.send(signal.SIGCONT)
        results = [await handle.result(timeout=SECONDS_MAX) for handle in handles]
        recorded = {entry.value for handle in handles for entry in await engine.runs.history(handle.run_id)}
        await until(lambda: "the lease is lost" in first.log())
        second.send(signal.SIGTERM)
        assert await second.left() == 0
        later = await engine.start(chain, Job(1))
        await later.result(timeout=SECONDS_MAX)
    ledger.close()

    assert broken_off
    assert not recorded & {each.value for each in broken_off}
    assert begun_blindly(crew, first.pid) == []
    assert all(results)
    assert {each.pid for each in executions(crew) if each.run == later.run_id} == {first.pid}


def begun_blindly(crew: Crew, pid: int) -> list[Execution]:
    """Bodies that a process began after it was continued, and before it had noticed that its lease was over."""
    [continued] = [line.at for line in crew.lines("continued") if line.facts["pid"] == pid]
    noticed = min(
        line.at for line in crew.lines("warned") if line.pid == pid and "the lease is lost" in line.facts["text"]
    )
    return [each for each in executions(crew) if each.pid == pid and continued < each.began < noticed]


async def test_a_worker_that_was_stopped_inside_a_transaction_keeps_nobody_from_its_other_runs(crew: Crew) -> None:
    first = await crew.hire("first", lease=LEASE_SECONDS)
    async with client(crew) as (engine, store), lag() as lost:
        handles = [await engine.start(saga, Job(1, slow=10.0)) for _ in range(2)]
        for handle in handles:
            await begun(crew, "book", run=handle.run_id)
        held = await engine.start(holding, Job(slow=5.0))
        await until(lambda: bool(crew.lines("holding")))
        second = await crew.hire("second", lease=LEASE_SECONDS)

        first.send(signal.SIGSTOP)
        stopped_at = time.monotonic()
        taken = [await begun(crew, "book", run=handle.run_id, by=second.pid) for handle in handles]
        late = lost()
        first.send(signal.SIGCONT)
        result = await held.result(timeout=SECONDS_MAX)
        for handle in handles:
            await handle.cancel()
        rows = await engine.transact(lambda tx: tx.execute("select run from bookings"))
        run = await store.views.find(held.run_id)

    assert max(each.began for each in taken) - stopped_at < TAKEOVER_SECONDS_MAX + late
    assert (result, rows) == (["0"], [(held.run_id,)])
    assert run is not None
    assert run.epoch == 2


async def test_workers_whose_clocks_are_an_hour_off_change_nothing(crew: Crew) -> None:
    await asyncio.gather(crew.enlist("ahead", skew=HOUR_SECONDS), crew.enlist("behind", skew=-HOUR_SECONDS))
    async with Load(crew) as load:
        before = load.store.now()
        load.begin()
        await load.goes_on(20)
        evidence = await load.settle()
        after = load.store.now()
        await load.check(evidence)

    assert [line for line in evidence.of("warned") if "the lease is lost" in line.facts["text"]] == []
    assert len({each.pid for each in evidence.executions}) == 2
    moments = [entry.at for found in evidence.runs.values() for entry in found.detail.history.entries]
    assert before <= min(moments)
    assert max(moments) <= after
    rests = [
        (waited, (woken.at - before.at) / SECOND)
        for found in evidence.runs.values()
        if found.detail.run.workflow == naps.name
        for waited, (before, woken) in zip(NAPS_SECONDS, naps_of(found.detail.history), strict=False)
    ]
    assert rests
    assert [(waited, took) for waited, took in rests if not waited <= took < SECONDS_MAX] == []


def naps_of(history: History) -> Iterator[tuple[Entry, Entry]]:
    """Each nap of a run, behind what was recorded before it."""
    return ((one, other) for one, other in pairwise(history.entries) if other.kind is EntryKind.SLEEP)
