"""Ports for servers that come and go: one is ours from the first look until it is released."""

from __future__ import annotations

import socket
import sys

HOST = "127.0.0.1"


class Port:
    """A port of the loopback address; while it is held, no other program is given it.

    Between a server's end and its next start the port is free in the system's eyes, and any outgoing connection could
    be given it: the server could not come back. A socket that is bound and never listens prevents that, and does not
    disturb a server that asks to reuse the address, as database servers do. Only Linux allows the two side by side;
    elsewhere the port is merely one that was free.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        # The flag comes after the choice: with it, the system might choose a port that another has only reserved.
        self._socket.bind((HOST, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number = int(self._socket.getsockname()[1])
        if sys.platform != "linux":
            self._socket.close()

    def release(self) -> None:
        """Give the port back."""
        self._socket.close()
