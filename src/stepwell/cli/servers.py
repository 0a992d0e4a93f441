"""The listening socket of every HTTP server of the command line."""

from __future__ import annotations

import socket


def open_listener(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `OSError` if the address cannot be used."""
    made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # asyncio sends small pieces at once only on sockets that declare TCP; on others, 40 ms pass between the head of an
    # answer and its body.
    return socket.socket(made.family, made.type, socket.IPPROTO_TCP, fileno=made.detach())
