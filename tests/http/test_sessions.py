"""Sessions: people sign in with a token, and their pages are recognised by a cookie."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import Engine
from stepwell.clock import SECOND, Instant, SystemClock
from stepwell.http import Limits, LoopbackAccess, Role, TokenFile, Tokens, app, make_token
from stepwell.http.tokens import revoke, write_tokens
from tests.http.desk import TEXTS, TOKENS

HOUR = 3_600 * SECOND
HOST = "http://127.0.0.1:7878"
PAGE = {"x-stepwell-page": "1", "sec-fetch-site": "same-origin", "origin": HOST}


class SetClock(SystemClock):
    """A clock that stands where it is set."""

    def __init__(self) -> None:
        self.at = 1_790_000_000 * SECOND

    def now(self) -> Instant:
        return Instant(self.at)

    def monotonic(self) -> float:
        return self.at / SECOND


class Pages:
    """The pages of one browser, before a server."""

    def __init__(self, engine: Engine, access: Any, clock: SetClock) -> None:
        self.clock = clock
        self.application = app(engine, access=access, clock=clock, limits=Limits(failure_burst=30))
        transport = httpx.ASGITransport(app=self.application, raise_app_exceptions=False, client=("127.0.0.1", 1))
        self.browser = httpx.AsyncClient(transport=transport, base_url=HOST)

    async def ask(self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any) -> Any:
        return await self.browser.request(method, path, headers=PAGE if headers is None else headers, **more)

    async def sign_in(self, text: str) -> Any:
        return await self.ask("POST", "/api/session", json={"token": text})

    async def status(self) -> int:
        return int((await self.ask("GET", "/api/session")).status_code)


@asynccontextmanager
async def pages(url: str = "memory:", access: Any = None) -> AsyncIterator[Pages]:
    clock = SetClock()
    async with Engine(url) as engine:
        yield Pages(engine, access or Tokens(TOKENS, clock=clock), clock)


async def test_a_token_begins_a_session_that_has_its_rights_until_it_signs_out() -> None:
    async with pages() as one:
        assert await one.status() == 401
        begun = await one.sign_in(f" {TEXTS[Role.OPERATOR]}\n")
        shown = (await one.ask("GET", "/api/session")).json()
        held = await one.ask("POST", "/api/holds/pause", json={})
        audit = await one.ask("GET", "/api/audit")
        cookie = one.browser.cookies["stepwell_session"]
        ended = await one.ask("DELETE", "/api/session")
        again = await one.ask("GET", "/api/session", headers={**PAGE, "cookie": f"stepwell_session={cookie}"})

        assert begun.json() == shown
        assert (shown["name"], shown["role"], shown["permissions"]) == ("the operator", "operator", ["read", "steer"])
        assert (held.status_code, audit.status_code) == (200, 403)
        assert (ended.json(), await one.status(), again.status_code) == ({"ended": True}, 401, 401)
        acts = await one.application._services.ledger.list_acts(limit=9)
        assert (acts[-1].who, acts[-1].act, acts[-1].outcome) == ("the operator", "sign_in", "200")


async def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites_and_has_no_token() -> None:
    async with pages() as one:
        plain = (await one.sign_in(TEXTS[Role.VIEWER])).headers["set-cookie"]
        tls = {**PAGE, "origin": "https://127.0.0.1:7878"}
        secure = await one.ask("POST", "/api/session", headers=tls, json={"token": TEXTS[Role.VIEWER]})

        assert re.fullmatch(
            r"stepwell_session=[\w.]+; Max-Age=43200; HttpOnly; SameSite=Strict", plain
        )  # without a path: that of the request's folder
        assert secure.headers["set-cookie"].endswith("; Secure")
        assert TEXTS[Role.VIEWER].split("_")[2] not in plain


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-stepwell-page": "1"},
        {"sec-fetch-site": "same-origin", "origin": HOST},
        {**PAGE, "origin": "http://evil.example"},
        {**PAGE, "origin": "null"},
        {**PAGE, "sec-fetch-site": "cross-site"},
        {**PAGE, "sec-fetch-site": "same-site"},
    ],
)
async def test_only_a_page_of_this_server_signs_in_and_acts(headers: dict[str, str]) -> None:
    async with pages() as one:
        stranger = await one.ask("POST", "/api/session", headers=headers, json={"token": TEXTS[Role.ADMIN]})
        await one.sign_in(TEXTS[Role.ADMIN])
        act = await one.ask("POST", "/api/holds/pause", headers=headers, json={})

        assert (stranger.status_code, act.status_code) == (421, 421)
        assert (await one.ask("GET", "/api/holds")).json() == {"holds": []}


@pytest.mark.parametrize("change", ["number", "end", "code", "prefix", "short"])
async def test_a_cookie_that_was_changed_is_nobody(change: str) -> None:
    async with pages() as one:
        await one.sign_in(TEXTS[Role.VIEWER])
        prefix, number, end, code = one.browser.cookies["stepwell_session"].split(".")
        other = next(token.prefix for token in TOKENS if token.prefix != prefix)
        changed = {
            "number": f"{prefix}.{'0' * 32}.{end}.{code}",
            "end": f"{prefix}.{number}.{int(end) + 1}.{code}",
            "code": f"{prefix}.{number}.{end}.{code[::-1]}",
            "prefix": f"{other}.{number}.{end}.{code}",
            "short": f"{prefix}.{number}.{code}",
        }[change]
        one.browser.cookies.clear()

        answer = await one.ask("GET", "/api/session", headers={**PAGE, "cookie": f"stepwell_session={changed}"})

        assert answer.status_code == 401


async def test_a_session_ends_after_12_hours_and_before_that_with_its_token() -> None:
    async with pages() as one:
        await one.sign_in(TEXTS[Role.VIEWER])
        one.clock.at += 12 * HOUR - SECOND
        assert await one.status() == 200
        one.clock.at += SECOND
        assert await one.status() == 401

        text, token = make_token("short", Role.VIEWER, lasts="1h", now=one.clock.now())
        other = Pages(one.application._services.engine, Tokens([token], clock=one.clock), one.clock)
        ends_at = (await other.sign_in(text)).json()["ends_at"]
        one.clock.at += HOUR
        assert await other.status() == 401
        assert ends_at is not None


async def test_a_session_is_known_to_every_server_of_the_store_and_ends_with_its_token(tmp_path: Path) -> None:
    file, url = tmp_path / "tokens", f"sqlite:///{tmp_path}/a.db"
    text, token = make_token("ann", Role.OPERATOR)
    write_tokens(file, [token])
    async with pages(url, TokenFile(file)) as left, pages(url, TokenFile(file)) as right:
        left.clock.at = right.clock.at = TokenFile(file)._clock.now()
        await left.sign_in(text)
        right.browser.cookies = left.browser.cookies
        assert await right.status() == 200

        await left.ask("DELETE", "/api/session")
        right.clock.at += 4 * SECOND
        assert await right.status() == 401

        await left.sign_in(text)
        right.browser.cookies = left.browser.cookies
        assert (await left.status(), await right.status()) == (200, 200)
        revoke(file, "ann")
        assert (await left.status(), await right.status()) == (401, 401)


async def test_a_digest_alone_makes_no_session() -> None:
    """Whoever reads the token file can make the code of a cookie, and not the row in the store."""
    async with pages() as one:
        other = Pages(one.application._services.engine, Tokens(TOKENS, clock=one.clock), one.clock)
        async with Engine("memory:") as elsewhere:
            forger = Pages(elsewhere, Tokens(TOKENS, clock=one.clock), one.clock)
            await forger.sign_in(TEXTS[Role.ADMIN])
            other.browser.cookies = forger.browser.cookies

            assert (await forger.status(), await other.status()) == (200, 401)


async def test_a_wrong_token_is_refused_and_too_many_of_them_must_wait() -> None:
    async with pages() as one:
        wrong = await one.sign_in(TEXTS[Role.ADMIN][:-1])
        answers = [(await one.sign_in("x")).status_code for _ in range(40)]

        assert (wrong.status_code, wrong.json()["title"]) == (401, "this token is not valid")
        assert "set-cookie" not in wrong.headers
        assert (answers[0], answers[-1]) == (401, 429)


async def test_without_tokens_everyone_on_this_machine_is_let_in_and_nobody_signs_in() -> None:
    async with pages(access=LoopbackAccess()) as one:
        shown = (await one.ask("GET", "/api/session")).json()
        refused = await one.sign_in("x")
        ended = await one.ask("DELETE", "/api/session")

        assert (shown["name"], shown["role"], shown["ends_at"]) == ("local", "admin", None)
        assert (refused.status_code, ended.json()) == (404, {"ended": False})
