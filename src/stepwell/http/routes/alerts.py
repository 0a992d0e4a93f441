"""Operations on alerts: list and show rules; create, test, acknowledge, mute and delete one."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepwell.engine.alert_rules import Alert
from stepwell.engine.alerts import AlertActView, AlertView
from stepwell.engine.facts import facts_of
from stepwell.http.fields import DurationText, Limit, Name, Text
from stepwell.http.operations import Call, Operation, Reply, look, steer
from stepwell.http.roles import Permission
from stepwell.http.schemas import audience_of, fields_of
from stepwell.model.states import AlertState

_ACTS_MAX = 50


class AlertBody(fields_of(AlertView, state=AlertState)):  # type: ignore[misc]
    """A rule that watches runs, and its state."""


class AlertActBody(fields_of(AlertActView)):  # type: ignore[misc]
    """A line of the history of a rule."""


class AlertPage(msgspec.Struct):
    """Rules, newest first; `next` is the `after` of the next page, if there is one. `notifiers` are the sinks of the
    application of this server that want alerts; null: it has no application with alerts.
    """

    alerts: list[AlertBody]
    next: str | None
    notifiers: list[str] | None


class ShownAlert(msgspec.Struct):
    """One rule with what it finds now, and what happened to it, newest first."""

    alert: AlertBody
    acts: list[AlertActBody]


class AlertsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Rules in one state, after a rule."""

    state: AlertState | None = None
    limit: Limit = 50
    after: Name | None = None


class AlertIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The condition of a rule: exactly one of them."""

    workflow: Name | None = None
    failed: bool = False
    count: Annotated[int, Meta(ge=1)] | None = None
    consecutive: Annotated[int, Meta(ge=1)] | None = None
    within: DurationText | None = None
    stalled: DurationText | None = None
    rollback_incomplete: bool = False
    oldest_ready: DurationText | None = None


class AlertAckIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is known about it."""

    note: Text = ""


class AlertMuteIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """For how long, and why. "0s" ends it."""

    duration: DurationText = "1h"
    note: Text = ""


class AlertActedBody(msgspec.Struct):
    """Whether an act changed a rule."""

    alert: str
    changed: bool


class AlertTestedBody(msgspec.Struct):
    """The run that tells the notifiers."""

    alert: str
    run_id: str


async def list_alerts(call: Call) -> Reply:
    """Rules, newest first."""
    query: AlertsQuery = call.query
    found = await call.services.engine.alerts.list(state=query.state, limit=query.limit + 1, after=query.after)
    page = found[: query.limit]
    following = page[-1].name if len(found) > len(page) else None
    return Reply(AlertPage([_body(call, one) for one in page], following, _notifiers(call)))


async def show(call: Call) -> Reply:
    """One rule with its history."""
    alerts, name, audience = call.services.engine.alerts, call.path["alert"], audience_of(call)
    acts = await alerts.history(name, limit=_ACTS_MAX)
    body = _body(call, await alerts.get(name))
    return Reply(ShownAlert(body, [AlertActBody(**facts_of(act, audience)) for act in acts]))


async def create(call: Call) -> Reply:
    """Create a rule, or change it."""
    given = {field: getattr(call.body, field) for field in call.body.__struct_fields__}
    rule = Alert(call.path["alert"], given.pop("workflow"), **given)
    return await _act(call, call.services.engine.alerts.create(rule, by=call.caller.name))


async def test(call: Call) -> Reply:
    """Tell the notifiers about a rule, marked as a test."""
    run_id = await call.services.engine.alerts.test(call.path["alert"], by=call.caller.name)
    call.after = run_id
    return Reply(AlertTestedBody(call.path["alert"], run_id))


async def acknowledge(call: Call) -> Reply:
    """Note that a person knows that a rule fires."""
    alerts = call.services.engine.alerts
    return await _act(call, alerts.acknowledge(call.path["alert"], by=call.caller.name, note=call.body.note))


async def mute(call: Call) -> Reply:
    """Tell nobody about a rule for a time."""
    alerts, body = call.services.engine.alerts, call.body
    return await _act(call, alerts.mute(call.path["alert"], body.duration, by=call.caller.name, note=body.note))


async def delete(call: Call) -> Reply:
    """Delete a rule."""
    return await _act(call, call.services.engine.alerts.delete(call.path["alert"], by=call.caller.name))


async def _act(call: Call, act: Any) -> Reply:
    changed = await act
    call.after = "changed" if changed else "unchanged"
    return Reply(AlertActedBody(call.path["alert"], changed))


def _notifiers(call: Call) -> list[str] | None:
    alerts = call.services.engine.alerts
    return None if alerts.declared is None and not alerts.notifiers else list(alerts.notifiers)


def _body(call: Call, alert: AlertView) -> AlertBody:
    return AlertBody(**facts_of(alert, audience_of(call)))


OPERATIONS = (
    look("/alerts", "list_alerts", list_alerts, "Rules that watch runs", {200: AlertPage}, query=AlertsQuery),
    look("/alerts/{alert}", "show_alert", show, "One rule", {200: ShownAlert}),
    Operation(
        method="PUT",
        path="/alerts/{alert}",
        name="create_alert",
        permission=Permission.STEER,
        handler=create,
        summary="Create or change a rule",
        answers={200: AlertActedBody},
        body=AlertIn,
    ),
    steer("/alerts/{alert}/test", "test_alert", test, "Test the notifiers of a rule", AlertTestedBody),
    steer(
        "/alerts/{alert}/acknowledge",
        "acknowledge_alert",
        acknowledge,
        "Acknowledge a rule that fires",
        AlertActedBody,
        AlertAckIn,
    ),
    steer("/alerts/{alert}/mute", "mute_alert", mute, "Mute a rule for a time", AlertActedBody, AlertMuteIn),
    Operation(
        method="DELETE",
        path="/alerts/{alert}",
        name="delete_alert",
        permission=Permission.STEER,
        handler=delete,
        summary="Delete a rule",
        answers={200: AlertActedBody},
    ),
)
