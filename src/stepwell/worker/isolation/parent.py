"""One attempt at a step in a process of its own."""

from __future__ import annotations

import logging
import os
from typing import Final

from stepwell.codec.base import Place
from stepwell.codec.signatures import encode_call, hints_of
from stepwell.errors import InvalidOptionError
from stepwell.replay.bodies import Body, Raised, Succeeded
from stepwell.replay.isolation import Isolated
from stepwell.worker.isolation.failures import crashed, describe_output, rebuild
from stepwell.worker.isolation.frames import CODEC, BodyRequest, Failed, Returned, frame_of, parse_answer
from stepwell.worker.isolation.functions import loading
from stepwell.worker.isolation.process import ChildProcess, search_path
from stepwell.worker.isolation.variables import variables_for

_LOG = logging.getLogger("stepwell.step")
_MODULE: Final = "stepwell.worker.isolation.child"
_CONTEXT: Final = ("run_id", "workflow", "path", "attempt", "is_final_attempt", "idempotency_key", "headers")


async def run_isolated(body: Body, fn: Isolated) -> Succeeded | Raised:
    """Run a body to its end, in a new process that does not outlive this call.

    A cancellation kills the process and its process group, and leaves the output in `body.output`. Raises only that
    cancellation. Not promised: the end of a process that left the group by `setsid`.
    """
    try:
        request = _request_for(body, fn)
        process = ChildProcess()
        is_ended = False
        try:
            await process.run(_MODULE, frame_of(request), variables_for(fn.env))
            is_ended = True
        finally:
            await process.end()
            if not is_ended:
                body.output = describe_output(process.stdout, process.stderr)
                _log_output(body, process, logging.WARNING, "was killed")
        outcome = _outcome(request, fn, process)
    except Exception as error:  # noqa: BLE001  a failed start or a value that does not fit is its outcome
        return Raised(error)
    if isinstance(outcome, Succeeded):
        _log_output(body, process, logging.INFO, "returned")
    else:
        _log_output(body, process, logging.WARNING, "failed")
    return outcome


def _request_for(body: Body, fn: Isolated) -> BodyRequest:
    info = body.info
    if loading():
        raise InvalidOptionError(
            f"step {info.path} was called while {loading()} was being loaded for another step",
            where=fn.file,
            why="the module starts its work when it is imported",
            fix='move the code that starts the engine below `if __name__ == "__main__":`',
        )
    place = Place(info.workflow, info.path, "the input")
    call = encode_call(body.args, body.kwargs, fn.func, place=place, codec=CODEC, skip=int(body.takes_context))
    return BodyRequest(
        module=fn.module,
        own_module=fn.func.__module__,
        file=fn.file,
        name=fn.func.__qualname__,
        code_name=fn.func.__code__.co_qualname,
        call=call,
        workflow=info.workflow,
        path=info.path,
        context={name: getattr(info, name) for name in _CONTEXT} if body.takes_context else None,
        memory_max=fn.memory_max,
        search=search_path(),
        python_path=os.environ.get("PYTHONPATH"),
    )


def _outcome(request: BodyRequest, fn: Isolated, process: ChildProcess) -> Succeeded | Raised:
    output = describe_output(process.stdout, process.stderr)
    match parse_answer(process.answer):
        case Returned(value):
            return Succeeded(CODEC.decode(value, hints_of(fn.func).returns, place=request.place("the result")))
        case Failed() as failed:
            return Raised(rebuild(failed, output))
        case None:
            last = (process.stderr.rstrip() or process.stdout.rstrip()).rpartition("\n")[2]
            return Raised(crashed(process.code, output, last, fn.memory_max))


def _log_output(body: Body, process: ChildProcess, level: int, end: str) -> None:
    for name, text in (("stdout", process.stdout), ("stderr", process.stderr)):
        if text:
            path, run_id = body.info.path, body.run.run_id
            _LOG.log(level, "step %s of run %s %s; its %s was:\n%s", path, run_id, end, name, text.rstrip("\n"))
