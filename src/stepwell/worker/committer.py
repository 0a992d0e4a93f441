"""Group commit: the deltas of all runs of this process, one batch after the other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from stepwell.environment import Environment
from stepwell.errors import StoreUnavailableError
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.workers import Claimant
from stepwell.stores.base.runs import RunStore

Answer = Callable[[Applied], None]
_LOG = logging.getLogger("stepwell.worker")

BACKOFF_FIRST, BACKOFF_MAX = 0.01, 1.0


class Committer:
    """Collects commits while a batch is being written, and writes them as the next one.

    Nothing waits when it is idle.
    """

    def __init__(self, environment: Environment, runs: RunStore, offer: Callable[[], Claimant | None]) -> None:
        self._environment = environment
        self._runs = runs
        self._offer = offer
        self._queue: list[tuple[Commit, Answer]] = []
        self._is_busy = False
        self._is_closed = False
        self.on_doubt: Callable[[], None] = lambda: (
            None
        )  # an acknowledgement was lost: the store may have done more than we know

    def submit(self, commit: Commit, answer: Answer) -> None:
        """Write this commit with the next batch; `answer` is called with what became of it."""
        self._queue.append((commit, answer))
        if not self._is_busy:
            self._is_busy = True
            asyncio.get_running_loop().call_soon(self._begin)

    def close(self) -> None:
        """Write nothing more; whoever waits for an answer gets none."""
        self._is_closed = True
        self._queue.clear()

    def _begin(self) -> None:
        if self._is_closed:
            return
        batch, self._queue = self._queue, []
        self._environment.executor.spawn(self._write(batch), name="stepwell-commit")

    async def _write(self, batch: list[tuple[Commit, Answer]]) -> None:
        answers = await self._apply([commit for commit, _ in batch])
        if self._is_closed:
            return
        if self._queue:
            asyncio.get_running_loop().call_soon(self._begin)
        else:
            self._is_busy = False
        for (_, answer), applied in zip(batch, answers, strict=True):
            answer(applied)

    async def _apply(self, commits: list[Commit]) -> list[Applied]:
        """Apply until the store has answered; numbers make repeating safe."""
        pause = BACKOFF_FIRST
        while not self._is_closed:
            try:
                return await self._runs.apply(commits, self._offer())
            except StoreUnavailableError as error:
                _LOG.warning("commit of %d runs not acknowledged, repeating: %s", len(commits), error.title)
                self.on_doubt()
                await asyncio.sleep(pause)
                pause = min(pause * 2, BACKOFF_MAX)
            except ValueError:
                if len(commits) == 1:
                    _LOG.exception("commit of run %s was refused", commits[0].run_id)
                    return [Applied(Verdict.FENCED)]
                # One of them is bad: find out which, so that the others are not hurt.
                return [(await self._apply([commit]))[0] for commit in commits]
        return [Applied(Verdict.FENCED)] * len(commits)
