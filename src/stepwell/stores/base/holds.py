"""Pausing workflows: each method is one atomic transition, or one read."""

from __future__ import annotations

from typing import Protocol

from stepwell.model.holds import HoldAct, WorkflowHold


class HoldStore(Protocol):
    """Holds of workflows. The workflow None means all workflows; that is a separate hold."""

    async def pause(self, workflow: str | None, *, by: str, reason: str, act: str = "") -> bool:
        """From now on no transition claims a run of the workflow, and `next_wake` and `upcoming_work` skip its runs.
        The runs keep their statuses and are otherwise treated as usual: they are created, get signals and events, and
        become due.

        Owners learn of it from a hint (`HELD`) and from `renew`. False if it is paused already; the first pause stays.
        Audit row. An `act` that was done already is answered as in `RunStore.cancel`.
        """
        ...

    async def resume(self, workflow: str | None, *, by: str, act: str = "") -> bool:
        """Allow claims again: due runs may be claimed at once (a `READY` hint), unless another hold applies. False if
        it is not paused. Audit row.
        """
        ...

    async def list_holds(self) -> list[WorkflowHold]:
        """The holds: that of all workflows first, then by name."""

        ...

    async def list_acts(self, *, limit: int) -> list[HoldAct]:
        """The latest acts, newest first."""
        ...
