"""Frozen settings of a worker, validated once."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from stepwell.clock import SECOND, Duration, Span, span
from stepwell.errors import InvalidOptionError

Mode = Literal["live", "yield"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker behaves. The defaults suit one process on one machine.

    A setting that is not given here is read from the environment (`STEPWELL_LEASE` and so on), then from
    `stepwell.toml` or `[tool.stepwell]` of `pyproject.toml`, when an engine uses the settings.

    `mode`: "live" keeps the code of waiting runs in memory while there is room. "yield" tears it down at every wait and
    replays it later. Both have the same outcomes.
    `lease`: how long the runs of a dead worker stay claimed.
    `runs_max`: how many runs execute at once.
    `cache_max`: how many waiting runs keep their code in memory.
    `hold_max`: a worker keeps a run claimed during a timer that is shorter than this.
    `claim_ahead`: how long before its timer a worker claims a waiting run, while an eighth of its slots is free. Many
    timers of the same instant then fire in time.
    `sweep_every`: how often a worker looks for runs of dead workers, and for work that no notification announced.
    `stalls_max`: a run that has lost its worker this many times without progress is paused (SW202).
    `entries_max`: a run with more entries in its history is paused (SW126); from 80 % on, a warning is logged.
    `signals_max`: how many signals may wait to be read by one run, or for one key. Further ones are refused (SW423);
    from 80 % on, a warning is logged. The engine that sends decides.
    `threads_max`: how many bodies of `def` steps run at the same time.
    `name`: the name of the worker in listings.
    """

    mode: Mode = "live"
    lease: Duration = "10s"
    runs_max: int = 1_000
    cache_max: int = 1_000
    hold_max: Duration = "1s"
    claim_ahead: Duration = "500ms"
    sweep_every: Duration = "2s"
    stalls_max: int = 5
    entries_max: int = 50_000
    signals_max: int = 2_000
    threads_max: int = 32
    name: str = "worker"
    given: frozenset[str] = field(init=False, repr=False, compare=False)  # what the constructor was called with

    def __new__(cls, **given: Any) -> Self:
        made = object.__new__(cls)  # not super(): a dataclass with slots is another class than the one written here
        object.__setattr__(made, "given", frozenset(given))
        return made

    def __post_init__(self) -> None:
        if self.mode not in ("live", "yield"):
            raise InvalidOptionError(f"mode is {self.mode!r}", fix='"live" or "yield"')
        if span(self.lease, what="lease") < SECOND // 10:
            raise InvalidOptionError(f"lease is {self.lease!r}", why="a lease below 100 ms cannot be renewed in time")
        least = min(self.runs_max, self.stalls_max, self.threads_max, self.entries_max, self.signals_max)
        if least < 1 or self.cache_max < 0:
            raise InvalidOptionError(
                "runs_max, stalls_max, threads_max, entries_max and signals_max must be at least 1, "
                "cache_max at least 0"
            )
        span(self.hold_max, what="hold_max")
        span(self.claim_ahead, what="claim_ahead")
        span(self.sweep_every, what="sweep_every")

    @property
    def is_complete(self) -> bool:
        """Whether the constructor was called with every setting, so that nothing is read from elsewhere."""
        return len(self.given) == len(SETTING_NAMES)

    def completed(self) -> WorkerSettings:
        """The same settings, and every one of them counts as given."""
        return replace(self)

    def merged(self, **given: Any) -> WorkerSettings:
        """These settings with others in their place. Both kinds count as given, the rest does not."""
        return WorkerSettings(**{name: getattr(self, name) for name in self.given} | given)

    @property
    def lease_span(self) -> Span:
        """The lease in microseconds."""
        return span(self.lease)

    @property
    def hold_span(self) -> Span:
        """The longest timer during which a run stays claimed; zero in yield mode."""
        return span(self.hold_max) if self.mode == "live" else Span(0)

    @property
    def ahead_span(self) -> Span:
        """How long before its timer a run is claimed; zero in yield mode."""
        return span(self.claim_ahead) if self.mode == "live" else Span(0)

    @property
    def room_ahead(self) -> int:
        """How many slots are free before runs are claimed ahead of their timers."""
        return -(-self.runs_max // 8)

    @property
    def cache_size(self) -> int:
        """How many waiting runs keep their code in memory; none in yield mode."""
        return self.cache_max if self.mode == "live" else 0


SETTING_NAMES = tuple(each.name for each in fields(WorkerSettings) if each.init)

# `help(WorkerSettings)` shows the settings, and not the `**given` of `__new__`.
WorkerSettings.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    list(inspect.signature(WorkerSettings.__init__).parameters.values())[1:]
)
