"""Delivering signals."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from stepwell.model.runs import Claimed, Created, NewRun
from stepwell.model.signals import Delivered, NewSignal, Redelivery
from stepwell.model.workers import Claimant


class SignalStore(Protocol):
    """Transitions of signals."""

    def deliver(
        self, signals: Sequence[NewSignal], claimant: Claimant | None = None
    ) -> Coroutine[Any, Any, tuple[list[Delivered], list[Claimed]]]:
        """Store signals in mailboxes, in order, in one transaction, and wake the runs that wait for them.

        The target is tried as a run id first (a continued run passes the signal on to its successor, and so on), then
        as the key of an active run. Without an active run, the signal is held under the key if `hold`, else MISSING. A
        known `signal_id` answers DUPLICATE, and so does a known (dedup key, run, name), consumed or not. Where the
        answer would be MISSING, it is also DUPLICATE if an ended run knows the signal: the run with the target's id,
        its successors, or the newest run with the target's key.
        A run that waits (or compensates) without an owner and has a signal wait that accepts this name
        (`model.signals.is_accepted`) gets `wake_at` = now; if a claimant is given and can take it, the run is claimed
        at once, as in `RunStore.create`.
        For pending, running, paused and cancelling runs the signal is only stored.
        """
        ...

    async def deliver_or_create(
        self, signal: NewSignal, run: NewRun, claimant: Claimant | None = None
    ) -> tuple[Created, Delivered, list[Claimed]]:
        """Deliver a signal to the active run of `run.key`, or create that run with the signal in its mailbox.

        One transaction: of any number of concurrent callers, one creates the run, and the run gets every signal. Ended
        runs of the key do not count, unless one knows the dedup key of the signal: that answers DUPLICATE with that
        run. `same_input` is as with `create`. A known `signal_id` answers DUPLICATE and writes nothing. Claims as
        `create` and `deliver` do.
        """
        ...

    async def drop(self, number: int, *, by: str, reason: str = "") -> bool:
        """Drop a signal that a run refused, or that an ended run did not read: its ids stay known. False if there is no
        such signal; audit row.
        """
        ...

    async def redeliver(
        self, letters: Sequence[Redelivery], claimant: Claimant | None = None
    ) -> tuple[list[Delivered], list[Claimed]]:
        """Move signals that no run will read (held, refused, or left by an ended run) to a run, in order.

        Each gets a new number and wakes its run as `deliver` does. MISSING if the target has no active run, or if the
        signal is no longer there to move; nothing changes then. DUPLICATE if the run knows its dedup key; the signal is
        dropped.
        """
        ...
