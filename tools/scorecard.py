"""Writes SCORECARD.md from the results in `scorecard/`: `python -m tools.scorecard`, or `--check` to compare only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from tools.results import ROOT, Result, Trial, kept

PAGE = ROOT / "SCORECARD.md"
_HEAD = """\
# Scorecard

What was done to stepwell, how often, and what came of it. Each line is the result of a command that you can run
yourself; `make scorecard` writes this page from the files in `scorecard/`, which the commands write. A `+` behind a
commit means that the working copy had changes that were not committed yet.

*Acknowledged*: answers that promised something, such as a start, a signal or a result. *Lost*: promises that were
broken. *Doubled*: results that were committed twice. *Stuck*: runs that did not end after the faults had stopped.

| fault | trials | acknowledged | lost | doubled | stuck | recovery | commit | date |
|---|---:|---:|---:|---:|---:|---|---|---|
"""


def page(results: Iterable[Result]) -> str:
    """The whole page."""
    results = list(results)
    rows = [_row(result, trial) for result in results for trial in result.trials]
    return _HEAD + "\n".join([*rows, "", "## How to repeat it", "", *_commands(results)]) + "\n"


def _row(result: Result, trial: Trial) -> str:
    numbers = (trial.trials, trial.acknowledged, trial.lost, trial.doubled, trial.stuck)
    cells = [trial.fault, *map(_number, numbers), trial.recovery or "", result.commit, result.date]
    return f"| {' | '.join(cells)} |"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _commands(results: Iterable[Result]) -> Iterator[str]:
    for result in results:
        yield f"- `{result.command}` ({result.seconds:,.0f} s)"
        for name, value in result.figures.items():
            yield f"  - {name}: {value}"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is up to date."""
    text = page(kept())
    if "--check" in arguments:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("SCORECARD.md is not what the results in scorecard/ say: run `make scorecard`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    found = sum(not trial.is_clean for result in kept() for trial in result.trials)
    print(f"{PAGE.name}: {sum(len(result.trials) for result in kept())} lines, {found} with findings")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
