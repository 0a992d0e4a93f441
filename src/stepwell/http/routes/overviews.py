"""Operations that look at many runs at once: figures, groups of failures, topics and waits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from stepwell.clock import to_datetime
from stepwell.engine.error_groups import ErrorGroup, SampleRun
from stepwell.engine.facts import facts_of
from stepwell.engine.overviews import (
    BINS_MAX,
    COUNTED_MAX,
    GROUPED_MAX,
    BinView,
    CountView,
    ErrorsView,
    HealthView,
    HistogramView,
)
from stepwell.http.fields import DurationText
from stepwell.http.operations import Call, FilterText, Reply, look
from stepwell.http.schemas import audience_of, fields_of


class HistogramQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A line of the filter language. Its `since:` and `until:` are the range; without them it is the `last` day."""

    q: FilterText = ""
    bins: Annotated[int, Meta(ge=1, le=BINS_MAX)] = 60
    last: DurationText = "1d"
    system: bool = False


class CountQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A line of the filter language; the count stops at the limit."""

    q: FilterText = ""
    limit: Annotated[int, Meta(ge=1, le=COUNTED_MAX)] = COUNTED_MAX
    system: bool = False


class ErrorsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A line of the filter language, and how many failures are looked at."""

    q: FilterText = ""
    limit: Annotated[int, Meta(ge=1, le=5 * GROUPED_MAX)] = GROUPED_MAX


class BinBody(fields_of(BinView)):  # type: ignore[misc]  # its fields are those of the view, as below
    """How many runs were created from a moment on, for the width of a bin, and how many of them have failed."""


class HistogramBody(fields_of(HistogramView, bins=list[BinBody])):  # type: ignore[misc]
    """Runs by the time of their creation. Before `counted_since` not all are counted; `is_whole` is false if some that
    have not ended are left out.
    """


class CountBody(fields_of(CountView)):  # type: ignore[misc]
    """How many runs match; `is_more` if there are more than were counted."""


class SampleRunBody(fields_of(SampleRun)):  # type: ignore[misc]
    """One run of a group."""


class ErrorGroupBody(fields_of(ErrorGroup, samples=list[SampleRunBody])):  # type: ignore[misc]
    """Failures that have the same cause, as far as their text tells. In `path` and `message`, a star stands for what
    differs. `filter` lists runs with the same type of error.
    """


class ErrorsBody(fields_of(ErrorsView, groups=list[ErrorGroupBody])):  # type: ignore[misc]
    """Failures in groups, the largest first. The newest `scanned` were looked at; `is_whole` is false if there are
    more.
    """


class HealthBody(fields_of(HealthView, errors=list[ErrorGroupBody])):  # type: ignore[misc]
    """How the latest runs of a workflow went. Times are in seconds, of completed runs, and null without one."""


class TopicBody(msgspec.Struct):
    """A topic: open waits, events kept for future waits, and how many of the latest events were on it."""

    topic: str
    waiting: int
    kept: int
    published: int
    last_at: datetime | None


class TopicList(msgspec.Struct):
    """Topics, by name."""

    topics: list[TopicBody]


class WaitGroupBody(msgspec.Struct):
    """Runs of one workflow that wait for the same signals or topic; `example` is one of them."""

    kind: str
    names: list[str]
    workflow: str
    version: int
    runs: int
    next_due_at: datetime | None
    example: str


class WaitGroupList(msgspec.Struct):
    """Runs that wait for signals and events, the largest group first."""

    waits: list[WaitGroupBody]


async def histogram(call: Call) -> Reply:
    """How many runs were created when."""
    query: HistogramQuery = call.query
    found = await call.services.engine.overviews.histogram(
        call.filter(query.q, where="q"), bins=query.bins, last=query.last, include_system=query.system
    )
    return Reply(HistogramBody(**facts_of(found, audience_of(call))))


async def count(call: Call) -> Reply:
    """How many runs match a filter."""
    query: CountQuery = call.query
    found = await call.services.engine.overviews.count(
        call.filter(query.q, where="q"), limit=query.limit, include_system=query.system
    )
    return Reply(CountBody(**facts_of(found, audience_of(call))))


async def errors(call: Call) -> Reply:
    """Failures in groups."""
    query: ErrorsQuery = call.query
    found = await call.services.engine.overviews.errors(call.filter(query.q, where="q"), limit=query.limit)
    return Reply(ErrorsBody(**facts_of(found, audience_of(call))))


async def error_group(call: Call) -> Reply:
    """One group of failures, with all of its runs."""
    query: ErrorsQuery = call.query
    found = await call.services.engine.overviews.error_group(
        call.path["fingerprint"], call.filter(query.q, where="q"), limit=query.limit
    )
    return Reply(ErrorGroupBody(**facts_of(found, audience_of(call))))


def health_body(call: Call, found: HealthView) -> HealthBody:
    """How the runs of a workflow went."""
    return HealthBody(**facts_of(found, audience_of(call)))


async def list_topics(call: Call) -> Reply:
    """The topics of waits and events."""
    found = await call.services.engine.overviews.topics()
    return Reply(
        TopicList(
            [
                TopicBody(
                    one.topic,
                    one.waiting,
                    one.kept,
                    one.published,
                    None if one.last_at is None else to_datetime(one.last_at),
                )
                for one in found
            ]
        )
    )


async def list_waits(call: Call) -> Reply:
    """What runs wait for."""
    found = await call.services.engine.overviews.waits()
    bodies = [
        WaitGroupBody(
            one.kind.value,
            list(one.names),
            one.workflow,
            one.version,
            one.runs,
            None if one.next_due_at is None else to_datetime(one.next_due_at),
            one.example,
        )
        for one in found
    ]
    return Reply(WaitGroupList(bodies))


# These come before /runs/{run}: a run with one of these keys is addressed by its id.
OPERATIONS = (
    look(
        "/runs/histogram",
        "show_histogram",
        histogram,
        "How many runs were created when, and how many of them have failed",
        {200: HistogramBody},
        query=HistogramQuery,
    ),
    look("/runs/count", "count_runs", count, "How many runs match a filter", {200: CountBody}, query=CountQuery),
    look("/errors", "list_errors", errors, "Failures in groups", {200: ErrorsBody}, query=ErrorsQuery),
    look(
        "/errors/{fingerprint}",
        "show_error_group",
        error_group,
        "One group of failures, with all of its runs",
        {200: ErrorGroupBody},
        query=ErrorsQuery,
    ),
    look("/topics", "list_topics", list_topics, "Topics of waits and events", {200: TopicList}),
    look("/waits", "list_waits", list_waits, "What runs wait for, in groups", {200: WaitGroupList}),
)
