"""People who keep records while everything goes wrong: they write notes, and answer the forms that runs wait for."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sim.books import FORM, LABELS, NOTE, Books, Page, Shelf, closing
from sim.interpreter import WORKFLOWS
from sim.process import UNKNOWN
from sim.programs import walk
from stepwell.clock import Instant, Span
from stepwell.engine.backend import Backend
from stepwell.engine.records import Document, Draft, NewLine
from stepwell.engine.signals import new_signal
from stepwell.engine.starts import encode_input
from stepwell.ids import RunId
from stepwell.model.records import Changed, ChangeOutcome, RecordChange
from stepwell.model.runs import NewRun
from stepwell.model.signals import NewSignal

if TYPE_CHECKING:
    from sim.clients import Clients
    from stepwell.wiring import Engine

Consequences = tuple[tuple[NewSignal, ...], tuple[NewRun, ...]]

_SIGNALS = ("a", "b", "t")
_PROGRAM = WORKFLOWS[0]


class Sent(NamedTuple):
    """A change that somebody has sent, perhaps more than once."""

    kind: str
    change: RecordChange
    told: list[Changed]


class Decided(NamedTuple):
    """A note that somebody wanted to change, whatever it was."""

    name: str
    mark: str
    is_told: bool  # that it was done


class Desk:
    """Everybody who keeps records in one seed; a stream of its own leaves the stories of old seeds alike."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._world = clients.world
        self.rng = rng = random.Random(f"{self._world.seed}/desk")
        self._writes = rng.random() < 0.5 and not self._world.is_quiet
        self._notes = [f"note {number}" for number in range(rng.choice((1, 1, 2, 3)))]
        self._has_forms = any(node["op"] == "record" for program in self._world.programs for node in walk(program))
        self.is_on = self._writes or self._has_forms
        self.sent: list[Sent] = []
        self.decided: list[Decided] = []
        self._starts = 0

    def stories(self) -> list[Any]:
        """Everything that people do with records while things go wrong."""
        rng = self.rng
        writers = [self._write_often() for _ in range(rng.randint(1, 4))] if self._writes else []
        readers = [self._answer_often() for _ in range(rng.randint(1, 3))] if self._has_forms else []
        return [*writers, *readers]

    # --- what changes are made of ---

    def new_mark(self, target: str) -> str:
        """A mark that no other signal or change carries."""
        return self._clients.new_mark(target)

    def draw_pause(self) -> Span:
        """How long until a note is due."""
        return Span(round(self.rng.choice((0.0, 0.05, 0.5, 1.5, 4.0)) * 1e6))

    def draw_consequences(self, backend: Backend) -> Consequences:
        """What else happens with a change: signals to runs that are there or not, and starts that are free or not."""
        rng = self.rng
        signals = tuple(self._draw_signal(backend) for _ in range(rng.choice((0, 0, 1, 1, 2))))
        return signals, tuple(self._draw_start(backend) for _ in range(rng.choice((0, 0, 0, 1, 2))))

    def _draw_signal(self, backend: Backend) -> NewSignal:
        rng = self.rng
        orders = [
            name for order in self._clients.orders for name in (order.key, *sorted(order.told)) if name is not None
        ]
        target = rng.choice([*orders, "nobody has this key"]).lower()
        mark = self.new_mark(target)
        return new_signal(backend, target, rng.choice(_SIGNALS), {"mark": mark})

    def _draw_start(self, backend: Backend) -> NewRun:
        rng = self.rng
        self._starts += 1
        run_id = RunId(f"of-a-note-{rng.randint(1, self._starts)}")  # also one that is taken
        items = [{"op": "once", "id": "once0"}, {"op": "sleep", "id": "sleep0", "seconds": rng.choice((0.0, 0.3))}]
        program = {"body": {"op": "seq", "id": "seq0", "items": items}, "ending": None, "continues": 0}
        key = rng.choice((None, None, "of a note"))
        return NewRun(run_id, "program", 1, encode_input(backend.codec, _PROGRAM, program, run_id), key)

    # --- notes ---

    async def _write_often(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(2, 8)):
            await asyncio.sleep(rng.expovariate(1 / 0.6))
            again = [one for one in self.sent if rng.random() < 0.3]
            if again and rng.random() < 0.3:
                await self._send_again(rng.choice(again))
            elif rng.random() < 0.3:
                await self._write_by_decision(rng.choice(self._notes))
            else:
                await self._write(rng.choice(self._notes))

    async def _write(self, name: str) -> None:
        """Read, think, and change; somebody else may have been quicker."""
        rng = self.rng
        try:
            before = await self._ask(lambda engine: _books(engine, NOTE).find(name))
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.1, 0.8)))
            change = await self._ask(lambda engine: self._prepare(engine, name, before))
        except UNKNOWN:
            return
        sent = Sent(NOTE, change, [])
        self.sent.append(sent)
        await self._send(sent)
        while not sent.told and rng.random() < 0.7:  # nobody knows: the same change again
            await self._send(sent)

    async def _prepare(self, engine: Engine, name: str, before: Document[Page] | None) -> RecordChange:
        draft = self._draft(engine._backend, before, self.new_mark("a note"))
        return _books(engine, NOTE).prepare(name, before, draft)

    async def _write_by_decision(self, name: str) -> None:
        """Change it, whatever it has become meanwhile; that happens once."""
        mark = self.new_mark("a note")

        def decide(engine: Engine, it: Document[Page] | None) -> Draft[Page]:
            return self._draft(engine._backend, it, mark)

        try:
            is_told = await self._ask(lambda engine: _books(engine, NOTE).change(name, lambda it: decide(engine, it)))
        except UNKNOWN:
            is_told = False
        self.decided.append(Decided(name, mark, is_told))

    def _draft(self, backend: Backend, before: Document[Page] | None, mark: str) -> Draft[Page]:
        rng = self.rng
        page = Page() if before is None else before.body
        is_open = before is None or before.record.is_open
        state = Shelf.OPEN if not is_open else rng.choice((Shelf.OPEN, Shelf.OPEN, Shelf.CLOSED))
        if before is None:
            state = Shelf.OPEN
        known = None if before is None else before.record.due_at
        due_at = rng.choice((None, known, Instant(backend.opened.now() + self.draw_pause())))
        signals, starts = self.draw_consequences(backend)
        return Draft(
            state=state,
            body=Page((*page.marks, mark), rng.choice((0, 0, 1, 2))),
            lines=tuple(NewLine(verb, "ann", {"n": 1} if verb == "wrote" else None) for verb in self._draw_verbs()),
            labels=tuple(label for label in LABELS if rng.random() < 0.5),
            due_at=due_at,
            signals=signals,
            starts=starts,
        )

    def _draw_verbs(self) -> tuple[str, ...]:
        return self.rng.choice((("wrote",), ("wrote",), ("wrote", "said so"), ("wrote", "said so", "again")))

    async def _send_again(self, sent: Sent) -> None:
        """A change that was sent before, by somebody who does not know what became of it."""
        await self._send(sent)

    async def _send(self, sent: Sent) -> None:
        try:
            told = await self._ask(lambda engine: _books(engine, sent.kind).send(sent.change))
        except UNKNOWN:
            return
        sent.told.append(told)
        self._check_told(sent)

    def _check_told(self, sent: Sent) -> None:
        """A repeated change has the same answer. One that was stale may have been overtaken again."""
        first, last = sent.told[0], sent.told[-1]
        is_same = first.outcome is last.outcome
        if is_same and first.outcome is ChangeOutcome.CHANGED:
            is_same = first.version == last.version
        if not is_same:
            record = sent.change.record
            text = f"the same change of {record.kind} {record.record_id} was answered {first[:2]}, and then {last[:2]}"
            self._world.violate("I54", "", text)

    # --- forms ---

    async def _answer_often(self) -> None:
        rng = self.rng
        for _ in range(rng.randint(2, 10)):
            await asyncio.sleep(rng.expovariate(1 / 0.5))
            forms = self._world.checker.records.forms(also_closed=rng.random() < 0.15)
            if not forms:
                continue
            record_id = rng.choice(forms)
            match rng.choices(("answer", "together", "claim", "skip", "take back"), (6, 2, 2, 1, 1))[0]:
                case "together":  # two people who do not know of each other
                    await asyncio.gather(self.answer(record_id, "ann"), self.answer(record_id, "bo"))
                case "claim":
                    await self._claim(record_id)
                case "skip" | "take back" as act:
                    await self._repair(record_id, act)
                case _:
                    await self.answer(record_id, "ann", thinks=rng.choice((0.0, 0.0, 0.3)))

    async def answer(self, record_id: str, by: str, thinks: float = 0.0) -> None:
        """Close a form, with an answer to its run."""
        try:
            before = await self._ask(lambda engine: _books(engine, FORM).find(record_id))
            if before is None:
                return
            if not before.record.is_open:  # somebody who had read it when it was open
                record = before.record._replace(version=before.record.version - 1, state=Shelf.OPEN, is_open=True)
                before = replace(before, record=record)
            await asyncio.sleep(thinks)
            mark = self.new_mark(before.record.run_id or "")
            change = await self._ask(lambda engine: _prepare_answer(engine, before, mark, by))
        except UNKNOWN:
            return
        sent = Sent(FORM, change, [])
        self.sent.append(sent)
        await self._send(sent)
        while not sent.told and self.rng.random() < 0.7:
            await self._send(sent)

    async def _repair(self, record_id: str, act: str) -> None:
        """An operator does not wait for people."""
        record, repairers = self._world.checker.records.find(record_id), self._clients.operators.repairers
        if record is None or record.run_id is None or record.location is None:
            return
        row = self._world.checker.rows_now[record.run_id]
        if act == "skip":
            await repairers.skip_form(row, record.location)
        else:
            await repairers.take_back(row)

    async def _claim(self, record_id: str) -> None:
        """Change a form without closing it."""
        mark, pause = self.new_mark(""), self.draw_pause()

        def decide(it: Document[Page] | None) -> Draft[Page] | None:
            if it is None or not it.record.is_open:
                return None
            is_claimed = it.record.state == Shelf.CLAIMED
            due_at = it.record.due_at
            return Draft(
                state=Shelf.OPEN if is_claimed else Shelf.CLAIMED,
                body=Page((*it.body.marks, mark)),
                lines=(NewLine("released" if is_claimed else "claimed", "ann"),),
                labels=it.record.labels,
                due_at=None if due_at is None else Instant(due_at + pause),
                end_state=Shelf.ENDED,
            )

        try:
            await self._ask(lambda engine: _books(engine, FORM).change(record_id, decide))
        except UNKNOWN:
            return

    async def _ask(self, question: Any) -> Any:
        return await self._clients.ask(question)


def _books(engine: Engine, kind: str) -> Books:
    return Books(engine._backend, kind)


async def _prepare_answer(engine: Engine, before: Document[Page], mark: str, by: str) -> RecordChange:
    draft = closing(engine._backend, before, mark, by, NewLine("closed", by))
    return _books(engine, FORM).prepare(before.record.record_id, before, draft)
