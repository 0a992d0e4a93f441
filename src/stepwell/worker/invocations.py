"""Runs step bodies: coroutines on the loop, plain functions in threads, isolated functions in processes."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

from stepwell.clock import SECOND
from stepwell.environment import Executor
from stepwell.logs import RUNNING_BODY
from stepwell.model.failures import is_closing, sound, words_of
from stepwell.replay.bodies import Attempted, Body, Raised, Succeeded, TimedOut, Yielded
from stepwell.replay.isolation import Isolated
from stepwell.replay.suspend import StepYield
from stepwell.worker.isolation.parent import run_isolated


async def run_body(body: Body, executor: Executor, may_begin: Callable[[], bool]) -> Attempted | None:
    """Run one attempt to its end or its timeout; None if it might no longer begin when a thread was free for it.

    Its log records name their run, path and attempt. Raises only the cancellation of this attempt, and the
    `KeyboardInterrupt` of a coroutine, which ends the process.
    """
    doing = RUNNING_BODY.set(body)
    try:
        if body.timeout is None:
            if body.is_async and not body.takes_context and not isinstance(body.fn, Isolated):
                return Succeeded(await body.fn(*body.args, **body.kwargs))  # nearly every step
            return await _attempt(body, executor, may_begin)
        timer = _Timer(body)
        try:
            async with timer.timeout:
                return await _attempt(body, executor, may_begin, timer)
        except TimeoutError as error:
            return TimedOut(body.timeout, body.output) if timer.timeout.expired() else Raised(sound(error))
        finally:
            timer.is_over = True
    except asyncio.CancelledError as error:
        if body.is_unwanted or body.is_stopping or (body.link is not None and body.link.is_cancelled):
            raise
        return Raised(RuntimeError(f"the body cancelled itself: {words_of(error)}"))
    except _TooLateError:
        return None
    except StepYield:
        return Yielded()
    except BaseExceptionGroup as group:  # of a task group in the body
        return Yielded() if group.split(StepYield)[1] is None else Raised(sound(group))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if is_closing(error):
            raise
        return Raised(sound(error))
    finally:
        RUNNING_BODY.reset(doing)


class _Timer:
    """The timeout of one attempt. For a plain function it begins when a thread is free."""

    def __init__(self, body: Body) -> None:
        assert body.timeout is not None
        self._seconds = body.timeout / SECOND
        is_queued = not body.is_async and not isinstance(body.fn, Isolated)
        self.timeout = asyncio.timeout(None if is_queued else self._seconds)
        self.is_over = False

    def begin(self) -> None:
        """The function begins now."""
        if not self.is_over:
            self.timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)


async def _attempt(
    body: Body, executor: Executor, may_begin: Callable[[], bool], timer: _Timer | None = None
) -> Succeeded | Raised:
    if isinstance(body.fn, Isolated):
        return await run_isolated(body, body.fn)
    args = (body.info, *body.args) if body.takes_context else body.args
    if body.is_async:
        return Succeeded(await body.fn(*args, **body.kwargs))
    # A thread does not inherit context variables: copy them, so that its log records name this body.
    call = functools.partial(_begin, may_begin, copy_context().run, body.fn, *args, **body.kwargs)
    came = await executor.call_blocking(call, began=None if timer is None else timer.begin)
    if isinstance(came, Raised):
        if issubclass(type(came.error), _NOT_TO_BE_RAISED):
            return Raised(sound(came.error))
        raise came.error
    return Succeeded(await came.value) if inspect.isawaitable(came.value) else came


def _begin(may_begin: Callable[[], bool], call: Callable[..., Any], *args: Any, **kwargs: Any) -> Succeeded | Raised:
    """Call the body in its thread. The process may have been stopped since the body was queued, so check again.

    An exception of the body is returned, because a future does not accept every exception.
    """
    if not may_begin():
        return Raised(_TooLateError())
    try:
        return Succeeded(call(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001  any exception of a body is its outcome
        return Raised(error)


# Raised in a coroutine, these would change their type or end the process. Ctrl-C never reaches a thread.
_NOT_TO_BE_RAISED: Final = (StopIteration, GeneratorExit, KeyboardInterrupt)


class _TooLateError(Exception):
    """A body may no longer begin."""
