"""`StepContext`: what a step body may know about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepwell.replay.step_streams import StepStream, open_step_stream

if TYPE_CHECKING:
    from stepwell.replay.step_streams import StreamWriter


@dataclass(frozen=True, slots=True)
class StepContext:
    """Given to a body whose first parameter is annotated with it.

    `idempotency_key` is the same for every attempt at this step of this run and for nothing else: hand it to a
    payment provider,
    and the effect happens once however often the body runs.
    """

    run_id: str
    workflow: str
    path: str
    attempt: int
    is_final_attempt: bool
    idempotency_key: str
    _writer: StreamWriter | None = field(default=None, repr=False, compare=False)

    def stream(self, name: str) -> StepStream:
        """A stream of this run, to append to while the body runs; see `docs/streams.md`."""
        return open_step_stream(self._writer, self.path, name)
