"""The cache of code: the coroutines of waiting runs, least recently used first out."""

from __future__ import annotations

from collections import OrderedDict

from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.worker.execution import Execution


class CodeCache:
    """Keeps at most `size` executions. The least recently used one is torn down first; a replay can restore it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[RunId, tuple[int, Execution]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, execution: Execution, revision: int) -> bool:
        """Keep the code of a run that began to wait at this revision; false if the cache has no size."""
        if self._size == 0:
            return False
        self._kept[execution.run.run_id] = (revision, execution)
        self._kept.move_to_end(execution.run.run_id)
        while len(self._kept) > self._size:
            _, (_, oldest) = self._kept.popitem(last=False)
            oldest.close()
        return True

    def take(self, run: Run) -> Execution | None:
        """The code of this run, if the run is still at the revision at which it began to wait."""
        revision, execution = self._kept.pop(run.run_id, (0, None))
        if execution is not None and revision != run.revision:
            execution.close()
            return None
        return execution

    def forget(self, run_id: RunId) -> None:
        """Tear the code of this run down."""
        _, execution = self._kept.pop(run_id, (0, None))
        if execution is not None:
            execution.close()

    def clear(self) -> None:
        """Tear everything down."""
        while self._kept:
            _, (_, execution) = self._kept.popitem()
            execution.close()
