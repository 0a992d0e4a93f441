"""A run of a test: the test drives it, reads it, and makes assertions about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from stepwell.check.exports import export_run
from stepwell.check.histories import write
from stepwell.clock import Duration
from stepwell.engine.handles import Handle
from stepwell.engine.views import EntryView, chain_views, wait_views
from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.model.states import TERMINAL, RunStatus
from stepwell.replay.signals import Cancel, Signal
from stepwell.stores.base.views import Detail
from stepwell.testing import scripts
from stepwell.testing.asserts import RunAsserts
from stepwell.testing.errors import Stuck
from stepwell.testing.faults import matches
from stepwell.testing.trees import snapshot, tree

if TYPE_CHECKING:
    from stepwell.testing.base import KitBase

Result = TypeVar("Result", covariant=True)

COMMITS_MAX = 10_000  # of one run, while a test waits for its end: it may be an endless loop
GENERATIONS_MAX = 1_000  # of a chain of runs that continue as new

_SETTLED = TERMINAL | {RunStatus.PAUSED, RunStatus.COMPENSATION_FAILED}


class RunBase(RunAsserts, Generic[Result]):
    """The common base of both kinds of runs. A run does nothing unless the test drives it."""

    def __init__(self, kit: KitBase, handle: Handle[Result]) -> None:
        self._kit = kit
        self._world = kit.world
        self._handle = handle
        self.run_id: RunId = handle.run_id
        self.is_new = handle.is_new

    # --- reading ---

    @property
    def status(self) -> str:
        """The run's status; of a chain that continues as new, the status of its last run."""
        return self._last().status.value

    def details(self) -> list[Detail]:
        """Everything stored about the run, and about the runs that continue it."""
        self._kit.check_open()
        found = [self._world.ask(self._world.engine.runs.detail(self.run_id))]
        while found[-1].run.successor is not None:
            found.append(self._world.ask(self._world.engine.runs.detail(found[-1].run.successor)))
        return found

    def history(self) -> list[EntryView]:
        """Every entry in the order of the commits; a chain that continues as new is one history."""
        return chain_views(self.details())

    def tree(self) -> str:
        """The run as `stepwell show` prints it."""
        return tree(self.details())

    def snapshot(self) -> str:
        """The run as stable text: what it did, in order, without ids and times."""
        return snapshot(self.details())

    def export(self, file: str | Path) -> None:
        """Write the record of the run into a history file, for `assert_replays` and `stepwell check`."""
        self._kit.check_open()
        write(self._world.ask(export_run(self._world.store, self.run_id)), file)

    def why(self) -> str:
        """Why the run is in this state, in one sentence, and what would continue it."""
        return self._world.why(self._last().run_id)

    # --- driving ---

    def _until(self, path: str) -> Self:
        def is_there() -> bool:
            return self._is_at(path) or self._last().status in _SETTLED

        self._drive_to(is_there, f"reach {path!r}")
        if not self._is_at(path):
            if self._last().status in _SETTLED:
                self._fail(f"the run is {self.status} and never reached {path!r}")
            raise self._stuck(f"reach {path!r}")
        return self

    def _until_waiting(self) -> Self:
        self._drive(lambda: False, only_if=self._world.is_moving)
        return self

    def _step(self) -> Self:
        before = self._revision()
        self._drive(lambda: self._revision() != before)
        if self._revision() == before and self._last().status not in _SETTLED:
            raise self._stuck("commit anything")
        return self

    def _drive_on(self, max_hops: int) -> Self:
        before = self._revision()
        self._drive(lambda: self._revision() - before > max_hops, only_if=self._world.is_moving)
        hops = self._revision() - before
        if hops > max_hops:
            self._fail(f"the run made more than {max_hops} commits without waiting")
        return self

    def _settled(self) -> Run:
        """Drive to the end of the run, or until it needs a person."""
        self._drive_to(lambda: self._last().status in _SETTLED, "end")
        last = self._last()
        if last.status not in _SETTLED:
            raise self._stuck("end")
        return last

    def _result(self) -> Result:
        self._settled()
        return self._world.ask(self._handle.result())

    def _drive_to(self, is_there: Callable[[], bool], what: str) -> None:
        """Drive while the run may still get there. Gives up on an endless run."""
        first = self._last()

        def is_endless() -> bool:
            last = self._last()
            before = first.revision if last.run_id == first.run_id else 0
            return last.revision - before > COMMITS_MAX or last.generation - first.generation > GENERATIONS_MAX

        self._drive(lambda: is_there() or is_endless())
        if not is_there() and is_endless():
            raise Stuck(
                f"the run did not {what} within {COMMITS_MAX:,} commits or {GENERATIONS_MAX:,} generations: it may be "
                f"endless. Drive it to a path with until(path).\n{self.why()}"
            )

    def _drive(self, is_done: Callable[[], bool], *, only_if: Callable[[], bool] | None = None) -> None:
        self._kit.check_open()
        self._world.drive(is_done, only_if=only_if or self._world.may_move)
        self._kit.check_diverged()

    def _revision(self) -> int:
        return sum(detail.run.revision for detail in self.details())

    def _last(self) -> Run:
        self._kit.check_open()
        run = self._world.find(self.run_id)
        while run.successor is not None:
            run = self._world.find(run.successor)
        return run

    def _is_at(self, path: str) -> bool:
        waits = [wait.path for detail in self.details() for wait in wait_views(detail)]
        return any(matches(path, place) for place in (*(entry.path for entry in self.history()), *waits))

    def _stuck(self, what: str) -> Stuck:
        return Stuck(f"the run will never {what}:\n{self.why()}\n\n{self.tree()}")

    # --- messages ---

    def _signal(self, name: str | Signal[Any] | Cancel, payload: Any, dedup_key: str | None) -> None:
        self._kit.check_open()
        if not isinstance(name, Cancel):
            self._kit.note(scripts.send(name, payload, dedup_key=dedup_key), self.run_id)
        for _ in range(self._kit.deliveries):
            self._world.tell(self._handle.signal(name, payload, dedup_key=dedup_key))

    def _cancel(self, reason: str, compensate: bool) -> bool:
        self._kit.check_open()
        self._kit.note(scripts.cancel(reason), self.run_id)
        return self._world.tell(self._handle.cancel(reason, compensate=compensate))

    def __repr__(self) -> str:
        return f"<run {self.run_id}{'' if self._kit.is_closed else f': {self.status}'}>"


class KitRun(RunBase[Result]):
    """A run of an `async def` test."""

    async def until(self, path: str) -> Self:
        """Drive until the run has recorded this path (or glob), or waits there. Time passes as needed."""
        return self._until(path)

    async def until_waiting(self) -> Self:
        """Drive until the run waits for a timer or a message. Retries and slow steps are waited for."""
        return self._until_waiting()

    async def step(self) -> Self:
        """Drive until the run's next commit."""
        return self._step()

    async def drive(self, max_hops: int = 100) -> Self:
        """`until_waiting` with at most this many commits. More commits fail: the code loops without waiting."""
        return self._drive_on(max_hops)

    async def result(self) -> Result:
        """Drive to the end, and return the result; raises what `Handle.result` raises. Timers are skipped.

        Raises `Stuck` with the reason if the run waits for something that never happens, and after 10,000 commits.
        """
        return self._result()

    async def ended(self) -> Self:
        """Drive to the end, successful or not: `result` without the result."""
        self._settled()
        return self

    async def signal(
        self, name: str | Signal[Any] | Cancel, payload: Any = None, *, dedup_key: str | None = None
    ) -> None:
        """Send a signal. It is stored when this returns; the run reads it when the test drives it."""
        self._signal(name, payload, dedup_key)

    async def cancel(self, reason: str = "", *, compensate: bool = True) -> bool:
        """Cancel the run."""
        return self._cancel(reason, compensate)

    async def ask(self, name: Any, payload: Any = None, *, timeout: Duration | None = None) -> Any:
        """Send a request to the run, and drive until it answers."""
        return self._kit.wait_for(self._handle.ask(name, payload, timeout=timeout), self._stuck)
