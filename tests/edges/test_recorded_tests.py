"""`stepwell export RUN --as-test`: the test repeats the run, without any of its effects."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwell import SyncEngine
from stepwell.errors import StepwellError
from stepwell.testing import Stuck, kit
from tests.edges.conftest import Cli

_APP = """
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal

from stepwell import App, Context, Failure, Retry, step, workflow

DONE = []


@dataclass(frozen=True)
class Order:
    customer: str
    amount: Decimal
    at: datetime


class CardDeclined(Exception):
    def __init__(self, order, code):
        super().__init__(f"declined {code}")


@dataclass(frozen=True)
class Receipt:
    text: str
    amount: Decimal


async def release(order: Order) -> None:
    DONE.append("release")


@step(compensate=release)
async def reserve(order: Order) -> str:
    DONE.append("reserve")
    return f"reserved for {order.customer}"


@step(retry=Retry(max_attempts=3, initial="1ms"))
async def charge(order: Order) -> Receipt:
    DONE.append("charge")
    if DONE.count("charge") < 3:
        raise CardDeclined(order, DONE.count("charge"))
    return Receipt("42", order.amount)


async def pack(order: Order, number: int) -> int:
    DONE.append("pack")
    return number * 2


async def refuse(order: Order) -> str:
    raise Failure("out of stock", {"left": 0})


@workflow
async def parcel(ctx: Context, order: Order) -> int:
    return await ctx.step(pack, order, 5)


@workflow
async def shop(ctx: Context, order: Order) -> Receipt:
    await ctx.step(reserve, order)
    receipt = await ctx.step(charge, order)
    await ctx.child(parcel, order)
    approval = await ctx.receive("approve", timeout="3d")
    if approval.payload["by"] == "nobody":
        await ctx.step(refuse, order)
    await ctx.sleep("rest", "1ms")
    news = await ctx.topic("weather")
    async def row(ctx: Context, number: int) -> int:
        return await ctx.step(pack, order, number)
    await ctx.map("rows", row, [1, 2])
    return Receipt(f"{receipt.text} {news['sky']}", receipt.amount)


app = App(workflows=[shop, parcel])
"""
_ORDER = {"customer": "ann", "amount": "42.10", "at": "2026-01-31T12:00:00Z"}


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of workflows, as another project has it."""
    name = f"shop_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(_APP)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__(name)
    yield module
    del sys.modules[name]


def _shop(app: Any, url: str, by: str) -> str:
    """A run that has ended."""
    with SyncEngine(url, workflows=[app.shop, app.parcel]) as engine:
        run = engine.start(app.shop, _ORDER, key="order 42")
        run.signal("approve", {"by": by})
        for _ in range(400):
            if engine.publish("weather", {"sky": "blue"}) or run.status().is_ended:
                break
        try:
            run.result("30s")
        except StepwellError:
            pass
        return run.status().status


def _perform(file: Path) -> None:
    """Run the only test of a file, in a kit."""
    [test] = [value for name, value in runpy.run_path(str(file)).items() if name.startswith("test_")]

    async def main() -> None:
        async with kit() as stepwell:
            await test(stepwell)

    asyncio.run(main())


def test_the_test_of_a_completed_run_passes_without_its_effects(cli: Cli, app: Any, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/shop.db", tmp_path / "test_order.py"
    assert _shop(app, url, "bo") == "completed"
    app.DONE.clear()

    said = cli("export", "order 42", "--as-test", "-o", str(file), "--db", url, "--app", app.__name__)

    assert said.code == 0, said.err
    assert f"It runs with: pytest {file}" in said.err
    text = file.read_text()
    assert f"from {app.__name__} import shop" in text
    assert 'await run.until("approve")' in text.replace("'", '"')
    _perform(file)
    assert app.DONE == []


def test_the_test_of_a_rolled_back_run_passes(cli: Cli, app: Any, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/shop.db", tmp_path / "test_order.py"
    assert _shop(app, url, "nobody") == "compensated"
    app.DONE.clear()

    cli("export", "order 42", "--as-test", "-o", str(file), "--db", url, "--app", app.__name__)

    assert "Failure('out of stock', {'left': 0})" in file.read_text()
    _perform(file)
    assert app.DONE == []


def test_the_test_fails_when_the_code_does_something_else(cli: Cli, app: Any, tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/shop.db", tmp_path / "test_order.py"
    _shop(app, url, "bo")
    cli("export", "order 42", "--as-test", "-o", str(file), "--db", url, "--app", app.__name__)

    for old, new in (("'blue'", "'grey'"), ("'approve'", "'approved'"), ("'charge'", "'charges'")):
        changed = tmp_path / "test_changed.py"
        changed.write_text(file.read_text().replace(old, new, 1))
        with pytest.raises((AssertionError, Stuck)):
            _perform(changed)


def test_without_an_application_the_test_names_the_workflow(cli: Cli, app: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    _shop(app, url, "bo")

    said = cli("export", "order 42", "--as-test", "--db", url)

    assert "stepwell.start('shop'" in said.out.replace("\n        ", "")
    assert "stepwell_app" in said.out


def test_a_redacted_test_has_none_of_the_texts(cli: Cli, app: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    _shop(app, url, "bo")

    said = cli("export", "order 42", "--as-test", "--redact", "--db", url)

    assert said.code == 0
    assert "reserved for ann" not in said.out
    assert cli("export", "order 42", "--as-test", "--keep", "x", "--db", url).code == 2


def test_an_encrypted_run_needs_its_keys(cli: Cli, app: Any, tmp_path: Path) -> None:
    from stepwell.codec import Encrypted, JsonCodec, Keys

    url = f"sqlite:///{tmp_path}/secret.db"
    codec = Encrypted(JsonCodec(), keys=Keys("k", {"k": bytes(range(32))}))
    with SyncEngine(url, workflows=[app.parcel], codec=codec) as engine:
        engine.start(app.parcel, _ORDER, key="p").result()

    said = cli("export", "p", "--as-test", "--db", url)

    assert said.code != 0
    assert "encrypted" in said.err
    assert json.dumps(_ORDER)[1:20] not in said.out + said.err
