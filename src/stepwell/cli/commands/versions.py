"""`stepwell versions`: the versions and patches that runs still need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.bars import Bars
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean, moment

if TYPE_CHECKING:
    from stepwell.check.versions import PatchUse
    from stepwell.clock import Instant
    from stepwell.engine.versions import VersionUse

_VERSIONS = (
    Column("WORKFLOW", is_fixed=True),
    Column("VERSION", is_fixed=True),
    Column("LIVE", is_fixed=True),
    Column("WAITING", is_fixed=True, dropped=2),
    Column("FAILED", is_fixed=True),
    Column("WORKERS", is_fixed=True),
    Column("LAST USE (UTC)", is_fixed=True, dropped=1),
    Column("SAFE TO RETIRE", is_fixed=True),
    Column("REASON", is_note=True),
)
_PATCHES = (
    Column("WORKFLOW", is_fixed=True),
    Column("PATCH", is_fixed=True),
    Column("OLD PATH", is_fixed=True),
    Column("NEW PATH", is_fixed=True),
    Column("UNKNOWN", is_fixed=True),
    Column("SAFE TO DELETE", is_fixed=True),
    Column("REASON", is_note=True),
)


@command("versions")
@click.argument("workflow", required=False)
@click.option(
    "--patches/--no-patches",
    default=True,
    help="Also list patches; this reads many histories.",
)
def versions(settings: Settings, workflow: str | None, patches: bool) -> None:
    """Show how many runs still need each workflow version and each patch.

    A version is safe to retire when a newer version exists, and no run of it is live or could be retried. A patch is
    safe to delete when no such run is on the old path. With --app each run is replayed against your code, so that no
    run is unknown.

    \b
    Example:
      stepwell versions checkout --app orders.py
    """
    out = Output(settings)
    with Bars(out) as bars:
        uses, gates = ask(settings, lambda client: _read(client, bars, workflow, patches))
    body = {
        "versions": [_version_body(use, use.why_not(uses)) for use in uses],
        "patches": [{**use._asdict(), "safe_to_delete": use.may_delete} for use in gates],
    }
    if out.format != "table":
        out.one("stepwell.versions/1", body, run_ids=[], words=list)
        return
    if not uses:
        out.note("This database knows no workflow: it has neither runs nor workers.")
        return
    out.table(_VERSIONS, [_version_row(use, use.why_not(uses)) for use in uses])
    if gates:
        out.line("")
        out.table(_PATCHES, [_patch_row(use) for use in gates])


async def _read(
    client: Client, bars: Bars, workflow: str | None, patches: bool
) -> tuple[list[VersionUse], list[PatchUse]]:
    from stepwell.check.inflight import Code
    from stepwell.check.versions import NEEDING, patch_uses
    from stepwell.engine.versions import version_uses
    from stepwell.errors import UnknownWorkflowError
    from stepwell.nearest import nearest

    tallies = await client.views.tally_runs()
    uses = version_uses(tallies, await client.views.list_workers(), client.store.now())
    if workflow is not None:
        known = sorted({use.workflow for use in uses})
        uses = [use for use in uses if use.workflow == workflow]
        if not uses:
            raise UnknownWorkflowError("workflow", workflow, near=nearest(workflow, known))
    else:
        from stepwell.engine.system_runs import PREFIX

        uses = [use for use in uses if not use.workflow.startswith(PREFIX)]
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


def _version_body(use: VersionUse, why_not: str) -> dict[str, Any]:
    when = _when(use.last_at)
    return {
        **use._asdict(),
        "last_at": None if when is None else when.isoformat(),
        "unserved": use.is_unserved,
        "safe_to_retire": not why_not,
        "reason": why_not,
    }


def _version_row(use: VersionUse, why_not: str) -> list[str]:
    figures = [str(number) for number in (use.version, use.live, use.waiting, use.redrivable, use.workers)]
    why = why_not or "all its runs have ended, and none can be retried"
    return [clean(use.workflow), *figures, moment(_when(use.last_at)), "no" if why_not else "yes", why]


def _patch_row(use: PatchUse) -> list[str]:
    if use.may_delete:
        safe, why = "yes", "no run is on the old path"
    elif use.old:
        safe, why = "no", f"{use.old} {'run is' if use.old == 1 else 'runs are'} on the old path"
    else:
        safe, why = "unknown", "name your code with --app"
    return [clean(use.workflow), clean(use.name), str(use.old), str(use.new), str(use.unknown), safe, why]


def _when(instant: Instant | None) -> Any:
    from stepwell.clock import to_datetime

    return None if instant is None else to_datetime(instant)
