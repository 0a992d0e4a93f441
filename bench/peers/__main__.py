"""`make bench-peers`: the same work through stepwell and its peers, in rounds; tables, JSON and a picture."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.peers.catalogue import RESTATE_SERVER, Participant, choose, choose_workloads, in_turn
from bench.peers.drive import RefusedError, measure
from bench.peers.environments import BUILD, UnavailableError, python_of, restate_server, temporal_server, version_of
from bench.peers.limits import measure_limits
from bench.peers.machine import describe
from bench.peers.pages import facts, write_page
from bench.peers.picture import draw
from bench.peers.places import spot_for
from bench.peers.results import LIMITS, Results, Sample
from bench.peers.tables import OURS, grids
from tests.servers.account import server_account, temporary_root
from tests.servers.postgres import PostgresServer
from tools.progress import Bar, Line


def main() -> int:
    """Install, measure, print."""
    options = _options()
    path: Path = options.output
    results = Results.load(path) if (options.append or options.report) and path.exists() else Results()
    if not options.report:
        participants = _available(options.peers, results)
        with _postgres(participants) as postgres:
            results.machine = describe(postgres) | (
                {} if postgres else {"PostgreSQL": results.machine.get("PostgreSQL", "")}
            )
            asyncio.run(_measure(results, participants, options, postgres))
    _tell(results, path, options.page)
    return 0


def _available(chosen: list[Participant], results: Results) -> list[Participant]:
    """Those that can be installed here; the others are told of."""
    line, ready = Line(sys.stderr), []
    for participant in chosen:
        line.tell(f"… {participant.title}", at_once=True)
        try:
            python_of(participant)
            version = version_of(participant)
            if participant.place == "restate":
                restate_server()
                version += f", {RESTATE_SERVER.rpartition('/')[2].replace('@', ' ')}"
            elif participant.place == "temporal":
                temporal_server(participant)
        except UnavailableError as error:
            results.absent[participant.name] = str(error)
            print(f"left out: {participant.title}, because {error}", file=sys.stderr)
        else:
            results.absent.pop(participant.name, None)
            results.versions[participant.name] = version
            ready.append(participant)
    return ready


@contextmanager
def _postgres(participants: list[Participant]) -> Iterator[PostgresServer | None]:
    """One durable server for all who need one."""
    if not any(one.place == "postgres" for one in participants):
        yield None
        return
    settings = {"synchronous_commit": "on", "fsync": "on", "max_connections": "300"}
    with PostgresServer(durable=True, settings=settings) as server:
        yield server


async def _measure(
    results: Results, participants: list[Participant], options: argparse.Namespace, postgres: PostgresServer | None
) -> None:
    """Within a round each participant has a turn, and each round begins with another one. What is compared with the
    limits has them on both sides of it: the machine is not as quick in one minute as in the next.
    """
    root = temporary_root(server_account())
    taking = {workload: [one for one in participants if workload in one.only] for workload in options.workloads}
    bar, done = Bar(options.rounds * sum(map(len, taking.values())), "measures"), 0
    for workload, those in taking.items():
        first = results.next_round(workload, [one.name for one in those])
        for number in range(first, first + options.rounds):
            results.samples.append(await _limits(workload, number, postgres))
            for participant in in_turn(those, number):
                bar.show(done, f"{workload} round {number}: {participant.title}")
                results.samples.append(await _one(participant, workload, number, postgres, root))
                if workload == "W1" and participant.name in OURS:
                    results.samples.append(await _limits(workload, number, postgres))
                results.save(options.output)
                done += 1
    bar.show(done)


async def _limits(workload: str, number: int, postgres: PostgresServer | None) -> Sample:
    return Sample(LIMITS, workload, number, await asyncio.to_thread(measure_limits, postgres))


async def _one(
    participant: Participant, workload: str, number: int, postgres: PostgresServer | None, root: Path
) -> Sample:
    """A failure of one stops nobody else."""
    order = participant.order(workload)
    try:
        with spot_for(participant, postgres, root) as spot:
            figures = await measure(participant, workload, spot)
    except RefusedError as why:
        return Sample(participant.name, workload, number, refused=str(why), order=order)
    except Exception as error:
        return Sample(participant.name, workload, number, refused=f"{type(error).__name__}: {error}", order=order)
    figures.pop("at", None)
    return Sample(participant.name, workload, number, figures, order=order)


def _tell(results: Results, path: Path, page: Path | None) -> None:
    picture = path.with_suffix(".svg")
    picture.write_text(draw(results), encoding="utf-8")
    written = [path, picture]
    if page is not None:
        write_page(results, page)
        written.append(page)
    console = Console(width=None if sys.stdout.isatty() else 160)
    for grid in grids(results):
        grid.show(console)
        console.print()
    for line in (*facts(results), f"written: {', '.join(map(str, written))}"):
        console.print(line, highlight=False, markup=False)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--peers", type=_parsed(choose), default="", metavar="NAME,…", help="only these")
    parser.add_argument("--workloads", type=_parsed(choose_workloads), default="", metavar="W1,W2,…")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=BUILD / "results.json", help="the JSON file")
    parser.add_argument("--append", action="store_true", help="add rounds to what is in the file")
    parser.add_argument("--page", type=Path, help="a page, such as docs/performance.md, whose figures are replaced")
    parser.add_argument("--report", action="store_true", help="measure nothing; print what is in the file")
    return parser.parse_args()


def _parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """What argparse wants to hear of a wrong value."""

    def checked(words: str) -> Any:
        try:
            return parse(words)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


if __name__ == "__main__":
    sys.exit(main())
