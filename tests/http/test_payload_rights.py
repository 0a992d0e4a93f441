"""A caller that may not see payloads finds none out: by no filter, wherever one is taken, and not by trying."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import httpx
import msgspec
import pytest

import stepwell.http
from stepwell import Engine
from stepwell.http import Role, Tokens, app, make_token
from stepwell.http.operations import HIDDEN_TEXT, Operation
from stepwell.http.routes import OPERATIONS
from stepwell.stores.base.filters import PAYLOAD_FIELDS, Field
from tests.http.desk import WORKFLOWS
from tests.http.test_access import spelled

BLIND, BLIND_TOKEN = make_token("blind", Role.ADMIN, payloads=False)
SEEING, SEEING_TOKEN = make_token("seeing", Role.ADMIN)
REST: dict[str, list[dict[str, Any]]] = {
    "start_bulk": [{"verb": "cancel", "dry_run": True}, {"verb": "cancel", "dry_run": False}]
}


def _filters(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return any(
            isinstance(each, msgspec.Meta) and (each.extra or {}).get("is_filter") for each in get_args(hint)[1:]
        )
    return any(_filters(each) for each in get_args(hint))


def _fields(kind: type | None) -> Iterator[str]:
    for name, hint in get_type_hints(kind, include_extras=True).items() if kind is not None else ():
        if _filters(hint):
            yield name


TAKERS = [
    (each, place, name)
    for each in OPERATIONS
    for place, kind in (("query", each.query), ("body", each.body))
    for name in _fields(kind)
]
TEXTS = [f"input.customer:{value}" for value in ("ann", "7", '"ann"')] + ["-input.customer:ann", "x input.a.b:1"]


def test_the_filters_of_the_api_are_these() -> None:
    """A new one has to be read by `Call.filter`, and is then tested below."""
    assert {(each.name, place, name) for each, place, name in TAKERS} == {
        ("erase_runs", "body", "where"),
        ("list_runs", "query", "q"),
        ("save_view", "body", "filter"),
        ("show_histogram", "query", "q"),
        ("count_runs", "query", "q"),
        ("list_errors", "query", "q"),
        ("show_error_group", "query", "q"),
        ("start_bulk", "body", "where"),
    }
    named = {
        (each.name, field.name)
        for each in OPERATIONS
        for kind in (each.query, each.body)
        if kind is not None
        for field in msgspec.structs.fields(kind)
        if field.name in ("q", "where", "filter", "query")
    }
    assert named == {(each.name, name) for each, _, name in TAKERS}


def test_filters_are_read_in_one_place_only() -> None:
    found = set()
    for file in sorted(Path(stepwell.http.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id == "parse_filter":
                found.add(file.name)
    assert found == {"operations.py"}


def test_what_a_filter_can_ask_of_payloads_is_decided() -> None:
    """A new field of the filter language belongs into one of the two."""
    harmless = {"id", "key", "workflow", "at", "tag", "waiting", "error", "word", "version", "created", "took"}
    harmless |= {"attr", "title", "started_by"}  # stored in plain, and shown with every run
    assert {each.value for each in Field} - {each.value for each in PAYLOAD_FIELDS} == harmless


async def _ask(client: httpx.AsyncClient, text: str, each: Operation, **more: Any) -> httpx.Response:
    return await client.request(each.method, spelled(each.path), headers={"authorization": f"Bearer {text}"}, **more)


@pytest.mark.parametrize("given", TEXTS)
@pytest.mark.parametrize(("each", "place", "name"), TAKERS, ids=[each.name for each, _, _ in TAKERS])
async def test_no_operation_takes_a_filter_on_payloads_from_a_caller_that_sees_none(
    each: Operation, place: str, name: str, given: str
) -> None:
    async with Engine("memory:", workflows=WORKFLOWS) as engine:
        transport = httpx.ASGITransport(app=app(engine, access=Tokens([BLIND_TOKEN, SEEING_TOKEN])))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for rest in REST.get(each.name, [{}]):
                more: dict[str, Any] = {"params": {name: given}}
                if place == "body":
                    more = {"json": {**rest, name: given}}
                refused = await _ask(client, BLIND, each, **more)
                taken = await _ask(client, SEEING, each, **more)

                assert (refused.status_code, refused.json()["code"]) == (403, "SW801")
                # What the path names need not be there; the filter was read in any case.
                assert taken.status_code < 300 or taken.json()["code"] == "SW401", taken.text


async def test_the_filter_of_another_caller_and_same_input_tell_nothing() -> None:
    async with Engine("memory:", workflows=WORKFLOWS) as engine:
        transport = httpx.ASGITransport(app=app(engine, access=Tokens([BLIND_TOKEN, SEEING_TOKEN])))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask(text: str, method: str, path: str, **more: Any) -> Any:
                answer = await client.request(method, path, headers={"authorization": f"Bearer {text}"}, **more)
                assert answer.status_code < 300, answer.text
                return answer.json()

            start = {"workflow": "checkout", "key": "k", "input": {"customer": "ann", "amount": 1}}
            first = await ask(SEEING, "POST", "/api/runs", json=start)
            told = [
                (await ask(text, "POST", "/api/runs", json={**start, "input": {"customer": who, "amount": 1}}))[
                    "same_input"
                ]
                for text in (SEEING, BLIND)
                for who in ("ann", "bob")
            ]
            for where in ("input.customer:ann", "status:failed"):
                await ask(SEEING, "POST", "/api/bulks", json={"verb": "cancel", "where": where})
            lists = {
                text: [one["where"] for one in (await ask(text, "GET", "/api/bulks"))["bulks"]]
                for text in (SEEING, BLIND)
            }

    assert first["same_input"] is True
    assert told == [True, False, None, None]
    assert lists[SEEING] == ["status:failed", "input.customer:ann"]
    assert lists[BLIND] == ["status:failed", HIDDEN_TEXT]
