"""Switches that break the worker, the kernel or the engine."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from sim.ledger import draw_here
from sim.sabotage.patches import Patches, switches
from stepwell.clock import Instant
from stepwell.ids import Incarnation
from stepwell.model.commits import Applied, Verdict
from stepwell.model.states import WaitKind
from stepwell.replay import context
from stepwell.replay.branches import Branches
from stepwell.replay.journal import Journal
from stepwell.replay.primitives import child, loop, once
from stepwell.replay.waits import Waits
from stepwell.worker.bodies import Bodies
from stepwell.worker.claim_requests import ClaimRequests
from stepwell.worker.claimer import Claimer
from stepwell.worker.committer import Committer
from stepwell.worker.execution import Execution
from stepwell.worker.lease import Lease
from stepwell.worker.registration import Registration
from stepwell.worker.resources import Resources
from stepwell.worker.sweeper import Sweeper


def no_replay_skip() -> Patches:
    """A recorded step is run again."""
    return [(Journal, "recall", lambda self, location: None)]


def ack_before_commit() -> Patches:
    """The code hears that its commit is durable before it is."""
    original = Committer._apply

    async def apply(self: Committer, commits: Any) -> Any:
        self._environment.executor.spawn(original(self, commits), name="late")
        await asyncio.sleep(0)
        return [Applied(Verdict.APPLIED)] * len(commits)

    return [(Committer, "_apply", apply)]


def no_local_deadline() -> Patches:
    """A worker believes for ever that its lease is live."""
    return [(Lease, "is_live", lambda self: True)]


def early_timer() -> Patches:
    """Timers fire a little early."""
    original = Waits.pass_deadline
    return [(Waits, "pass_deadline", lambda self, now: original(self, Instant(now + 30_000)))]


def compensation_not_in_commit() -> Patches:
    """The result is committed without what undoes it."""
    original = Journal.record

    def record(self: Journal, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args[:7], **kwargs)

    return [(Journal, "record", record)]


def notify_only_wake() -> Patches:
    """Nobody looks without a hint."""

    async def wait(self: Claimer, seconds: float) -> None:
        await self._resources.wake.wait()

    async def sweep_once(self: Sweeper) -> float:
        store = self._resources.store
        if await store.views.has_stranded():
            await store.runs.rescue(stalls_max=self._resources.settings.stalls_max)
        return float("inf")

    return [(Claimer, "_wait", wait), (Sweeper, "sweep_once", sweep_once)]


def same_incarnation() -> Patches:
    """A restarted worker takes up its old identity."""

    def new_lease(self: Resources) -> Lease:
        incarnation = Incarnation(f"the one and only {self.environment.process}")
        return Lease(self.environment.clock, incarnation, self.settings.lease_span)

    return [(Resources, "new_lease", new_lease)]


def race_loser_commits() -> Patches:
    """The losers of a race go on."""

    async def cancel(self: Branches, *_: Any, **__: Any) -> None:
        await asyncio.sleep(0)

    return [(Branches, "cancel", cancel), (Branches, "close", lambda self: None)]


def child_started_twice() -> Patches:
    """A replay starts the child again, with another id."""
    original = Journal.find_wait

    def find_wait(self: Journal, location: Any, kind: WaitKind) -> Any:
        return None if kind is WaitKind.CHILD else original(self, location, kind)

    def derived(parent: Any, label: str) -> str:
        return str(uuid.UUID(int=draw_here()))

    return [(Journal, "find_wait", find_wait), (child, "derived_run_id", derived)]


def undo_first_in_first_out() -> Patches:
    """Compensations run in the order of what they undo."""
    original = Journal.undo_stack
    return [(Journal, "undo_stack", lambda self, floor: original(self, floor)[::-1])]


def sleep_begins_again() -> Patches:
    """A replay computes a sleep's deadline anew."""
    original = Journal.find_wait

    def find_wait(self: Journal, location: Any, kind: WaitKind) -> Any:
        return None if kind is WaitKind.TIMER else original(self, location, kind)

    return [(Journal, "find_wait", find_wait)]


def no_barrier() -> Patches:
    """A body starts before what comes before it is durable."""
    original = Bodies.start

    def start(self: Bodies, owner: Any) -> None:
        self.held = [(0, body) for _, body in self.held]
        original(self, owner)

    return [(Bodies, "start", start)]


def attempts_forgotten() -> Patches:
    """A replay counts attempts from one again."""
    original = Journal.__init__

    def init(self: Journal, run_id: Any, history: Any, last_seq: int) -> None:
        original(self, run_id, history._replace(attempts=()), last_seq)

    return [(Journal, "__init__", init)]


def once_made_again() -> Patches:
    """A local value is produced anew on each replay."""
    original = once.run_once

    async def run_once(scope: Any, location: Any, entry: Any, producer: Callable[[], Any]) -> Any:
        value = await original(scope, location, entry, producer)
        return value if entry is None else producer()

    return [(context, "run_once", run_once)]


def fenced_goes_on() -> Patches:
    """A worker that lost its run goes on with it."""
    original = Execution.answered

    def answered(self: Execution, applied: Applied) -> None:
        if applied.verdict is Verdict.FENCED:
            applied = applied._replace(verdict=Verdict.APPLIED)
        original(self, applied)

    return [(Execution, "answered", answered)]


def start_not_doubted() -> Patches:
    """A start whose answer was lost leaves a run that its worker never hears of, not even when it renews its lease."""
    return [
        (ClaimRequests, "__enter__", lambda _: None),
        (ClaimRequests, "__exit__", lambda *_: None),
        (Claimer, "compare_owned", lambda *_: None),
    ]


def loop_cursor_lags() -> Patches:
    """A loop trims iterations that its cursor has not passed."""
    original = loop._trim

    def trim(scope: Any, location: Any, trimmed: int, end: int) -> int:
        original(scope, location, trimmed, end)
        return trimmed

    return [(loop, "_trim", trim), (Journal, "move_cursor", lambda self, cursor: None)]


def held_signals_forgotten() -> Patches:
    """Code that waits takes a message and does not record that it did."""
    return [(Journal, "consume", lambda self, number: None)]


def renewal_forgotten() -> Patches:
    """Leases are never renewed in time, and nobody starts over."""

    async def renew_once(self: Registration) -> bool:
        return True

    return [(Registration, "renew_once", renew_once), (Lease, "is_live", lambda self: True)]


def cancel_ignored() -> Patches:
    """A worker does not honour a cancel that it is told of."""

    def cancel(self: Execution) -> None:
        self._commit_or_start()

    return [(Execution, "cancel", cancel)]


ENGINE_SWITCHES = switches(
    no_replay_skip,
    ack_before_commit,
    no_local_deadline,
    early_timer,
    compensation_not_in_commit,
    notify_only_wake,
    same_incarnation,
    race_loser_commits,
    child_started_twice,
    undo_first_in_first_out,
    sleep_begins_again,
    no_barrier,
    attempts_forgotten,
    once_made_again,
    fenced_goes_on,
    start_not_doubted,
    loop_cursor_lags,
    held_signals_forgotten,
    renewal_forgotten,
    cancel_ignored,
)
