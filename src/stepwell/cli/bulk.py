"""One act on many runs: choose them, confirm, show the progress, and report the outcome of each run."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stepwell.advice import Advice, Verb
from stepwell.cli.bars import Bars
from stepwell.cli.client import Client, ask
from stepwell.cli.errors import PARTLY
from stepwell.cli.operators import by_option
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import complete_run
from stepwell.cli.texts import clean
from stepwell.errors import InvalidMoveError, RequestError

if TYPE_CHECKING:
    from stepwell.cli.acts import Act
    from stepwell.engine.bulks import BulkItem
    from stepwell.engine.views import RunView
    from stepwell.replay.workflows import Workflow

_SAMPLE = 5

Function = TypeVar("Function", bound=Callable[..., Any])


class RunSelection(NamedTuple):
    """The runs that a command line names, and who acts on them."""

    run: str | None
    where: str | None
    dry_run: bool
    yes: bool
    by: str  # who acts

    @property
    def is_one(self) -> bool:
        """Whether the command line names one run, to be acted on at once."""
        return self.run not in (None, "-") and not self.dry_run


def choosing(function: Function) -> Function:
    """Give a command one RUN or `--where`, with the options that belong to both."""
    for decorate in reversed(
        (
            click.argument("run", required=False, metavar="[RUN | -]", shell_complete=complete_run),
            click.option(
                "--where", metavar="FILTER", help="All runs that match, instead of one: 'status:failed since:1h'."
            ),
            click.option("--dry-run", is_flag=True, help="Only list the runs that match."),
            click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
            by_option,
        )
    ):
        function = decorate(function)
    return function


def check_choice(which: RunSelection) -> None:
    """Raise unless the command line names one run or a filter."""
    if which.run is None and which.where is None:
        raise click.UsageError("Name a run, or many with a filter: --where 'status:failed since:1h'")
    if which.run is not None and which.where is not None:
        raise click.UsageError("Name a run or --where, not both.")


@dataclass(slots=True)
class Tally:
    """The outcome of each run so far."""

    total: int
    name: str = ""  # of the act
    state: str = ""
    items: list[BulkItem] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        """How many runs have this outcome."""
        return sum(item.outcome == outcome for item in self.items)


def act_on_many(settings: Settings, which: RunSelection, act: Act, workflows: Sequence[Workflow[Any, Any]] = ()) -> int:
    """Find the runs, confirm, act on each and report. Returns the exit code: 10 if some runs could not be acted on."""
    out = Output(settings)
    targets = sys.stdin.read().split() if which.run == "-" else [which.run] if which.run else []

    async def find(client: Client) -> list[RunView]:
        return (
            await client.engine.bulks.match(which.where) if which.where is not None else await _named(client, targets)
        )

    runs = ask(settings, find)
    if which.dry_run or not runs:
        _preview(out, runs, act)
        return 0
    _confirm(out, runs, which, act)
    ids = () if which.where is not None else [run.run_id for run in runs]

    async def begin(client: Client) -> str:
        return (await client.engine.bulks.start(act.verb, which.where, runs=ids, by=which.by, **act.options)).name

    return execute(settings, begin, act.done, act.impossible, len(runs), workflows)


async def _named(client: Client, targets: Sequence[str]) -> list[RunView]:
    from stepwell.cli.targets import get_run_id

    ids = dict.fromkeys([await get_run_id(client, target) for target in targets])
    return [run for run in await client.engine.runs.find_many(list(ids)) if run is not None]


def execute(
    settings: Settings,
    begin: Callable[[Client], Awaitable[str]],
    done: str,
    impossible: str,
    total: int,
    workflows: Sequence[Workflow[Any, Any]] = (),
) -> int:
    """Begin an act on many runs, execute it here unless a worker does, and report the outcome. Ctrl-C ends it after the
    current chunk; if this process dies, a worker or `stepwell bulk resume` continues.
    """
    import asyncio  # here and not above: help must not wait for it

    out, tally = Output(settings), Tally(total)

    async def run(client: Client) -> None:
        await client.engine.serve_bulks()
        tally.name = await begin(client)
        try:
            await _follow(client, tally, out, done)
        except asyncio.CancelledError:
            await client.engine.bulks.abort(tally.name)
            await _follow(client, tally, out, done)
            raise
        finally:
            tally.items = await client.engine.bulks.items(tally.name)

    try:
        ask(settings, run, workflows=workflows)
    finally:  # also after Ctrl-C: the runs that were acted on are reported
        if tally.name:
            _tell(out, tally, done, impossible)
    return PARTLY if tally.count("refused") or len(tally.items) < tally.total else 0


async def _follow(client: Client, tally: Tally, out: Output, done: str) -> None:
    """Show the progress until the act has ended."""
    bulks = client.engine.bulks
    with Bars(out) as bars:
        watching = client.engine.runs.pulse(tally.name)
        async for _ in watching:
            bulk = await bulks.get(tally.name)
            tally.total, tally.state = bulk.matched or tally.total, bulk.state
            bars.tell(done, bulk.done + bulk.before + bulk.refused, tally.total)
            if bulk.state == "paused":
                break
        await watching.aclose()
    if tally.state in ("paused", "failed"):
        raise InvalidMoveError(f"{tally.name} is {tally.state}", where=tally.name, fix=Advice(Verb.WHY, tally.name))


def _preview(out: Output, runs: Sequence[RunView], act: Act) -> None:
    body = {
        "dry_run": True,
        "matched": len(runs),
        "statuses": dict(Counter(run.status for run in runs)),
        "sample": [run.run_id for run in runs[:_SAMPLE]],
        "possible": act.needs,
    }
    out.one("stepwell.bulk/1", body, run_ids=[run.run_id for run in runs], words=lambda: _summary(runs, out))


def _summary(runs: Sequence[RunView], out: Output) -> list[str]:
    if not runs:
        return ["No runs match."]
    ids = sorted(run.run_id for run in runs)
    counts = Counter(show_status(run.status, ascii=out.ascii) for run in runs)
    statuses = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    lines = [f"{_runs(len(runs))} (newest {ids[-1]}, oldest {ids[0]}): {statuses}"]
    for run in runs[:_SAMPLE]:
        cause = run.failure.summary if run.failure else run.reason
        lines.append(f"  {run.run_id}  {run.workflow} v{run.version}  {run.key or ''}  {cause}".rstrip())
    if len(runs) > _SAMPLE:
        lines.append(f"  and {len(runs) - _SAMPLE:,} more")
    return [clean(line) if not line.startswith(" ") else "  " + clean(line.strip()) for line in lines]


def _confirm(out: Output, runs: Sequence[RunView], which: RunSelection, act: Act) -> None:
    if which.yes or which.run is not None:  # ids on the command line are a choice
        return
    if not sys.stdin.isatty():
        raise RequestError(
            f"{_runs(len(runs))}; nothing done: confirmation needed, and this is not a terminal",
            fix="--yes confirms, --dry-run lists the runs",
        )
    for line in _summary(runs, out):
        click.echo(line, err=True)
    asked = f"This needs {act.needs}; other runs stay as they are. Continue?"
    if not click.confirm(asked, default=False, err=True):
        raise click.exceptions.Abort


def _tell(out: Output, tally: Tally, done: str, impossible: str) -> None:
    items, ids = tally.items, [item.run_id for item in tally.items if item.outcome == "done"]
    facts: dict[str, Any] = {
        "matched": tally.total,
        "done": len(ids),
        "refused": tally.count("refused"),
        "dry_run": False,
    }
    facts["bulk"] = tally.name
    if out.many("stepwell.bulk/1", "items", [asdict(item) for item in items], run_ids=ids, **facts):
        return
    dot = " - " if out.ascii else " · "
    said = [tally.name, f"{done}: {len(ids):,} of {tally.total:,}"]
    if before := tally.count("before"):
        said.append(f"{before:,} already were")
    if refused := [item for item in items if item.outcome == "refused"]:
        some = ", ".join(f"{item.run_id} is {item.status}" for item in refused[:_SAMPLE])
        said.append(f"{len(refused):,} cannot {impossible} ({some}{', …' if len(refused) > _SAMPLE else ''})")
    if len(items) < tally.total:
        said.append(f"stopped: {tally.total - len(items):,} not reached")
    out.line(clean(dot.join(said)))


def _runs(count: int) -> str:
    return "1 run matches" if count == 1 else f"{count:,} runs match"
