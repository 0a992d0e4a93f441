"""A PostgreSQL server, and for each worker a link to it that faults can happen to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import psycopg

from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.system.grounds import TWICE, used_twice

# What can happen to a link. Each is pluralised for people by an s.
FAULTS: Final = {
    "reset": "every connection is reset; new ones are in order at once",
    "outage": "every connection is reset, and new ones are for a while",
    "black hole": "nothing passes for a while, and nothing is closed",
    "half-open link": "every connection is dead for good and stays open; new ones are in order",
    "delay": "everything takes 0.5 to 5 s longer in each direction, for a while",
    "drip": "a few bytes at a time pass, for a while",
    "lost answer": "requests arrive and answers do not, on the connections of now",
    "lost listener": "the connection that LISTENs is dead and stays open; the others are in order",
}


class LinkedGround:
    """One server, which nothing happens to, and links."""

    name = "postgres"
    is_held_up = False

    def __init__(self, version: int, links: int) -> None:
        self._server = PostgresServer(version)
        self._database = ""
        self.links = [Link(Proxy(self._server.port)) for _ in range(links)]

    @property
    def url(self) -> str:
        """The way of whoever looks on: nothing happens to it."""
        return self._database

    def open(self) -> None:
        self._server.start()
        self._database = self._server.create_database()
        for link in self.links:
            link.proxy.__enter__()

    def describe(self) -> str:
        return f"PostgreSQL {self._server.version} through {len(self.links)} links"

    def check(self) -> list[str]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return used_twice(connection.execute(TWICE.format("stepwell.entries")).fetchone())

    def close(self) -> None:
        for link in self.links:
            if link.proxy.port:
                link.proxy.__exit__(None, None, None)
        self._server.close()


class Link:
    """The way of one worker to its database."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    async def suffer(self, fault: str, chance: random.Random, lease: float) -> None:
        """Let a fault happen; returns when it is over, but for whoever has yet to notice."""
        proxy = self.proxy
        lasts = chance.uniform(0.2, 2.5) * lease  # some are over before anybody loses a lease
        match fault:
            case "reset":
                await self._act(proxy.reset)
            case "outage":
                proxy.is_down = True
                await self._act(proxy.reset)
                await asyncio.sleep(lasts)
                proxy.is_down = False
            case "black hole":
                proxy.is_silent = True
                await asyncio.sleep(lasts)
                proxy.is_silent = False
            case "half-open link":
                await self._act(proxy.cut_silently)
            case "delay":
                proxy.delay_seconds = chance.uniform(0.5, 5.0)
                await asyncio.sleep(lasts)
                proxy.delay_seconds = 0.0
            case "drip":
                proxy.drip_bytes = chance.randint(5, 80)
                await asyncio.sleep(lasts)
                proxy.drip_bytes = 0
            case "lost answer":
                await self._act(proxy.drop_answers)
            case "lost listener":
                # Whoever lost it may be about to listen again.
                while not await self._act(proxy.cut_listeners):  # noqa: ASYNC110  it is another process
                    await asyncio.sleep(0.05)
            case _:
                raise ValueError(f"there is no fault {fault!r}")

    async def _act(self, act: Callable[[], int]) -> int:
        return await asyncio.to_thread(act)
