"""Operators who repair: they take runs back, skip steps and redrive what failed, while everything goes wrong."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

from stepwell.engine.repair_plans import RepairPlan
from stepwell.errors import RequestError
from stepwell.model.locations import Location, format_path
from stepwell.model.runs import Run
from stepwell.model.states import EntryKind, RunStatus

if TYPE_CHECKING:
    from sim.operators import Operators

REPAIRS_MAX = 3  # of one run
# What tells the outside world, or counts itself: done twice, it is there twice, and rightly so.
_ONCE = ("emit", "append", "publish", "spawn", "observe", "tell", "question", "announce", "launch", "stop")
_ONCE_KINDS = ("streaming", "transactional", "transactional_flaky", "once_only", "long", "long_sync", "poison")


class Repairers:
    """What operators repair in one seed; a stream of its own leaves the stories of old seeds alike."""

    def __init__(self, operators: Operators) -> None:
        self._operators = operators
        self.world = operators.world
        self._rng = random.Random(f"repairs {self.world.seed}")
        self._is_on = self._rng.random() < 0.5
        self._counts: dict[str, int] = {}

    def has_repaired(self, run_id: str) -> bool:
        """Whether somebody has tried to repair this run."""
        return run_id in self._counts

    def may_repair(self, row: Run) -> bool:
        """Whether somebody finds a reason to repair this run now."""
        if not self._is_on or row.parent is not None or self._counts.get(row.run_id, 0) >= REPAIRS_MAX:
            return False
        if row.status not in (RunStatus.WAITING, RunStatus.FAILED):
            return False
        return self._rng.random() < (0.3 if row.status is RunStatus.WAITING else 0.7)

    async def repair(self, row: Run) -> bool:
        """Repair it in one of the ways; whether that was possible."""
        rng, run_id = self._rng, row.run_id
        self._counts[run_id] = self._counts.get(run_id, 0) + 1
        detail = self.world.checker.detail(run_id)
        if detail is None:
            return False
        shadow = self.world.checker.shadow(run_id)
        paths = [shadow.path(entry.location) for entry in detail.history.entries]
        if row.status is RunStatus.FAILED and self._operators.may_retry(row):
            failed = [shadow.path(entry.location) for entry in detail.history.entries if entry.status.name == "FAILED"]
            stuck = [path for path in failed if self._node(path).get("kind") == "stuck"]
            if stuck and rng.random() < 0.5:
                node = self._node(stuck[0])
                return await self._ask(run_id, "skip", stuck[0], ["did", node["id"], node["value"]])
            if rng.random() < 0.5:
                return await self._ask(run_id, "redrive")
        if not paths or any("~undo" in path for path in paths):
            return False
        path = rng.choice(paths)
        plan = await self._ask(run_id, "rewind", path, dry_run=True)
        if not isinstance(plan, RepairPlan) or not all(self._may_be_done_again(one) for one in plan.dropped):
            return False
        answered = {shadow.path(one.location) for one in detail.history.entries if one.kind is EntryKind.REPLY}
        if not answered.isdisjoint(plan.dropped):
            return False  # a question has one answer, and who asked has it
        twice = 2 if rng.random() < 0.4 else 1  # two operators who do not know of each other
        return any(await asyncio.gather(*(self._ask(run_id, "rewind", path) for _ in range(twice))))

    async def skip_form(self, row: Run, location: Location) -> None:
        """Answer a form in the place of the people who should."""
        detail = self.world.checker.detail(row.run_id)
        if self._is_on and detail is not None:
            self._counts[row.run_id] = self._counts.get(row.run_id, 0) + 1
            path = format_path(location, detail.history.names)
            await self._ask(row.run_id, "skip", path, {"by": "bo", "mark": "skipped"})

    async def take_back(self, row: Run) -> None:
        """Repair a run that waits for people."""
        if self._is_on and row.parent is None and row.status is RunStatus.WAITING:
            await self.repair(row)

    def _node(self, path: str) -> dict[str, Any]:
        return self.world.checker.node_at(path)

    def _may_be_done_again(self, path: str) -> bool:
        node = self._node(path)
        return node.get("op") not in _ONCE and node.get("kind") not in _ONCE_KINDS and not node.get("events")

    async def _ask(self, run_id: str, verb: str, *args: Any, **options: Any) -> Any:
        try:
            return await self._operators.attempt(lambda engine: getattr(engine.repairs, verb)(run_id, *args, **options))
        except RequestError:  # it went on meanwhile
            return False
