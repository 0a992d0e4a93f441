"""The sockets of our servers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from stepwell.cli.commands.server import _listen
from stepwell.cli.dev.server import listen


@pytest.mark.parametrize(
    "make", [lambda: _listen("127.0.0.1", 0), lambda: listen(20_000)], ids=["stepwell serve", "stepwell dev"]
)
async def test_the_pieces_of_an_answer_do_not_wait_for_each_other(make: Callable[[], socket.socket]) -> None:
    """Without this an answer takes 40 ms: its body waits until the client has acknowledged its head."""
    accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result(writer)

    listener = make()
    async with await asyncio.start_server(accept, sock=listener):
        _, client = await asyncio.open_connection(*listener.getsockname())
        server = await accepted
        at_once = server.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for writer in (client, server):
            writer.close()
            await writer.wait_closed()
    assert at_once != 0
