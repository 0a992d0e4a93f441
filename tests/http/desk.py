"""An engine with its HTTP API, called through ASGI in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from stepwell import Context, Engine, Fatal, Signal, Workflow, workflow
from stepwell.http import Application, Hook, Limits, Role, Token, Tokens, app, make_token

HOST = "http://localhost"
SECRET = "a secret between the two"


@dataclass(frozen=True)
class Order:
    customer: str
    amount: int


async def reserve(order: Order) -> str:
    return f"reserved for {order.customer}"


async def refuse(order: Order) -> str:
    raise Fatal("no funds")


@workflow
async def checkout(ctx: Context, order: Order) -> dict[str, Any]:
    """Take an order."""
    return {"text": await ctx.step("reserve", reserve, order), "amount": order.amount}


@workflow(signals=[Signal[int]("approve")])
async def approval(ctx: Context) -> str:
    message = await ctx.receive("approve", timeout="1d")
    return f"approved {message.payload}"


@workflow
async def payment(ctx: Context) -> str:
    message = await ctx.receive("paid", timeout="1d")
    return f"paid {message.payload}"


@workflow
async def declined(ctx: Context, order: Order) -> str:
    return await ctx.step("charge", refuse, order)


@workflow(names="unique")
async def confused(ctx: Context, order: Order) -> str:
    await ctx.step("reserve", reserve, order)
    return await ctx.step("reserve", reserve, order)


WORKFLOWS: list[Workflow[Any, Any]] = [checkout, approval, payment, declined, confused]

HOOKS = [
    Hook(name="shop", secret=("an older secret of the two", SECRET), topic="orders"),
    Hook(name="bank", secret=SECRET, signal="paid", run="data.run"),
    Hook(name="boss", secret=SECRET, signal="approve", run="run"),
]


def _all_roles() -> tuple[dict[Role, str], list[Token]]:
    made = {role: make_token(f"the {role.value}", role) for role in Role}
    return {role: text for role, (text, _) in made.items()}, [token for _, token in made.values()]


TEXTS, TOKENS = _all_roles()


class Desk:
    """The API as callers of each role have it."""

    def __init__(self, engine: Engine, application: Application) -> None:
        self.engine = engine
        self.application = application
        transport = httpx.ASGITransport(app=application, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=HOST)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        role: Role | None = Role.ADMIN,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx.Response:
        own = {} if role is None else {"authorization": f"Bearer {TEXTS[role]}"}
        return await self._client.request(method, path, headers={**own, **(headers or {})}, **more)

    async def get(self, path: str, **more: Any) -> httpx.Response:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return await self.ask("POST", path, **({} if body is None else {"json": body}), **more)

    async def start(self, name: str, body: Any = None, **more: Any) -> str:
        answer = await self.post("/api/runs", {"workflow": name, "input": body, **more})
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["run"]["run_id"])

    async def start_waiting(self, name: str) -> str:
        """A run that waits."""
        run_id = await self.start(name)

        async def waits() -> bool:
            return bool((await self.get(f"/api/runs/{run_id}")).json()["run"]["status"] == "waiting")

        await until(waits)
        return run_id

    async def followed(self) -> None:
        """Wait until a stream is open."""

        async def follows() -> int:
            return self.application._services.followers

        await until(follows)


async def until(is_so: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until the answer is not false: what is asked for happens in another task."""
    async with asyncio.timeout(20):
        while not (found := await is_so()):  # noqa: ASYNC110  nothing tells when it is so
            await asyncio.sleep(0)
        return found


@asynccontextmanager
async def open_desk(url: str, *, limits: Limits | None = None, worker: bool = True) -> AsyncIterator[Desk]:
    async with Engine(url, workflows=WORKFLOWS, worker=worker) as engine:
        limits = limits or Limits(failure_burst=100_000)  # tests ask as nobody very often
        yield Desk(engine, app(engine, access=Tokens(TOKENS), hooks=HOOKS, limits=limits))
