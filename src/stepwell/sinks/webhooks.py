"""A signed webhook as a sink: each event is one POST."""

from __future__ import annotations

import functools
import http.client
import io
import re
import selectors
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from stepwell.clock import SECOND, Clock, Duration, SystemClock, span, to_instant
from stepwell.errors import InvalidOptionError, RetryAfter, SinkError
from stepwell.model.headers import TRACE_CONTEXT
from stepwell.model.retries import Retry
from stepwell.sinks.addresses import resolve
from stepwell.sinks.base import SINK_RETRY, EmittedEvent, check_sink
from stepwell.sinks.signatures import ID, SIGNATURE, TIMESTAMP, keys_of, sign

RETRY_AFTER_SECONDS_MAX: Final = 3_600
_LATER: Final = (429, 503)
_PIECE: Final = 65_536
_LATE: Final = "the receiver did not answer in time"
_CLOCK: Clock = SystemClock()
_TOKEN: Final = re.compile(r"[A-Za-z0-9-]+")
_OWN: Final = frozenset({"content-type", "content-length", "host", "user-agent", "connection", "transfer-encoding"})
_CONTROL: Final = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A sink that posts each event as JSON, signed with a shared secret; the receiver checks with `verify_signature`.

        Webhook("https://example.com/hooks", secret=os.environ["HOOK_SECRET"], events="order.*")

    Any answer from 200 to 299 is a success. A redirect is a failure; it is not followed. `timeout` limits the whole
    attempt, up to the last line of the answer's headers, however slowly they arrive. It connects only over TLS and only
    to public addresses, unless `allow_http` and `allow_private` permit more. With two secrets, during a rotation, it
    signs twice. Its name in the store is `name`; by default it is made from the host.

    It passes on the trace context of the run that emitted the event, and those of its headers that `headers` names.
    """

    url: str = field(repr=False)
    secret: str | tuple[str, ...] = field(repr=False)
    events: tuple[str, ...]
    name: str
    retry: Retry
    timeout: Duration
    allow_http: bool
    allow_private: bool
    headers: tuple[str, ...]
    _parts: SplitResult = field(repr=False, compare=False)

    def __init__(
        self,
        url: str,
        *,
        secret: str | Iterable[str],
        events: str | Iterable[str] | None = None,
        name: str | None = None,
        retry: Retry = SINK_RETRY,
        timeout: Duration = "10s",
        allow_http: bool = False,
        allow_private: bool = False,
        headers: Iterable[str] = (),
    ) -> None:
        parts = _check_url(url, allow_http)
        known = name if name is not None else f"webhook {parts.hostname}"
        held = secret if isinstance(secret, str) else tuple(secret)
        keys_of(held, where=known)
        values = {
            "url": url,
            "secret": held,
            "events": check_sink(known, events, retry, timeout),
            "name": known,
            "retry": retry,
            "timeout": timeout,
            "allow_http": allow_http,
            "allow_private": allow_private,
            "headers": _check_headers(headers, known),
            "_parts": parts,
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def send(self, event: EmittedEvent) -> None:
        """Post one event. Raises `SinkError` for an answer other than 200 to 299, `OSError` if there is no answer."""
        body = message_of(event)
        timestamp = to_instant(event.sent_at) // SECOND
        headers = {
            "content-type": "application/json",
            "user-agent": "stepwell",
            ID: event.id,
            TIMESTAMP: str(timestamp),
            SIGNATURE: sign(keys_of(self.secret), event.id, timestamp, body),
            **{name: event.headers[name] for name in (*TRACE_CONTEXT, *self.headers) if name in event.headers},
        }
        connection = self._connection(_CLOCK.monotonic() + span(self.timeout) / SECOND)
        try:
            target = (self._parts.path or "/") + (f"?{self._parts.query}" if self._parts.query else "")
            connection.request("POST", target, body, headers)
            # The body of the answer is not read: it is not needed, and it may be long.
            with connection.getresponse() as response:
                self._check(response)
        finally:
            connection.close()

    def _connection(self, deadline: float) -> http.client.HTTPConnection:
        host, is_tls = self._parts.hostname or "", self._parts.scheme == "https"
        port = self._parts.port or (443 if is_tls else 80)
        addresses = resolve(host, port, allow_private=self.allow_private)
        return _PinnedTls(host, port, addresses, deadline) if is_tls else _Pinned(host, port, addresses, deadline)

    def _check(self, response: http.client.HTTPResponse) -> None:
        status = response.status
        if 200 <= status <= 299:
            return
        after = response.getheader("retry-after", "")
        if status in _LATER and after.isascii() and after.isdigit():
            raise RetryAfter(min(int(after[:9]), RETRY_AFTER_SECONDS_MAX))
        why = "redirects are not followed" if 300 <= status <= 399 else "only 200 to 299 is a success"
        raise SinkError(f"the receiver answered {status}", where=self.name, why=why)


def _check_headers(names: Iterable[str], sink: str) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) else tuple(names)
    for name in found:
        if not _TOKEN.fullmatch(name) or name.lower() in _OWN:
            raise InvalidOptionError(
                f"sink {sink!r} cannot send a header {name!r}",
                where=sink,
                why="an HTTP header has letters, digits and hyphens, and some are the sink's own",
                fix='name headers of the run, such as headers=["tenant"]',
            )
    return found


def message_of(event: EmittedEvent) -> bytes:
    """The body of a message: the event as JSON."""
    fields = {
        "id": event.id,
        "name": event.name,
        "at": event.at,
        "run_id": event.run_id,
        "workflow": event.workflow,
        "key": event.key,
        "path": event.path,
        "payload": event.payload,
    }
    return msgspec.json.encode(fields)


def _check_url(url: Any, allow_http: bool) -> SplitResult:
    fix = 'write "https://example.com/hooks", for example'
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        port, host = parts.port, parts.hostname
    except ValueError as error:
        raise InvalidOptionError("the URL of a webhook cannot be read", why=str(error)[:120], fix=fix) from None
    is_plain = (parts.path + parts.query).isascii() and not _CONTROL.search(str(url))
    if parts.scheme not in ("https", "http") or not host or port == 0 or not is_plain:
        raise InvalidOptionError(
            "the URL of a webhook is not valid",
            why="it must have a scheme (https) and a host, and only ASCII without blanks in its path",
            fix=fix,
        )
    if parts.username is not None or parts.password is not None:
        raise InvalidOptionError(
            "the URL of a webhook contains a user name or a password",
            why="URLs appear in logs; a webhook is signed instead",
            fix="remove them from the URL",
        )
    if parts.scheme == "http" and not allow_http:
        raise InvalidOptionError(
            "the URL of a webhook is not https",
            why="anyone on the network path could read its events",
            fix="use https, or write Webhook(..., allow_http=True) for a network that you trust",
        )
    return parts


class _Pinned(http.client.HTTPConnection):
    """A connection to the first checked address that answers, until a deadline."""

    def __init__(self, host: str, port: int, addresses: list[str], deadline: float) -> None:
        super().__init__(host, port)
        self._addresses, self._deadline = addresses, deadline

    def connect(self) -> None:
        self.sock = _Timed(self._open(), self._deadline)

    def _open(self) -> socket.socket:
        failed: OSError | None = None
        for address in self._addresses:
            try:
                return socket.create_connection((address, self.port), _left(self._deadline))
            except OSError as error:
                failed = error
        raise failed or OSError(f"{self.host} has no address")


class _PinnedTls(_Pinned):
    """The same over TLS; the certificate must match the host's name."""

    def _open(self) -> socket.socket:
        sock = super()._open()
        try:
            return _shake_hands(sock, self.host, self._deadline)
        except BaseException:
            sock.close()
            raise


def _shake_hands(sock: socket.socket, host: str, deadline: float) -> ssl.SSLSocket:
    """The TLS handshake, until the deadline: the timeout of a socket would start again with each byte."""
    wrapped = _tls().wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    try:
        wrapped.setblocking(False)
        while True:
            try:
                wrapped.do_handshake()
            except ssl.SSLWantReadError:
                _wait(wrapped, deadline, selectors.EVENT_READ)
            except ssl.SSLWantWriteError:
                _wait(wrapped, deadline, selectors.EVENT_WRITE)
            else:
                return wrapped
    except BaseException:
        wrapped.close()
        raise


def _wait(sock: socket.socket, deadline: float, event: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(sock, event)
        if not selector.select(_left(deadline)):
            raise TimeoutError(_LATE)


def _left(deadline: float) -> float:
    left = deadline - _CLOCK.monotonic()
    if left <= 0:
        raise TimeoutError(_LATE)
    return left


class _Timed:
    """A socket as `http.client` uses it. All calls share one deadline, instead of a timeout each."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def sendall(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(_left(self._deadline))
            view = view[self._sock.send(view[:_PIECE]) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(_TimedReader(self._sock, self._deadline))

    def close(self) -> None:
        self._sock.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock, self._deadline = sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._deadline))
        return self._sock.recv_into(buffer)


@functools.lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """The trusted certificates, loaded once: loading them takes longer than most requests."""
    return ssl.create_default_context()
