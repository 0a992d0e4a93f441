"""`make bench`: prints the figures, what they must reach, and whether they do."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable

from bench.arenas import Arena, open_arena
from bench.browser import browser
from bench.crowd import w2
from bench.dispatching import dispatch
from bench.endless import endless
from bench.growth import w9
from bench.killed import w6
from bench.latency import enqueue, shared, w3, w4
from bench.limits import limits
from bench.pages import pages
from bench.pruning import prune
from bench.records import records
from bench.report import Report
from bench.resuming import resume
from bench.schedules import schedules
from bench.sequential import w1, w8
from bench.sizes import FULL, QUICK, Size
from bench.surfaces import surfaces
from bench.timers import w5
from bench.waiting import w7

MEASURES: dict[str, Callable[[Arena, Size, Report], Awaitable[None]]] = {
    "limits": limits,
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "shared": shared,
    "enqueue": enqueue,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "W7": w7,
    "W8": w8,
    "resume": resume,
    "dispatch": dispatch,
    "W9": w9,
    "prune": prune,
    "records": records,
    "schedules": schedules,
    "endless": endless,
    "surfaces": surfaces,
    "pages": pages,
    "browser": browser,
}
APART = (
    "W9",
    "prune",
    "records",
    "schedules",
    "endless",
    "surfaces",
    "pages",
    "browser",
)  # they take minutes: only if named


def main() -> int:
    """Measure, print, and say whether every target was met."""
    options = _options()
    report = Report(judges_times=not options.quick)
    for kind in ("sqlite", "postgres") if options.store == "both" else (options.store,):
        with open_arena(kind, is_calm=options.quick) as arena:
            report.heading(arena.heading)
            asyncio.run(_measure(arena, QUICK if options.quick else FULL, options.only, report))
    print("all targets met" if report.is_good else "some targets were missed")
    return 0 if report.is_good else 1


async def _measure(arena: Arena, size: Size, only: list[str], report: Report) -> None:
    for name, measure in MEASURES.items():
        if name in only or not (only or name in APART):
            await measure(arena, size, report)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--only", type=_names, default=[], metavar="W1,W2,…", help=", ".join(MEASURES))
    parser.add_argument("--quick", action="store_true", help="as little as possible: only counts are judged")
    return parser.parse_args()


def _names(text: str) -> list[str]:
    spelled = {name.lower(): name for name in MEASURES}
    names = [spelled.get(one.strip().lower(), "") for one in text.split(",")]
    if "" in names:
        raise argparse.ArgumentTypeError(f"choose among {', '.join(MEASURES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
