"""Changes of a run as server-sent events: every new line of its history, and every change of its state.

The id of an event is the position of its receiver: the last line of history, and a mark of the run's state. So a
receiver that was disconnected continues after it, on any server, and misses no line.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from stepwell.engine.views import entry_views, run_view
from stepwell.errors import NotAuthenticatedError, RequestError, TooManyRequestsError
from stepwell.http.encoding import encode
from stepwell.http.limits import STREAM_MAX_SECONDS
from stepwell.http.operations import Call, look
from stepwell.http.problems import describe, readable
from stepwell.http.schemas import entry_body, run_body
from stepwell.model.runs import Run

LOG = logging.getLogger("stepwell.http")
MEDIA: Final = "text/event-stream"
_BEAT_SECONDS: Final = 15
_SEQ_DIGITS_MAX: Final = 15


class FollowQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """After how many seconds the stream is closed."""

    seconds: Annotated[float, Meta(ge=0, le=STREAM_MAX_SECONDS)] = STREAM_MAX_SECONDS


class ChangeEvent(msgspec.Struct):
    """One event: `entry` with a line of history, `run` with the run, or `problem`, the last; `data` is its JSON."""

    event: Literal["entry", "run", "problem"]
    id: str
    data: str


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
    if not (dash and seq.isascii() and seq.isdigit() and len(seq) <= _SEQ_DIGITS_MAX and state.isalnum()):
        raise RequestError("this is not the id of an event", where="the header last-event-id", fix="leave it out")
    return Mark(int(seq), state)


def state_of(run: Run) -> str:
    """A hash of everything about a run but its history."""
    state = (run.run_id, run.status.value, run.epoch, run.owner, run.wake_at, run.ended_at, run.successor)
    facts = (*state, run.tags, run.title, run.attributes)
    return hashlib.blake2b(repr(facts).encode(), digest_size=6).hexdigest()


async def follow(call: Call) -> Response:
    """Stream the changes of a run until it ends; 204 if it has ended and the receiver has everything."""
    services, mark = call.services, read_mark(call.headers)
    detail = await services.engine.runs.detail(call.path["run"])
    run = detail.run
    if run.ended_at is not None and mark == (run.last_seq, state_of(run)):
        return Response(status_code=204)
    if services.followers >= services.limits.streams_max:
        raise TooManyRequestsError(
            "too many streams are open", why=f"at most {services.limits.streams_max} are", fix="close some, or wait"
        )
    return StreamingResponse(_events(call, run.run_id, mark), media_type=MEDIA)


async def _events(call: Call, run_id: str, mark: Mark) -> AsyncIterator[bytes]:
    call.services.followers += 1
    loop = asyncio.get_running_loop()
    ends_at, beat_at = loop.time() + call.query.seconds, loop.time() + _BEAT_SECONDS
    watching = call.services.engine.runs.pulse(run_id)
    try:
        async for run in watching:
            call.confirm()
            if run is not None:
                told, mark = await _news(call, run, mark)
                call.confirm()
                # In one piece: each write is a system call, and wakes the receiver.
                if told:
                    yield b"".join(told)
                beat_at = loop.time() + _BEAT_SECONDS
            if loop.time() >= ends_at:
                return
            if loop.time() >= beat_at:
                # Only a write shows whether the receiver is still connected.
                yield b": still here\n\n"
                beat_at = loop.time() + _BEAT_SECONDS
    except NotAuthenticatedError as error:
        LOG.warning("request %s: its stream was closed, because the token of %s is no longer valid", *_who(call))
        yield _event("problem", mark, describe(error, call.request_id)[0])
    except Exception as error:  # noqa: BLE001  the answer has begun: the error is its last event
        LOG.error("request %s broke off: %.500s", call.request_id, error)
        yield _event("problem", mark, describe(readable(error), call.request_id)[0])
    finally:
        call.services.followers -= 1
        await watching.aclose()


def _who(call: Call) -> tuple[str, str]:
    return call.request_id, call.caller.name


async def _news(call: Call, run: Run, mark: Mark) -> tuple[list[bytes], Mark]:
    """The changes that a receiver does not have yet, and its new position."""
    told: list[bytes] = []
    if run.last_seq > mark.seq:
        detail = await call.services.engine.runs.detail(run.run_id)
        run = detail.run
        for entry in entry_views(detail, mark.seq, call.services.engine.runs.fetch):
            mark = Mark(entry.seq, mark.state or "0")
            told.append(_event("entry", mark, entry_body(call, entry)))
    latest = Mark(max(run.last_seq, mark.seq), state_of(run))
    if latest != mark:
        told.append(_event("run", latest, run_body(call, run_view(run, fetch=call.services.engine.runs.fetch))))
    return told, latest


def _event(name: str, mark: Mark, body: Any) -> bytes:
    return f"event: {name}\nid: {mark}\ndata: ".encode() + encode(body) + b"\n\n"


OPERATIONS = (
    look(
        "/runs/{run}/changes",
        "follow_run",
        follow,
        "The changes of a run as server-sent events; Last-Event-ID continues after an event",
        {200: ChangeEvent, 204: None},
        query=FollowQuery,
        media=MEDIA,
    ),
)
