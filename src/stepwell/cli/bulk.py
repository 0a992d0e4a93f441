"""One act on many runs: which they are, whether it is meant, how far it has come, and what became of each."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stepwell.cli.bars import Bars
from stepwell.cli.client import Client, ask
from stepwell.cli.errors import PARTLY
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import complete_run
from stepwell.cli.texts import clean
from stepwell.errors import NotFoundError, RequestError

if TYPE_CHECKING:
    from stepwell.cli.acts import Act
    from stepwell.cli.records import Record
    from stepwell.engine.views import RunView
    from stepwell.replay.definition import Workflow

_PAGE = 500
_SAMPLE = 5

Function = TypeVar("Function", bound=Callable[..., Any])


class Which(NamedTuple):
    """The runs that a steering command is about, as its line names them."""

    run: str | None
    where: str | None
    dry_run: bool
    yes: bool

    @property
    def is_one(self) -> bool:
        """Whether it is about one run that is named."""
        return self.run not in (None, "-") and not self.dry_run


def choosing(function: Function) -> Function:
    """Let a command take one run, or `--where` with what belongs to it."""
    for decorate in reversed(
        (
            click.argument("run", required=False, metavar="[RUN | -]", shell_complete=complete_run),
            click.option(
                "--where", metavar="FILTER", help="All runs that match, instead of one: 'status:failed since:1h'."
            ),
            click.option("--dry-run", is_flag=True, help="Only say which runs it would be."),
            click.option("--yes", "-y", is_flag=True, help="Do not ask, for scripts."),
        )
    ):
        function = decorate(function)
    return function


def check_choice(which: Which) -> None:
    """Raise unless the line names one run, or a filter."""
    if which.run is None and which.where is None:
        raise click.UsageError("Name a run, or say which ones: --where 'status:failed since:1h'")
    if which.run is not None and which.where is not None:
        raise click.UsageError("Name a run or --where, not both.")


@dataclass(slots=True)
class Tally:
    """What became of each run so far."""

    total: int
    name: str = ""  # of the record that is kept
    items: list[dict[str, Any]] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        """How many ended so."""
        return sum(item["outcome"] == outcome for item in self.items)


def act_on_many(settings: Settings, which: Which, act: Act, workflows: Sequence[Workflow[Any, Any]] = ()) -> int:
    """Find the runs, ask, do it to each, and tell. Gives the exit code: 10 if it was not possible for all of them."""
    out = Output(settings)
    targets = sys.stdin.read().split() if which.run == "-" else [which.run] if which.run else []

    async def find(client: Client) -> list[RunView]:
        return await _match(client, which.where) if which.where is not None else await _named(client, targets)

    runs = ask(settings, find)
    if which.dry_run or not runs:
        _preview(out, runs, act)
        return 0
    _confirm(out, runs, which, act)
    tally = Tally(len(runs))
    try:
        ask(settings, lambda client: _act(client, runs, act, which, tally, out), workflows=workflows)
    finally:  # also when it is stopped half-way: what was done is done, and is told
        _tell(out, tally, act)
    return PARTLY if tally.count("refused") or len(tally.items) < tally.total else 0


async def _match(client: Client, where: str) -> list[RunView]:
    """All runs that match now. What begins to match later is not touched."""
    found: list[RunView] = []
    while page := await client.engine.list_runs(where, limit=_PAGE, before=found[-1].run_id if found else None):
        found += page
        if len(page) < _PAGE:
            break
    return found


async def _named(client: Client, targets: Sequence[str]) -> list[RunView]:
    from stepwell.cli.targets import get_run_id

    ids = dict.fromkeys([await get_run_id(client, target) for target in targets])
    return [run for run in await client.engine.status_many(list(ids)) if run is not None]


async def _act(client: Client, runs: Sequence[RunView], act: Act, which: Which, tally: Tally, out: Output) -> None:
    from stepwell.cli.acts import operator
    from stepwell.cli.records import begin

    record = await begin(client.engine, act.done.lower(), operator(), which.where or "", len(runs))
    tally.name = f"bulk-{record.number}"
    try:
        await _each(client, runs, act, record, tally, out)
    finally:
        await record.end(is_whole=len(tally.items) == tally.total)


async def _each(client: Client, runs: Sequence[RunView], act: Act, record: Record, tally: Tally, out: Output) -> None:
    from stepwell.cli.records import Item

    with Bars(out) as bars:
        for number, run in enumerate(runs, 1):
            try:
                is_done = await act.do(client.engine, run.run_id)
                now = await client.engine.status(run.run_id)
            except NotFoundError:  # gone since it was found
                is_done, now = False, None
            status = run.status if now is None else now.status
            outcome = "done" if is_done else "before" if now is not None and act.was_done(now) else "refused"
            tally.items.append({"run_id": run.run_id, "outcome": outcome, "status": status})
            await record.note(Item(run.run_id, outcome, status))
            bars.tell(act.done, number, len(runs))
            if record.is_aborted:
                return


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


def _confirm(out: Output, runs: Sequence[RunView], which: Which, act: Act) -> None:
    if which.yes or which.run is not None:  # whoever writes ids has chosen them
        return
    if not sys.stdin.isatty():
        raise RequestError(
            f"{_runs(len(runs))}; nothing was done, because nobody can be asked here",
            fix="--yes does it, --dry-run says which runs they are",
        )
    for line in _summary(runs, out):
        click.echo(line, err=True)
    asked = f"It takes {act.needs}; others are left alone. Go on?"
    if not click.confirm(asked, default=False, err=True):
        raise click.exceptions.Abort


def _tell(out: Output, tally: Tally, act: Act) -> None:
    items, ids = tally.items, [item["run_id"] for item in tally.items if item["outcome"] == "done"]
    facts: dict[str, Any] = {
        "matched": tally.total,
        "done": len(ids),
        "refused": tally.count("refused"),
        "dry_run": False,
    }
    facts["bulk"] = tally.name
    if out.many("stepwell.bulk/1", "items", items, run_ids=ids, **facts):
        return
    dot = " - " if out.ascii else " · "
    said = [*([tally.name] if tally.name else []), f"{act.done}: {len(ids):,} of {tally.total:,}"]
    if before := tally.count("before"):
        said.append(f"{before:,} before")
    if refused := [item for item in items if item["outcome"] == "refused"]:
        some = ", ".join(f"{item['run_id']} is {item['status']}" for item in refused[:_SAMPLE])
        said.append(f"{len(refused):,} cannot {act.impossible} ({some}{', …' if len(refused) > _SAMPLE else ''})")
    if len(items) < tally.total:
        said.append(f"stopped: {tally.total - len(items):,} were not touched")
    out.line(clean(dot.join(said)))


def _runs(count: int) -> str:
    return "1 run matches" if count == 1 else f"{count:,} runs match"
