"""Runs step bodies: coroutines on the loop, plain functions in threads."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from stepwell.clock import SECOND
from stepwell.environment import Executor
from stepwell.replay.bodies import Attempted, Body, Raised, Succeeded, TimedOut


async def run_body(body: Body, executor: Executor) -> Attempted:
    """Run one attempt to its end or its timeout. Raises nothing but the cancellation of this very attempt."""
    args = (body.info, *body.args) if body.takes_context else body.args
    limit = None if body.timeout is None else body.timeout / SECOND
    try:
        async with asyncio.timeout(limit) as timer:
            return Succeeded(await _call(body.fn, args, body.kwargs, executor))
    except TimeoutError as error:
        if timer.expired() and body.timeout is not None:
            return TimedOut(body.timeout)
        return Raised(error)
    except asyncio.CancelledError as error:
        if body.is_cancelled:
            raise
        return Raised(RuntimeError(f"the body cancelled itself: {error}"))
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  whatever a body raises is its outcome
        return Raised(error)


async def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], executor: Executor) -> Any:
    if is_async(fn):
        return await fn(*args, **kwargs)
    result = await executor.call_blocking(functools.partial(fn, *args, **kwargs))
    return await result if inspect.isawaitable(result) else result


def is_async(fn: Any) -> bool:
    """Whether calling it gives a coroutine."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
