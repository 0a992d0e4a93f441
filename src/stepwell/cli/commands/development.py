"""`stepwell dev`: run an application while you write it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import DEV_DB, Settings, command

if TYPE_CHECKING:
    from stepwell.cli.dev.lines import LogFormat

DEMO_APP = "stepwell.cli.dev.seeds.shop:app"


@command("dev")
@click.argument("module", metavar="[APP]", required=False)
@click.option(
    "--port",
    default=7878,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="If it is taken, the next free port is used.",
)
@click.option("--fresh", is_flag=True, help=f"Delete {DEV_DB.removeprefix('sqlite:///')} first.")
@click.option(
    "--seed",
    type=click.Choice(["demo"]),
    help="Fill an empty database with about 200 runs of a shop, and run its code unless APP is named.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Text or JSON lines."
)
@click.option("--no-open", is_flag=True, help="Do not open the dashboard in a browser.")
def dev(
    settings: Settings,
    module: str | None,
    port: int,
    fresh: bool,
    seed: str | None,
    log_format: LogFormat,
    no_open: bool,
) -> None:
    """Run APP (default: app.py) and show what happens: a worker, the dashboard in your browser, and keys to crash the
    worker and skip time.

    The database is .stepwell/dev.db, unless --db or $STEPWELL_DB names another. That of the App is not used. The server
    listens on 127.0.0.1 only. Saved code is checked against unfinished runs before it is loaded. Other commands in this
    folder use .stepwell/dev.db, too, unless the App or a setting names a database.

    \b
    Example:
      stepwell dev
      stepwell dev app.py:app --fresh
      stepwell dev --seed demo
    """
    import asyncio

    from stepwell.cli.dev.lines import Printer
    from stepwell.cli.dev.places import Place
    from stepwell.cli.dev.supervisor import DevOptions, Supervisor
    from stepwell.cli.modules import split_name
    from stepwell.errors import NotFoundError
    from stepwell.logs import configure

    if settings.output in ("json", "jsonl"):
        log_format = "json"
    configure(log_format, force=False)
    name = module or (DEMO_APP if seed else settings.app or "app.py")
    parts = split_name(name)
    if parts.is_file and not Path(parts.module).is_file():
        raise NotFoundError(
            "file", parts.module, fix="stepwell new hello makes a first one; or name yours: stepwell dev orders.py"
        )
    place = Place(settings.db if settings.is_db_given else DEV_DB)
    place.prepare()
    slot = place.take_slot()
    try:
        if fresh:
            place.clear(slot)
        if seed:
            place.seed()
        printer = Printer(Output(settings), log_format)

        async def run() -> None:
            await Supervisor(DevOptions(name, port, opens=not no_open), place, slot, printer).run()

        asyncio.run(run())
    finally:
        slot.leave()
