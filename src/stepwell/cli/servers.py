"""The socket of every HTTP server of the command line."""

from __future__ import annotations

import socket


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `OSError` if it cannot."""
    made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Only of a socket that says that it is TCP does asyncio send small pieces at once; others wait 40 ms for an
    # acknowledgement between the head of an answer and its body.
    return socket.socket(made.family, made.type, socket.IPPROTO_TCP, fileno=made.detach())
