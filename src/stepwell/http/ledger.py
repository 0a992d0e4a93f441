"""What the API remembers beside the runs: keys of requests that must not happen twice, and who did what.

Both are tables in the engine's own database, so they survive a restart and hold for all servers on it. A store without
transactions of callers is a store in memory: then they live as long as it does.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from stepwell.clock import Instant
from stepwell.engine.facade import Facade
from stepwell.errors import KeyReusedError, TransactionsUnsupportedError
from stepwell.stores.base.transactions import Transaction
from stepwell.stores.sql.statements import load_statements

T = TypeVar("T")

_SQL: Final = load_statements(Path(__file__).parent / "statements")
_TRIES_MAX: Final = 20
_TEXT_MAX: Final = 500
LAST: Final = (1 << 62) - 1


class Act(NamedTuple):
    """One line of the audit. `chain` is a hash over the line and the one before it."""

    number: int
    at: Instant
    request_id: str
    who: str
    act: str
    target: str
    outcome: str  # "asked" before it is done, then the status of the answer
    before: str
    after: str
    chain: str


class Ledger(Protocol):
    """Where requests and acts are remembered."""

    async def reserve(self, scope: str, key: str, fingerprint: str, answer: str, *, until: Instant) -> tuple[str, bool]:
        """The answer that stands under a key, and whether it is this one. Raises `KeyReusedError` if it was reserved
        for another request.
        """
        ...

    async def settle(self, scope: str, key: str, answer: str) -> None:
        """What was reserved is done: from now on this is its answer."""
        ...

    async def note(self, act: Act) -> None:
        """Append a line; its number and chain are given here."""
        ...

    async def list_acts(self, *, limit: int, below: int = LAST) -> list[Act]:
        """Lines with numbers below this, newest first."""
        ...


def chained(previous: str, act: Act) -> str:
    """The chain of a line: whoever changes or removes an earlier one would have to change all that follow."""
    fields = "\x1f".join(str(field) for field in act[:-1])
    return hashlib.sha256(f"{previous}\x1f{fields}".encode("utf-8", "backslashreplace")).hexdigest()


def numbered(act: Act, number: int, chain: str) -> Act:
    """The line in its place after the one with this chain."""
    short = act._replace(number=number, target=act.target[:_TEXT_MAX], before=act.before[:_TEXT_MAX])
    return short._replace(chain=chained(chain, short))


def _check(scope: str, fingerprint: str, found: str) -> None:
    if found != fingerprint:
        raise KeyReusedError(
            "this idempotency key was used for another request",
            where=scope,
            why="a key stands for one request, with one body; this one differs from the first",
            fix="use a new key for a new request",
        )


class DatabaseLedger:
    """The ledger in the engine's database."""

    def __init__(self, engine: Facade) -> None:
        self._engine = engine
        self._now = engine.now
        self._turn = asyncio.Lock()  # lines of one server follow each other without meeting

    async def create(self) -> None:
        """Make the tables if they are not there. Raises `TransactionsUnsupportedError`."""
        await self._transact(_create)

    async def reserve(self, scope: str, key: str, fingerprint: str, answer: str, *, until: Instant) -> tuple[str, bool]:
        """See `Ledger.reserve`."""

        def work(tx: Transaction) -> tuple[str, str, bool]:
            tx.execute(_SQL["ledger.forget"], (int(self._now()),))
            tx.execute(_SQL["ledger.reserve"], (scope, key, fingerprint, answer, int(until)))
            is_new = tx.changes == 1
            [(theirs, stands)] = tx.execute(_SQL["ledger.find"], (scope, key))
            return str(theirs), str(stands), is_new

        theirs, stands, is_new = await self._transact(work)
        _check(scope, fingerprint, theirs)
        return stands, is_new

    async def settle(self, scope: str, key: str, answer: str) -> None:
        """See `Ledger.settle`."""
        await self._transact(lambda tx: tx.execute(_SQL["ledger.settle"], (answer, scope, key)))

    async def note(self, act: Act) -> None:
        """See `Ledger.note`."""
        async with self._turn:
            await self._transact(partial(_append, act))

    async def list_acts(self, *, limit: int, below: int = LAST) -> list[Act]:
        """See `Ledger.list_acts`."""
        rows = await self._transact(lambda tx: tx.execute(_SQL["ledger.list"], (below, limit)))
        return [Act._make(row) for row in rows]

    async def _transact(self, work: Callable[[Transaction], T]) -> T:
        for tries in range(_TRIES_MAX):
            try:
                return await self._engine.transact(work)
            except (sqlite3.IntegrityError, sqlite3.OperationalError) as error:
                # Two servers took the same number, or made the tables, at one instant: a table is a type, too.
                is_race = isinstance(error, sqlite3.IntegrityError) or "already exists" in str(error)
                if tries == _TRIES_MAX - 1 or not is_race:
                    raise
        raise AssertionError("unreachable")


def _create(tx: Transaction) -> None:
    for name in ("create_requests", "create_requests_kept", "create_audit"):
        tx.execute(_SQL[f"ledger.{name}"])


def _append(act: Act, tx: Transaction) -> None:
    last = tx.execute(_SQL["ledger.last"])
    number, chain = last[0] if last else (0, "")
    tx.execute(_SQL["ledger.note"], tuple(numbered(act, number + 1, chain)))


class MemoryLedger:
    """The ledger of a store in memory."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self._requests: dict[tuple[str, str], tuple[str, str, Instant]] = {}
        self._acts: list[Act] = []

    async def reserve(self, scope: str, key: str, fingerprint: str, answer: str, *, until: Instant) -> tuple[str, bool]:
        """See `Ledger.reserve`."""
        now = self._now()
        self._requests = {at: row for at, row in self._requests.items() if row[2] > now}
        is_new = (scope, key) not in self._requests
        theirs, stands, _ = self._requests.setdefault((scope, key), (fingerprint, answer, until))
        _check(scope, fingerprint, theirs)
        return stands, is_new

    async def settle(self, scope: str, key: str, answer: str) -> None:
        """See `Ledger.settle`."""
        fingerprint, _, until = self._requests[scope, key]
        self._requests[scope, key] = fingerprint, answer, until

    async def note(self, act: Act) -> None:
        """See `Ledger.note`."""
        last = self._acts[-1] if self._acts else None
        self._acts.append(numbered(act, 1 if last is None else last.number + 1, "" if last is None else last.chain))

    async def list_acts(self, *, limit: int, below: int = LAST) -> list[Act]:
        """See `Ledger.list_acts`."""
        return [act for act in reversed(self._acts) if act.number < below][:limit]


class FirstLedger:
    """Chooses by what the store can do, at the first use: it is not open before."""

    def __init__(self, engine: Facade) -> None:
        self._engine = engine
        self._chosen: Ledger | None = None

    async def reserve(self, scope: str, key: str, fingerprint: str, answer: str, *, until: Instant) -> tuple[str, bool]:
        """See `Ledger.reserve`."""
        return await (await self._choose()).reserve(scope, key, fingerprint, answer, until=until)

    async def settle(self, scope: str, key: str, answer: str) -> None:
        """See `Ledger.settle`."""
        await (await self._choose()).settle(scope, key, answer)

    async def note(self, act: Act) -> None:
        """See `Ledger.note`."""
        await (await self._choose()).note(act)

    async def list_acts(self, *, limit: int, below: int = LAST) -> list[Act]:
        """See `Ledger.list_acts`."""
        return await (await self._choose()).list_acts(limit=limit, below=below)

    async def _choose(self) -> Ledger:
        if self._chosen is None:
            try:
                ledger = DatabaseLedger(self._engine)
                await ledger.create()
                self._chosen = ledger
            except TransactionsUnsupportedError:
                self._chosen = MemoryLedger(self._engine.now)
        return self._chosen
