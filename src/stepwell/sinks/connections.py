"""The connection of a sink to a server: opened at the first event, kept, and closed with the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any, Final, Generic, TypeVar

from stepwell.errors import InvalidOptionError

C = TypeVar("C")

CLOSE_SECONDS: Final = 2.0


class Connection(Generic[C]):
    """One client for each event loop, because a client belongs to the loop that it was made in."""

    def __init__(self, connect: Callable[[], Awaitable[C]], disconnect: Callable[[C], Awaitable[Any]]) -> None:
        self._connect = connect
        self._disconnect = disconnect
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    async def get(self) -> C:
        """The client of the running loop, connected."""
        loop = asyncio.get_running_loop()
        known = self._clients.get(loop)
        if known is not None:
            return known
        for closed in [each for each in self._clients if each.is_closed()]:
            del self._clients[closed], self._opening[closed]
        async with self._opening.setdefault(loop, asyncio.Lock()):
            if loop not in self._clients:
                self._clients[loop] = await self._connect()
            return self._clients[loop]

    async def drop(self) -> None:
        """Close the client of the running loop: the next event connects anew."""
        loop = asyncio.get_running_loop()
        client = self._clients.pop(loop, None)
        self._opening.pop(loop, None)
        if client is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._disconnect(client)
        except Exception:  # noqa: BLE001  a connection that is broken cannot be closed in an orderly way
            return


def need(module: str, package: str, extra: str) -> Any:
    """A module of an extra. Raises `InvalidOptionError` with the line to type if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidOptionError(
            f"this sink needs the package `{package}`", why=str(error), fix=f"pip install 'stepwell[{extra}]'"
        ) from error
