"""Webhooks against a real server on this machine."""

from __future__ import annotations

import asyncio
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Retry, RetryAfter, step, workflow
from stepwell.errors import InvalidNameError, InvalidOptionError, SinkError
from stepwell.sinks import EmittedEvent, Webhook, handler, verify_signature, webhooks
from stepwell.worker.relay import BLOCKING_MAX

SECRET = "a long and random text"
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVENT = EmittedEvent("e1", "order.paid", {"a": [1, "ä"]}, "r1", "shop", "k", "pay", AT, AT + timedelta(seconds=9), 1)


class Server:
    """Answers each request as it is told, and keeps what it was sent."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.delay = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.requests.append((self.path, dict(self.headers.items()), body))
                status, headers = outer.answers.pop(0) if outer.answers else (204, {})
                if status == 0:
                    outer.delay.wait(5)
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return None

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.delay.set()
        self._server.shutdown()
        self._server.server_close()

    def webhook(self, path: str = "/hooks?a=1", **options: Any) -> Webhook:
        given = {"secret": SECRET, "allow_http": True, "allow_private": True, **options}
        return Webhook(f"http://127.0.0.1:{self.port}{path}", **given)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_an_event_is_posted_signed_and_whole(server: Server) -> None:
    server.webhook().send(EVENT)

    [(path, headers, body)] = server.requests
    assert path == "/hooks?a=1"
    assert verify_signature(SECRET, headers, body, now=EVENT.sent_at) == "e1"
    assert json.loads(body) == {
        "id": "e1",
        "name": "order.paid",
        "at": "2026-03-01T12:00:00Z",
        "run_id": "r1",
        "workflow": "shop",
        "key": "k",
        "path": "pay",
        "payload": {"a": [1, "ä"]},
    }
    assert headers["content-type"] == "application/json"


def test_the_same_event_has_the_same_id_and_body_each_time(server: Server) -> None:
    webhook = server.webhook("")
    webhook.send(EVENT)
    webhook.send(replace(EVENT, attempt=2, sent_at=AT + timedelta(hours=1)))

    [(path, _, first), (_, headers, second)] = server.requests
    assert (path, first) == ("/", second)
    assert verify_signature(SECRET, headers, second, now=AT + timedelta(hours=1)) == "e1"


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_every_kind_of_success_is_one(server: Server, status: int) -> None:
    server.answers = [(status, {})]

    server.webhook().send(EVENT)


@pytest.mark.parametrize("status", [300, 400, 401, 404, 410, 429, 500, 503])
def test_any_other_answer_is_a_failure(server: Server, status: int) -> None:
    server.answers = [(status, {})]

    with pytest.raises(SinkError, match=str(status)):
        server.webhook().send(EVENT)


def test_a_redirect_is_not_followed(server: Server) -> None:
    server.answers = [(302, {"location": f"http://127.0.0.1:{server.port}/elsewhere"})]

    with pytest.raises(SinkError) as caught:
        server.webhook().send(EVENT)
    assert caught.value.why == "redirects are not followed"
    assert [path for path, _, _ in server.requests] == ["/hooks?a=1"]


@pytest.mark.parametrize(("after", "seconds"), [("7", 7), ("999999999999", 3_600), ("0", 0)])
def test_a_busy_receiver_may_say_when(server: Server, after: str, seconds: int) -> None:
    server.answers = [(503, {"retry-after": after})]

    with pytest.raises(RetryAfter) as caught:
        server.webhook().send(EVENT)
    assert caught.value.delay == seconds


def test_a_receiver_that_does_not_answer_in_time_has_failed(server: Server) -> None:
    server.answers = [(0, {})]

    with pytest.raises(TimeoutError):
        server.webhook(timeout="100ms").send(EVENT)


def _endless(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield from pieces
    while True:
        yield b"x"


# What a receiver says, piece by piece, each well within the time limit of a single read.
DRIPS: dict[str, Callable[[], Iterator[bytes]]] = {
    "status": lambda: _endless(iter([b"HTTP/1.1 2"])),
    "headers": lambda: iter([b"HTTP/1.1 200 OK\r\n", *[b"X-Drip: 1\r\n"] * 100_000]),
    "continue": lambda: iter([b"HTTP/1.1 100 Continue\r\n\r\n"] * 100_000),
    "tls": lambda: iter([b"\x16", b"\x03", b"\x03", b"\x40", b"\x00", *[b"\x02"] * 100_000]),
}


@pytest.mark.parametrize("drip", list(DRIPS))
def test_a_receiver_that_drips_does_not_outlive_the_time_limit(drip: str) -> None:
    """It would go on for ever: that the call comes back at all is the test."""
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                for piece in DRIPS[drip]():
                    connection.sendall(piece)
                    if stop.wait(0.02):
                        return
            except OSError:
                return

    receiver = threading.Thread(target=serve, daemon=True)
    receiver.start()
    scheme = "https" if drip == "tls" else "http"
    url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/"
    webhook = Webhook(url, secret=SECRET, allow_http=True, allow_private=True, timeout="300ms")
    try:
        with pytest.raises(TimeoutError):
            webhook.send(EVENT)
    finally:
        stop.set()
        receiver.join()
        listener.close()


def test_a_receiver_that_takes_nothing_does_not_outlive_the_time_limit() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    large = replace(EVENT, payload="x" * 30_000_000)
    webhook = Webhook(
        f"http://127.0.0.1:{listener.getsockname()[1]}/",
        secret=SECRET,
        allow_http=True,
        allow_private=True,
        timeout="300ms",
    )
    with listener, pytest.raises(TimeoutError):
        webhook.send(large)


def test_nobody_there_is_a_failure(server: Server) -> None:
    webhook = server.webhook()
    server.close()

    with pytest.raises(OSError):
        webhook.send(EVENT)


def test_this_machine_is_not_reached_unless_that_is_said(server: Server) -> None:
    with pytest.raises(SinkError, match="which is this machine"):
        server.webhook(allow_private=False).send(EVENT)
    assert server.requests == []


def test_the_address_that_was_checked_is_the_one_that_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that means another address at the second look is not looked up a second time."""
    asked: list[Any] = []

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", ("8.8.8.8" if len(asked) == 1 else "127.0.0.1", port))]

    connected: list[Any] = []

    def connect(address: Any, *_: Any) -> socket.socket:
        connected.append(address)
        raise OSError("no such network")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(OSError):
        Webhook("https://rebind.example", secret=SECRET).send(EVENT)
    assert (asked, connected) == (["rebind.example"], [("8.8.8.8", 443)])


def test_the_next_address_is_tried_if_the_first_does_not_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(0, 0, 0, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    refuse = socket.create_connection

    def connect(address: Any, *args: Any) -> socket.socket:
        if address[0] == "127.0.0.2":
            raise OSError("nobody there")
        monkeypatch.undo()
        return refuse(address, *args)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    server.webhook().send(EVENT)

    assert len(server.requests) == 1


def test_tls_asks_for_the_certificate_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Server(context)
    trusting = ssl.create_default_context(cafile=str(certificate))
    options: dict[str, Any] = {"secret": SECRET, "allow_private": True}
    try:
        with pytest.raises(ssl.SSLCertVerificationError):
            Webhook(f"https://localhost:{server.port}", **options).send(EVENT)
        monkeypatch.setattr(webhooks, "_tls", lambda: trusting)
        Webhook(f"https://localhost:{server.port}", **options).send(EVENT)
        with pytest.raises(ssl.SSLCertVerificationError):
            Webhook(f"https://127.0.0.1:{server.port}", **options).send(EVENT)
    finally:
        server.close()
    assert len(server.requests) == 1


def make_certificate(folder: Path) -> Path:
    """A certificate for localhost, and its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 7)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2099, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + certificate.public_bytes(pem))
    return path


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "ftp://example.com", "https://", "https:///path", "https://example.com:0"),
        *(
            "https://example.com:99999",
            "https://[::1",
            "https://exa mple.com",
            "https://example.com/\n",
            "https://example.com/ä",
            None,
            7,
        ),
        *("https://user@example.com", "https://u:p@example.com", "http://example.com"),
    ],
)
def test_a_url_that_is_none_is_refused(url: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Webhook(url, secret=SECRET)
    assert caught.value.code == "SW103"
    assert caught.value.why
    assert caught.value.fix


@pytest.mark.parametrize("secret", ["", " ", [], "whsec_"])
def test_a_secret_that_is_none_is_refused(secret: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        Webhook("https://example.com", secret=secret)
    assert caught.value.where == "webhook example.com"


def test_other_options_are_checked_as_those_of_any_sink() -> None:
    with pytest.raises(InvalidNameError):
        Webhook("https://example.com", secret=SECRET, events="a b")
    with pytest.raises(InvalidOptionError):
        Webhook("https://example.com", secret=SECRET, timeout="0s")


def test_it_shows_neither_its_url_nor_its_secret() -> None:
    webhook = Webhook("https://example.com/T0/secret-path", secret=SECRET, retry=Retry(max_attempts=1))

    assert "secret-path" not in repr(webhook)
    assert SECRET not in repr(webhook)
    assert webhook.name == "webhook example.com"


@step
async def charge(amount: int) -> dict[str, int]:
    return {"charged": amount}


@workflow
async def order(ctx: Context, amount: int) -> str:
    await ctx.step(charge.options(emits="order.charged"), amount)
    return await ctx.emit("order.paid", {"amount": amount})


async def test_an_engine_posts_what_its_runs_emit_until_it_is_taken(server: Server, tmp_path: Path) -> None:
    server.answers = [(500, {}), (204, {}), (302, {})]
    hook = server.webhook(events="order.*", retry=Retry(max_attempts=5, initial="10ms"))

    async with Engine(f"sqlite:///{tmp_path}/shop.db", workflows=[order], sinks=[hook], lifecycle=True) as engine:
        event_id = await (await engine.start(order, 7)).result("60s")
        while await engine.outbox.list_pending():  # noqa: ASYNC110  there is nobody to tell
            await asyncio.sleep(0.01)

    names = [json.loads(body)["name"] for _, _, body in server.requests]
    assert names == ["order.charged", "order.charged", "order.paid", "order.paid"]
    assert [verify_signature(SECRET, headers, body) for _, headers, body in server.requests[2:]] == [event_id] * 2


async def test_a_receiver_that_hangs_takes_no_more_threads_than_its_share() -> None:
    """Threads cannot be stopped: what ran out of time counts until its thread has ended."""
    began: list[str] = []
    release = threading.Event()

    def hang(event: EmittedEvent) -> None:
        began.append(event.run_id)
        release.wait(60)

    sink = handler(hang, timeout="50ms", retry=Retry(max_attempts=100, initial="1ms"))
    async with Engine("memory:", workflows=[order], sinks=[sink]) as engine:
        for number in range(12):
            await (await engine.start(order, number)).result("60s")
        while len(began) < BLOCKING_MAX:  # noqa: ASYNC110  only the threads know
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)  # in which further ones would begin
        assert len(began) == BLOCKING_MAX
        release.set()
        while await engine.outbox.list_pending():  # noqa: ASYNC110  there is nobody to tell
            await asyncio.sleep(0.01)
    assert len(set(began)) == 12
