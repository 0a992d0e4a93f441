"""What a worker logs about runs and steps."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Fatal, Retry, RunFailed, Secret, WorkerSettings, Workflow, step, workflow
from stepwell.logs import JsonFormatter, PlaceFilter, TextFormatter
from stepwell.worker.run_logs import find_run_log, find_step_log

WORKER, STEP = logging.getLogger("stepwell.worker"), logging.getLogger("stepwell.step")


async def cancel_order(number: int, result: str) -> None:
    if number > 1:
        raise Fatal("the shop is closed")


@step(compensate=cancel_order)
async def order(number: int) -> str:
    return f"order {number}"


@step(retry=Retry(max_attempts=2, initial=0.001))
async def flaky() -> None:
    if not TRIES:
        TRIES.append(1)
        raise ValueError("not yet")


@step
async def decline(words: str) -> None:
    raise Fatal(words)


@workflow
async def smooth(ctx: Context) -> None:
    await ctx.step(flaky)


@workflow
async def declined(ctx: Context, words: str) -> None:
    await ctx.step(decline, words)


@workflow
async def undone(ctx: Context, number: int) -> None:
    await ctx.step(order, number)
    await ctx.step(decline, "no funds")


@workflow
async def branching(ctx: Context) -> None:
    await ctx.join("both", {"bad": lambda inner: inner.step(decline, "empty")})


TRIES: list[int] = []
SERVED: list[Workflow[Any, Any]] = [smooth, declined, undone, branching]


class Log:
    """The records of a worker, as JSON and as text."""

    def __init__(self) -> None:
        self.json, self.text = io.StringIO(), io.StringIO()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.json.getvalue().splitlines()]

    @property
    def messages(self) -> list[str]:
        return [record["message"] for record in self.records]


@pytest.fixture
def log() -> Iterator[Log]:
    TRIES.clear()
    log, handlers = Log(), []
    before = [(logger, logger.level) for logger in (WORKER, STEP)]
    for stream, formatter in ((log.json, JsonFormatter()), (log.text, TextFormatter())):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        handler.addFilter(PlaceFilter())
        handlers.append(handler)
        WORKER.addHandler(handler)
        STEP.addHandler(handler)
    WORKER.setLevel(logging.INFO)
    yield log
    for logger, level in before:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)


async def finish(tmp_path: Path, workflow: Any, *args: Any, key: str | None = None) -> str:
    async with Engine(f"sqlite:///{tmp_path}/runs.db", workflows=SERVED) as engine:
        run = await engine.start(workflow, *args, key=key)
        try:
            await run.result()
        except RunFailed:
            pass
        return run.run_id


async def test_a_run_is_logged_when_it_starts_and_when_it_completes(tmp_path: Path, log: Log) -> None:
    run_id = await finish(tmp_path, smooth, key="order-42")

    fields = {"level": "info", "logger": "stepwell.worker", "run": run_id, "key": "order-42", "workflow": "smooth"}
    assert [{name: value for name, value in record.items() if name != "at"} for record in log.records] == [
        {**fields, "message": "smooth order-42 started", "outcome": "started"},
        {**fields, "message": "smooth order-42 completed", "outcome": "completed"},
    ]


async def test_a_failed_run_is_logged_with_its_path_and_its_cause_in_one_line(tmp_path: Path, log: Log) -> None:
    run_id = await finish(tmp_path, declined, "no funds\nask the bank")

    assert log.records[-1]["message"] == f"declined {run_id} failed at decline: Fatal: no funds ask the bank"
    assert (log.records[-1]["path"], log.records[-1]["outcome"]) == ("decline", "failed")


async def test_the_cause_of_a_failed_branch_is_the_failure_of_its_step(tmp_path: Path, log: Log) -> None:
    run_id = await finish(tmp_path, branching)

    assert log.messages[-1] == f"branching {run_id} failed at both/bad/decline: Fatal: empty"


async def test_a_rolled_back_run_is_logged_with_what_it_failed_with(tmp_path: Path, log: Log) -> None:
    await finish(tmp_path, undone, 1, key="a")

    assert log.messages[-1] == "undone a failed at decline: Fatal: no funds; it was compensated"
    assert log.records[-1]["outcome"] == "compensated"


async def test_an_incomplete_rollback_is_logged_with_the_undo_that_failed(tmp_path: Path, log: Log) -> None:
    async with Engine(f"sqlite:///{tmp_path}/runs.db", workflows=SERVED) as engine:
        await engine.start(undone, 2, key="a")
        await until(log, "rollback")

    words = "an undo failed at order~undo: Fatal: the shop is closed"
    assert log.messages[-1] == f"undone a has an incomplete rollback: {words}"
    assert log.records[-1]["outcome"] == "compensation_failed"


async def test_a_run_that_a_person_pauses_is_logged(tmp_path: Path, log: Log) -> None:
    settings = WorkerSettings(hold_max=0)
    async with Engine(f"sqlite:///{tmp_path}/runs.db", workflows=[sleeper], settings=settings) as engine:
        run = await engine.start(sleeper, key="a")
        await asyncio.wait_for(BEGUN.wait(), 20)
        await engine.holds.pause(run.run_id, by="ann", reason="look")
        MAY_END.set()
        await until(log, "paused")

    assert log.messages == ["sleeper a started", "sleeper a is paused by a person"]


async def test_a_run_that_is_paused_because_its_code_changed_is_logged_with_the_reason(
    tmp_path: Path, log: Log
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    async with Engine(url, workflows=[changing(1)]) as engine:
        run = await engine.start("changing", key="a")
        while (await run.status()).status != "waiting":  # noqa: ASYNC110  the worker is another task
            await asyncio.sleep(0.01)
    async with Engine(url, workflows=[changing(2)]) as engine:
        await engine.signal("a", "go")
        await until(log, "paused")

    assert log.messages[-1].startswith("changing a is paused at one: ")
    assert log.records[-1]["outcome"] == "paused"


async def test_a_replay_logs_nothing(tmp_path: Path, log: Log) -> None:
    STEP.setLevel(logging.DEBUG)
    url = f"sqlite:///{tmp_path}/runs.db"
    async with Engine(url, workflows=[changing(1)]) as engine:
        run = await engine.start("changing", key="a")
        while (await run.status()).status != "waiting":  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)
    before = log.messages
    async with Engine(url, workflows=[changing(1)]) as engine:
        await engine.signal("a", "go")
        await engine.result("a")

    assert before[0] == "changing a started"
    assert [message.split(" after ")[0] for message in before[1:]] == [
        "changing a: step one started",
        "changing a: step one succeeded",
    ]
    assert log.messages[len(before) :] == ["changing a completed"]


async def test_steps_are_logged_at_debug_with_path_attempt_and_cause(tmp_path: Path, log: Log) -> None:
    STEP.setLevel(logging.DEBUG)
    await finish(tmp_path, smooth, key="a")

    steps = [record for record in log.records if record["logger"] == "stepwell.step"]
    assert [(one["level"], one["path"], one["attempt"], one["outcome"]) for one in steps] == [
        ("debug", "flaky", 1, "started"),
        ("debug", "flaky", 1, "failed"),
        ("debug", "flaky", 2, "started"),
        ("debug", "flaky", 2, "succeeded"),
    ]
    assert steps[1]["message"].endswith(" s: ValueError: not yet")
    assert steps[2]["message"] == "smooth a: step flaky (attempt 2) started"


async def test_known_secrets_are_masked_in_keys_and_causes(tmp_path: Path, log: Log) -> None:
    secret = Secret("s3cret-word")
    await finish(tmp_path, declined, f"wrong {secret.reveal()}", key=f"key-{secret.reveal()}")

    assert "s3cret-word" not in log.json.getvalue() + log.text.getvalue()
    assert log.records[-1]["key"] == "key-***"
    assert log.messages[-1] == "declined key-*** failed at decline: Fatal: wrong ***"


async def test_stored_text_can_neither_control_a_terminal_nor_forge_a_field(tmp_path: Path, log: Log) -> None:
    await finish(tmp_path, declined, "a\x1b[2J\u202eb", key="x run=forged\x1b")

    assert [char for char in log.text.getvalue() if not char.isprintable() and char != "\n"] == []
    assert 'key="x run=forged' in log.text.getvalue()
    assert log.messages[-1] == r"declined x run=forged\x1b failed at decline: Fatal: a\x1b[2J\u202eb"


def test_a_level_that_is_off_costs_nothing() -> None:
    assert (find_run_log(), find_step_log(lambda: 0.0)) == (None, None)


BEGUN, MAY_END = asyncio.Event(), asyncio.Event()


@step
async def nap() -> None:
    BEGUN.set()
    await MAY_END.wait()


@workflow
async def sleeper(ctx: Context) -> None:
    await ctx.step(nap)
    await ctx.receive("go")


def changing(version: int) -> Any:
    """A workflow, and the same after a change that its runs do not fit."""

    async def one() -> None:
        return None

    @workflow(name="changing")
    async def code(ctx: Context) -> None:
        if version == 1:
            await ctx.step("one", one)
        await ctx.receive("go")

    return code


async def until(log: Log, word: str) -> None:
    async with asyncio.timeout(20):
        while not any(word in message for message in log.messages):  # noqa: ASYNC110  the worker is another task
            await asyncio.sleep(0.01)
