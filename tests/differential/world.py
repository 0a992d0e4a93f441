"""One world: a few stores with one clock, which all get the same operations."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from stepwell.clock import Instant
from stepwell.conformance.snapshot import snapshot
from stepwell.errors import StepwellError
from stepwell.ids import EventId, Incarnation, RunId, SignalId
from stepwell.model.records import CLOSED_WITH_RUN, Record
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus, WaitKind
from stepwell.model.waits import Wait
from stepwell.model.workers import Claimant, Fence
from stepwell.stores.base.outbox import Batch
from stepwell.virtual.clock import ManualClock
from tests.differential.differences import differences
from tests.differential.numbers import Numbers
from tests.differential.stores import Opened

T = TypeVar("T")

FLOWS = ("flow@1", "flow@2", "Über flow@1")
WORKERS = (Incarnation("w1"), Incarnation("w2"))
KEYS = ("k1", "k2", "schlüssel 3")


class Handle(NamedTuple):
    """One of the stores, and its numbers."""

    opened: Opened
    numbers: Numbers


class Refused(NamedTuple):
    """The answer of a store that raised."""

    error: str


class Operation(NamedTuple):
    """One call of the contract, the same for every store."""

    kind: str  # noun and method: "runs.create"
    given: tuple[Any, ...]  # for people
    call: Callable[[Handle], Awaitable[Any]]
    facts: Callable[[Any], Iterable[str]] = lambda _: ("done",)  # its results in words; after the world has changed


class Divergence(Exception):
    """Two stores disagree."""


class World:
    """Every operation is sent to all stores, and their answers must be equal. `state` is what they all show after the
    last one, with ranks for numbers.

    Ids grow in the order of creation. The order of claims for runs that are due at the same instant is not promised;
    this assumes that all stores then use the order of creation.
    """

    def __init__(self, handles: Sequence[Handle], clock: ManualClock, seed: int) -> None:
        self.handles = handles
        self.clock = clock
        self.chance = random.Random(seed)
        self.facts: Counter[tuple[str, str]] = Counter()
        self.operations = 0
        self.state: dict[str, Any] = {}
        self.before: dict[str, Any] = {}
        # What callers know from earlier answers.
        self.applied: dict[tuple[RunId, int], int] = {}  # of a run and epoch, the last commit
        self.stepped: dict[RunId, Fence] = {}  # the owner of the last single step
        self.taken: dict[Incarnation, list[Batch]] = {}
        self.signals: list[SignalId] = []
        self.openers: list[SignalId] = []  # of signals that came with the run to start
        self.asked: dict[RunId, list[int]] = {}  # signals that asked and were consumed
        self.events: list[EventId] = []
        self.emitted: list[EventId] = []
        self.changes: list[str] = []  # of records
        self._ids = 0

    # --- what happens ----------------------------------------------------------------------

    async def look(self) -> None:
        """Compare everything that the stores show, and remember it as the state."""
        shown = [await self._show(handle) for handle in self.handles]
        first = self.handles[0].opened.name
        for handle, one in zip(self.handles[1:], shown[1:], strict=True):
            if one != shown[0]:
                raise Divergence(f"{first} and {handle.opened.name} show\n{differences(shown[0], one)}")
        for handle in self.handles:
            if unsound := handle.opened.unsound():
                raise Divergence(f"{handle.opened.name} has wrong hidden state of {', '.join(unsound)}")
        self.before, self.state = self.state, shown[0]

    async def perform(self, operation: Operation) -> Any:
        """Send it to all stores, and compare answers and states. Raises `Divergence`."""
        self.operations += 1
        answers = [await self._ask(handle, operation) for handle in self.handles]
        first = self.handles[0].opened.name
        for handle, one in zip(self.handles[1:], answers[1:], strict=True):
            if one != answers[0]:
                raise Divergence(f"{first} and {handle.opened.name} answer\n{differences(answers[0], one)}")
        await self.look()
        answer = answers[0]
        facts = [f"refused: {answer.error}"] if isinstance(answer, Refused) else operation.facts(answer)
        self.facts.update((operation.kind, fact) for fact in facts)
        return answer

    async def _ask(self, handle: Handle, operation: Operation) -> Any:
        try:
            answer = await operation.call(handle)
        except StepwellError as error:
            return Refused(type(error).__name__)
        except ValueError:
            return Refused("ValueError")
        except Exception as error:
            raise Divergence(f"{handle.opened.name} raises {type(error).__name__}: {error}") from error
        handle.numbers.see(answer)
        return handle.numbers.to_ranks(answer)

    async def _show(self, handle: Handle) -> dict[str, Any]:
        shown = await snapshot(handle.opened.store)
        handle.numbers.see(shown)
        return shown if handle.numbers.is_plain else handle.numbers.to_ranks(shown)

    # --- what there is ----------------------------------------------------------------------

    @property
    def now(self) -> Instant:
        """The time."""
        return self.clock.now()

    def runs(self) -> list[Run]:
        """Every run, oldest first."""
        return [entry["run"] for entry in reversed(self.state["runs"].values())]

    def row(self, run_id: RunId) -> Run | None:
        """One run."""
        entry = self.state["runs"].get(run_id)
        return None if entry is None else entry["run"]

    def waits(self, kind: WaitKind, target: str | None = None) -> list[Wait]:
        """The stored waits of that kind: all, or those of a run or of the runs with a key."""
        found = [one for one in self.state["runs"].values() if target in (None, one["run"].run_id, one["run"].key)]
        return [wait for one in found for wait in one["history"].waits if wait.kind is kind]

    def records(self) -> list[Record]:
        """Every record."""
        return [record for record, _ in self.state["records"]]

    def closed_with_runs(self) -> list[Record]:
        """The records that the last operation closed because their runs no longer need them."""
        was_open = {record.number for record, _ in self.before["records"] if record.is_open}
        closed = [(record, events) for record, events in self.state["records"] if not record.is_open and events]
        return [one for one, (last, *_) in closed if one.number in was_open and last.verb == CLOSED_WITH_RUN.verb]

    # --- chance -----------------------------------------------------------------------------

    def likely(self, chance: float) -> bool:
        """Whether something happens."""
        return self.chance.random() < chance

    def some(self, options: Sequence[T], likely: float = 0.5) -> tuple[T, ...]:
        """Some of the options, with equal chances."""
        return tuple(one for one in options if self.likely(likely))

    def next_id(self, letter: str) -> str:
        """A new id, above all earlier ones."""
        self._ids += 1
        return f"{letter}{self._ids:06}"

    def a_run(self, among: Callable[[Run], bool] = lambda _: True) -> Run | None:
        """Any run that is like this."""
        found = [run for run in self.runs() if among(run)]
        return self.chance.choice(found) if found else None

    def a_target(self) -> str:
        """A target for signals and look-ups."""
        run = self.a_run(lambda one: one.status is RunStatus.WAITING) if self.likely(0.6) else None
        run = run or self.a_run()
        return self.chance.choice([*KEYS, "nobody", *([run.run_id] * 6 if run else [])])

    def a_worker(self) -> Incarnation:
        """A worker, mostly a registered one."""
        return Incarnation("ghost") if self.likely(0.03) else self.chance.choice(WORKERS)

    def a_claimant(self) -> Claimant:
        """Who claims."""
        flows = self.chance.choice([FLOWS, FLOWS, FLOWS[:1], FLOWS[1:]])
        return Claimant(self.a_worker(), self.chance.choice([0, 1, 2, 4, 4]), flows)

    def maybe_claimant(self) -> Claimant | None:
        """A claimant, sometimes none."""
        return self.a_claimant() if self.likely(0.6) else None
