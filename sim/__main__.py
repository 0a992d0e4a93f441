"""`python -m sim`: simulate seeds, print totals, and exit with 1 if a promise was broken."""

from __future__ import annotations

import argparse
import os
import sys

from sim.runner import Progress, Totals, describe, places, prepare, run_all
from sim.sabotage import SWITCHES, find_out
from sim.world import Report, simulate

SEEDS_PER_SWITCH = 200


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    given = _parser().parse_args(argv)
    if given.sabotage == "all":
        return _sabotage_all(given)
    if given.trace:
        return _trace(given)
    totals = Totals()
    todo = places(given.first_seed, given.seeds, given.store, given.mode)
    progress = Progress(len(todo))

    def each(report: Report) -> None:
        totals.add(report)
        progress.show(totals)
        if given.hashes:
            print(f"{report.seed} {report.store} {report.mode} {report.digest}")
        for line in describe(report, given.sabotage or "") if report.violations else ():
            print(line, flush=True)

    if given.sabotage:
        with SWITCHES[given.sabotage]():
            run_all(todo, 1, each)
    else:
        run_all(todo, min(given.jobs, len(todo)), each)
    if not given.hashes:
        print("\n".join(totals.lines()))
    return 1 if totals.failed or totals.unfinished else 0


def _trace(given: argparse.Namespace) -> int:
    """Print every event of the first seed."""
    prepare()
    (place,) = places(given.first_seed, 1, given.store, given.mode)
    report = simulate(*place, log=print)
    for line in describe(report) if report.violations else ():
        print(line)
    return 1 if report.violations else 0


def _sabotage_all(given: argparse.Namespace) -> int:
    missed = 0
    for name, found in find_out(SWITCHES, SEEDS_PER_SWITCH, given.first_seed, given.jobs):
        if found is None:
            missed += 1
            print(f"{name:<32} NOT CAUGHT in {SEEDS_PER_SWITCH} seeds", flush=True)
        else:
            seeds, report = found
            violation = report.violations[0]
            print(f"{name:<32} caught after {seeds:>3} seeds: {violation.invariant} {violation.text[:90]}", flush=True)
    print(f"{len(SWITCHES) - missed} of {len(SWITCHES)} switches caught")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--store", choices=("memory", "sqlite", "both"), default=os.environ.get("STORE") or "both")
    parser.add_argument("--mode", choices=("live", "yield", "both"), default=os.environ.get("MODE") or "both")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sabotage", choices=("all", *SWITCHES), help="break the engine on purpose")
    parser.add_argument("--hashes", action="store_true", help="print one hash over all events per seed, and no totals")
    parser.add_argument("--trace", action="store_true", help="print every event of the first seed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
