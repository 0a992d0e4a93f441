"""Plain functions as workflow code: each runs on a lockstep thread, which it releases when another function needs it.

To the turn, a plain function is one coroutine that awaits the operations of the function one after the other. The
function itself runs on a lockstep thread, which runs only while the turn waits for it. While an operation is awaited,
the thread can be taken away at any time: `Suspend` unwinds the function. When the answer arrives, the function runs
again from its beginning, on any thread, and gets the same answers as before. The turn and the history do not notice, so
a run that waits needs no thread, and any number of runs share a few.
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
from types import NoneType, TracebackType
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

from stepwell.environment import LockstepThread
from stepwell.errors import InvalidOptionError, NonDeterministicError
from stepwell.replay.branches import mark_plain
from stepwell.replay.context import Context
from stepwell.replay.operations import Operation
from stepwell.replay.primitives.cleanup import Cleanup
from stepwell.replay.primitives.receive import Message
from stepwell.replay.signals import Signal
from stepwell.replay.steps import Step, is_async
from stepwell.replay.suspend import Suspend
from stepwell.replay.turn import Turn
from stepwell.replay.workflows import Workflow

T = TypeVar("T")

_UNCHANGING: Final = (NoneType, str, int, float, bytes, date, time, timedelta, Decimal, UUID, enum.Enum)


class Answer(NamedTuple):
    """What one call of its context returned or raised to the function."""

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
        self._answers: list[Answer] = []  # all so far, with values as they were before the function got them
        self._at = 0  # how many of them this run of the function has received
        self._asked: Operation[Any] | None = None
        self._asking = ""
        self._next_answer = Answer("", None)
        self._ended: Answer | None = None
        self._is_leaving = False

    @property
    def cost(self) -> int:
        """How many answers the function must get again if it loses its thread."""
        return len(self._answers)

    async def run(self) -> Any:
        """Run the function to its end; returns its value, or raises what it raised."""
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
                        raise  # unwound already: no function is left to receive it
                    answer = Answer(self._asking, None, error)
                self._tell(answer)
        finally:
            self.leave()
            del self._turn.threads.functions[self]
        if self._ended.error is not None:
            raise self._ended.error
        return self._ended.value

    def leave(self) -> None:
        """Unwind the function, so that its `finally` blocks run, and release the thread."""
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
        """Whether the function is getting answers that it got before."""
        return self._at < len(self._answers)

    def ask(self, what: str, begin: Callable[[], Operation[T]]) -> T:
        """Let the turn await an operation, and wait for the answer."""
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
        """Read a value that needs no wait; the function gets the same value when it runs again."""
        if not self._recall(what):
            try:
                self._note(Answer(what, read()))
            except BaseException as error:
                self._note(Answer(what, None, error))
                raise
        return cast("T", self._heard())

    def _recall(self, what: str) -> bool:
        """Whether the function got this answer before; then it is ready."""
        if self._thread is None or not self._thread.is_current:
            raise NonDeterministicError(
                f"ctx was used outside the function that it belongs to ({what})",
                why="a context belongs to one call of one function; if a thread or a branch used it, the order of "
                "its operations would differ after a crash",
                fix="use the context that this function or branch got; start threads only inside steps",
            )
        if self._is_leaving:
            raise Suspend
        if not self.is_catching_up:
            return False
        answer = self._answers[self._at]
        if answer.asked != what:
            raise self._turn.diverge(_other_call(answer.asked, what))
        self._at += 1
        self._next_answer = answer._replace(value=isolated_copy(answer.value))
        return True

    def _heard(self) -> Any:
        answer, self._next_answer = self._next_answer, Answer("", None)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _note(self, answer: Answer) -> None:
        self._answers.append(answer._replace(value=isolated_copy(answer.value)))
        self._at += 1
        self._next_answer = answer

    def _main(self) -> None:
        try:
            ended = Answer("", self._call(self))
        except BaseException as error:  # noqa: BLE001  the exception of the function is its outcome
            ended = Answer("", None, error)
        if self.is_catching_up and not self._is_leaving:
            ended = Answer("", None, self._turn.diverge(_other_call(self._answers[self._at].asked, "its end")))
        self._ended = ended

    # --- inside the turn ---

    def _enter(self) -> None:
        """Run the function from its beginning until it calls a new operation or ends."""
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


class SyncCleanup:
    """A block with a clean-up, entered by `with`. The clean-up is a step."""

    __slots__ = ("_block", "_code", "_make", "_of")

    def __init__(self, make: Callable[[], Cleanup], code: PlainCode, of: str) -> None:
        self._make = make
        self._code = code
        self._of = of
        self._block: Cleanup | None = None

    def __enter__(self) -> None:
        self._block = self._code.ask(self._of, lambda: self._make().entering)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, (Suspend, GeneratorExit)):
            return  # the function is unwound, and comes here again
        block = self._block
        assert block is not None
        self._code.ask(f"the end of {self._of}", lambda: block.leaving(error))


def isolated_copy(value: T) -> T:
    """A copy that the function cannot change. A value that cannot be copied is shared."""
    if isinstance(value, _UNCHANGING):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001  a value's own code may raise anything
        return value


# --- plain functions as coroutines ---

Surface = Callable[[Context, PlainCode], Any]  # makes the context of a plain function


async def run_plain(
    context: Context, fn: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]], surface: Surface
) -> Any:
    """Run a plain function as workflow code. It may run more than once, and gets new arguments each time."""
    code = PlainCode(context._scope.turn, lambda code: fn(surface(context, code), *arguments()))
    return await code.run()


def plain_branch(fn: Callable[..., T], surface: Surface) -> Callable[..., Awaitable[T]]:
    """A plain function as the branch, body or item function that the primitives take."""
    if is_async(fn) or not callable(fn):
        raise InvalidOptionError(
            f"{getattr(fn, '__qualname__', fn)!r} is not a plain function",
            why="a `def` workflow runs plain functions, which take a SyncContext",
            fix="write `def` instead of `async def`; only steps may be `async def` here",
        )

    @functools.wraps(fn)
    async def branch(context: Context, *args: Any) -> T:
        first, kept = [args], isolated_copy(args)
        ended: T = await run_plain(context, fn, lambda: first.pop() if first else isolated_copy(kept), surface)
        return ended

    return mark_plain(branch)


def plain_branches(
    branches: Mapping[str, Callable[..., T]], surface: Surface
) -> dict[str, Callable[..., Awaitable[T]]]:
    """Plain functions by name, as the branches that the primitives take."""
    return {name: plain_branch(branch, surface) for name, branch in branches.items()}


def asked_for(verb: str, subject: Any) -> str:
    """A call of a context in words. A function that runs again must make the same calls."""
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


def _other_call(before: str, now: str) -> NonDeterministicError:
    return NonDeterministicError(
        f"the code did something else when it ran again: {before} before, {now} now",
        why="it depends on something other than the answers of its context",
        fix="move clocks, randomness, I/O and global state into steps or ctx.once",
    )
