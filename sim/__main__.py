"""`python -m sim`: simulate seeds, print totals, and exit with 1 if a promise was broken."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Collection

from sim.cases.sweeps import CASES, sweep_case
from sim.golden import golden_programs
from sim.mix import STORES
from sim.runner import Progress, Totals, describe, places, prepare, result_of, run_all
from sim.sabotage.switches import EVERY, POSTGRES, RARE, USUAL, find_out
from sim.sweep import sweep_all
from sim.world import Report, simulate
from tools.progress import Bar
from tools.results import Result, Trial, keep

SEEDS_PER_SWITCH = 1_000
SEEDS_PER_RARE_SWITCH = 2_000
# Groups of switches, and within how many seeds each of them must be caught.
_GROUPS: dict[str, tuple[Collection[str], int]] = {
    "all": (USUAL, SEEDS_PER_SWITCH),
    "postgres": (POSTGRES, SEEDS_PER_SWITCH),
    "rare": (RARE, SEEDS_PER_RARE_SWITCH),
}


def main(argv: list[str] | None = None) -> int:
    """Run the command."""
    given = _parser().parse_args(argv)
    if given.sabotage in _GROUPS:
        return _sabotage_all(given)
    if given.trace:
        return _trace(given)
    if given.sweep:
        return _sweep(given)
    if given.cases:
        return _try_cases(given)
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
        with EVERY[given.sabotage]():
            run_all(todo, 1, each, are_hashed=given.hashes)
    else:
        run_all(todo, min(given.jobs, len(todo)), each, are_hashed=given.hashes)
    if not given.hashes:
        print("\n".join(totals.lines()))
    if given.record:
        keep(result_of(totals, given.first_seed))
    return 1 if totals.failed or totals.unfinished else 0


def _trace(given: argparse.Namespace) -> int:
    """Print every event of the first seed."""
    prepare()
    (place,) = places(given.first_seed, 1, given.store, given.mode)
    report = simulate(*place, log=print)
    for line in describe(report) if report.violations else ():
        print(line)
    return 1 if report.violations else 0


def _sweep(given: argparse.Namespace) -> int:
    """A fault at every store call of every golden program."""
    modes = ("live", "yield") if given.mode == "both" else (given.mode,)
    jobs = [(name, given.store, mode, given.pairs) for mode in modes for name in golden_programs()]
    runs = broken = 0
    with multiprocessing.get_context("spawn").Pool(given.jobs, initializer=prepare) as pool:
        for count, problems in pool.imap(sweep_all, jobs):
            runs, broken = runs + count, broken + len(problems)
            for problem in problems:
                print(problem, flush=True)
    print(f"{len(golden_programs())} programs, {runs} runs with one fault or two, {broken} violations")
    return 1 if broken else 0


def _try_cases(given: argparse.Namespace) -> int:
    """What users do, with a crash at every commit of it."""
    tries = broken = 0
    bar = Bar(len(CASES), "cases")
    with multiprocessing.get_context("spawn").Pool(given.jobs, initializer=prepare) as pool:
        for number, reports in enumerate(pool.imap(sweep_case, CASES), 1):
            tries += len(reports)
            for report in reports:
                broken += len(report.violations)
                for violation in report.violations:
                    print(violation.text, flush=True)
            bar.show(number, f"{tries} tries", f"{broken} broken")
    print(f"{len(CASES)} cases, {tries} tries, {broken} violations")
    if given.record:
        trial = Trial(
            "a crash at every commit of what users do", tries, None, lost=broken, doubled=broken, stuck=broken
        )
        keep(Result("cases", 'make sim ARGS="--cases --record"', bar.seconds, (trial,), {"cases": str(len(CASES))}))
    return 1 if broken else 0


def _sabotage_all(given: argparse.Namespace) -> int:
    names, seeds = _GROUPS[given.sabotage]
    missed, began = 0, time.monotonic()
    for name, found in find_out(names, seeds, given.first_seed, given.jobs):
        if found is None:
            missed += 1
            print(f"{name:<32} NOT CAUGHT in {seeds} seeds", flush=True)
        else:
            count, report = found
            violation = report.violations[0]
            print(f"{name:<32} caught after {count:>3} seeds: {violation.invariant} {violation.text[:90]}", flush=True)
    print(f"{len(names) - missed} of {len(names)} switches caught")
    if given.record:
        target = "sabotage" if given.sabotage == "all" else f"sabotage-{given.sabotage}"
        command = f'make sim ARGS="--sabotage {given.sabotage} --record"'
        figures = {"switches": str(len(names)), "caught": str(len(names) - missed)}
        trial = Trial("an engine that is broken on purpose, and not caught", len(names), None, missed, None, None)
        keep(Result(target, command, time.monotonic() - began, (trial,), figures))
    return 1 if missed and given.sabotage != "rare" else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--store", choices=STORES, default=os.environ.get("STORE") or "sqlite")
    parser.add_argument("--mode", choices=("live", "yield", "both"), default=os.environ.get("MODE") or "both")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sabotage", choices=(*_GROUPS, *EVERY), help="break the engine on purpose")
    parser.add_argument("--hashes", action="store_true", help="print one hash over all events per seed, and no totals")
    parser.add_argument("--sweep", action="store_true", help="a fault at every store call of every golden program")
    parser.add_argument("--cases", action="store_true", help="what users do, with a crash at every commit of it")
    parser.add_argument("--pairs", type=int, default=0, help="of faults, per golden program, besides the single ones")
    parser.add_argument("--record", action="store_true", help="write the result to scorecard/")
    parser.add_argument("--trace", action="store_true", help="print every event of the first seed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
