"""The ASGI application: one access check for every request, then the table of operations."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route

from stepwell.clock import Clock, SystemClock
from stepwell.errors import InvalidOptionError, NotFoundError, RequestError, StepwellError, StoreUnavailableError
from stepwell.http.access import LOOPBACK_HOSTS, AccessControl, Authenticator, BearerAccess
from stepwell.http.encoding import encode
from stepwell.http.hooks import Hook, check_form, hooks_by_name
from stepwell.http.limits import Limits
from stepwell.http.openapi import describe as describe_api
from stepwell.http.operations import Call, Operation, Reply, check_operations
from stepwell.http.problems import MEDIA as PROBLEM_MEDIA
from stepwell.http.problems import Problem, Refused, describe, readable
from stepwell.http.refusals import REFUSALS, Refusals
from stepwell.http.requests import read_body, read_query, read_raw
from stepwell.http.roles import Caller, Permission, Role
from stepwell.http.routes import OPERATIONS
from stepwell.http.routes.hooks import taker_of
from stepwell.http.services import Services
from stepwell.http.tokens import Tokens
from stepwell.ids import SystemIds
from stepwell.model.ledger import NewAct
from stepwell.wiring import Engine

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

LOG = logging.getLogger("stepwell.http")

_NOBODY: Final = Caller("nobody", Role.VIEWER, payloads=False)
_CONFIRM_SECONDS: Final = 1.0
_KEY: Final = re.compile(r"[!-~]{1,200}")
_SAFE_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


@dataclass(slots=True)
class _Known:
    """The caller, as far as it is known when a request is refused."""

    name: str = ""


class Application:
    """The HTTP API of one engine; see `app`."""

    def __init__(
        self,
        engine: Engine,
        *,
        access: Tokens | Authenticator,
        hosts: Iterable[str],
        hooks: Iterable[Hook],
        limits: Limits,
        clock: Clock,
        operations: Iterable[Operation] = OPERATIONS,
    ) -> None:
        table = tuple(operations)
        check_operations(table)
        self._services = Services(engine, clock, limits, hooks_by_name(hooks))
        engine.dead_letters.take_hook = taker_of(self._services)
        self._services.document = describe_api(table)
        authenticator = BearerAccess(access) if isinstance(access, Tokens) else access
        self._refusals = Refusals(clock, limits)
        self._clock = clock
        self._access = AccessControl(authenticator, hosts, clock, rate=limits.rate, burst=limits.burst)
        self._ids = SystemIds(clock)
        self._by_path: dict[str, dict[str, Operation]] = {}
        for each in table:
            self._by_path.setdefault(each.path, {})[each.method] = each
        self._routes = [Route(path, _never, methods=None) for path in self._by_path]

    @property
    def document(self) -> dict[str, Any]:
        """The OpenAPI description."""
        return self._services.document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Any error inside becomes a problem body."""
        match scope["type"]:
            case "http":
                await self._answer(scope, receive, send)
            case "websocket":
                # There are no WebSocket routes.
                await receive()
                await send({"type": "websocket.close", "code": 1008})
            case "lifespan":
                await _lifespan(receive, send)
            case _:
                return

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = self._ids.uuid()
        has_begun = False

        async def guarded(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                own = {name for name, _ in _SAFE_HEADERS}
                kept = [pair for pair in message["headers"] if pair[0].lower() not in own]
                message["headers"] = [*kept, *_SAFE_HEADERS, (b"x-request-id", request_id.encode())]
            await send(message)

        request, name, who = Request(scope, receive), "", _Known()
        try:
            self._access.check_host(scope)
            operation, path = self._find(scope)
            name = operation.name if operation else ""
            response = await self._perform(request, operation, path, request_id, who)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  the outermost edge: for any error, callers get a problem
            problem, headers = _problem(self._refusals.judge(scope, error), request_id)
            if problem.status in REFUSALS:
                self._refusals.note(scope, problem, name, who.name)
            response = Response(encode(problem), problem.status, headers, PROBLEM_MEDIA)
        counted = (name or "none", response.status_code)
        self._services.requests[counted] = self._services.requests.get(counted, 0) + 1
        try:
            await response(scope, receive, guarded)
        except Exception as error:
            LOG.error("request %s broke off: %s", request_id, type(error).__name__, exc_info=error)
            if not has_begun:
                raise

    def _find(self, scope: Scope) -> tuple[Operation | None, Mapping[str, str]]:
        """The operation of a request: by its exact path, and only then by its method."""
        for route in self._routes:
            match, child = route.matches(scope)
            if match is not Match.NONE:
                return self._by_path[route.path].get(scope["method"]), {"": route.path, **child["path_params"]}
        return None, {}

    async def _perform(
        self, request: Request, operation: Operation | None, path: Mapping[str, str], request_id: str, who: _Known
    ) -> Response:
        self._access.check_page(request.scope)
        began = self._clock.monotonic()
        caller = self._admit(request.scope, operation, who)
        if operation is None:
            raise _unknown(self._by_path.get(path.get("", ""), {}))
        call = await self._read(request, operation, caller, path, request_id)
        if caller is not _NOBODY:
            call.confirm = partial(self._access.confirm, request.scope, caller)
        # A token may be revoked while a body arrives slowly, or while a long poll waits.
        if self._clock.monotonic() - began > _CONFIRM_SECONDS:
            call.confirm()
        if operation.acts:
            return await self._audited(operation, call)
        response = _respond(operation, await operation.handler(call))
        if self._clock.monotonic() - began > _CONFIRM_SECONDS:
            call.confirm()
        return response

    def _admit(self, scope: Scope, operation: Operation | None, who: _Known) -> Caller:
        """The caller. Only authenticated callers learn that an operation does not exist."""
        permission = Permission.READ if operation is None else operation.permission
        match permission:
            case Permission.PUBLIC | Permission.SIGNED:
                return _NOBODY
            case None:
                raise AssertionError("check_operations rejects operations without a permission")
            case _:
                caller = self._access.identify(scope)
                who.name = caller.name
                self._access.count(caller)
                self._access.admit(caller, permission)
                return caller

    async def _read(
        self, request: Request, operation: Operation, caller: Caller, path: Mapping[str, str], request_id: str
    ) -> Call:
        limits = self._services.limits
        query = read_query(operation, request.scope["query_string"].decode("latin-1"), limits)
        headers = {name.lower(): value for name, value in request.headers.items()}
        is_signed = operation.permission is Permission.SIGNED
        if is_signed:
            raw = await self._read_signed(request, headers)
        else:
            raw = await read_raw(request, limits, bytes_max=limits.body_max)
        key = headers.get("idempotency-key")
        if key is not None and not (operation.takes_key and _KEY.fullmatch(key)):
            raise RequestError(
                "Idempotency-Key not accepted",
                where="the header idempotency-key",
                why="it must have 1 to 200 visible characters, and is accepted for starts, signals, events and bulks",
                fix="leave it out, or use a UUID",
            )
        body = None if is_signed else read_body(operation, raw, headers.get("content-type", ""), limits)
        return Call(self._services, caller, request_id, path, query, body, headers, raw)

    async def _read_signed(self, request: Request, headers: Mapping[str, str]) -> bytes:
        """The body of a message whose signature is not checked yet. All such bodies together have a size limit.

        A message that can be rejected without its body is rejected first. The name of the hook is not looked at, so
        the time of an answer does not reveal which hooks exist.
        """
        services, held = self._services, 0
        check_form(headers, services)

        def taken(size: int) -> None:
            nonlocal held
            if services.unsigned_bytes + size > services.limits.hook_buffer_max:
                raise Refused(503, StoreUnavailableError("too many messages at once"), {"connection": "close"})
            held += size
            services.unsigned_bytes += size

        try:
            return await read_raw(request, services.limits, bytes_max=services.limits.hook_body_max, taken=taken)
        finally:
            services.unsigned_bytes -= held

    async def _audited(self, operation: Operation, call: Call) -> Response:
        """Do an act between two lines of the audit, so that no act goes unrecorded."""
        is_signed = operation.permission is Permission.SIGNED
        if not is_signed:
            await self._note(operation, call, "asked")
        try:
            response = _respond(operation, await operation.handler(call))
        except Exception as error:
            # An unsigned message leaves no line: strangers could fill the audit.
            if not is_signed:
                await self._note(operation, call, str(describe(error, call.request_id)[0].status))
            raise
        await self._note(operation, call, str(response.status_code))
        return response

    async def _note(self, operation: Operation, call: Call, outcome: str) -> None:
        target = " ".join(value for name, value in call.path.items() if name)
        if operation.body is not None and not target:
            target = str(getattr(call.body, "workflow", getattr(call.body, "topic", "")))
        act = NewAct(
            call.request_id,
            f"hook {target}" if operation.permission is Permission.SIGNED else call.caller.name,
            operation.name,
            target,
            outcome,
            call.before,
            call.after,
        )
        await self._services.ledger.note(act)


async def _never(request: Request) -> Response:
    raise AssertionError("routes are only matched")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _unknown(methods: Mapping[str, Operation]) -> Refused:
    if methods:
        allowed = ", ".join(sorted(methods))
        error = RequestError("this path does not take that method", fix=f"use {allowed}")
        return Refused(405, error, {"allow": allowed})
    error = NotFoundError("path", "", fix="GET /openapi.json lists every path")
    error.title = "this API has no such path"  # which is not repeated: it may hold a secret
    return Refused(404, error)


def _respond(operation: Operation, reply: Reply | Response) -> Response:
    if isinstance(reply, Response):
        return reply
    return Response(encode(reply.body), reply.status, dict(reply.headers), operation.media)


def _problem(error: Exception, request_id: str) -> tuple[Problem, dict[str, str]]:
    error = readable(error)
    problem, headers = describe(error, request_id)
    if problem.status >= 500:
        cause = error if not isinstance(error, StepwellError) else None
        LOG.error("request %s: %s %.500s", request_id, problem.code, error, exc_info=cause)
    return problem, headers


def app(
    engine: Engine,
    *,
    access: Tokens | Authenticator,
    hosts: Iterable[str] = LOOPBACK_HOSTS,
    hooks: Iterable[Hook] = (),
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> Application:
    """The HTTP API of an engine, as an ASGI application: serve it by itself, or mount it in another.

    The engine is opened and closed by the caller. `access` decides who gets in: `Tokens`, a `TokenFile`,
    `LoopbackAccess()` for development, or your own authenticator. It has no default: you must choose. `hosts` are
    the host names of the server. Raises `InvalidOptionError` if an operation has no permission.
    """
    if not isinstance(access, Tokens) and not callable(getattr(access, "identify", None)):
        raise InvalidOptionError(
            "access is missing: it decides who may use the API",
            where="access",
            fix="access=TokenFile(path), or LoopbackAccess()",
        )
    return Application(
        engine,
        access=access,
        hosts=hosts,
        hooks=hooks,
        limits=limits or Limits(),
        clock=clock or SystemClock(),
    )
