"""Stream appends of running bodies: added to the run's journal, committed at once, acknowledged when durable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from stepwell.codec.base import Codec
from stepwell.model.live import Append
from stepwell.replay.bodies import Body

Commit = Callable[[Body, Append], int | None]  # returns the number of its commit; None if it is too late


class BodyStreams:
    """The streams that the bodies of one owned run append to.

    While a commit is in flight, further appends collect for the next one.
    """

    def __init__(self, codec: Codec, closed: Callable[[], set[str]], commit: Commit) -> None:
        self.codec = codec
        self.loop = asyncio.get_running_loop()
        self._closed = closed
        self._commit = commit
        self._unacknowledged: deque[tuple[int, asyncio.Future[None]]] = deque()

    def is_closed(self, stream: str) -> bool:
        """Whether the workflow has closed the stream."""
        return stream in self._closed()

    def put(self, body: Body, append: Append) -> asyncio.Future[None]:
        """Commit a line. The future is done when the line is durable, and cancelled if it is too late."""
        durable: asyncio.Future[None] = self.loop.create_future()
        number = self._commit(body, append)
        if number is None:
            durable.cancel()
        else:
            self._unacknowledged.append((number, durable))
        return durable

    def acknowledge(self, number: int) -> None:
        """All commits up to this one are durable."""
        while self._unacknowledged and self._unacknowledged[0][0] <= number:
            _, durable = self._unacknowledged.popleft()
            if not durable.done():
                durable.set_result(None)
