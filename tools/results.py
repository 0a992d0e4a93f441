"""What a campaign found, kept as data in `scorecard/`: `make scorecard` makes the page of it.

A campaign with `--record` calls `keep`. The file says what was done, how often, and what came of it;
the commit and the date are those of the trial.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "scorecard"


@dataclass(frozen=True, slots=True)
class Trial:
    """One kind of fault, and what came of it. None: this trial has no such figure."""

    fault: str
    trials: int
    acknowledged: int | None  # answers that promised something: a start, a signal, a result, a step built on
    lost: int | None  # of these
    doubled: int | None  # committed twice
    stuck: int | None  # runs that did not end
    recovery: str = ""  # how long it took until work went on

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not (self.lost or self.doubled or self.stuck)


@dataclass(frozen=True, slots=True)
class Result:
    """What one target found."""

    target: str
    command: str
    seconds: float
    trials: tuple[Trial, ...]
    figures: dict[str, str] = field(default_factory=dict)  # what else is worth knowing
    commit: str = ""
    date: str = ""


def keep(result: Result) -> Path:
    """Write a result to its file, with the commit and the date of now."""
    path = FOLDER / f"{result.target}.json"
    path.parent.mkdir(exist_ok=True)
    facts = asdict(result) | {"commit": _commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    path.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    return path


def kept() -> Iterator[Result]:
    """Every result that there is, by the name of its target."""
    for path in sorted(FOLDER.glob("*.json")):
        facts = json.loads(path.read_text())
        trials = tuple(Trial(**trial) for trial in facts.pop("trials"))
        yield Result(**facts, trials=trials)


def _commit() -> str:
    return _git("describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+")


def _git(*arguments: Sequence[str] | str) -> str:
    command = ["git", "-C", str(ROOT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
