"""The process of one attempt: reads its request from stdin, runs the body, answers on a pipe of its own, and ends.

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
from stepwell.worker.isolation.frames import CODEC, Answer, BodyRequest, Returned, frame_of, read_request, write_all
from stepwell.worker.isolation.functions import find_function, loaded_as

_STATM: Final = Path("/proc/self/statm")


def main(answer: int) -> NoReturn:
    """Run one request. Ends the process, even if the body has left threads behind."""
    os.set_inheritable(answer, False)
    stdin = _take_stdin()
    request = read_request(stdin)
    if request is None:
        os._exit(1)
    start_watcher(functools.partial(_end_with_parent, stdin), name="stepwell-parent")
    _prepare(request)
    try:
        frame = frame_of(_perform(request))
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
    """Keep the parent's pipe for this module: the body and its child processes read an empty stdin."""
    stdin = os.dup(0)  # not inherited
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return stdin


def _end_with_parent(stdin: int) -> None:
    """Wait until the pipe is closed, which means that the parent has ended; then kill this process group."""
    while os.read(stdin, 1):
        pass
    os.killpg(0, signal.SIGKILL)


def _prepare(request: BodyRequest) -> None:
    sys.path[:] = request.search
    sys.argv[:] = [request.file or request.module]
    os.environ.pop("PYTHONPATH", None)
    if request.python_path is not None:
        os.environ["PYTHONPATH"] = request.python_path
    if request.memory_max is not None:
        _limit_memory(_address_space() + request.memory_max)


def _perform(request: BodyRequest) -> Answer:
    try:
        fn = find_function(request)
        context = None if request.context is None else StepContext(**request.context)
        skip = int(context is not None)
        args, kwargs = decode_call(request.call, fn, place=request.place("the input"), codec=CODEC, skip=skip)
        result = fn(*((context, *args) if context is not None else args), **kwargs)
        if inspect.isawaitable(result):
            result = asyncio.run(_wait_for(result))
        return Returned(CODEC.encode(result, hints_of(fn).returns, place=request.place("the result")))
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  any exception of a body is its outcome
        _limit_memory(None)  # the traceback still holds the body's memory, and the answer needs some
        return describe(sound(error), request, loaded_as(request))


async def _wait_for(result: Awaitable[Any]) -> Any:
    return await result


def _address_space() -> int:
    """The memory that the interpreter uses already: the body's limit is added to it. Zero if it is unknown."""
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
    """The exit code that the interpreter would use; it prints a text."""
    if left.code is None or isinstance(left.code, int):
        return (left.code or 0) & 0xFF
    print(left.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    main(int(sys.argv[1]))
