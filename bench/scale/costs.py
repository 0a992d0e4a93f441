"""What one transition costs, as the simulation needs it: a fixed part, and a part for each run that it carries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Costs:
    """Seconds."""

    claim_s: float  # of a core of the database, for a claim of any size
    claim_row_s: float  # … and for each run that it takes
    skip_row_s: float  # … and for each row that another claim holds at that moment
    commit_s: float
    commit_row_s: float
    flush_s: float  # of the log, for all commits that wait for it together
    round_trip_s: float  # between a worker and the database, beside everything else
    worker_step_s: float  # of a worker's own core, for one step of one run

    def claim(self, runs: int, *, held: int = 0) -> float:
        """Of a core, for a claim of so many runs past so many that others hold."""
        return self.claim_s + self.claim_row_s * runs + self.skip_row_s * held

    def commit(self, runs: int) -> float:
        """Of a core, for one commit that carries a step of so many runs."""
        return self.commit_s + self.commit_row_s * runs

    def core_per_run(self, *, batch: int, steps: int) -> float:
        """Of the database's cores, for one run among `batch` that a worker executes together; nobody else claims."""
        return (self.claim(batch) + steps * self.commit(batch)) / batch

    def cycle(self, *, batch: int, steps: int) -> float:
        """From claim to claim of a worker that is alone."""
        trips = (1 + steps) * (self.round_trip_s + self.flush_s)
        return trips + self.claim(batch) + steps * (self.commit(batch) + batch * self.worker_step_s)

    def save(self, path: Path) -> None:
        """Beside the other figures."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Costs:
        """What was measured. Raises ValueError for a file that is not of this kind."""
        raw: Mapping[str, float] = json.loads(path.read_text(encoding="utf-8"))
        wanted = {one.name for one in fields(cls)}
        if set(raw) != wanted:
            raise ValueError(f"{path} does not have the costs {', '.join(sorted(wanted))}")
        return cls(**raw)


def line_through(points: Mapping[int, float]) -> tuple[float, float]:
    """The fixed part and the part for each, by least squares of the relative errors; neither is less than nothing."""
    weights = {size: 1 / time**2 for size, time in points.items() if time > 0}
    total = sum(weights.values())
    mean_size = sum(weight * size for size, weight in weights.items()) / total
    mean_time = sum(weight * points[size] for size, weight in weights.items()) / total
    square = sum(weight * (size - mean_size) ** 2 for size, weight in weights.items())
    crossed = sum(weight * (size - mean_size) * (points[size] - mean_time) for size, weight in weights.items())
    each = max(crossed / square, 0.0) if square else 0.0
    return max(mean_time - each * mean_size, 0.0), each
