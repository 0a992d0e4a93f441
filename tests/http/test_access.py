"""Who is let in, and to what: generated from the table of operations, compared with a table that people read."""

from __future__ import annotations

import ast
import asyncio
import statistics
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

import stepwell.http
from stepwell import Engine
from stepwell.clock import Instant, SystemClock
from stepwell.errors import InvalidOptionError
from stepwell.http import Limits, LoopbackAccess, Permission, Role, TokenFile, Tokens, app, make_token
from stepwell.http.application import Application
from stepwell.http.operations import Call, Operation, Reply, check_operations
from stepwell.http.routes import OPERATIONS
from stepwell.http.tokens import revoke, write_tokens
from tests.http.desk import SECRET, TEXTS, TOKENS, Desk, open_desk

TABLE = Path(__file__).with_name("roles.txt")
COLUMNS: tuple[Role | None, ...] = (None, *Role)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT")


def expected() -> dict[tuple[str, str], list[bool]]:
    lines = [line.split() for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {(method, path): [word == "yes" for word in words] for method, path, *words in lines}


def spelled(path: str) -> str:
    parts = {"run": "key-1", "left": "key-1", "right": "key-1", "workflow": "checkout", "hook": "shop", "seq": "1"}
    for name, text in parts.items():
        path = path.replace(f"{{{name}}}", text)
    return path


BODIES: dict[str, Any] = {
    "/api/runs": {"workflow": "checkout", "input": {"customer": "ann", "amount": 1}},
    "/api/events": {"topic": "t"},
    "/api/runs/{run}/signals": {"name": "approve", "payload": 1},
}


async def test_the_matrix_of_operations_and_roles_has_no_deviation(desk: Desk) -> None:
    await desk.start("approval", key="key-1")
    found: dict[tuple[str, str], list[bool]] = {}
    for each in OPERATIONS:
        answers = []
        for role in COLUMNS:
            body = {"json": BODIES[each.path]} if each.body and each.path in BODIES else {}
            query = {"seconds": 0} if each.path.endswith("/changes") else {}
            answer = await desk.ask(each.method, spelled(each.path), role=role, params=query, **body)
            refusal = 401 if role is None or each.permission is Permission.SIGNED else 403
            is_refused = answer.status_code in (401, 403)
            assert not is_refused or answer.status_code == refusal, (each.name, role, answer.text)
            assert answer.status_code < 500
            answers.append(not is_refused)
        found[each.method, each.path] = answers

    assert found == expected()


async def test_no_other_method_of_any_path_is_answered(desk: Desk) -> None:
    known = {(each.method, each.path) for each in OPERATIONS}
    for path in {each.path for each in OPERATIONS}:
        for method in METHODS:
            if (method, path) not in known:
                anonymous = await desk.ask(method, spelled(path), role=None)
                admin = await desk.ask(method, spelled(path))
                assert (anonymous.status_code, admin.status_code) == (401, 405), (method, path)
                assert admin.headers["allow"]


ADDED = ("/health", "/healthz", "/ready", "/readyz", "/configs", "/", "//", "%2f", "%2Fhealthz", ";x", ".", "/.", "?")


async def test_no_spelling_of_a_path_gets_around_the_token(desk: Desk) -> None:
    await desk.start("approval", key="key-1")
    paths = [spelled(each.path) for each in OPERATIONS if each.permission is not Permission.PUBLIC]
    spellings = [
        *(path + added for path in paths for added in ADDED),
        *(path.upper() for path in paths),
        *(f"/healthz/..{path}" for path in paths),
        *(f"/healthz/%2e%2e{path}" for path in paths),
        *(f"//healthz{path}" for path in paths),
        *("/healthz" + added for added in ADDED if added != "?"),
        "/HEALTHZ",
        "/healthz%00",
    ]
    for spelling in spellings:
        assert await _status(desk, spelling) in (401, 404), spelling


async def _status(desk: Desk, spelling: str) -> int:
    """The answer to a path that no client may tidy up."""
    path, _, query = spelling.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "root_path": "",
        "scheme": "http",
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await desk.application(scope, receive, send)
    return int(sent[0]["status"])


async def _nothing(call: Call) -> Reply:
    return Reply({})


def _operation(**changes: Any) -> Operation:
    how: dict[str, Any] = {
        "method": "GET",
        "path": "/new",
        "name": "new",
        "permission": Permission.READ,
        "handler": _nothing,
        "summary": "",
        "answers": {200: dict[str, Any]},
    }
    return Operation(**{**how, **changes})


@pytest.mark.parametrize("changes", [{"permission": None}, {"permission": Permission.PUBLIC}, {"permission": "read"}])
def test_an_operation_that_nobody_decided_about_stops_the_start(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError):
        Application(
            Engine("memory:"),
            access=Tokens(TOKENS),
            hosts=["localhost"],
            hooks=(),
            limits=Limits(),
            clock=SystemClock(),
            operations=[*OPERATIONS, _operation(**changes)],
        )


def test_an_operation_that_is_there_twice_stops_the_start() -> None:
    with pytest.raises(InvalidOptionError):
        check_operations([_operation(), _operation()])


def test_nobody_is_let_in_by_leaving_access_out() -> None:
    with pytest.raises(InvalidOptionError):
        app(Engine("memory:"), access=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("hosts", [[], ["*"]])
def test_hosts_are_named_one_by_one(hosts: list[str]) -> None:
    with pytest.raises(InvalidOptionError):
        app(Engine("memory:"), access=LoopbackAccess(), hosts=hosts)


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "a b", "[::2]"]
)
async def test_a_request_for_another_host_is_refused(desk: Desk, host: str) -> None:
    for path in ("/healthz", "/api/runs"):
        answer = await desk.get(path, headers={"host": host})
        assert (answer.status_code, answer.json()["code"]) == (421, "SW802")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7878", "127.0.0.1:1", "[::1]:80"])
async def test_a_request_for_this_machine_is_taken(desk: Desk, host: str) -> None:
    assert (await desk.get("/api/runs", headers={"host": host})).status_code == 200


async def test_websockets_are_closed(desk: Desk) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await desk.application({"type": "websocket", "path": "/api/runs", "headers": []}, receive, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]


class Local:
    """An API without tokens, and how it is called."""

    def __init__(self, engine: Engine) -> None:
        self._app = app(engine, access=LoopbackAccess())

    async def status(self, headers: dict[str, str], *, client: str = "127.0.0.1", method: str = "POST") -> int:
        transport = httpx.ASGITransport(app=self._app, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:7878") as caller:
            return (await caller.request(method, "/api/runs/x/cancel", headers=headers)).status_code


@pytest.mark.parametrize(
    ("headers", "client", "status"),
    [
        ({}, "127.0.0.1", 404),
        ({"origin": "http://127.0.0.1:7878", "sec-fetch-site": "same-origin"}, "127.0.0.1", 404),
        ({"origin": "http://evil.example"}, "127.0.0.1", 421),
        ({"origin": "null"}, "127.0.0.1", 421),
        ({"sec-fetch-site": "cross-site"}, "127.0.0.1", 421),
        ({"sec-fetch-site": "same-site"}, "127.0.0.1", 421),
        ({"x-forwarded-for": "127.0.0.1"}, "127.0.0.1", 401),
        ({"forwarded": "for=127.0.0.1"}, "127.0.0.1", 401),
        ({}, "10.0.0.7", 401),
    ],
)
async def test_without_tokens_only_programs_on_this_machine_are_let_in(
    headers: dict[str, str], client: str, status: int
) -> None:
    async with Engine("memory:") as engine:
        assert await Local(engine).status(headers, client=client) == status


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer swt",
        "Bearer swt__",
        f"Basic {TEXTS[Role.ADMIN]}",
        f"Bearer {TEXTS[Role.ADMIN]}x",
        f"Bearer {TEXTS[Role.ADMIN][:-1]}",
        f"Bearer {TEXTS[Role.ADMIN].upper()}",
        f"Bearer {TEXTS[Role.ADMIN].rpartition('_')[0]}_{'A' * 43}",
        "Bearer " + "x" * 10_000,
    ],
    ids=range(11),  # tokens are new in each process, and names of tests are not
)
async def test_anything_but_a_token_is_nobody(desk: Desk, given: str) -> None:
    answer = await desk.ask("GET", "/api/runs", role=None, headers={"authorization": given})

    assert (answer.status_code, answer.json()["code"]) == (401, "SW800")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_in_the_url_is_not_taken(desk: Desk) -> None:
    answer = await desk.ask("GET", "/api/runs", role=None, params={"token": TEXTS[Role.ADMIN]})

    assert answer.status_code == 401


async def test_a_token_that_is_over_is_nobody() -> None:
    text, token = make_token("short", Role.ADMIN, lasts="1s", now=Instant(SystemClock().now() - 2_000_000))

    assert Tokens([token]).find(text) is None


class Hands(SystemClock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> Instant:
        return SystemClock().now()

    def monotonic(self) -> float:
        return self.at


def test_a_token_that_is_taken_back_or_made_counts_at_once(tmp_path: Path) -> None:
    path, hands = tmp_path / "tokens", Hands()
    text, token = make_token("ci", Role.OPERATOR)
    write_tokens(path, [token])
    file = TokenFile(path, clock=hands)
    before = file.find(text)

    revoke(path, "ci")
    hands.at += 2
    after = file.find(text)
    path.unlink()
    hands.at += 2

    assert before is not None
    assert before.name == "ci"
    assert after is None
    assert file.find(text) is None
    assert len(file) == 0


def test_a_token_file_has_no_token_in_it_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    text, token = make_token("ci", Role.OPERATOR)
    write_tokens(path, [token])

    assert text not in path.read_text(encoding="utf-8")
    assert text.rpartition("_")[2] not in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o666)
    with pytest.raises(InvalidOptionError):
        TokenFile(path)


def test_secrets_are_never_compared_by_an_operator() -> None:
    found = []
    for file in sorted(Path(stepwell.http.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
                sides = [node.left, *node.comparators]
                words = {getattr(side, "attr", getattr(side, "id", "")) for side in sides}
                found += [f"{file.name}:{node.lineno}" for _ in words & {"digest", "secret", "token", "_digest"}]

    assert found == []


def test_known_and_unknown_prefixes_take_the_same_work() -> None:
    """Counted in calls, not in seconds: what is hashed and compared is the same."""
    import cProfile
    import pstats

    text, token = make_token("ci", Role.ADMIN)
    tokens = Tokens([token])
    wrong = f"{text.rpartition('_')[0]}_{'A' * 43}"
    unknown = f"swt_{'0' * 12}_{'A' * 43}"

    def calls(given: str) -> int:
        profile = cProfile.Profile()
        profile.runcall(tokens.find, given)
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    assert calls(wrong) == calls(unknown)
    assert statistics.mean([calls(wrong) for _ in range(5)]) == calls(unknown)


async def test_a_viewer_sees_no_payloads_and_cannot_ask_for_them_by_a_filter(desk: Desk) -> None:
    run_id = await desk.start("checkout", {"customer": SECRET, "amount": 1}, key="k")
    failed = await desk.start("declined", {"customer": SECRET, "amount": 1})
    await desk.get(f"/api/runs/{run_id}/result", params={"wait": 20})
    await desk.get(f"/api/runs/{failed}/result", params={"wait": 20})
    await desk.post("/api/events", {"topic": "t", "payload": SECRET, "retain": "1h"})
    await desk.post("/api/runs/later/signals", {"name": "n", "payload": SECRET, "if_missing": "hold"})

    for each in OPERATIONS:
        if each.method == "GET":
            for run in (run_id, failed):
                path = spelled(each.path.replace("{run}", run).replace("{left}", run))
                query = {"seconds": 0} if path.endswith("/changes") else {}
                answer = await desk.get(path, role=Role.VIEWER, params=query)
                assert SECRET not in answer.text, each.name
                assert "Traceback" not in answer.text, each.name
    refused = await desk.get("/api/runs", role=Role.VIEWER, params={"q": "input.customer:ann"})

    assert (refused.status_code, refused.json()["code"]) == (403, "SW801")
    assert SECRET in (await desk.get(f"/api/runs/{run_id}", role=Role.OPERATOR)).text


async def test_who_asks_too_often_is_told_to_wait(tmp_path: Path) -> None:
    async with open_desk(f"sqlite:///{tmp_path / 'a.db'}", limits=Limits(rate=0.001, burst=3)) as desk:
        answers = [await desk.get("/api/workers") for _ in range(4)]
        other = await desk.get("/api/workers", role=Role.VIEWER)

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[3].json()["code"] == "SW803"
    assert other.status_code == 200


async def test_every_answer_has_the_headers_that_keep_it_from_browsers(desk: Desk) -> None:
    await desk.start("approval", key="key-1")
    for each in OPERATIONS:
        query = {"seconds": 0} if each.path.endswith("/changes") else {}
        for role in (None, Role.ADMIN):
            answer = await desk.ask(each.method, spelled(each.path), role=role, params=query)
            headers = answer.headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert "server" not in headers
            assert "access-control-allow-origin" not in headers
            assert headers["x-request-id"]


async def test_nothing_secret_is_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    await asyncio.gather(
        desk.get("/api/runs"), desk.get("/nothing"), desk.post("/api/runs", {"workflow": "x", "input": SECRET})
    )

    assert not any(text in caplog.text for text in (SECRET, *TEXTS.values()))
