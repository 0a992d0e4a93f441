"""What a body logs says where it comes from."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Retry, Secret, step, workflow
from stepwell.logs import JsonFormatter, PlaceFilter, TextFormatter, configure

LOG = logging.getLogger("shop.orders")


@step(retry=Retry(max_attempts=2, initial=0.001))
async def charge(amount: int) -> None:
    LOG.warning("charging %d", amount)
    if len(TRIES) < 1:
        TRIES.append(1)
        raise ValueError("again")


@step
def print_label() -> None:
    LOG.warning("printing with %s", Secret("pr1nter-key").reveal())


@workflow
async def order(ctx: Context) -> None:
    await ctx.step(charge, 42)
    await ctx.step("label", print_label)


TRIES: list[int] = []


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    TRIES.clear()
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(PlaceFilter())
    LOG.addHandler(handler)
    yield stream
    LOG.removeHandler(handler)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_each_record_of_a_body_carries_run_workflow_path_and_attempt(
    tmp_path: Path, written: io.StringIO
) -> None:
    async with Engine(f"sqlite:///{tmp_path}/logs.db", workflows=[order]) as engine:
        run = await engine.start(order)
        await run.result()
    LOG.warning("outside")

    *inside, outside = lines(written)
    assert [(one["message"], one["path"], one["attempt"]) for one in inside] == [
        ("charging 42", "charge", 1),
        ("charging 42", "charge", 2),
        ("printing with ***", "label", 1),
    ]
    assert {(one["run"], one["workflow"], one["logger"]) for one in inside} == {(run.run_id, "order", "shop.orders")}
    assert set(outside) == {"at", "level", "logger", "message"}


def test_errors_and_secrets_in_them_are_told_on_the_same_line() -> None:
    secret = Secret("h1dden-word")
    record = LOG.makeRecord(LOG.name, logging.ERROR, __file__, 1, "it said %s", (secret.reveal(),), None)
    try:
        raise ValueError(f"wrong: {secret.reveal()}")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    told = JsonFormatter().format(record)
    assert "\n" not in told
    assert "h1dden-word" not in told
    assert json.loads(told)["error"].endswith("ValueError: wrong: ***")
    assert "h1dden-word" not in TextFormatter().format(record)


def test_people_read_the_place_at_the_end_of_the_line() -> None:
    record = LOG.makeRecord(LOG.name, logging.WARNING, __file__, 1, "charging", (), None, extra={"run": "r1"})
    PlaceFilter().filter(record)
    assert TextFormatter().format(record).endswith("WARNING shop.orders: charging run=r1")


def test_configure_takes_the_place_of_what_was_set_up_before(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure("json", level=logging.INFO)
        LOG.info("hello")
        assert json.loads(capsys.readouterr().err)["message"] == "hello"
        assert len(root.handlers) == 1
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def test_what_a_record_quotes_can_neither_steer_a_terminal_nor_look_like_another_record() -> None:
    odd = "a\x1b]0;x\x07b\x9b2Jc\rd\x85e\u2028f\u202eg\ud800h\ti\n2026-11-18 00:00:00,000 ERROR shop: forged"
    record = LOG.makeRecord(LOG.name, logging.ERROR, __file__, 1, "it said %s", (odd,), None)
    try:
        raise ValueError(odd)
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)

    text, told = TextFormatter().format(record), JsonFormatter().format(record)

    assert [char for char in text if not char.isprintable() and char not in "\n\t"] == []
    assert [line for line in text.split("\n")[1:] if not line.startswith("    ")] == []
    assert r"a\x1b]0;x\x07b\x9b2Jc\x0dd\x85e\u2028f\u202eg\ud800h" in text
    assert [char for char in told if not char.isprintable()] == []
    assert json.loads(told)["message"] == f"it said {odd}"
