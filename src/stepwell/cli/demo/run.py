"""The demonstration: one order survives a kill -9, and another one is rolled back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepwell.cli.client import Client
from stepwell.cli.demo import ledger
from stepwell.cli.demo.checks import Check, Repeats, Takeover, check_rollback, check_takeover, count_repeats
from stepwell.cli.demo.processes import LEASE, WorkerProcess
from stepwell.cli.demo.workflow import COOLING_OFF, NOWHERE, Order, order_saga
from stepwell.cli.texts import clean, duration
from stepwell.clock import SECOND, SystemClock, span
from stepwell.engine.views import EntryView, RunView, WaitView, entry_views, run_view, wait_views
from stepwell.errors import StepwellError

_LOOK_SECONDS = 0.04
_PATIENCE_SECONDS = 20.0  # for any one thing to happen
_INTO_THE_STEP_SECONDS = 0.2

Say = Callable[[str], None]


class DemoFailed(Exception):  # noqa: N818  never leaves this module
    """An expected event did not happen."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One run at the end."""

    run: RunView
    entries: list[EntryView]
    waits: list[WaitView]


@dataclass(slots=True)
class Report:
    """What was shown, and whether each claim was true."""

    checks: list[Check] = field(default_factory=list)
    runs: list[Seen] = field(default_factory=list)
    repeats: Repeats = field(default_factory=lambda: Repeats((), ()))
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every claim was true."""
        return bool(self.checks) and all(check.ok for check in self.checks)


class Demo:
    """Runs both orders and prints what happens."""

    def __init__(self, client: Client, db: str, folder: Path, say: Say) -> None:
        self._client = client
        self._db = db
        self._folder = folder
        self._ledger = folder / "effects.jsonl"
        self._say_line = say
        self._clock = SystemClock()
        self._begun = self._clock.monotonic()
        self._told: set[tuple[str, int]] = set()
        self._workers: list[WorkerProcess] = []
        self.report = Report()

    async def run(self) -> Report:
        """Run both orders. An error becomes a check that is not true."""
        try:
            await self._first_order()
            await self._second_order()
            self._stop()
        except (DemoFailed, StepwellError, OSError) as error:
            self.report.checks.append(Check("the demonstration finished", False, str(error)))
        finally:
            for worker in self._workers:
                worker.clean_up()
        self.report.seconds = self._clock.monotonic() - self._begun
        return self.report

    # --- the two orders ---

    async def _first_order(self) -> None:
        first = self._start_worker("worker-1")
        handle = await self._client.engine.start(order_saga, self._order("1001", 250, "Elm Street 5"), key="order-1001")
        self._say("order 1001 started: reserve, charge, pack, cool off, approve, ship")
        await self._until(handle.run_id, lambda: self._has_begun(handle.run_id, "pack_parcel"), "pack_parcel")
        await asyncio.sleep(_INTO_THE_STEP_SECONDS)
        await self._tell_news(handle.run_id)
        owner = (await self._client.engine.runs.detail(handle.run_id)).run.owner or ""
        died = first.kill()
        self._say(f"✕ kill -9 of worker-1 (pid {first.pid}) in the middle of pack_parcel")
        recorded = frozenset(entry.path for entry in (await self._look(handle.run_id)).entries)
        second = self._start_worker("worker-2")
        self._say(f"  worker-2 takes over when worker-1's lease of {LEASE} has expired")
        await self._until(handle.run_id, lambda: self._waits_for(handle.run_id, "signal"), "the wait for an approval")
        incarnation = await self._incarnation("worker-2")
        self._say("‖ waiting for the signal 'approval'; sending it")
        await self._client.engine.signal(handle.run_id, "approval", {"by": "ann"})
        await self._until(handle.run_id, lambda: self._has_ended(handle.run_id), "the end of order 1001")
        takeover = Takeover(
            in_flight="pack_parcel",
            recorded=recorded,
            died_by_kill=died,
            first_pid=first.pid,
            second_pid=second.pid,
            first_incarnation=owner,
            second_incarnation=incarnation,
        )
        seen, effects = await self._look(handle.run_id), self._effects(handle.run_id)
        self._say(f"order 1001 {seen.run.status}")
        self.report.runs.append(seen)
        self.report.repeats = count_repeats(effects, seen.entries, recorded)
        self.report.checks += check_takeover(seen.run, seen.entries, effects, takeover, span(COOLING_OFF) / SECOND)

    async def _second_order(self) -> None:
        handle = await self._client.engine.start(order_saga, self._order("1002", 40, NOWHERE), key="order-1002")
        self._say("order 1002 started; no carrier accepts it, so everything is undone")
        await self._until(handle.run_id, lambda: self._has_ended(handle.run_id), "the end of order 1002")
        seen = await self._look(handle.run_id)
        self._say(f"order 1002 {seen.run.status}")
        self.report.runs.append(seen)
        self.report.checks += check_rollback(seen.run, seen.entries, self._effects(handle.run_id))

    def _stop(self) -> None:
        code = self._workers[-1].stop()
        self.report.checks.append(Check("worker-2 stopped when asked", code == 0, f"exit code {code}"))

    def _order(self, number: str, amount: int, address: str) -> Order:
        return Order(number, amount, address, str(self._ledger))

    # --- looking ---

    async def _until(self, run_id: str, has_come: Callable[[], Awaitable[bool]], what: str) -> None:
        """Print the events of a run until a condition holds."""
        patience = self._clock.monotonic() + _PATIENCE_SECONDS
        while not await has_come():
            await self._tell_news(run_id)
            worker = self._workers[-1]
            if not worker.is_alive:
                raise DemoFailed(f"{worker.name} died by itself; see {worker.log}")
            if self._clock.monotonic() > patience:
                raise DemoFailed(f"{what} did not happen within {_PATIENCE_SECONDS:g} s; see {worker.log}")
            await asyncio.sleep(_LOOK_SECONDS)
        await self._tell_news(run_id)

    async def _look(self, run_id: str) -> Seen:
        detail = await self._client.engine.runs.detail(run_id)
        return Seen(run_view(detail.run), entry_views(detail), wait_views(detail))

    def _effects(self, run_id: str) -> list[ledger.Effect]:
        return [effect for effect in ledger.read(self._ledger) if effect.run_id == run_id]

    async def _has_begun(self, run_id: str, path: str) -> bool:
        return any(effect.path == path for effect in self._effects(run_id))

    async def _waits_for(self, run_id: str, kind: str) -> bool:
        return any(wait.kind == kind for wait in (await self._look(run_id)).waits)

    async def _has_ended(self, run_id: str) -> bool:
        return (await self._look(run_id)).run.is_ended

    async def _incarnation(self, name: str) -> str:
        workers = await self._client.views.list_workers()
        return next((worker.incarnation for worker in workers if worker.name == name), "")

    # --- telling ---

    def _start_worker(self, name: str) -> WorkerProcess:
        worker = WorkerProcess(name, self._db, self._folder)
        self._workers.append(worker)
        self._say(f"{name} started (pid {worker.pid})")
        return worker

    async def _tell_news(self, run_id: str) -> None:
        for entry in (await self._look(run_id)).entries:
            if (run_id, entry.seq) not in self._told:
                self._told.add((run_id, entry.seq))
                self._say(_news(entry))

    def _say(self, line: str) -> None:
        self._say_line(f"{self._clock.monotonic() - self._begun:5.1f} s  {clean(line)}")


def _news(entry: EntryView) -> str:
    mark = "✕" if entry.status != "done" else "↶" if entry.kind == "undo" else "✓"
    path = entry.path.replace("~undo", " undone")
    why: Any = f"  {entry.failure.summary}" if entry.failure else ""
    return f"  {mark} {path:<22} {duration(entry.took)}{why}"
