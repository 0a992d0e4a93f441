"""Mail as a sink: each event is one message, sent over SMTP."""

from __future__ import annotations

import json
import smtplib
import ssl
from collections.abc import Iterable
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import Any, Final, Literal

from stepwell.clock import SECOND, Duration, span
from stepwell.errors import Fatal, InvalidOptionError, SinkError
from stepwell.model.retries import Retry
from stepwell.redaction import redact
from stepwell.sinks.base import ALERTS, SINK_RETRY, EmittedEvent, check_sink

Security = Literal["starttls", "tls", "none"]

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SUBJECT_MAX: Final = 150
_PORTS: Final[dict[str, int]] = {"starttls": 587, "tls": 465, "none": 25}
_PERMANENT: Final = 500


class Email:
    """Sends events as mail; by default the events of alerts.

        Email("mail.acme.example", sender="stepwell@acme.example", to=["ops@acme.example"], user="u", password=secret)

    The connection is encrypted (`security="starttls"`, or "tls" from the first byte); "none" is accepted only for a
    server on this machine, or without a password. The id of a message is made from that of the event, so a mail program
    shows a repeated message once. A server that rejects a message for good (5xx) ends the attempts.
    """

    def __init__(
        self,
        host: str,
        *,
        sender: str,
        to: str | Iterable[str],
        port: int | None = None,
        user: str | None = None,
        password: str | None = None,
        security: Security = "starttls",
        events: str | Iterable[str] | None = f"{ALERTS}*",
        name: str = "mail",
        retry: Retry = SINK_RETRY,
        timeout: Duration = "30s",
        context: ssl.SSLContext | None = None,
    ) -> None:
        if security not in _PORTS:
            raise InvalidOptionError(f"security is {security!r:.40}", fix='"starttls", "tls" or "none"')
        if not host or any(each.isspace() for each in host):
            raise InvalidOptionError(f"{host!r:.80} is no host", fix='such as "mail.acme.example"')
        if (user is None) != (password is None):
            raise InvalidOptionError("a user and a password belong together", fix="give both, or neither")
        if security == "none" and password is not None and host not in _LOOPBACK:
            raise InvalidOptionError(
                f"the password for {host} would be sent in plain",
                fix='leave security out, or use "tls"',
            )
        recipients = (to,) if isinstance(to, str) else tuple(to)
        for each in (sender, *recipients):
            _check_address(each)
        if not recipients:
            raise InvalidOptionError("a mail needs somebody to send it to", fix='to=["ops@acme.example"]')
        self.name = name
        self.retry = retry
        self.timeout = timeout
        self.events = check_sink(name, events, retry, timeout)
        self._host, self._port = host, _PORTS[security] if port is None else port
        self._sender, self._to = sender, recipients
        self._user, self._password = user, password
        self._security = security
        self._context = context

    def send(self, event: EmittedEvent, /) -> None:
        """Send one event. Runs in a thread."""
        message = self._message(event)
        try:
            with self._connected() as server:
                if self._user is not None and self._password is not None:
                    server.login(self._user, self._password)
                server.send_message(message)
        except smtplib.SMTPResponseException as error:
            said = f"{error.smtp_code} {_text(error.smtp_error)}"
            if error.smtp_code >= _PERMANENT and not isinstance(error, smtplib.SMTPAuthenticationError):
                raise Fatal(f"{self._host} rejected the message: {said}") from None
            raise SinkError(f"{self._host} did not take the message: {said}", where=self.name) from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = {code for code, _ in error.recipients.values()}
            said = ", ".join(f"{who}: {code} {_text(why)}" for who, (code, why) in error.recipients.items())
            if all(code >= _PERMANENT for code in codes):
                raise Fatal(f"{self._host} rejected every recipient: {said}") from None
            raise SinkError(f"{self._host} did not take the recipients: {said}", where=self.name) from None
        except (OSError, smtplib.SMTPException) as error:
            raise SinkError(
                f"{self._host}:{self._port} cannot be reached or did not answer: {error}", where=self.name
            ) from None

    def _connected(self) -> smtplib.SMTP:
        seconds = span(self.timeout) / SECOND
        context = self._context or ssl.create_default_context()
        if self._security == "tls":
            return smtplib.SMTP_SSL(self._host, self._port, timeout=seconds, context=context)
        server = smtplib.SMTP(self._host, self._port, timeout=seconds)
        try:
            if self._security == "starttls":
                server.starttls(context=context)
        except BaseException:
            server.close()
            raise
        return server

    def _message(self, event: EmittedEvent) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"] = self._sender, ", ".join(self._to)
        message["Subject"] = _one_line(_subject(event))[:_SUBJECT_MAX]
        message["Date"] = format_datetime(event.at)
        message["Message-ID"] = f"<{event.id}.{self.name.replace(' ', '-')}@stepwell.invalid>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(_body(event))
        return message

    def __repr__(self) -> str:
        return f"Email({self._host!r}, to={list(self._to)!r}, name={self.name!r})"  # without the password


def _subject(event: EmittedEvent) -> str:
    facts = event.payload
    if not event.name.startswith(ALERTS) or not isinstance(facts, dict):
        return f"[stepwell] {event.name}"
    mark = {"firing": "FIRING", "ok": "over", "test": "test"}.get(str(facts.get("event")), "")
    return f"[stepwell] {mark}: {facts.get('alert')}"


def _body(event: EmittedEvent) -> str:
    facts = event.payload
    lines: list[str] = []
    if event.name.startswith(ALERTS) and isinstance(facts, dict):
        lines = [
            f"{facts.get('alert')}: {facts.get('rule')}",
            f"Now: {facts.get('value')}",
            *(f"  {run}" for run in facts.get("runs", ())),
            "",
            f"stepwell alert show {json.dumps(facts.get('alert'))}",
        ]
    else:
        lines = [redact(json.dumps(facts, indent=2, ensure_ascii=False, default=str))]
    return "\n".join([*lines, "", f"event {event.id} at {event.at.isoformat()}"])


def _one_line(text: str) -> str:
    """A header: without anything that could begin another one."""
    return "".join(each if each.isprintable() else " " for each in text)


def _text(said: Any) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _check_address(address: Any) -> None:
    is_plain = isinstance(address, str) and address.isprintable() and "," not in address
    _, parsed = parseaddr(address) if is_plain else ("", "")
    if parsed.count("@") != 1 or parsed.startswith("@") or parsed.endswith("@"):
        raise InvalidOptionError(f"{address!r:.80} is no mail address", fix='such as "ops@acme.example"')
