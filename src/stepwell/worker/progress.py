"""What running bodies keep and show: written by the run's own commits, under its fence."""

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
    """What progress needs of its execution."""

    def commit_kept(self) -> None: ...


class Checkpoints:
    """Who waits for a commit to be durable."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, number: int) -> asyncio.Future[None]:
        """Done when the commit of this number is."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((number, future))
        return future

    def tell(self, acknowledged: int) -> None:
        """Everything up to this commit is durable."""
        for number, future in self.waiting:
            if number <= acknowledged and not future.done():
                future.set_result(None)
        self.waiting = [(number, future) for number, future in self.waiting if not future.done()]


class RunProgress:
    """Progress and streams of the running bodies of one claim. It is made for the first body that takes a context."""

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
        """The commits up to this one are durable: tell bodies that wait for that."""
        self._streams.acknowledge(number)
        if self._checkpoints.waiting:
            self._checkpoints.tell(number)

    def close(self) -> None:
        """The claim is over: let its execution go. Threads that were given up still hold on to this."""
        self._owner = None

    # --- for attempts ---

    @property
    def is_leaving(self) -> bool:
        """Whether the run is to be given back."""
        return self._claim.is_leaving

    @property
    def is_cancelling(self) -> bool:
        """Whether the forward code is being stopped."""
        return self._claim.is_stopping

    def keep(self, progress: Progress) -> None:
        """Write how far a body has come, with the next commit."""
        if self._owner is not None and not self._claim.is_over:
            self._journal.keep_progress(progress)
            self._owner.commit_kept()

    def keep_durably(self, progress: Progress) -> asyncio.Future[None]:
        """Write how far a body has come; done when that is durable, cancelled if it never will be."""
        future = self._checkpoints.add(self._claim.number + 1)
        if self._claim.is_over:
            future.cancel()
        self.keep(progress)
        return future

    # --- for streams ---

    def _append(self, body: Body, append: Append) -> int | None:
        """A running body appends to a stream: the number of the commit that carries it.

        None if it is too late: a thread goes on after its timeout, and must not mix into the next attempt.
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
