"""`stepwell why`: why a run is where it is, and what to type to continue it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.bodies import advice_bodies, cause_body
from stepwell.cli.client import Client, ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import clean, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepwell.advice import Advice
    from stepwell.engine.causes import Cause
    from stepwell.engine.explanations import Explanation


@command("why")
@click.argument("run", shell_complete=complete_run)
def why(settings: Settings, run: str) -> None:
    """Explain why a run is where it is: one sentence, its causes, and what to type to continue it.

    \b
    Example:
      stepwell why @last-failed
    """

    async def look(client: Client) -> Explanation:
        return await client.engine.explain(await get_run_id(client, run))

    found = ask(settings, look)
    body = {
        "run_id": found.run_id,
        "status": found.status,
        "headline": found.headline,
        "sentence": found.sentence,
        "next": advice_bodies(found.next),
        "notes": list(found.notes),
        "facts": found.facts,
        "chain": [cause_body(cause) for cause in found.chain],
    }
    out = Output(settings)
    out.one("stepwell.explanation/2", body, run_ids=[found.run_id], words=lambda: _words(found, out))


def _words(found: Explanation, out: Output) -> Iterator[str]:
    """One cause is in the sentence itself; several are listed below it. So each is told once."""
    from stepwell.advice import Advice, Verb

    if len(found.chain) == 1:
        yield from wrap(clean(found.sentence), out.width)
        yield from _list(found.chain[0].causes, out, 1)
    else:
        yield from wrap(clean(f"{found.headline}{':' if found.chain else '.'}"), out.width)
        yield from _list(found.chain, out, 1)
    for note in found.notes:
        yield from wrap(clean(note), out.width)
    yield from _commands("To continue:", [one for one in found.next if not one.is_look])
    looks = [one for one in found.next if one.is_look]
    show = Advice(Verb.SHOW, found.run_id)
    yield from _commands("To see more:", looks if show in looks else [*looks, show])


def _list(causes: Iterable[Cause], out: Output, depth: int) -> Iterator[str]:
    """Each cause, and the causes of a child below it."""
    indent = "  " * depth
    for cause in causes:
        yield from wrap(clean(f"{cause.sentence}."), out.width, first=f"{indent}- ", rest=f"{indent}  ")
        yield from _list(cause.causes, out, depth + 1)


def _commands(title: str, advice: list[Advice]) -> Iterator[str]:
    """Each on a line of its own that is never wrapped, so that it can be copied."""
    if advice:
        yield title
        yield from (f"  {clean(one.as_command())}" for one in advice)
