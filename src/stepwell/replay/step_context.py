"""`StepContext`: what a step body may know about itself, and how a long one says how far it has come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, overload

from stepwell.codec.base import ANY
from stepwell.errors import InvalidOptionError, OutsideStepError
from stepwell.replay.step_streams import StepStream, open_step_stream
from stepwell.replay.suspend import StepYield

if TYPE_CHECKING:
    from stepwell.replay.step_streams import StreamWriter

T = TypeVar("T")


class Link(Protocol):
    """A running attempt, as its body may talk to it from any thread. It says no once the attempt is over."""

    @property
    def is_cancelled(self) -> bool: ...

    def check(self, verb: str) -> None: ...
    def read(self, hint: Any) -> Any: ...
    def keep(self, state: Any, *, is_last: bool = False) -> None: ...
    def keep_durably(self, state: Any) -> Awaitable[None]: ...
    def report(self, done: int, total: int | None, unit: str, note: str) -> None: ...
    def count(self, *, rows: int, bytes: int) -> None: ...
    def should_yield(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class StepContext:
    """Given to a body whose first parameter is annotated with it.

    `idempotency_key` is the same for every attempt at this step of this run, also after a rewind, and for nothing else.
    The body may run more than once: a payment provider that is given the key, and knows it still, acts once.

    A long step says how far it has come with `checkpoint` or `heartbeat`, and finds that in `state` when it is run
    again: after a crash, a failed attempt, or `yield_`. Every method may be called from any thread.
    """

    run_id: str
    workflow: str
    path: str
    attempt: int
    is_final_attempt: bool
    idempotency_key: str
    _link: Link | None = field(default=None, repr=False, compare=False)
    _emit: Callable[[str, Any], None] | None = field(default=None, repr=False, compare=False)
    _writer: StreamWriter | None = field(default=None, repr=False, compare=False)

    # --- how far it has come ---

    @property
    def state(self) -> Any:
        """What was kept last, as plain JSON values; None if nothing was."""
        return self._attempt("state").read(ANY)

    @overload
    def state_as(self, kind: type[T]) -> T | None: ...
    @overload
    def state_as(self, kind: type[T], default: T) -> T: ...
    def state_as(self, kind: type[T], default: T | None = None) -> T | None:
        """What was kept last, as this type; the default if nothing was. Raises `InvalidInputError` if it does not fit.

        Not promised: that `None` as a state and no state at all can be told apart.
        """
        found: T | None = self._attempt("state_as").read(kind)
        return default if found is None else found

    def heartbeat(self, state: Any = None) -> None:
        """Keep a state soon: it goes to the store within a second, and only the latest one. Cheap.

        An attempt that fails keeps the latest in any case; a crash may lose what the store has not confirmed. Without
        a state it says only that the body is alive. Raises `CancelledError` if nobody wants the attempt any more.
        """
        self._attempt("heartbeat").keep(state)

    def checkpoint(self, state: Any) -> Awaitable[None]:
        """Keep a state now. Await it in an `async def` body: it is durable then. In a thread it is when this returns.

        Raises `UnserialisableError` for a state that cannot be stored, and `CancelledError` if the run belongs to
        another worker now: what it was given is not kept then, and the body should stop.
        """
        return self._attempt("checkpoint").keep_durably(state)

    def progress(self, done: int, total: int | None = None, *, unit: str = "", note: str = "") -> None:
        """Tell people how far it is: shown by `engine.status`, `stepwell show` and `stepwell why`. Written at most once
        a second, so it may be called for every row.
        """
        self._attempt("progress").report(done, total, unit, note)

    # --- letting others go first ---

    def count(self, *, rows: int = 0, bytes: int = 0) -> None:
        """Count what was worked off against the step's `budget`."""
        self._attempt("count").count(rows=rows, bytes=bytes)

    def should_yield(self) -> bool:
        """Whether it is time to give the slot back: the budget is nearly used, the worker is about to leave, its lease
        is near its end, or nobody wants the result any more.
        """
        return self._attempt("should_yield").should_yield()

    def yield_(self, state: Any) -> NoReturn:
        """End here, and go on later with this state: the slot is given back, and others go first. Not a failed attempt.

        It never returns. What it raises is no `Exception`, so `except Exception` does not catch it; `finally` runs.
        """
        self._attempt("yield_").keep(state, is_last=True)
        raise StepYield

    @property
    def cancelled(self) -> bool:
        """Whether the body should stop: the run is being cancelled, its branch has lost, its time is over, or its
        worker has lost the run. An `async def` body is cancelled besides; a body in a thread has to look here.
        """
        return self._link is None or self._link.is_cancelled

    # --- to the outside ---

    def emit(self, event: str, payload: Any = None) -> None:
        """Emit an event with this step: published once its result is recorded, and not at all if this attempt fails.

        Raises at once if the name is none, or if the payload cannot be encoded, and `OutsideStepError` after the body
        has ended.
        """
        if self._emit is None:
            raise InvalidOptionError(
                f"step {self.path} cannot emit {event!r:.120} from here",
                where=self.path,
                why="its body runs in a process of its own, which only hands back its result",
                fix='emit with ctx.emit(...) after the step, or its result with @step(emits="...")',
            )
        self._emit(event, payload)

    def stream(self, name: str) -> StepStream:
        """A stream of this run, to append to while the body runs; see `docs/streams.md`."""
        return open_step_stream(self._writer, self.path, name)

    def _attempt(self, verb: str) -> Link:
        if self._link is None:
            raise outside_step(verb, self.path)
        return self._link


def outside_step(verb: str, path: str) -> OutsideStepError:
    """A context was used where no attempt of its step runs."""
    return OutsideStepError(
        f"`{verb}` of the context of step {path} was used outside of that step",
        where=path,
        why="it works only while the step's own body runs, in the worker's process: not after the body has ended, not "
        'in a body with isolate="process", and not in a direct call of the function',
        fix="use it inside the body, and hand over plain values to what goes on longer",
    )
