"""Answers to commits: runs are told what became of them, and the bodies that may begin then are run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import copy_context
from typing import Any

from stepwell.model.commits import Applied, Commit
from stepwell.worker.claim_requests import ClaimRequests

Answer = Callable[[Applied], None]
Answered = tuple[tuple[Commit, Answer], Applied]
Work = Coroutine[Any, Any, None]

_LOG = logging.getLogger("stepwell.worker")


class AnswerDispatcher:
    """Passes on the answers to commits that were written together.

    Most runs go on with a body that waits for nothing. So one task tells a run, runs the body that may begin, and only
    then turns to the next: what a run keeps in memory is visited once, and its body needs no task of its own. When a
    body waits, or leaves traces in the task, the others are told at once, and each of their bodies has its own.
    """

    def __init__(self, spawn: Callable[[Work], asyncio.Task[None]], requests: ClaimRequests) -> None:
        self._spawn = spawn
        self._requests = requests
        self._answered: deque[Answered] = deque()
        self._task: asyncio.Task[None] | None = None  # the one that tells, until a body in it waits
        self._is_free = False  # and takes the next body
        self._taken: Work | None = None

    @property
    def is_dispatching(self) -> bool:
        """Whether somebody is still to be told."""
        return bool(self._answered)

    def take(self, work: Work) -> asyncio.Task[None] | None:
        """Run a body next, in the task that tells its run just now; None if there is no such task, or it has one."""
        if not self._is_free:
            return None
        self._is_free, self._taken = False, work
        return self._task

    def dispatch_at_once(self, answered: Iterable[Answered]) -> None:
        """Tell all of them, before anything else happens."""
        self._answered.extend(answered)
        while self._answered:
            self._dispatch_next()

    def dispatch_in_turn(self, answered: Iterable[Answered]) -> None:
        """Tell them in the next round of the loop, each with what its body makes of it."""
        self._answered.extend(answered)
        if self._task is None:
            self._task = self._spawn(self._dispatch_and_run())
            asyncio.get_running_loop().call_soon(self._dispatch_rest)

    def close(self) -> None:
        """Tell nobody any more."""
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
        """The task has told everybody, or waits with a body: nobody else waits for that."""
        self._task = None
        self.dispatch_at_once(())

    def _dispatch_next(self) -> None:
        (commit, answer), applied = self._answered.popleft()
        try:
            answer(applied)
        except Exception:  # noqa: BLE001  one run's defect must not keep the others from their answers
            _LOG.exception("run %s stopped by a defect", commit.run_id)
            self._requests.suspect_lost_claims()
