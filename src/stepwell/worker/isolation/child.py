"""The process of one attempt: reads its order from stdin, runs the body, answers on a pipe of its own, and ends.

python -m stepwell.worker.isolation.child <descriptor of the answer>
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import resource
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Final, NoReturn

from stepwell.codec.signatures import decode_call, hints_of
from stepwell.environment import start_watcher
from stepwell.model.failures import sound
from stepwell.replay.step_context import StepContext
from stepwell.worker.isolation.failures import describe
from stepwell.worker.isolation.frames import CODEC, Answer, Order, Returned, frame_of, read_order, write_all
from stepwell.worker.isolation.functions import find_function, loaded_as

_STATM: Final = Path("/proc/self/statm")


def main(answer: int) -> NoReturn:
    """Carry out one order. Ends the process, whatever threads the body has left behind."""
    os.set_inheritable(answer, False)
    orders = _take_stdin()
    order = read_order(orders)
    if order is None:
        os._exit(1)
    start_watcher(functools.partial(_end_with_parent, orders), name="stepwell-parent")
    _settle_in(order)
    try:
        frame = frame_of(_perform(order))
        write_all(answer, frame)
        code = 0
    except SystemExit as left:
        code = _exit_code(left)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the body closed it
            pass
    os._exit(code)


def _take_stdin() -> int:
    """Keep the parent's pipe for ourselves: the body, and what it starts, read nothing."""
    orders = os.dup(0)  # not inherited
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return orders


def _end_with_parent(orders: int) -> None:
    """The pipe says nothing more, and ends when the parent does: then so does everything here."""
    while os.read(orders, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def _settle_in(order: Order) -> None:
    sys.path[:] = order.search
    sys.argv[:] = [order.file or order.module]
    os.environ.pop("PYTHONPATH", None)
    if order.python_path is not None:
        os.environ["PYTHONPATH"] = order.python_path
    if order.memory_max is not None:
        _limit_memory(_address_space() + order.memory_max)


def _perform(order: Order) -> Answer:
    try:
        fn = find_function(order)
        context = None if order.context is None else StepContext(**order.context)
        skip = int(context is not None)
        args, kwargs = decode_call(order.call, fn, place=order.place("the input"), codec=CODEC, skip=skip)
        result = fn(*((context, *args) if context is not None else args), **kwargs)
        if inspect.isawaitable(result):
            result = asyncio.run(_wait_for(result))
        return Returned(CODEC.encode(result, hints_of(fn).returns, place=order.place("the result")))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  whatever a body raises is its outcome
        _limit_memory(None)  # what it held is held by its traceback, and there must be room for an answer
        return describe(sound(error), order, loaded_as(order))


async def _wait_for(result: Awaitable[Any]) -> Any:
    return await result


def _address_space() -> int:
    """What the interpreter has taken so far: the body's limit comes on top of that. Zero where it cannot be read."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _limit_memory(bytes_max: int | None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = hard if bytes_max is None else bytes_max
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _exit_code(left: SystemExit) -> int:
    """As the interpreter would end: a text is printed."""
    if left.code is None or isinstance(left.code, int):
        return (left.code or 0) & 0xFF
    print(left.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    main(int(sys.argv[1]))
