"""Steps by name and over HTTP, and workflows whose names are not known before they are started."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Retry, RunFailed, workflow
from stepwell.errors import DuplicateNameError, InvalidOptionError, NotFoundError, UnknownWorkflowError
from stepwell.flows import flow, flow_at, flow_step, http_step

FAST = Retry(max_attempts=5, initial="1ms")


class Bank(BaseHTTPRequestHandler):
    """A service that answers as it is told, and keeps what it was asked."""

    asked: list[tuple[str, str, Any, dict[str, str]]] = []
    answers: list[tuple[int, dict[str, str], bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        sent = {key.lower(): value for key, value in self.headers.items()}
        Bank.asked.append((self.command, self.path, json.loads(body or b"null"), sent))
        status, headers, answer = Bank.answers.pop(0) if Bank.answers else (200, {}, b'{"receipt": "r-1"}')
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST  # noqa: N815  the standard library's name

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def bank() -> Iterator[str]:
    Bank.asked, Bank.answers = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bank)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/calls.db"


async def outcome(flow: Any, given: Any = None) -> Any:
    async with Engine("memory:", workflows=[flow]) as engine:
        return await (await engine.start(flow, given)).result("60s")


async def test_every_attempt_over_http_has_the_same_idempotency_key(bank: str) -> None:
    Bank.answers = [(503, {}, b"busy"), (429, {"retry-after": "0"}, b""), (200, {}, b'{"receipt": "r-2"}')]

    @workflow
    async def paying(ctx: Context) -> Any:
        charge = http_step("charge", f"{bank}/charges?a=1", headers={"X-Team": "shop"}, retry=FAST)
        return await ctx.step(charge, {"amount": 42})

    assert await outcome(paying) == {"receipt": "r-2"}
    keys = {sent["idempotency-key"] for *_, sent in Bank.asked}
    assert (len(Bank.asked), len(keys)) == (3, 1)
    assert Bank.asked[0][:3] == ("POST", "/charges?a=1", {"amount": 42})
    assert Bank.asked[0][3]["x-team"] == "shop"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, {}, b"no such charge"), "answered 404"),
        ((302, {"location": "http://127.0.0.1/"}, b""), "answered 302"),
        ((200, {}, b"<html>"), "is not JSON"),
    ],
)
async def test_an_answer_that_means_no_is_not_retried(bank: str, answer: Any, words: str) -> None:
    Bank.answers = [answer]

    @workflow
    async def paying(ctx: Context) -> Any:
        return await ctx.step(http_step("charge", bank, retry=FAST), None)

    with pytest.raises(RunFailed, match=words):
        await outcome(paying)
    assert len(Bank.asked) == 1


@flow("score of a customer")
async def score(customer: str, factor: int = 1) -> int:
    return len(customer) * factor


@flow("label")
def label(text: str) -> str:
    return text.upper()


async def test_a_step_calls_what_has_a_name(bank: str) -> None:
    flow_at("charge by name", f"{bank}/charges", retry=FAST)
    flow_at("charge by name", f"{bank}/charges", retry=FAST)  # the same again

    @workflow
    async def calling(ctx: Context, customer: str) -> list[Any]:
        scored = await ctx.step(flow_step("score of a customer", {"customer": customer, "factor": 2}))
        text = await ctx.step(flow_step("label", {"text": customer}))
        return [scored, text, await ctx.step(flow_step("charge by name", {"amount": scored}))]

    assert await outcome(calling, "ann") == [6, "ANN", {"receipt": "r-1"}]
    assert Bank.asked[0][2] == {"amount": 6}
    assert "idempotency-key" in Bank.asked[0][3]


def test_a_flow_is_named_once_and_called_as_it_is_declared() -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'label'"):
        flow_step("labels")
    with pytest.raises(InvalidOptionError, match="cannot be called with these variables") as misfit:
        flow_step("label", {"name": "x"})
    assert misfit.value.fix == "it takes text"
    with pytest.raises(DuplicateNameError):
        flow("label")(lambda text: text)
    with pytest.raises(DuplicateNameError):
        flow_at("label", "https://bank.example")
    for wrong in ("ftp://bank.example", "bank", "", "https://"):
        with pytest.raises(InvalidOptionError, match="is not the URL"):
            http_step("charge", wrong)
    with pytest.raises(InvalidOptionError, match="method is"):
        http_step("charge", "https://bank.example", method="post")


@workflow(name="tenant-*")
async def any_tenant(ctx: Context, given: Any) -> list[Any]:
    return [ctx.workflow, await ctx.step("label", label, str(given))]


@workflow(name="tenant-vip-*")
async def important(ctx: Context, given: Any) -> list[Any]:
    return ["vip", ctx.workflow]


@workflow(name="tenant-a")
async def special(ctx: Context, given: Any) -> list[Any]:
    return ["special"]


async def test_a_handler_serves_every_name_that_begins_like_its_own(url: str) -> None:
    async with Engine(url, workflows=[any_tenant, important, special]) as engine:
        started = [await engine.start(f"tenant-{name}", name) for name in ("x", "vip-y", "a")]

        assert [await run.result("60s") for run in started] == [
            ["tenant-x", "X"],
            ["vip", "tenant-vip-y"],
            ["special"],
        ]
        with pytest.raises(UnknownWorkflowError):
            await engine.start("tenan", 1)
        with pytest.raises(InvalidOptionError, match="stands for many workflows") as refused:
            await engine.start(any_tenant, 1)
        assert 'engine.start("tenant-…", input)' in refused.value.fix


async def test_a_worker_finds_the_names_that_other_processes_have_started(url: str) -> None:
    if url == "memory:":
        return
    async with Engine(url) as client:
        run = await client.runs.start_by_name("tenant-late", 1, "late")
        async with Engine(url, workflows=[any_tenant]):
            assert await client.result(run.run_id, timeout="60s") == ["tenant-late", "LATE"]
