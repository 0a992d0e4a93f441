"""Random trees of runs: children, chains, ends of all kinds, and what keeps them."""

from __future__ import annotations

import random

from stepwell.clock import DAY, Span
from stepwell.conformance.scene import Scene, Turn, new_run, place, step
from stepwell.ids import EventId, Incarnation, RunId
from stepwell.model.commits import Verdict
from stepwell.model.outbox import Emit, Settled, Unsent
from stepwell.model.records import NewRecord, NewRecordEvent, RecordOpening
from stepwell.model.runs import Parent
from stepwell.model.signals import Refusal
from stepwell.model.states import RunStatus
from stepwell.model.workers import Claimant, NewWorker

_HOUR = 3_600
_LEASE = Span(10_000 * DAY)  # no lease ends here
_S = RunStatus
WORKFLOWS = ("flow", "other", "poll")
_ENDS = (_S.COMPLETED, _S.COMPLETED, _S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.COMPENSATED)


class Forest:
    """Lets runs start, start children, continue, end and leave things behind, at random."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        self.scene = scene
        self.rng = rng
        self.turns: dict[str, Turn] = {}
        self.claimant = Claimant(Incarnation("w1"), 1_000, tuple(f"{name}@1" for name in WORKFLOWS))
        self._count = 0

    async def plant(self, operations: int) -> None:
        """Do so many things."""
        await self.scene.store.workers.register(
            NewWorker(Incarnation("w1"), "w1", _LEASE, tuple(f"{name}@1" for name in WORKFLOWS))
        )
        for _ in range(operations):
            await self.do()
        # Most trees end.
        while len(self.turns) > operations // 40:
            await self._end(self._any())

    async def do(self) -> None:
        """Do one thing."""
        if not self.turns or self.rng.random() < 0.15:
            return await self._start()
        act = self.rng.choices(
            (self._child, self._continue, self._end, self._emit, self._refuse, self._open, self._pass_time),
            (9, 6, 8, 1, 1, 1, 4),
        )[0]
        await act(self._any())

    def _any(self) -> Turn:
        return self.turns[self.rng.choice(sorted(self.turns))]

    def _id(self) -> str:
        self._count += 1
        return f"r{self._count:05}"

    async def _start(self) -> None:
        run_id = self._id()
        key = {"key": f"k{run_id}", "dedup": self.rng.choice([0, _HOUR, 90 * 24 * _HOUR]) * 1_000_000}
        changes = key if self.rng.random() < 0.4 else {}
        new = new_run(run_id, workflow=self.rng.choice(WORKFLOWS), **changes)
        [created] = await self.scene.store.runs.create([new], self.claimant)
        assert created.claimed is not None
        self.turns[run_id] = Turn(self.scene.store, created.claimed)

    async def _child(self, parent: Turn) -> None:
        at, seq = place(parent.seq), parent.seq + 1
        new = new_run(
            self._id(),
            workflow=self.rng.choice(WORKFLOWS),
            parent=Parent(RunId(parent.run_id), at, self.rng.random() < 0.4, self.rng.random() < 0.2),
        )
        applied = await parent.commit(
            names=(f"c{seq}",), entries=(step(seq, at),), children=(new,), claimant=self.claimant
        )
        for claimed in applied.claimed:
            self.turns[claimed.run.run_id] = Turn(self.scene.store, claimed)

    async def _continue(self, turn: Turn) -> None:
        applied = await turn.end(_S.CONTINUED, successor=new_run(self._id(), workflow=turn.claimed.run.workflow))
        self._over(turn)
        if applied.verdict is Verdict.APPLIED:
            await self._claim()

    async def _end(self, turn: Turn) -> None:
        status = self.rng.choice(_ENDS)
        if status is _S.COMPENSATED:
            await turn.roll_back()
        await turn.end(status)
        self._over(turn)

    async def _emit(self, turn: Turn) -> None:
        now, seq = self.scene.store.now(), turn.seq + 1
        event = EventId(f"e{self._id()}")
        emit = Emit(event, "n", "p", b"x", now, ("s",))
        await turn.commit(names=(f"e{seq}",), entries=(step(seq, place(seq - 1)),), emits=(emit,))
        if self.rng.random() < 0.7:  # the rest are owed, not dead
            worker = Incarnation("w1")
            for batch in await self.scene.store.outbox.take(worker, "s", limit=9, batch_max=1):
                unsent = Unsent(batch[0].number, "no", None)
                await self.scene.store.outbox.settle(worker, [Settled(batch[0].number, (), unsent)])

    async def _refuse(self, turn: Turn) -> None:
        await self.scene.send(f"s{self._id()}", turn.run_id)
        for signal in (await self.scene.store.runs.inbox(turn.run_id)).signals:
            await turn.commit(refused=(Refusal(signal.number, "no"),))

    async def _open(self, turn: Turn) -> None:
        end_state = self.rng.choice([None, "gone"])
        record = NewRecord("task", f"t{self._id()}", "open", b"", ("one",), end_state=end_state)
        await turn.commit(opened=(RecordOpening(place(0), record, (NewRecordEvent("made"),)),))

    async def _pass_time(self, turn: Turn) -> None:
        for _ in range(self.rng.choice([1, 3, 20])):
            self.scene.clock.advance(self.rng.choice([9, 600, 3_000]))

    async def _claim(self) -> None:
        for claimed in await self.scene.store.runs.claim(self.claimant):
            self.turns[claimed.run.run_id] = Turn(self.scene.store, claimed)

    def _over(self, turn: Turn) -> None:
        # Its tied children were cancelled with it, so their turns are over too; their next commit would be fenced.
        del self.turns[turn.run_id]
