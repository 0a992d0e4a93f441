"""The bodies of one claim: when they may begin, which run, and how they are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import Protocol

from stepwell.model.entries import Attempt
from stepwell.replay.bodies import Attempted, Body, Raised
from stepwell.replay.journal import Journal, Pending
from stepwell.worker.attempts import AttemptLink
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.code import Code
from stepwell.worker.invocations import run_body
from stepwell.worker.progress import RunProgress
from stepwell.worker.resources import Resources

# How long one task may run one body after another before other tasks run.
_INLINE_SECONDS, _INLINE_MAX = 0.002, 32

Ended = Callable[[Body, Attempted | None], None]


class BodyOwner(Protocol):
    """What running bodies need from their execution."""

    def body_ended(self, body: Body, attempted: Attempted | None) -> None: ...
    def commit_kept(self) -> None: ...
    def record_receipts(self, pending: Pending) -> None: ...
    def lose(self) -> None: ...


class BodyHost(Protocol):
    """What running bodies need from the set of all executions."""

    @property
    def active(self) -> int: ...
    @property
    def is_torn_down(self) -> bool: ...


class Bodies:
    """Holds bodies until everything before them is durable and the lease is live; then runs each in a task.

    Like `Commits`, it gets its execution with each call and keeps no reference to it.
    """

    __slots__ = (
        "_claim",
        "_code",
        "_free_task",
        "_host",
        "_journal",
        "_lease",
        "_next",
        "_receipts",
        "_resources",
        "held",
        "progress",
        "running",
    )

    def __init__(self, claim: ClaimState, journal: Journal, code: Code, resources: Resources, host: BodyHost) -> None:
        self._claim = claim
        self._journal = journal
        self._code = code
        self._resources = resources
        self._lease = resources.lease
        self._host = host
        self.held: list[tuple[int, Body]] = []  # each with the commit that must be durable before it starts
        self.running: dict[Body, asyncio.Task[None]] = {}
        self._free_task: asyncio.Task[None] | None = None  # can take the next body
        self._next: Body | None = None  # the body it took
        self._receipts: Pending | None = None  # receipts with a timer: they are committed soon, with or without others
        self.progress: RunProgress | None = None  # created for the first body that takes a context

    # --- waiting bodies ---

    def renumber(self) -> None:
        """The run was claimed again: bodies that were requested meanwhile wait for its first commit, if any."""
        barrier = int(self._journal.pending.is_urgent)
        self.held = [(barrier, body) for _, body in self.held]

    def give_back(self, *, but_announced: bool) -> None:
        """Begin none of them in this claim; with `but_announced`, bodies with a recorded beginning stay."""
        for _, body in self.held:
            self.retract(body)
        self.held = [held for held in self.held if held[1].is_announced] if but_announced else []

    def retract(self, body: Body) -> None:
        """Take back the recorded beginning of a body that does not run, or was stopped: it is not an attempt."""
        if body.is_noted and not body.is_unwanted:
            now = self._resources.now()
            self._journal.record_attempt(Attempt(body.location, body.attempt, now, None, now))

    # --- running bodies ---

    def start(self, owner: BodyOwner) -> None:
        """Start held bodies, if everything before them is durable and the lease is live."""
        held, acknowledged = self.held, self._claim.acknowledged
        if len(held) == 1 and held[0][0] > acknowledged:
            return  # the most frequent case: its own commit is in flight
        if not held or not self._lease.is_live():
            return
        self.held = []
        for barrier, body in held:
            if body.is_unwanted or (self._claim.is_leaving and not body.is_announced):
                self.retract(body)
            elif barrier > acknowledged:
                self.held.append((barrier, body))
            elif self._free_task is not None:
                self._next, self.running[body] = body, self._free_task
                self._free_task = None
            else:
                work = self._run(body, owner)
                resources = self._resources
                self.running[body] = resources.committer.answers.take(work) or resources.spawn_body(work)
        pending = self._journal.pending
        if pending.receipts and pending is not self._receipts and self.running:
            # They share the commit of a body's result, but do not wait for a long body.
            self._receipts = pending
            self._resources.receipts.wait(partial(owner.record_receipts, pending))

    def acknowledge(self) -> None:
        """Every commit that was sent is durable."""
        self._claim.acknowledged = number = self._claim.number
        if self.progress is not None:
            self.progress.acknowledge(number)

    async def _run(self, body: Body, owner: BodyOwner) -> None:
        """Run one body, and continue at once with its result: a done callback would cost a round of the loop.

        If only one run executes here, no other run could share its commit. So the commit is written at once, and the
        next body runs in this task, too, unless this body has changed the context variables of the task.
        """
        task = self.running[body]
        environment, committer, clean = self._resources.environment, self._resources.committer, copy_context()
        monotonic = environment.clock.monotonic
        began, count = monotonic(), 0
        following: Body | None = body
        while following is not None:
            body, attempted = following, None
            if not self._may_begin(body, owner):
                return
            if environment.on_body is not None:
                environment.on_body(body, owner)
            link = self._open_link(body, owner) if body.takes_context else None
            try:
                attempt = run_body(body, environment.executor, self._lease.is_live)
                observers = self._resources.observers
                attempted = await (attempt if observers is None else observers.watch(body, attempt))
                if link is not None:
                    self._close_link(link, attempted)
                if attempted is None:
                    self._hold_back(body, owner)
                    return
                if attempted.__class__ is Raised and task.cancelling() and self._host.is_torn_down:
                    # The event loop ends and cancelled the body: that is not a result of the body.
                    owner.lose()
                    return
                is_alone = self._host.active == 1 and len(self.running) == 1
                committer.is_deferred = is_alone and not task.cancelling() and copy_context() == clean
                owner.body_ended(body, attempted)
            except BaseException:
                committer.is_deferred = False
                if link is not None:
                    self._close_link(link, attempted)
                owner.body_ended(body, None)
                raise
            if not committer.is_deferred:
                return
            self._free_task = task
            try:
                await committer.write_now()
            finally:
                self._free_task = None
            following, self._next = self._next, None
            count += 1
            if following is not None and (count >= _INLINE_MAX or monotonic() - began > _INLINE_SECONDS):
                await asyncio.sleep(0)
                began, count = monotonic(), 0

    def _may_begin(self, body: Body, owner: BodyOwner) -> bool:
        """Whether the lease is still live. If not, the body is held."""
        is_live = self._lease.is_live()
        if not is_live:
            self._hold_back(body, owner)
        return is_live

    def _open_link(self, body: Body, owner: BodyOwner) -> AttemptLink:
        if self.progress is None:
            self.progress = RunProgress(owner, self._claim, self._journal, self._code, self.running, self._resources)
        return self.progress.open_link(body)

    def _close_link(self, link: AttemptLink, attempted: Attempted | None) -> None:
        progress = link.close(attempted)
        if progress is not None and not self._claim.is_over:
            self._journal.keep_progress(progress)

    def _hold_back(self, body: Body, owner: BodyOwner) -> None:
        """The process was stopped for longer than its lease before this body began: hold it until the lease is live."""
        if not (self._claim.is_over or self._claim.is_stopping):
            self.held.append((0, body))
        owner.body_ended(body, None)

    # --- stopping bodies ---

    def cancel_unwanted(self, unwanted: Iterable[Body], ended: Ended) -> None:
        """Cancel bodies whose results are no longer wanted."""
        for body in unwanted:
            task = self.running.get(body)
            if task is not None:
                self._cancel(body, task, ended)
        self.held = [(barrier, body) for barrier, body in self.held if not body.is_unwanted]

    def stop(self, ended: Ended, *, but: Body | None) -> None:
        """Cancel running bodies. A thread cannot be stopped and its effect may need an undo, so it is waited for."""
        for body, task in self.running.items():
            if body.is_async and not body.is_stopping and body is not but:
                body.is_stopping = True
                self._cancel(body, task, ended)

    def abandon(self) -> None:
        """Stop every body at once, and drop its result."""
        for body, task in self.running.items():
            body.is_unwanted = True
            self._resources.environment.executor.keep(task)
            task.cancel()
        self.running.clear()
        self.held.clear()
        self.release()

    def release(self) -> None:
        """The claim is over: drop the progress of its bodies, which references the execution."""
        if self.progress is not None:
            self.progress.close()
            self.progress = None

    def _cancel(self, body: Body, task: asyncio.Task[None], ended: Ended) -> None:
        """Cancel a body. A task that has not begun never runs the code that reports its end, so the callback does."""
        task.cancel()
        task.add_done_callback(lambda _: ended(body, None))
