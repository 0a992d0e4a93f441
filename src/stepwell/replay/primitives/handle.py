"""Answer requests while the workflow continues: each in a branch of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Final, Literal, get_args

from stepwell.errors import Failure, InvalidOptionError, NonDeterministicError, ReplayError
from stepwell.model.failures import record_failure
from stepwell.model.locations import iteration
from stepwell.model.states import EntryKind
from stepwell.replay import divergence
from stepwell.replay.branches import Guard, guard_of, is_plain
from stepwell.replay.event_loop import SCOPE
from stepwell.replay.primitives.receive import Message, receive_unchecked
from stepwell.replay.scopes import Scope
from stepwell.replay.signals import Signal, SignalSelection, name_of
from stepwell.replay.suspend import ContinueAsNew, Suspend

AtEnd = Literal["wait", "cancel"]
AT_END: Final = get_args(AtEnd)
Handler = Callable[[Any, Any], Awaitable[Any]]  # takes the Context of its scope, and the payload


class _Validated(Signal[Any]):
    """A signal with a further check, which may depend on what the workflow knows now."""

    def __init__(self, signal: str | Signal[Any], validate: Callable[[Any], object]) -> None:
        super().__init__(name_of(signal), check=validate)
        self._signal = signal if isinstance(signal, Signal) else None

    @property
    def hint(self) -> Any:
        return Any if self._signal is None else self._signal.hint

    @property
    def reply_hint(self) -> Any:
        return Any if self._signal is None else self._signal.reply_hint

    def find_problem(self, payload: Any) -> str | None:
        problem = None if self._signal is None else self._signal.find_problem(payload)
        return problem or super().find_problem(payload)


class Handling:
    """Requests that are answered beside the code of the workflow. `stop()` takes no further ones."""

    __slots__ = ("_at_end", "_branches", "_handler", "_location", "_name", "_scope", "_selection", "_server")

    def __init__(
        self,
        scope: Scope,
        name: str | None,
        signal: str | Signal[Any],
        handler: Handler,
        validate: Callable[[Any], object] | None,
        at_end: AtEnd,
    ) -> None:
        _check(scope, signal, handler, at_end)
        typed = _Validated(signal, validate) if validate is not None else signal
        self._scope = scope
        self._name = name_of(signal)
        self._handler = handler
        self._at_end = at_end
        self._selection = SignalSelection((self._name,), {self._name: typed} if isinstance(typed, Signal) else {})
        self._location, entry = scope.place(name or f"handle {self._name}", EntryKind.JOIN)
        if entry is not None:  # only branches are recorded, below it
            path = scope.turn.journal.names.text(self._location)
            raise scope.turn.diverge(divergence.kind_changed(path, entry.kind, EntryKind.RECEIVE))
        self._branches: dict[asyncio.Task[None], Scope] = {}
        self._server = scope.turn.loop.own_task(self._serve())
        scope.turn.background_work.serve(self)

    def __deepcopy__(self, _: dict[int, Any]) -> Handling:
        """Itself: a `def` workflow gets the same one each time its function runs."""
        return self

    def stop(self) -> None:
        """Take no further requests. Those in progress are still answered."""
        self._server.cancel()

    # --- driven by the background of the turn ---

    @property
    def is_busy(self) -> bool:
        """Whether requests are in progress."""
        return bool(self._branches)

    def end(self) -> None:
        """The code of the workflow has ended."""
        self.stop()
        if self._at_end == "cancel":
            for task, inner in self._branches.items():
                inner.is_closed = True
                inner.abandoned()
                task.cancel()
                self._scope.turn.give_up(inner.location)

    # --- inside ---

    async def _serve(self) -> None:
        turn, number = self._scope.turn, 0
        try:
            while True:
                inner = self._scope.below(iteration(self._location, number))
                location, entry = inner.place(f"{self._name} request", EntryKind.RECEIVE)
                message = await receive_unchecked(inner, location, entry, self._selection)
                number += 1
                task = turn.loop.own_task(self._answer(inner, message))
                self._branches[task] = inner
                task.add_done_callback(self._ended)
        except ReplayError as problem:
            turn.diverge(problem)
        except (Suspend, asyncio.CancelledError):
            pass  # stopped, or torn down

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._branches[task]
        self._scope.turn.background_work.changed()

    async def _answer(self, inner: Scope, message: Message[Any]) -> None:
        turn = inner.turn
        SCOPE.set(inner)
        guard = (
            guard_of(inner, inner.location, "plain", "handler", (self._handler,)) if is_plain(self._handler) else None
        )
        try:
            try:
                value = await self._run(inner, message, guard)
            except (ReplayError, ContinueAsNew, Suspend):
                raise
            except Exception as error:  # noqa: BLE001  the failure of a handler is its answer
                await self._refuse(message, error)
            else:
                if message.wants_reply:
                    await message.reply(value)
            inner.ended()
        except ContinueAsNew:
            turn.diverge(
                NonDeterministicError(
                    f"the handler of {self._name!r} continues as new",
                    where=turn.journal.names.text(inner.location),
                    why="other requests may be in progress, and the code of the workflow goes on",
                    fix="set a variable in the handler, and call ctx.continue_as_new in the code of the workflow",
                )
            )
        except ReplayError as problem:
            turn.diverge(problem)
        except (Suspend, asyncio.CancelledError):
            pass  # cancelled at the end of the workflow, or torn down
        except Exception as error:  # noqa: BLE001  its answer cannot be stored
            turn.background_work.fail(error)

    async def _run(self, inner: Scope, message: Message[Any], guard: Guard | None) -> Any:
        with guard or nullcontext():
            if guard is not None:
                guard.enter()
            value = await self._handler(inner.turn.context(inner), message.payload)
            if guard is not None:
                guard.leave()
                guard.check()
        return value

    async def _refuse(self, message: Message[Any], error: Exception) -> None:
        if not message.wants_reply:
            raise error  # no sender learns of it
        await message.refuse(error.reason if isinstance(error, Failure) else record_failure(error).summary)


def _check(scope: Scope, signal: Any, handler: Any, at_end: str) -> None:
    name = name_of(signal)
    if scope.parent is not None:
        raise InvalidOptionError(
            f"a branch handles {name!r}",
            where=scope.turn.journal.names.text(scope.location),
            why="requests are handled as long as the workflow runs, and a branch, an iteration or a compensation ends "
            "before it",
            fix=f"call ctx.handle({name!r}, ...) with the context of the workflow itself, or receive in a loop here",
        )
    if not callable(handler):
        raise InvalidOptionError(
            f"the handler of {name!r} is {handler!r}",
            where="ctx.handle",
            fix="pass a function that takes a context and the payload",
        )
    if at_end not in AT_END:
        raise InvalidOptionError(f"at_end is {at_end!r}", where=f"ctx.handle({name!r})", fix='use "wait" or "cancel"')
