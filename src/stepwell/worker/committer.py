"""Group commit: writes the commits of all runs of this process, one batch after another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import cast

from stepwell.environment import Environment
from stepwell.errors import ReplayError, StepwellError
from stepwell.model.commits import Applied, Commit, Pause, Verdict
from stepwell.model.failures import encode_failure, record_failure
from stepwell.model.workers import Claimant
from stepwell.stores.base.faults import FaultClass, classify
from stepwell.stores.base.runs import RunStore
from stepwell.worker.answers import Answer, AnswerDispatcher, Answered, Work
from stepwell.worker.claim_requests import ClaimRequests
from stepwell.worker.run_logs import fields_of_id

_LOG = logging.getLogger("stepwell.worker")

BACKOFF_FIRST, BACKOFF_MAX = 0.01, 1.0
REFUSALS_MAX = 3  # of a batch before its commits are tried one by one
GATHERED_MAX = 500  # commits that wait for others to join them: about ten milliseconds of work


class Committer:
    """Collects commits while a batch is being written, and writes them as the next batch.

    A commit does not wait when the committer is idle.
    """

    def __init__(
        self,
        environment: Environment,
        runs: RunStore,
        offer: Callable[[], Claimant | None],
        requests: ClaimRequests,
        spawn_body: Callable[[Work], asyncio.Task[None]],
        on_written: Callable[[list[Commit], float], None] | None = None,
        supervise: Callable[..., None] | None = None,
    ) -> None:
        self._environment = environment
        self._runs = runs
        self._offer = offer
        self._requests = requests  # entered while a request is in flight that may bring claims
        self.answers = AnswerDispatcher(spawn_body, requests)
        self._on_written = on_written  # called with every batch and its duration in seconds
        self._supervise = supervise  # starts the loop that writes, and restarts it if it fails
        self._queue: list[tuple[Commit, Answer]] = []
        self._is_busy = False
        self._is_closed = False
        self._is_asking = False
        self._is_held: asyncio.Event | None = None  # nothing is written until it is set
        self._pause = BACKOFF_FIRST  # before the next retry
        # Set by a task that calls `write_now` before it returns to the loop.
        self.is_deferred = False

    @property
    def is_asking(self) -> bool:
        """Whether commits are in flight, or answers are not delivered yet."""
        return self._is_asking or self.answers.is_dispatching

    def submit(self, commit: Commit, answer: Answer) -> None:
        """Write this commit with the next batch; `answer` is called with the store's answer."""
        self._queue.append((commit, answer))
        if not self._is_busy and not self.is_deferred:
            self._begin()

    def _begin(self) -> None:
        self._is_busy = True
        # It begins in the next round of the loop: commits that are submitted in this round share the batch.
        if self._supervise is None:
            self._environment.executor.spawn(self._write(), name="stepwell-commit")
        else:
            self._supervise("commit", self._write, may_return=True)

    async def write_now(self) -> None:
        """Write the deferred commits. If a batch is being written, they are in the next one."""
        self.is_deferred = False
        if not self._queue or self._is_busy or self._is_closed:
            return
        self._is_busy = True
        try:
            self.answers.dispatch_at_once(await self._write_batch())
        finally:
            self._is_busy = False
            if self._queue and not self._is_closed:
                self._begin()

    def hold(self) -> None:
        """Begin no batch until `resume`. A batch in flight is answered."""
        self._is_held = self._is_held or asyncio.Event()

    def resume(self) -> None:
        """Write again after `hold`."""
        if self._is_held is not None:
            self._is_held.set()
            self._is_held = None

    def close(self) -> None:
        """Write nothing more. Pending commits get no answer."""
        self.resume()
        self._is_closed = True
        self._queue.clear()
        self.answers.close()

    def _is_over(self) -> bool:
        return self._is_closed

    async def _write(self) -> None:
        """Write batch after batch until nothing is left."""
        while await self._has_gathered():
            answered = await self._write_batch()
            if self._queue or len(answered) < 2:
                self.answers.dispatch_at_once(answered)
            else:
                self.answers.dispatch_in_turn(answered)
            if not self._queue:
                # The answers start bodies; results that come at once join the next batch of this loop.
                await asyncio.sleep(0)
        self._is_busy = False

    async def _has_gathered(self) -> bool:
        """Whether there is something to write. While each round of the loop adds commits, they join the batch: when
        many timers expire together, no run waits for the batch of the first.
        """
        seen = 0
        while seen < len(self._queue) < GATHERED_MAX:
            seen = len(self._queue)
            await asyncio.sleep(0)
        return bool(self._queue) and not self._is_over()

    async def _write_batch(self) -> list[Answered]:
        if self._is_held is not None:
            await self._is_held.wait()
        batch, self._queue = self._queue, []
        began = 0.0 if self._on_written is None else self._environment.clock.monotonic()
        try:
            answers = await self._apply([commit for commit, _ in batch])
        except BaseException:
            # Cancelled while writing, with the task of a body: the next batch repeats these commits.
            self._queue = batch + self._queue
            raise
        if self._on_written is not None:
            self._on_written([commit for commit, _ in batch], self._environment.clock.monotonic() - began)
        if self._is_over():
            return []
        if None not in answers:
            return list(zip(batch, cast("Sequence[Applied]", answers), strict=True))
        # Commits that the store did not accept even alone are retried after all others.
        self._queue += [item for item, applied in zip(batch, answers, strict=True) if applied is None]
        return [(item, applied) for item, applied in zip(batch, answers, strict=True) if applied is not None]

    async def _apply(self, commits: list[Commit]) -> Sequence[Applied | None]:
        """Retry until the store has answered; commit numbers make that safe. None for each commit to retry later."""
        refusals = 0
        while not self._is_closed:
            try:
                answers = await self._ask(commits)
            except Exception as error:  # noqa: BLE001  no error may affect other runs
                fault_class = classify(error)
                if fault_class is FaultClass.FINAL:
                    return await self._apply_each(commits, error)
                await self._back_off(commits, error)
                refusals += fault_class is FaultClass.RETRIED
                if refusals >= REFUSALS_MAX and len(commits) > 1:
                    return await self._try_each(commits)
            else:
                self._pause = BACKOFF_FIRST
                return answers
        return [Applied(Verdict.FENCED)] * len(commits)

    async def _ask(self, commits: list[Commit]) -> list[Applied]:
        try:
            # A commit can claim only the children that it starts.
            offer = self._offer() if any([commit.children for commit in commits]) else None
            if offer is None:
                self._is_asking = True
                return await self._runs.apply(commits)
            with self._requests:
                return await self._runs.apply(commits, offer)
        finally:
            self._is_asking = False

    async def _back_off(self, commits: list[Commit], error: Exception) -> None:
        title = error.title if isinstance(error, StepwellError) else repr(error)
        _LOG.warning("the commit of %d run(s) was not acknowledged; retrying: %s", len(commits), title)
        self._requests.suspect_lost_claims()
        pause, self._pause = self._pause, min(self._pause * 2, BACKOFF_MAX)
        await asyncio.sleep(pause)

    async def _apply_each(self, commits: list[Commit], error: Exception) -> Sequence[Applied | None]:
        """The store rejects one of them permanently: find it, and apply the others."""
        if len(commits) == 1:
            return [await self._pause_run(commits[0], error)]
        return [(await self._apply([commit]))[0] for commit in commits]

    async def _try_each(self, commits: list[Commit]) -> list[Applied | None]:
        """The store keeps rejecting the batch: try each commit alone, so that only the cause of it waits."""
        answers: list[Applied | None] = []
        refusals = 0
        for commit in commits:
            if self._is_closed or refusals >= REFUSALS_MAX:
                answers.append(None)
                continue
            try:
                answers += await self._ask([commit])
                refusals = 0
            except Exception as error:  # noqa: BLE001  as above
                if classify(error) is FaultClass.FINAL:
                    answers.append(await self._pause_run(commit, error))
                else:
                    refusals += 1
                    answers.append(None)
        return answers

    async def _pause_run(self, commit: Commit, error: Exception) -> Applied:
        """Pause a run whose commit the store rejects permanently, with the reason."""
        run_id = commit.run_id
        extra = fields_of_id(run_id)
        _LOG.error("run %s is paused: the store rejected its commit", run_id, exc_info=error, extra=extra)
        problem = ReplayError(f"the store rejected the commit of this run: {type(error).__name__}: {error}")
        pause = Commit(commit.run_id, commit.fence, commit.number, move=Pause(encode_failure(record_failure(problem))))
        while not self._is_closed:
            try:
                await self._runs.apply([pause])
                break
            except Exception as refused:  # noqa: BLE001  as above
                if classify(refused) is FaultClass.FINAL:
                    self._requests.suspect_lost_claims()
                    break
                await self._back_off([pause], refused)
        return Applied(Verdict.FENCED)
