"""Histories: the record of a run as lines, tree or diagram; compared, exported and imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepwell.cli.bodies import HISTORY, entry_body, run_body, wait_bodies
from stepwell.cli.client import Client, ask
from stepwell.cli.commands.runs import Seen, look
from stepwell.cli.operators import by_option
from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.statuses import show_status
from stepwell.cli.targets import complete_run, get_run_id
from stepwell.cli.texts import brief, clean, duration, moment, shell_word
from stepwell.cli.tree import render_tree
from stepwell.cli.values import shown_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepwell.app import App
    from stepwell.check.differences import ComparedEntry, Difference
    from stepwell.check.histories import Recording
    from stepwell.cli.commands.runs import Seen
    from stepwell.engine.views import EntryView
    from stepwell.model.runs import Run

_COLUMNS = (
    Column("SEQ", is_fixed=True),
    Column("PATH", is_fixed=True),
    Column("KIND"),
    Column("STATUS"),
    Column("ATTEMPTS", dropped=2),
    Column("AT (UTC)", is_fixed=True, dropped=1),
    Column("TOOK", is_fixed=True),
    Column("VALUE"),
)
_CHILDREN_MAX = 50
_NAME_MAX = 60
_DIFF_COLUMNS = (
    Column("PATH", is_fixed=True),
    Column("DIFFERENT"),
    Column("FIRST RUN"),
    Column("SECOND RUN"),
    Column("SLOWER BY", is_fixed=True, dropped=1),
)


@command("history")
@click.argument("run", shell_complete=complete_run)
def history(settings: Settings, run: str) -> None:
    """List every history entry of a run, in the order of its commits.

    \b
    Example:
      stepwell history order-42 -o jsonl
    """
    seen = ask(settings, lambda client: look(client, run))
    run_id, out = seen.run.run_id, Output(settings)
    if out.many(HISTORY, "entries", [entry_body(entry) for entry in seen.entries], run_ids=[run_id], run_id=run_id):
        return
    if not seen.entries:
        out.note(f"Nothing is recorded yet. Why: stepwell why {shell_word(run_id)}")
        return
    rows = [
        [
            str(entry.seq),
            entry.path,
            entry.kind,
            entry.status,
            str(entry.attempts or ""),
            moment(entry.at),
            duration(entry.took),
            entry.failure.summary if entry.failure else shown_value(entry),
        ]
        for entry in seen.entries
    ]
    out.table(_COLUMNS, rows)


class Family(NamedTuple):
    """A run with the families of its children."""

    seen: Seen
    children: list[Family]


@command("tree")
@click.argument("run", shell_complete=complete_run)
@click.option("--depth", type=click.IntRange(0, 20), default=3, show_default=True, help="Generations of children.")
def tree(settings: Settings, run: str, depth: int) -> None:
    """Show a run and its children as trees.

    \b
    Example:
      stepwell tree order-42 --depth 1
    """
    family = ask(settings, lambda client: _gather(client, run, depth))
    out = Output(settings)
    out.one("stepwell.tree/1", _tree_body(family), run_ids=[*_ids(family)], words=lambda: _tree_words(family, out, ""))


async def _gather(client: Client, run: str, depth: int) -> Family:
    seen = await look(client, run)
    children: list[Family] = []
    for child in seen.children[:_CHILDREN_MAX] if depth else ():
        is_known = not child.unreadable
        children.append(await _gather(client, child.run_id, depth - 1) if is_known else Family(Seen(child), []))
    return Family(seen, children)


def _tree_body(family: Family) -> dict[str, Any]:
    seen = family.seen
    return {
        **run_body(seen.run),
        "entries": [entry_body(entry) for entry in seen.entries],
        "waits": wait_bodies(seen.waits),
        "children": [_tree_body(child) for child in family.children],
        "children_count": len(seen.children),
    }


def _ids(family: Family) -> Iterator[str]:
    yield family.seen.run.run_id
    for child in family.children:
        yield from _ids(child)


def _tree_words(family: Family, out: Output, lead: str) -> Iterator[str]:
    seen = family.seen
    for line in render_tree(seen.run, seen.entries, seen.waits, ascii=out.ascii, width=out.width):
        yield lead + line
    for child in family.children:
        yield from _tree_words(child, out, lead + "    ")
    if len(seen.children) > len(family.children):
        more = len(seen.children) - len(family.children)
        yield f"{lead}    and {more} more below: stepwell tree {shell_word(seen.run.run_id)} --depth 20"


@command("graph")
@click.argument("run", shell_complete=complete_run)
@click.option("--as", "form", type=click.Choice(["mermaid", "dot"]), default="mermaid", show_default=True)
def graph(settings: Settings, run: str, form: str) -> None:
    """Print a run as a diagram: its history entries in order, and what it waits for.

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
    """Each history entry, in the order of the commits, and then each wait: its label and its state."""
    for entry in sorted(seen.entries, key=lambda one: one.seq):
        yield entry.path, "undone" if entry.is_undone else entry.status
    for wait in seen.waits:
        yield f"{wait.path}: {wait.kind} {'|'.join(wait.names)}".rstrip(), "waiting"


def _mermaid(seen: Seen) -> Iterator[str]:
    yield "flowchart TD"
    yield f'    start(["{_graph_words(f"{seen.run.workflow} v{seen.run.version}")}"])'
    before = "start"
    for number, (words, state) in enumerate(_nodes(seen), 1):
        yield f'    n{number}["{_graph_words(words)}"]:::{state}'
        yield f"    {before} --> n{number}"
        before = f"n{number}"
    yield f'    finish(["{seen.run.status}"])'
    yield f"    {before} {'-->' if seen.run.is_ended else '-.->'} finish"
    yield "    classDef failed stroke:#b00020,stroke-width:3px"
    yield "    classDef waiting stroke-dasharray:5"
    yield "    classDef undone stroke-dasharray:2"


def _dot(seen: Seen) -> Iterator[str]:
    yield "digraph run {"
    yield f'    start [shape=oval, label="{_graph_words(f"{seen.run.workflow} v{seen.run.version}")}"];'
    before = "start"
    for number, (words, state) in enumerate(_nodes(seen), 1):
        style = {"failed": "bold", "waiting": "dashed", "undone": "dotted"}.get(state, "solid")
        yield f'    n{number} [shape=box, style={style}, label="{_graph_words(words)}"];'
        yield f"    {before} -> n{number};"
        before = f"n{number}"
    yield f'    finish [shape=oval, label="{seen.run.status}"];'
    yield f"    {before} -> finish{'' if seen.run.is_ended else ' [style=dashed]'};"
    yield "}"


def _graph_words(text: str) -> str:
    """A label without any character that is syntax in Mermaid or DOT."""
    short = clean(text) if len(text) <= _NAME_MAX else "…" + clean(text)[-_NAME_MAX:]
    return "".join(f"#{ord(letter)};" if letter in '"<>&\\#;`' else letter for letter in short)


@command("diff")
@click.argument("run_a")
@click.argument("run_b")
@click.option("--all", "show_all", is_flag=True, help="Also the paths at which they are equal.")
def diff(settings: Settings, run_a: str, run_b: str, show_all: bool) -> None:
    """Compare two runs: structure, values and timing, and where they first differ.

    \b
    Example:
      stepwell diff order-41 order-42
    """
    from stepwell.check.differences import compare

    a, b = ask(settings, lambda client: _read_side(client, run_a, run_b))
    one, other = ((side.run, list(side.entries), list(side.waits)) for side in (a, b))
    found, out = compare(one, other), Output(settings)
    if out.format != "table":
        out.one("stepwell.diff/1", _diff_body(found), run_ids=[found.left.run_id, found.right.run_id], words=list)
        return
    out.lines(_head(found, ascii=out.ascii))
    lines = [line for line in found.lines if show_all or line.is_only_one or line.changes]
    if lines:
        out.line("")
        out.table(_DIFF_COLUMNS, [_row(line) for line in lines])


async def _read_side(client: Client, run_a: str, run_b: str) -> tuple[Seen, Seen]:
    return await look(client, run_a), await look(client, run_b)


def _head(found: Difference, *, ascii: bool) -> Iterator[str]:
    for label, run in (("first ", found.left), ("second", found.right)):
        name = f" {run.key}" if run.key else ""
        yield clean(
            f"{label}  {run.run_id}{name}  {run.workflow} v{run.version}  {show_status(run.status, ascii=ascii)}"
        )
    for name, one, other in found.facts:
        if name != "status":
            yield f"{name}:  {brief(one)}  |  {brief(other)}"
    if found.waits[0] != found.waits[1]:
        yield clean(f"waits:  {', '.join(found.waits[0]) or 'none'}  |  {', '.join(found.waits[1]) or 'none'}")
    if found.is_same:
        yield "The runs did the same."
    elif found.first is not None:
        yield clean(f"They first differ at {found.first.path}: {_what(found.first)}")


def _what(line: ComparedEntry) -> str:
    if line.left is None:
        return "only the second has it"
    return "only the first has it" if line.right is None else ", ".join(line.changes)


def _row(line: ComparedEntry) -> list[str]:
    slower = f"{line.slower_by:+.2f} s" if not line.is_only_one else ""
    return [clean(line.path), _what(line) or "=", _side(line.left), _side(line.right), slower]


def _side(entry: EntryView | None) -> str:
    if entry is None:
        return "-"
    outcome = brief(entry.value) if entry.failure is None else clean(entry.failure.summary)
    tries = f" ({entry.attempts} attempts)" if entry.attempts > 1 else ""
    return f"{entry.kind} {outcome}{tries}"


def _diff_body(found: Difference) -> dict[str, Any]:
    return {
        "first": found.left.run_id,
        "second": found.right.run_id,
        "same": found.is_same,
        "parts_at": None if found.first is None else found.first.path,
        "facts": {name: [one, other] for name, one, other in found.facts},
        "waits": [list(paths) for paths in found.waits],
        "places": [
            {
                "path": line.path,
                "changes": list(line.changes),
                "first": None if line.left is None else entry_body(line.left),
                "second": None if line.right is None else entry_body(line.right),
                "slower_by": line.slower_by,
            }
            for line in found.lines
        ],
    }


@command("export")
@click.argument("run")
@click.option("-o", "--output", "file", metavar="FILE", help="Where to write it. Default: print it.")
@click.option("--redact", is_flag=True, help="Replace all texts; equal texts stay equal, and types stay the same.")
@click.option(
    "--keep", multiple=True, metavar="NAME", help="With --redact: keep the texts of a path or field. Repeatable."
)
@click.option("--as-test", is_flag=True, help="Write a pytest that repeats the run, instead of its history.")
def export(settings: Settings, run: str, file: str | None, redact: bool, keep: tuple[str, ...], as_test: bool) -> None:
    """Write the history of a run to a file, for `check --histories` and for tests.

    With --app the history is replayed against your code before it is written. If the code needs a text that --redact
    replaces (such as a status), the error names its path, and --keep keeps it.

    \b
    Example:
      stepwell export order-42 --redact --keep status -o tests/histories/order.json
      stepwell export order-42 --as-test --app app.py -o tests/test_order_42.py
    """
    if as_test:
        _export_test(settings, run, file, is_redacted=redact, keep=keep)
        return
    from stepwell.check import histories
    from stepwell.check.redactions import redact_recording

    if keep and not redact:
        raise click.UsageError("--keep needs --redact")
    original = ask(settings, lambda client: _read_run(client, run))
    recording = redact_recording(original, keep=keep) if redact else original
    out = Output(settings)
    loaded = settings.load()
    if loaded is not None:
        _check_redacted(loaded.app, original, recording)
    if file is None:
        out.lines(histories.dump(recording).decode().splitlines())
        return
    _write(file, histories.dump(recording))
    kind = "redacted" if redact else "with all its values"
    out.note(f"Wrote {file}: run {recording.run.run_id}, {len(recording.history.entries)} entries, {kind}")


def _export_test(settings: Settings, run: str, file: str | None, *, is_redacted: bool, keep: tuple[str, ...]) -> None:
    """Write a test that repeats the run."""
    from stepwell.check.exports import family_of
    from stepwell.check.histories import Recording
    from stepwell.check.recorded_tests import write_test
    from stepwell.check.redactions import redact_recording
    from stepwell.replay.registry import Registry

    if keep and not is_redacted:
        raise click.UsageError("--keep needs --redact")

    async def write(client: Client) -> str:
        run_id = await get_run_id(client, run)
        detail, *children = [client.readable(one) for one in await family_of(client.store, run_id)]
        app = client.app
        workflow = None if app is None else Registry(app.workflows).find(detail.run.definition)
        if is_redacted:
            redacted = redact_recording(Recording(detail.run, detail.history), keep=keep)
            detail, children = detail._replace(run=redacted.run, history=redacted.history), []
        return write_test(detail, workflow=workflow, children=children, fetch=client.engine.runs.fetch)

    text, out = ask(settings, write), Output(settings)
    if file is None:
        out.lines(text.splitlines())
        return
    _write(file, text.encode())
    out.note(f"Wrote {file}. It runs with: pytest {shell_word(file)}")


async def _read_run(client: Client, target: str) -> Recording:
    from stepwell.check.exports import export_run

    return await export_run(client.store, await get_run_id(client, target))


def _check_redacted(app: App, original: Recording, redacted: Recording) -> None:
    """Reject a redacted history that the code cannot replay although it can replay the original."""
    from stepwell.app import file_codec
    from stepwell.check.dry import Divergence, replay
    from stepwell.errors import HistoryFileError
    from stepwell.replay.registry import Registry

    workflow = Registry(app.workflows).find(original.run.definition)
    codec = file_codec(app)
    if workflow is None or isinstance(replay(workflow, original, codec=codec), Divergence):
        return
    found = replay(workflow, redacted, codec=codec)
    if isinstance(found, Divergence):
        raise HistoryFileError(
            f"the code cannot replay the redacted history: {found.title}",
            where=found.path or "input",
            why=found.now or found.recorded,
            fix=f"keep the text that the code needs: --keep {shell_word(found.path or 'input')}, or its field's name",
        )


def _write(name: str, content: bytes) -> None:
    from pathlib import Path

    from stepwell.errors import HistoryFileError

    file: Path = Path(name)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise HistoryFileError(f"{name} cannot be written", where=name, why=error.strerror or str(error)) from error


@command("import")
@click.argument("file")
@click.option("--id", "own", metavar="ID", help="Import it under this id instead of its own.")
@click.option("--new-id", is_flag=True, help="Import it under a new id.")
@click.option("--no-key", is_flag=True, help="Import it without its key.")
@by_option
def import_(settings: Settings, file: str, own: str | None, new_id: bool, no_key: bool, by: str) -> None:
    """Import a run from FILE, which `stepwell export` wrote.

    A run that has ended is stored as it ended. Any other run continues as soon as a worker serves its workflow and
    version. Damaged files, files of another release, and runs that the database already has are rejected.

    \b
    Example:
      stepwell export order-42 -o order.json --db sqlite:///here.db
      stepwell import order.json --db sqlite:///there.db
    """
    from stepwell.check import histories

    if own is not None and new_id:
        raise click.UsageError("Give --id or --new-id, not both.")
    recording = histories.read(file)
    if no_key:
        recording = recording._replace(run=recording.run._replace(key=None))

    async def bring(client: Client) -> Run:
        from stepwell.check.imports import import_run
        from stepwell.clock import SystemClock
        from stepwell.engine.starts import check_run_id
        from stepwell.ids import SystemIds

        given = SystemIds(SystemClock()).uuid() if new_id else own
        run_id = None if given is None else check_run_id(given)
        return await import_run(client.store, recording, run_id=run_id, by=by)

    run = ask(settings, bring, may_create=True)
    out = Output(settings)
    body = {"run_id": run.run_id, "status": run.status.value, "entries": len(recording.history.entries)}
    words = f"Imported: run {run.run_id} is {show_status(run.status.value, ascii=out.ascii)}"
    out.one("stepwell.import/1", body, run_ids=[run.run_id], words=lambda: [clean(words)])
