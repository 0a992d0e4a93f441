"""The server below the application: limits on connections, and what happens when there are too many.

uvicorn speaks HTTP. This adds what it does not have: a limit on connections, including silent ones, and a
time limit for everything that a client must send or receive.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from stepwell.environment import SystemExecutor
from stepwell.errors import InvalidOptionError
from stepwell.logs import Bounded

LOG = logging.getLogger("stepwell.http.server")

_CONNECTIONS_MAX: Final = 2_000
_CONNECTIONS_MIN: Final = 16
_OWN_FILES: Final = 64  # descriptors that the process needs for itself
_TICKS: Final = 5  # of 0.1 s, between two checks
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_REST_SECONDS: Final = 0.2
_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"
# Strangers could fill the log through these loggers.
BOUNDED: Final = ("uvicorn.error", "asyncio", LOG.name)


def connections_max() -> int:
    """How many connections this process can hold: half of the files that it may open, and not more than 2,000."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _CONNECTIONS_MAX
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    return max(_CONNECTIONS_MIN, min(_CONNECTIONS_MAX, (soft - _OWN_FILES) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """At most `connections` at once. A client has `head_seconds` for the TLS handshake, and again for the head of a
    request. An idle connection is closed after `idle_seconds`, and a client that does not read its answer is
    disconnected after `write_seconds`.

    When all connections are in use, a new one replaces a connection whose client has yet to send something.
    """

    connections: int = field(default_factory=connections_max)
    head_seconds: float = 10.0
    idle_seconds: float = 5.0
    write_seconds: float = 30.0

    def __post_init__(self) -> None:
        if min(getattr(self, each.name) for each in fields(self)) <= 0:
            raise InvalidOptionError("a limit of the server is not above 0", fix="leave it out for the default")


def make_server(
    application: Any,
    *,
    grace_seconds: int,
    limits: ServerLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> GuardedServer:
    """A server that sends no server header, and trusts no proxy headers. It ends when `should_exit` is set."""
    limits = limits or ServerLimits()
    config = uvicorn.Config(
        application,
        log_config=None,  # all lines use the format of the root logger
        log_level="warning",
        access_log=False,
        http=GuardedProtocol,
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, round(limits.idle_seconds)),
        timeout_graceful_shutdown=grace_seconds,
    )
    return GuardedServer(config, limits, tls)


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer with this certificate. Raises `InvalidOptionError` with the file and the cause."""

    def refuse() -> str:
        raise InvalidOptionError(
            "the key of the certificate has a password",
            where=str(key),
            why="a server starts without a person to type it",
            fix=f"write the key without one: openssl pkey -in {key.name} -out plain.pem, readable by the server only",
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=refuse)
    except ssl.SSLError as error:
        raise InvalidOptionError(
            "the certificate and its key cannot be used",
            where=f"{certificate}, {key}",
            why=error.reason or str(error),
            fix="give two PEM files that belong together: --tls-cert CHAIN.pem --tls-key KEY.pem",
        ) from None
    except OSError as error:
        missing = next((each for each in (certificate, key) if not each.is_file()), key)
        raise InvalidOptionError(
            f"a file for TLS cannot be read: {error.strerror}", where=str(missing), fix="check its path and its mode"
        ) from None
    return context


class GuardedProtocol(H11Protocol):
    """One connection, with the time since when it waits for its client."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.waits_since = self.loop.time()  # for the head of a request, or its next byte after an answer
        self.is_made = False
        self.has_begun = False  # to send a head
        self.stalls_since: float | None = None  # the client does not read
        self.closes_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The connection is ready: with TLS, after the handshake."""
        self.is_made, self.waits_since = True, self.loop.time()
        super().connection_made(transport)

    @property
    def is_waiting(self) -> bool:
        """Whether the application is handling no request."""
        cycle: Any = self.cycle  # none before the first request
        return cycle is None or bool(cycle.response_complete)

    @property
    def owes(self) -> bool:
        """Whether the server waits for the client to send something."""
        return self.is_waiting or (bool(self.cycle.more_body) and not self.cycle.response_started)

    def data_received(self, data: bytes) -> None:
        """The client sent something. The time for a head starts with its first byte, and does not restart."""
        if self.is_waiting and not self.has_begun:
            self.has_begun, self.waits_since = True, self.loop.time()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """The application has answered."""
        self.has_begun, self.waits_since = False, self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        if self.stalls_since is None:
            self.stalls_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.stalls_since = None
        super().resume_writing()

    def is_overdue(self, now: float, limits: ServerLimits) -> bool:
        """Whether the time of its client is up."""
        if not self.is_made:
            return False
        if self.transport.is_closing():
            # Unsent data keeps a closed connection open as long as the client does not read.
            self.closes_since = now if self.closes_since is None else self.closes_since
            return now - self.closes_since > limits.write_seconds
        if self.stalls_since is not None and now - self.stalls_since > limits.write_seconds:
            return True
        return self.is_waiting and now - self.waits_since > limits.head_seconds


class Line:
    """One accepted connection, with TLS also before its handshake."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock: socket.socket | None = sock  # until the transport has it
        self.protocol: GuardedProtocol | None = None
        self.opening: asyncio.Task[None] | None = None

    @property
    def is_gone(self) -> bool:
        """Whether it is closed."""
        if self.opening is not None and not self.opening.done():
            return False
        if self.protocol is None or not self.protocol.is_made:
            return True
        return bool(self.protocol.transport.get_extra_info("socket").fileno() == -1)

    @property
    def owes(self) -> bool:
        """Whether the server waits for its client."""
        return self.protocol is None or not self.protocol.is_made or self.protocol.owes

    def drop(self) -> None:
        """Close it now."""
        if self.opening is not None:
            self.opening.cancel()
        if self.protocol is not None and self.protocol.is_made:
            self.protocol.transport.abort()
        elif self.sock is not None:
            self.sock.close()


class GuardedServer(uvicorn.Server):
    """uvicorn's server with its own listener."""

    def __init__(self, config: uvicorn.Config, limits: ServerLimits, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self._limits, self._tls = limits, tls
        self._lines: dict[int, Line] = {}  # in the order of acceptance
        self._number = 0
        self._executor = SystemExecutor()
        self._accepting: list[asyncio.Task[None]] = []
        for name in BOUNDED:
            logging.getLogger(name).addFilter(_BOUND)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._lines)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process: it also has an engine to close."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await self.lifespan.startup()
        self.servers = []
        for listener in sockets or ():
            listener.setblocking(False)
            self._accepting.append(self._executor.spawn(self._accept(listener), name="accept"))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, and let current requests finish within the grace time."""
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for line in list(self._lines.values()):
            if line.protocol is None or not line.protocol.is_made:
                line.drop()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second."""
        if counter % _TICKS == 0:
            now = asyncio.get_running_loop().time()
            for line in list(self._lines.values()):
                if line.protocol is not None and line.protocol.is_overdue(now, self._limits):
                    line.drop()
            self._forget()
        return await super().on_tick(counter)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except ConnectionAbortedError:
                continue  # the client left before the connection was accepted
            except OSError as error:
                # Out of descriptors: close a half-open connection; the rest of the queue waits in the kernel.
                LOG.error("cannot accept a connection: %s", error.strerror or error)
                if error.errno in _NO_ROOM:
                    self._drop_oldest()
                await asyncio.sleep(_REST_SECONDS)
                continue
            if len(self._lines) >= self._limits.connections and not self._make_room():
                LOG.warning("a connection was refused: %d are open, and all are in use", len(self._lines))
                _refuse(sock, is_tls=self._tls is not None)
                await asyncio.sleep(0)
                continue
            self._number += 1
            line = self._lines[self._number] = Line(sock)
            line.opening = self._executor.spawn(self._open(self._number, line, sock), name="connection")

    async def _open(self, number: int, line: Line, sock: socket.socket) -> None:
        def protocol() -> GuardedProtocol:
            line.protocol = _Line(self, number, self.config, self.server_state, self.lifespan.state)
            return line.protocol

        loop, seconds = asyncio.get_running_loop(), self._limits.head_seconds if self._tls is not None else None
        try:
            await loop.connect_accepted_socket(protocol, sock, ssl=self._tls, ssl_handshake_timeout=seconds)
        except (OSError, asyncio.CancelledError):
            # The client left, was replaced, or does not speak TLS: there is nothing to do.
            sock.close()
            self.forget(number)
        finally:
            line.sock = None

    def _make_room(self) -> bool:
        """Drop closed connections, or close the oldest connection that waits for its client; False if there is none."""
        self._forget()
        return len(self._lines) < self._limits.connections or self._drop_oldest()

    def _drop_oldest(self) -> bool:
        for number, line in self._lines.items():
            if line.owes:
                line.drop()
                self.forget(number)
                return True
        return False

    def forget(self, number: int) -> None:
        """A connection was closed."""
        self._lines.pop(number, None)

    def _forget(self) -> None:
        for number in [number for number, line in self._lines.items() if line.is_gone]:
            self.forget(number)


class _Line(GuardedProtocol):
    def __init__(self, server: GuardedServer, number: int, config: Any, state: Any, app_state: Any) -> None:
        super().__init__(config=config, server_state=state, app_state=app_state)
        self._server, self._number = server, number

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.forget(self._number)
        super().connection_lost(exc)


def _refuse(sock: socket.socket, *, is_tls: bool) -> None:
    with sock:
        if not is_tls:
            try:
                sock.setblocking(False)
                sock.send(_BUSY)
            except OSError:
                pass


_BOUND: Final = Bounded()
