"""What every HTTP server of the command line is made of: its socket, and how it is set up."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uvicorn


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `OSError` if it cannot."""
    made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Only of a socket that says that it is TCP does asyncio send small pieces at once; others wait 40 ms for an
    # acknowledgement between the head of an answer and its body.
    return socket.socket(made.family, made.type, socket.IPPROTO_TCP, fileno=made.detach())


def configure(application: Any, *, grace_seconds: int) -> uvicorn.Config:
    """A server that says nothing of itself, and believes nobody about where a request comes from."""
    import uvicorn

    return uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        http="h11",
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=grace_seconds,
    )
