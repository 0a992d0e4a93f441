"""What a chain can still undo, and what a repair took out, go along: to another database, and through a file."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepwell import Engine, RunFailed
from stepwell.cli.modules import load_workflows
from tests.edges.conftest import Cli
from tests.edges.errands import wait_until_all_wait

APP = """
import os
from pathlib import Path

from stepwell import Context, Retry, Rollback, StepFailed, step, workflow

LEDGER = Path(os.environ["LEDGER"])
ONCE = Retry(max_attempts=1)


def note(what: str) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write(what + "\\n")
    return what


def refund(month: int, paid: str) -> None:
    note(f"refund {month}")


@step(compensate=refund)
def charge(month: int) -> str:
    return note(f"charge {month}")


@workflow
async def rent(ctx: Context, month: int) -> None:
    await ctx.step(charge, month)
    if month < 3:
        ctx.continue_as_new(month + 1)
    await ctx.receive("burnt")
    raise Rollback("the flat burnt down")


def fail_once(what: str) -> None:
    is_first = f"try {what}" not in LEDGER.read_text()
    note(f"try {what}")
    if is_first:
        raise OSError("not yet")


@workflow
async def handled(ctx: Context) -> str:
    try:
        await ctx.step("ask", step(fail_once, retry=ONCE), "ask")
    except StepFailed:
        await ctx.step("apologise", note, "apologise")
        raise
    word = await ctx.receive("go")
    return str(word.payload)
"""

CARRIED = ["~run1/charge", "~run2/charge", "charge"]
DONE = ["charge 1", "charge 2", "charge 3", "try ask", "apologise", "try ask"]


class Ends(NamedTuple):
    src: str
    dst: str
    app: str
    ledger: Path


@pytest.fixture(params=["sqlite to sqlite", "sqlite to postgres", "postgres to sqlite"])
def ends(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ends:
    """A database with a chain that could undo three months, and a run that went on after a repair; and an empty one."""
    src, _, dst = request.param.split()
    files = {"src": f"sqlite:///{tmp_path}/src.db", "dst": f"sqlite:///{tmp_path}/dst.db"}
    urls = {
        end: request.getfixturevalue("postgres_url") if kind == "postgres" else files[end]
        for end, kind in (("src", src), ("dst", dst))
    }
    app, ledger = tmp_path / "carried_elsewhere.py", tmp_path / "ledger"
    app.write_text(APP)
    ledger.touch()
    monkeypatch.setenv("LEDGER", str(ledger))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, app.stem, raising=False)
    made = Ends(urls["src"], urls["dst"], str(app), ledger)
    asyncio.run(_fill(made))
    assert ledger.read_text().splitlines() == DONE
    return made


async def _fill(ends: Ends) -> None:
    flows = {each.name: each for each in load_workflows(ends.app)}
    async with Engine(ends.src, workflows=flows.values()) as engine:
        await engine.start(flows["rent"], 1, key="rent")
        while [each.path for each in await engine.runs.history("rent") if each.can_undo] != CARRIED:  # noqa: ASYNC110  another task works
            await asyncio.sleep(0.01)
        await wait_until_all_wait(engine, "rent")
        run = await engine.start(flows["handled"], key="handled")
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        await engine.repairs.retry(run.run_id)
        await wait_until_all_wait(engine, "handled")


async def _kept(url: str) -> dict[str, Any]:
    """What must be the same wherever they are."""
    async with Engine(url, worker=False) as engine:
        return {
            "carried": [(one.path, one.can_undo, one.value) for one in await engine.runs.history("rent")],
            "recorded": [(one.path, one.status) for one in await engine.runs.history("handled")],
            "loose": (await engine.runs.detail("handled")).run.loose,
        }


def _check_they_go_on(ends: Ends) -> None:
    async def go_on() -> tuple[str, Any]:
        async with Engine(ends.dst, workflows=load_workflows(ends.app)) as engine:
            await engine.signal("rent", "burnt")
            await engine.signal("handled", "go", "done")
            with pytest.raises(RunFailed):
                await engine.result("rent", timeout="60s")
            view = await engine.status("rent")
            assert view is not None
            return view.status, await engine.result("handled", timeout="60s")

    assert asyncio.run(go_on()) == ("compensated", "done")
    assert ends.ledger.read_text().splitlines() == [*DONE, "refund 3", "refund 2", "refund 1"]


def test_a_move_takes_along_what_was_carried_and_what_a_repair_left_loose(cli: Cli, ends: Ends) -> None:
    before = asyncio.run(_kept(ends.src))
    assert before["loose"] == ((1, 2),)
    assert [path for path, *_ in before["carried"]] == CARRIED

    said = cli("move", ends.src, ends.dst, "--app", ends.app)

    assert said.code == 0, said.err
    assert "Replayed: 2 active runs" in said.out
    assert asyncio.run(_kept(ends.dst)) == before
    _check_they_go_on(ends)


def test_a_history_file_takes_along_what_was_carried_and_what_a_repair_left_loose(
    cli: Cli, ends: Ends, tmp_path: Path
) -> None:
    before = asyncio.run(_kept(ends.src))
    for key in ("rent", "handled"):
        file, again = tmp_path / f"{key}.json", tmp_path / f"{key}-again.json"
        assert cli("export", key, "-o", str(file), "--db", ends.src).code == 0
        checked = cli("check", ends.app, "--histories", str(file))
        assert checked.code == 0, checked.out
        said = cli("import", str(file), "--db", ends.dst)
        assert said.code == 0, said.err
        assert cli("export", key, "-o", str(again), "--db", ends.dst).code == 0
        one, other = json.loads(file.read_text()), json.loads(again.read_text())
        assert (one["history"]["entries"], one["run"].get("loose")) == (
            other["history"]["entries"],
            other["run"].get("loose"),
        )

    assert asyncio.run(_kept(ends.dst)) == before
    _check_they_go_on(ends)
