"""Runs step bodies: coroutines on the loop, plain functions in threads, isolated ones in processes."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from stepwell.clock import SECOND
from stepwell.environment import Executor
from stepwell.logs import DOING
from stepwell.replay.bodies import Attempted, Body, Isolated, Raised, Succeeded, TimedOut, Yielded
from stepwell.replay.suspend import StepYield
from stepwell.worker.isolation.parent import run_isolated


async def run_body(body: Body, executor: Executor, may_begin: Callable[[], bool]) -> Attempted | None:
    """Run one attempt to its end or its timeout; None if it might not begin any more when there was a thread for it.

    What it logs says where it comes from. Raises nothing but the cancellation of this very attempt.
    """
    doing = DOING.set(body)
    try:
        if body.timeout is None:
            if body.is_async and not body.takes_context and not isinstance(body.fn, Isolated):
                return Succeeded(await body.fn(*body.args, **body.kwargs))  # what nearly every step is
            return await _attempt(body, executor, may_begin)
        timer = asyncio.timeout(body.timeout / SECOND)
        try:
            async with timer:
                return await _attempt(body, executor, may_begin)
        except TimeoutError as error:
            return TimedOut(body.timeout, body.output) if timer.expired() else Raised(error)
    except asyncio.CancelledError as error:
        if body.is_unwanted or body.is_stopping:
            raise
        return Raised(RuntimeError(f"the body cancelled itself: {error}"))
    except _TooLateError:
        return None
    except StepYield:
        return Yielded()
    except BaseExceptionGroup as group:  # of a task group in the body
        return Yielded() if group.split(StepYield)[1] is None else Raised(group)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  whatever a body raises is its outcome
        return Raised(error)
    finally:
        DOING.reset(doing)


async def _attempt(body: Body, executor: Executor, may_begin: Callable[[], bool]) -> Succeeded | Raised:
    if isinstance(body.fn, Isolated):
        return await run_isolated(body, body.fn)
    return Succeeded(await _call(body, executor, may_begin))


async def _call(body: Body, executor: Executor, may_begin: Callable[[], bool]) -> Any:
    args = (body.info, *body.args) if body.takes_context else body.args
    if body.is_async:
        return await body.fn(*args, **body.kwargs)
    # A thread has no context variables of its own task: what it logs belongs to this body too.
    call = functools.partial(_begin, may_begin, copy_context().run, body.fn, *args, **body.kwargs)
    result = await executor.call_blocking(call)
    return await result if inspect.isawaitable(result) else result


def _begin(may_begin: Callable[[], bool], call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """In the thread: the process may have stood still since the body was put into the queue for one."""
    if not may_begin():
        raise _TooLateError
    return call(*args, **kwargs)


class _TooLateError(Exception):
    """A body may not begin any more."""
