"""`stepwell completion`: let a shell complete commands, options and runs."""

from __future__ import annotations

import click

from stepwell.cli.settings import Settings, command

# Uses the protocol of zsh: three lines for each word, with its kind, the word and its help.
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName stepwell -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object { $_.ToString() })
    if (-not $wordToComplete) { $words += '""' }
    $env:_STEPWELL_COMPLETE = 'zsh_complete'
    $env:COMP_WORDS = $words -join ' '
    $env:COMP_CWORD = $words.Count - 1
    try {
        $said = @(stepwell)
    } finally {
        Remove-Item Env:_STEPWELL_COMPLETE, Env:COMP_WORDS, Env:COMP_CWORD
    }
    for ($at = 0; $at + 2 -lt $said.Count; $at += 3) {
        $kind, $word, $help = $said[$at], $said[$at + 1], $said[$at + 2]
        if ($kind -eq 'plain') {
            [System.Management.Automation.CompletionResult]::new($word, $word, 'ParameterValue', $help)
        }
    }
}
"""


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "powershell"]))
def completion(settings: Settings, shell: str) -> None:
    """Print a script with which a shell completes commands, options, and ids and keys of recent runs.

    \b
    Example:
      stepwell completion bash > ~/.local/share/bash-completion/completions/stepwell
      eval "$(stepwell completion zsh)"
      stepwell completion powershell | Out-String | Invoke-Expression
    """
    if shell == "powershell":
        click.echo(_POWERSHELL)
        return
    from click.shell_completion import get_completion_class

    from stepwell.cli.main import stepwell

    kind = get_completion_class(shell)
    assert kind is not None
    # Does not ask the shell for its version, as click would: the script may be for another machine.
    made = kind(stepwell, {}, "stepwell", "_STEPWELL_COMPLETE")
    click.echo(made.source_template % made.source_vars())
