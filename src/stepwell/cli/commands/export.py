"""`stepwell export`: what is recorded of a run, as a file that can be replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.client import Client, ask
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.targets import get_run_id

if TYPE_CHECKING:
    from pathlib import Path

    from stepwell.check.histories import Recording


@command("export")
@click.argument("run")
@click.option("-o", "--output", "file", metavar="FILE", help="Where to write it. Default: print it.")
@click.option("--redact", is_flag=True, help="Without its texts; equal ones stay equal, and kinds stay kinds.")
@click.option(
    "--keep", multiple=True, metavar="NAME", help="With --redact: a path or a field whose texts stay. Repeatable."
)
def export(settings: Settings, run: str, file: str | None, redact: bool, keep: tuple[str, ...]) -> None:
    """Write what is recorded of a run into a history file, for `check --histories` and for tests.

    With --app the file is replayed against your code before it is written: if taking the texts out made a run
    unreadable (a text that is one of a few, such as a status), it says where, and --keep leaves that one in.

    \b
    Example:
      stepwell export order-42 --redact --keep status -o tests/histories/order.json
    """
    from stepwell.check import histories
    from stepwell.check.redacting import redact_recording

    if keep and not redact:
        raise click.UsageError("--keep says what --redact leaves in: give both")
    original = ask(settings, lambda client: _read(client, run))
    recording = redact_recording(original, keep=keep) if redact else original
    out = Output(settings)
    if settings.app is not None:
        _check_redacted(settings.app, original, recording)
    if file is None:
        out.lines(histories.dump(recording).decode().splitlines())
        return
    _write(file, histories.dump(recording))
    kind = "redacted" if redact else "with all its values"
    out.note(f"Wrote {file}: run {recording.run.run_id}, {len(recording.history.entries)} entries, {kind}")


async def _read(client: Client, target: str) -> Recording:
    from stepwell.check.exporting import export_run

    return await export_run(client.store, await get_run_id(client, target))


def _check_redacted(app: str, original: Recording, redacted: Recording) -> None:
    """Refuse a file that could not be replayed although the run itself could."""
    from stepwell.check.dry import Divergence, replay
    from stepwell.cli.loading import load_workflows
    from stepwell.errors import HistoryFileError
    from stepwell.replay.registry import Registry

    workflow = Registry(load_workflows(app)).find(original.run.definition)
    if workflow is None or isinstance(replay(workflow, original), Divergence):
        return
    found = replay(workflow, redacted)
    if isinstance(found, Divergence):
        raise HistoryFileError(
            f"without its texts this run could not be replayed: {found.title}",
            where=found.path or "input",
            why=found.now or found.recorded,
            fix=f"leave in what the code needs: --keep {found.path or 'input'}, or --keep the name of the field",
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
