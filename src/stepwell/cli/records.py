"""What is kept of acts on many runs: who did what to which runs, how far it is, and that somebody wants it to stop."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from stepwell.clock import Instant, to_datetime
from stepwell.errors import NotFoundError
from stepwell.stores.sql.statements import load_statements

if TYPE_CHECKING:
    from stepwell.engine.facade import Facade
    from stepwell.stores.base.transactions import Transaction

T = TypeVar("T")

_SQL: Final = load_statements(Path(__file__).parent / "statements")
_TRIES_MAX: Final = 5
_EVERY: Final = 20  # items that are written together
_LISTED_MAX: Final = 50


class Item(NamedTuple):
    """What became of one run."""

    run_id: str
    outcome: str  # done, before, refused
    status: str


@dataclass(slots=True)
class Bulk:
    """One act on many runs."""

    number: int
    verb: str
    who: str
    chosen: str  # the filter, or that ids were named
    total: int
    began_at: Instant
    ended_at: Instant | None
    state: str  # running, aborting, aborted, done
    counts: dict[str, int] = field(default_factory=dict)  # by outcome

    @property
    def name(self) -> str:
        """As people write it."""
        return f"bulk-{self.number}"

    def body(self) -> dict[str, Any]:
        """For programs."""
        return {
            "bulk": self.name,
            "verb": self.verb,
            "by": self.who,
            "where": self.chosen,
            "state": self.state,
            "matched": self.total,
            **{outcome: self.counts.get(outcome, 0) for outcome in ("done", "before", "refused")},
            "began_at": to_datetime(self.began_at).isoformat(),
            "ended_at": None if self.ended_at is None else to_datetime(self.ended_at).isoformat(),
        }


class Record:
    """One act while it is being done."""

    def __init__(self, engine: Facade, number: int) -> None:
        self._engine = engine
        self.number = number
        self._written = 0
        self._items: list[Item] = []
        self.is_aborted = False

    async def note(self, item: Item) -> None:
        """Remember what became of a run; now and then it is written, and looked whether somebody wants this to end."""
        self._items.append(item)
        if len(self._items) >= _EVERY:
            await self.flush()

    async def flush(self) -> None:
        """Write what is remembered."""
        items, first = self._items, self._written

        def write(tx: Transaction) -> bool:
            for place, item in enumerate(items, first):
                tx.execute(_SQL["bulk.note"], (self.number, place, *item))
            return bool(tx.execute(_SQL["bulk.state"], (self.number,))[0][0] == "aborting")

        self.is_aborted = await self._engine.transact(write)
        self._items, self._written = [], first + len(items)

    async def end(self, *, is_whole: bool) -> None:
        """It is over: all of it was done, or it was stopped."""
        await self.flush()
        state, now = "done" if is_whole else "aborted", self._engine.now()
        await self._engine.transact(lambda tx: tx.execute(_SQL["bulk.end"], (state, now, self.number)))


async def begin(engine: Facade, verb: str, who: str, chosen: str, total: int) -> Record:
    """Keep a record of an act from now on."""

    def write(tx: Transaction) -> int:
        number = int(tx.execute(_SQL["bulk.last"])[0][0]) + 1
        tx.execute(_SQL["bulk.begin"], (number, verb, who, chosen, total, engine.now()))
        return number

    await _prepare(engine)
    return Record(engine, await _again(engine, write))


async def list_bulks(engine: Facade, number: int | None = None) -> list[Bulk]:
    """The latest acts, the last first; or one of them."""
    await _prepare(engine)
    rows = await engine.transact(lambda tx: _list(tx, number))
    found: dict[int, Bulk] = {}
    for *facts, outcome, count in rows:
        bulk = found.setdefault(facts[0], Bulk(*facts))
        if outcome is not None:
            bulk.counts[outcome] = count
    return list(found.values())


async def get_bulk(engine: Facade, name: str) -> tuple[Bulk, list[Item]]:
    """One act with its items. Raises `NotFoundError`."""
    text = name.removeprefix("bulk-")
    found = await list_bulks(engine, int(text)) if text.isascii() and text.isdigit() and len(text) < 19 else []
    if not found:
        raise NotFoundError("bulk", name, fix="stepwell bulk ls")
    rows = await engine.transact(lambda tx: tx.execute(_SQL["bulk.items"], (found[0].number,)))
    return found[0], [Item._make(row) for row in rows]


async def abort(engine: Facade, name: str) -> bool:
    """Let an act end after the run that it is at; false if it is over."""
    bulk, _ = await get_bulk(engine, name)
    await engine.transact(lambda tx: tx.execute(_SQL["bulk.abort"], (bulk.number,)))
    return (await list_bulks(engine, bulk.number))[0].state == "aborting"


def _list(tx: Transaction, number: int | None) -> list[Any]:
    last = int(tx.execute(_SQL["bulk.last"])[0][0]) if number is None else number
    first = max(1, last - _LISTED_MAX + 1) if number is None else number
    return [*tx.execute(_SQL["bulk.list"], (first, last))]


async def _prepare(engine: Facade) -> None:
    def create(tx: Transaction) -> None:
        for name in ("create_acts", "create_items"):
            tx.execute(_SQL[f"bulk.{name}"])

    await _again(engine, create)


async def _again(engine: Facade, work: Callable[[Transaction], T]) -> T:
    """Do it again if somebody else took the same number, or made the tables, at one instant."""
    for tries in range(_TRIES_MAX):
        try:
            return await engine.transact(work)
        except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
            is_race = isinstance(error, sqlite3.IntegrityError) or "already exists" in str(error)
            if tries == _TRIES_MAX - 1 or not is_race:
                raise
    raise AssertionError("unreachable")
