"""A TCP proxy on loopback in front of a server: whatever can happen to a network happens here."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.servers.ports import HOST

_LOOK_SECONDS = 0.01
_DRIP_SECONDS = 0.02
_RESET = struct.pack("ii", 1, 0)  # a close that waits for nothing is a reset


class Proxy:
    """Passes bytes on, in a thread with a loop of its own, until it is told otherwise; usable as a context manager.

    The states may be set by any thread, hold for every connection, and end when they are set back. The acts are about
    the connections of now, for good; those to come are in order.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._stop: asyncio.Event = asyncio.Event()
        self._pairs: set[_Pair] = set()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self.is_silent = False  # a black hole: nothing passes in either direction, also on connections to come
        self.is_down = False  # who connects is reset at once
        self.delay_seconds = 0.0  # of everything that passes, in each direction
        self.drip_bytes = 0  # so few pass at a time, if it is not 0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_silent = False  # who waits for the end of it must hear of the other end
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def url(self, url: str) -> str:
        """The same database through this proxy."""
        return url.replace(f":{self._target_port}/", f":{self.port}/")

    def reset(self) -> int:
        """Every connection is reset, on both sides; how many there were."""
        return self._call(_Pair.reset)

    def cut_silently(self) -> int:
        """The connections are dead and stay open, as after a router forgot them. The server's side is closed."""
        return self._call(_Pair.die)

    def drop_answers(self) -> int:
        """Requests arrive, and answers do not."""
        return self._call(_Pair.drop_answers)

    def cut_listeners(self) -> int:
        """Those that LISTEN are dead and stay open; the others are in order."""
        return self._call(_Pair.die, lambda pair: pair.is_listening)

    def _call(self, act: Callable[[_Pair], None], which: Callable[[_Pair], bool] = lambda _: True) -> int:
        is_done = threading.Event()
        found: list[_Pair] = []

        def do() -> None:
            try:
                found.extend(pair for pair in self._pairs if which(pair))
                for pair in found:
                    act(pair)
            finally:
                is_done.set()

        self._loop.call_soon_threadsafe(do)
        is_done.wait()
        return len(found)

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
        if self.is_down:
            pair.reset()
            return
        self._pairs.add(pair)
        try:
            with suppress(OSError):
                await pair.pass_on(reader, await asyncio.open_connection(HOST, self._target_port))
        finally:
            self._pairs.discard(pair)
            pair.close()


class _Pair:
    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._is_dead = False
        self._has_answers = True
        self.is_listening = False

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
            self.is_listening |= not is_answer and b"listen " in data.lower()
            if self._proxy.delay_seconds:
                await asyncio.sleep(self._proxy.delay_seconds)
            while self._proxy.is_silent:  # noqa: ASYNC110  it is set by another thread
                await asyncio.sleep(_LOOK_SECONDS)
            while (few := self._proxy.drip_bytes) and len(data) > few:
                self._write(writer, data[:few], is_answer=is_answer)
                data = data[few:]
                await asyncio.sleep(_DRIP_SECONDS)
            self._write(writer, data, is_answer=is_answer)
        if not (self._is_dead and is_answer):
            writer.close()

    def _write(self, writer: asyncio.StreamWriter, data: bytes, *, is_answer: bool) -> None:
        if not self._is_dead and not writer.is_closing() and (self._has_answers or not is_answer):
            writer.write(data)

    def die(self) -> None:
        self._is_dead = True
        if self._server is not None:
            self._server.close()

    def reset(self) -> None:
        self._is_dead = True
        for writer in (self._client, self._server):
            if writer is not None and not writer.is_closing():
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()

    def drop_answers(self) -> None:
        self._has_answers = False

    def close(self) -> None:
        for writer in (self._client, self._server):
            if writer is not None:
                writer.close()
