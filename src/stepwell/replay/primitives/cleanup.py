"""A block whose clean-up runs on every way out of it: durably, and also if the run is cancelled inside of it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final

from stepwell.errors import InvalidOptionError, StepFailed
from stepwell.model.locations import begun
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.background import CLEANUP, Background
from stepwell.replay.operations import Operation
from stepwell.replay.parameters import takes
from stepwell.replay.primitives.effect import bind_effect, bound_arguments, describe_effect
from stepwell.replay.primitives.step import run_step
from stepwell.replay.scopes import Scope
from stepwell.replay.steps import Step
from stepwell.replay.suspend import Suspend

_CONTEXTS: Final = ("Context", "SyncContext")


class Cleanup:
    """A block with a clean-up, entered by `async with`. The clean-up is a step."""

    __slots__ = ("_args", "_begun", "_entering", "_entry", "_location", "_scope", "_step")

    def __init__(self, scope: Scope, name: str, step: Step[..., Any], args: tuple[Any, ...], kwargs: Any) -> None:
        _check(step)
        self._scope = scope
        self._step = step
        self._args = tuple(bound_arguments("ctx.cleanup", step, args, kwargs))
        self._location, self._entry = scope.place(name, EntryKind.STEP)
        self._begun = scope.enter(begun(self._location), EntryKind.BEGUN)
        self._entering: Operation[Cleanup] = Operation(scope.turn, begun(self._location), self._enter)

    def __deepcopy__(self, _: dict[int, Any]) -> Cleanup:
        """Itself: a `def` workflow gets the same block each time its function runs."""
        return self

    # --- for the context of plain functions ---

    @property
    def entering(self) -> Operation[Cleanup]:
        """Enter the block."""
        return self._entering

    def leaving(self, error: BaseException | None) -> Operation[None]:
        """Leave the block, because of an error or not."""
        return Operation(self._scope.turn, self._location, lambda: self._leave(error))

    # --- inside ---

    async def __aenter__(self) -> None:
        await self._entering

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        turn = self._scope.turn
        if isinstance(error, (Suspend, GeneratorExit)) or turn.is_closed or turn.problem is not None:
            return  # the code is torn down, and comes here again
        await self._leave(error)

    async def _enter(self) -> Cleanup:
        turn, at, entry = self._scope.turn, begun(self._location), self._begun
        bind_effect(turn, at, self._step)
        if entry is None:
            undo = describe_effect(turn, at, self._step, self._args)
            await turn.order.reach_end()
            entry = turn.journal.record(at, EntryKind.BEGUN, EntryStatus.DONE, CLEANUP, turn.now, undo=undo)
        else:
            await turn.order.reach(entry)
        self._scope.note_result(entry, uses_signals=False)
        self._background.enter(self._location, self._scope)
        return self

    async def _leave(self, error: BaseException | None) -> None:
        background = self._background
        if not self._scope.is_open:
            return  # `Background` cleans up
        if isinstance(error, asyncio.CancelledError):
            background.leave(self._location)  # its task must end now: `Background` cleans up
            return
        try:
            await run_step(self._scope, self._location, self._entry, self._step, self._args, {})
        except StepFailed:
            background.raised(self._location)
            raise
        finally:
            background.leave(self._location)

    @property
    def _background(self) -> Background:
        return self._scope.turn.background_work


def _check(step: Step[..., Any]) -> None:
    name = step.name
    if any(takes(step.signature, context) for context in _CONTEXTS):
        raise InvalidOptionError(
            f"the clean-up {name!r} takes a context",
            where=name,
            why="a clean-up is one step, so that it can run wherever the code was stopped",
            fix=f"pass a function without a context; for more steps write ctx.compensate_with({name}, ...)",
        )
    if step.options_.compensate is not None or step.takes_transaction:
        raise InvalidOptionError(
            f"the clean-up {name!r} is a step with a compensation or a transaction",
            where=name,
            why="a clean-up is not undone, and a rollback runs it as a compensation",
            fix="pass the function itself, or a step without compensate= and transaction=",
        )
