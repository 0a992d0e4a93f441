"""What bodies keep and show while they run."""

from __future__ import annotations

import asyncio

from stepwell.model.entries import Progress
from stepwell.model.live import Append
from stepwell.replay.bodies import Attempted, Body
from stepwell.worker.links import AttemptLink
from stepwell.worker.outlet import BodyOutlet
from stepwell.worker.owning import Owning, contained


class Keeping(Owning):
    """Progress and streams of running bodies: written by the run's own commits, under its fence."""

    def _open_link(self, body: Body) -> AttemptLink:
        """Connect a body that takes a context to this execution, while it runs."""
        if self._outlet is None:
            self._outlet = BodyOutlet(self._host.codec, self._closed_streams, self._append)
        body.outlet = self._outlet
        body.link = link = AttemptLink(self, body, self._host)
        return link

    def _append(self, body: Body, append: Append) -> int | None:
        """A running body appends to a stream: the number of the commit that carries it.

        None if it is too late: a thread goes on after its timeout, and must not mix into the next attempt.
        """
        if self._is_over or self._turn is None or body not in self._running or body.is_unwanted:
            return None
        self._journal.append(append)
        if self._sent is None:
            if self._is_stopping:
                self._submit(None)
            else:
                self._commit_or_start()
            return self._number
        return self._number + 1

    def _closed_streams(self) -> set[str]:
        return self._turn.closed_streams if self._turn is not None else set()

    def _close(self, link: AttemptLink, attempted: Attempted | None) -> None:
        """What a body said last goes with what came of it."""
        progress = link.close(attempted)
        if progress is not None and not self._is_over:
            self._journal.keep_progress(progress)

    @contained
    def keep(self, progress: Progress) -> None:
        """Write how far a body has come, with the next commit."""
        if self._is_over:
            return
        self._journal.keep_progress(progress)
        if self._sent is None:
            if self._is_stopping:
                self._submit(None)
            else:
                self._commit_or_start()

    def keep_durably(self, progress: Progress) -> asyncio.Future[None]:
        """Write how far a body has come; done when that is durable, cancelled if it never will be."""
        future = self._checkpoints.add(self._number + 1)
        if self._is_over:
            future.cancel()
        self.keep(progress)
        return future
