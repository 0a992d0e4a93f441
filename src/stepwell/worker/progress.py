"""Progress and streams of running bodies: written by the run's own commits, under its fence."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import Protocol

from stepwell.model.entries import Progress
from stepwell.model.live import Append
from stepwell.replay.bodies import Body
from stepwell.replay.journal import Journal
from stepwell.worker.attempts import AttemptLink
from stepwell.worker.body_streams import BodyStreams
from stepwell.worker.claim_state import ClaimState
from stepwell.worker.code import Code
from stepwell.worker.resources import Resources


class ProgressOwner(Protocol):
    """What progress needs from its execution."""

    def commit_kept(self) -> None: ...


class Checkpoints:
    """Futures that wait for a commit to be durable."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, number: int) -> asyncio.Future[None]:
        """A future that is done when the commit of this number is durable."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((number, future))
        return future

    def acknowledge(self, acknowledged: int) -> None:
        """All commits up to this number are durable."""
        for number, future in self.waiting:
            if number <= acknowledged and not future.done():
                future.set_result(None)
        self.waiting = [(number, future) for number, future in self.waiting if not future.done()]


class RunProgress:
    """Progress and streams of the running bodies of one claim. Created for the first body that takes a context."""

    __slots__ = ("_checkpoints", "_claim", "_code", "_journal", "_owner", "_resources", "_running", "_streams")

    def __init__(
        self,
        owner: ProgressOwner,
        claim: ClaimState,
        journal: Journal,
        code: Code,
        running: Container[Body],
        resources: Resources,
    ) -> None:
        self._owner: ProgressOwner | None = owner
        self._claim = claim
        self._journal = journal
        self._code = code
        self._running = running
        self._resources = resources
        self._checkpoints = Checkpoints()
        self._streams = BodyStreams(resources.codec, self._closed_streams, self._append)

    def open_link(self, body: Body) -> AttemptLink:
        """Connect a body that takes a context to its run, while it runs."""
        body.outlet = self._streams
        body.link = link = AttemptLink(self, body, self._resources)
        return link

    def acknowledge(self, number: int) -> None:
        """The commits up to this one are durable: notify the bodies that wait for that."""
        self._streams.acknowledge(number)
        if self._checkpoints.waiting:
            self._checkpoints.acknowledge(number)

    def close(self) -> None:
        """The claim has ended: drop its execution. Abandoned threads may still reference this object."""
        self._owner = None

    # --- for attempts ---

    @property
    def is_leaving(self) -> bool:
        """Whether the run is to be released."""
        return self._claim.is_leaving

    @property
    def is_cancelling(self) -> bool:
        """Whether the forward code is being stopped."""
        return self._claim.is_stopping

    def keep(self, progress: Progress) -> None:
        """Write the progress of a body with the next commit."""
        if self._owner is not None and not self._claim.is_over:
            self._journal.keep_progress(progress)
            self._owner.commit_kept()

    def keep_durably(self, progress: Progress) -> asyncio.Future[None]:
        """Write the progress of a body. The future is done when it is durable, and cancelled if it never will be."""
        future = self._checkpoints.add(self._claim.number + 1)
        if self._claim.is_over:
            future.cancel()
        self.keep(progress)
        return future

    # --- for streams ---

    def _append(self, body: Body, append: Append) -> int | None:
        """Append to a stream for a running body; returns the number of the commit that carries it.

        None if it is too late: a thread continues after its timeout, and must not mix into the next attempt.
        """
        owner, is_late = self._owner, self._claim.is_over or self._code.turn is None
        if owner is None or is_late or body not in self._running or body.is_unwanted:
            return None
        number = self._claim.number + 1
        self._journal.append(append)
        owner.commit_kept()
        return number

    def _closed_streams(self) -> set[str]:
        turn = self._code.turn
        return turn.closed_streams if turn is not None else set()
