"""Work that a workflow asks for and that happens outside of it: step bodies, and what came of them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

from stepwell.clock import Instant, Span
from stepwell.codec.base import ANY, JSON_V1, Codec, Payload, Place, event_row
from stepwell.errors import InvalidOptionError
from stepwell.ids import EventId
from stepwell.model.entries import Entry, Progress
from stepwell.model.locations import Location, Names
from stepwell.model.outbox import check_event_name, derived_event_id
from stepwell.model.runs import Run
from stepwell.replay.budgets import Budget
from stepwell.replay.step_context import Link, StepContext
from stepwell.replay.step_streams import Outlet, StreamWriter


@dataclass(slots=True, eq=False)
class Body:
    """One attempt at a step, to be run once everything before it is durable."""

    run: Run
    names: Names
    location: Location
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_async: bool
    takes_context: bool
    timeout: Span | None
    attempt: int
    is_final_attempt: bool
    settled: asyncio.Future[Attempted] = field(repr=False)
    is_unwanted: bool = False  # its branch lost or was cancelled: the result is thrown away
    is_stopping: bool = False  # it was asked to stop; what it gives all the same is recorded
    output: str = ""  # what its process had written when it was killed
    codec: Codec | None = None  # for what it emits, if it takes a context
    emitted: list[tuple[str, Payload]] | tuple[()] = ()  # name and plain JSON, in the order of the body
    outlet: Outlet | None = field(default=None, repr=False)
    begun: frozenset[str] = frozenset()  # the streams that this attempt has appended to
    progress: Progress | None = None  # how far an earlier attempt or turn of it came
    budget: Budget | None = None
    may_yield: bool = True
    is_announced: bool = False  # it is recorded that it begins: who does not begin it now never will
    is_noted: bool = False  # its beginning is recorded, which counts as an attempt once its timeout has passed
    link: Link | None = field(default=None, repr=False)  # while it runs
    # Of a transactional step: its entry, made of its value inside its transaction, and the value as it will be read.
    record: Callable[[Any, Instant], tuple[Entry, Any]] | None = field(default=None, repr=False)

    @property
    def info(self) -> StepContext:
        """What the body may know about itself."""
        run_id, path = self.run.run_id, self.names.text(self.location)
        key = self.names.idempotency_key(run_id, self.location)
        writer = None if self.outlet is None else StreamWriter(self, self.outlet, path)
        if isinstance(self.emitted, tuple):
            self.emitted = []  # made here, on the loop's thread: threads of the body only append
        info = (run_id, self.run.workflow, path, self.attempt, self.is_final_attempt, key)
        return StepContext(*info, _link=self.link, _emit=self.emit, _writer=writer)

    @property
    def place(self) -> tuple[str, str, str, int]:
        """Run, workflow, path and attempt: where what it logs comes from."""
        return self.run.run_id, self.run.workflow, self.names.text(self.location), self.attempt

    def emit(self, event: str, payload: Any) -> None:
        """Keep an event until the step has succeeded. It is encoded now: what its maker changes later is not in it."""
        assert self.codec is not None
        assert isinstance(self.emitted, list)
        if self.link is not None:
            self.link.check("emit")
        name = check_event_name(event)
        path = self.names.text(self.location)
        event_id = derived_event_id(self.run.run_id, self.names.key(self.location), len(self.emitted))
        place = emit_place(self.run, path, event_id)
        self.emitted.append((name, JSON_V1 + self.codec.encode_body(payload, ANY, place)))


def emit_place(run: Run, path: str, event_id: EventId) -> Place:
    """Where the payload of an event belongs."""
    return Place(run.workflow, path, "the event", row=event_row(run.run_id, path, event_id))


@dataclass(slots=True)
class Succeeded:
    """The body returned."""

    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The body was still running at its timeout and was asked to stop; `output` is what its own process had written."""

    after: Span
    output: str = ""


@dataclass(frozen=True, slots=True)
class Yielded:
    """The body gave its slot back, and goes on later."""


@dataclass(slots=True)
class Recorded:
    """The body returned, and its entry is made; that of a transactional step is durable."""

    entry: Entry
    value: Any


Attempted = Succeeded | Raised | TimedOut | Yielded | Recorded


# --- bodies in a process of their own --------------------------------------------------------

Isolation = Literal["process"]
Size = str | int

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)B\s*")
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE_MIN: Final = 1_000_000
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?|\*")


class Isolated(functools.partial[Any]):
    """A function that runs in a process of its own when it is a step's body; called directly, it is that function.

    `module` and `file` say where another process finds it. They are taken from the function itself, in this process.
    """

    module: str
    file: str
    memory_max: int | None
    env: tuple[str, ...]


def isolated(
    fn: Callable[..., Any], isolate: str | None, memory_max: Size | None, env: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """The body that a step with these options has. Raises `InvalidOptionError` for one that cannot be isolated."""
    fn = fn.func if isinstance(fn, Isolated) else fn
    name = getattr(fn, "__qualname__", repr(fn))
    if isolate is None and memory_max is None and not env:
        return fn
    if isolate != "process":
        alone = "env" if memory_max is None else "memory_max"
        title = f"isolate of step {name!r} is {isolate!r}" if isolate else f"step {name!r} has {alone} alone"
        why = "" if isolate else "a body has memory and variables of its own only in a process of its own"
        raise InvalidOptionError(title, where=name, why=why, fix='write isolate="process"')
    bytes_max = None if memory_max is None else _bytes_of(memory_max, name)
    reason = _why_not(fn, name)
    if reason is not None:
        raise InvalidOptionError(
            f"step {name!r} cannot run in a process of its own",
            where=name,
            why=reason,
            fix="use a function at the top of a module, and hand over by arguments what it needs",
        )
    body = Isolated(fn)
    functools.update_wrapper(body, fn)
    home = inspect.unwrap(fn).__globals__
    body.module = _spec_name(home) if fn.__module__ == "__main__" else fn.__module__
    body.file = str(Path(home["__file__"]).resolve()) if home.get("__file__") else ""
    body.memory_max = bytes_max
    body.env = _checked_env(env, name)
    return body


def _why_not(fn: Callable[..., Any], name: str) -> str | None:
    """Why another process could not find this function; None if it can."""
    if os.name != "posix":
        return "process groups and their signals are needed, and this system has none"
    if not inspect.isfunction(fn):
        return f"it is a {type(fn).__name__}: only a plain function is the same in every process"
    if "<lambda>" in name or "<locals>" in name:
        return "a lambda or a function inside a function exists in this process only: its module has no name for it"
    home = inspect.unwrap(fn).__globals__
    if (fn.__module__, _spec_name(home)) == ("__main__", "__main__") and not Path(home.get("__file__", "")).is_file():
        return "it was typed in, and there is no file that another process could read it from"
    return None


def _spec_name(home: dict[str, Any]) -> str:
    """The name of the module that `python -m` started; `__main__` for a script."""
    return str(getattr(home.get("__spec__"), "name", "__main__"))


def _checked_env(env: tuple[Any, ...], name: str) -> tuple[str, ...]:
    for each in env:
        if not isinstance(each, str) or not _VARIABLE.fullmatch(each):
            raise InvalidOptionError(
                f"env of step {name!r} has {each!r}",
                where=name,
                why="it has names of environment variables; a * at the end stands for any rest",
                fix='write for example env=["DATABASE_URL", "AWS_*"]',
            )
    return env


def _bytes_of(size: Size, name: str) -> int:
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is not None:
        number, unit, binary = match.groups()
        count = int(Decimal(number) * (1024 if binary else 1000) ** _POWERS[unit.upper()])
    else:
        count = size if isinstance(size, int) and not isinstance(size, bool) else 0
    if count < _SIZE_MIN:
        raise InvalidOptionError(
            f"memory_max of step {name!r} is {size!r}",
            where=name,
            why="it is a size of at least 1 MB",
            fix='write for example memory_max="512MB", or a number of bytes',
        )
    return count
