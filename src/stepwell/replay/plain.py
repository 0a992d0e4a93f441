"""Plain functions as workflow code: they stand still on a strand, and give it up whenever it is needed elsewhere.

To the turn, a plain function is one coroutine: it awaits the operations that the function asks for, one after the
other. The function itself runs on a strand, which is a thread that runs only while the turn waits for it. While an
operation is awaited the strand can be taken away at any time: `Suspend` unwinds the function, and when the answer is
there the function is run again from its beginning, on any strand, and is told what it was told before. Nothing of
that reaches the turn or the history, so a run that waits needs no thread, and any number of them share a few.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import enum
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

from stepwell.environment import Strand
from stepwell.errors import NonDeterministicError
from stepwell.replay.operations import Operation
from stepwell.replay.suspend import Suspend
from stepwell.replay.turn import Turn

T = TypeVar("T")

_UNCHANGING: Final = (NoneType, str, int, float, bytes, date, time, timedelta, Decimal, UUID, enum.Enum)


class Told(NamedTuple):
    """What the function learnt from one call of its context."""

    asked: str
    value: Any
    error: BaseException | None = None


class PlainCode:
    """One call of a plain function as workflow code, from its beginning to its end."""

    def __init__(self, turn: Turn, call: Callable[[PlainCode], Any]) -> None:
        self._turn = turn
        self._strands = turn.strands
        self._call = call
        self._strand: Strand | None = None
        self._told: list[Told] = []  # everything so far, with values as they were before the function had them
        self._at = 0  # how much of that this run of the function has heard
        self._asked: Operation[Any] | None = None
        self._asking = ""
        self._answer = Told("", None)
        self._ended: Told | None = None
        self._is_leaving = False

    @property
    def cost(self) -> int:
        """How much the function has to be told again if it loses its strand."""
        return len(self._told)

    async def run(self) -> Any:
        """Run the function to its end: its value, or what it raised."""
        self._turn.plain[self] = None
        try:
            self._enter()
            while self._ended is None:
                assert self._asked is not None
                operation, self._asked = self._asked, None
                try:
                    told = Told(self._asking, await operation)
                except (Suspend, GeneratorExit):
                    raise
                except BaseException as error:
                    if isinstance(error, asyncio.CancelledError) and self._strand is None:
                        raise  # unwound already: there is nobody left to hear of it
                    told = Told(self._asking, None, error)
                self._tell(told)
        finally:
            self.leave()
            del self._turn.plain[self]
        if self._ended.error is not None:
            raise self._ended.error
        return self._ended.value

    def leave(self) -> None:
        """Unwind the function, so that its `finally` blocks run, and give the strand back."""
        strand = self._strand
        if strand is None or strand.is_current:
            return
        self._is_leaving = True
        if not strand.is_lost:
            strand.resume()
        self._ended = None
        self._give_back()

    # --- inside the function's thread ---

    @property
    def is_catching_up(self) -> bool:
        """Whether the function is being told what it was told before."""
        return self._at < len(self._told)

    def ask(self, what: str, begin: Callable[[], Operation[T]]) -> T:
        """Have the turn await an operation, and wait for what comes of it."""
        if not self._recall(what):
            try:
                operation = begin()
            except BaseException as error:
                self._note(Told(what, None, error))
                raise
            self._asked, self._asking = operation, what
            assert self._strand is not None
            self._strand.pause()
            if self._is_leaving:
                raise Suspend
        return cast("T", self._heard())

    def read(self, what: str, read: Callable[[], T]) -> T:
        """Something that is there at once, and the same when the function is run again."""
        if not self._recall(what):
            try:
                self._note(Told(what, read()))
            except BaseException as error:
                self._note(Told(what, None, error))
                raise
        return cast("T", self._heard())

    def _recall(self, what: str) -> bool:
        """Whether the function was told this before; the answer is ready then."""
        if self._strand is None or not self._strand.is_current:
            raise NonDeterministicError(
                f"ctx was used outside of the function that it belongs to ({what})",
                why="a context belongs to one call of one function; used from another thread or from a branch, the "
                "order of its operations would be another one after a crash",
                fix="use the context that the function or the branch was given; start threads inside steps only",
            )
        if self._is_leaving:
            raise Suspend
        if not self.is_catching_up:
            return False
        told = self._told[self._at]
        if told.asked != what:
            raise self._turn.diverge(_went_elsewhere(told.asked, what))
        self._at += 1
        self._answer = told._replace(value=untouched(told.value))
        return True

    def _heard(self) -> Any:
        answer, self._answer = self._answer, Told("", None)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _note(self, told: Told) -> None:
        self._told.append(told._replace(value=untouched(told.value)))
        self._at += 1
        self._answer = told

    def _main(self) -> None:
        try:
            ended = Told("", self._call(self))
        except BaseException as error:  # noqa: BLE001  whatever the function raises is its outcome
            ended = Told("", None, error)
        if self.is_catching_up and not self._is_leaving:
            ended = Told("", None, self._turn.diverge(_went_elsewhere(self._told[self._at].asked, "its end")))
        self._ended = ended

    # --- inside the turn ---

    def _enter(self) -> None:
        """Run the function from its beginning until it asks for something new or ends."""
        self._at, self._is_leaving = 0, False
        self._strand = self._strands.take(self)
        self._strand.begin(partial(contextvars.copy_context().run, self._main))
        self._paused()

    def _tell(self, told: Told) -> None:
        self._note(told)
        if self._strand is None:
            self._enter()
        else:
            self._strand.resume()
            self._paused()

    def _paused(self) -> None:
        """The function waits for an operation or has ended."""
        if self._ended is not None:
            self._give_back()

    def _give_back(self) -> None:
        self._strand = None
        self._strands.give_back(self)


def untouched(value: T) -> T:
    """A copy that the function cannot change. A value that cannot be copied is shared."""
    if isinstance(value, _UNCHANGING):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  a value's own code may refuse in any way
        return value


def _went_elsewhere(before: str, now: str) -> NonDeterministicError:
    return NonDeterministicError(
        f"run again, the code did something else: {before} before, {now} now",
        why="what it does depends on something else than what its context told it",
        fix="put clocks, randomness, I/O and global state into steps or ctx.once",
    )
