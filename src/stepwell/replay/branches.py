"""Concurrent branches: started together, each in its own scope; the outcome of each is a value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from stepwell.codec.signatures import hints_of
from stepwell.errors import HistoryDivergedError, InvalidOptionError, ReplayError
from stepwell.errors.records import FailureRecord
from stepwell.model.entries import Entry
from stepwell.model.failures import is_closing
from stepwell.model.locations import Location, check_name, named, subtree
from stepwell.model.states import EntryStatus
from stepwell.replay.captured_variables import WATCHED, BodyKind, VariableWatch, watch_of
from stepwell.replay.event_loop import SCOPE
from stepwell.replay.recorded_errors import record_error
from stepwell.replay.recorded_values import decode_value, settle_value
from stepwell.replay.scopes import Scope
from stepwell.replay.suspend import ContinueAsNew, Suspend
from stepwell.replay.turn import Turn

B = TypeVar("B", bound=Callable[..., Any])

Branch = Callable[[Any], Awaitable[Any]]  # takes the Context of its scope


@dataclass(frozen=True, slots=True)
class Finished:
    """The branch returned; `value` is the encoded result."""

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Broken:
    """The branch raised."""

    name: str
    failure: FailureRecord


Settled = Finished | Broken


class Branches:
    """The running branches of one join or race. With `is_recorded`, all of them are recorded and only run again."""

    def __init__(
        self,
        scope: Scope,
        location: Location,
        branches: Mapping[str, Branch],
        guard: Guard | None = None,
        *,
        is_recorded: bool = False,
    ) -> None:
        self._scope = scope
        self._turn = scope.turn
        self._guard = guard
        self._is_recorded = is_recorded
        self._settled: list[Settled] = []
        self._request: ContinueAsNew | None = None
        self._arrived = scope.turn.loop.own_future()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.scopes: dict[str, Scope] = {}
        for name, branch in branches.items():
            number = self._turn.journal.names.number(check_name(name, what="branch name"))
            inner = self.scopes[name] = scope.below(named(location, number))
            self.tasks[name] = self._turn.loop.own_task(self._settle(name, branch, inner))

    async def _settle(self, name: str, branch: Branch, inner: Scope) -> None:
        """Run one branch to its end; a failure is its result. The end of the turn or of the join is raised."""
        SCOPE.set(inner)
        if self._guard is not None:
            self._guard.enter()
        try:
            value = await branch(self._turn.context(inner))
            self._settled.append(Finished(name, self._encode(branch, value, inner)))
            inner.ended()
        except ReplayError as problem:
            self._turn.diverge(problem)
            raise
        except ContinueAsNew as request:
            self._request = request
        except BaseException as error:
            if not is_failure(error, inner):
                raise
            self._settled.append(Broken(name, record_error(self._turn, error)))
            inner.abandoned(is_recorded=self._is_recorded)
        if not self._arrived.done():
            self._arrived.set_result(None)

    def _encode(self, branch: Branch, value: Any, inner: Scope) -> bytes:
        # Decoded again, too: a value that does not fit the annotation fails the branch now, not a later replay.
        place = self._turn.place(inner.location, "the result")
        stored, _ = settle_value(self._turn, value, hints_of(branch).returns, place)
        return stored

    async def next(self) -> Settled:
        """The next branch to end, in the order in which they end."""
        while not self._settled:
            if self._request is not None:
                raise self._request  # it ends the whole run, whichever branch requested it
            self._arrived = self._turn.loop.own_future()
            await self._arrived
        return self._settled.pop(0)

    async def cancel(self) -> None:
        """Cancel the branches that still run. They can no longer record anything, and their entries are dropped."""
        self.close()
        # One pass, so that the cancellation reaches them. A branch that does not stop can no longer do anything.
        await asyncio.sleep(0)
        if self._guard is not None:
            self._guard.check()  # before any entry is dropped
        for inner in self.scopes.values():
            if inner.is_closed:
                self._turn.journal.trim(*subtree(inner.location))

    def close(self) -> None:
        """Ask the branches that still run to stop, and let them record nothing more."""
        for name, task in self.tasks.items():
            if not task.done():
                self.scopes[name].is_closed = True
                self.scopes[name].abandoned()
                task.cancel()
                self._turn.give_up(self.scopes[name].location)


def is_failure(error: BaseException, inner: Scope) -> bool:
    """Whether an exception that left the code of a branch or item is its own failure.

    It is not if the surrounding code has stopped it, if the turn is torn down, or if the process is interrupted.
    """
    if isinstance(error, Exception):
        return True
    if isinstance(error, (Suspend, KeyboardInterrupt)) or is_closing(error):
        return False
    return inner.is_open and not inner.turn.is_closed


class Guard:
    """Stops the turn if the bodies of an operation change variables outside; a replay would not run them again."""

    __slots__ = ("_kind", "_operation", "_path", "_turn", "_watch")

    def __init__(self, watch: VariableWatch, turn: Turn, location: Location, kind: BodyKind, operation: str) -> None:
        self._watch = watch
        self._turn = turn
        self._kind: BodyKind = kind
        self._operation = operation
        self._path = turn.journal.names.text(location)

    def enter(self) -> None:
        """The calling task begins to run a body."""
        WATCHED.set(self._watch)
        self._watch.begin()

    def leave(self) -> None:
        """The calling task no longer runs a body."""
        self._watch.compare()
        WATCHED.set(self._watch.parent)

    def check_now(self) -> None:
        """Stop the turn if a body has changed something; for a task that runs a body."""
        self._watch.compare()
        self.check()

    def check(self) -> None:
        """Stop the turn if a body has changed something."""
        problem = self._watch.problem(self._kind, self._operation, self._path)
        if problem is not None:
            raise self._turn.diverge(problem)

    def __enter__(self) -> None:
        self._turn.loop.watches += 1

    def __exit__(self, *_: object) -> None:
        self._turn.loop.watches -= 1


def guard_of(
    scope: Scope, location: Location, kind: BodyKind, operation: str, bodies: Iterable[Callable[..., Any]]
) -> Guard | None:
    """A guard over the variables that the bodies capture; None if they capture none."""
    watch = watch_of(bodies, scope.turn.code)
    return None if watch is None else Guard(watch, scope.turn, location, kind, operation)


def mark_plain(branch: B) -> B:
    """Mark a branch as made from a plain function."""
    branch._stepwell_is_plain = True  # type: ignore[attr-defined]
    return branch


def is_plain(branch: Callable[..., Any]) -> bool:
    """Whether a branch is a plain function. It may lose its thread at any wait, and then runs again from the start."""
    return getattr(branch, "_stepwell_is_plain", False) is True


def check_repeated(turn: Turn, entry: Entry, is_failed: bool) -> None:
    """Stop the turn if code that ran again has ended differently than recorded."""
    if is_failed != (entry.status is EntryStatus.FAILED):
        path, word = turn.journal.names.text(entry.location), entry.kind.word
        raise turn.diverge(
            HistoryDivergedError(
                f"the code inside {word} {path} ended differently when it ran again",
                where=path,
                recorded=f"{word} {path} {'returned' if is_failed else 'failed'}",
                now=f"{word} {path} {'fails' if is_failed else 'returns'}",
                kind=word,
                fix="move clocks, randomness, I/O and global state into steps; guard new code with ctx.version",
            )
        )


def check_choice(what: str, given: str, choices: tuple[str, ...]) -> None:
    """Reject an unknown value of an option."""
    if given not in choices:
        raise InvalidOptionError(f"{what} is {given!r}", fix="use " + " or ".join(f'"{choice}"' for choice in choices))


def check_branches(kind: str, branches: Mapping[str, Branch]) -> None:
    """Reject branches that cannot run. A join without branches is done at once; a race needs a winner."""
    if not branches and kind == "race":
        raise InvalidOptionError(
            "a race has no branches",
            why="one of them has to win",
            fix='write: ctx.race("first", {"name": branch, ...})',
        )
    for name, branch in branches.items():
        check_name(name, what="branch name")
        if not callable(branch):
            raise InvalidOptionError(
                f"branch {name!r} is not callable", fix="pass an async function that takes a context"
            )


def decode_branch(scope: Scope, location: Location, name: str, branch: Branch, value: bytes) -> Any:
    """A branch's recorded result, typed by the annotation of its function; `location` is that of the join or race."""
    inner = named(location, scope.turn.journal.names.number(name))
    return decode_value(scope.turn, inner, value, hints_of(branch).returns)
