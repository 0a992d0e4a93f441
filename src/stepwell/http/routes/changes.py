"""Changes as server-sent events: of all runs, of one run, of its published state and of its streams.

The id of an event is the position of its receiver, so a receiver that was disconnected continues after it. For one run
it is the last line of history, and a mark of the run's state: it continues on any server, and misses no line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from stepwell.clock import to_datetime
from stepwell.engine.facts import facts_of
from stepwell.engine.histories import PublishedView
from stepwell.engine.movements import WATCHED_MAX, Report
from stepwell.engine.streams import StreamLine
from stepwell.engine.views import run_view
from stepwell.errors import RequestError
from stepwell.http.fields import Limit
from stepwell.http.limits import STREAM_MAX_SECONDS
from stepwell.http.operations import Call, Reply, look
from stepwell.http.schemas import PublishedBody, audience_of, entry_body, fields_of, run_body
from stepwell.http.streaming import MEDIA, FollowQuery, Seconds, Told, event, stream
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus

_SEQ_DIGITS_MAX: Final = 15
_PAGE: Final = 500  # lines of a history in one read


def _json_of(name: str) -> Meta:
    """A text that is the JSON of a type."""
    schema = {"$ref": f"#/components/schemas/{name}"}
    return Meta(extra_json_schema={"contentMediaType": "application/json", "contentSchema": schema})


class ChangeEvent(msgspec.Struct):
    """One event: `entry` with a line of history, `run` with the run, or `problem`, the last; `data` is its JSON."""

    event: Literal["entry", "run", "problem"]
    id: str
    data: str


class MovementQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Ids of runs that are watched more closely, with commas between them; and when the stream is closed."""

    runs: Annotated[str, Meta(max_length=8_000)] = ""
    seconds: Seconds = STREAM_MAX_SECONDS


class MovedRun(msgspec.Struct):
    """The state of a run that has changed."""

    run_id: str
    workflow: str
    version: int
    status: RunStatus
    key: str | None
    revision: int
    created_at: datetime
    ended_at: datetime | None


class MovementBody(msgspec.Struct):
    """Runs that have changed. If `is_whole` is false, more may have: what is shown has to be read again."""

    runs: list[MovedRun]
    is_whole: bool


class MovementEvent(msgspec.Struct):
    """One event: `runs`, whose data is the JSON of the runs that have changed, or `problem`, the last."""

    event: Literal["runs", "problem"]
    id: str
    data: Annotated[str, _json_of("MovementBody")]


class StateBody(msgspec.Struct):
    """What a run has published, by name; the empty name is that of `ctx.publish_state`."""

    run_id: str
    published: list[PublishedBody]


class StateEvent(msgspec.Struct):
    """One event: `state`, whose data is the JSON of all that the run has published, or `problem`, the last."""

    event: Literal["state", "problem"]
    id: str
    data: Annotated[str, _json_of("StateBody")]


class StreamNames(msgspec.Struct):
    """The streams that a run has appended to."""

    run_id: str
    streams: list[str]


class StreamQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Lines with an offset above `after`."""

    after: Annotated[int, Meta(ge=0, le=(1 << 53) - 1)] = 0
    limit: Limit = 100


class LineBody(fields_of(StreamLine)):  # type: ignore[misc]  # its fields are those of the view
    """A line of a stream: an item with its value, which is a payload; a reset, after which the items of its source from
    offset `since` on no longer count; or the close.
    """


class StreamBody(msgspec.Struct):
    """Lines of a stream; `next` is `after` of the page after this one. Nothing follows if `is_over`."""

    lines: list[LineBody]
    next: int
    is_over: bool


class StreamEvent(msgspec.Struct):
    """One event: `line`, whose data is the JSON of a line, or `problem`, the last. Its id is the offset."""

    event: Literal["line", "problem"]
    id: str
    data: Annotated[str, _json_of("LineBody")]


class Mark(NamedTuple):
    """The position of a receiver."""

    seq: int = 0
    state: str = ""

    def __str__(self) -> str:
        return f"{self.seq}-{self.state}"


def read_mark(headers: Mapping[str, str]) -> Mark:
    """The mark in `Last-Event-ID`. Raises `RequestError` if it is invalid."""
    text = headers.get("last-event-id", "")
    if not text:
        return Mark()
    seq, dash, state = text.partition("-")
    if not (dash and _is_number(seq) and state.isalnum()):
        raise _no_mark()
    return Mark(int(seq), state)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _SEQ_DIGITS_MAX


def _no_mark() -> RequestError:
    return RequestError("this is not the id of an event", where="the header last-event-id", fix="leave it out")


def state_of(run: Run) -> str:
    """A hash of everything about a run but its history."""
    state = (run.run_id, run.status.value, run.epoch, run.owner, run.wake_at, run.ended_at, run.successor)
    facts = (*state, run.tags, run.title, run.attributes)
    return hashlib.blake2b(repr(facts).encode(), digest_size=6).hexdigest()


# --- one run ---


class _RunFollower:
    """Tells a receiver the changes of one run that it does not have yet."""

    def __init__(self, call: Call, mark: Mark) -> None:
        self._call = call
        self.mark = mark

    async def tell(self, run_id: str) -> Told:
        watching = self._call.services.engine.runs.pulse(run_id)
        try:
            async for run in watching:
                yield None if run is None else b"".join(await self._news(run))
        finally:
            await watching.aclose()

    async def _news(self, run: Run) -> list[bytes]:
        call, engine = self._call, self._call.services.engine
        told: list[bytes] = []
        # The row may be older than the history that is read after it.
        while run.last_seq > self.mark.seq:
            page = await engine.histories.page(run.run_id, after=self.mark.seq, limit=_PAGE)
            for entry in page:
                self.mark = Mark(entry.seq, self.mark.state or "0")
                told.append(event("entry", self.mark, entry_body(call, entry)))
            if len(page) < _PAGE:
                break
        latest = Mark(max(run.last_seq, self.mark.seq), state_of(run))
        if latest != self.mark:
            self.mark = latest
            told.append(event("run", latest, run_body(call, run_view(run, fetch=engine.runs.fetch))))
        return told


async def follow(call: Call) -> Response:
    """Stream the changes of a run until it ends; 204 if it has ended and the receiver has everything."""
    mark = read_mark(call.headers)
    run = await call.services.engine.runs.stored(call.path["run"])
    if run.ended_at is not None and mark == (run.last_seq, state_of(run)):
        return Response(status_code=204)
    follower = _RunFollower(call, mark)
    return stream(call, follower.tell(run.run_id), lambda: follower.mark)


# --- all runs ---


class _MovementFollower:
    """Tells a receiver which runs have changed."""

    def __init__(self, call: Call, watched: list[str]) -> None:
        self._call = call
        self._watched = watched
        self.mark = call.headers.get("last-event-id", "")

    async def tell(self) -> Told:
        following = self._call.services.engine.movements.follow(self.mark, self._watched)
        try:
            async for report in following:
                if report is not None:
                    self.mark = report.mark
                yield None if report is None else event("runs", report.mark, _movement(report))
        finally:
            await following.aclose()


def _movement(report: Report) -> MovementBody:
    return MovementBody(
        [
            MovedRun(*one[:6], to_datetime(one.created_at), None if one.ended_at is None else to_datetime(one.ended_at))
            for one in report.runs
        ],
        report.is_whole,
    )


async def follow_all(call: Call) -> Response:
    """Stream which runs change, at most four times a second."""
    mark = call.headers.get("last-event-id", "")
    name, dash, number = mark.partition("-")
    if mark and not (dash and name.isalnum() and len(name) <= _SEQ_DIGITS_MAX and _is_number(number)):
        raise _no_mark()
    watched = [one for one in call.query.runs.split(",") if one]
    if len(watched) > WATCHED_MAX:
        raise RequestError(f"{len(watched)} runs are watched", where="runs", fix=f"at most {WATCHED_MAX}")
    follower = _MovementFollower(call, watched)
    return stream(call, follower.tell(), lambda: follower.mark)


# --- what a run publishes ---


async def show_state(call: Call) -> Reply:
    """What a run has published."""
    engine = call.services.engine
    run = await engine.runs.get(call.path["run"])
    return Reply(_state(call, run.run_id, await engine.histories.published(run.run_id)))


def _state(call: Call, run_id: str, found: Any) -> StateBody:
    audience = audience_of(call)
    return StateBody(run_id, [PublishedBody(**facts_of(one, audience)) for one in found])


class _StateFollower:
    """Tells a receiver what a run publishes. The mark is the number of the run's commits: a hash would tell something
    of the values.
    """

    def __init__(self, call: Call, mark: str) -> None:
        self._call = call
        self.mark = mark

    async def tell(self, run_id: str) -> Told:
        engine = self._call.services.engine
        watching, known = engine.runs.pulse(run_id), None
        try:
            async for run in watching:
                if run is None or str(run.revision) == self.mark:
                    yield None if run is None else b""
                    continue
                self.mark = str(run.revision)
                found: list[PublishedView] = [*await engine.histories.published(run_id)]
                is_new, known = found != known, found
                yield event("state", self.mark, _state(self._call, run_id, found)) if is_new else b""
        finally:
            await watching.aclose()


async def follow_state(call: Call) -> Response:
    """Stream what a run publishes, until it ends."""
    run = await call.services.engine.runs.get(call.path["run"])
    mark = call.headers.get("last-event-id", "")
    if mark and not _is_number(mark):
        raise _no_mark()
    follower = _StateFollower(call, mark)
    return stream(call, follower.tell(run.run_id), lambda: follower.mark)


# --- its streams ---


async def list_streams(call: Call) -> Reply:
    """The streams of a run."""
    engine = call.services.engine
    run = await engine.runs.get(call.path["run"])
    return Reply(StreamNames(run.run_id, await engine.streams.names(run.run_id)))


async def show_stream(call: Call) -> Reply:
    """Lines of a stream."""
    query: StreamQuery = call.query
    found = await call.services.engine.streams.page(
        call.path["run"], call.path["stream"], after=query.after, limit=query.limit
    )
    following = found.lines[-1].offset if found.lines else query.after
    return Reply(StreamBody([_line(call, line) for line in found.lines], following, found.is_over))


def _line(call: Call, line: StreamLine) -> LineBody:
    return LineBody(**facts_of(line, audience_of(call)))


class _StreamFollower:
    """Tells a receiver the lines of a stream."""

    def __init__(self, call: Call, offset: int) -> None:
        self._call = call
        self.offset = offset

    async def tell(self, run_id: str, name: str) -> Told:
        following = self._call.services.engine.streams.follow(run_id, name, after=self.offset)
        try:
            async for page in following:
                if page is None:
                    yield None
                    continue
                self.offset = page.lines[-1].offset
                yield b"".join(event("line", line.offset, _line(self._call, line)) for line in page.lines)
        finally:
            await following.aclose()


async def follow_stream(call: Call) -> Response:
    """Stream the lines of a stream as they come, until it is closed or the run has ended."""
    mark = call.headers.get("last-event-id", "")
    if mark and not _is_number(mark):
        raise _no_mark()
    run = await call.services.engine.runs.get(call.path["run"])
    await call.services.engine.streams.page(run.run_id, call.path["stream"], limit=1)  # raises for an invalid name
    follower = _StreamFollower(call, int(mark or 0))
    return stream(call, follower.tell(run.run_id, call.path["stream"]), lambda: follower.offset)


OPERATIONS = (
    look(
        "/changes",
        "follow_runs",
        follow_all,
        "Which runs change, as server-sent events; Last-Event-ID continues after an event",
        {200: MovementEvent},
        query=MovementQuery,
        media=MEDIA,
        events=(MovementBody,),
        event_id=r"^[0-9a-z]{1,15}-[0-9]{1,15}$",
    ),
    look(
        "/runs/{run}/changes",
        "follow_run",
        follow,
        "The changes of a run as server-sent events; Last-Event-ID continues after an event",
        {200: ChangeEvent, 204: None},
        query=FollowQuery,
        media=MEDIA,
        event_id=r"^[0-9]{1,15}-[0-9a-z]{1,40}$",
    ),
    look("/runs/{run}/state", "show_state", show_state, "What a run has published", {200: StateBody}),
    look(
        "/runs/{run}/state/changes",
        "follow_state",
        follow_state,
        "What a run publishes, as server-sent events",
        {200: StateEvent},
        query=FollowQuery,
        media=MEDIA,
        events=(StateBody,),
        event_id=r"^[0-9]{1,15}$",
    ),
    look("/runs/{run}/streams", "list_streams", list_streams, "The streams of a run", {200: StreamNames}),
    look(
        "/runs/{run}/streams/{stream}",
        "show_stream",
        show_stream,
        "Lines of a stream",
        {200: StreamBody},
        query=StreamQuery,
    ),
    look(
        "/runs/{run}/streams/{stream}/changes",
        "follow_stream",
        follow_stream,
        "The lines of a stream as server-sent events; Last-Event-ID continues after a line",
        {200: StreamEvent},
        query=FollowQuery,
        media=MEDIA,
        events=(LineBody,),
        event_id=r"^[0-9]{1,15}$",
    ),
)
