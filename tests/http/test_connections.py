"""Real sockets: clients that send, read or shake hands slowly, too many of them, and no more files to open."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwell import Engine
from stepwell.cli.servers import open_listener
from stepwell.errors import InvalidOptionError
from stepwell.http import Limits, Role, Tokens, app
from stepwell.http.server import GuardedServer, ServerLimits, connections_max, make_server, tls_context
from stepwell.logs import Bounded
from tests.http.desk import HOOKS, TEXTS, TOKENS, WORKFLOWS
from tests.http.test_hooks import signed

QUICK = ServerLimits(connections=50, head_seconds=0.3, idle_seconds=1, write_seconds=0.5)
PATIENT = ServerLimits(connections=50, head_seconds=600, idle_seconds=600, write_seconds=600)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Served:
    """A server on a real socket, and its clients."""

    def __init__(self, engine: Engine, server: GuardedServer, port: int) -> None:
        self.engine, self.server, self.port = engine, server, port

    async def connect(self, **more: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, **more)

    async def half_open(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(sent)
        await writer.drain()
        return reader, writer

    async def ask(self, request: bytes = HEALTH, **more: Any) -> bytes:
        """The first line of an answer."""
        reader, writer = await self.connect(**more)
        try:
            writer.write(request)
            return await reader.readline()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def settled(self, is_so: Callable[[int], bool]) -> int:
        """Wait until the number of connections is so; the test's own time limit ends it otherwise."""
        while not is_so(self.server.connections):  # noqa: ASYNC110  nothing tells when a client was dropped
            await asyncio.sleep(0.01)
        return self.server.connections


@asynccontextmanager
async def served(
    limits: ServerLimits, *, api: Limits | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    async with Engine("memory:", workflows=WORKFLOWS) as engine:
        application = app(engine, access=Tokens(TOKENS), hooks=HOOKS, limits=api)
        server = make_server(application, grace_seconds=1, limits=limits, tls=tls)
        with open_listener("127.0.0.1", 0) as listener:
            running = asyncio.ensure_future(server.serve(sockets=[listener]))
            try:
                yield Served(engine, server, listener.getsockname()[1])
            finally:
                server.should_exit = True
                await running


HALVES = [b"", b"GET /healthz", b"POST /runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", HEALTH + b"GET /he"]


@pytest.mark.parametrize("sent", HALVES, ids=range(4))
async def test_the_head_of_a_request_has_to_come_in_time(sent: bytes) -> None:
    async with served(QUICK) as server:
        reader, writer = await server.half_open(sent)
        with contextlib.suppress(ConnectionError):
            await reader.read()  # until the server ends it
        await server.settled(lambda count: count == 0)
        answer = await server.ask()
        writer.close()

    assert answer == b"HTTP/1.1 200 OK\r\n"


async def test_a_head_that_drips_is_no_excuse() -> None:
    async with served(QUICK) as server:
        reader, writer = await server.half_open(b"GET /healthz HTTP/1.1\r\n")

        async def drip() -> None:
            with contextlib.suppress(OSError):
                while not reader.at_eof():
                    writer.write(b"X: 1\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.05)

        dripping = asyncio.ensure_future(drip())
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        await server.settled(lambda count: count == 0)
        dripping.cancel()
        writer.close()


@pytest.mark.parametrize("path", ["/hooks/shop", "/hooks/nothing", "/runs"])
async def test_a_body_has_to_come_in_time(path: str) -> None:
    head = {**signed(b"{}"), "authorization": f"Bearer {TEXTS[Role.ADMIN]}", "host": "localhost"}
    text = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    async with served(PATIENT, api=Limits(body_seconds=0.2)) as server:
        reader, writer = await server.half_open(f"POST {path} HTTP/1.1\r\n{text}content-length: 9\r\n\r\n{{".encode())
        answer = await reader.read()
        writer.close()

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer.lower()


async def test_a_body_that_was_refused_is_not_waited_for() -> None:
    async with served(QUICK) as server:
        reader, writer = await server.half_open(b"POST /runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        first = await reader.readline()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        await server.settled(lambda count: count == 0)
        writer.close()

    assert first.startswith(b"HTTP/1.1 401 ")


async def test_300_half_open_requests_do_not_stop_the_server() -> None:
    """Even if they had all the time in the world: the oldest makes room."""
    async with served(PATIENT) as server:
        held = [await server.half_open(HALVES[number % 3]) for number in range(300)]
        answers = [await server.ask() for _ in range(20)]
        count = server.server.connections
        for _, writer in held:
            writer.close()

    assert set(answers) == {b"HTTP/1.1 200 OK\r\n"}
    assert count <= PATIENT.connections


async def test_messages_whose_bodies_never_come_do_not_stop_the_server() -> None:
    text = "".join(f"{name}: {value}\r\n" for name, value in signed(b"{}").items())
    half = f"POST /hooks/shop HTTP/1.1\r\nhost: localhost\r\n{text}content-length: 9\r\n\r\n{{".encode()
    async with served(PATIENT, api=Limits(body_seconds=600)) as server:
        held = [await server.half_open(half) for _ in range(100)]
        answers = [await server.ask() for _ in range(20)]
        for _, writer in held:
            writer.close()

    assert set(answers) == {b"HTTP/1.1 200 OK\r\n"}


async def test_connections_in_use_are_kept_and_one_too_many_is_told_to_wait() -> None:
    limits = ServerLimits(connections=3, head_seconds=600, idle_seconds=600, write_seconds=600)
    async with served(limits) as server:
        run = await server.engine.start("approval")
        follow = (
            f"GET /runs/{run.run_id}/changes HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Bearer {TEXTS[Role.ADMIN]}\r\n\r\n"
        )
        streams = [await server.half_open(follow.encode()) for _ in range(3)]
        heads = [await reader.readline() for reader, _ in streams]
        with contextlib.suppress(ConnectionError):
            assert (await server.ask())[:12] in (b"HTTP/1.1 503", b"")
        await server.engine.signal(run.run_id, "approve", 1)
        told = [await reader.readuntil(b'"completed"') for reader, _ in streams]
        for _, writer in streams:
            writer.close()
        await server.settled(lambda count: count < 3)
        after = await server.ask()

    assert set(heads) == {b"HTTP/1.1 200 OK\r\n"}
    assert len(told) == 3
    assert after == b"HTTP/1.1 200 OK\r\n"


async def test_a_client_that_does_not_read_its_answer_is_dropped() -> None:
    async with served(QUICK) as server:
        order = {"customer": "x" * 1_000_000, "amount": 1}
        run = await server.engine.start("checkout", order)
        await run.result()
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", server.port))
        request = (
            f"GET /runs/{run.run_id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TEXTS[Role.ADMIN]}\r\n\r\n"
        )
        await asyncio.get_running_loop().sock_sendall(sock, request.encode() * 8)
        await server.settled(lambda count: count == 1)
        await server.settled(lambda count: count == 0)
        answer = await server.ask()
        sock.close()

    assert answer == b"HTTP/1.1 200 OK\r\n"


class _Full(socket.socket):
    """A listener in a process that has no more descriptors, for the first so many tries."""

    failures = 100_000

    def accept(self) -> tuple[socket.socket, Any]:
        if type(self).failures > 0:
            type(self).failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_when_no_file_can_be_opened_the_log_stays_short_and_the_server_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.http.server._REST_SECONDS", 0.0)
    monkeypatch.setattr(_Full, "failures", 500)
    async with Engine("memory:") as engine:
        server = make_server(app(engine, access=Tokens(TOKENS)), grace_seconds=1, limits=PATIENT)
        with open_listener("127.0.0.1", 0) as opened:
            listener = _Full(opened.family, opened.type, opened.proto, fileno=opened.detach())
        with listener:
            running = asyncio.ensure_future(server.serve(sockets=[listener]))
            answer = await Served(engine, server, listener.getsockname()[1]).ask()
            server.should_exit = True
            await running

    said = [each for each in caplog.records if "cannot accept" in each.getMessage()]
    assert answer == b"HTTP/1.1 200 OK\r\n"
    assert 0 < len(said) <= 20
    assert not any(each.exc_info for each in said)


def test_records_of_one_kind_are_bounded_and_counted() -> None:
    bound = Bounded(lines_max=2, window_seconds=60)

    def record(at: float, text: str = "bad request from %s") -> logging.LogRecord:
        made = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, text, ("x",), None)
        made.created = at
        return made

    passed = [bound.filter(record(at)) for at in (0, 1, 2, 3)]
    other = bound.filter(record(3, "another %s"))
    later = record(61)
    assert passed == [True, True, False, False]
    assert other is True
    assert bound.filter(later) is True
    assert later.getMessage() == "bad request from x (2 more like this were dropped)"


def test_connections_leave_the_process_files_of_its_own() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= connections_max() <= 2_000
    assert soft == resource.RLIM_INFINITY or soft < 1_024 or connections_max() < soft


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    return make_certificate(folder)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    locked = serialization.BestAvailableEncryption(b"a password")
    (folder / "locked.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
    return chain, secret


def trusting(chain: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(chain))


async def test_it_speaks_tls_1_2_and_newer_only(certificate: tuple[Path, Path]) -> None:
    chain, key = certificate
    async with served(PATIENT, tls=tls_context(chain, key)) as server:
        answers = []
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            trusts = trusting(chain)
            trusts.minimum_version = trusts.maximum_version = version
            answers.append(await server.ask(ssl=trusts, server_hostname="localhost"))
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(chain)
        old.set_ciphers("DEFAULT:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await server.ask(ssl=old, server_hostname="localhost")
        with contextlib.suppress(ConnectionError):
            assert b"200" not in await server.ask()
        after = await server.ask(ssl=trusting(chain), server_hostname="localhost")

    assert {*answers, after} == {b"HTTP/1.1 200 OK\r\n"}


async def test_half_open_handshakes_do_not_stop_the_server_and_have_to_end_in_time(
    certificate: tuple[Path, Path],
) -> None:
    chain, key = certificate
    tls = tls_context(chain, key)
    async with served(PATIENT, tls=tls) as server:
        held = [await server.half_open(b"\x16\x03\x01" if number % 2 else b"") for number in range(100)]
        answers = [await server.ask(ssl=trusting(chain), server_hostname="localhost") for _ in range(3)]
        for _, writer in held:
            writer.close()
    async with served(QUICK, tls=tls) as server:
        _, writer = await server.half_open(b"\x16\x03\x01")
        await server.settled(lambda count: count == 1)
        await server.settled(lambda count: count == 0)
        writer.close()

    assert set(answers) == {b"HTTP/1.1 200 OK\r\n"}


def test_files_that_cannot_be_used_for_tls_are_named(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    chain, key = certificate
    (tmp_path / "nonsense.pem").write_text("nonsense", encoding="utf-8")
    _, foreign = make_certificate(tmp_path)
    for one, two in (
        (chain, tmp_path / "missing.pem"),
        (tmp_path / "missing.pem", key),
        (chain, tmp_path / "nonsense.pem"),
        (chain, foreign),
        (chain, chain.with_name("locked.pem")),
    ):
        with pytest.raises(InvalidOptionError) as caught:
            tls_context(one, two)
        assert ".pem" in caught.value.where
        assert caught.value.fix
