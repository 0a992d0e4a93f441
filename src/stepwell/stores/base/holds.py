"""Pausing workflows: each method is one atomic transition, or one read."""

from __future__ import annotations

from typing import Protocol

from stepwell.model.holds import HoldAct, WorkflowHold


class HoldStore(Protocol):
    """Holds of workflows. None as a workflow means all of them, which is a hold of its own."""

    async def pause(self, workflow: str | None, *, by: str, reason: str, act: str = "") -> bool:
        """From now on no transition claims a run of the workflow for anybody, and `next_wake` and `outlook` pass its
        runs by. Their statuses stay, and everything else is done with them as before: they are created, get signals
        and events, and become due.

        Owners are told by a hint (`HELD`), and by `renew`. False if it is paused already: whoever came first stays.
        Audit row. An `act` that was done already is answered as in `RunStore.cancel`.
        """
        ...

    async def resume(self, workflow: str | None, *, by: str, act: str = "") -> bool:
        """What is due may be claimed at once (a `READY` hint), unless another hold is in the way. False if it is not
        paused. Audit row.
        """
        ...

    async def list_holds(self) -> list[WorkflowHold]:
        """What is paused: all workflows first, then by name."""
        ...

    async def list_acts(self, *, limit: int) -> list[HoldAct]:
        """The latest acts, newest first."""
        ...
