"""Answers to commits: each run gets the answer to its commit, and the bodies that may begin then run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from typing import Any

from stepwell.model.commits import Applied, Commit
from stepwell.worker.claim_requests import ClaimRequests
from stepwell.worker.run_logs import fields_of_id

Answer = Callable[[Applied], None]
Answered = tuple[tuple[Commit, Answer], Applied]
Work = Coroutine[Any, Any, None]

_LOG = logging.getLogger("stepwell.worker")


class AnswerDispatcher:
    """Delivers the answers to commits that were written together.

    Most runs continue with a body that does not wait. So one task delivers an answer, runs the body that may begin, and
    only then turns to the next run: the memory of a run is visited once, and its body needs no task of its own. When a
    body waits, or changes context variables of the task, the other answers are delivered at once, and each body gets a
    task of its own.
    """

    def __init__(self, spawn: Callable[[Work], asyncio.Task[None]], requests: ClaimRequests) -> None:
        self._spawn = spawn
        self._requests = requests
        self._answered: deque[Answered] = deque()
        self._task: asyncio.Task[None] | None = None  # delivers answers, until a body in it waits
        self._is_free = False  # the task can take the next body
        self._taken: Work | None = None

    @property
    def is_dispatching(self) -> bool:
        """Whether some runs have not got their answer yet."""
        return bool(self._answered)

    def take(self, work: Work) -> asyncio.Task[None] | None:
        """Run a body next, in the task that delivers the answer to its run; None if that task is not free."""
        if not self._is_free:
            return None
        self._is_free, self._taken = False, work
        return self._task

    def dispatch_at_once(self, answered: Iterable[Answered]) -> None:
        """Deliver all of them before anything else happens."""
        self._answered.extend(answered)
        while self._answered:
            self._dispatch_next()

    def dispatch_in_turn(self, answered: Iterable[Answered]) -> None:
        """Deliver them in the next round of the loop, each followed by the body that may begin."""
        self._answered.extend(answered)
        if self._task is None:
            self._task = self._spawn(self._dispatch_and_run())
            asyncio.get_running_loop().call_soon(self._dispatch_rest)

    def close(self) -> None:
        """Deliver no further answers."""
        self._answered.clear()

    async def _dispatch_and_run(self) -> None:
        task, clean = self._task, copy_context()
        assert task is not None
        while self._answered and self._task is task:
            self._is_free = True
            self._dispatch_next()
            self._is_free = False
            work, self._taken = self._taken, None
            if work is not None:
                await work
                if task.cancelling() or copy_context() != clean:
                    return

    def _dispatch_rest(self) -> None:
        """The task is done, or waits in a body: deliver the other answers without it."""
        self._task = None
        self.dispatch_at_once(())

    def _dispatch_next(self) -> None:
        (commit, answer), applied = self._answered.popleft()
        try:
            answer(applied)
        except Exception:  # noqa: BLE001  the other runs must get their answers
            extra = fields_of_id(commit.run_id)
            _LOG.exception("run %s: the answer to its commit caused an error", commit.run_id, extra=extra)
            self._requests.suspect_lost_claims()
