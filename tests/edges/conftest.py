"""A database with one run in each state people ask about, and the command line called in this process."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepwell import Engine, StepwellError, Workflow
from stepwell.cli.main import main
from stepwell.views import RunView
from tests.edges import shop

APP = str(Path(shop.__file__))


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        (line,) = self.err.splitlines()
        return json.loads(line)["error"]


Cli = Callable[..., Said]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    def call(*words: str) -> Said:
        code = main(words)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield call
    # Commands that last set up the log of the process.
    root.handlers[:] = handlers
    root.setLevel(level)


async def _fill(url: str) -> dict[str, str]:
    order = shop.Order("ann", 42)
    workflows: list[Workflow[Any, Any]] = [
        shop.checkout,
        shop.approval,
        shop.declined,
        shop.undone,
        shop.stuck,
        shop.confused,
    ]
    async with Engine(url, workflows=workflows) as engine:
        ids = {}
        for each in workflows:
            given = None if each is shop.approval else order
            handle = await engine.start(each, given, key=f"{each.name}-1")
            ids[each.name] = str(handle.run_id)
        for name, run_id in ids.items():
            if name != "approval":
                try:
                    await engine.result(run_id, timeout="60s")
                except StepwellError:
                    pass
        while not (await engine.runs.detail("approval-1")).history.waits:  # noqa: ASYNC110  another task waits
            await asyncio.sleep(0.01)
    return ids


class Shop(NamedTuple):
    """A database of its own for one test."""

    url: str
    ids: dict[str, str]

    def status(self, key: str) -> RunView:
        async def look() -> RunView:
            async with Engine(self.url) as engine:
                found = await engine.status(key)
                assert found is not None
                return found

        return asyncio.run(look())


@pytest.fixture(scope="session")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    file = tmp_path_factory.mktemp("shop") / "shop.db"
    return file, asyncio.run(_fill(f"sqlite:///{file}"))


@pytest.fixture
def db(_filled: tuple[Path, dict[str, str]], tmp_path: Path) -> Shop:
    file, ids = _filled
    for part in file.parent.glob("shop.db*"):
        shutil.copy(part, tmp_path / part.name)
    return Shop(f"sqlite:///{tmp_path / 'shop.db'}", ids)


@pytest.fixture(params=["sqlite", "postgres"])
def shop_anywhere(request: pytest.FixtureRequest) -> Shop:
    """The same database on either server; that of PostgreSQL is filled anew."""
    if request.param == "sqlite":
        found: Shop = request.getfixturevalue("db")
        return found
    url: str = request.getfixturevalue("postgres_url")
    return Shop(url, asyncio.run(_fill(url)))
