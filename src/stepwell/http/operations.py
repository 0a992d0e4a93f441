"""Operations: one method on one path, with one permission. The table of operations is the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from stepwell.engine.filters import parse_filter
from stepwell.errors import InvalidOptionError, NotAllowedError, StepwellError
from stepwell.http.roles import PUBLIC_PATHS, Caller, Permission
from stepwell.stores.base.filters import PAYLOAD_FIELDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from stepwell.http.services import Services
    from stepwell.stores.base.views import RunFilter

HIDDEN = {"hidden": True}
HIDDEN_TEXT = "(hidden)"


FilterText = Annotated[str, Meta(max_length=1_024, extra={"is_filter": True})]
"""A line of the filter language (docs/filters.md). A handler reads it with `Call.filter`, and nowhere else."""


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Takes no query."""


@dataclass(slots=True)
class Call:
    """One request that was admitted, read and checked."""

    services: Services
    caller: Caller
    request_id: str
    path: Mapping[str, str]
    query: Any
    body: Any
    headers: Mapping[str, str]
    scope: Mapping[str, Any]
    raw: bytes = b""
    before: str = ""  # for the audit: the status before the act
    after: str = ""
    # Raises `NotAuthenticatedError` once the caller's token has expired or is revoked: for answers that take long.
    confirm: Callable[[], None] = field(default=lambda: None)

    def show(self, payload: Any) -> Any:
        """A payload as this caller may see it."""
        return payload if payload is None or self.caller.sees_payloads else HIDDEN

    def filter(self, text: str, *, where: str) -> RunFilter:
        """The filter that a text describes, if this caller may use it. Every filter of a request is parsed here.

        Raises `FilterError`, and `NotAllowedError` for a filter whose answer reveals something of a payload.
        """
        found = parse_filter(text, self.services.engine.now())
        if not self.caller.sees_payloads and looks_into_payloads(found):
            raise NotAllowedError(
                "this filter looks into payloads",
                where=where,
                why=f"{self.caller.name} may not see them, and could guess them with many requests",
                fix="leave `input.` out, or ask with a token that sees payloads",
            )
        return found

    def show_filter(self, text: str) -> str:
        """The text of a filter that another caller used, as this one may see it."""
        if self.caller.sees_payloads or not text:
            return text
        try:
            is_hidden = looks_into_payloads(parse_filter(text, self.services.engine.now()))
        except StepwellError:
            is_hidden = True
        return HIDDEN_TEXT if is_hidden else text


def looks_into_payloads(where: RunFilter) -> bool:
    """Whether a filter compares what only callers with payloads may see."""
    return any(one.field in PAYLOAD_FIELDS for one in where.conditions)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Call], Awaitable["Reply | Response"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method on one path. `answers` are the types of its answers, by status."""

    method: str
    path: str
    name: str
    permission: Permission | None = None  # None is an error that `check_operations` finds
    handler: Handler
    summary: str
    answers: Mapping[int, Any]
    query: type[msgspec.Struct] = NoQuery
    body: type[msgspec.Struct] | None = None
    takes_key: bool = False  # an Idempotency-Key
    media: str = "application/json"
    events: tuple[Any, ...] = ()  # the types whose JSON is in the events of a stream
    event_id: str = ""  # the form of the header Last-Event-ID, if it is taken

    @property
    def acts(self) -> bool:
        """Whether it changes anything; such an act is audited."""
        return self.method != "GET"


def look(
    path: str,
    name: str,
    handler: Handler,
    summary: str,
    answers: Mapping[int, Any],
    permission: Permission = Permission.READ,
    **more: Any,
) -> Operation:
    """An operation that changes nothing."""
    return Operation(
        method="GET",
        path=path,
        name=name,
        permission=permission,
        handler=handler,
        summary=summary,
        answers=answers,
        **more,
    )


def steer(
    path: str, name: str, handler: Handler, summary: str, answer: Any, body: type[msgspec.Struct] | None = None
) -> Operation:
    """An operation that changes runs or workflows."""
    return Operation(
        method="POST",
        path=path,
        name=name,
        permission=Permission.STEER,
        handler=handler,
        summary=summary,
        answers={200: answer},
        body=body,
    )


def check_operations(operations: Iterable[Operation]) -> None:
    """Raise `InvalidOptionError` for an operation without a permission, or that would be public by mistake."""
    seen: set[tuple[str, str]] = set()
    for each in operations:
        where = f"{each.method} {each.path}"
        if not isinstance(each.permission, Permission):
            raise InvalidOptionError(
                f"{where} has no permission",
                where=where,
                why="an operation without a permission must not be reachable",
                fix="give it a permission",
            )
        if each.permission is Permission.PUBLIC and (each.method != "GET" or each.path not in PUBLIC_PATHS):
            raise InvalidOptionError(
                f"{where} is public",
                where=where,
                why=f"only {' and '.join(sorted(PUBLIC_PATHS))} are",
                fix="give it a permission",
            )
        if (each.method, each.path) in seen:
            raise InvalidOptionError(f"{where} is defined twice", where=where, fix="remove one of them")
        seen.add((each.method, each.path))
