"""`stepwell versions`: which versions and patches runs still need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bars import Bars
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean, moment

if TYPE_CHECKING:
    from stepwell.check.versions import PatchUse, VersionUse
    from stepwell.clock import Instant

_VERSIONS = (
    Column("WORKFLOW", is_fixed=True),
    Column("VERSION", is_fixed=True),
    Column("LIVE", is_fixed=True),
    Column("WAITING", is_fixed=True, dropped=2),
    Column("FAILED, RE-DRIVABLE", is_fixed=True),
    Column("WORKERS", is_fixed=True),
    Column("LAST USE (UTC)", is_fixed=True, dropped=1),
    Column("SAFE TO RETIRE"),
)
_PATCHES = (
    Column("WORKFLOW", is_fixed=True),
    Column("PATCH", is_fixed=True),
    Column("OLD PATH", is_fixed=True),
    Column("NEW PATH", is_fixed=True),
    Column("UNKNOWN", is_fixed=True),
    Column("SAFE TO DELETE"),
)


@command("versions")
@click.argument("workflow", required=False)
@click.option("--patches/--no-patches", default=True, help="Also read which way runs took at each gate.")
def versions(settings: Settings, workflow: str | None, patches: bool) -> None:
    """Show of each workflow version, and of each patch, how many runs still need it.

    A version is safe to retire when no run of it is live or could be retried. A patch is safe to delete when no such
    run is on the old path; with --app each run is replayed against your code, so that none is unknown.

    \b
    Example:
      stepwell versions checkout --app orders.py
    """
    out = Output(settings)
    with Bars(out) as bars:
        uses, gates = ask(settings, lambda client: _read(client, bars, workflow, patches))
    body = {
        "versions": [_version_body(use) for use in uses],
        "patches": [{**use._asdict(), "safe_to_delete": use.may_delete} for use in gates],
    }
    if out.format != "table":
        out.one("stepwell.versions/1", body, run_ids=[], words=list)
        return
    if not uses:
        out.note("No run and no worker names a workflow here.")
        return
    out.table(_VERSIONS, [_version_row(use) for use in uses])
    if gates:
        out.line("")
        out.table(_PATCHES, [_patch_row(use) for use in gates])


async def _read(
    client: Client, bars: Bars, workflow: str | None, patches: bool
) -> tuple[list[VersionUse], list[PatchUse]]:
    from stepwell.check.inflight import Code
    from stepwell.check.versions import NEEDING, patch_uses, version_uses
    from stepwell.errors import UnknownWorkflowError
    from stepwell.nearest import nearest

    tallies = await client.views.tally_runs()
    uses = version_uses(tallies, await client.views.list_workers(), client.store.now())
    if workflow is not None:
        known = sorted({use.workflow for use in uses})
        uses = [use for use in uses if use.workflow == workflow]
        if not uses:
            raise UnknownWorkflowError("workflow", workflow, near=nearest(workflow, known))
    if not patches:
        return uses, []
    code = None
    if client.app is not None:
        from stepwell.app import replay_codec
        from stepwell.replay.registry import Registry

        code = Code(Registry(client.app.workflows), replay_codec(client.app, client.store))
    total = sum(
        one.runs for one in tallies if one.status in NEEDING and workflow in (None, one.definition.rpartition("@")[0])
    )
    tell = lambda done: bars.tell("reading", done, max(done, total))  # noqa: E731  a name for one argument
    return uses, await patch_uses(client.store, workflow=workflow, code=code, tell=tell)


def _version_body(use: VersionUse) -> dict[str, Any]:
    when = _when(use.last_at)
    return {
        **use._asdict(),
        "last_at": None if when is None else when.isoformat(),
        "unserved": use.is_unserved,
        "safe_to_retire": use.may_retire,
    }


def _version_row(use: VersionUse) -> list[str]:
    if use.is_unserved:
        safe = f"no: {use.live} wait, no worker has version {use.version}"
    elif use.live:
        safe = "no"
    elif use.redrivable:
        safe = f"no: {use.redrivable} failed could be retried"
    else:
        safe = "yes"
    figures = [str(number) for number in (use.version, use.live, use.waiting, use.redrivable, use.workers)]
    return [clean(use.workflow), *figures, moment(_when(use.last_at)), safe]


def _patch_row(use: PatchUse) -> list[str]:
    if use.may_delete:
        safe = "yes"
    elif use.old:
        safe = f"no: {use.old} on the old path"
    else:
        safe = "not known: name your code with --app"
    return [clean(use.workflow), clean(use.name), str(use.old), str(use.new), str(use.unknown), safe]


def _when(instant: Instant | None) -> Any:
    from stepwell.clock import to_datetime

    return None if instant is None else to_datetime(instant)
