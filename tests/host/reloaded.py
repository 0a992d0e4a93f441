"""An application as users write it: uvicorn serves it, and the engine lives as long as it does.

It is copied to a folder of its own, where its file is touched.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from stepwell import Context, Engine, StepContext, WorkerSettings, workflow
from stepwell.http import LoopbackAccess, app


async def slowly(info: StepContext, number: int) -> int:
    await asyncio.sleep(0.05)
    with open(os.environ["BODIES"], "a") as bodies:  # noqa: ASYNC230, PTH123  a line that outlives the process
        bodies.write(f"{info.run_id} {os.getpid()}\n")
    return number


@workflow
async def flow(ctx: Context, number: int) -> int:
    first = await ctx.step("first", slowly, number)
    await ctx.sleep("nap", "100ms")
    return first + await ctx.step("second", slowly, number)


engine = Engine(os.environ["DB"], workflows=[flow], settings=WorkerSettings(lease="60s"))


@asynccontextmanager
async def living(_: Starlette) -> AsyncIterator[None]:
    async with engine:
        yield


async def who(_: Request) -> JSONResponse:
    return JSONResponse(os.getpid())


application = Starlette(
    lifespan=living,
    routes=[
        Route("/who", who),
        Mount("/", app=app(engine, access=LoopbackAccess())),
    ],
)
