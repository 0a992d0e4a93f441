"""Poolers of transactions: a stand-in that is always there, and PgBouncer itself where it is installed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import struct
import subprocess
import threading
import time
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

from tests.servers.account import make_folder, server_account, temporary_root
from tests.servers.guard import guard
from tests.servers.ports import HOST, Port

_PATIENCE_SECONDS = 30.0
_PROTOCOL, _CANCEL, _TLS, _GSS = 196608, 80877102, 80877103, 80877104
# What PgBouncer lets a client say when it connects; it refuses everything else.
_STARTUP = {b"user", b"database", b"application_name", b"client_encoding", b"datestyle", b"timezone"}
_ENDS_BATCH = b"QSF"  # the server answers each of these messages with ReadyForQuery


class Message(NamedTuple):
    """One message of the wire protocol."""

    kind: bytes
    body: bytes

    def __bytes__(self) -> bytes:
        return self.kind + struct.pack("!i", len(self.body) + 4) + self.body


def _redirected(url: str, port: int) -> str:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{HOST}:{port}" if user else f"{HOST}:{port}"))


# --- the stand-in ----------------------------------------------------------------------------------------------


class Pooler:
    """Shares a few sessions of a server among any number of clients, each for a transaction, as PgBouncer does.

    A client has another session for each transaction: what it left in the last one (settings, prepared statements, a
    LISTEN) is not there. Notifications for a session that nobody has are dropped. Clients are told a process number of
    the pooler's own. The server must let everybody in without a password, as those of tests do.
    """

    def __init__(self, url: str, *, sessions: int = 3) -> None:
        self._url = url
        self._sessions_max = sessions
        self._pools: dict[bytes, _Pool] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pooler", daemon=True)
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self.port = 0
        self.transactions = 0

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_PATIENCE_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_SECONDS)
        self._loop.close()

    def url(self, url: str) -> str:
        """The same database, through this."""
        return _redirected(url, self.port)

    @property
    def sessions(self) -> int:
        """How many sessions with the server there are now."""
        return sum(len(pool.all) for pool in self._pools.values())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for pool in self._pools.values():
            for session in tuple(pool.all):
                await session.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            parameters = await _read_startup(reader, writer)
            if parameters is not None:
                await self._serve_client(parameters, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client or the server is gone, or we are told to end
        finally:
            self._clients.discard(task)
            writer.close()

    async def _serve_client(
        self, parameters: dict[bytes, bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if strange := sorted(set(parameters) - _STARTUP):
            writer.write(_fatal(f"unsupported startup parameter: {strange[0].decode()}"))
            return
        startup = {name: value for name, value in parameters.items() if name in (b"user", b"database")}
        key = b"\0".join(startup.values())
        pool = self._pools.setdefault(key, _Pool(self._url, startup, self._sessions_max))
        try:
            greeting = await pool.greeting()
        except _RefusedError as error:
            writer.write(error.told)
            return
        own_number = Message(b"K", struct.pack("!iI", 0x7FFF0000 + len(self._clients), 0))
        writer.write(bytes(Message(b"R", b"\0\0\0\0")) + greeting + bytes(own_number) + bytes(Message(b"Z", b"I")))
        coming: asyncio.Future[Message] = asyncio.ensure_future(_read(reader))
        try:
            while (message := await coming).kind != b"X":
                session = await pool.take()
                try:
                    coming = await _relay(message, reader, writer, session)
                except BaseException:
                    await pool.replace(session)
                    raise
                pool.give(session)
                self.transactions += 1
        finally:
            coming.cancel()


class _RefusedError(Exception):
    """The server does not let a client in; with what it said."""

    def __init__(self, told: bytes) -> None:
        super().__init__(told)
        self.told = told


class _Session:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.said: asyncio.Queue[Message | None] = asyncio.Queue()
        self.is_taken = False
        self.greeting = b""
        self._task: asyncio.Task[None] | None = None

    async def begin(self, startup: dict[bytes, bytes]) -> None:
        """Log in. Raises `_RefusedError`."""
        body = struct.pack("!i", _PROTOCOL) + b"".join(n + b"\0" + v + b"\0" for n, v in startup.items()) + b"\0"
        self._writer.write(struct.pack("!i", len(body) + 4) + body)
        while (message := await _read(self._reader)).kind != b"Z":
            if message.kind == b"E":
                raise _RefusedError(bytes(message))
            if message.kind == b"R" and message.body != b"\0\0\0\0":
                raise _RefusedError(_fatal("the server asks for a password"))
            if message.kind == b"S":
                self.greeting += bytes(message)
        self._task = asyncio.ensure_future(self._hear())

    async def _hear(self) -> None:
        """What the server says goes to who has the session; if nobody has, to nobody."""
        try:
            while True:
                message = await _read(self._reader)
                if self.is_taken:
                    self.said.put_nowait(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.said.put_nowait(None)

    async def send(self, message: Message) -> None:
        self._writer.write(bytes(message))
        await self._writer.drain()

    @property
    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()


class _Pool:
    """The sessions of one user in one database. The one that was used last is used last again."""

    def __init__(self, url: str, startup: dict[bytes, bytes], size: int) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname, parts.port
        self._startup = startup
        self._size = size
        self._idle: asyncio.Queue[_Session] = asyncio.Queue()
        self._opening = asyncio.Lock()
        self.all: set[_Session] = set()

    async def greeting(self) -> bytes:
        async with self._opening:
            while len(self.all) < self._size:
                self._idle.put_nowait(await self._begin())
        return next(iter(self.all)).greeting

    async def take(self) -> _Session:
        session = await self._idle.get()
        if not session.is_alive:
            await self._forget(session)
            session = await self._begin()
        session.is_taken = True
        return session

    def give(self, session: _Session) -> None:
        session.is_taken = False
        self._idle.put_nowait(session)

    async def replace(self, session: _Session) -> None:
        """A session that was left in the middle of something is of no use to others."""
        async with self._opening:
            await self._forget(session)
            with contextlib.suppress(OSError, _RefusedError, asyncio.IncompleteReadError):
                self._idle.put_nowait(await self._begin())

    async def _forget(self, session: _Session) -> None:
        self.all.discard(session)
        await session.close()

    async def _begin(self) -> _Session:
        session = _Session(*await asyncio.open_connection(self._host, self._port))
        try:
            await session.begin(self._startup)
        except BaseException:
            await session.close()
            raise
        self.all.add(session)
        return session


async def _relay(
    message: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, session: _Session
) -> asyncio.Future[Message]:
    """One transaction of a client, which begins with this message. What is returned is the client's next message."""
    owed, is_whole = 0, True
    coming = asyncio.ensure_future(_read(reader))
    heard = asyncio.ensure_future(session.said.get())
    given: Message | None = message
    try:
        while True:
            if given is not None:
                await session.send(given)
                is_whole = given.kind in _ENDS_BATCH
                owed += is_whole
            await asyncio.wait([coming, heard], return_when=asyncio.FIRST_COMPLETED)
            if heard.done():
                said = heard.result()
                if said is None:
                    raise ConnectionError("the server is gone")
                heard = asyncio.ensure_future(session.said.get())
                writer.write(bytes(said))
                await writer.drain()
                if said.kind == b"Z":
                    owed -= 1
                    if owed == 0 and is_whole and said.body == b"I":
                        return coming
            given = None
            if coming.done():
                given = coming.result()
                if given.kind == b"X":
                    raise ConnectionError("the client left in the middle of a transaction")
                coming = asyncio.ensure_future(_read(reader))
    except BaseException:
        coming.cancel()
        raise
    finally:
        heard.cancel()


async def _read(reader: asyncio.StreamReader) -> Message:
    head = await reader.readexactly(5)
    return Message(head[:1], await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4))


async def _read_startup(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[bytes, bytes] | None:
    """What a client says of itself; None for one that only wants something to be cancelled."""
    while True:
        (size,) = struct.unpack("!i", await reader.readexactly(4))
        body = await reader.readexactly(size - 4)
        (code,) = struct.unpack("!i", body[:4])
        if code in (_TLS, _GSS):
            writer.write(b"N")
            continue
        if code == _CANCEL:
            return None
        words = body[4:].rstrip(b"\0").split(b"\0")
        return dict(zip(words[::2], words[1::2], strict=True))


def _fatal(text: str) -> bytes:
    return bytes(Message(b"E", b"SFATAL\0VFATAL\0C08P01\0M" + text.encode() + b"\0\0"))


# --- PgBouncer -------------------------------------------------------------------------------------------------


class PgBouncer:
    """The real one, in transaction mode, where the program is installed."""

    def __init__(self, url: str, *, sessions: int = 3) -> None:
        self._account = server_account()
        self._port = Port()
        self.port = self._port.number
        self.folder = make_folder("pgbouncer", self._account, root=temporary_root(self._account))
        guard.watch(self.folder)
        parts = urlsplit(url)
        (self.folder / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"* = host={parts.hostname} port={parts.port}\n"
            "[pgbouncer]\n"
            f"listen_addr = {HOST}\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self.folder / 'users'}\n"
            f"pool_mode = transaction\ndefault_pool_size = {sessions}\nserver_round_robin = 1\n"
            f"logfile = {self.folder / 'log'}\n"
        )
        (self.folder / "users").write_text(f'"{parts.username or "postgres"}" ""\n')
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        program = shutil.which("pgbouncer")
        assert program is not None
        self._process = subprocess.Popen(
            [program, str(self.folder / "pgbouncer.ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
            **self._account.owner,
        )
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return self
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"pgbouncer is not ready: {(self.folder / 'log').read_text()}")
            time.sleep(0.01)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder)
        guard.forget(self.folder)
        self._port.release()

    def url(self, url: str) -> str:
        """The same database, through this."""
        return _redirected(url, self.port)


POOLERS = {"stand-in": Pooler} | ({"pgbouncer": PgBouncer} if shutil.which("pgbouncer") else {})
