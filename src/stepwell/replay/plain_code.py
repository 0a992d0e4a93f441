"""Plain functions as workflow code: each runs on a lockstep thread, and gives it up when another one needs it.

To the turn, a plain function is one coroutine: it awaits the operations that the function asks for, one after the
other. The function itself runs on a lockstep thread, which runs only while the turn waits for it. While an operation is
awaited the thread can be taken away at any time: `Suspend` unwinds the function, and when the answer is there the
function is run again from its beginning, on any thread, and is told what it was told before. Nothing of that reaches
the turn or the history, so a run that waits needs no thread, and any number of them share a few.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import enum
import functools
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

from stepwell.environment import LockstepThread
from stepwell.errors import InvalidOptionError, NonDeterministicError
from stepwell.replay.branches import mark_plain
from stepwell.replay.context import Context
from stepwell.replay.operations import Operation
from stepwell.replay.primitives.receive import Message
from stepwell.replay.signals import Signal
from stepwell.replay.steps import Step, is_async
from stepwell.replay.suspend import Suspend
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow

T = TypeVar("T")

_UNCHANGING: Final = (NoneType, str, int, float, bytes, date, time, timedelta, Decimal, UUID, enum.Enum)


class Answer(NamedTuple):
    """What the function learnt from one call of its context."""

    asked: str
    value: Any
    error: BaseException | None = None


class PlainCode:
    """One call of a plain function as workflow code, from its beginning to its end."""

    def __init__(self, turn: Turn, call: Callable[[PlainCode], Any]) -> None:
        self._turn = turn
        self._threads = turn.threads.pool
        self._call = call
        self._thread: LockstepThread | None = None
        self._answers: list[Answer] = []  # everything so far, with values as they were before the function had them
        self._at = 0  # how much of that this run of the function has heard
        self._asked: Operation[Any] | None = None
        self._asking = ""
        self._next_answer = Answer("", None)
        self._ended: Answer | None = None
        self._is_leaving = False

    @property
    def cost(self) -> int:
        """How much the function has to be told again if it loses its thread."""
        return len(self._answers)

    async def run(self) -> Any:
        """Run the function to its end: its value, or what it raised."""
        self._turn.threads.functions[self] = None
        try:
            self._enter()
            while self._ended is None:
                assert self._asked is not None
                operation, self._asked = self._asked, None
                try:
                    answer = Answer(self._asking, await operation)
                except (Suspend, GeneratorExit):
                    raise
                except BaseException as error:
                    if isinstance(error, asyncio.CancelledError) and self._thread is None:
                        raise  # unwound already: there is nobody left to hear of it
                    answer = Answer(self._asking, None, error)
                self._tell(answer)
        finally:
            self.leave()
            del self._turn.threads.functions[self]
        if self._ended.error is not None:
            raise self._ended.error
        return self._ended.value

    def leave(self) -> None:
        """Unwind the function, so that its `finally` blocks run, and give the thread back."""
        thread = self._thread
        if thread is None or thread.is_current:
            return
        self._is_leaving = True
        if not thread.is_lost:
            thread.resume()
        self._ended = None
        self._give_back()

    # --- inside the function's thread ---

    @property
    def is_catching_up(self) -> bool:
        """Whether the function is being told what it was told before."""
        return self._at < len(self._answers)

    def ask(self, what: str, begin: Callable[[], Operation[T]]) -> T:
        """Have the turn await an operation, and wait for what comes of it."""
        if not self._recall(what):
            try:
                operation = begin()
            except BaseException as error:
                self._note(Answer(what, None, error))
                raise
            self._asked, self._asking = operation, what
            assert self._thread is not None
            self._thread.pause()
            if self._is_leaving:
                raise Suspend
        return cast("T", self._heard())

    def read(self, what: str, read: Callable[[], T]) -> T:
        """Something that is there at once, and the same when the function is run again."""
        if not self._recall(what):
            try:
                self._note(Answer(what, read()))
            except BaseException as error:
                self._note(Answer(what, None, error))
                raise
        return cast("T", self._heard())

    def _recall(self, what: str) -> bool:
        """Whether the function was told this before; the answer is ready then."""
        if self._thread is None or not self._thread.is_current:
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
        answer = self._answers[self._at]
        if answer.asked != what:
            raise self._turn.diverge(_went_elsewhere(answer.asked, what))
        self._at += 1
        self._next_answer = answer._replace(value=untouched(answer.value))
        return True

    def _heard(self) -> Any:
        answer, self._next_answer = self._next_answer, Answer("", None)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _note(self, answer: Answer) -> None:
        self._answers.append(answer._replace(value=untouched(answer.value)))
        self._at += 1
        self._next_answer = answer

    def _main(self) -> None:
        try:
            ended = Answer("", self._call(self))
        except BaseException as error:  # noqa: BLE001  whatever the function raises is its outcome
            ended = Answer("", None, error)
        if self.is_catching_up and not self._is_leaving:
            ended = Answer("", None, self._turn.diverge(_went_elsewhere(self._answers[self._at].asked, "its end")))
        self._ended = ended

    # --- inside the turn ---

    def _enter(self) -> None:
        """Run the function from its beginning until it asks for something new or ends."""
        self._at, self._is_leaving = 0, False
        self._thread = self._threads.take(self)
        self._thread.begin(partial(contextvars.copy_context().run, self._main))
        self._paused()

    def _tell(self, answer: Answer) -> None:
        self._note(answer)
        if self._thread is None:
            self._enter()
        else:
            self._thread.resume()
            self._paused()

    def _paused(self) -> None:
        """The function waits for an operation or has ended."""
        if self._ended is not None:
            self._give_back()

    def _give_back(self) -> None:
        self._thread = None
        self._threads.give_back(self)


def untouched(value: T) -> T:
    """A copy that the function cannot change. A value that cannot be copied is shared."""
    if isinstance(value, _UNCHANGING):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  a value's own code may refuse in any way
        return value


# --- plain functions in the form that the kernel knows ---

Surface = Callable[[Context, PlainCode], Any]  # makes the context that a plain function is given


async def run_plain(
    context: Context, fn: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]], surface: Surface
) -> Any:
    """Run a plain function as workflow code. It may be run again: it gets its arguments anew each time."""
    code = PlainCode(context._scope.turn, lambda code: fn(surface(context, code), *arguments()))
    return await code.run()


def plain_branch(fn: Callable[..., T], surface: Surface) -> Callable[..., Awaitable[T]]:
    """A plain function as the branch, body or item function that the primitives know."""
    if is_async(fn) or not callable(fn):
        raise InvalidOptionError(
            f"{getattr(fn, '__qualname__', fn)!r} is not a plain function",
            why="a `def` workflow runs plain functions, which take a SyncContext",
            fix="write `def`, and `async def` for steps only",
        )

    @functools.wraps(fn)
    async def branch(context: Context, *args: Any) -> T:
        first, kept = [args], untouched(args)
        ended: T = await run_plain(context, fn, lambda: first.pop() if first else untouched(kept), surface)
        return ended

    return mark_plain(branch)


def plain_branches(
    branches: Mapping[str, Callable[..., T]], surface: Surface
) -> dict[str, Callable[..., Awaitable[T]]]:
    """Plain functions by name, as the branches that the primitives know."""
    return {name: plain_branch(branch, surface) for name, branch in branches.items()}


def asked_for(verb: str, subject: Any) -> str:
    """A call of a context in words. Run again, the function must make the same calls."""
    return f"{verb} {_name_of(subject)}"


def _name_of(subject: Any) -> str:
    match subject:
        case str():
            return subject
        case tuple():
            return "|".join(map(_name_of, subject))
        case Step() | Workflow() | Signal() | Message():
            return subject.name
        case _:
            return str(getattr(subject, "__name__", type(subject).__name__))


def _went_elsewhere(before: str, now: str) -> NonDeterministicError:
    return NonDeterministicError(
        f"run again, the code did something else: {before} before, {now} now",
        why="what it does depends on something else than what its context told it",
        fix="put clocks, randomness, I/O and global state into steps or ctx.once",
    )
