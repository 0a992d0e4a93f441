"""Hints: our own after each commit, and those of other processes by LISTEN and NOTIFY.

They are sent beside the commits they tell of, many at once: a NOTIFY inside a transaction makes all commits of the
database wait in a row. What is lost only costs time: workers look for themselves every second or so.
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
from stepwell.stores.base.wakeups import Hint, HintKind, Hub, Listener
from stepwell.stores.postgres.calls import NOTIFY
from stepwell.stores.postgres.connections import Connection
from stepwell.stores.postgres.database import PostgresDatabase
from stepwell.stores.postgres.faults import unavailable
from stepwell.stores.postgres.sessions import connect
from stepwell.stores.postgres.texts import quoted
from stepwell.stores.postgres.urls import Address

_LOG = logging.getLogger("stepwell.postgres")

_GAP_SECONDS = 0.002  # between two messages, so that a burst is told in a few
_BEAT_SECONDS, _BEAT_PATIENCE = 20.0, 5.0
_CONNECT_SECONDS = 5.0
_LAST_SECONDS = 1.0  # for the last message, and for each task to end
_PRESENT_SECONDS = 3 * _BEAT_SECONDS  # how long somebody is taken to be there who has said so
_AGAIN_SECONDS, _AGAIN_SECONDS_MAX = 0.1, 5.0
_PAYLOAD_MAX = 7_000  # bytes; the server takes 8,000
_RUNS_MAX = 60  # of one kind in one message

_DECODE = msgspec.json.Decoder(tuple[str, list[tuple[HintKind, list[RunId]]]]).decode
_ENCODE = msgspec.json.Encoder().encode


class PostgresWakeups(Hub):
    """A hub that tells other processes, and hears of them as long as anybody listens here.

    `is_listening` says whether it does now; `losses` counts how often it was lost and found again. Who listens says so
    now and then, and is answered by those that did not know: as long as nobody else is there, nothing is told.
    Each attempt to listen that fails doubles `again_seconds`; one that succeeds sets it back.
    """

    def __init__(self, database: PostgresDatabase, address: Address, environment: Environment) -> None:
        super().__init__()
        self._database = database
        self._address = address._replace(conninfo=address.listen_conninfo, isolation=None)
        self._environment = environment
        self._name = environment.ids.uuid()  # by which our own messages are known
        self._hello = _ENCODE((self._name, ())).decode()
        self._owes_hello = False  # to somebody who has not heard of us
        self._channel = address.schema
        self._outgoing: dict[HintKind, dict[RunId, None]] = {}
        self._has_outgoing = asyncio.Event()
        self._has_listeners = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self._others: dict[str, float] = {}  # who else listens, and until when that is believed
        self.is_listening = False
        self.losses = 0
        self.again_seconds = _AGAIN_SECONDS  # the pause before the next attempt to listen

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear every hint from now on; call what is returned to stop."""
        stop = super().listen(listener)
        self._has_listeners.set()
        return stop

    def tell_own(self, hint: Hint) -> None:
        """Something was committed here: tell it here at once, and elsewhere soon."""
        self.tell(hint)
        if self._tasks and self._is_anybody_there():
            self._outgoing.setdefault(hint.kind, {}).update(dict.fromkeys(hint.runs))
            self._has_outgoing.set()

    def open(self) -> None:
        """The store is open: other processes may be told and heard."""
        if not self._tasks and not self._database.pool.is_alone:
            spawn = self._environment.executor.spawn
            self._tasks = [
                spawn(self._send_all(), name="stepwell-postgres-notify"),
                spawn(self._hear_all(), name="stepwell-postgres-listen"),
            ]

    async def close(self) -> None:
        """Say what is left to say, and listen no more."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await self._send()

    def _is_anybody_there(self) -> bool:
        """Whether somebody else may want to hear; who does not listen himself cannot know."""
        if not self.is_listening:
            return True
        now = self._environment.clock.monotonic()
        for name, until in tuple(self._others.items()):
            if until > now:
                return True
            del self._others[name]
        return False

    # --- telling ---

    async def _send_all(self) -> None:
        while True:
            await self._has_outgoing.wait()
            await self._send()
            await asyncio.sleep(_GAP_SECONDS)

    async def _send(self) -> None:
        outgoing, self._outgoing = self._outgoing, {}
        self._has_outgoing.clear()
        payloads = [payload.decode() for payload in _spell(self._name, outgoing)]
        if self._owes_hello:
            payloads.append(self._hello)
        self._owes_hello = False
        if not payloads:
            return
        try:
            await self._database.say(NOTIFY, self._channel, payloads)
        except Exception as error:  # noqa: BLE001  a hint that is lost only costs time
            _LOG.debug("a hint was not sent: %r", error)

    # --- hearing ---

    async def _hear_all(self) -> None:
        await self._has_listeners.wait()
        while True:
            try:
                connection = await connect(self._address, _CONNECT_SECONDS)
                try:
                    if not connection.prepares:
                        _LOG.warning(
                            "%s is behind a pooler, which LISTEN does not reach: other processes are looked for "
                            "every second instead; name a direct way in the URL (listen=...)",
                            self._address.where,
                        )
                        return
                    await self._hear(connection)
                finally:
                    self.is_listening = False
                    connection.finish()
            except Exception as error:  # noqa: BLE001  whatever it is: without this task no hint would ever be heard
                self.losses += 1
                _LOG.warning("not listening: %s", error.title if isinstance(error, StepwellError) else repr(error))
            pause, self.again_seconds = self.again_seconds, min(self.again_seconds * 2, _AGAIN_SECONDS_MAX)
            await asyncio.sleep(pause)

    async def _hear(self, connection: Connection) -> None:
        """Listen until the connection is lost."""
        lost = asyncio.Event()
        connection.on_input = lambda: self._take_in(connection)
        connection.on_loss = lost.set
        await connection.execute(
            f"set synchronous_commit = off; listen {quoted(self._channel)}", patience=_BEAT_PATIENCE
        )
        await self._say_hello(connection)
        self.is_listening, self.again_seconds = True, _AGAIN_SECONDS
        # Whatever was told while nobody listened is not told again.
        self.tell(Hint(HintKind.CHANGED))
        while not lost.is_set():
            with suppress(TimeoutError):
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the loss.
                async with asyncio.timeout(_BEAT_SECONDS):
                    await lost.wait()
                break
            # A connection that only listens does not notice by itself that there is nobody at the other end.
            await self._say_hello(connection)
        raise unavailable(self._address.where, "the connection that listens was lost")

    async def _say_hello(self, connection: Connection) -> None:
        await connection.execute(f"notify {quoted(self._channel)}, '{self._hello}'", patience=_BEAT_PATIENCE)

    def _take_in(self, connection: Connection) -> None:
        while (notice := connection.driver.pgconn.notifies()) is not None:
            try:
                sender, kinds = _DECODE(notice.extra)
            except msgspec.MsgspecError:
                self.tell(Hint(HintKind.CHANGED))  # somebody else's words, or a newer stepwell's
                continue
            if sender != self._name:
                self._note(sender)
                for kind, runs in kinds:
                    self.tell(Hint(kind, tuple(runs)))

    def _note(self, sender: str) -> None:
        """Somebody else is there."""
        if sender not in self._others:
            self._owes_hello = True
            self._has_outgoing.set()
        self._others[sender] = self._environment.clock.monotonic() + _PRESENT_SECONDS


def _spell(name: str, hints: dict[HintKind, dict[RunId, None]]) -> Iterator[bytes]:
    """Hints as messages, none of them too long for the server."""
    kinds: list[tuple[HintKind, list[RunId]]] = []
    size = 0
    for kind, found in hints.items():
        # Who is told that something is ready looks for all that is.
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
