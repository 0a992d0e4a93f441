"""The HTTP API of `stepwell dev`, on a loopback address only."""

from __future__ import annotations

import errno
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from stepwell.cli.servers import open_listener
from stepwell.errors import InvalidOptionError

if TYPE_CHECKING:
    from stepwell.wiring import Engine

HOST: Final = "127.0.0.1"
_PORTS_MAX: Final = 100


def listen(port: int) -> socket.socket:
    """A socket on this port, or on the next free port."""
    for candidate in range(port, min(port + _PORTS_MAX, 65_536)):
        try:
            return open_listener(HOST, candidate)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise InvalidOptionError(f"cannot listen on {HOST}: {error.strerror or error}") from error
    raise InvalidOptionError(
        f"no free port from {port} on",
        where="--port",
        why=f"{_PORTS_MAX} ports were tried",
        fix="choose another: --port",
    )


def can_serve() -> bool:
    """Whether the packages of the server are installed; `stepwell dev` works without them."""
    return all(find_spec(name) is not None for name in ("starlette", "uvicorn", "h11"))


def address_of(listener: socket.socket) -> str:
    """The URL of a server on this socket."""
    return f"http://{HOST}:{listener.getsockname()[1]}"


class Api:
    """Serves the API of one engine until it is stopped."""

    def __init__(self, engine: Engine, listener: socket.socket) -> None:
        from stepwell.http import LoopbackAccess, app
        from stepwell.http.server import make_server

        self._listener = listener
        self._server = make_server(app(engine, access=LoopbackAccess()), grace_seconds=1)

    @property
    def url(self) -> str:
        """Its address."""
        return address_of(self._listener)

    async def serve(self) -> None:
        """Answer requests until `stop`."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        """Stop answering."""
        self._server.should_exit = True
