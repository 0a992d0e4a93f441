"""`stepwell publish`: publish an event on a topic."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, cast

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.inputs import read_input
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from stepwell.model.events import Deliver


@command("publish")
@click.argument("topic")
@click.argument("payload", nargs=-1, metavar="[name=text | name:=json | @file | -]...")
@click.option("--deliver", type=click.Choice(["all", "one"]), default="all", show_default=True)
@click.option("--retain", metavar="TIME", help="Keep it this long for later waits, such as 7d.")
@click.option("--event-id", metavar="ID", help="Publish it once, even if this command is repeated within 7 days.")
def publish(
    settings: Settings, topic: str, payload: tuple[str, ...], deliver: str, retain: str | None, event_id: str | None
) -> None:
    """Publish an event to the runs that wait for it. The type of the payload is not checked.

    \b
    Example:
      stepwell publish Shipped order=order-42 parcels:=2 --retain 7d
    """
    value = read_input(payload, what="the payload")
    way = cast("Deliver", deliver)

    async def send(client: Client) -> int:
        return await client.engine.publish(topic, value, deliver=way, retain=retain, event_id=event_id)

    reached = ask(settings, send)
    body: dict[str, Any] = {"topic": topic, "reached": reached}
    line = clean(f"Published on {topic!r}: {reached} {'run' if reached == 1 else 'runs'} received it.")
    Output(settings).one("stepwell.publication/1", body, run_ids=[], words=lambda: [line])


emit = copy(publish)  # its name in other engines
emit.name = "emit"
emit.help = (publish.help or "").replace("stepwell publish", "stepwell emit")
