"""Progress of long commands on stderr: a bar on a terminal, a line for each stage elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stepwell.cli.output import Output

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_STEPS = 200  # updates of one bar, however long it is


class Bars:
    """One bar for each stage, in the order of their beginnings."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._progress: Progress | None = None
        self._stages: dict[str, TaskID] = {}
        self._ended: set[str] = set()

    def __enter__(self) -> Self:
        if self._out.format == "table" and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            bar = BarColumn() if not self._out.ascii else TextColumn("")
            columns = (TextColumn("{task.description:<10}"), bar, MofNCompleteColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True))
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def tell(self, stage: str, done: int, total: int) -> None:
        """Report the progress of a stage."""
        if done < total and done % max(1, total // _STEPS):
            return
        if self._progress is None:
            if done >= total and stage not in self._ended:
                self._ended.add(stage)
                self._out.note(f"{stage}: {done} of {total}")
            return
        if stage not in self._stages:
            self._stages[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._stages[stage], completed=done, total=total)
