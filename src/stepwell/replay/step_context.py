"""`StepContext`: what a step body may know about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stepwell.errors import InvalidOptionError
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
    _emit: Callable[[str, Any], None] | None = field(default=None, repr=False, compare=False)
    _writer: StreamWriter | None = field(default=None, repr=False, compare=False)

    def emit(self, event: str, payload: Any = None) -> None:
        """Emit an event with this step: published once its result is recorded, and not at all if this attempt fails.

        Raises at once if the name is none, or if the payload cannot be encoded.
        """
        if self._emit is None:
            raise InvalidOptionError(
                f"step {self.path} cannot emit {event!r:.120} from here",
                where=self.path,
                why="its body runs in a process of its own, which only hands back its result",
                fix='emit with ctx.emit(...) after the step, or its result with @step(emits="...")',
            )
        self._emit(event, payload)

    def stream(self, name: str) -> StepStream:
        """A stream of this run, to append to while the body runs; see `docs/streams.md`."""
        return open_step_stream(self._writer, self.path, name)
