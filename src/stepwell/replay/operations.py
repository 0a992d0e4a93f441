"""Operations: what `ctx.step(...)`, `ctx.sleep(...)` and the others return."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stepwell.errors import ChildFailed
from stepwell.errors.records import FailureRecord
from stepwell.model.locations import Location

if TYPE_CHECKING:
    from stepwell.model.runs import ChildOutcome
    from stepwell.replay.turn import Turn

T = TypeVar("T", covariant=True)
V = TypeVar("V", covariant=True)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[V]):
    """How a child ended, as data: `ok` with a `value`, or with its status and failure."""

    ok: bool
    value: V | None
    status: str
    failure: FailureRecord | None


class Operation(Coroutine[Any, Any, T]):
    """Something durable to await. Its path was fixed when it was created; it begins when it is first awaited.

    It is a coroutine to asyncio, so `gather`, `create_task` and task groups accept it.
    """

    __slots__ = ("_begin", "_hash", "_inner", "_turn", "location", "number")

    def __init__(self, turn: Turn, location: Location, begin: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.location = location
        self._turn = turn
        self._begin = begin
        self._inner: Coroutine[Any, Any, T] | None = None
        turn.operations = self.number = turn.operations + 1
        self._hash = turn.loop.next_number()  # a set of operations has the same order on every replay
        turn.unawaited[self.number] = self

    def __hash__(self) -> int:
        return self._hash

    def _coroutine(self) -> Coroutine[Any, Any, T]:
        if self._inner is None:
            self._turn.unawaited.pop(self.number, None)
            self._inner = self._begin()
        return self._inner

    def __await__(self) -> Generator[Any, Any, T]:
        if self._inner is None:
            self._turn.unawaited.pop(self.number, None)
            self._inner = self._begin()
        return self._inner.__await__()

    def send(self, value: Any) -> Any:
        """As a coroutine's."""
        return self._coroutine().send(value)

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None) -> Any:
        """As a coroutine's."""
        coroutine = self._coroutine()
        return coroutine.throw(typ) if val is None and tb is None else coroutine.throw(typ, val, tb)

    # What `inspect.getcoroutinestate` asks for; anyio does before it cancels a task.

    @property
    def cr_running(self) -> bool:
        """As a coroutine's."""
        return bool(getattr(self._inner, "cr_running", False))

    @property
    def cr_suspended(self) -> bool:
        """As a coroutine's."""
        return bool(getattr(self._inner, "cr_suspended", False))

    @property
    def cr_frame(self) -> Any:
        """As a coroutine's; before it begins, anything but None."""
        return self if self._inner is None else getattr(self._inner, "cr_frame", None)

    def close(self) -> None:
        """As a coroutine's: an operation that is closed before it begins never begins."""
        self._turn.unawaited.pop(self.number, None)
        if self._inner is not None:
            self._inner.close()


class ChildOperation(Operation[T]):
    """A child to await: directly for its result, or by `outcome()` for how it ended."""

    __slots__ = ("ended", "output_hint")

    def __init__(
        self,
        turn: Turn,
        location: Location,
        begin: Callable[[], Coroutine[Any, Any, T]],
        *,
        ended: Callable[[], Coroutine[Any, Any, ChildOutcome]],
        output_hint: Any,
    ) -> None:
        super().__init__(turn, location, begin)
        self.ended = ended  # waits for its end without recording it, for combined waits
        self.output_hint = output_hint

    def outcome(self) -> Operation[Outcome[T]]:
        """The same child, whose failure is a value instead of an exception."""

        async def run() -> Outcome[T]:
            try:
                return Outcome(True, await self, "completed", None)
            except ChildFailed as error:
                return Outcome(False, None, error.status, error.failure)

        return Operation(self._turn, self.location, run)
