"""`stepwell why`: why a run is not moving, and what to type to continue it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.bodies import cause_body
from stepwell.cli.client import Client, ask
from stepwell.cli.errors import in_commands
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepwell.engine.causes import Cause
    from stepwell.engine.explanations import Explanation


@command("why")
@click.argument("run", shell_complete=complete_run)
def why(settings: Settings, run: str) -> None:
    """Say why a run is not moving: in one sentence, and as a chain of causes, each with what removes it.

    \b
    Example:
      stepwell why @last-failed
    """

    async def look(client: Client) -> Explanation:
        return await client.engine.explain(await get_run_id(client, run))

    found = ask(settings, look)
    following = in_commands(found.next)
    body = {
        "run_id": found.run_id,
        "status": found.status,
        "sentence": found.sentence,
        "next": following,
        "facts": found.facts,
        "chain": [cause_body(cause) for cause in found.chain],
    }

    def words() -> Iterator[str]:
        yield clean(found.sentence)
        yield from _lines(found.chain, 1)
        if following:
            yield f"  next    {clean(following)}"
        if found.facts.get("pending_signals"):
            yield clean(f"  mail    not asked for yet: {', '.join(found.facts['pending_signals'])}")
        yield f"  more    stepwell show {clean(found.run_id)}"

    Output(settings).one("stepwell.explanation/1", body, run_ids=[found.run_id], words=words)


def _lines(causes: Iterable[Cause], depth: int) -> Iterator[str]:
    """Each cause on a line, what is in the way of a child below it."""
    for cause in causes:
        yield f"{'  ' * depth}{clean(f'{cause.kind}: {cause.sentence}  ->  {in_commands(cause.next)}')}"
        yield from _lines(cause.causes, depth + 1)
