"""`stepwell dev`: run a project while it is being written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import DEV_DB, Settings, command

if TYPE_CHECKING:
    from stepwell.cli.dev.lines import LogFormat


@command("dev")
@click.argument("module", metavar="[APP]", required=False)
@click.option(
    "--port", default=7878, show_default=True, type=click.IntRange(1, 65535), help="Taken: the next free one."
)
@click.option("--fresh", is_flag=True, help=f"Delete {DEV_DB.removeprefix('sqlite:///')} first.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Lines, or JSON lines."
)
def dev(settings: Settings, module: str | None, port: int, fresh: bool, log_format: LogFormat) -> None:
    """Run APP (default: app.py) and tell what happens: a worker, the HTTP API, and keys to crash it and skip time.

    Everything is kept in .stepwell/dev.db, and listens on 127.0.0.1 only. Saved code is checked against unfinished
    runs before it is loaded. Other commands in this folder find the database by themselves.

    \b
    Example:
      stepwell dev
      stepwell dev orders.py --fresh
    """
    import asyncio

    from stepwell.cli.dev.lines import Printer
    from stepwell.cli.dev.places import Place
    from stepwell.cli.dev.supervisor import DevOptions, Supervisor
    from stepwell.errors import NotFoundError
    from stepwell.logs import configure

    if settings.output in ("json", "jsonl"):
        log_format = "json"
    configure(log_format, force=False)
    app = module or settings.app or "app.py"
    if app.endswith(".py") and not Path(app).is_file():
        raise NotFoundError(
            "file", app, fix="stepwell new hello makes a first one; or name yours: stepwell dev orders.py"
        )
    place = Place(settings.db if settings.is_db_given else DEV_DB)
    place.prepare()
    slot = place.take_slot()
    try:
        if fresh:
            place.clear(slot)
        printer = Printer(Output(settings), log_format)

        async def run() -> None:
            await Supervisor(DevOptions(app, port), place, slot, printer).run()

        asyncio.run(run())
    finally:
        slot.leave()
