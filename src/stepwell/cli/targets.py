"""Targets: a command names a run by its id, a unique prefix of the id, its key, @last or @last-failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.cli.texts import is_plain_word
from stepwell.errors import NotFoundError, RequestError
from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    import click

    from stepwell.cli.client import Client
    from stepwell.ids import RunId

LAST, LAST_FAILED = "@last", "@last-failed"
_SHORTCUTS = {
    LAST: (),
    LAST_FAILED: (RunStatus.FAILED, RunStatus.COMPENSATED, RunStatus.COMPENSATION_FAILED),
}
_SHOWN_MAX = 5
_COMPLETED_MAX = 50


async def get_run_id(client: Client, target: str) -> RunId:
    """The id of the run that a target names. Raises `NotFoundError`, or `RequestError` if several match."""
    found = await find_run_id(client, target)
    if found is None:
        await client.engine.runs.detail(target)  # raises, with the nearest ids and keys
        raise NotFoundError("run", target)
    return found


async def find_run_id(client: Client, target: str) -> RunId | None:
    """As `get_run_id`, but None if no run matches."""
    if target.startswith("@"):
        return await _shortcut(client, target)
    run = await client.engine.status(target)
    if run is not None:
        return _id(run.run_id)
    begun = await client.views.find_by_prefix(target.strip().lower(), limit=_SHOWN_MAX + 1)
    if len(begun) > 1:
        shown = ", ".join(begun[:_SHOWN_MAX]) + (", …" if len(begun) > _SHOWN_MAX else "")
        raise RequestError(f"{target!r} is a prefix of several run ids", why=shown, fix="write more of the id")
    return begun[0] if begun else None


async def _shortcut(client: Client, target: str) -> RunId:
    if target not in _SHORTCUTS:
        raise NotFoundError("run", target, near=[name for name in _SHORTCUTS if name.startswith(target[:2])])
    from stepwell.stores.base.views import RunFilter

    newest = await client.list_runs(RunFilter(statuses=_SHORTCUTS[target]), limit=1)
    if not newest:
        raise NotFoundError("run", target, fix="no run has failed" if target == LAST_FAILED else "start one first")
    return _id(newest[0].run_id)


def _id(run_id: str) -> RunId:
    from stepwell.ids import RunId

    return RunId(run_id)


def complete_run(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For shells: the shortcuts, and ids and keys of the newest runs; the shortcuts alone if the store cannot be read.

    A shell puts a completed word on its line unquoted, and some shells then expand it. So a key with any character
    that a shell could expand is left out; its run is offered by its id.
    """
    from stepwell.cli.client import ask
    from stepwell.cli.settings import Settings

    async def newest(client: Client) -> list[str]:
        runs = await client.list_runs(limit=_COMPLETED_MAX)
        return [name for run in runs for name in (run.key, run.run_id) if name is not None and is_plain_word(name)]

    settings = ctx.find_object(Settings) or Settings.from_environment()
    try:
        known = ask(settings, newest)
    except Exception:  # noqa: BLE001  a shell that completes must never be disturbed
        known = []
    return [name for name in (*_SHORTCUTS, *known) if name.startswith(incomplete)]
