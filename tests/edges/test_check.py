"""`stepwell check` and `stepwell explain`: what is printed, for whom, and with which exit code."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stepwell import Engine
from stepwell.check.rules import RULES
from stepwell.cli.commands.errors import _errors
from stepwell.cli.modules import load_workflows
from stepwell.replay import steps
from tests.edges.conftest import APP, Cli, Shop

SHOP = """
import time
from stepwell import Context, step, workflow

async def reserve() -> str:
    return "r-88"

async def charge() -> str:
    raise AssertionError("no body may run")

async def release() -> None: ...

@workflow
async def order(ctx: Context) -> str:
    {before}
    await ctx.step(step({reserve}, compensate=release))
    await ctx.receive("approve")
    return await ctx.step("charge", charge)
"""


def write(folder: Path, name: str, before: str = "pass", reserve: str = "reserve") -> str:
    file = folder / f"{name}.py"
    file.write_text(SHOP.format(before=before, reserve=reserve))
    return str(file)


def fill(url: str, app: str, runs: int) -> None:
    """Runs that wait for their approval."""

    async def run() -> None:
        async with Engine(url, workflows=load_workflows(app)) as engine:
            for number in range(runs):
                await engine.start("order", key=f"order-{number}")
            for number in range(runs):
                while not (await engine.runs.detail(f"order-{number}")).history.waits:  # noqa: ASYNC110  another task waits
                    await asyncio.sleep(0.01)

    asyncio.run(run())


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orders")
    fill(f"sqlite:///{folder}/orders.db", write(folder, "orders_before"), 3)
    return folder / "orders.db"


@pytest.fixture
def url(filled: Path, tmp_path: Path) -> str:
    shutil.copy(filled, tmp_path / "orders.db")
    return f"sqlite:///{tmp_path}/orders.db"


def test_code_that_fits_is_told_so(cli: Cli, url: str, tmp_path: Path) -> None:
    said = cli("check", write(tmp_path, "orders_same"), "--db", url)

    assert said.code == 0
    assert "3 runs in flight: 3 continue with this code, 0 would break" in said.out
    assert said.out.splitlines()[-1] == "0 errors, 0 warnings"
    assert said.err == "replaying: 3 of 3\n"


def test_each_run_that_would_break_is_told_with_both_sides_and_the_fix(cli: Cli, url: str, tmp_path: Path) -> None:
    app = write(tmp_path, "orders_longer", before='await ctx.step("look", reserve)')
    said = cli("check", app, "--db", url)

    assert said.code == 9
    assert "3 runs in flight: 0 continue with this code, 3 would break" in said.out
    assert "recorded  step reserve" in said.out
    assert "now       it asks for look" in said.out
    assert "likely    look was inserted before reserve after this run had passed it" in said.out
    assert 'fix       guard what is new: if ctx.version("look", 2) >= 2: ...' in said.out
    assert "stepwell explain SW201" in said.out


def test_nothing_in_the_database_changes(cli: Cli, url: str, tmp_path: Path) -> None:
    def dump() -> str:
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
            return "\n".join(database.iterdump())

    before = dump()
    assert cli("check", write(tmp_path, "orders_other", before='await ctx.step("x", charge)'), "--db", url).code == 9
    assert dump() == before


def test_findings_come_with_file_line_and_fix(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = cli("check", write(tmp_path, "orders_bad", before="now = time.time()"), "--code-only")

    assert said.code == 9
    assert 'error    SW121  order: "time.time()" is called outside a step  orders_bad.py:15' in said.out
    assert "ctx.now()" in said.out


def test_warnings_alone_are_problems_only_if_strict(cli: Cli, tmp_path: Path) -> None:
    app = write(tmp_path, "orders_warned", before='await ctx.step(step(reserve, name="r", compensate=release))')
    Path(app).write_text(Path(app).read_text().replace("step(reserve, compensate=release)", "reserve"))

    assert cli("check", app, "--code-only").code == 0
    assert "SW141" in cli("check", app, "--code-only").out
    assert cli("check", app, "--code-only", "--strict").code == 9


def test_what_could_not_be_undone_is_a_warning(
    cli: Cli, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "_COMPENSATIONS", {})  # as in a new process
    app = write(tmp_path, "orders_shorter")
    line = "await ctx.step(step(reserve, compensate=release))"
    Path(app).write_text(Path(app).read_text().replace(line, 'ctx.removed("reserve", "step")'))
    said = cli("check", app, "--db", url, "-o", "json")

    assert said.code == 0
    assert [one["paths"] for one in said.json["runs"]["unable"]] == [["reserve"]] * 3


def test_a_compensation_with_another_name_is_found_at_its_place(
    cli: Cli, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "_COMPENSATIONS", {})  # as in a new process
    app = write(tmp_path, "orders_moved")
    Path(app).write_text(Path(app).read_text().replace("release", "give_back"))
    said = cli("check", app, "--db", url, "-o", "json")

    assert said.code == 0
    assert said.json["runs"]["unable"] == []


def test_runs_of_a_version_that_is_gone_are_a_warning(cli: Cli, url: str, tmp_path: Path) -> None:
    app = write(tmp_path, "orders_new")
    Path(app).write_text(Path(app).read_text().replace("@workflow\n", "@workflow(version=2)\n"))
    said = cli("check", app, "--db", url)

    assert said.code == 0
    assert "3 runs of order version 1 would wait: this code does not have that version" in said.out


def test_json_has_all_of_it(cli: Cli, url: str, tmp_path: Path) -> None:
    app = write(tmp_path, "orders_json", before='time.sleep(0); await ctx.step("look", reserve)')
    said = cli("check", app, "--db", url, "-o", "json")

    assert said.code == 9
    body = said.json
    assert (body["schema"], body["errors"], body["runs"]["total"], body["histories"]) == (
        "stepwell.check/1",
        4,
        3,
        None,
    )
    assert [one["code"] for one in body["findings"]] == ["SW121"]
    assert {one["path"] for one in body["runs"]["broken"]} == {"reserve"}
    assert said.err == ""


def test_sarif_names_rules_places_and_levels(
    cli: Cli, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = write(tmp_path, "orders_sarif", before='time.sleep(0); await ctx.step("look", reserve)')
    body = cli("check", app, "--db", url, "-o", "sarif").json

    assert body["version"] == "2.1.0"
    (run,) = body["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["SW121", "SW201"]
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("SW121", "error")
    place = first["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("orders_sarif.py", 15)
    assert len(run["results"]) == 4


def test_annotations_of_a_pull_request_are_one_line_each(cli: Cli, url: str, tmp_path: Path) -> None:
    app = write(tmp_path, "orders_github", before='time.sleep(0); await ctx.step("look", reserve)')
    lines = cli("check", app, "--db", url, "-o", "github").out.splitlines()

    assert lines[0].startswith("::error file=")
    assert "line=15,col=5,title=SW121::order:" in lines[0]
    assert [line.startswith("::error title=SW201::") for line in lines[1:]] == [True] * 3


def test_only_runs_since_a_time_are_looked_at(cli: Cli, url: str, tmp_path: Path) -> None:
    app = write(tmp_path, "orders_since", before='await ctx.step("look", reserve)')

    assert cli("check", app, "--db", url, "--since", "1h").code == 9
    assert cli("check", app, "--db", url, "--since", "2999-01-01").code == 0
    assert cli("check", app, "--db", url, "--since", "soon").code == 2


def test_history_files_are_replayed_too(cli: Cli, url: str, tmp_path: Path) -> None:
    file = tmp_path / "histories" / "one.json"
    assert cli("export", "order-0", "--db", url, "-o", str(file)).code == 0
    pattern = str(tmp_path / "histories" / "*.json")

    fits = cli("check", write(tmp_path, "orders_files"), "--code-only", "--histories", pattern)
    broken = cli(
        "check",
        write(tmp_path, "orders_files_2", before='await ctx.step("x", charge)'),
        "--code-only",
        "--histories",
        pattern,
    )
    missing = cli(
        "check", write(tmp_path, "orders_files_3"), "--code-only", "--histories", str(tmp_path / "none*.json")
    )

    assert (fits.code, "1 history file: 1 continues" in fits.out) == (0, True)
    assert (broken.code, str(file) in broken.out) == (9, True)
    assert (missing.code, "SW441" in missing.err) == (2, True)


def test_without_a_module_it_says_what_is_missing(cli: Cli) -> None:
    assert cli("check").code == 2


def test_a_database_that_is_not_there_is_an_error_only_if_it_was_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STEPWELL_DB", raising=False)
    app = write(tmp_path, "orders_alone")

    assert cli("check", app).code == 0
    assert cli("check", app, "--db", "sqlite:///nowhere.db").code == 6


def test_runs_of_every_state_are_replayed(cli: Cli, db: Shop) -> None:
    body = cli("check", APP, "--db", db.url, "-o", "json").json

    assert body["runs"]["total"] == 3
    assert [one["definition"] for one in body["runs"]["broken"]] == ["confused@1"]


@pytest.mark.parametrize("code", sorted({*_errors(), *RULES}))
def test_every_code_has_a_page(cli: Cli, code: str) -> None:
    said = cli("explain", code.lower(), "-o", "json")

    assert said.code == 0
    assert said.json["title"]
    assert said.json["why"] or said.json["page"] or said.json["meaning"]
    assert cli("explain", code).out.startswith(f"{code}  ")


def test_an_unknown_code_is_not_found(cli: Cli) -> None:
    said = cli("explain", "SW2O1")

    assert said.code == 4
    assert "SW201" in said.err


def test_the_page_of_a_finding_has_an_example(cli: Cli) -> None:
    said = cli("explain", "SW104")

    assert "Instead of:" in said.out
    assert 'await ctx.step("notify customer", tell_customer)' in said.out
    assert json.loads(cli("explain", "SW104", "-o", "json").out)["error"] == "DuplicateLocationError"
