"""`StepContext`: what a step body knows about itself, and how a long step reports its progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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
    """A running attempt; its body may call these from any thread. They raise once the attempt is over."""

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
    """The first argument of a body whose first parameter has this annotation.

    `idempotency_key` is the same for every attempt at this step of this run, also after a rewind, and for nothing else.
    The body may run more than once: a payment provider that gets the key, and still knows it, acts once. `headers` are
    those that the run was started with.

    A long step saves its position with `checkpoint` or `heartbeat`, and finds it in `state` when it runs again: after a
    crash, a failed attempt, or `yield_`. Every method may be called from any thread.
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
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    # --- progress ---

    @property
    def state(self) -> Any:
        """The last saved state, as plain JSON values; None if there is none."""
        return self._attempt("state").read(ANY)

    @overload
    def state_as(self, kind: type[T]) -> T | None: ...
    @overload
    def state_as(self, kind: type[T], default: T) -> T: ...
    def state_as(self, kind: type[T], default: T | None = None) -> T | None:
        """The last saved state, as this type; the default if there is none. Raises `InvalidInputError` if it does not
        fit.

        Not promised: a difference between a saved `None` and no state at all.
        """
        found: T | None = self._attempt("state_as").read(kind)
        return default if found is None else found

    def heartbeat(self, state: Any = None) -> None:
        """Save a state soon: the latest one is written to the store within a second. This is cheap.

        A failed attempt keeps the latest state in any case; a crash may lose a state that the store has not confirmed.
        Without a state it reports only that the body is alive. Raises `CancelledError` if the attempt is no longer
        wanted.
        """
        self._attempt("heartbeat").keep(state)

    def checkpoint(self, state: Any) -> Awaitable[None]:
        """Save a state now. In an `async def` body, await it: then it is durable. In a thread, it is when this returns.

        Raises `UnserialisableError` for a state that cannot be stored, and `CancelledError` if another worker owns the
        run now: then the state is not saved, and the body should stop.
        """
        return self._attempt("checkpoint").keep_durably(state)

    def progress(self, done: int, total: int | None = None, *, unit: str = "", note: str = "") -> None:
        """Report progress to people: `engine.status`, `stepwell show` and `stepwell why` show it. Written at most once
        a second, so it may be called for every row.
        """
        self._attempt("progress").report(done, total, unit, note)

    # --- letting other runs go first ---

    def count(self, *, rows: int = 0, bytes: int = 0) -> None:
        """Count processed rows and bytes against the step's `budget`."""
        self._attempt("count").count(rows=rows, bytes=bytes)

    def should_yield(self) -> bool:
        """Whether it is time to give the slot back: the budget is nearly used, the worker is shutting down, its lease
        is about to expire, or the result is no longer wanted.
        """
        return self._attempt("should_yield").should_yield()

    def yield_(self, state: Any) -> NoReturn:
        """End here, and continue later with this state. The slot is given back, and other runs go first. This is not a
        failed attempt.

        It never returns. It raises a `BaseException`, which `except Exception` does not catch; `finally` blocks run.
        """
        self._attempt("yield_").keep(state, is_last=True)
        raise StepYield

    @property
    def cancelled(self) -> bool:
        """Whether the body should stop: the run is being cancelled, its branch has lost, its timeout has passed, or its
        worker has lost the run. An `async def` body is also cancelled; a body in a thread must check this.
        """
        return self._link is None or self._link.is_cancelled

    # --- to the outside ---

    def emit(self, event: str, payload: Any = None) -> None:
        """Emit an event with this step: published once its result is recorded, and not at all if this attempt fails.

        Raises at once if the name is invalid or the payload cannot be encoded, and `OutsideStepError` after the body
        has ended.
        """
        if self._emit is None:
            raise InvalidOptionError(
                f"step {self.path} cannot emit {event!r:.120} from here",
                where=self.path,
                why="its body runs in a process of its own, which returns only its result",
                fix='call ctx.emit(...) after the step, or emit its result with @step(emits="...")',
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
    """The error of a context that was used while no attempt of its step runs."""
    return OutsideStepError(
        f"`{verb}` of the context of step {path} was used outside that step",
        where=path,
        why="it works only while the step's own body runs, in the worker's process: not after the body has ended, not "
        'in a body with isolate="process", and not in a direct call of the function',
        fix="use it inside the body, and pass plain values to code that runs longer",
    )
