"""Operations on triggers: list and show them, pause, resume and delete one."""

from __future__ import annotations

from typing import Any

import msgspec

from stepwell.engine.facts import facts_of
from stepwell.engine.triggers import TriggerActView, TriggerFailureView, TriggerView
from stepwell.http.fields import Limit, Name, Text
from stepwell.http.operations import Call, Operation, Reply, look, steer
from stepwell.http.roles import Permission
from stepwell.http.schemas import audience_of, fields_of
from stepwell.model.states import TriggerState

_ACTS_MAX = 20


class TriggerFailureBody(fields_of(TriggerFailureView)):  # type: ignore[misc]
    """The last event that could not start a run."""


class TriggerBody(fields_of(TriggerView, state=TriggerState, failure=TriggerFailureBody | None)):  # type: ignore[misc]
    """A workflow that the events of a topic start. `unreadable` is why its content cannot be read, if so."""


class TriggerActBody(fields_of(TriggerActView)):  # type: ignore[misc]
    """A line of a trigger's history."""


class TriggerPage(msgspec.Struct):
    """Triggers, newest first; `next` is the `after` of the next page, if there is one."""

    triggers: list[TriggerBody]
    next: str | None


class ShownTrigger(msgspec.Struct):
    """One trigger, and what happened to it, newest first."""

    trigger: TriggerBody
    acts: list[TriggerActBody]


class TriggersQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Triggers of one topic, or in one state, after a trigger."""

    topic: Name | None = None
    state: TriggerState | None = None
    limit: Limit = 50
    after: Name | None = None


class TriggerPauseBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The reason, which is shown with the trigger."""

    reason: Text = ""


class TriggerActedBody(msgspec.Struct):
    """Whether an act changed a trigger."""

    name: str
    changed: bool


async def list_triggers(call: Call) -> Reply:
    """Triggers, newest first."""
    query: TriggersQuery = call.query
    found = await call.services.engine.triggers.list(
        topic=query.topic, state=query.state, limit=query.limit + 1, after=query.after
    )
    page = found[: query.limit]
    return Reply(TriggerPage([_body(call, one) for one in page], page[-1].name if len(found) > len(page) else None))


async def show(call: Call) -> Reply:
    """One trigger with its history."""
    triggers, name = call.services.engine.triggers, call.path["trigger"]
    acts = await triggers.history(name, limit=_ACTS_MAX)
    audience = audience_of(call)
    return Reply(
        ShownTrigger(_body(call, await triggers.get(name)), [TriggerActBody(**facts_of(act, audience)) for act in acts])
    )


async def pause(call: Call) -> Reply:
    """Pause a trigger."""
    triggers = call.services.engine.triggers
    return await _act(call, triggers.pause(call.path["trigger"], by=call.caller.name, reason=call.body.reason))


async def resume(call: Call) -> Reply:
    """Resume a trigger."""
    return await _act(call, call.services.engine.triggers.resume(call.path["trigger"], by=call.caller.name))


async def delete(call: Call) -> Reply:
    """Delete a trigger."""
    return await _act(call, call.services.engine.triggers.delete(call.path["trigger"], by=call.caller.name))


async def _act(call: Call, act: Any) -> Reply:
    changed = await act
    call.after = "changed" if changed else "unchanged"
    return Reply(TriggerActedBody(call.path["trigger"], changed))


def _body(call: Call, trigger: TriggerView) -> TriggerBody:
    return TriggerBody(**facts_of(trigger, audience_of(call)))


OPERATIONS = (
    look(
        "/triggers",
        "list_triggers",
        list_triggers,
        "Workflows that events start",
        {200: TriggerPage},
        query=TriggersQuery,
    ),
    look("/triggers/{trigger}", "show_trigger", show, "One trigger", {200: ShownTrigger}),
    steer("/triggers/{trigger}/pause", "pause_trigger", pause, "Pause a trigger", TriggerActedBody, TriggerPauseBody),
    steer("/triggers/{trigger}/resume", "resume_trigger", resume, "Resume a trigger", TriggerActedBody),
    Operation(
        method="DELETE",
        path="/triggers/{trigger}",
        name="delete_trigger",
        permission=Permission.STEER,
        handler=delete,
        summary="Delete a trigger",
        answers={200: TriggerActedBody},
    ),
)
