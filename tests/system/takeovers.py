"""How long the runs of a killed worker stood still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepwell.errors import StoreUnavailableError
from stepwell.model.runs import Run
from stepwell.model.states import RunStatus
from stepwell.stores.base.store import Store

_LOOK_SECONDS = 0.05
_LOOK_SECONDS_MAX = 30.0


@dataclass(slots=True)
class Hold:
    """A time in which nobody could take over: the database was down, or a stopped process had its write lock."""

    began: float = field(default_factory=time.monotonic)
    ended: float = float("inf")

    def end(self) -> None:
        """It is over, but for whoever has yet to notice."""
        self.ended = time.monotonic() + 0.5


@dataclass(slots=True)
class Takeovers:
    """Seconds from each kill to the next claim of each of its runs, and to the next commit of any of them."""

    claims: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    # Kills that are not counted: nobody could take over meanwhile, or whoever took the runs over was killed in turn
    # before its first commit.
    apart: int = 0
    lost: list[str] = field(default_factory=list)  # runs that nobody claimed
    holds: list[Hold] = field(default_factory=list)
    lag: float = 0.0  # the longest time that this process itself was kept waiting by the machine

    def hold(self) -> Hold:
        """From now on, until it is ended, nobody is expected to take over."""
        hold = Hold()
        self.holds.append(hold)
        return hold

    async def watch(self, store: Store, held: Sequence[Run], killed_at: float) -> None:
        """Look until every run of a killed worker has gone on."""
        left = {run.run_id: run for run in held}
        claims: list[float] = []
        commit: float | None = None
        is_direct = False  # whether who claimed it first also made the first commit
        found: Sequence[Run | None] = held
        while (left or (claims and commit is None)) and time.monotonic() < killed_at + _LOOK_SECONDS_MAX:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                found = await store.views.find_many([run.run_id for run in held])
            except StoreUnavailableError:
                continue
            since = time.monotonic() - killed_at
            for before, now in zip(held, found, strict=True):
                is_taken = now is None or now.epoch > before.epoch
                if is_taken and left.pop(before.run_id, None) is not None:
                    claims.append(since)
                elif now is not None and (now.status is RunStatus.WAITING or now.ended_at is not None):
                    # The last commit of the dead was on its way to the server: there is nothing to take over.
                    left.pop(before.run_id, None)
                has_gone_on = now is None or now.revision > before.revision or now.ended_at is not None
                if commit is None and is_taken and has_gone_on:
                    commit = since
                    is_direct = now is None or now.epoch == before.epoch + 1
        self.lost += [
            f"run {before.run_id} of a killed worker was never claimed: {before.status.value}, epoch {before.epoch} "
            f"before, {now.status.value}, epoch {now.epoch}, owner {now.owner} now"
            for before, now in zip(held, found, strict=True)
            if before.run_id in left and now is not None
        ]
        if any(hold.began < killed_at + max(claims, default=0.0) and hold.ended > killed_at for hold in self.holds):
            self.apart += 1
            return
        self.claims += claims
        if commit is not None and is_direct:
            self.commits.append(commit)
        else:
            self.apart += 1

    def worst(self) -> float:
        """The longer p99."""
        return max(percentile(self.claims, 0.99), percentile(self.commits, 0.99))

    async def measure_lag(self) -> None:
        """Note how late this process is woken: on a busy machine, that is not the workers' doing."""
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.05)
            self.lag = max(self.lag, time.monotonic() - begun - 0.05)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
