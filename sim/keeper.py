"""A service that every simulated worker runs: it acts on due records, and the first change of each wins."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sim.books import FORM, KINDS, NOTE, RANG, Books, Page, Shelf, closing
from stepwell.clock import Instant
from stepwell.engine.backend import Backend
from stepwell.engine.records import Document, Draft, NewLine

if TYPE_CHECKING:
    from sim.process import Process


class Keeper:
    """Rings due notes, with consequences, and closes forms whose time is over."""

    name = "keeper"
    kinds: Any = KINDS  # no kinds of the engine's own

    def __init__(self, process: Process, backend: Backend) -> None:
        self._process = process
        self._backend = backend
        self._notes, self._forms = Books(backend, NOTE), Books(backend, FORM)

    async def run_once(self, now: Instant) -> Instant | None:
        """Act on what is due; another worker may have done so by then."""
        for books in (self._notes, self._forms):
            for one in await books.due():
                draft = self._draft(books.kind, one)
                if self._process.rng.random() < 0.5:
                    await books.send(books.prepare(one.record.record_id, one, draft))
                else:
                    await books.change(one.record.record_id, partial(_unless_changed, one, draft))
        return None

    def _draft(self, kind: str, one: Document[Page]) -> Draft[Page]:
        desk = self._process.world.clients.desk
        line = NewLine(RANG, self._process.name, {"due": one.record.due_at})
        if kind == FORM:
            return closing(self._backend, one, desk.new_mark(one.record.run_id or ""), "keeper", line)
        mark, rings = desk.new_mark("a note"), one.body.rings
        again = Instant(self._backend.opened.now() + desk.draw_pause()) if rings else None
        signals, starts = desk.draw_consequences(self._backend)
        return Draft(
            state=Shelf(one.record.state),
            body=Page((*one.body.marks, mark), max(0, rings - 1)),
            lines=(line,),
            labels=one.record.labels,
            due_at=again,
            signals=signals,
            starts=starts,
        )


def _unless_changed(one: Document[Page], draft: Draft[Page], it: Document[Page] | None) -> Draft[Page] | None:
    return draft if it is not None and it.record.version == one.record.version else None
