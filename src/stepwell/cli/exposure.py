"""A loopback port for Prometheus, without the packages of the HTTP API."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from stepwell.telemetry.metrics import MEDIA, render

if TYPE_CHECKING:
    from stepwell.wiring import Engine

HOST: Final = "127.0.0.1"
_HEAD_MAX: Final = 8_192
_PATIENCE_SECONDS: Final = 10.0
# A web page could reach the port under a host name of its own.
_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})


async def expose(engine: Engine, port: int) -> asyncio.Server:
    """Answer `GET /metrics` on a loopback port, 0 for a free one, until the returned server is closed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                writer.write(await _reply(engine, await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client is gone, too slow, or does not speak HTTP
        finally:
            writer.close()

    return await asyncio.start_server(answer, HOST, port, limit=_HEAD_MAX)


async def _reply(engine: Engine, head: bytes) -> bytes:
    line, *headers = head.decode("latin-1").split("\r\n")
    host = next(
        (value.strip() for name, _, value in (one.partition(":") for one in headers) if name.lower() == "host"), ""
    )
    if host.rsplit(":", 1)[0].lower() not in _NAMES and host.lower() not in _NAMES:
        return _response("421 Misdirected Request", "unknown host name\n")
    if line.split(" ")[:2] != ["GET", "/metrics"]:
        return _response("404 Not Found", "only GET /metrics is served\n")
    from stepwell.errors import StepwellError

    try:
        return _response("200 OK", render(await engine.figures()))
    except StepwellError as error:
        return _response("503 Service Unavailable", f"{error.code}\n")


def _response(status: str, text: str) -> bytes:
    body = text.encode()
    head = [f"HTTP/1.1 {status}", f"Content-Type: {MEDIA}", f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(head).encode() + body
