"""`python -m tests.differential`: the same operations on several stores; exits with 1 if two of them disagree."""

from __future__ import annotations

import argparse
import os
import sys

from tests.differential.campaign import Totals, describe, jobs_for, run_all
from tests.differential.seeds import Report, run_seed
from tests.differential.stores import STORES
from tools.progress import Bar
from tools.results import Result, Trial, keep


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    given = _parser().parse_args(argv)
    totals, jobs = Totals(given.stores), jobs_for(given.ops, given.first_seed, given.stores)
    bar = Bar(given.ops, "operations")

    def each(report: Report) -> None:
        totals.add(report)
        totals.seconds = bar.seconds
        bar.show(totals.operations, f"seed {report.seed}", f"{len(totals.failed)} diverged")
        for line in describe(report, given.stores) if report.divergence else ():
            print(line, flush=True)

    if given.trace:
        for job in jobs:
            each(run_seed(*job, log=print))
    else:
        run_all(jobs, given.jobs, each)
    print("\n".join(totals.lines()))
    if given.record:
        _record(totals)
    return 0 if totals.is_good else 1


def _record(totals: Totals) -> None:
    """Keep the result for the scorecard."""
    fault = f"the same operations, compared on {', '.join(totals.stores)}"
    differences = len(totals.failed)
    trial = Trial(fault, totals.operations, None, lost=differences, doubled=differences, stuck=None)
    command = f"make differential OPS={totals.operations}"
    keep(Result("differential", command, totals.seconds, (trial,)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--ops", type=int, default=20_000, help="operations in total; a seed has about a hundred")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument(
        "--stores",
        type=_stores,
        default=tuple(STORES),
        help=f"all are compared with the first; of {', '.join(STORES)}, all by default",
    )
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    parser.add_argument("--trace", action="store_true", help="print every operation and its answer")
    return parser


def _stores(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in STORES]
    if unknown or len(set(names)) < 2 or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"name two or more of {', '.join(STORES)}, each once")
    return names


if __name__ == "__main__":
    sys.exit(main())
