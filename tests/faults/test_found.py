"""Defects that the simulation found and that too few seeds show: each as a direct test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sim.interpreter import WORKFLOWS
from stepwell.clock import SECOND, Instant
from stepwell.codec.json_codec import JsonCodec
from stepwell.config import WorkerSettings
from stepwell.environment import system_environment
from stepwell.errors import LeaseLostError
from stepwell.errors.records import FailureRecord
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, BeginRollback, Commit, Park, Verdict
from stepwell.model.failures import decode_failure, encode_failure
from stepwell.model.runs import History, NewRun
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant, Fence, NewWorker
from stepwell.replay.registry import Registry
from stepwell.stores.sqlite.store import SqliteStore
from stepwell.worker.execution import Execution
from stepwell.worker.notices import Notices
from stepwell.worker.worker import Worker


class Host:
    """The set of executions of a worker, and the rest of it, that only note what they are told."""

    observers = None
    settings = WorkerSettings()
    notices = Notices(None, None, None, lambda: Instant(0), JsonCodec())

    def __init__(self) -> None:
        self.told: list[str] = []
        self.lease = SimpleNamespace(incarnation="i")
        self.committer = self.routes = None
        self.requests = self

    def adopt(self, claimed: Any) -> None:
        self.told.append(f"adopt {len(claimed)}")

    def left(self, _: Execution) -> None:
        self.told.append("left")

    def suspect_lost_claims(self) -> None:
        self.told.append("suspect")


def make_execution(host: Any, claimed: Any) -> Any:
    execution: Any = Execution(host, host, WORKFLOWS[0], claimed, History())
    execution._commits.sent = object()
    return execution


def claim_of(epoch: int) -> Any:
    run = SimpleNamespace(run_id=RunId("r"), workflow="w", key=None, epoch=epoch, status=RunStatus.RUNNING, last_seq=0)
    return SimpleNamespace(run=run, inbox=None)


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    environment = system_environment()
    store = SqliteStore(environment, ":memory:")
    await store.open()
    yield Worker(environment, store, Registry(WORKFLOWS), WorkerSettings(), JsonCodec())
    await store.close()


def test_children_claimed_by_the_last_commit_of_a_run_given_up_are_adopted() -> None:
    host = Host()

    execution = make_execution(host, claim_of(1))
    execution._claim.is_over = True
    execution.answered(Applied(Verdict.APPLIED, claimed=(object(),)))  # type: ignore[arg-type]

    assert host.told == ["adopt 1"]


def test_a_fenced_worker_asks_what_it_owns() -> None:
    host = Host()

    make_execution(host, claim_of(1)).answered(Applied(Verdict.FENCED))

    assert host.told == ["left", "suspect"]


def test_bodies_asked_for_while_the_park_was_on_its_way_wait_for_no_number_of_the_claim_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Execution, "begin", lambda self, *, is_leaving: None)
    execution = make_execution(Host(), claim_of(1))
    execution._bodies.held = [(7, "body")]

    execution.reclaim(claim_of(2))

    assert execution._bodies.held == [(0, "body")]


async def test_a_lease_that_is_being_taken_anew_is_not_asked_for(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answered, register = asyncio.Event(), worker._resources.store.workers.register

    async def register_late(new: Any) -> Any:
        await is_answered.wait()
        return await register(new)

    monkeypatch.setattr(worker._resources.store.workers, "register", register_late)
    taking = asyncio.create_task(worker._registration.register_again())
    await asyncio.sleep(0)
    assert await worker._registration.renew_once() is False

    is_answered.set()
    await taking
    assert await worker._registration.renew_once() is True


async def test_a_worker_whose_lease_ran_out_unheard_takes_another(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    register, asked = worker._resources.store.workers.register, []

    async def register_slowly(new: Any) -> Any:
        asked.append(new.incarnation)
        if len(asked) == 1:
            raise LeaseLostError("it is over already")
        return await register(new)

    monkeypatch.setattr(worker._resources.store.workers, "register", register_slowly)

    await worker._registration.register()

    assert len(set(asked)) == 2
    assert worker.lease.is_live()


async def test_what_was_claimed_again_while_it_was_loaded_under_a_lost_lease_is_adopted(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    adopted: list[Any] = []
    claimed: Any = SimpleNamespace(run=SimpleNamespace(run_id=RunId("r")))
    again: Any = object()
    worker._executions._later[RunId("r")] = again
    monkeypatch.setattr(worker._executions, "adopt", lambda claims: adopted.extend(claims))

    await worker._executions.load([claimed], worker._resources.new_lease())

    assert adopted == [again]


async def test_nothing_is_freed_while_an_answer_that_may_bring_claims_is_on_its_way(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[Any] = []

    async def relinquish(*_: Any) -> list[RunId]:
        freed.append(worker.offer())
        return []

    monkeypatch.setattr(worker._resources.store.runs, "relinquish", relinquish)
    await worker._registration.register()
    worker.suspect_lost_claims()

    with worker.awaiting:
        await worker._claimer.claim_once()
        assert (freed, worker.offer()) == ([], None)
    await worker._claimer.claim_once()

    assert freed == [None]
    assert worker.offer() is not None


async def test_nothing_is_freed_while_it_is_unknown_whether_a_commit_gave_its_run_up(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[Any] = []
    answer: asyncio.Future[list[Applied]] = asyncio.get_running_loop().create_future()

    async def relinquish(*_: Any) -> list[RunId]:
        freed.append(True)
        return []

    async def apply(*_: Any) -> list[Applied]:
        return await answer

    monkeypatch.setattr(worker._resources.store.runs, "relinquish", relinquish)
    monkeypatch.setattr(worker._resources.store.runs, "apply", apply)
    await worker._registration.register()
    park = Commit(RunId("r"), Fence(worker.lease.incarnation, 1), 1, move=Park(None))
    worker._resources.committer.submit(park, lambda applied: None)
    await asyncio.sleep(0.01)
    worker.suspect_lost_claims()

    await worker._claimer.claim_once()
    assert (freed, worker._resources.committer.is_asking) == ([], True)
    answer.set_result([Applied(Verdict.APPLIED)])
    await asyncio.sleep(0.01)
    await worker._claimer.claim_once()

    assert freed == [True]


class HandClock:
    """A clock that is set by hand."""

    instant = 1_000_000

    def now(self) -> Instant:
        return Instant(self.instant)

    def monotonic(self) -> float:
        return self.instant / SECOND

    def uptime(self) -> int:
        return self.instant

    boot = "by hand"


async def test_a_rollback_that_is_set_aside_keeps_why_the_run_had_failed() -> None:
    clock, own = HandClock(), FailureRecord("Failure", "out of stock")
    store = SqliteStore(replace(system_environment(), clock=clock), ":memory:")
    await store.open()
    await store.workers.register(NewWorker(Incarnation("w"), "w", SECOND, ("program@1",)))
    claimant = Claimant(Incarnation("w"), 1, ("program@1",))
    await store.runs.create([NewRun(RunId("r"), "program", 1, b"jnull")], claimant)
    move = BeginRollback("failed", encode_failure(own))
    await store.runs.apply([Commit(RunId("r"), Fence(Incarnation("w"), 1), 1, move=move)])
    clock.instant += 10 * SECOND

    assert await store.runs.rescue(stalls_max=1) == ["r"]

    run = await store.views.find("r")
    assert run is not None
    assert run.failure is not None
    assert (run.status, decode_failure(run.failure).causes["run"]) == (RunStatus.PAUSED, own)
    await store.close()
