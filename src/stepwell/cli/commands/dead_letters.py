"""`stepwell dlq`: what could not be handled: list, show, retry, edit and drop it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bodies import fact_body
from stepwell.cli.client import ask
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Group, Settings, command
from stepwell.cli.texts import clean, dump_json, moment, shell_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepwell.engine.dead_letters import Letter, LettersActed

_COLUMNS = (
    Column("LETTER", is_fixed=True),
    Column("NAME"),
    Column("RUN", dropped=2),
    Column("SINCE", is_fixed=True, dropped=3),
    Column("TRIES", is_fixed=True, dropped=1),
    Column("WHY", is_note=True),
)
_HANDLED_COLUMNS = (
    Column("LETTER", is_fixed=True),
    Column("STATE", is_fixed=True),
    Column("NAME"),
    Column("AT", is_fixed=True),
    Column("BY", dropped=1),
    Column("WHY", is_note=True),
)
_KINDS = ("event", "signal", "poison", "history", "unserved", "hook")


@click.group("dlq", cls=Group)
def dlq() -> None:
    """Dead letters: events, signals, runs and messages that could not be handled, until you retry or drop them.

    \b
    Example:
      stepwell dlq retry signal-41
    """


def _filters(function: Callable[..., Any]) -> Callable[..., Any]:
    found = click.option("--code", help="Only with this code, such as SW850.")(function)
    found = click.option("--run", "of_run", metavar="RUN", help="Only of this run, by id or key.")(found)
    found = click.option("--workflow", "-w", help="Only of runs of this workflow.")(found)
    return click.option("--kind", "-k", type=click.Choice(_KINDS), help="Only of this kind.")(found)


@command("ls")
@_filters
@click.option("--handled", is_flag=True, help="What people did with letters, the latest first.")
@click.option("--limit", "-n", default=100, show_default=True, type=click.IntRange(1, 1_000))
def _ls(
    settings: Settings,
    kind: str | None,
    workflow: str | None,
    of_run: str | None,
    code: str | None,
    handled: bool,
    limit: int,
) -> None:
    """List dead letters, the oldest of each kind first.

    \b
    Example:
      stepwell dlq ls --kind event
    """
    out = Output(settings)
    if handled:
        done = ask(settings, lambda client: client.engine.dead_letters.handled(limit=limit))
        if not out.many("stepwell.handled_letter/1", "letters", [fact_body(one) for one in done], run_ids=[]):
            rows = [[one.letter, one.state, one.name, moment(one.at), one.by, one.why or one.reason] for one in done]
            if not rows:
                out.note("Nobody has handled a letter yet.")
            else:
                out.table(_HANDLED_COLUMNS, rows)
        return
    found = ask(
        settings,
        lambda client: client.engine.dead_letters.list(kind, workflow=workflow, run=of_run, code=code, limit=limit),
    )
    ids = list(dict.fromkeys(one.run_id for one in found if one.run_id))
    if out.many("stepwell.letter/1", "letters", [fact_body(one) for one in found], run_ids=ids):
        return
    if not found:
        out.note("No dead letter matches." if kind or workflow or of_run or code else "No dead letters.")
        return
    out.table(_COLUMNS, [_row(one) for one in found])


@command("show")
@click.argument("letter", metavar="LETTER")
@click.option("--raw", is_flag=True, help="Write the original bytes and nothing else.")
def _show(settings: Settings, letter: str, raw: bool) -> None:
    """Show one letter: why it could not be handled, who gave up, and its content.

    \b
    Example:
      stepwell dlq show signal-41
    """
    found = ask(settings, lambda client: client.engine.dead_letters.get(letter))
    if raw:
        sys.stdout.buffer.write(found.original)
        return
    run_ids = [found.run_id] if found.run_id else []
    Output(settings).one("stepwell.letter/1", fact_body(found), run_ids=run_ids, words=lambda: _words(found))


@command("retry")
@click.argument("letter", metavar="[LETTER]", required=False)
@click.option("--to", metavar="RUN", help="Deliver a signal to this run instead.")
@click.option("--all", "is_all", is_flag=True, help="Retry every letter that matches the options.")
@_filters
@by_option
def _retry(
    settings: Settings,
    letter: str | None,
    to: str | None,
    is_all: bool,
    kind: str | None,
    workflow: str | None,
    of_run: str | None,
    code: str | None,
    by: str,
) -> int:
    """Handle a letter again, and wake what waits for it. It keeps its id, so that nothing happens twice.

    \b
    Example:
      stepwell dlq retry --all --kind event
    """
    if _is_bulk(letter, is_all, (kind, workflow, of_run, code, to)):
        done = ask(
            settings,
            lambda client: client.engine.dead_letters.retry_all(
                kind=kind, workflow=workflow, run=of_run, code=code, by=by
            ),
        )
        return _report_all(settings, "retry", done, "Retried")
    assert letter is not None
    changed = ask(settings, lambda client: client.engine.dead_letters.retry(letter, to=to, by=by))
    _report(settings, "retry", letter, changed, "is retried")
    return 0


@command("edit")
@click.argument("letter", metavar="LETTER")
@click.argument("payload", nargs=-1, required=True, metavar="PAYLOAD")
@click.option("--to", metavar="RUN", help="Deliver a signal to this run instead.")
@by_option
def _edit(settings: Settings, letter: str, payload: tuple[str, ...], to: str | None, by: str) -> None:
    """Retry a letter with another payload: name=text, name:=json, @file.json, or - for standard input.

    \b
    Example:
      stepwell dlq edit signal-41 amount:=42
    """
    from stepwell.cli.inputs import read_input

    value = read_input(payload, what="payload")
    changed = ask(settings, lambda client: client.engine.dead_letters.edit(letter, value, to=to, by=by))
    _report(settings, "edit", letter, changed, "is retried with the new payload")


@command("drop")
@click.argument("letter", metavar="[LETTER]", required=False)
@click.option("--reason", required=True, help="Why, kept in the audit.")
@click.option("--all", "is_all", is_flag=True, help="Drop every letter that matches the options.")
@_filters
@by_option
def _drop(
    settings: Settings,
    letter: str | None,
    reason: str,
    is_all: bool,
    kind: str | None,
    workflow: str | None,
    of_run: str | None,
    code: str | None,
    by: str,
) -> int:
    """Drop a letter for ever. A letter that is a run is cancelled, without undoing anything.

    \b
    Example:
      stepwell dlq drop event-17 --reason "the shop has sent it again"
    """
    if _is_bulk(letter, is_all, (kind, workflow, of_run, code)):
        done = ask(
            settings,
            lambda client: client.engine.dead_letters.drop_all(
                reason, kind=kind, workflow=workflow, run=of_run, code=code, by=by
            ),
        )
        return _report_all(settings, "drop", done, "Dropped")
    assert letter is not None
    changed = ask(settings, lambda client: client.engine.dead_letters.drop(letter, reason, by=by))
    _report(settings, "drop", letter, changed, "is dropped")
    return 0


for each in (_ls, _show, _retry, _edit, _drop):
    dlq.add_command(each)


def _is_bulk(letter: str | None, is_all: bool, filters: tuple[str | None, ...]) -> bool:
    if (letter is None) == (not is_all):
        raise click.UsageError("Name one LETTER, or give --all with options that choose letters.")
    if letter is not None and any(filters[:4]):
        raise click.UsageError("--kind, --workflow, --run and --code choose letters for --all.")
    return is_all


def _report(settings: Settings, verb: str, letter: str, changed: bool, done: str) -> None:
    line = clean(f"Letter {letter} {done if changed else 'was handled before'}")
    body = {"letter": letter, "verb": verb, "changed": changed}
    Output(settings).one("stepwell.act/1", body, run_ids=[], words=lambda: [line])


def _report_all(settings: Settings, verb: str, done: LettersActed, said: str) -> int:
    def words() -> Iterator[str]:
        yield f"{said} {done.handled:,} {'letter' if done.handled == 1 else 'letters'}."
        for letter, why in done.failed.items():
            yield clean(f"  left {letter}: {why}")

    Output(settings).one("stepwell.letters/1", {"verb": verb, **fact_body(done)}, run_ids=[], words=words)
    return 10 if done.failed else 0


def _row(one: Letter) -> list[str]:
    tries = str(one.attempts or "")
    return [one.letter, one.name, one.key or one.run_id, moment(one.died_at), tries, one.reason]


def _words(one: Letter) -> Iterator[str]:
    yield clean(f"{one.letter}  {one.name}")
    yield clean(f"  why       {one.reason} ({one.code})")
    yield clean(f"  fix       {one.fix}")
    if one.run_id:
        yield clean(f"  run       {one.run_id}  {one.key or ''} ({one.workflow})")
    if one.target not in ("", one.run_id):
        yield clean(f"  target    {one.target}")
    yield clean(f"  tries     {one.attempts}" + (f", the last by worker {one.worker}" if one.worker else ""))
    yield clean(f"  sent      {moment(one.at)} UTC, given up {moment(one.died_at)} UTC")
    yield clean(f"  content   {dump_json(one.payload, is_compact=True)}")
    yield clean(f"  retry     stepwell dlq retry {shell_word(one.letter)}")
