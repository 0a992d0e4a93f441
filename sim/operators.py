"""Operators: they resume what was paused, retry what failed, send what is waited for, and wait for the end."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from sim.checks.starts import check_late_rows
from sim.coroutines import at_once
from sim.neighbours import NEVER
from sim.process import UNKNOWN
from sim.programs import walk
from sim.repairs import Repairers
from stepwell.clock import span
from stepwell.errors import LostChangeError, NotFoundError
from stepwell.model.failures import decode_failure
from stepwell.model.messages import ASK, TO_RUNS
from stepwell.model.records import awaited_record
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, RunStatus, WaitKind

if TYPE_CHECKING:
    from sim.clients import Clients

# Restarts, replies and a clock that was set back take their time.
SLACK = 25.0
REPLAYS_MAX = 2  # of a message between runs
FORGOTTEN_AFTER = 40.0  # without faults: who waits for what nobody sends has been forgotten then, and is let go


class Operators:
    """What people and supervisors do for the runs of one seed."""

    by_hand = 0.5  # how often an effect is undone by hand and not by its compensation

    def __init__(self, clients: Clients) -> None:
        self.world = clients.world
        self._clients = clients
        self.retried: set[str] = set()
        self._marks = random.Random(f"marks {self.world.seed}")  # its own stream leaves old seeds alike
        self._letters: Counter[str] = Counter()  # dead ones between runs: how often each was replayed
        self.unfinished = 0
        self.repairers = Repairers(self)

    async def settle(self, seconds: float) -> None:
        """Operators and clients do their part until every run has ended."""
        world = self.world
        until = world.loop.time() + seconds
        while not world.checker.violations:
            await asyncio.sleep(0.5)
            left = [row for row in world.checker.rows_now.values() if row.status not in TERMINAL]
            if not left and not await self.operate(True) and not self._owed() and not world.checker.records.has_due():
                return
            if world.loop.time() > until:
                self._report_unfinished(left)
                return
            self._check_progress(left)
            await self._clients.pauses.resume_workflows()
            await self.operate(True)
            await self.feed(left)

    def _owed(self) -> bool:
        """Whether events are still on their way."""
        return bool(at_once(self.world.checker.inspector.outbox.list_owed(is_dead=False, limit=1)))

    def _check_progress(self, left: list[Run]) -> None:
        """Long after the last fault, nothing belongs to the dead, and nothing that is ready lies about."""
        world, checker = self.world, self.world.checker
        settings = world.shape.settings
        bound = settings.lease_span / 1e6 + 2 * span(settings.sweep_every) / 1e6 + SLACK
        if world.loop.time() < world.calm_at + bound:
            return
        are_all_busy = self._are_all_busy(left)
        for row in left:
            owner = checker.incarnations.get(row.owner or "")
            if owner is not None and owner.lane.is_dead:
                world.violate("L2", row.run_id, f"still owned by {owner.name}, which died long ago")
            is_ready = row.wake_at is not None and row.wake_at < checker.inspector.now() - bound * 1e6
            if is_ready and not are_all_busy:
                world.violate("L2", row.run_id, f"ready since {row.wake_at}, and nobody takes it")
        check_late_rows(world, left, bound, are_all_busy=are_all_busy)
        world.checker.records.check_late(bound)

    def _are_all_busy(self, left: list[Run]) -> bool:
        """Whether no worker that is alive has room: what is more urgent may take long. In the end all must be done."""
        owners = self.world.checker.incarnations
        alive = [one for one in owners.values() if not one.lane.is_dead]
        busy = Counter(owners[row.owner] for row in left if row.owner in owners)
        return all(busy[one] >= self.world.shape.settings.runs_max for one in alive)

    def _report_unfinished(self, left: list[Run]) -> None:
        self.unfinished = len(left)
        if self._owed():
            self.world.violate("L1", "", "events are still on their way")
        if self.world.checker.records.has_due():
            self.world.violate("L1", "", "records are due, and nobody acts on them")
        for row in left:
            due = (
                ""
                if row.wake_at is None
                else f", due in {(row.wake_at - self.world.checker.inspector.now()) / 1e6:.3f} s"
            )
            self.world.violate("L1", row.run_id, f"still {row.status} (epoch {row.epoch}, owner {row.owner}{due})")

    async def operate(self, is_mending: bool) -> bool:
        """Resume what was paused and retry what failed; whether anything was."""
        acted = False
        for row in tuple(self.world.checker.rows_now.values()):
            if self.repairers.may_repair(row):
                acted |= bool(await self.repairers.repair(row))
                continue
            match row.status:
                case RunStatus.PAUSED:
                    acted |= await self._resume(row)
                case RunStatus.COMPENSATION_FAILED if is_mending:
                    acted |= await self._resume_rollback(row)
                case RunStatus.FAILED if row.run_id not in self.retried and self.may_retry(row):
                    self.retried.add(row.run_id)
                    acted |= bool(await self.attempt(lambda engine, at=row.run_id: engine.repairs.retry(at)))
                case _:
                    pass
        for letter in at_once(self.world.checker.inspector.outbox.list_owed(is_dead=True, limit=100)):
            self.world.stats["dead letters"] += 1
            verb = "replay"
            if letter.sink == TO_RUNS:  # sent to a run that has ended, or never was: once more, and no more
                self._letters[letter.event_id] += 1
                verb = "replay" if self._letters[letter.event_id] <= REPLAYS_MAX else "drop"
            acted |= bool(
                await self.attempt(lambda engine, at=letter.event_id, verb=verb: getattr(engine.outbox, verb)(at))
            )
        return acted

    async def _resume_rollback(self, row: Run) -> bool:
        """Fix the compensation, or undo an effect by hand and say so."""
        shadow = self.world.checker.shadow(row.run_id)
        left = shadow.left_to_undo()
        if self._marks.random() < self.by_hand and left:
            path = shadow.path(self._marks.choice((left[0], *left)).location)
            self.world.stats["marked as undone"] += 1
            return bool(
                await self.attempt(lambda engine: engine.repairs.mark_undone(row.run_id, path, reason="by hand"))
            )
        self.world.fix_undo(row.run_id)
        return bool(await self.attempt(lambda engine: engine.repairs.resume_rollback(row.run_id)))

    def may_retry(self, row: Run) -> bool:
        """Whether it failed by something that is mended some day."""
        failure = decode_failure(row.failure) if row.failure else None
        return row.parent is None and failure is not None and "until mended" in failure.message

    async def _resume(self, row: Run) -> bool:
        if row.hold is not None and row.failure is None:
            return bool(await self.attempt(lambda engine: engine.holds.resume(row.run_id)))
        failure = decode_failure(row.failure) if row.failure else None
        if failure is not None and failure.code == LostChangeError.code and self._leaks(row):
            self.world.mend(row.run_id)
            self.world.stats["captures mended"] += 1
            return bool(await self.attempt(lambda engine: engine.holds.resume(row.run_id)))
        if failure is None or failure.code != "SW202":
            self.world.violate("I9", row.run_id, f"paused: {failure.summary if failure else 'nobody knows why'}")
            return False
        self.world.mend(row.run_id)
        self.world.stats["paused"] += 1
        return bool(await self.attempt(lambda engine: engine.holds.resume(row.run_id)))

    def _leaks(self, row: Run) -> bool:
        """Whether its code writes, until it is mended, to what a replay would not write to again."""
        return any("leaks" in node for node in walk(msgspec.json.decode(row.input[1:])))

    async def attempt(self, question: Any) -> Any:
        """Ask somebody; false if nobody knows what became of it."""
        try:
            return await self._clients.ask(question, is_cancellable=False)
        except (*UNKNOWN, NotFoundError):
            return False

    async def feed(self, left: list[Run]) -> None:
        """Send what runs wait for without a deadline."""
        for row in left:
            if row.workflow == ASK:
                continue  # it hears of its question from the engine itself
            is_parked = row.status is RunStatus.WAITING or (row.status is RunStatus.COMPENSATING and row.owner is None)
            if not is_parked or row.wake_at is not None:
                continue
            detail = at_once(self.world.checker.inspector.views.detail(row.run_id))
            waits = detail.history.waits if detail is not None else ()
            for wait in waits:
                if wait.kind is WaitKind.TOPIC:
                    payload = {"mark": "fed", "n": int("n=1" in wait.where)}
                    deliver = self._clients.news.choice(("all", "one"))
                    await self.attempt(
                        lambda engine, at=wait.names[0], payload=payload, deliver=deliver: engine.publish(
                            at, payload, deliver=deliver
                        )
                    )
                record_id = awaited_record(wait.names)
                if record_id is not None:
                    await self._fill_in(record_id)
                elif wait.kind is WaitKind.SIGNAL:
                    name = wait.names[0] if wait.names else "c"
                    if name == NEVER and self.world.loop.time() < self.world.calm_at + FORGOTTEN_AFTER:
                        continue
                    mark = self._clients.new_mark(row.run_id)
                    answer = await self.attempt(
                        lambda engine, at=row.run_id, name=name, mark=mark: engine.signal(
                            at, name, {"mark": mark}, if_missing="drop"
                        )
                    )
                    if answer:
                        self._clients.signals_told[mark] = answer

    async def _fill_in(self, record_id: str) -> None:
        """Answer a form, unless a service closes it some day."""
        form = self.world.checker.records.find(record_id)
        if form is not None and form.is_open and form.due_at is None:
            await self._clients.desk.answer(record_id, "bo")
