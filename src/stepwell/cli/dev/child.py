"""The worker of `stepwell dev`, in a process of its own. It obeys orders on its standard input, and ends with it.

Orders and reports are JSON objects, one per line. The output of the author's code goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any, Final

import msgspec

from stepwell.app import App
from stepwell.cli.dev.clock import SkippedClock, skipping_environment
from stepwell.cli.dev.outlines import outline
from stepwell.cli.dev.samples import sample_start
from stepwell.cli.dev.sources import Module, load_kept_app, loaded_modules
from stepwell.clock import Span
from stepwell.config import WorkerSettings
from stepwell.engine.catalogue import describe_workflow
from stepwell.engine.retention import Retention
from stepwell.environment import start_watcher
from stepwell.replay.bodies import Body
from stepwell.setting_sources import read_settings
from stepwell.wiring import Engine

DEV_KEEPS: Final = "30d"  # ended runs, unless the App says otherwise
GRACE_SECONDS: Final = 10.0  # for running steps, when the worker is stopped
BROKEN: Final = 3  # the exit code if the application cannot be loaded


class FailedOnPurpose(Exception):  # noqa: N818  people see the name
    """Raised by the step that `f` made fail."""


class Fault:
    """Makes the next body of one step fail."""

    def __init__(self) -> None:
        self._path: str | None = None  # "" for any step

    def ask(self, path: str) -> None:
        """Make the next body of this step fail; with an empty path, of any step."""
        self._path = path

    def apply(self, body: Body, path: str) -> bool:
        """Make a body fail if it is the chosen one; whether it is."""
        if self._path is None or (self._path and self._path not in (path, path.rpartition("/")[2])):
            return False
        self._path = None

        def fail(*_: Any, **__: Any) -> Any:
            raise FailedOnPurpose("failed on purpose, by the key f of stepwell dev")

        async def fail_soon(*_: Any, **__: Any) -> Any:
            fail()

        body.fn = fail_soon if body.is_async else fail
        return True


class Orders:
    """Orders from standard input, read in a thread: a step that blocks the loop cannot keep the process alive."""

    def __init__(self) -> None:
        self._early: list[dict[str, Any]] = []
        self._hand_over: Callable[[dict[str, Any]], None] = self._early.append
        self._lock = threading.Lock()
        start_watcher(self._read, name="stepwell-dev-orders")

    def hand_to(self, hand_over: Callable[[dict[str, Any]], None]) -> None:
        """Pass every order on, in sequence, also the orders that came before this call."""
        with self._lock:
            for order in self._early:
                hand_over(order)
            self._hand_over = hand_over

    def _read(self) -> None:
        for line in sys.stdin:
            with self._lock:
                self._hand_over(json.loads(line))
        os._exit(1)  # the supervisor is gone, so this worker ends too


class Child:
    """Executes runs, and pauses, resumes and stops by order."""

    def __init__(self, told: dict[str, Any], app: App, say: Callable[..., None]) -> None:
        settings = (app.settings or WorkerSettings()).merged(name=told["name"])
        retention = app.retention or Retention(DEV_KEEPS)
        self._app = replace(app, url=told["db"], settings=settings, retention=retention)
        self._threads_max = read_settings(settings).threads_max
        self._say = say
        self._clock = SkippedClock(Span(told["skipped"]))
        self._fault = Fault()
        self._engine: Engine | None = None
        self._orders: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def serve(self, orders: Orders) -> None:
        """Carry out orders until `stop`."""
        loop = asyncio.get_running_loop()
        await self._open()

        def hand_over(order: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(self._orders.put_nowait, order)

        orders.hand_to(hand_over)
        self._say("ready")
        while True:
            order = await self._orders.get()
            match order["do"]:
                case "stop":
                    return await self._close()
                case "pause":
                    await self._close()
                    self._say("paused")
                case "resume":
                    self._clock.skip_to(Span(order["skipped"]))
                    await self._open()
                    self._say("resumed")
                case "fail":
                    self._fault.ask(order["path"])
                case _:
                    continue

    async def _open(self) -> None:
        if self._engine is None:
            machine = skipping_environment(self._clock, threads_max=self._threads_max)
            environment = replace(machine, on_body=lambda body, _: self._began(body))
            self._engine = await Engine(self._app, worker=True, environment=environment).open()

    async def _close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.shutdown(GRACE_SECONDS)

    def _began(self, body: Body) -> None:
        """A body is about to run. The supervisor counts these to know which bodies ran again after a crash."""
        path = body.names.text(body.location)
        is_fault = self._fault.apply(body, path)
        self._say("began", run_id=body.run.run_id, path=path, attempt=body.attempt, is_fault=is_fault)


def main() -> int:
    """Serve until the order `stop`, or until standard input is closed."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    told = json.loads(sys.stdin.readline())
    say, orders = _sayer(channel), Orders()
    kept = [Module(*each) for each in told["kept"]]
    try:
        app = load_kept_app(told["app"], kept)
    except Exception as error:  # noqa: BLE001  importing runs the author's code
        from stepwell.cli.errors import describe

        say("broken", error=describe(error)[0])
        return BROKEN
    workflows = list(app.workflows)
    say(
        "loaded",
        has_codec=app.codec is not None or app.offload is not None,
        workflows=[f"{each.name} v{each.version}" for each in workflows],
        definitions=[each.definition for each in workflows],
        samples=[sample_start(each) for each in workflows],
        catalogue=[msgspec.to_builtins(describe_workflow(each), enc_hook=str) for each in workflows],
        outline=outline(workflows, {module.file: module.source for module in kept}),
        modules=loaded_modules(told["app"], kept),
    )
    try:
        asyncio.run(Child(told, app, say).serve(orders))
    except Exception as error:  # noqa: BLE001  the supervisor reports it
        from stepwell.cli.errors import describe

        say("broken", error=describe(error)[0])
        return BROKEN
    return 0


def _sayer(channel: IO[str]) -> Callable[..., None]:
    def say(what: str, **facts: Any) -> None:
        try:
            channel.write(json.dumps({"say": what, **facts}) + "\n")
            channel.flush()
        except OSError:
            os._exit(1)  # the supervisor is gone

    return say


if __name__ == "__main__":
    sys.exit(main())
