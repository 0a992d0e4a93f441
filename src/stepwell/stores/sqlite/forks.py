"""Forks of this process. A child must not use the SQLite connections of its parent: it would believe that it holds the
parent's locks, and would hang if another thread was within SQLite's allocator at that moment.

So before a fork every thread that uses SQLite comes to a stop between two calls. In the child the inherited connections
are closed, so that the child can open the same file like any other process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable
from typing import Final, Protocol
from weakref import WeakSet

import apsw

from stepwell.errors import StoreUnavailableError

# A call of SQLite takes longer than this only if it reads very much, or waits for another process.
_STOP_SECONDS_MAX: Final = 5.0
_RESUME_SECONDS_MAX: Final = 60.0  # Python does not report a fork that failed


class Holder(Protocol):
    """Something that has connections to a file."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop on whose thread it uses them, while they are open."""
        ...

    def stop_threads(self) -> Iterable[Stop]:
        """Stop its other threads behind the calls that they have to make."""
        ...

    def drop(self) -> None:
        """In a forked child: close the connections, which belong to the parent."""
        ...


class Stop:
    """Stops one thread while this process is forked."""

    def __init__(self) -> None:
        self._is_reached = threading.Event()
        self._may_go_on = threading.Event()

    def here(self) -> None:
        """In that thread: wait until the fork is over."""
        self._is_reached.set()
        self._may_go_on.wait(_RESUME_SECONDS_MAX)

    def is_reached(self) -> bool:
        """Wait until the thread has stopped; false if it takes too long."""
        return self._is_reached.wait(_STOP_SECONDS_MAX)

    def go_on(self) -> None:
        """The fork is over."""
        self._may_go_on.set()


class _Fork(threading.local):
    """The fork that this thread is making."""

    def __init__(self) -> None:
        self.stops: list[Stop] = []
        self.is_clean = True


_holders: WeakSet[Holder] = WeakSet()
_fork = _Fork()
_is_unusable = False  # this process was forked while a thread was within SQLite


def hold(holder: Holder) -> None:
    """Take part in forks, until `release` or until the holder is gone."""
    _holders.add(holder)


def release(holder: Holder) -> None:
    """Take no part in forks any more."""
    _holders.discard(holder)


def check_usable(path: str) -> None:
    """Raise `StoreUnavailableError` if SQLite cannot be used in this process, because of how it was forked."""
    if _is_unusable:
        raise StoreUnavailableError(
            "this process was forked while another thread was using SQLite",
            where=path,
            why="a lock that this thread held would never be released here",
            fix="start child processes before the engine is opened, or with the spawn method of multiprocessing",
        )


def _before() -> None:
    found = list(_holders)
    _fork.stops = []
    here = running_loop()
    for loop in {id(holder.loop): holder.loop for holder in found}.values():
        if loop is not None and loop.is_running() and loop is not here:
            _stop(loop)
    # The loops first: what they have handed to their threads is done before those stop.
    _fork.is_clean = all(stop.is_reached() for stop in _fork.stops)
    threads = [stop for holder in found for stop in holder.stop_threads()]
    _fork.stops += threads
    _fork.is_clean = all(stop.is_reached() for stop in threads) and _fork.is_clean


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, if it has one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    stop = Stop()
    try:
        loop.call_soon_threadsafe(stop.here)
    except RuntimeError:  # it has been closed meanwhile
        return
    _fork.stops.append(stop)


def _in_parent() -> None:
    for stop in _fork.stops:
        stop.go_on()
    _fork.stops = []


def _in_child() -> None:
    global _is_unusable
    found = list(_holders)
    _holders.clear()
    _fork.stops = []
    if not _fork.is_clean and found:
        _is_unusable = True
        return
    for holder in found:
        holder.drop()


def drop_connection(connection: apsw.Connection | None) -> None:
    """Close a connection of the parent, and leave the file and its log as they are."""
    global _is_unusable
    if connection is None:
        return
    if connection.in_transaction:  # forked by its own thread; a rollback here would change what the parent sees
        _is_unusable = True
        return
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close(force=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
