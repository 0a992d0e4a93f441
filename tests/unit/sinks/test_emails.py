"""Mail: what a real SMTP server gets, and each kind of failure."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Iterator
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stepwell.errors import Fatal, InvalidOptionError, SinkError
from stepwell.sinks import Email, EmittedEvent

_AT = datetime.datetime(2026, 11, 19, 9, 14, 2, tzinfo=datetime.UTC)


class Inbox:
    """What a server got, and what it answers."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.answer = "250 OK"
        self.recipient = "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.recipient.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.recipient

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answer.startswith("250"):
            self.messages.append(message_from_bytes(envelope.content, policy=default))
        return self.answer


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def server(inbox: Inbox) -> Iterator[Controller]:
    controller = Controller(inbox, hostname="127.0.0.1", port=_free_port())
    controller.start()
    yield controller
    controller.stop()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _email(server: Any, **options: Any) -> Email:
    given = {"sender": "stepwell@acme.example", "to": ["ops@acme.example"], "security": "none", "timeout": "5s"}
    return Email("127.0.0.1", port=server.port, **{**given, **options})


def _event(**payload: Any) -> EmittedEvent:
    facts = {"event": "firing", "alert": "orders fail", "rule": "order: 5 failures within 10m", "value": 7.0}
    return EmittedEvent(
        "e1",
        "stepwell.alert.firing",
        {**facts, "runs": ["r1", "r2"], **payload},
        "run",
        "stepwell.alert",
        None,
        "emit",
        _AT,
        _AT,
        1,
    )


def test_a_server_gets_a_message_that_says_what_fires(server: Controller, inbox: Inbox) -> None:
    sink = _email(server, to=["ops@acme.example", "Ann <ann@acme.example>"])
    sink.send(_event())
    sink.send(_event())

    first, second = inbox.messages
    assert first["Subject"] == "[stepwell] FIRING: orders fail"
    assert first["To"] == "ops@acme.example, Ann <ann@acme.example>"
    assert first["Message-ID"] == second["Message-ID"]
    assert first.get_content().splitlines()[:4] == [
        "orders fail: order: 5 failures within 10m",
        "Now: 7.0",
        "  r1",
        "  r2",
    ]
    assert 'stepwell alert show "orders fail"' in first.get_content()


def test_a_name_cannot_add_a_header(server: Controller, inbox: Inbox) -> None:
    _email(server).send(_event(alert="x\r\nBcc: all@evil.example\r\n\r\nhello"))

    [message] = inbox.messages
    assert message["Bcc"] is None
    assert "\n" not in message["Subject"]


@pytest.mark.parametrize(("answer", "error"), [("451 try later", SinkError), ("554 no", Fatal)])
def test_a_rejection_for_now_is_retried_and_one_for_good_is_not(
    server: Controller, inbox: Inbox, answer: str, error: type[Exception]
) -> None:
    inbox.answer = answer
    with pytest.raises(error, match=answer[4:]):
        _email(server).send(_event())
    inbox.answer, inbox.recipient = "250 OK", answer
    with pytest.raises(error, match=answer[4:]):
        _email(server).send(_event())
    assert inbox.messages == []


def test_a_server_that_is_down_or_hangs_is_a_failed_attempt() -> None:
    with pytest.raises(SinkError, match="cannot be reached"):
        Email("127.0.0.1", port=_free_port(), sender="a@b.example", to="c@d.example", security="none").send(_event())
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        hanging = Email(
            "127.0.0.1", port=port, sender="a@b.example", to="c@d.example", security="none", timeout="200ms"
        )
        with pytest.raises(SinkError):
            hanging.send(_event())


def test_a_password_is_sent_over_an_encrypted_connection(inbox: Inbox, tmp_path: Path) -> None:
    seen: list[tuple[bytes, bytes, bool]] = []

    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        seen.append((data.login, data.password, session.ssl is not None))
        return AuthResult(success=data.password == b"right", handled=False)

    inside, outside = _contexts(tmp_path)
    controller = Controller(
        inbox,
        hostname="127.0.0.1",
        port=_free_port(),
        tls_context=inside,
        require_starttls=True,
        authenticator=check,
        auth_require_tls=True,
        auth_exclude_mechanism=["LOGIN"],
    )
    controller.start()
    try:
        options = {"security": "starttls", "context": outside, "user": "u"}
        _email(controller, password="right", **options).send(_event())
        with pytest.raises(SinkError, match="535"):
            _email(controller, password="wrong", **options).send(_event())
        with pytest.raises(SinkError, match="certificate"):
            _email(controller, security="starttls").send(_event())
    finally:
        controller.stop()
    assert len(inbox.messages) == 1
    assert seen[0] == (b"u", b"right", True)


def _contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(__import__("ipaddress").ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(secret + pem)
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(folder / "server.pem")
    return inside, ssl.create_default_context(cadata=pem.decode())


@pytest.mark.parametrize(
    "options",
    [
        {"to": []},
        {"to": ["nobody"]},
        {"to": ["a@b.example\r\nBcc: c@d.example"]},
        {"sender": "x"},
        {"security": "ssl"},
        {"user": "u"},
        {"host": "mail.acme.example", "security": "none", "user": "u", "password": "p"},
        {"host": ""},
        {"timeout": 0},
    ],
)
def test_options_that_make_no_sense_are_rejected(options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"host": "127.0.0.1", "sender": "a@b.example", "to": "c@d.example", **options}
    with pytest.raises(InvalidOptionError):
        Email(given.pop("host"), **given)


def test_its_text_has_no_password() -> None:
    sink = Email("mail.acme.example", sender="a@b.example", to="c@d.example", user="u", password="hunter2")
    assert "hunter2" not in repr(sink)
