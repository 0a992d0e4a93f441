"""Facts: the views define what is shown, and the command line and HTTP show the same of it."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from stepwell.advice import Advice, Verb, in_commands
from stepwell.cli import bodies
from stepwell.engine.causes import Cause
from stepwell.engine.explanations import Explanation
from stepwell.engine.facts import Audience, facts_of, failure_facts, shown_fields
from stepwell.engine.views import AttemptView, EntryView, HoldView, ProgressView, RunView, SignalView, WaitView
from stepwell.errors.records import FailureRecord
from stepwell.http import schemas

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HIDING = Audience(lambda moment: moment, lambda payload: "hidden", lambda advice: advice.verb.value, in_commands)


@pytest.mark.parametrize(
    ("view", "body"),
    [
        (RunView, schemas.RunBody),
        (EntryView, schemas.EntryBody),
        (WaitView, schemas.WaitBody),
        (AttemptView, schemas.AttemptBody),
        (ProgressView, schemas.ProgressBody),
        (HoldView, schemas.HoldBody),
        (SignalView, schemas.SignalBody),
        (Cause, schemas.CauseBody),
        (Explanation, schemas.WhyBody),
    ],
)
def test_http_has_the_fields_of_the_view_in_their_order(view: type, body: Any) -> None:
    shown = [name for name, _ in shown_fields(view)]

    assert [one.name for one in msgspec.structs.fields(body)] == shown
    assert set(shown) <= {one.name for one in fields(view)}


def test_the_command_line_has_the_fields_of_the_view_in_their_order() -> None:
    failure = FailureRecord("E", "no", advice=(Advice(Verb.RETRY, "a"),))
    entry = EntryView(
        1, "x", "step", "failed", 1, NOW, 0.5, None, failure, False, False, (AttemptView(1, NOW, "E", None),)
    )

    body = bodies.entry_body(entry)

    assert list(body) == [name for name, _ in shown_fields(EntryView)]
    assert body["at"] == "2026-01-01T00:00:00+00:00"
    assert body["failure"]["fix"] == "stepwell retry a"
    assert body["failed_attempts"] == [{"number": 1, "at": body["at"], "error": "E", "next_at": None}]


def test_an_audience_that_may_not_see_payloads_sees_none_of_them() -> None:
    progress = ProgressView("x", 1, 2, "rows", "", 0, NOW, {"secret": 1})
    failure = FailureRecord("E", "no", data={"secret": 1}, trace="secret", causes={"c": FailureRecord("E", "", data=1)})

    assert facts_of(progress, HIDING)["state"] == "hidden"
    shown = failure_facts(failure, HIDING)
    assert (shown["data"], shown["trace"], shown["causes"]["c"]["data"]) == ("hidden", "hidden", "hidden")
    assert "secret" not in repr(shown)
