"""`stepwell start`: begin a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from stepwell.cli.bodies import RUN, run_body
from stepwell.cli.client import Client, ask
from stepwell.cli.commands.runs import print_result
from stepwell.cli.inputs import check_input, read_attributes, read_input
from stepwell.cli.operators import os_user
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import STATUSES
from stepwell.cli.texts import clean, moment, shell_word
from stepwell.model.retries import Retry
from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    from stepwell.engine.handles import Handle
    from stepwell.engine.views import RunView
    from stepwell.replay.workflows import Workflow


T = TypeVar("T")


class Begun(NamedTuple):
    """The outcome of a start."""

    run: RunView
    is_new: bool
    same_input: bool
    is_served: bool  # by a live worker
    result: Any = None


@command("start")
@click.argument("workflow")
@click.argument("input", nargs=-1, metavar="[name=text | name:=json | @file | -]...")
@click.option("--key", help="A business key: at most one active run has it.")
@click.option(
    "--on-conflict", type=click.Choice(["get", "raise", "replace"]), default="get", help="If another run has the key."
)
@click.option("--dedup", metavar="TIME", default="24h", show_default=True, help="How long an ended run keeps its key.")
@click.option("--delay", metavar="TIME", default="0s", help="Begin after this time.")
@click.option("--priority", type=int, default=0, help="Higher is claimed first.")
@click.option("--tag", "tags", multiple=True, metavar="NAME[=VALUE]", help="Shown with the run; may be repeated.")
@click.option(
    "--attr",
    "attributes",
    multiple=True,
    metavar="NAME=TEXT|NAME:=VALUE",
    help="An attribute: a text, or with := a number, true, false or a time; may be repeated.",
)
@click.option("--title", metavar="TEXT", help="One line that lists show.")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Carried to the runs it starts; may be repeated."
)
@click.option("--deadline", metavar="TIME", help="The run fails if it has not ended after this time.")
@click.option(
    "--retry",
    metavar="POLICY",
    help='Try the whole run again if it fails: "3", "forever", or "5,initial=1m,factor=2,max_delay=1h,jitter=0.1".',
)
@click.option("--max-suspend", metavar="TIME", help="The run fails if one wait takes longer than this.")
@click.option(
    "--by", metavar="NAME", default=os_user, show_default="the OS user", help="Who starts it, stored with the run."
)
@click.option("--wait", is_flag=True, help="Wait for the result and print it.")
@click.option("--timeout", metavar="TIME", help="With --wait: stop waiting after this time; the run continues.")
def start(
    settings: Settings,
    workflow: str,
    input: tuple[str, ...],
    key: str | None,
    tags: tuple[str, ...],
    attributes: tuple[str, ...],
    headers: tuple[str, ...],
    retry: str | None,
    wait: bool,
    timeout: str | None,
    **options: Any,
) -> None:
    """Start a run. With --app the input is checked before it is stored, without it by the worker.

    If a run has the key, active or ended within --dedup, that run is returned and nothing is started.

    \b
    Example:
      stepwell start checkout customer=ann amount:=42 --key order-42 --attr region=eu --attr amount:=42 --deadline 2h
    """
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")
    value = read_input(input, what="the input")
    known = _load(settings)
    options["tags"] = dict(_pair(tag) for tag in tags)
    options["headers"] = dict(_pair(header) for header in headers)
    options["retry"] = None if retry is None else _policy(retry)
    options["attributes"] = read_attributes(attributes)

    async def begin(client: Client) -> Begun:
        handle = await _start(client, known, workflow, value, {"key": key, **options})
        result = await handle.result(timeout) if wait else None
        run = await handle.status()
        return Begun(run, handle.is_new, handle.same_input, await _is_served(client, run), result)

    begun = ask(settings, begin, workflows=known or (), may_create=known is not None)
    out = Output(settings)
    _warn(out, begun)
    if wait:
        print_result(out, begun.run.run_id, begun.result)
        return
    body = {**run_body(begun.run), "is_new": begun.is_new, "same_input": begun.same_input}
    out.one(RUN, body, run_ids=[begun.run.run_id], words=lambda: _words(begun))


def _load(settings: Settings) -> list[Workflow[Any, Any]] | None:
    loaded = settings.load()
    return None if loaded is None else list(loaded.app.workflows) or None


def _pair(tag: str) -> tuple[str, str]:
    name, _, value = tag.partition("=")
    return name, value


def _policy(text: str) -> Retry:
    """A policy in one word, or with options after it."""
    count, *pairs = (part.strip() for part in text.split(","))
    numbers, times = ("factor", "jitter"), ("initial", "max_delay")
    given: dict[str, Any] = {}
    for name, value in map(_pair, pairs):
        from stepwell.model.starts import check_options

        check_options([name], (*times, *numbers), "--retry")
        given[name] = _number(value, name, float) if name in numbers else value
    attempts = None if count == "forever" else _number(count, "the number of attempts", int)
    return Retry(max_attempts=attempts, **given)


def _number(text: str, what: str, kind: Callable[[str], T]) -> T:
    try:
        return kind(text)
    except ValueError:
        raise click.UsageError(f'--retry: {what} is {text!r}. Write "3", "forever", or "5,initial=1m".') from None


async def _start(
    client: Client, known: list[Workflow[Any, Any]] | None, name: str, value: Any, options: dict[str, Any]
) -> Handle[Any]:
    if known is not None:
        from stepwell.replay.registry import Registry

        workflow = Registry(known).newest(name)
        return await client.engine.start(workflow, check_input(workflow, value), **options)
    version = await _newest_version(client, name)
    return await client.engine.runs.start_by_name(name, version, value, **options)


async def _newest_version(client: Client, name: str) -> int:
    """The newest version that the runs and workers of this database have."""
    from stepwell.errors import UnknownWorkflowError
    from stepwell.nearest import nearest

    pairs = [definition.rpartition("@") for definition in await client.views.list_definitions()]
    versions = [int(version) for known, _, version in pairs if known == name]
    if not versions:
        names = sorted({known for known, _, _ in pairs})
        fix = f"known in this database: {', '.join(names) or 'none'}; or name your code: --app MODULE"
        raise UnknownWorkflowError("workflow", name, near=nearest(name, names), fix=fix)
    return max(versions)


async def _is_served(client: Client, run: RunView) -> bool:
    now, definition = client.engine.now(), f"{run.workflow}@{run.version}"
    workers = await client.views.list_workers()
    return run.is_ended or any(worker.lease_until > now and definition in worker.definitions for worker in workers)


def _warn(out: Output, begun: Begun) -> None:
    run = begun.run
    if not begun.is_new:
        other = " Its input differs from yours." if not begun.same_input else ""
        out.warn(f"Nothing was started: run {run.run_id} has the key {run.key!r} and {_state(run)}.{other}")
        if run.is_ended:
            retry = f"; to retry this one: stepwell retry {shell_word(run.run_id)}" if run.status == "failed" else ""
            out.warn(f"To start a new run with this key: --dedup 0s{retry}")
    if not begun.is_served:
        out.note(f"No live worker serves {run.workflow} v{run.version}. Start one: stepwell worker MODULE")


def _state(run: RunView) -> str:
    """Whether a run is active or has ended, and since when."""
    words = STATUSES[RunStatus(run.status)].words
    if run.ended_at is None:
        return f"is {words}"
    return f"has already ended ({words} at {moment(run.ended_at)} UTC)"


def _words(begun: Begun) -> list[str]:
    run = begun.run
    key = f" (key {run.key})" if run.key else ""
    return [
        clean(f"{'Started' if begun.is_new else 'Found'} {run.workflow} v{run.version} run {run.run_id}{key}"),
        f"  next    stepwell show {shell_word(run.run_id)}",
    ]
