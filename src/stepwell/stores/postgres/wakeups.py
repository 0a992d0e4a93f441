"""Hints: our own after each commit, and those of other processes by LISTEN and NOTIFY.

Notifications are sent outside the commits that they announce, many at once: a NOTIFY inside a transaction serialises
all commits of the database. A lost notification only costs time: workers poll about once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from stepwell.environment import Environment
from stepwell.errors import StepwellError
from stepwell.ids import RunId
from stepwell.stores.base.wakeups import Hint, HintHub, HintKind, Listener
from stepwell.stores.postgres.calls import NOTIFY
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.database import PostgresDatabase
from stepwell.stores.postgres.faults import unavailable
from stepwell.stores.postgres.sessions import connect
from stepwell.stores.postgres.texts import quoted
from stepwell.stores.postgres.urls import Address

_LOG = logging.getLogger("stepwell.postgres")

_GAP_SECONDS = 0.002  # between two messages, so that a burst needs only a few
_BEAT_SECONDS, _BEAT_TIMEOUT_SECONDS = 20.0, 5.0
_CONNECT_SECONDS = 5.0
_LAST_SECONDS = 1.0  # for the last message, and for each task to end
_PRESENT_SECONDS = 3 * _BEAT_SECONDS  # how long a process counts as listening after its last message
_RETRY_SECONDS, _RETRY_SECONDS_MAX = 0.1, 5.0
_PAYLOAD_MAX = 7_000  # bytes; the server's limit is 8,000
_RUNS_MAX = 60  # of one kind in one message

_DECODE = msgspec.json.Decoder(tuple[str, list[tuple[HintKind, list[RunId]]]]).decode
_ENCODE = msgspec.json.Encoder().encode


class PostgresWakeups(HintHub):
    """A hub that notifies other processes, and listens to them while it has listeners.

    `is_listening` is whether it listens now; `losses` counts how often the listening connection was lost. A listening
    process announces itself regularly, and processes that did not know it answer. While no other process is known,
    nothing is sent.
    Each failed attempt to listen doubles `retry_seconds`; a successful one resets it.
    """

    def __init__(self, database: PostgresDatabase, address: Address, environment: Environment) -> None:
        super().__init__()
        self._database = database
        self._address = address._replace(conninfo=address.listen_conninfo, isolation=None)
        self._environment = environment
        self._name = environment.ids.uuid()  # identifies our own messages
        self._announcement = _ENCODE((self._name, ())).decode()
        self._owes_announcement = False  # to a process that does not know us yet
        self._channel = address.schema
        self._outgoing: dict[HintKind, dict[RunId, None]] = {}
        self._has_outgoing = asyncio.Event()
        self._has_listeners = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self._peers: dict[str, float] = {}  # other listening processes, and until when we assume that
        self.is_listening = False
        self.losses = 0
        self.retry_seconds = _RETRY_SECONDS  # the pause before the next attempt to listen

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for every hint from now on. Call the returned function to stop."""
        stop = super().listen(listener)
        self._has_listeners.set()
        return stop

    def notify_own(self, hint: Hint) -> None:
        """Notify our own listeners at once, and other processes soon. Something was committed here."""
        self.notify(hint)
        if self._tasks and self._has_peers():
            self._outgoing.setdefault(hint.kind, {}).update(dict.fromkeys(hint.runs))
            self._has_outgoing.set()

    def open(self) -> None:
        """Start to notify and to listen to other processes; the store is open."""
        if not self._tasks and not self._database.pool.is_exclusive:
            spawn = self._environment.executor.spawn
            self._tasks = [
                spawn(self._send_all(), name="stepwell-postgres-notify"),
                spawn(self._listen_all(), name="stepwell-postgres-listen"),
            ]

    async def close(self) -> None:
        """Send the remaining notifications, and stop listening."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self._send()

    def _has_peers(self) -> bool:
        """Whether another process may be listening. Without listening ourselves, we cannot know."""
        if not self.is_listening:
            return True
        now = self._environment.clock.monotonic()
        for name, until in tuple(self._peers.items()):
            if until > now:
                return True
            del self._peers[name]
        return False

    # --- sending ---

    async def _send_all(self) -> None:
        while True:
            await self._has_outgoing.wait()
            await self._send()
            await asyncio.sleep(_GAP_SECONDS)

    async def _send(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        self._has_outgoing.clear()
        payloads = [payload.decode() for payload in _encode_messages(self._name, outgoing)]
        if self._owes_announcement:
            payloads.append(self._announcement)
        self._owes_announcement = False
        if not payloads:
            return
        try:
            await self._database.call_once(NOTIFY, self._channel, payloads)
        except Exception as error:  # noqa: BLE001  a hint that is lost only costs time
            _LOG.debug("a hint was not sent: %r", error)

    # --- listening ---

    async def _listen_all(self) -> None:
        await self._has_listeners.wait()
        while True:
            try:
                connection = await connect(self._address, _CONNECT_SECONDS)
                try:
                    if not connection.prepares:
                        _LOG.warning(
                            "%s is behind a pooler, and LISTEN does not work through it: the store is polled "
                            "for changes every second instead; name a direct connection in the URL (listen=...)",
                            self._address.where,
                        )
                        return
                    await self._listen_on(connection)
                finally:
                    self.is_listening = False
                    connection.finish()
            except Exception as error:  # noqa: BLE001  without this task, no hint of another process would ever arrive
                self.losses += 1
                _LOG.warning("not listening: %s", error.title if isinstance(error, StepwellError) else repr(error))
            pause, self.retry_seconds = self.retry_seconds, min(self.retry_seconds * 2, _RETRY_SECONDS_MAX)
            await asyncio.sleep(pause)

    async def _listen_on(self, connection: Connection) -> None:
        """Listen until the connection is lost."""
        lost = asyncio.Event()
        connection.on_input = lambda: self._receive(connection)
        connection.on_loss = lost.set
        await connection.execute(
            f"set synchronous_commit = off; listen {quoted(self._channel)}", timeout_seconds=_BEAT_TIMEOUT_SECONDS
        )
        await self._announce(connection)
        self.is_listening, self.retry_seconds = True, _RETRY_SECONDS
        # Notifications that were sent while this process did not listen are not sent again.
        self.notify(Hint(HintKind.CHANGED))
        while not lost.is_set():
            with suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that arrives together with the loss.
                async with asyncio.timeout(_BEAT_SECONDS):
                    await lost.wait()
                break
            # A connection that only listens does not notice by itself that the server is gone.
            await self._announce(connection)
        raise unavailable(self._address.where, "the connection that listens was lost")

    async def _announce(self, connection: Connection) -> None:
        await connection.execute(
            f"notify {quoted(self._channel)}, '{self._announcement}'", timeout_seconds=_BEAT_TIMEOUT_SECONDS
        )

    def _receive(self, connection: Connection) -> None:
        while (notice := connection.driver.pgconn.notifies()) is not None:
            try:
                sender, kinds = _DECODE(notice.extra)
            except msgspec.MsgspecError:
                self.notify(Hint(HintKind.CHANGED))  # the message of another program, or of a newer stepwell
                continue
            if sender != self._name:
                self._note_peer(sender)
                for kind, runs in kinds:
                    self.notify(Hint(kind, tuple(runs)))

    def _note_peer(self, sender: str) -> None:
        """Note that another process is listening."""
        if sender not in self._peers:
            self._owes_announcement = True
            self._has_outgoing.set()
        self._peers[sender] = self._environment.clock.monotonic() + _PRESENT_SECONDS


def _encode_messages(name: str, hints: dict[HintKind, dict[RunId, None]]) -> Iterator[bytes]:
    """Hints as messages that are short enough for the server."""
    kinds: list[tuple[HintKind, list[RunId]]] = []
    size = 0
    for kind, found in hints.items():
        # READY triggers a search for all due runs, so ids are omitted.
        runs = [] if kind is HintKind.READY else list(found)
        for first in range(0, max(1, len(runs)), _RUNS_MAX):
            part = runs[first : first + _RUNS_MAX]
            length = sum(map(len, part)) * 2 + 50
            if kinds and size + length > _PAYLOAD_MAX:
                yield _ENCODE((name, kinds))
                kinds, size = [], 0
            is_too_long = length > _PAYLOAD_MAX
            kinds.append((HintKind.CHANGED, []) if is_too_long else (kind, part))
            size += 50 if is_too_long else length
    if kinds:
        yield _ENCODE((name, kinds))
