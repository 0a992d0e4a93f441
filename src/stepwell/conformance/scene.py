"""Drives a store for the suite: workers that claim, and turns that number their commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.clock import Duration, Instant, Span, span
from stepwell.ids import EventId, Incarnation, RunId, SignalId
from stepwell.model.cancels import Cancelled
from stepwell.model.commits import Applied, BeginRollback, Commit, End, Park, Verdict
from stepwell.model.entries import Entry
from stepwell.model.events import NewEvent, Published
from stepwell.model.locations import ROOT, Location, named
from stepwell.model.runs import Claimed, Created, History, NewRun, Parent, Run
from stepwell.model.signals import Delivered, NewSignal
from stepwell.model.states import EntryKind, EntryStatus, RunStatus, WaitKind
from stepwell.model.waits import Since, Wait
from stepwell.model.workers import Claimant, Fence, NewWorker, Worker
from stepwell.stores.base.store import Store
from stepwell.virtual.clock import ManualClock

LEASE = Span(10_000_000)
FLOW = "flow@1"
FIRST = named(ROOT, 0)


def place(number: int) -> Location:
    """The location of the run's n-th name."""
    return named(ROOT, number)


def new_run(run_id: str, **changes: Any) -> NewRun:
    """A run of the workflow that every worker of the suite serves."""
    return NewRun(RunId(run_id), "flow", 1, b'{"n":1}')._replace(**changes)


def child_of(parent: str, run_id: str, at: Location, *, detached: bool = False, **changes: Any) -> NewRun:
    """A child run, started by `parent` at a location."""
    return new_run(run_id, parent=Parent(RunId(parent), at, detached), **changes)


def new_signal(signal_id: str, target: str, name: str = "go", **changes: Any) -> NewSignal:
    """A signal to a run or key."""
    return NewSignal(SignalId(signal_id), target, name, signal_id.encode())._replace(**changes)


def step(seq: int, at: Location, **changes: Any) -> Entry:
    """The recorded result of a step."""
    return Entry(seq, at, EntryKind.STEP, EntryStatus.DONE, b"%d" % seq, Instant(1_000 + seq), 5)._replace(**changes)


def wait_signal(*names: str, at: Location = FIRST) -> Wait:
    """A wait for a signal with one of these names, or for any signal."""
    return Wait(at, WaitKind.SIGNAL, 1, None, names)


def new_event(event_id: str, topic: str = "news", **changes: Any) -> NewEvent:
    """An event on a topic."""
    return NewEvent(EventId(event_id), topic, event_id.encode())._replace(**changes)


def wait_topic(topic: str = "news", *where: str, at: Location = FIRST, since: Since = "wait", token: int = 1) -> Wait:
    """A wait for an event on a topic."""
    return Wait(at, WaitKind.TOPIC, token, None, (topic,), where, since)


def wait_child(at: Location) -> Wait:
    """A wait for the child started at a location."""
    return Wait(at, WaitKind.CHILD, 1)


def wait_run(run_id: str, at: Location = FIRST) -> Wait:
    """A wait for the end of any run."""
    return Wait(at, WaitKind.RUN, 1, None, (run_id,))


def wait_timer(due_at: Instant, at: Location = FIRST) -> Wait:
    """A wait for an instant."""
    return Wait(at, WaitKind.TIMER, 1, due_at)


class Turn:
    """One claim of a run: it numbers its commits and entries as a worker would."""

    def __init__(self, store: Store, claimed: Claimed) -> None:
        assert claimed.run.owner is not None
        self.claimed = claimed
        self.run_id = claimed.run.run_id
        self.fence = Fence(claimed.run.owner, claimed.run.epoch)
        self.number = 0
        self.seq = claimed.run.last_seq
        self._store = store

    def next(self, **parts: Any) -> Commit:
        """The next commit of this turn."""
        return Commit(self.run_id, self.fence, self.number + 1, **parts)

    async def send(self, commit: Commit, claimant: Claimant | None = None) -> Applied:
        """Send one commit, and count it if it was applied."""
        [applied] = await self._store.runs.apply([commit], claimant)
        if applied.verdict is Verdict.APPLIED and commit.number == self.number + 1:
            self.number += 1
            self.seq = commit.entries[-1].seq if commit.entries else self.seq
        return applied

    async def commit(self, *, claimant: Claimant | None = None, **parts: Any) -> Applied:
        """Apply the next commit of this turn."""
        return await self.send(self.next(**parts), claimant)

    async def record(self, name: str, **changes: Any) -> Applied:
        """Record the next step under the next name; only for runs with one name per entry."""
        seq = self.seq + 1
        return await self.commit(names=(name,), entries=(step(seq, place(seq - 1), **changes),))

    async def park(self, *waits: Wait, wake_at: Instant | None = None) -> Applied:
        """Release the run until one of the waits is satisfied."""
        return await self.commit(waits=waits, move=Park(wake_at))

    async def end(self, status: RunStatus = RunStatus.COMPLETED, **parts: Any) -> Applied:
        """End the run."""
        return await self.commit(move=End(status, **parts))

    async def roll_back(self, cause: str = "failed", failure: bytes | None = None, undo_floor: int = 0) -> Applied:
        """Begin the rollback."""
        return await self.commit(move=BeginRollback(cause, failure, undo_floor))


class Scene:
    """A store, its clock, and one registered worker, with short forms of the common operations."""

    def __init__(self, store: Store, clock: ManualClock, worker: str = "w1") -> None:
        self.store = store
        self.clock = clock
        self.incarnation = Incarnation(worker)

    async def register(self, worker: str | None = None, *definitions: str) -> Worker:
        """Register a worker with a lease of ten seconds."""
        name = worker or self.incarnation
        return await self.store.workers.register(NewWorker(Incarnation(name), name, LEASE, definitions or (FLOW,)))

    def claimant(self, worker: str | None = None, *, limit: int = 100, ahead: Duration = 0) -> Claimant:
        """The claimant for a worker."""
        return Claimant(Incarnation(worker or self.incarnation), limit, (FLOW,), span(ahead))

    async def create(self, run_id: str, **changes: Any) -> Created:
        """Start one run."""
        [created] = await self.store.runs.create([new_run(run_id, **changes)])
        return created

    async def claim(self, worker: str | None = None, *, limit: int = 100, ahead: Duration = 0) -> list[Turn]:
        """Claim due runs, and waiting runs that will be due within `ahead`."""
        claimed = await self.store.runs.claim(self.claimant(worker, limit=limit, ahead=ahead))
        return [Turn(self.store, one) for one in claimed]

    async def claim_only(self, run_id: str, worker: str | None = None) -> Turn:
        """Claim due runs; this run must be the only one."""
        turns = await self.claim(worker)
        assert [turn.run_id for turn in turns] == [run_id]
        return turns[0]

    async def begin(self, run_id: str, **changes: Any) -> Turn:
        """Start a run and claim it in the same transaction."""
        [created] = await self.store.runs.create([new_run(run_id, **changes)], self.claimant())
        assert created.claimed is not None
        return Turn(self.store, created.claimed)

    async def begin_child(self, parent: Turn, run_id: str, at: Location = FIRST, **changes: Any) -> Turn:
        """Let a run start a child, which is claimed in the same transaction."""
        child = child_of(parent.run_id, run_id, at, **changes)
        [claimed] = (await parent.commit(children=(child,), claimant=self.claimant())).claimed
        return Turn(self.store, claimed)

    async def send(self, signal_id: str, target: str, name: str = "go", **changes: Any) -> Delivered:
        """Deliver one signal."""
        [delivered], _ = await self.store.signals.deliver([new_signal(signal_id, target, name, **changes)])
        return delivered

    async def publish(self, event_id: str, topic: str = "news", **changes: Any) -> Published:
        """Publish one event."""
        [published], _ = await self.store.events.publish([new_event(event_id, topic, **changes)])
        return published

    async def waiting(self, run_id: str, *waits: Wait, **changes: Any) -> Turn:
        """A run that waits, with these waits."""
        turn = await self.begin(run_id, **changes)
        await turn.park(*waits)
        return turn

    async def events(self, run_id: str) -> list[str]:
        """The payloads of the events in the inbox, in order."""
        return [event.payload.decode() for event in (await self.store.runs.inbox(RunId(run_id))).events]

    async def kept(self, topic: str | None = None) -> list[str]:
        """The payloads of kept events, oldest first."""
        return [event.payload.decode() for event in await self.store.views.list_events(limit=99, topic=topic)]

    async def cancel(self, run_id: str, *, compensate: bool = True, reason: str = "", by: str = "") -> Cancelled:
        """Cancel a run."""
        return await self.store.runs.cancel(RunId(run_id), compensate=compensate, reason=reason, by=by)

    async def run(self, run_id: str) -> Run:
        """The run's row."""
        run = await self.store.views.find(run_id)
        assert run is not None
        return run

    async def status(self, run_id: str) -> RunStatus:
        """The run's status."""
        return (await self.run(run_id)).status

    async def history(self, run_id: str) -> History:
        """The recorded history of the run."""
        [history] = await self.store.runs.load([RunId(run_id)])
        return history

    async def mail(self, run_id: str) -> list[str]:
        """The payloads of the pending signals, in order."""
        return [signal.payload.decode() for signal in (await self.store.runs.inbox(RunId(run_id))).signals]

    async def lose_worker(self, *keep: str) -> None:
        """Let every lease expire except those of the workers to keep."""
        self.clock.advance(6)
        for worker in keep:
            await self.store.workers.renew(Incarnation(worker), LEASE)
        self.clock.advance(5)

    async def rescue(self, stalls_max: int = 100) -> Sequence[RunId]:
        """Free the runs of dead workers."""
        return await self.store.runs.rescue(stalls_max=stalls_max)
