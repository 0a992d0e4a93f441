"""A TCP proxy on loopback in front of a server: it can fall silent without closing anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.servers.ports import HOST


class SilentProxy:
    """Passes bytes on, in a thread with a loop of its own, until it is told otherwise; usable as a context manager."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._stop: asyncio.Event = asyncio.Event()
        self._pairs: set[_Pair] = set()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self.is_silent = False  # nothing passes in either direction, also on connections to come
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def url(self, url: str) -> str:
        """The same database through this proxy."""
        return url.replace(f":{self._target_port}/", f":{self.port}/")

    def cut_silently(self) -> None:
        """The connections of now are dead for good and stay open. The server's side is closed."""
        self._call(_Pair.die)

    def drop_answers(self) -> None:
        """On the connections of now requests arrive, and answers do not."""
        self._call(_Pair.drop_answers)

    def _call(self, act: Callable[[_Pair], None]) -> None:
        is_done = threading.Event()

        def do() -> None:
            for pair in tuple(self._pairs):
                act(pair)
            is_done.set()

        self._loop.call_soon_threadsafe(do)
        is_done.wait()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._stop.wait()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = _Pair(self, writer)
        self._pairs.add(pair)
        try:
            with suppress(OSError):
                await pair.pass_on(reader, await asyncio.open_connection(HOST, self._target_port))
        finally:
            self._pairs.discard(pair)
            pair.close()


class _Pair:
    def __init__(self, proxy: SilentProxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._is_dead = False
        self._has_answers = True

    async def pass_on(
        self, from_client: asyncio.StreamReader, server: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    ) -> None:
        from_server, self._server = server
        await asyncio.gather(
            self._pump(from_client, self._server, is_answer=False),
            self._pump(from_server, self._client, is_answer=True),
        )

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        while data := await reader.read(65_536):
            while self._proxy.is_silent:  # noqa: ASYNC110  it is set by another thread
                await asyncio.sleep(0.01)
            if not self._is_dead and (self._has_answers or not is_answer):
                writer.write(data)
        if not (self._is_dead and is_answer):
            writer.close()

    def die(self) -> None:
        self._is_dead = True
        if self._server is not None:
            self._server.close()

    def drop_answers(self) -> None:
        self._has_answers = False

    def close(self) -> None:
        for writer in (self._client, self._server):
            if writer is not None:
                writer.close()
