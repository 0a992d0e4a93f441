"""`stepwell demo`: a run survives kill -9, and another one is rolled back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bodies import entry_body, run_body
from stepwell.cli.client import ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.tree import render_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.cli.demo.run import Report


@command("demo")
@click.pass_context
def demo(ctx: click.Context, settings: Settings) -> None:
    """Watch an order survive kill -9, and another one be rolled back. Takes about ten seconds.

    Uses a new SQLite database in a temporary folder, which is kept. Ends with exit code 0 only if every claim was
    true.

    \b
    Example:
      stepwell demo
    """
    import tempfile
    from pathlib import Path

    from stepwell.cli.demo.run import Demo

    folder = Path(tempfile.mkdtemp(prefix="stepwell-demo-"))
    db = f"sqlite:///{folder / 'demo.db'}"
    out = Output(settings)
    is_json = out.format != "table"

    def say(line: str) -> None:
        # A program reads the result on stdout.
        click.echo(line, err=True, color=False) if is_json else out.line(_plain(line) if out.ascii else line)

    say("An order saga on SQLite, two worker processes, one kill -9. Every line below is real.\n")
    own = Settings(db=db, app="", output=settings.output, ascii=settings.ascii, debug=settings.debug)
    report = ask(own, lambda client: Demo(client, db, folder, say).run(), may_create=True)
    out.one(
        "stepwell.demo/1",
        _body(report, db),
        run_ids=[seen.run.run_id for seen in report.runs],
        words=lambda: _words(report, db, out),
    )
    sys.stdout.flush()
    ctx.exit(0 if report.ok else 1)


def _plain(line: str) -> str:
    return line.translate(str.maketrans("✓✕↶‖→·", "+x<=>-"))


def _words(report: Report, db: str, out: Output) -> Iterator[str]:
    for seen in report.runs:
        yield ""
        yield from render_tree(seen.run, seen.entries, seen.waits, ascii=out.ascii, width=out.width)
    yield ""
    for check in report.checks:
        line = f"{'✓' if check.ok else '✕'} {check.claim}" + (f"  ({check.detail})" if check.detail else "")
        yield _plain(line) if out.ascii else line
    again = ", ".join(report.repeats.in_flight)
    if again:
        yield f"  {again} was running when its worker died, so it ran again"
    yield ""
    if not report.ok:
        yield f"NOT every claim was true; the logs of the workers are beside {db.removeprefix('sqlite:///')}"
        return
    yield f"{len(report.repeats.recorded)} steps repeated. All of it was true, in {report.seconds:.1f} s."
    yield f"The database is kept: {db.removeprefix('sqlite:///')}"
    yield "Next:"
    for words in ("ls", "show order-1001", "why order-1002", "history order-1001 -o jsonl"):
        yield f"  stepwell --db {db} {words}"


def _body(report: Report, db: str) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "seconds": round(report.seconds, 3),
        "db": db,
        "repeated": list(report.repeats.recorded),
        "in_flight_again": list(report.repeats.in_flight),
        "checks": [{"claim": check.claim, "ok": check.ok, "detail": check.detail} for check in report.checks],
        "runs": [
            {**run_body(seen.run), "entries": [entry_body(entry) for entry in seen.entries]} for seen in report.runs
        ],
    }
