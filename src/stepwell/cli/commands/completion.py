"""`stepwell completion`: let a shell complete commands, options and runs."""

from __future__ import annotations

import click

from stepwell.cli.settings import Settings, command


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(settings: Settings, shell: str) -> None:
    """Print the script that lets a shell complete commands, options, ids and keys of recent runs.

    \b
    Example:
      stepwell completion bash > ~/.local/share/bash-completion/completions/stepwell
      eval "$(stepwell completion zsh)"
    """
    from click.shell_completion import get_completion_class

    from stepwell.cli.main import stepwell

    kind = get_completion_class(shell)
    assert kind is not None
    # Without asking the shell for its version, as click would: the script is for the machine that reads it.
    made = kind(stepwell, {}, "stepwell", "_STEPWELL_COMPLETE")
    click.echo(made.source_template % made.source_vars())
