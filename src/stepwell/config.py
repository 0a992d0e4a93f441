"""Frozen, once-validated settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stepwell.clock import SECOND, Duration, Span, span
from stepwell.errors import InvalidOptionError

Mode = Literal["live", "yield"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker behaves. The defaults suit one process on one machine.

    `mode`: "live" keeps waiting code in memory while there is room, "yield" tears it down at every wait and replays
    it; outcomes are the same. `lease`: how long a dead worker's runs stay its own. `runs_max`: how many runs execute
    at once. `parked_max`: how many waiting runs keep their code in memory. `hold_max`: timers shorter than this are sat
    out without giving the run up. `claim_ahead`: so long before its timer a waiting run is taken, while an eighth of
    the room is free, so that many timers at one instant are in time. `sweep_every`: how often it looks for runs of dead
    workers, and for work that no hint told of. `stalls_max`: a run that has lost its worker this many times without
    progress is paused (SW202). `threads_max`: how many bodies of `def` steps run at one time. `name`: how listings
    call it.
    """

    mode: Mode = "live"
    lease: Duration = "10s"
    runs_max: int = 1_000
    parked_max: int = 1_000
    hold_max: Duration = "1s"
    claim_ahead: Duration = "500ms"
    sweep_every: Duration = "2s"
    stalls_max: int = 5
    threads_max: int = 32
    name: str = "worker"

    def __post_init__(self) -> None:
        if self.mode not in ("live", "yield"):
            raise InvalidOptionError(f"mode is {self.mode!r}", fix='"live" or "yield"')
        if span(self.lease, what="lease") < SECOND // 10:
            raise InvalidOptionError(f"lease is {self.lease!r}", why="a lease below 100 ms cannot be renewed in time")
        if min(self.runs_max, self.stalls_max, self.threads_max) < 1 or self.parked_max < 0:
            raise InvalidOptionError("runs_max, stalls_max and threads_max must be at least 1, parked_max at least 0")
        span(self.hold_max, what="hold_max")
        span(self.claim_ahead, what="claim_ahead")
        span(self.sweep_every, what="sweep_every")

    @property
    def lease_span(self) -> Span:
        """The lease in microseconds."""
        return span(self.lease)

    @property
    def hold_span(self) -> Span:
        """The longest wait that is sat out in memory; none in yield mode."""
        return span(self.hold_max) if self.mode == "live" else Span(0)

    @property
    def ahead_span(self) -> Span:
        """How long before its timer a run is claimed; not at all in yield mode."""
        return span(self.claim_ahead) if self.mode == "live" else Span(0)

    @property
    def room_ahead(self) -> int:
        """How many slots are free before runs are claimed ahead of their timers."""
        return -(-self.runs_max // 8)

    @property
    def cache_size(self) -> int:
        """How many waiting runs keep their code; none in yield mode."""
        return self.parked_max if self.mode == "live" else 0
