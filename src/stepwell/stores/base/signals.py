"""Delivering signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.model.runs import Claimed
from stepwell.model.signals import Delivered, NewSignal
from stepwell.model.workers import Claimant


class SignalStore(Protocol):
    """Transitions of signals."""

    async def deliver(
        self, signals: Sequence[NewSignal], claimant: Claimant | None = None
    ) -> tuple[list[Delivered], list[Claimed]]:
        """Store signals in mailboxes, in order, in one transaction, and wake the runs that wait for them.

        The target is tried as a run id first (a continued run passes it on to its successor, and so on), then as a
        key of an active run. No active
        run: held under the key if `hold`, else MISSING. A known `signal_id` answers DUPLICATE, and so does a known
        (dedup key, run, name), consumed or not.
        A parked run (waiting, or compensating) with a signal wait that names it (or names none) gets `wake_at` = now,
        and is claimed for the claimant at
        once if that is given and possible, as in `RunStore.create`. Pending, running, paused, cancelling runs only
        get it stored.
        """
        ...
