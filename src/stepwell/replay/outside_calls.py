"""Steps that call something by its name or address: a registered callable, or an endpoint over HTTP."""

from __future__ import annotations

import http.client
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from stepwell.clock import SECOND, Duration, span
from stepwell.codec.base import ANY
from stepwell.codec.signatures import hints_of
from stepwell.errors import DuplicateNameError, Fatal, InvalidOptionError, NotFoundError, RetryAfter
from stepwell.model.locations import check_name
from stepwell.model.retries import Retry
from stepwell.nearest import nearest
from stepwell.replay.step_context import StepContext
from stepwell.replay.step_options import qualified_name
from stepwell.replay.steps import Step, step

F = TypeVar("F", bound=Callable[..., Any])

ANSWER_BYTES_MAX: Final = 2 * 1024 * 1024
RETRY_AFTER_MAX: Final = 3_600
_LATER: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_SHOWN: Final = 300


class _Endpoint(NamedTuple):
    url: str
    options: dict[str, Any]


_FLOWS: dict[str, Callable[..., Any] | _Endpoint] = {}


def flow(name: str) -> Callable[[F], F]:
    """Register a function under a name, for `flow_step`: `@flow("score")`. Every worker of the workflow needs it.

    Raises `DuplicateNameError` if another function has the name.
    """
    check_name(name, what="flow name")

    def register(fn: F) -> F:
        known = _FLOWS.get(name)
        same = known is not None and not isinstance(known, _Endpoint) and qualified_name(known) == qualified_name(fn)
        if known is not None and not same:
            raise DuplicateNameError(f"two flows are called {name!r}", where=qualified_name(fn), fix="rename one")
        _FLOWS[name] = fn
        return fn

    return register


def flow_at(name: str, url: str, **options: Any) -> None:
    """Register an endpoint under a name, for `flow_step`; the options are those of `http_step`."""
    check_name(name, what="flow name")
    http_step(name, url, **options)  # so that invalid options are rejected here
    known, new = _FLOWS.get(name), _Endpoint(url, options)
    if known is not None and known != new:
        raise DuplicateNameError(f"two flows are called {name!r}", where=url, fix="rename one")
    _FLOWS[name] = new


def flow_step(
    name: str,
    variables: Mapping[str, Any] | None = None,
    *,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> Step[[], Any]:
    """A step that calls what is registered under a name, with these variables as keywords:
    `score = await ctx.step(flow_step("score", {"customer": "ann"}))`. An endpoint gets them as a JSON object.

    Raises `NotFoundError` with similar names if nothing has that name in this process.
    """
    found = _FLOWS.get(name)
    if found is None:
        near = nearest(name, _FLOWS)
        raise NotFoundError("flow", name, near=near, fix=f'register it: @flow("{name}") above the function')
    given = dict(variables or {})
    if isinstance(found, _Endpoint):
        called = http_step(name, found.url, **found.options)

        def ask(info: StepContext) -> Any:
            return called.fn(info, given)

        asking: Step[[], Any] = step(name=name, retry=retry or called.options_.retry, timeout=timeout)(ask)
        return asking
    _check_takes(name, found, given)
    fn: Callable[..., Any] = found

    async def call() -> Any:
        answer = fn(**given)
        return await answer if inspect.isawaitable(answer) else answer

    def call_in_thread() -> Any:
        return fn(**given)

    body: Any = call if inspect.iscoroutinefunction(fn) else call_in_thread
    body.__annotations__["return"] = hints_of(fn).returns
    return step(body, name=name, retry=retry, timeout=timeout)


def _check_takes(name: str, fn: Callable[..., Any], given: Mapping[str, Any]) -> None:
    try:
        inspect.signature(fn).bind(**given)
    except TypeError as error:
        takes = ", ".join(inspect.signature(fn).parameters) or "nothing"
        raise InvalidOptionError(
            f"the flow {name!r} cannot be called with these variables",
            where=qualified_name(fn),
            why=str(error),
            fix=f"it takes {takes}",
        ) from None


def http_step(
    name: str,
    url: str,
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    result: Any = ANY,
    retry: Retry | None = None,
    timeout: Duration = "30s",
) -> Step[[Any], Any]:
    """A step that sends its argument as JSON to an endpoint, and returns the JSON of the answer, read as `result`:
    `receipt = await ctx.step(http_step("charge", "https://bank.example/charges"), {"amount": 42})`.

    Every attempt has the same `Idempotency-Key`, so a service that honours it acts once. Answers from 200 to 299 are a
    success. 408, 425, 429 and 500 to 504 are retried, after `Retry-After` if the answer has it; any other answer fails
    the step. Redirects are not followed.
    """
    parts = _check_url(url, name)
    if not method.isalpha() or not method.isupper():
        raise InvalidOptionError(f"method is {method!r:.40}", where=name, fix='method="POST"')
    sent = {key.lower(): value for key, value in (headers or {}).items()}
    seconds = span(timeout, what="timeout") / SECOND

    def send(info: StepContext, body: Any) -> Any:
        own = {"idempotency-key": info.idempotency_key, "user-agent": "stepwell", "accept": "application/json"}
        content = b"" if body is None and method in ("GET", "DELETE") else msgspec.json.encode(body)
        if content:
            own["content-type"] = "application/json"
        return _exchange(parts, method, content, own | sent, seconds)

    send.__annotations__["return"] = result
    sending: Step[[Any], Any] = step(name=name, retry=retry, timeout=timeout)(send)
    return sending


def _check_url(url: Any, name: str) -> SplitResult:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise InvalidOptionError(f"{url!r:.120} is not the URL of an endpoint", where=name, fix='"https://host/path"')


def _exchange(parts: SplitResult, method: str, content: bytes, headers: dict[str, str], seconds: float) -> Any:
    """Send a request and read its answer. Raises `Fatal`, `RetryAfter` or `OSError`."""
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname or "", parts.port, timeout=seconds)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request(method, target, content or None, headers)
        answer = connection.getresponse()
        body = answer.read(ANSWER_BYTES_MAX + 1)
    except http.client.HTTPException as error:
        raise OSError(f"{parts.hostname} broke the connection off: {type(error).__name__}") from error
    finally:
        connection.close()
    if 200 <= answer.status <= 299:
        return _read(body, parts)
    words = f"{parts.hostname} answered {answer.status} {answer.reason}: {body[:_SHOWN].decode('utf-8', 'replace')}"
    if answer.status not in _LATER:
        raise Fatal(words)
    after = answer.getheader("retry-after", "")
    if after.isascii() and after.isdigit():
        raise RetryAfter(min(int(after[:9]), RETRY_AFTER_MAX), words)
    raise OSError(words)


def _read(body: bytes, parts: SplitResult) -> Any:
    if len(body) > ANSWER_BYTES_MAX:
        raise Fatal(f"the answer of {parts.hostname} is larger than {ANSWER_BYTES_MAX // 1024 // 1024} MiB")
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except ValueError:
        raise Fatal(f"the answer of {parts.hostname} is not JSON: {body[:_SHOWN].decode('utf-8', 'replace')}") from None
