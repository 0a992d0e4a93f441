"""Operations of transactions that hold an author's own rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stepwell.clock import Instant
from stepwell.model.commits import Applied, Commit
from stepwell.model.transactions import Transaction
from tests.differential import parts
from tests.differential.commits import a_commit, note
from tests.differential.runs import created_facts, is_crowded, new_run
from tests.differential.world import Handle, Operation, World

CREATE = "create table if not exists coins (n integer not null unique)"
INSERT = "insert into coins values ("  # a number, and ")": every store reads it, whatever its parameters look like
SELECT = "select n from coins order by n"
_COINS = 12


class Changed(Exception):
    """The error that an author's code raises."""


class Outcome(NamedTuple):
    """The result of a transaction, and the author's rows after it."""

    applied: Applied | None
    commit: Commit | None
    error: str
    coins: tuple[int, ...]


def perform(world: World) -> Operation | None:
    """A transactional step: a coin, and its entry."""
    run = world.a_run(lambda one: one.owner is not None)
    if run is None:
        return None
    commit = a_commit(world, run)._replace(move=None, entries=())
    if world.likely(0.1):
        commit = commit._replace(number=commit.number + world.chance.choice([-1, 1]))
    coin, fails = world.chance.randrange(_COINS), world.likely(0.15)
    place, seq = parts.a_free_place(world, run.run_id), run.last_seq + 1

    def work_for(at: Handle) -> Any:
        own = at.numbers.to_own(commit)

        def work(tx: Transaction, now: Instant) -> Commit:
            tx.execute(f"{INSERT}{coin})")
            if fails:
                raise Changed
            return own._replace(entries=(parts.an_entry_at(seq, place, now),))

        return own, work

    async def call(at: Handle) -> Outcome:
        own, work = work_for(at)
        done = await at.opened.store.transactions.perform(own, work, is_blocking=False)
        return Outcome(done.applied, done.commit, _name(done.error), await _coins(at))

    def facts(answer: Outcome) -> list[str]:
        if answer.applied is None:
            return [f"raised: {answer.error}"]
        return [note(world, answer.commit or commit, answer.applied)]

    return Operation("transactions.perform", (commit, coin, fails, place), call, facts)


def run(world: World) -> Operation:
    """Work that belongs to no run."""
    coin, fails = world.chance.randrange(_COINS), world.likely(0.15)

    def work(tx: Transaction) -> int:
        tx.execute(f"{INSERT}{coin})")
        if fails:
            raise Changed
        return coin

    async def call(at: Handle) -> Outcome:
        error: Exception | None = None
        try:
            assert await at.opened.store.transactions.run(work) == coin
        except Exception as raised:
            error = raised
        return Outcome(None, None, _name(error), await _coins(at))

    return Operation(
        "transactions.run", (coin, fails), call, lambda answer: [f"raised: {answer.error}" if answer.error else "done"]
    )


def enqueue(world: World) -> Operation | None:
    """Start runs within a caller's transaction. A store that cannot do it here starts them by itself."""
    if not any(one.opened.enqueue for one in world.handles) or is_crowded(world):
        return None
    # A store may continue above any instant that another connection has written, so that must be below the clock.
    world.clock.advance("1us")
    runs = [new_run(world) for _ in range(world.chance.choice([1, 1, 2]))]

    async def call(at: Handle) -> Any:
        own = at.opened.enqueue
        return await (at.opened.store.runs.create(runs, None) if own is None else own(runs))

    def facts(answer: Any) -> Iterator[str]:
        for one in answer:
            yield from created_facts(one)

    return Operation("transactions.enqueue", (runs,), call, facts)


async def _coins(at: Handle) -> tuple[int, ...]:
    rows = await at.opened.store.transactions.run(lambda tx: tx.execute(SELECT))
    return tuple(coin for (coin,) in rows)


def _name(error: Exception | None) -> str:
    """What an author catches: the general class that every driver has, if it applies."""
    names = [cls.__name__ for cls in type(error).__mro__] if error is not None else [""]
    return "IntegrityError" if "IntegrityError" in names else names[0]
