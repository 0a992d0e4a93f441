"""A client that keeps a crew busy while something is done to the database, and what must hold afterwards."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stepwell import Engine
from stepwell.addresses import open_store
from stepwell.environment import system_environment
from stepwell.model.states import ACTIVE
from stepwell.stores.base.views import RunFilter
from tests.system.evidence import Evidence, Observed, collect
from tests.system.fleet import LEDGER
from tests.system.ledger import Ledger
from tests.system.postgres.crew import SECONDS_MAX, Crew, until
from tests.system.postgres.served import PARTS, TABLE, WORKFLOWS, audience, bookings, holding
from tests.system.storm_checks import violations
from tests.system.storm_client import Client
from tests.system.storm_workflows import SINKS, Job

_ACTIVE_MAX = 12
_EVERY_SECONDS = 0.05
_LIMIT = 5_000
_OWN = (audience.name, bookings.name, holding.name)  # checked here; all others as after a storm


class CountingLedger(Ledger):
    """Knows how often each kind was noted through it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.counts: Counter[str] = Counter()

    def note(self, kind: str, **facts: Any) -> None:
        super().note(kind, **facts)
        self.counts[kind] += 1


class Load:
    """Starts, signals, cancels, publishes and books, and notes in the crew's ledger whatever was acknowledged."""

    def __init__(self, crew: Crew, *, has_sinks: bool = True) -> None:
        self._crew = crew
        self._ledger = CountingLedger(crew.folder / LEDGER)
        self.store = open_store(crew.url, system_environment())
        self._has_sinks = has_sinks  # as the workers have
        sinks = SINKS if has_sinks else ()
        self.engine = Engine(self.store, workflows=WORKFLOWS, worker=False, sinks=sinks, lifecycle=has_sinks)
        self._client = Client(self.engine, self._ledger, random.Random(1), active_max=_ACTIVE_MAX)
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.engine.__aenter__()
        await self.engine.transact(lambda tx: tx.execute(TABLE))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        await self._client.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.engine.shutdown()
        self._ledger.close()

    # --- while it lasts ---

    def begin(self) -> None:
        """Begin to keep the crew busy."""
        for work in (self._client.keep_busy(self._stop, _EVERY_SECONDS), self._book(), self._perform()):
            self._spawn(work)

    @property
    def acknowledged(self) -> int:
        """How many results were told to this client so far."""
        return sum(self._ledger.counts[kind] for kind in ("result", "ended", "booked", "performed"))

    async def goes_on(self, results: int = 5) -> None:
        """Return when so many more results have come: work goes on."""
        before = self.acknowledged
        await until(lambda: self.acknowledged >= before + results, "work does not go on")

    async def settle(self) -> Evidence:
        """Begin nothing more, wait until everything has ended, and give what there is to judge by."""
        self._stop.set()
        await asyncio.wait_for(asyncio.gather(*self._tasks, self._client.finish()), SECONDS_MAX)
        await asyncio.wait_for(self._all_ended(), SECONDS_MAX)
        return await collect(self.engine, self.store, self._crew.lines(), Observed())

    async def _all_ended(self) -> None:
        while True:
            active = await self.store.views.list_runs(RunFilter(statuses=tuple(ACTIVE)), limit=_LIMIT)
            if not active and not await self.store.outbox.list_owed(is_dead=False, limit=_LIMIT):
                return
            await asyncio.sleep(0.05)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def _book(self) -> None:
        """Transactional steps, one run after the other."""
        for number in itertools.count():
            if self._stop.is_set():
                return
            handle = await self.engine.start(bookings, Job(3), key=f"booking-{number}")
            self._ledger.note("booked", run=handle.run_id, value=await handle.result(timeout=SECONDS_MAX))

    async def _perform(self) -> None:
        """Events of a topic, of which every other one is there before anybody waits for it."""
        for number in itertools.count():
            if self._stop.is_set():
                return
            show = f"show-{number}"
            handle = await self.engine.start(audience, Job(given=show), key=show)
            for part in range(PARTS):
                event = {"show": show, "text": f"{show}.{part}"}
                await self.engine.publish(f"part{part}", event, retain="1h", event_id=f"{show}.{part}")
            self._ledger.note("performed", run=handle.run_id, value=await handle.result(timeout=SECONDS_MAX))

    # --- afterwards ---

    async def check(self, evidence: Evidence, *, may_repeat: bool = False) -> None:
        """Nothing that was acknowledged is lost, all has ended, and no body ran again whose worker lived."""
        own = {run_id: found for run_id, found in evidence.runs.items() if found.detail.run.workflow in _OWN}
        for run_id in own:
            del evidence.runs[run_id]
        broken = violations(evidence)
        if not self._has_sinks:
            del broken["bad events"]
        kept = {promise: found for promise, found in broken.items() if found}
        assert kept == {}, kept
        assert evidence.of("unacknowledged") == []
        for line in evidence.of("performed"):
            assert own[line.facts["run"]].output == line.facts["value"]
            show = own[line.facts["run"]].detail.run.key
            assert line.facts["value"] == [f"{show}.{part}" for part in range(PARTS)]
        rows = await self.engine.transact(lambda tx: tx.execute("select run, number from bookings order by 1, 2"))
        booked = [run_id for run_id, found in own.items() if found.detail.run.workflow == bookings.name]
        assert rows == [(run_id, number) for run_id in sorted(booked) for number in range(3)]
        assert {line.facts["run"] for line in evidence.of("booked")} <= set(booked)
        assert evidence.executions
        if not may_repeat:
            assert set(Counter((each.run, each.path, each.attempt) for each in evidence.executions).values()) == {1}
