"""One case: a workflow as users write it, what happens to it from outside, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stepwell.errors import StepwellError
from stepwell.replay.workflows import Workflow
from stepwell.testing.base import KitOptions
from stepwell.testing.errors import CrashFound, Diverged, Stuck
from stepwell.testing.scripts import Act
from stepwell.testing.sync import SyncKit
from stepwell.testing.world import Options


class Tried(NamedTuple):
    """One way to try a case, and what was wrong with it; nothing, if that is empty."""

    what: str
    mode: str
    problem: str = ""


class Did:
    """What bodies did to the world outside. A body that runs again does the same again, which counts once."""

    def __init__(self) -> None:
        self._done: dict[str, None] = {}

    def __call__(self, what: str) -> None:
        """Something was done."""
        self._done[what] = None

    def clear(self) -> None:
        """The world is as it was."""
        self._done.clear()

    @property
    def done(self) -> tuple[str, ...]:
        """All that was done, each once, in the order of the first time."""
        return tuple(self._done)


did = Did()


@dataclass(frozen=True, slots=True)
class Case:
    """A workflow and its fault_class: the same live, replayed at every commit, and after a crash at every commit."""

    workflow: Workflow[Any, Any]
    output: Any = None
    status: str = "completed"
    done: tuple[str, ...] | frozenset[str] = ()  # a set, if the order is not promised
    input: Any = None
    script: tuple[Act, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    begin: Callable[[], object] | None = None  # makes what else is outside anew
    is_swept: bool = True  # a run that stands still has no end that crashes could change

    def tries(self) -> Iterator[Tried]:
        """Every way to try it."""
        for mode in ("live", "yield"):
            yield Tried("nothing goes wrong", mode, self._run(mode))
        if self.is_swept:
            yield from self._sweep()

    def _begin(self) -> None:
        did.clear()
        if self.begin is not None:
            self.begin()

    def _run(self, mode: str) -> str:
        self._begin()
        with kit_of(mode) as kit:
            try:
                run = kit.start(self.workflow, self.input, **self.options)
                for act in self.script:
                    run.until_waiting()
                    act(kit, run)
                run.ended()
            except (Stuck, Diverged, StepwellError) as error:
                return f"it comes to no end: {error}"
            view = kit.wait(kit.engine.status(run.details()[-1].run.run_id))
        done = frozenset(did.done) if isinstance(self.done, frozenset) else did.done
        found, expected = (view.status, view.output, done), (self.status, self.output, self.done)
        return "" if found == expected else f"{found} instead of {expected}"

    def _sweep(self) -> Iterator[Tried]:
        with kit_of("live") as kit:
            try:
                report = kit.crash_everywhere(
                    self.workflow,
                    self.input,
                    script=self.script,
                    effects=lambda: did.done,
                    before_each=self._begin,
                    check=False,
                    **self.options,
                )
            except CrashFound as error:
                yield Tried("nothing goes wrong", "live", str(error))
                return
        broken = {finding.crash for finding in report.findings}
        yield from (Tried(finding.how, "live", finding.difference) for finding in report.findings)
        yield from (Tried(str(crash), "live") for crash in report.crashes if crash not in broken)


def kit_of(mode: str) -> SyncKit:
    """The world of one try."""
    return SyncKit(KitOptions(nondeterminism="off", world=Options(always_replay=mode == "yield")), name="this case")
