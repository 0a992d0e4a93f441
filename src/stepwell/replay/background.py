"""What goes on beside the code of a turn: handlers of requests, and clean-ups of blocks that the code had to leave.

The run ends only when all of it has ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from stepwell.errors import ReplayError
from stepwell.model.entries import Entry
from stepwell.model.failures import decode_failure, encode_failure
from stepwell.model.locations import ROOT, Location, begun_at, is_undoing
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.replay.journal import BLOCK
from stepwell.replay.revival import step_failed
from stepwell.replay.suspend import Suspend

if TYPE_CHECKING:
    from stepwell.replay.primitives.handle import Handling
    from stepwell.replay.scopes import Scope
    from stepwell.replay.turn import Turn

CLEANUP: Final = BLOCK


class Background:
    """The work of one turn that no code waits for until the end."""

    __slots__ = ("_changed", "_failures", "_handlings", "_raised", "_running", "_turn", "open")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.open: dict[Location, Scope] = {}  # blocks that the code is in, by the place of their clean-up
        self._running: dict[Location, asyncio.Task[None]] = {}
        self._raised: set[Location] = set()  # failures that the code itself has received
        self._handlings: list[Handling] = []
        self._failures: list[Exception] = []  # of handlers that nobody waits for
        self._changed: asyncio.Future[None] | None = None

    # --- handlers ---

    def serve(self, handling: Handling) -> None:
        """Requests are handled from now on."""
        self._handlings.append(handling)

    def fail(self, error: Exception) -> None:
        """A handler has failed, and no sender learns of it: the run fails with it."""
        self._failures.append(error)

    def changed(self) -> None:
        """Some of it has ended."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # --- blocks ---

    def enter(self, location: Location, scope: Scope) -> None:
        """The code has entered a block."""
        self.open[location] = scope

    def leave(self, location: Location) -> None:
        """The code has left a block. What it has not cleaned up is cleaned up here."""
        self.open.pop(location, None)

    def raised(self, location: Location) -> None:
        """The code got the failure of a clean-up."""
        self._raised.add(location)

    # --- driven by the turn ---

    def start_left(self) -> bool:
        """Begin the clean-ups of blocks that the code was forced to leave, the last one first; whether there were any.

        Called when everything else waits and a replay has passed all that is recorded.
        """
        left = self._left()
        for entry in left:
            at = begun_at(entry.location)
            self._running[at] = self._turn.loop.own_task(self._clean(at, entry))
        return bool(left)

    async def finish(self) -> None:
        """Wait until all of it has ended. The code runs no longer."""
        for handling in self._handlings:
            handling.end()
        while self._running or self._left() or any(handling.is_busy for handling in self._handlings):
            self._changed = self._turn.loop.own_future()
            await self._changed

    def check(self) -> None:
        """Raise the failure of a handler or a clean-up that no code has received."""
        if self._failures:
            raise self._failures[0]
        journal = self._turn.journal
        for at in sorted(begun_at(one) for one in journal.blocks):
            entry = journal.entries.get(at)
            if entry is not None and entry.status is EntryStatus.FAILED and at not in self._raised:
                raise step_failed(journal.names.text(at), decode_failure(entry.value), entry.attempts)

    # --- inside ---

    def _left(self) -> list[Entry]:
        journal, found = self._turn.journal, []
        for location in tuple(journal.blocks):
            at = begun_at(location)
            ended = journal.entries.get(at)
            if ended is not None and ended.status is EntryStatus.DONE:
                journal.blocks.discard(location)
            elif ended is None and at not in self._running and is_undoing(at) == self._turn.is_undoing:
                scope = self.open.get(at)
                if scope is None or not scope.is_open:
                    found.append(journal.entries[location])
        return sorted(found, reverse=True)

    async def _clean(self, at: Location, entry: Entry) -> None:
        from stepwell.replay.compensations import UndoFailed, read_call
        from stepwell.replay.primitives.step import perform
        from stepwell.replay.scopes import Scope
        from stepwell.replay.steps import step_of

        turn = self._turn
        self.open.pop(at, None)
        turn.journal.visited[at] = EntryKind.STEP
        try:
            fn, args = read_call(turn, entry)
            await perform(Scope(turn, ROOT, turn.now), at, EntryKind.STEP, step_of(fn), args, {})
        except UndoFailed as error:  # nothing is known by its name
            await turn.order.reach_end()
            failure = encode_failure(error.failure)
            turn.journal.record(at, EntryKind.STEP, EntryStatus.FAILED, failure, turn.now)
        except ReplayError as problem:
            turn.diverge(problem)
        except (Suspend, asyncio.CancelledError):
            pass  # torn down
        finally:
            del self._running[at]
            self.changed()
