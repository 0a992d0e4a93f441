"""The proxy does to a connection what it says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.servers.ports import HOST
from tests.servers.proxy import Proxy

PATIENCE = 20.0
SILENCE = 0.3


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy in front of a server that says everything again."""

    def repeat(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65_536):
                    connection.sendall(data)
            except OSError:
                pass  # it was reset, which is what is tested

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=repeat, args=(connection,), daemon=True).start()

    with socket.create_server((HOST, 0)) as server, Proxy(server.getsockname()[1]) as found:
        threading.Thread(target=serve, daemon=True).start()
        yield found
        server.shutdown(socket.SHUT_RDWR)


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=PATIENCE)


def ask(connection: socket.socket, text: bytes = b"hello") -> bytes:
    connection.sendall(text)
    return receive(connection, len(text))


def receive(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count and (data := connection.recv(65_536)):
        got += data
    return got


def is_silent(connection: socket.socket, text: bytes = b"hello") -> bool:
    """Whether a request is not answered, and nothing says why."""
    connection.sendall(text)
    connection.settimeout(SILENCE)
    try:
        connection.recv(1)
        return False
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE)


def test_a_reset_ends_the_connections_of_now(proxy: Proxy) -> None:
    with connect(proxy) as before:
        assert ask(before) == b"hello"
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            before.recv(1)
    with connect(proxy) as after:
        assert ask(after) == b"hello"


def test_while_a_link_is_down_nobody_connects(proxy: Proxy) -> None:
    proxy.is_down = True
    with pytest.raises(ConnectionResetError), connect(proxy) as refused:
        refused.recv(1)
    proxy.is_down = False
    with connect(proxy) as after:
        assert ask(after) == b"hello"


def test_a_black_hole_gives_back_what_it_took(proxy: Proxy) -> None:
    with connect(proxy) as connection:
        assert ask(connection) == b"hello"
        proxy.is_silent = True
        assert is_silent(connection)
        proxy.is_silent = False
        assert receive(connection, 5) == b"hello"


@pytest.mark.parametrize("way", ["cut_silently", "drop_answers"])
def test_what_is_dead_stays_open_and_says_nothing(proxy: Proxy, way: str) -> None:
    with connect(proxy) as before:
        assert ask(before) == b"hello"
        assert getattr(proxy, way)() == 1
        assert is_silent(before)
        with connect(proxy) as after:
            assert ask(after) == b"hello"


def test_only_those_that_listen_are_cut(proxy: Proxy) -> None:
    with connect(proxy) as listener, connect(proxy) as other:
        assert ask(listener, b"LISTEN here") == b"LISTEN here"
        assert ask(other) == b"hello"
        assert proxy.cut_listeners() == 1
        assert is_silent(listener)
        assert ask(other) == b"hello"


def test_a_delay_and_a_drip_lose_nothing(proxy: Proxy) -> None:
    text = bytes(range(256)) * 2
    with connect(proxy) as connection:
        proxy.delay_seconds, begun = 0.1, time.monotonic()
        assert ask(connection, text) == text
        assert time.monotonic() - begun >= 0.2  # there and back
        proxy.delay_seconds, proxy.drip_bytes, begun = 0.0, 40, time.monotonic()
        assert ask(connection, text) == text
        assert time.monotonic() - begun >= 0.2  # a dozen drops
