"""A server with a seeded database in a process of its own, and where the browser is."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.sync_api import BrowserContext

from stepwell.cli.commands.development import DEMO_APP
from stepwell.cli.dev.seeds import seed_demo
from stepwell.cli.dev.seeds.world import World
from stepwell.clock import DAY, Instant, Span, SystemClock
from stepwell.http import Role, make_token
from stepwell.http.dashboard import FOLDER
from stepwell.http.tokens import write_tokens
from tests.browser import shop
from tests.browser.seed import seed

ROOT: Final = Path(__file__).parents[2]
_STRANGER_LIVES: Final = Span(9 * DAY)
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class Site(NamedTuple):
    """A server, and who may use it."""

    url: str
    pid: int
    tokens: dict[Role, str]


def find_chromium() -> str:
    """Where Chromium is. Raises with how to get it."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise RuntimeError(
            "tests/browser needs Chromium: `apt-get install chromium`, or name one with CHROMIUM=/path/to/it"
        )
    return found


def launch_options() -> dict[str, Any]:
    """How the browser is started."""
    return {"executable_path": find_chromium(), "args": _FLAGS}


@contextmanager
def serve(folder: Path) -> Iterator[Site]:
    """A server on a database with runs in every status."""
    with asyncio.Runner() as runner:
        runner.run(seed(f"sqlite:///{folder}/shop.db"))
    with _server(folder, str(shop.__file__)) as site:
        yield site


@contextmanager
def serve_demo(folder: Path) -> Iterator[Site]:
    """A server on the demonstration of `stepwell dev`, and beside it a worker that knows nothing of the shop."""
    file, now = folder / "shop.db", SystemClock().now()
    World(file, Instant(now - _STRANGER_LIVES)).run(_stranger)
    seed_demo(file, now, rows=200)
    with _server(folder, DEMO_APP) as site:
        yield site


async def _stranger(world: World) -> None:
    """A worker that has lived long enough to be sure that nobody serves some runs."""
    machine = await world.start("w-0", [], lease="30d")
    await world.pass_time("1s")
    machine.die()


@contextmanager
def _server(folder: Path, app: str) -> Iterator[Site]:
    assert (FOLDER / "index.html").is_file(), "the dashboard is not built: python dashboard/build.py"
    url = f"sqlite:///{folder}/shop.db"
    made = {role: make_token(f"ann the {role.value}", role) for role in Role}
    write_tokens(folder / "tokens", [token for _, token in made.values()])
    line = [sys.executable, "-m", "stepwell.cli.main", "--db", url, "serve", app, "--port", "0"]
    more = ["-o", "json", "--embedded", "--tokens", str(folder / "tokens"), "--environment", "prod"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("STEPWELL_")}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*line, *more], stdout=subprocess.PIPE, stderr=log, env=env, cwd=ROOT)
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Site(said["url"], process.pid, {role: text for role, (text, _) in made.items()})
        finally:
            process.kill()  # one of its runs never ends, and an orderly stop would wait for it
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()


def sign_in(context: BrowserContext, site: Site, role: Role) -> None:
    """Give the pages of a context the session of a role, which they share with other contexts."""
    if (role.value, site.url) not in _COOKIES:
        headers = {"x-stepwell-page": "1", "origin": site.url}
        answer = context.request.post(f"{site.url}/api/session", data={"token": site.tokens[role]}, headers=headers)
        assert answer.ok, answer.text()
        _COOKIES[role.value, site.url] = context.cookies()
    context.add_cookies(_COOKIES[role.value, site.url])


_COOKIES: Final[dict[tuple[str, str], Any]] = {}
