"""Server-sent events: a stream that ends with its time, its token or its source, and shows that it is alive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.responses import StreamingResponse

from stepwell.errors import NotAuthenticatedError, TooManyRequestsError
from stepwell.http.encoding import encode
from stepwell.http.limits import STREAM_MAX_SECONDS
from stepwell.http.operations import Call
from stepwell.http.problems import describe, readable

LOG = logging.getLogger("stepwell.http")
MEDIA: Final = "text/event-stream"
BEAT_SECONDS: Final = 15

Told = AsyncGenerator[bytes | None, None]
"""What a stream tells: events, and None now and then if there are none."""

Seconds = Annotated[float, Meta(ge=0, le=STREAM_MAX_SECONDS)]


class FollowQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """After how many seconds the stream is closed."""

    seconds: Seconds = STREAM_MAX_SECONDS


def event(name: str, mark: Any, body: Any) -> bytes:
    """One event."""
    return f"event: {name}\nid: {mark}\ndata: ".encode() + encode(body) + b"\n\n"


def stream(call: Call, told: Told, mark: Callable[[], Any]) -> StreamingResponse:
    """The answer that sends what a source tells. `mark` is the position of the receiver: the id of a last `problem`.

    Raises `TooManyRequestsError` if too many streams are open.
    """
    services = call.services
    if services.followers >= services.limits.streams_max:
        raise TooManyRequestsError(
            "too many streams are open", why=f"at most {services.limits.streams_max} are", fix="close some, or wait"
        )
    return StreamingResponse(_events(call, told, mark), media_type=MEDIA)


async def _events(call: Call, told: Told, mark: Callable[[], Any]) -> AsyncIterator[bytes]:
    call.services.followers += 1
    loop = asyncio.get_running_loop()
    ends_at, beat_at = loop.time() + call.query.seconds, loop.time() + BEAT_SECONDS
    try:
        async for events in told:
            call.confirm()
            if events is not None:
                # In one piece: each write is a system call, and wakes the receiver.
                if events:
                    yield events
                beat_at = loop.time() + BEAT_SECONDS
            if loop.time() >= ends_at:
                return
            if loop.time() >= beat_at:
                # Only a write shows whether the receiver is still connected.
                yield b": still here\n\n"
                beat_at = loop.time() + BEAT_SECONDS
    except NotAuthenticatedError as error:
        LOG.warning(
            "request %s: its stream was closed, because the token of %s is no longer valid",
            call.request_id,
            call.caller.name,
        )
        yield event("problem", mark(), describe(error, call.request_id)[0])
    except Exception as error:  # noqa: BLE001  the answer has begun: the error is its last event
        LOG.error("request %s broke off: %.500s", call.request_id, error)
        yield event("problem", mark(), describe(readable(error), call.request_id)[0])
    finally:
        call.services.followers -= 1
        await told.aclose()
