"""How much is measured: the workloads of the performance chapter, or the least that shows that the benchmark works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """How often, how many, how long."""

    rounds: int = 7  # of W1
    steps: int = 1_000
    crowd_rounds: int = 3  # of W2
    crowd: int = 1_000
    steps_each: int = 10
    fleets: tuple[int, ...] = (1, 2)  # worker processes
    items: int = 10_000
    starts: int = 500
    shared: int = 100
    signals: int = 300
    dispatched: int = 400
    enqueued: int = 200
    enqueued_seconds: float = 30.0  # no longer than this, however few there were
    timers: int = 2_000
    timer_seconds: float = 2.0
    waiting: int = 40_000  # four times those of W7: of fewer, the memory is lost in that of the allocator
    waiting_first: int = 6_000
    waiting_batch: int = 1_000
    idle_seconds: float = 10.0
    lengths: tuple[int, ...] = (100, 1_000, 10_000)
    histories: tuple[int, ...] = (1_000, 10_000)
    killed: int = 500
    killed_steps: int = 20
    ended: int = 1_000_000
    grown_waiting: int = 100_000
    closed_records: int = 1_000_000
    open_records: int = 100_000
    asked: int = 100
    schedules: int = 10_000
    schedule_seconds: int = 60
    iterations: int = 100_000
    listings: int = 5
    busy: int = 200
    busy_steps: int = 2_000
    asking_seconds: float = 10.0
    following_rounds: int = 9  # pairs; what is said is the middle of their quotients
    followers: int = 200
    followed_steps: int = 20
    page_entries: int = 20_000
    pages: int = 50
    browser_rounds: int = 5
    typed: int = 300  # characters
    changes_per_second: int = 500


FULL = Size()

QUICK = Size(
    rounds=1,
    steps=20,
    crowd_rounds=1,
    crowd=10,
    steps_each=2,
    fleets=(2,),
    items=20,
    starts=5,
    shared=3,
    signals=5,
    dispatched=5,
    enqueued=2,
    timers=5,
    timer_seconds=0.1,
    waiting=20,
    waiting_first=10,
    waiting_batch=10,
    idle_seconds=0.5,
    lengths=(5, 20),
    histories=(20,),
    killed=4,
    killed_steps=5,
    ended=50,
    grown_waiting=20,
    closed_records=50,
    open_records=20,
    asked=3,
    schedules=12,
    schedule_seconds=2,
    iterations=60,
    listings=1,
    busy=10,
    busy_steps=500,
    asking_seconds=0.3,
    following_rounds=1,
    followers=5,
    followed_steps=3,
    page_entries=30,
    pages=3,
    browser_rounds=1,
    typed=20,
    changes_per_second=50,
)
