"""Connections that outlive the store that opened them: the next test of this process goes on with them.

A new session of the server reads its catalogue and compiles every function that is called in it, which is more work
than most tests are. What is kept are the connections by which stores call functions, and nothing else is done on
those: no statement of an author's, no transaction that stays open, nothing that is listened to.
"""

from __future__ import annotations

import asyncio
import atexit

from stepwell.environment import Environment
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.pool import ConnectionPool
from stepwell.stores.postgres.urls import Address

_kept: dict[Address, list[Connection]] = {}


class KeptPool(ConnectionPool):
    """A pool as every store has one, but for where its connections come from and where they go."""

    def __init__(self, address: Address, environment: Environment) -> None:
        super().__init__(address, environment)
        self._resting = _kept.setdefault(address, [])

    async def open(self) -> None:
        self._connections.open()
        self._urgent.open()
        self._connections.give(await self._connect())

    def _release(self, connection: Connection) -> None:
        connection.detach()
        self._resting.append(connection)

    async def _connect(self) -> Connection:
        while self._resting:
            connection = self._resting.pop()
            if connection.is_usable and connection.is_silent():
                connection.attach(asyncio.get_running_loop())
                return connection
            connection.finish()
        return await super()._connect()


def _finish() -> None:
    for connections in _kept.values():
        while connections:
            connections.pop().finish()


atexit.register(_finish)
