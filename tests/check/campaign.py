"""Changed code under running work: what a check says before the deploy, held against what a worker does after it.

`python -m tests.check.campaign --mutations 1000 --first-seed 1` prints the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepwell import Handle
from stepwell.check.dry import Divergence
from stepwell.check.inflight import Broken, Checked, Code, check_store
from stepwell.ids import RunId
from stepwell.model.states import TERMINAL, RunStatus, WaitKind
from stepwell.replay.registry import Registry
from stepwell.virtual.loop import VirtualLoop
from tests.cases.harness import Harness, Node
from tests.cases.ledger import Ledger
from tests.cases.stores import STORES
from tests.check.programs import TYPES, Author, Program, build, forget_functions, helper_of

UNDOING = ("compensating", "compensation_failed", "cancelling")
STOPPED = frozenset({RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED})


class Trial(NamedTuple):
    """One change under one run."""

    seed: int
    change: str
    stopped_as: str  # the run's status when its worker went
    entries: int
    said: Divergence | None  # what the check said
    warned: bool  # that there is something it could not undo
    status: RunStatus  # what became of the run under the changed code
    harm: str  # what a run that was parked lost; nothing, if all is well
    after: RunStatus | None  # of a run that was parked: what became of it under its own code

    @property
    def is_broken(self) -> bool:
        """Whether the worker could not go on with it. That a run which went on could not be undone later is foretold
        by a warning.
        """
        return self.status is RunStatus.PAUSED or (self.status in STOPPED and self.stopped_as in UNDOING)

    @property
    def verdict(self) -> str:
        """How the check did."""
        if self.status in STOPPED and not self.is_broken:
            return "not undone, and warned" if self.warned and self.said is None else "NOT WARNED"
        if self.is_broken == (self.said is not None):
            return "broken, and said so" if self.is_broken else "fits, and said so"
        return "MISSED" if self.is_broken else "FALSE ALARM"


async def try_out(seed: int, *, store: str = "sqlite", mode: str = "live", is_plain: bool = False) -> Trial | None:
    """Begin a run, take its worker away somewhere, change the code, ask the check, and let a worker go on with it.

    None if the run had ended before its worker went.
    """
    chance = random.Random(seed)
    author = Author(chance)
    program = author.program()
    change, changed = author.change(program)
    harness, ledger = Harness(STORES[store](), mode), Ledger()
    try:
        return await _Trial(harness, ledger, chance, program, changed, is_plain).run(seed, change)
    finally:
        await harness.close()


class _Trial:
    def __init__(
        self,
        harness: Harness,
        ledger: Ledger,
        chance: random.Random,
        program: Program,
        changed: Program,
        is_plain: bool,
    ) -> None:
        self.harness = harness
        self.ledger = ledger
        self.chance = chance
        self.program = program
        self.changed = changed
        self.is_plain = is_plain

    async def run(self, seed: int, change: str) -> Trial | None:
        harness, chance = self.harness, self.chance
        self.client = await harness.client()
        worker = await self._worker(self.program)
        run = await worker.start("program", TYPES[self.program.input][1])
        for _ in range(chance.randint(0, 14)):
            await harness.advance(chance.choice((0, 0.5, 1, 1, 2, 4)))
            if chance.random() < 0.6:
                await self._answer(run)
            if chance.random() < 0.015:
                await self.client.do(self.client.engine.cancel(run.run_id))
        await self._take_away(worker)
        before = await self._read(run)
        if before.run.status in TERMINAL:
            return None
        said, warned = await self._check(run)
        done, worker = list(self.ledger.lines), await self._worker(self.changed)
        await harness.advance("90m" if worker.process.name and self.has_crashed else 0)
        status = await self._finish(run)
        harm, after = "", None
        if status in STOPPED:
            harm = self._harm(before, await self._read(run), done)
            await worker.shutdown()
            harness.nodes.remove(worker)
            await self._worker(self.program)
            if status is RunStatus.PAUSED:
                after = await self._finish(run)  # nobody resumes it
        return Trial(
            seed, change, before.run.status.value, len(before.history.entries), said, warned, status, harm, after
        )

    def program_of(self, program: Program) -> Any:
        return build(program, self.ledger, is_plain=self.is_plain)

    async def _worker(self, program: Program) -> Node:
        forget_functions()
        return await self.harness.worker(self.program_of(program), helper_of(program))

    async def _take_away(self, worker: Node) -> None:
        """Stop the worker: in order, or dead."""
        self.has_crashed = self.chance.random() < 0.5
        if self.has_crashed:
            worker.crash()
        else:
            await worker.shutdown(grace=0.0)
            self.harness.nodes.remove(worker)

    async def _read(self, run: Handle[Any]) -> Any:
        found = await self.client.wire.store.views.detail(RunId(run.run_id))
        assert found is not None
        return found

    async def _check(self, run: Handle[Any]) -> tuple[Divergence | None, bool]:
        forget_functions()
        code = Code(Registry([self.program_of(self.changed), helper_of(self.changed)]))
        checked: Checked = await self.client.do(check_store(self.client.wire.store, code))
        assert checked.unserved == ()
        mine: list[Broken] = [one for one in checked.broken if one.run.run_id == run.run_id]
        assert len(mine) == len(checked.broken)
        return (mine[0].divergence if mine else None), bool(checked.unable)

    async def _answer(self, run: Handle[Any]) -> None:
        """Send what the run waits for."""
        for wait in (await self._read(run)).history.waits:
            if wait.kind is WaitKind.SIGNAL:
                await self.client.signal(run.run_id, wait.names[0], 1, if_missing="drop")

    async def _finish(self, run: Handle[Any]) -> RunStatus:
        """Let the run go on to its end, or to where it goes no further."""
        for _ in range(400):
            await self.harness.advance(2)
            status: RunStatus = (await self._read(run)).run.status
            if status in TERMINAL or status in STOPPED:
                return status
            await self._answer(run)
        raise AssertionError(f"run {run.run_id} does not come to an end")

    def _harm(self, before: Any, after: Any, done: list[str]) -> str:
        if after.run.status is RunStatus.COMPENSATION_FAILED:
            return ""
        if self.ledger.lines != done:
            return f"ran {self.ledger.lines[len(done) :]}"
        if after.history.entries != before.history.entries:
            return "recorded something"
        return "" if after.history.waits == before.history.waits else "changed its waits"


@dataclass
class Figures:
    """What many trials came to."""

    verdicts: Counter[str] = field(default_factory=Counter)
    changes: Counter[tuple[str, bool]] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    afters: Counter[str] = field(default_factory=Counter)
    wrong: list[Trial] = field(default_factory=list)
    entries: int = 0

    def add(self, trial: Trial) -> None:
        """Count one."""
        self.verdicts[trial.verdict] += 1
        self.changes[trial.change, trial.is_broken] += 1
        self.statuses[trial.stopped_as] += 1
        self.entries += trial.entries
        if trial.after is not None:
            self.afters[trial.after.value] += 1
        if trial.verdict.isupper() or trial.harm or trial.after in STOPPED:
            self.wrong.append(trial)

    @property
    def total(self) -> int:
        """How many trials there were."""
        return self.verdicts.total()

    def words(self) -> str:
        """The figures, one under the other."""
        lines = [f"{self.total} changes under runs in flight, {self.entries} recorded entries"]
        lines += [f"  {count:>6}  {verdict}" for verdict, count in sorted(self.verdicts.items())]
        lines += [
            f"  {self.verdicts[verdict]:>6}  {verdict}"
            for verdict in ("MISSED", "FALSE ALARM", "NOT WARNED")
            if verdict not in self.verdicts
        ]
        lines.append("by change: broken of all")
        for change in sorted({name for name, _ in self.changes}):
            broken, fits = self.changes[change, True], self.changes[change, False]
            lines.append(f"  {broken:>6} of {broken + fits:<6} {change}")
        lines.append("runs were " + ", ".join(f"{count} {status}" for status, count in self.statuses.most_common()))
        lines.append("parked runs under their own code again: " + ", ".join(f"{n} {s}" for s, n in self.afters.items()))
        lines += [f"  WRONG {trial}" for trial in self.wrong[:10]]
        return "\n".join(lines)


def run_campaign(
    mutations: int, first_seed: int, *, store: str = "sqlite", tell: bool = False, is_patient: bool = True
) -> Figures:
    """So many trials; without patience, only until the first goes wrong."""
    figures, seed = Figures(), first_seed
    while figures.total < mutations and (is_patient or not figures.wrong):
        mode = "live" if seed % 2 else "yield"
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            trial = runner.run(try_out(seed, store=store, mode=mode, is_plain=seed % 5 == 0))
        if trial is not None:
            figures.add(trial)
            if tell and figures.total % 50 == 0:
                print(f"{figures.total} of {mutations}, {len(figures.wrong)} wrong", file=sys.stderr)
        seed += 1
    return figures


def main() -> int:
    """Run a campaign, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutations", type=int, default=1_000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--store", choices=sorted(STORES), default="sqlite")
    options = parser.parse_args()
    figures = run_campaign(options.mutations, options.first_seed, store=options.store, tell=True)
    print(figures.words())
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
