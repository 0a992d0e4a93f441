"""Polling, as in Temporal's polling samples: start a job at an API, and ask until it is done.

Seldom: the step fails until the job is done, and its retry policy is the interval. The run keeps no worker meanwhile.
Often: one long step asks in a loop, and a new attempt goes on at the last heartbeat.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from stepwell import Context, Engine, Retry, StepContext, step, workflow


class NotReadyError(Exception):
    """The job is not done yet."""


@dataclass
class Api:
    """A fake service whose jobs need to be asked for three times."""

    asked: dict[str, int] = field(default_factory=dict)

    def submit(self, key: str, video: str) -> str:
        return f"job-{video}"

    def status(self, job: str) -> str | None:
        self.asked[job] = self.asked.get(job, 0) + 1
        return f"{job} is done" if self.asked[job] >= 3 else None


api = Api()


async def submit(ctx: StepContext, video: str) -> str:
    return api.submit(ctx.idempotency_key, video)


@step(retry=Retry(max_attempts=None, initial="1m", factor=1, jitter=0, retry_on=(NotReadyError,)))
async def wait_for_job(job: str) -> str:
    answer = api.status(job)
    if answer is None:
        raise NotReadyError(job)
    return answer


@step(timeout="10m")
async def watch_job(ctx: StepContext, job: str) -> str:
    while (answer := api.status(job)) is None:
        ctx.heartbeat()
        await asyncio.sleep(0.01)
    return answer


@workflow
async def transcode(ctx: Context, video: str) -> str:
    job = await ctx.step(submit, video)
    async with asyncio.timeout(86_400):  # a day, in which no process has to live
        return await ctx.step(wait_for_job, job)


@workflow
async def transcode_quickly(ctx: Context, video: str) -> str:
    return await ctx.step(watch_job, await ctx.step(submit, video))


async def main() -> None:
    async with Engine("memory://", workflows=[transcode, transcode_quickly]) as engine:
        run = await engine.start(transcode_quickly, "cats")
        print(await run.result())
        run = await engine.start(transcode, "dogs", key="dogs")
        async for view in engine.watch("dogs"):
            if view.status == "waiting":
                break
        print("dogs: asked once, the next time is in a minute")


if __name__ == "__main__":
    asyncio.run(main())
