"""`stepwell result`: what a run gave, once it has ended."""

from __future__ import annotations

from typing import Any

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import dump_json


@command("result")
@click.argument("run", shell_complete=complete_run)
@click.option("--timeout", metavar="TIME", help="Stop waiting after this time (30s, 5m); the run goes on.")
def result(settings: Settings, run: str, timeout: str | None) -> None:
    """Wait for the end of a run and print its result as JSON.

    Ends with exit code 7 if the run did not complete, and 8 if it had not ended in time.

    \b
    Example:
      stepwell result order-42 --timeout 30s
    """

    async def wait(client: Client) -> tuple[str, Any]:
        run_id = await get_run_id(client, run)
        return run_id, await client.engine.result(run_id, timeout=timeout)

    run_id, value = ask(settings, wait)
    print_result(Output(settings), run_id, value)


def print_result(out: Output, run_id: str, value: Any) -> None:
    """Print a result: as JSON by itself for people, inside of an object for programs."""
    body = {"run_id": run_id, "status": "completed", "result": value}
    out.one("stepwell.result/1", body, run_ids=[run_id], words=lambda: [dump_json(value)])
