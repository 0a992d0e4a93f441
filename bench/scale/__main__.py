"""`make scale-sim`: what fleets of workers get out of one PostgreSQL, simulated from measured service times."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.scale.costs import Costs
from bench.scale.measure import measure_costs
from bench.scale.simulation import Outcome, Setup, knee, simulate
from tests.servers.postgres import PostgresServer
from tools.progress import Line

_FLEETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_DEFAULT = Path(__file__).resolve().parents[2] / "build" / "scale" / "costs.json"


def main() -> int:
    """Measure if there is nothing measured, simulate, print."""
    options = _options()
    if options.measure or not options.costs.exists():
        line = Line(sys.stderr)
        with PostgresServer(durable=True, settings={"synchronous_commit": "on", "fsync": "on"}) as server:
            costs = asyncio.run(measure_costs(server, lambda what: line.tell(f"… {what}", at_once=True)))
        costs.save(options.costs)
    costs = Costs.load(options.costs)
    console = Console(width=None if sys.stdout.isatty() else 140)
    _tell_costs(costs, console)
    for batch in options.batches:
        for cores in options.cores:
            _tell(costs, batch, cores, options, console)
    return 0


def _tell_costs(costs: Costs, console: Console) -> None:
    table = Table("service time", "µs", title="measured", title_justify="left")
    words = {
        "claim_s": "a claim, of a database core",
        "claim_row_s": "… for each run in it",
        "skip_row_s": "… for each row that another claim holds",
        "commit_s": "a commit, of a database core",
        "commit_row_s": "… for each step in it",
        "flush_s": "waiting for the log",
        "round_trip_s": "a round trip",
        "worker_step_s": "a step, of a worker's core",
    }
    for name, label in words.items():
        table.add_row(label, f"{getattr(costs, name) * 1e6:,.1f}")
    console.print(table)


def _tell(costs: Costs, batch: int, cores: int, options: argparse.Namespace, console: Console) -> None:
    outcomes = []
    for workers in _FLEETS:
        if workers <= options.workers:
            setup = Setup(workers, batch, options.steps, cores, options.cycles, options.seed)
            outcomes.append(simulate(costs, setup))
    title = (
        f"{cores} database cores; workers claim {batch} runs of {options.steps} steps at a time; seed {options.seed}"
    )
    columns = (
        "workers",
        "runs/s",
        "steps/s",
        "claim p50 ms",
        "p99 ms",
        "cores",
        "log",
        "workers",
        "commits/flush",
        "limit",
    )
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column == "limit" else "right")
    for one in outcomes:
        table.add_row(*_row(one, options.steps))
    console.print(table)
    first = knee(outcomes)
    most = cores / costs.core_per_run(batch=batch, steps=options.steps)
    console.print(
        f"  nine tenths of the most with {first.workers:,} workers; what limits it there: {first.bottleneck}."
        f" The cores alone allow {most:,.0f} runs/s.\n",
        highlight=False,
    )


def _row(one: Outcome, steps: int) -> list[str]:
    return [
        f"{one.workers:,}",
        f"{one.runs_per_s:,.0f}",
        f"{one.runs_per_s * steps:,.0f}",
        f"{one.claim_p50_s * 1e3:,.2f}",
        f"{one.claim_p99_s * 1e3:,.2f}",
        f"{one.cores_busy:.0%}",
        f"{one.log_busy:.0%}",
        f"{one.workers_busy:.0%}",
        f"{one.commits_per_flush:.1f}",
        one.bottleneck,
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "--costs", type=Path, default=_DEFAULT, help="the JSON file of service times; measured if missing"
    )
    parser.add_argument("--measure", action="store_true", help="measure again")
    parser.add_argument("--workers", type=int, default=1_000, help="the largest fleet")
    parser.add_argument("--batches", type=_numbers, default=[1, 10, 100], help="runs that a worker claims at once")
    parser.add_argument("--cores", type=_numbers, default=[2, 16], help="of the database")
    parser.add_argument("--steps", type=int, default=10, help="of each run")
    parser.add_argument("--cycles", type=int, default=10, help="how often each worker claims, about")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _numbers(words: str) -> list[int]:
    return [int(one) for one in words.split(",")]


if __name__ == "__main__":
    sys.exit(main())
