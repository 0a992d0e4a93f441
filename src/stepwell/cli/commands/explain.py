"""`stepwell explain`: what an error's code means, offline."""

from __future__ import annotations

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command


def _complete_code(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from stepwell.cli.codes import list_codes

    return [code for code in list_codes() if code.startswith(incomplete.upper())]


@command("explain")
@click.argument("code", required=False, shell_complete=_complete_code)
def explain(settings: Settings, code: str | None) -> None:
    """Explain an error's code: what it means, who acts, and what to look at. Without a code, list them all.

    \b
    Example:
      stepwell explain SW404
    """
    from stepwell.cli.codes import find_page, list_codes

    out = Output(settings)
    if code is not None:
        page = find_page(code)
        out.one("stepwell.error/1", page.body(), run_ids=[], words=page.lines)
        return
    pages = [find_page(each) for each in list_codes()]
    if not out.many("stepwell.error/1", "errors", [page.body() for page in pages], run_ids=[]):
        out.lines(f"{page.code}  {page.name:<30}  {page.meaning}" for page in pages)
