"""Connections that outlive the store that opened them: the next test of this process goes on with them.

A new session of the server reads its catalogue and compiles every function that is called in it, which is more work
than most tests are. What is kept are the lines by which stores call functions, and nothing else is done on those: no
statement of an author's, no transaction that stays open, nothing that is listened to.
"""

from __future__ import annotations

import asyncio
import atexit

from stepwell.environment import Environment
from stepwell.stores.postgres.callers import PooledCaller
from stepwell.stores.postgres.lines import Line
from stepwell.stores.postgres.urls import Address

_kept: dict[Address, list[Line]] = {}


class KeptCaller(PooledCaller):
    """A caller as every store has one, but for where its lines come from and where they go."""

    def __init__(self, address: Address, environment: Environment) -> None:
        super().__init__(address, environment)
        self._resting = _kept.setdefault(address, [])

    async def open(self) -> None:
        self._lines.open()
        self._urgent.open()
        self._lines.give(await self._connect())

    def _let_go(self, line: Line) -> None:
        line.detach()
        self._resting.append(line)

    async def _connect(self) -> Line:
        while self._resting:
            line = self._resting.pop()
            if line.is_usable and line.is_silent():
                line.attach(asyncio.get_running_loop())
                return line
            line.finish()
        return await super()._connect()


def _finish() -> None:
    for lines in _kept.values():
        while lines:
            lines.pop().finish()


atexit.register(_finish)
