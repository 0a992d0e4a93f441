"""`stepwell versions` and `stepwell diff`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell import Context, Engine, Fatal, StepwellError, step, workflow
from tests.edges.conftest import APP, Cli, Shop


def test_versions_lists_what_may_be_retired(cli: Cli, db: Shop) -> None:
    said = cli("versions", "--db", db.url, "-o", "json")

    found = {one["workflow"]: one for one in said.json["versions"]}
    assert said.json["schema"] == "stepwell.versions/1"
    assert not found["declined"]["safe_to_retire"]
    assert (found["approval"]["live"], found["approval"]["waiting"], found["approval"]["unserved"]) == (1, 1, True)


def test_versions_in_words_say_why_not(cli: Cli, db: Shop) -> None:
    rows = {line.split("\t")[0]: line.split("\t") for line in cli("versions", "--db", db.url).out.splitlines()}

    assert rows["WORKFLOW"][-2:] == ["SAFE TO RETIRE", "REASON"]
    assert rows["declined"][-2:] == ["no", "1 failed run could be retried"]
    assert rows["approval"][-2:] == ["no", "1 run has not ended, and no live worker has version 1"]


def test_the_newest_version_is_never_safe_to_retire_and_an_older_one_without_runs_is(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/v.db"

    async def finish(version: int) -> None:
        @workflow(name="flow", version=version)
        async def flow(ctx: Context) -> int:
            return version

        async with Engine(url, workflows=[flow]) as engine:
            await (await engine.start(flow)).result()

    for version in (1, 2):
        asyncio.run(finish(version))
    rows = [line.split("\t") for line in cli("versions", "--db", url).out.splitlines()[1:]]
    body = cli("versions", "--db", url, "-o", "json").json["versions"]

    assert [(row[1], *row[-2:]) for row in rows] == [
        ("2", "no", "it is the newest version: new runs use it"),
        ("1", "yes", "all its runs have ended, and none can be retried"),
    ]
    assert [(one["version"], one["safe_to_retire"]) for one in body] == [(2, False), (1, True)]


def test_versions_of_one_workflow_and_of_none(cli: Cli, db: Shop) -> None:
    one = cli("versions", "checkout", "--db", db.url, "--app", APP, "-o", "json")
    none = cli("versions", "chekout", "--db", db.url)

    assert [use["workflow"] for use in one.json["versions"]] == ["checkout"]
    assert (none.code, "checkout" in none.err) == (4, True)


PATCHED = """
from stepwell import Context, workflow

@workflow
async def flow(ctx: Context) -> None:
    if ctx.patched("p"):
        await ctx.once("x", lambda: 1)
    await ctx.receive("go")
"""


def test_patches_are_listed_below(cli: Cli, tmp_path: Path) -> None:
    from stepwell.cli.modules import load_workflows

    app = tmp_path / "patched_app.py"
    app.write_text(PATCHED)
    url = f"sqlite:///{tmp_path}/p.db"

    async def fill() -> None:
        async with Engine(url, workflows=load_workflows(str(app))) as engine:
            run = await engine.start("flow")
            while not (await engine.runs.detail(run.run_id)).history.waits:  # noqa: ASYNC110  another task waits
                await asyncio.sleep(0.01)

    asyncio.run(fill())
    said = cli("versions", "--db", url)

    assert said.out.splitlines()[-1].split("\t") == ["flow", "p", "0", "1", "0", "yes", "no run is on the old path"]
    assert said.out.splitlines()[-2].startswith("WORKFLOW\tPATCH")
    assert cli("versions", "--db", url, "--no-patches", "-o", "json").json["patches"] == []


@workflow
async def shipping(ctx: Context, weight: int) -> int:
    async def weigh() -> int:
        return weight

    async def refuse() -> None:
        raise Fatal("too heavy")

    await ctx.step("label", lambda: "a label")
    found = await ctx.step("weigh", weigh)
    if weight > 10:
        await ctx.step("call", lambda: "called")
    if weight > 20:
        await ctx.step(step(refuse))
    return found


@pytest.fixture(scope="session")
def parcels(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('parcels')}/p.db"

    async def fill() -> None:
        async with Engine(url, workflows=[shipping]) as engine:
            for key, weight in (("light", 1), ("light-2", 1), ("heavy", 12), ("too-heavy", 25)):
                run = await engine.start(shipping, weight, key=key)
                try:
                    await run.result()
                except StepwellError:
                    pass

    asyncio.run(fill())
    return url


def test_runs_that_did_the_same_are_told_so(cli: Cli, parcels: str) -> None:
    said = cli("diff", "light", "light-2", "--db", parcels)

    assert said.code == 0
    assert "The runs did the same." in said.out
    assert "label" not in said.out
    assert "label" in cli("diff", "light", "light-2", "--all", "--db", parcels).out


def test_the_first_difference_and_all_others_are_told(cli: Cli, parcels: str) -> None:
    said = cli("diff", "light", "heavy", "--db", parcels)

    assert "They first differ at weigh: value" in said.out
    assert "input:  1  |  12" in said.out
    rows = [line.split("\t") for line in said.out.splitlines() if "\t" in line]
    assert [row[:4] for row in rows[1:]] == [
        ["weigh", "value", "step 1", "step 12"],
        ["call", "only the second has it", "-", 'step "called"'],
    ]


def test_a_failure_is_a_difference(cli: Cli, parcels: str) -> None:
    body = cli("diff", "heavy", "too-heavy", "--db", parcels, "-o", "json").json

    assert (body["schema"], body["same"], body["parts_at"]) == ("stepwell.diff/1", False, "weigh")
    assert body["facts"]["status"] == ["completed", "failed"]
    assert [place["path"] for place in body["places"]] == ["label", "weigh", "call", "refuse"]
    assert body["places"][-1]["first"] is None


def test_the_order_of_the_first_run_is_kept(cli: Cli, parcels: str) -> None:
    body = cli("diff", "too-heavy", "light", "--db", parcels, "-o", "json").json

    assert [place["path"] for place in body["places"]] == ["label", "weigh", "call", "refuse"]
    assert [place["second"] is None for place in body["places"]] == [False, False, True, True]
    assert cli("diff", "light", "nobody", "--db", parcels).code == 4
