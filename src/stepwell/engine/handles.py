"""A handle: a run as its starter holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from stepwell.clock import Duration
from stepwell.errors import NotFoundError
from stepwell.ids import RunId

if TYPE_CHECKING:
    from stepwell.engine.facade import Facade
    from stepwell.engine.views import RunView

Out = TypeVar("Out", covariant=True)


class Handle(Generic[Out]):
    """A started (or found) run.

    `is_new` is false if an earlier run of the same key was returned instead; then `same_input` says whether it has
    the same input.
    """

    def __init__(
        self, engine: Facade, run_id: RunId, *, is_new: bool, same_input: bool, output_hint: Any = Any
    ) -> None:
        self._engine = engine
        self._output_hint = output_hint
        self.run_id = run_id
        self.is_new = is_new
        self.same_input = same_input

    async def result(self, timeout: Duration | None = None) -> Out:
        """Wait for the end of the run, and of the runs that continue it.

        Raises `RunFailed`, `RunCancelled`, `RollbackIncomplete` or `RunPaused` when it does not complete, and
        `ResultTimeout` when it has not ended in time; the run itself goes on then.
        """
        return cast("Out", await self._engine.result(self.run_id, timeout=timeout, output_hint=self._output_hint))

    async def status(self) -> RunView:
        """The run as it is now. Raises `NotFoundError` while the transaction that started it is not committed."""
        view = await self._engine.status(self.run_id)
        if view is None:
            raise NotFoundError("run", self.run_id)
        return view

    async def signal(self, name: str, payload: Any = None, *, dedup_key: str | None = None) -> None:
        """Send a signal to this run."""
        await self._engine.signal(self.run_id, name, payload, dedup_key=dedup_key)

    async def cancel(self, reason: str = "", *, compensate: bool = True) -> bool:
        """Cancel this run."""
        return await self._engine.cancel(self.run_id, reason, compensate=compensate)

    def __repr__(self) -> str:
        return f"<run {self.run_id}{'' if self.is_new else ' (found)'}>"
