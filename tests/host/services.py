"""What can be started and stopped: engines in this process, and commands in processes of their own.

Each has one method: start, have a run acknowledged, and stop while it goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import httpx

from stepwell import Engine, SyncEngine
from stepwell.http import LoopbackAccess, app
from stepwell.http.server import make_server
from tests.host import brief
from tests.host.brief import FLOWS
from tests.servers.ports import HOST

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0
# A process that ends well says nothing of the kind.
_DEFECTS = ("Traceback", "was never", "was destroyed", "Exception ignored", "Fatal Python error")


class Cycle(NamedTuple):
    """One start and stop: how long each took, and which run was acknowledged between."""

    opened: float
    closed: float
    run_id: str


class Service(Protocol):
    """Something that can be started and stopped, by several at once."""

    name: str
    is_process: bool

    async def cycle(self, url: str, number: int) -> Cycle:
        """Start it, have a run acknowledged, and stop it while the run goes on."""
        ...


class EngineService:
    """`Engine` in this loop."""

    name = "engine"
    is_process = False

    async def cycle(self, url: str, number: int) -> Cycle:
        began = time.monotonic()
        async with Engine(url, workflows=FLOWS) as engine:
            opened = time.monotonic()
            run = await engine.start(FLOWS[number % 2], number)
            closing = time.monotonic()
        return Cycle(opened - began, time.monotonic() - closing, run.run_id)


class SyncEngineService:
    """`SyncEngine`, each in a thread of its own."""

    name = "sync engine"
    is_process = False

    async def cycle(self, url: str, number: int) -> Cycle:
        def blocking() -> Cycle:
            began = time.monotonic()
            with SyncEngine(url, workflows=FLOWS) as engine:
                opened = time.monotonic()
                run = engine.start(FLOWS[number % 2], number)
                closing = time.monotonic()
            return Cycle(opened - began, time.monotonic() - closing, run.run_id)

        pool = ThreadPoolExecutor(1)
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, blocking)
        finally:
            pool.shutdown(wait=False)  # one that hangs is counted, and keeps nobody else


class AsgiService:
    """An engine behind a server of its API, in this loop."""

    name = "ASGI server"
    is_process = False

    async def cycle(self, url: str, number: int) -> Cycle:
        began = time.monotonic()
        with socket.create_server((HOST, 0)) as listener:
            async with Engine(url, workflows=FLOWS) as engine:
                server = make_server(app(engine, access=LoopbackAccess()), grace_seconds=1)
                serving = asyncio.ensure_future(server.serve(sockets=[listener]))
                while not server.started:  # noqa: ASYNC110  it has nothing to wait for
                    await asyncio.sleep(0.002)
                opened = time.monotonic()
                run_id = await start_by_http(f"http://{HOST}:{listener.getsockname()[1]}", number)
                closing = time.monotonic()
                server.should_exit = True
                await serving
        return Cycle(opened - began, time.monotonic() - closing, run_id)


class CommandService:
    """A command of `stepwell`, ended by SIGTERM: it must leave with 0 and without a complaint."""

    is_process = True

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder

    async def cycle(self, url: str, number: int) -> Cycle:
        began = time.monotonic()
        log = self._folder / f"{self.name}-{number}.log"
        room = self._folder / f"{self.name}-{number}"
        room.mkdir()
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *self._command(url),
                cwd=room,
                env=self._environment(url),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        try:
            run_id, opened = await self._begin(process, url, number)
            closing = time.monotonic()
            process.terminate()
            _, code = await asyncio.gather(_read_all(process), process.wait())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        said = log.read_text(errors="replace")
        if code != 0 or any(word in said for word in _DEFECTS):
            raise RuntimeError(f"{self.name} left with {code}: {said[-500:]}")
        return Cycle(opened - began, time.monotonic() - closing, run_id)

    def _command(self, url: str) -> list[str]:
        stepwell = [sys.executable, "-m", "stepwell.cli.main"]
        module = str(Path(brief.__file__))
        match self.name:
            case "worker":
                return [*stepwell, "--db", url, "worker", module]
            case "serve":
                return [*stepwell, "--db", url, "serve", module, "--embedded", "--port", "0", "-o", "json"]
            case _:
                return [*stepwell, "dev", module, "--log-format", "json"]

    def _environment(self, url: str) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("STEPWELL_")}
        return own | {"STEPWELL_DB": url, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}

    async def _begin(self, process: asyncio.subprocess.Process, url: str, number: int) -> tuple[str, float]:
        """The run that is acknowledged once it serves, and when it did."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if self.name == "worker":
                opened = time.monotonic()
                async with Engine(url, workflows=FLOWS, worker=False) as client:
                    return (await client.start(FLOWS[number % 2], number)).run_id, opened
            said: dict[str, Any] = json.loads(line)
            if "url" in said:
                return await start_by_http(said["url"], number), time.monotonic()
        raise RuntimeError(f"{self.name} never said that it serves")


async def start_by_http(url: str, number: int) -> str:
    """Start a run; its id."""
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as client:
        answer = await client.post(f"{url}/runs", json={"workflow": FLOWS[number % 2].name, "input": number})
        answer.raise_for_status()
        return str(answer.json()["run"]["run_id"])


async def _read_all(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    await process.stdout.read()
