"""Group commit: the deltas of all runs of this process, one batch after the other."""

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

_LOG = logging.getLogger("stepwell.worker")

BACKOFF_FIRST, BACKOFF_MAX = 0.01, 1.0
REFUSALS_MAX = 3  # of a batch before its commits are tried one by one
GATHERED_MAX = 500  # commits that wait for more to join them: some ten milliseconds of work


class Committer:
    """Collects commits while a batch is being written, and writes them as the next one.

    Nothing waits when it is idle.
    """

    def __init__(
        self,
        environment: Environment,
        runs: RunStore,
        offer: Callable[[], Claimant | None],
        requests: ClaimRequests,
        spawn_body: Callable[[Work], asyncio.Task[None]],
        on_written: Callable[[list[Commit], float], None] | None = None,
        tend: Callable[..., None] | None = None,
    ) -> None:
        self._environment = environment
        self._runs = runs
        self._offer = offer
        self._requests = requests  # entered while an answer is on its way that may bring claims
        self.answers = AnswerDispatcher(spawn_body, requests)
        self._on_written = on_written  # told of every batch, and of the seconds that it took
        self._tend = tend  # starts the loop that writes, and starts it again if it fails
        self._queue: list[tuple[Commit, Answer]] = []
        self._is_busy = False
        self._is_closed = False
        self._is_asking = False
        self._is_held: asyncio.Event | None = None  # nothing is written until it is set
        self._pause = BACKOFF_FIRST  # before the store is asked again
        # Whoever set it calls `write_now` before it gives the loop back.
        self.is_attended = False

    @property
    def is_asking(self) -> bool:
        """Whether the store has been asked to apply commits whose runs do not know yet what became of them."""
        return self._is_asking or self.answers.is_dispatching

    def submit(self, commit: Commit, answer: Answer) -> None:
        """Write this commit with the next batch; `answer` is called with what became of it."""
        self._queue.append((commit, answer))
        if not self._is_busy and not self.is_attended:
            self._begin()

    def _begin(self) -> None:
        self._is_busy = True
        # It begins in the next round of the loop: whoever submits in this one shares the batch.
        if self._tend is None:
            self._environment.executor.spawn(self._write(), name="stepwell-commit")
        else:
            self._tend("commit", self._write, may_return=True)

    async def write_now(self) -> None:
        """Write what was submitted while this was attended, unless somebody is writing: then it goes with the next."""
        self.is_attended = False
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
        """Begin no batch until it is let go. What was asked before is answered."""
        self._is_held = self._is_held or asyncio.Event()

    def let_go(self) -> None:
        """Write again."""
        if self._is_held is not None:
            self._is_held.set()
            self._is_held = None

    def close(self) -> None:
        """Write nothing more; whoever waits for an answer gets none."""
        self.let_go()
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
                # The answers start bodies; what ends at once joins the next batch without a new unit of work.
                await asyncio.sleep(0)
        self._is_busy = False

    async def _has_gathered(self) -> bool:
        """Whether there is something to write. As long as each round of the loop brings more, that joins: of many
        timers that end together, none waits until the runs of the first are written.
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
            # Cancelled half-way, by a body that kept the task it ran in: whoever writes next repeats it.
            self._queue = batch + self._queue
            raise
        if self._on_written is not None:
            self._on_written([commit for commit, _ in batch], self._environment.clock.monotonic() - began)
        if self._is_over():
            return []
        if None not in answers:
            return list(zip(batch, cast("Sequence[Applied]", answers), strict=True))
        # What the store did not take alone, either, goes again behind everything else.
        self._queue += [item for item, applied in zip(batch, answers, strict=True) if applied is None]
        return [(item, applied) for item, applied in zip(batch, answers, strict=True) if applied is not None]

    async def _apply(self, commits: list[Commit]) -> Sequence[Applied | None]:
        """Apply until the store has answered; numbers make repeating safe. None for each that is to be asked again."""
        refusals = 0
        while not self._is_closed:
            try:
                answers = await self._ask(commits)
            except Exception as error:  # noqa: BLE001  whatever it is, it must not hurt other runs
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
            # Only children that begin here can be claimed by a commit.
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
        _LOG.warning("commit of %d runs not acknowledged, repeating: %s", len(commits), title)
        self._requests.suspect_lost_claims()
        pause, self._pause = self._pause, min(self._pause * 2, BACKOFF_MAX)
        await asyncio.sleep(pause)

    async def _apply_each(self, commits: list[Commit], error: Exception) -> Sequence[Applied | None]:
        """One of them is refused for good: it is found, and the others are applied."""
        if len(commits) == 1:
            return [await self._set_aside(commits[0], error)]
        return [(await self._apply([commit]))[0] for commit in commits]

    async def _try_each(self, commits: list[Commit]) -> list[Applied | None]:
        """The store refuses them together, again and again: if that is because of one of them, the others go on."""
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
                    answers.append(await self._set_aside(commit, error))
                else:
                    refusals += 1
                    answers.append(None)
        return answers

    async def _set_aside(self, commit: Commit, error: Exception) -> Applied:
        """A commit that the store refuses would be refused again for ever: the run is paused with the reason."""
        _LOG.error("commit of run %s was refused", commit.run_id, exc_info=error)
        problem = ReplayError(f"the store refused what this run did: {type(error).__name__}: {error}")
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
