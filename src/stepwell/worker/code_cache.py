"""Parked code: waiting runs whose coroutines are kept, the most recently used ones."""

from __future__ import annotations

from collections import OrderedDict

from stepwell.ids import RunId
from stepwell.model.runs import Run
from stepwell.worker.execution import Execution


class CodeCache:
    """Keeps at most `size` executions; the longest unused one is torn down first. It can always be replayed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[RunId, tuple[int, Execution]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, execution: Execution, revision: int) -> bool:
        """Keep the code of a run that was parked at this revision; false if there is no room for any."""
        if self._size == 0:
            return False
        self._kept[execution.run.run_id] = (revision, execution)
        self._kept.move_to_end(execution.run.run_id)
        while len(self._kept) > self._size:
            _, (_, oldest) = self._kept.popitem(last=False)
            oldest.close()
        return True

    def take(self, run: Run) -> Execution | None:
        """The code of this run, if it is still at the revision that it was parked at."""
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
