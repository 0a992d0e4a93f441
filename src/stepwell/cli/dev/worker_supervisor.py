"""The one worker of a supervisor, and the code that it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from stepwell.cli.dev.clock import SkippedClock
from stepwell.cli.dev.outlines import Outline
from stepwell.cli.dev.processes import WorkerProcess
from stepwell.cli.dev.recovery import Bodies
from stepwell.cli.dev.reloads import Change, Watch
from stepwell.cli.dev.sources import Module
from stepwell.cli.modules import split_name
from stepwell.engine.catalogue import WorkflowFacts
from stepwell.environment import Executor

_LOAD_SECONDS: Final = 120.0  # for the author's imports
_QUICK_SECONDS: Final = 3.0  # a worker that dies sooner than this is restarted only a few times
_QUICK_MAX: Final = 3

Tell = Callable[..., None]  # name, words and facts of an event


@dataclass(slots=True)
class Code:
    """The code that runs, as its worker reported it."""

    workflows: Sequence[str] = ()
    definitions: Sequence[str] = ()
    samples: Sequence[str] = ()
    modules: Sequence[Module] = ()
    outline: Outline | None = None
    has_codec: bool = False  # its App has a codec or offloads values
    catalogue: Sequence[WorkflowFacts] = ()


class WorkerSupervisor:
    """Starts, pauses and stops a worker, and replaces it when it dies."""

    def __init__(
        self,
        app: str,
        first: dict[str, str],
        clock: SkippedClock,
        executor: Executor,
        tell: Tell,
        missed: Callable[[], None],
    ) -> None:
        self.bodies = Bodies()
        self.code = Code()
        self.watch = Watch()
        self.held: Change | None = None  # saved code that is not loaded
        self.error: dict[str, Any] | None = None  # why the worker could not start
        self.is_paused = False
        self.is_ending = False
        self.on_code: Callable[[], None] = lambda: None  # called when a worker has loaded its code
        self._app = app
        self._first = first
        self._clock = clock
        self._executor = executor
        self._tell = tell
        self._missed = missed  # called when a worker died and needs a replacement
        self._worker: WorkerProcess | None = None
        self._began_at = 0.0
        self._quick_deaths = 0

    @property
    def pid(self) -> int | None:
        """The process id of the worker; None without a worker."""
        return None if self._worker is None else self._worker.pid

    @property
    def is_there(self) -> bool:
        """Whether a worker is running."""
        return self._worker is not None and self._worker.is_alive

    @property
    def app_file(self) -> str:
        """The file that the name of the app points to."""
        name = split_name(self._app)
        return str(Path(name.module if name.is_file else f"{name.module.replace('.', '/')}.py").resolve())

    async def start(self, *, is_anew: bool = False) -> bool:
        """Start a worker, and wait until it serves or has reported why it cannot.

        It loads the files. While a change is held back it gets the old code instead, unless `is_anew`.
        """
        if is_anew:
            self.held = None
        kept = self.code.modules if self.held is not None else ()
        self.error, self.is_paused = None, False
        first = {**self._first, "app": self._app, "skipped": self._clock.skipped}
        worker = self._worker = await WorkerProcess.start(first, kept, self._executor, self._heard, self._printed)
        self._began_at = self._clock.monotonic()
        self._executor.spawn(self._mourn(worker), name="stepwell-dev-mourner")
        is_ready = await worker.until("ready", seconds=_LOAD_SECONDS)
        if self.held is None:
            self.watch.follow([module.file for module in self.code.modules] or [self.app_file])
        return is_ready

    async def leave(self, end: Callable[[WorkerProcess], Awaitable[None]]) -> None:
        """End the worker, by stopping or killing it."""
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                await end(worker)
            except asyncio.CancelledError:
                await worker.kill()
                raise

    async def halt(self) -> bool:
        """Pause the worker between two steps; it gives up its lease. Whether it is paused."""
        if self._worker is not None and not self.is_paused:
            self._worker.tell({"do": "pause"})
            self.is_paused = await self._worker.until("paused")
        return self.is_paused

    async def resume(self) -> None:
        """Let a paused worker claim again."""
        if self._worker is not None:
            self._worker.tell({"do": "resume", "skipped": self._clock.skipped})
            self.is_paused = not await self._worker.until("resumed")

    def fail_next(self, path: str) -> None:
        """Make the next body of a step fail; with an empty path, of any step."""
        if self._worker is not None:
            self._worker.tell({"do": "fail", "path": path})

    def forgive(self) -> None:
        """Forget how often the worker died: a person starts it by hand."""
        self._quick_deaths = 0

    def _heard(self, said: dict[str, Any]) -> None:
        match said["say"]:
            case "began":
                self.bodies.began(said["run_id"], said["path"], said["attempt"])
                if said["is_fault"]:
                    self._tell("fault", f"[f] {said['path']} fails now, once, on purpose", path=said["path"])
            case "loaded":
                outline = {name: [(kind, one) for kind, one in each] for name, each in said["outline"].items()}
                modules = [Module(*each) for each in said["modules"]]
                self.code = Code(
                    said["workflows"],
                    said["definitions"],
                    said["samples"],
                    modules,
                    outline,
                    said["has_codec"],
                    msgspec.convert(said["catalogue"], list[WorkflowFacts]),
                )
                self.on_code()
            case "broken":
                self.error = said["error"]
            case _:
                pass

    def _printed(self, line: str) -> None:
        self._tell("output", f"  | {line}", text=line)

    async def _mourn(self, worker: WorkerProcess) -> None:
        """Replace a worker that ends by itself, unless it keeps dying."""
        code = await worker.ended()
        if worker is not self._worker or self.is_ending:
            return
        self._worker = None
        if self.error is not None:
            return
        is_quick = self._clock.monotonic() - self._began_at < _QUICK_SECONDS
        self._quick_deaths = self._quick_deaths + 1 if is_quick else 0
        cause = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        if self._quick_deaths >= _QUICK_MAX:
            self._tell("died", f"✕ the worker ended {cause} again; press r to start it", code=code)
            return
        # Not retired: by expired leases the store counts the runs that kill their worker.
        self._tell(
            "died", f"✕ the worker ended {cause}. Starting another; it takes over the runs within 10 s", code=code
        )
        self._missed()
