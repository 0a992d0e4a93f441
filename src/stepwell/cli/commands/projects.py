"""`stepwell new`: create a first project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command

if TYPE_CHECKING:
    from collections.abc import Iterator


@command("new")
@click.argument("name")
def new(settings: Settings, name: str) -> None:
    """Create the folder NAME with a workflow, its tests, and a list of things to try.

    Files that exist are never overwritten.

    \b
    Example:
      stepwell new hello
    """
    from stepwell.cli.new.project import CONTENTS, write_project

    folder = write_project(name, within=Path.cwd())

    def words() -> Iterator[str]:
        yield f"Created {name}/"
        for file, what in CONTENTS.items():
            yield f"  {file:<13} {what}"
        yield f"Next:  cd {name} && stepwell dev"

    body = {"name": name, "folder": str(folder), "files": list(CONTENTS)}
    Output(settings).one("stepwell.project/1", body, run_ids=[], words=words)
