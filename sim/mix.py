"""What a seed is made of: how many workers, which settings, which faults and how often."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from sim.programs import walk
from stepwell.config import WorkerSettings

Code = Literal["async", "plain", "mixed"]
MODES = ("live", "yield")
STORES = ("sqlite", "postgres")

EDGE_FAULTS = (
    "crash_before",
    "crash_after",
    "ack_lost",
    "not_done",
    "disk_full",
    "duplicate",
    "pause_before",
    "pause_after",
)


@dataclass(slots=True)
class Mix:
    """The fault mix of one seed. Rates are chances per store call; budgets bound what they may do in all."""

    name: str
    rates: dict[str, float] = field(default_factory=dict)
    slow: float = 0.05  # chance of a reply that takes longer than a moment
    slow_max: float = 0.05  # seconds
    hints_dropped: float = 0.0
    hints_delayed: float = 0.0
    hints_doubled: float = 0.0
    clock_jumps: int = 0
    fuses: float = 0.0  # chance that a process that starts is doomed to crash or pause somewhere in between
    cancelled_calls: float = 0.0  # chance that a client's call is cancelled at some await
    freeze_at: int | None = None  # the handle after which each worker that starts is frozen for about its lease
    drains: int = 0
    rejections: int = 0  # times at which the store rejects everything for a while
    silences: int = 0  # times at which one process gets no answers for a while
    loop_ends: int = 0  # loops of workers that end
    clock_settings: int = 0  # times at which the clock is set by hours, and back
    budget: int = 0  # crashes and pauses in all
    shots: list[tuple[str, int, str]] = field(
        default_factory=list
    )  # single faults: the method, its n-th call, and what

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong but lost, late and double hints: then every body runs exactly once per attempt."""
        if self.freeze_at is not None:
            return False
        if self.rejections or self.silences or self.loop_ends or self.clock_settings:
            return False
        return not (self.rates or self.shots or self.clock_jumps or self.fuses or self.cancelled_calls or self.drains)


@dataclass(frozen=True, slots=True)
class Shape:
    """The size and the settings of one seed's world."""

    store: str
    settings: WorkerSettings
    workers: int
    programs: int
    faulty_seconds: float


def draw_mix(rng: random.Random) -> Mix:
    """One of several kinds of weather; mild and wild ones, and some where a single kind of fault rules."""
    kind = rng.choices(
        ("calm", "deaf", "single", "acks", "crashes", "zombies", "clock", "flaky", "slow", "drains", "storm"),
        (6, 6, 16, 12, 14, 14, 8, 4, 4, 6, 14),
    )[0]
    mix = Mix(kind, budget=rng.randint(3, 16))
    if kind != "calm":
        mix.hints_dropped = rng.choice((0.0, 0.1, 0.5))
        mix.hints_delayed = rng.choice((0.0, 0.2))
        mix.hints_doubled = rng.choice((0.0, 0.2))
    match kind:
        case "deaf":
            mix.hints_dropped, mix.slow, mix.slow_max = rng.choice((1.0, 1.0, 0.9)), 0.2, 0.1
        case "single":
            # What many faults mend by accident, one fault shows.
            methods = ("apply", "apply", "apply", "create", "create", "deliver", "deliver", "claim", "cancel", "load")
            for _ in range(rng.randint(1, 3)):
                method = rng.choice(methods)
                nth = rng.randint(1, 40) if method == "apply" else rng.randint(1, 8)
                mix.shots.append((method, nth, rng.choice(EDGE_FAULTS)))
        case "acks":
            mix.rates = {"ack_lost": rng.choice((0.03, 0.1, 0.25)), "duplicate": 0.03, "not_done": 0.02}
            mix.cancelled_calls = rng.choice((0.0, 0.2))
        case "crashes":
            mix.rates = {"crash_before": rng.choice((0.01, 0.04)), "crash_after": rng.choice((0.02, 0.06))}
            mix.fuses = rng.choice((0.0, 0.6))
        case "zombies":
            mix.rates = {"pause_before": rng.choice((0.02, 0.08)), "pause_after": rng.choice((0.02, 0.08))}
            mix.fuses = rng.choice((0.0, 0.5))
        case "clock":
            mix.clock_jumps = rng.randint(1, 6)
            mix.rates = {"crash_after": 0.005}
        case "flaky":
            mix.rates = {"not_done": rng.choice((0.05, 0.2)), "disk_full": rng.choice((0.02, 0.1))}
            mix.cancelled_calls = rng.choice((0.0, 0.2))
        case "slow":
            mix.slow, mix.slow_max = 0.4, rng.choice((0.3, 1.5))
            mix.rates = {"ack_lost": 0.02}
        case "drains":
            mix.drains = rng.randint(1, 4)
            mix.rates = rng.choice(({}, {"ack_lost": 0.05}))
        case "storm":
            mix.rates = {fault: rng.choice((0.0, 0.005, 0.02)) for fault in EDGE_FAULTS}
            mix.fuses = rng.choice((0.0, 0.4))
            mix.clock_jumps = rng.choice((0, 0, 2))
            mix.cancelled_calls = rng.choice((0.0, 0.1))
            mix.drains = rng.choice((0, 0, 1))
        case _:
            pass
    return mix


def add_outages(mix: Mix, rng: random.Random, store: str) -> None:
    """What goes wrong for longer than a call, in some seeds; on PostgreSQL the server has the clock."""
    match rng.choices(("none", "rejections", "silences", "loops", "clock", "all"), (76, 5, 5, 5, 5, 4))[0]:
        case "rejections":
            mix.rejections = rng.randint(1, 3)
        case "silences":
            mix.silences = rng.randint(1, 2)
        case "loops":
            mix.loop_ends = rng.randint(1, 2)
        case "clock":
            mix.clock_settings = rng.randint(1, 2)
        case "all":
            mix.rejections = mix.silences = mix.loop_ends = mix.clock_settings = 1
        case _:
            pass
    if store != "sqlite":
        mix.clock_settings = 0


def draw_code(rng: random.Random, programs: list[dict[str, Any]]) -> Code:
    """Whether workflows are `async def`, `def`, or this in one process and that in the next."""
    code: Code = rng.choices(("async", "plain", "mixed"), (6, 2, 2))[0]
    if any(program.get("code") == "async" for program in programs):
        return "async"  # what branches of plain functions write outside is a mistake
    if any("within" in node for program in programs for node in walk(program)):
        return "async"  # a plain function has a child's result, or waits: it cannot wait for a child among others
    if code == "mixed" and any(node["op"] in ("gather", "tasks") for program in programs for node in walk(program)):
        return "plain"  # what a plain function does one after the other cannot be taken over by one that gathers
    return code


def draw_shape(rng: random.Random, store: str, mode: str) -> Shape:
    """How big the world is."""
    settings = WorkerSettings(
        mode=mode,  # type: ignore[arg-type]
        lease=rng.choice((1.0, 2.0, 3.0)),
        runs_max=rng.choice((1, 2, 3, 50, 50)),
        cache_max=rng.choice((0, 1, 2, 50, 50)),
        hold_max=rng.choice((0.0, 0.2, 1.0, 5.0)),
        sweep_every=rng.choice((0.5, 1.0)),
        stalls_max=rng.choice((3, 5)),
    )
    return Shape(store, settings, rng.choice((1, 2, 2, 3)), rng.randint(3, 9), rng.uniform(3.0, 8.0))
