"""Acts of an operator on one run, and its status after them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from stepwell.advice import Advice, Verb
from stepwell.errors import InvalidMoveError, NotFoundError
from stepwell.http.operations import Call, Reply
from stepwell.model.states import RunStatus
from stepwell.wiring import Engine


class ActedBody(msgspec.Struct):
    """The status of a run now; `changed` is false if the act changed nothing."""

    run_id: str
    status: RunStatus
    changed: bool


async def act(
    call: Call,
    do: Callable[[Engine, str], Awaitable[bool]],
    impossible: str,
    needs: str,
    had_before: tuple[RunStatus, ...] = (),
    *,
    pauses: bool = False,
) -> Reply:
    engine, target = call.services.engine, call.path["run"]
    before = await engine.status(target)
    call.before = "" if before is None else before.status
    is_done = await do(engine, target)
    view = await engine.status(target)
    while view is not None and view.successor is not None:
        view = await engine.status(view.successor)
    if view is None:
        raise NotFoundError("run", target, fix=Advice(Verb.LIST))
    call.after = view.status
    was_so = view.status in had_before or (pauses and view.hold is not None)
    if not is_done and not was_so:
        raise InvalidMoveError(
            f"run {view.run_id} is {view.status} and cannot {impossible}",
            where=f"run {view.run_id}",
            why=f"it takes {needs}",
            fix=Advice(Verb.WHY, view.run_id),
        )
    return Reply(ActedBody(view.run_id, RunStatus(view.status), is_done))
