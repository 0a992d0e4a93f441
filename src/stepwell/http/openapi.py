"""The API as OpenAPI 3.1, generated from the table of operations and the types of their requests and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, Final

import msgspec

from stepwell.http.operations import NoQuery, Operation
from stepwell.http.problems import MEDIA as PROBLEM_MEDIA
from stepwell.http.problems import Problem
from stepwell.http.roles import Permission
from stepwell.http.sessions import COOKIE

_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_JSON: Final = "application/json"
_REASONS: Final = {
    200: "Done.",
    201: "A new run.",
    202: "Accepted, or not finished yet.",
    204: "There are no further changes.",
    400: "The request is invalid.",
    401: "The token or signature is missing or invalid.",
    403: "The caller is not allowed to do this.",
    404: "Not found.",
    408: "The body did not arrive in time.",
    409: "The current status does not allow this.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The request is for another host.",
    422: "The values do not have the expected types.",
    429: "Too many requests.",
    503: "The store does not answer.",
}
_WEBHOOK_HEADERS: Final = ("webhook-id", "webhook-timestamp", "webhook-signature")


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document."""
    operations = tuple(operations)
    types = [kind for each in operations for kind in _types_of(each)]
    schemas, components = msgspec.json.schema_components([Problem, *types], ref_template=_REF)
    known = dict(zip((_key(kind) for kind in [Problem, *types]), schemas, strict=True))
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, known, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "stepwell",
            "version": version("stepwell"),
            "description": "Durable workflows: start, inspect and control them.",
        },
        "servers": [{"url": ".."}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def _types_of(operation: Operation) -> list[Any]:
    kinds = [*(kind for kind in operation.answers.values() if kind is not None), *operation.events]
    if operation.body is not None:
        kinds.append(operation.body)
    if operation.query is not NoQuery:
        kinds.append(operation.query)
    return kinds


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(each: Operation, known: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": [*_path_parameters(each), *_query_parameters(each, components), *_header_parameters(each)],
        "responses": {
            **{str(status): _answer(each, status, kind, known) for status, kind in each.answers.items()},
            **{str(status): _problem(status) for status in _refusals(each)},
        },
        "security": [{"token": []}, {"session": []}] if _needs_token(each) else [],
        "x-permission": str(each.permission),
    }
    if each.body is not None:
        is_needed = msgspec.structs.fields(each.body)[0].required
        described["requestBody"] = {"required": is_needed, "content": {_JSON: {"schema": known[_key(each.body)]}}}
    elif each.permission is Permission.SIGNED:
        described["requestBody"] = {"required": True, "content": {_JSON: {"schema": {}}}}
    return described


def _needs_token(each: Operation) -> bool:
    return each.permission not in (Permission.PUBLIC, Permission.SIGNED, Permission.SIGN_IN)


def _refusals(each: Operation) -> list[int]:
    found = [400, 421, 503]
    if each.permission is not Permission.PUBLIC:
        found += [401, 429]
    if _needs_token(each):
        found += [403]
    if "{" in each.path or each.name in ("list_runs", "list_unread", "start_run"):
        found += [404]
    if each.acts:
        found += [404, 408, 409, 413, 415, 422]
    return sorted({*found} - {*each.answers})


def _path_parameters(each: Operation) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1, "maxLength": 200}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in _PARAMETER.findall(each.path)]


def _query_parameters(each: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if each.query is NoQuery:
        return []
    # The parameters of a query are described one by one, not as a type.
    schema = components[each.query.__name__]
    return [
        {"name": name, "in": "query", "required": False, "schema": _without_null(part)}
        for name, part in schema["properties"].items()
    ]


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is left out is absent; it is never null."""
    options = [option for option in part.get("anyOf", ()) if option != {"type": "null"}]
    return options[0] if len(options) == 1 else {k: v for k, v in part.items() if k != "default" or v is not None}


def _header_parameters(each: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if each.takes_key:
        text = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        found.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": text})
    if each.event_id:
        text = {"type": "string", "pattern": each.event_id}
        found.append({"name": "Last-Event-ID", "in": "header", "required": False, "schema": text})
    if each.permission is Permission.SIGNED:
        text = {"type": "string"}
        found += [{"name": name, "in": "header", "required": True, "schema": text} for name in _WEBHOOK_HEADERS]
    return found


def _answer(each: Operation, status: int, kind: Any, known: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _REASONS[status]}
    if kind is not None:
        answer["content"] = {each.media: {"schema": known[_key(kind)]}}
    return answer


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="Problem")}
    return {"description": _REASONS[status], "content": {PROBLEM_MEDIA: {"schema": schema}}}
