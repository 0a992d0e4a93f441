"""`stepwell graph`: what a run did, as the text of a diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.client import ask
from stepwell.cli.commands.show import look
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import complete_run
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.cli.commands.show import Seen

_NAME_MAX = 60


@command("graph")
@click.argument("run", shell_complete=complete_run)
@click.option("--as", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", show_default=True)
def graph(settings: Settings, run: str, form: str) -> None:
    """Print what a run did and waits for as a diagram: the order of what is recorded, scopes within scopes.

    \b
    Example:
      stepwell graph order-42 > order.mmd
      stepwell graph order-42 --as dot | dot -Tsvg > order.svg
    """
    seen = ask(settings, lambda client: look(client, run))
    lines = [*(_mermaid(seen) if form == "mermaid" else _dot(seen))]
    body = {"run_id": seen.run.run_id, "form": form, "text": "\n".join(lines)}
    Output(settings).one("stepwell.graph/1", body, run_ids=[seen.run.run_id], words=lambda: lines)


def _nodes(seen: Seen) -> Iterator[tuple[str, str]]:
    """Each thing recorded, in the order of the commits, and then what is waited for: its words and its state."""
    for entry in sorted(seen.entries, key=lambda one: one.seq):
        yield entry.path, "undone" if entry.is_undone else entry.status
    for wait in seen.waits:
        yield f"{wait.path}: {wait.kind} {'|'.join(wait.names)}".rstrip(), "waiting"


def _mermaid(seen: Seen) -> Iterator[str]:
    yield "flowchart TD"
    yield f'    start(["{_words(f"{seen.run.workflow} v{seen.run.version}")}"])'
    before = "start"
    for number, (words, state) in enumerate(_nodes(seen), 1):
        yield f'    n{number}["{_words(words)}"]:::{state}'
        yield f"    {before} --> n{number}"
        before = f"n{number}"
    yield f'    finish(["{seen.run.status}"])'
    yield f"    {before} {'-->' if seen.run.is_ended else '-.->'} finish"
    yield "    classDef failed stroke:#b00020,stroke-width:3px"
    yield "    classDef waiting stroke-dasharray:5"
    yield "    classDef undone stroke-dasharray:2"


def _dot(seen: Seen) -> Iterator[str]:
    yield "digraph run {"
    yield f'    start [shape=oval, label="{_words(f"{seen.run.workflow} v{seen.run.version}")}"];'
    before = "start"
    for number, (words, state) in enumerate(_nodes(seen), 1):
        style = {"failed": "bold", "waiting": "dashed", "undone": "dotted"}.get(state, "solid")
        yield f'    n{number} [shape=box, style={style}, label="{_words(words)}"];'
        yield f"    {before} -> n{number};"
        before = f"n{number}"
    yield f'    finish [shape=oval, label="{seen.run.status}"];'
    yield f"    {before} -> finish{'' if seen.run.is_ended else ' [style=dashed]'};"
    yield "}"


def _words(text: str) -> str:
    """A label in which nothing means anything to either language."""
    short = clean(text) if len(text) <= _NAME_MAX else "…" + clean(text)[-_NAME_MAX:]
    return "".join(f"#{ord(letter)};" if letter in '"<>&\\#;`' else letter for letter in short)
