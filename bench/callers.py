"""Callers of the HTTP API, in a process of their own: `python -m bench.callers get|follow HOST PORT …`.

They speak plain HTTP over sockets, so that little of what is measured is theirs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import chain, repeat

_LAST = b"0\r\n\r\n"  # ends what is sent in pieces


class Caller:
    """One connection."""

    def __init__(self, host: str, port: int) -> None:
        self._where = (host, port)
        self._head = f"HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection(*self._where, limit=1 << 24)

    async def ask(self, path: str) -> int:
        """Send a request and read the head of its answer; gives the status."""
        self._writer.write(f"GET {path} {self._head}".encode())
        head = await self._reader.readuntil(b"\r\n\r\n")
        self._length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), None
        )
        return int(head[9:12])

    async def read_all(self) -> None:
        """Read the body of an answer."""
        if self._length is None:
            await self._reader.readuntil(_LAST)
        else:
            await self._reader.readexactly(self._length)

    async def read_events(self) -> int:
        """How many server-sent events come next; none at the end of the stream."""
        return (await self._reader.read(1 << 20)).count(b"\ndata: ")

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


async def get(host: str, port: int, path: str, connections: int, seconds: float) -> dict[str, object]:
    """Ask on some connections, each again as soon as it is answered; what came, and how long each answer took."""
    took: list[float] = []
    statuses: Counter[int] = Counter()
    began = time.perf_counter()

    async def one() -> None:
        caller = Caller(host, port)
        await caller.open()
        while not took or time.perf_counter() - began < seconds:
            asked = time.perf_counter()
            statuses[await caller.ask(path)] += 1
            await caller.read_all()
            took.append(time.perf_counter() - asked)
        caller.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return {"seconds": time.perf_counter() - began, "took": took, "statuses": statuses}


async def follow(host: str, port: int, paths: list[str]) -> dict[str, object]:
    """Follow each stream until it ends; says so as soon as all have told something."""
    events, silent = 0, len(paths)

    async def one(path: str) -> None:
        nonlocal events, silent
        caller = Caller(host, port)
        await caller.open()
        status = await caller.ask(path)
        if status != 200:
            raise RuntimeError(f"a follower was answered with {status}")
        for is_first in chain([True], repeat(False)):
            found = await caller.read_events()
            events += found
            silent -= is_first
            if is_first and not silent:
                print("following", flush=True)
            if not found:
                break
        caller.close()

    await asyncio.gather(*(one(path) for path in paths))
    return {"events": events}


def main() -> None:
    """Do what the command line says, and print what came of it as JSON."""
    verb, host, port, *more = sys.argv[1:]
    if verb == "get":
        path, connections, seconds = more
        said = asyncio.run(get(host, int(port), path, int(connections), float(seconds)))
    else:
        said = asyncio.run(follow(host, int(port), json.loads(sys.stdin.readline())))
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
