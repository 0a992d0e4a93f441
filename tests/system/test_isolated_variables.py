"""Environment variables of isolated steps: what a program needs, what the step names, and no secret of the worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.errors import InvalidOptionError
from stepwell.worker.isolation.variables import variables_for

SECRETS = {"DATABASE_URL": "postgresql://ann:hunter2@db", "SHOP_KEY": "hunter3", "MY_TOKEN": "hunter4"}


@step(isolate="process")
def bare() -> dict[str, str]:
    return dict(os.environ)


@step(isolate="process", env=["DATABASE_URL", "SHOP_*"])
def named() -> dict[str, str]:
    return dict(os.environ)


@workflow
async def looking(ctx: Context) -> list[dict[str, str]]:
    everything = await ctx.step("all", bare.options(env="*"))
    return [await ctx.step("bare", bare), await ctx.step("named", named), everything]


async def test_an_isolated_step_gets_what_it_needs_and_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_TIME", "C")
    async with Engine(f"sqlite:///{tmp_path}/runs.db", workflows=[looking]) as engine:
        by_default, by_name, everything = await (await engine.start(looking)).result()

    assert by_default["PATH"] == os.environ["PATH"]
    assert by_default["LC_TIME"] == "C"
    assert not any("hunter" in value for value in by_default.values())
    assert set(by_name) - set(by_default) == {"DATABASE_URL", "SHOP_KEY"}
    assert by_name["DATABASE_URL"] == SECRETS["DATABASE_URL"]
    assert SECRETS.items() <= everything.items()


def test_only_variables_that_every_program_needs_are_passed_unasked() -> None:
    given = {"PATH": "/bin", "LC_ALL": "C", "PYTHONUTF8": "1", "PGPASSWORD": "x", "STEPWELL_HOOK_SHOP": "x", "A": "1"}

    assert variables_for((), given) == {"PATH": "/bin", "LC_ALL": "C", "PYTHONUTF8": "1"}
    assert variables_for(("A", "PG*"), given).keys() - variables_for((), given).keys() == {"A", "PGPASSWORD"}


@pytest.mark.parametrize("env", [["A B"], ["*A"], ["A=1"], [""], [1], {"A": 1}.values()])
def test_a_name_that_is_none_is_refused(env: list[str]) -> None:
    with pytest.raises(InvalidOptionError, match="env of step"):
        bare.options(env=env)


def test_variables_make_sense_only_of_a_process_of_its_own() -> None:
    with pytest.raises(InvalidOptionError, match="has env without isolate"):
        step(len, env=["A"])
