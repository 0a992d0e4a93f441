"""Concurrent branches: started together, each in its own scope, each outcome a value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.codec.signatures import hints_of
from stepwell.errors import InvalidOptionError, ReplayError
from stepwell.model.failures import FailureRecord, is_closing, record_failure
from stepwell.model.locations import Location, check_name, named, subtree
from stepwell.replay.recorded import decode_value, settle_value
from stepwell.replay.scopes import Scope
from stepwell.replay.suspend import ContinueAsNew, Suspend

Branch = Callable[[Any], Awaitable[Any]]  # takes the Context of its scope


@dataclass(frozen=True, slots=True)
class Finished:
    """The branch returned; its value as it is stored."""

    name: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Broken:
    """The branch raised."""

    name: str
    failure: FailureRecord


Settled = Finished | Broken


class Branches:
    """The running branches of one join or race."""

    def __init__(self, scope: Scope, location: Location, branches: Mapping[str, Branch]) -> None:
        self._scope = scope
        self._turn = scope.turn
        self._settled: list[Settled] = []
        self._request: ContinueAsNew | None = None
        self._arrived = scope.turn.loop.create_future()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.scopes: dict[str, Scope] = {}
        for name, branch in branches.items():
            number = self._turn.journal.names.number(check_name(name, what="branch name"))
            inner = self.scopes[name] = scope.below(named(location, number))
            self.tasks[name] = self._turn.loop.create_task(self._settle(name, branch, inner))

    async def _settle(self, name: str, branch: Branch, inner: Scope) -> None:
        """Run one branch to its end; its failure is its result. The end of the turn or of the join passes through."""
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
            self._settled.append(Broken(name, record_failure(error)))
            inner.abandoned()
        if not self._arrived.done():
            self._arrived.set_result(None)

    def _encode(self, branch: Branch, value: Any, inner: Scope) -> bytes:
        # Settled, not only encoded: what its annotation refuses is the branch's failure, not a later divergence.
        place = self._turn.place(inner.location, "the result")
        stored, _ = settle_value(self._turn, value, hints_of(branch).returns, place)
        return stored

    async def next(self) -> Settled:
        """The next branch to end, in the order in which they end."""
        while not self._settled:
            if self._request is not None:
                raise self._request  # it ends the whole run, wherever in it the code asked for that
            self._arrived = self._turn.loop.create_future()
            await self._arrived
        return self._settled.pop(0)

    async def cancel(self) -> None:
        """Cancel what still runs: it can record nothing any more, and what it had recorded is forgotten."""
        self.close()
        # One pass for the cancellation to reach them; a branch that refuses to stop can do nothing any more.
        await asyncio.sleep(0)
        for inner in self.scopes.values():
            if inner.is_closed:
                self._turn.journal.trim(*subtree(inner.location))

    def close(self) -> None:
        """Ask what still runs to stop, and let it record nothing any more."""
        for name, task in self.tasks.items():
            if not task.done():
                self.scopes[name].is_closed = True
                self.scopes[name].abandoned()
                task.cancel()


def is_failure(error: BaseException, inner: Scope) -> bool:
    """Whether what left the code of a branch or item is its own failure. It is not if the code around it has stopped
    it, if the turn is torn down, or if the process is being interrupted.
    """
    if isinstance(error, Exception):
        return True
    if isinstance(error, (Suspend, KeyboardInterrupt)) or is_closing(error):
        return False
    return inner.is_open and not inner.turn.is_closed


def check_branches(kind: str, branches: Mapping[str, Branch]) -> None:
    """Refuse what cannot be run as branches. A join of nothing is done at once; a race needs somebody to win it."""
    if not branches and kind == "race":
        raise InvalidOptionError("a race needs at least one branch")
    for name, branch in branches.items():
        check_name(name, what="branch name")
        if not callable(branch):
            raise InvalidOptionError(
                f"branch {name!r} is not callable", fix="give an async function that takes a context"
            )


def decode_branch(scope: Scope, location: Location, name: str, branch: Branch, value: bytes) -> Any:
    """A branch's recorded result, as its function is annotated; `location` is that of the join or race."""
    inner = named(location, scope.turn.journal.names.number(name))
    return decode_value(scope.turn, inner, value, hints_of(branch).returns)
