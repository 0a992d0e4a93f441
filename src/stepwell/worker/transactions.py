"""Transactional steps: their bodies run inside the transaction that commits their result."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from stepwell.clock import Instant
from stepwell.errors import StoreError, StoreUnavailableError, TransactionError
from stepwell.logs import RUNNING_BODY
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.failures import sound, words_of
from stepwell.model.transactions import Transaction
from stepwell.replay.bodies import Attempted, Body, Raised, Recorded
from stepwell.replay.journal import Journal
from stepwell.replay.turn import Turn
from stepwell.stores.base.faults import is_final
from stepwell.stores.base.transactions import Performed, TransactionStore
from stepwell.worker.bodies import Bodies
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.commits import Commits
from stepwell.worker.committer import BACKOFF_FIRST, BACKOFF_MAX
from stepwell.worker.resources import Resources

_LOG = logging.getLogger("stepwell.worker")


class TransactionOwner(Protocol):
    """What a running transaction needs from its execution."""

    def answered(self, applied: Applied) -> None: ...
    def body_ended(self, body: Body, attempted: Attempted | None) -> None: ...
    def cancel(self) -> None: ...
    def break_off(self, error: BaseException) -> None: ...


class Transactions:
    """The transactional steps of one claim, one at a time. The code does not run meanwhile.

    Like `Commits`, it gets its execution with each call and keeps no reference to it.
    """

    __slots__ = ("_bodies", "_claim", "_commits", "_journal", "_resources", "due", "running")

    def __init__(
        self, claim: ClaimState, journal: Journal, commits: Commits, bodies: Bodies, resources: Resources
    ) -> None:
        self._claim = claim
        self._journal = journal
        self._commits = commits
        self._bodies = bodies
        self._resources = resources
        self.due: list[Body] = []  # requested, and not begun
        self.running: Body | None = None

    def begin(self, turn: Turn, owner: TransactionOwner) -> bool:
        """Begin the first due step, with a commit that carries everything before it; returns whether it began."""
        self.due = [body for body in self.due if not body.is_unwanted]
        if self._claim.is_leaving or not self.due or not self._resources.lease.is_live():
            return False
        self.running = body = self.due.pop(0)
        self._commits.sent = commit = self._commits.take(None, turn.take_waits())
        self._bodies.running[body] = self._resources.spawn_body(self._transact(body, commit, owner))
        return True

    def abandon(self) -> None:
        """Begin none of them, and wait for no answer."""
        self.due.clear()
        if self.running is not None:
            self.running = self._commits.sent = None

    async def _transact(self, body: Body, commit: Commit, owner: TransactionOwner) -> None:
        performed, recorded = await self._attempt(body, commit)
        self.running = None
        if self._claim.is_over:
            return
        try:
            self._settle(body, commit, performed, recorded, owner)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  an error of one run affects only that run
            owner.break_off(error)

    def _settle(
        self, body: Body, commit: Commit, performed: Performed, recorded: Recorded | None, owner: TransactionOwner
    ) -> None:
        """The store has answered the commit of a step."""
        applied = performed.applied
        if applied is None:
            # Nothing was written: send the commit without the step.
            assert performed.error is not None
            self._commits.send(commit, owner.answered)
            owner.body_ended(body, Raised(performed.error))
        elif applied.verdict is Verdict.FENCED:
            owner.answered(applied)
        elif applied.verdict is Verdict.CANCELLING:
            # A cancel came first, so the body did not run. The answer to this commit reports the cancel again.
            self._bodies.running.pop(body, None)
            self._commits.send(commit, owner.answered)
        else:
            assert recorded is not None
            self._commits.sent = None
            self._bodies.acknowledge()
            self._claim.is_leaving |= applied.held
            self._journal.adopt(recorded.entry)
            if applied.cancelling:
                owner.cancel()
            owner.body_ended(body, recorded)

    async def _attempt(self, body: Body, commit: Commit) -> tuple[Performed, Recorded | None]:
        observers, came = self._resources.observers, None
        doing = RUNNING_BODY.set(body)
        marks = None if observers is None else observers.body(body)
        try:
            store, requests = self._resources.store.transactions, self._resources.requests
            performed, recorded = await transact(store, body, commit, requests.suspect_lost_claims)
            came = recorded if performed.error is None else Raised(performed.error)
            return performed, recorded
        finally:
            if observers is not None and marks is not None:
                observers.body_ended(body, marks, came)
            RUNNING_BODY.reset(doing)


class StepWork:
    """One attempt at a transactional step, called by the store. A second call replaces the first result."""

    def __init__(self, body: Body, commit: Commit) -> None:
        self._body = body
        self._commit = commit
        self.recorded: Recorded | None = None

    def __call__(self, tx: Transaction, now: Instant) -> Commit:
        """Run the body; the run's commit with its result."""
        assert self._body.record is not None
        entry, value = self._body.record(_call(self._body, tx), now)
        self.recorded = Recorded(entry, value)
        return self._commit._replace(entries=(*self._commit.entries, entry))

    def __repr__(self) -> str:
        return f"<work of {self._body.names.text(self._body.location)}>"


async def transact(
    store: TransactionStore, body: Body, commit: Commit, suspect_lost_claims: Callable[[], None]
) -> tuple[Performed, Recorded | None]:
    """Do the step's work with its commit, and retry until the store has answered; commit numbers make that safe."""
    work = StepWork(body, commit)
    pause = BACKOFF_FIRST
    while True:
        try:
            performed = await store.perform(commit, work, is_blocking=not body.is_async)
            if not isinstance(performed.error, StoreUnavailableError):
                return performed, work.recorded
            problem: StoreError = performed.error
        except Exception as error:  # noqa: BLE001  also errors of the codec
            if not isinstance(error, StoreError) or is_final(error):
                return Performed(error=error), None  # rejected: nothing was written
            problem = error
            suspect_lost_claims()
        _LOG.warning("the transaction of %r was not acknowledged; retrying: %s", work, problem.title)
        await asyncio.sleep(pause)
        pause = min(pause * 2, BACKOFF_MAX)


def _call(body: Body, tx: Transaction) -> Any:
    try:
        result = body.fn(tx, *body.args, **body.kwargs)
        return _run_through(result, body) if inspect.isawaitable(result) else result
    except Exception as error:
        plain = sound(error)
        if plain is error:
            raise
        raise plain from None
    except BaseException as error:
        if type(error) is KeyboardInterrupt and body.is_async:
            raise
        raise RuntimeError(f"a transactional body raised {type(error).__name__}: {words_of(error)}") from error


def _run_through(awaitable: Awaitable[Any], body: Body) -> Any:
    """Run a coroutine that never waits."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        return ended.value
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    path = body.names.text(body.location)
    raise TransactionError(
        f"transactional step `{path}` waits for something outside its transaction",
        where=path,
        why="while its body runs, nothing else can write to the database, not even what it waits for",
        fix="do the waiting in an earlier step, and pass its result to this one",
    )
