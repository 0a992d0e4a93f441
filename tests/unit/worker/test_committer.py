"""Which commits are written together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from stepwell.environment import system_environment
from stepwell.ids import Incarnation, RunId
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.workers import Claimant, Fence
from stepwell.stores.base.runs import RunStore
from stepwell.worker.claim_requests import ClaimRequests
from stepwell.worker.committer import GATHERED_MAX, Committer


class Sizes:
    """A store that notes how many commits come at a time."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def apply(self, commits: Sequence[Commit], claimant: Claimant | None = None) -> list[Applied]:
        self.batches.append(len(commits))
        return [Applied(Verdict.APPLIED) for _ in commits]


def _nothing(*_: Any) -> None:
    return None


def _committer(store: Sizes) -> Committer:
    runs = cast(RunStore, store)
    return Committer(system_environment(), runs, lambda: None, ClaimRequests(asyncio.Event()), asyncio.ensure_future)


def _submit(committer: Committer, number: int = 1) -> None:
    committer.submit(Commit(RunId(f"r{number}"), Fence(Incarnation("i"), 1), 1), _nothing)


async def _rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_what_each_round_of_the_loop_brings_is_written_together() -> None:
    store = Sizes()
    committer = _committer(store)
    for number in range(20):
        _submit(committer, number)
        await asyncio.sleep(0)
    await _rounds(4)

    assert store.batches == [20]


async def test_a_commit_to_which_nothing_comes_is_written_at_once() -> None:
    store = Sizes()
    _submit(_committer(store))
    await _rounds(4)

    assert store.batches == [1]


async def test_what_comes_on_and_on_does_not_keep_the_first_waiting_for_ever() -> None:
    store = Sizes()
    committer = _committer(store)
    for number in range(3 * GATHERED_MAX):
        _submit(committer, number)
        await asyncio.sleep(0)

    assert len(store.batches) >= 2
    assert max(store.batches) <= GATHERED_MAX + 1


async def test_what_is_gathered_when_the_worker_closes_is_not_written() -> None:
    store = Sizes()
    committer = _committer(store)
    _submit(committer)
    await asyncio.sleep(0)
    committer.close()
    await _rounds(4)

    assert store.batches == []
