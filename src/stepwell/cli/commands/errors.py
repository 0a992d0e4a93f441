"""`stepwell explain`: the meaning of a code, and what to do."""

from __future__ import annotations

from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwell.errors import StepwellError


@command("explain")
@click.argument("code")
def explain(settings: Settings, code: str) -> None:
    """Explain the code of an error or a finding; needs no database.

    \b
    Example:
      stepwell explain SW201
    """
    from stepwell.check.rules import RULES
    from stepwell.errors import NotFoundError
    from stepwell.nearest import nearest

    wanted = code.strip().upper()
    errors, rule = _errors(), RULES.get(wanted)
    if rule is None and wanted not in errors:
        known = [*errors, *RULES]
        raise NotFoundError("code", code, near=nearest(wanted, known), fix="codes are SW and three digits")
    error = errors.get(wanted)
    body: dict[str, Any] = {
        "code": wanted,
        "error": None if error is None else error.__name__,
        "title": rule.title if rule is not None else _meaning(error).partition("\n")[0],
        "meaning": _meaning(error),
        "why": "" if rule is None else rule.why,
        "bad": "" if rule is None else rule.bad.strip("\n"),
        "good": "" if rule is None else rule.good.strip("\n"),
        "page": "" if error is None else _page(error),
    }
    Output(settings).one("stepwell.explanation/1", body, run_ids=[], words=lambda: _words(body))


def _words(body: dict[str, Any]) -> Iterator[str]:
    yield f"{body['code']}  {body['title']}"
    if body["error"]:
        yield f"  raised as {body['error']}"
    meaning = body["meaning"].removeprefix(body["title"]).strip()
    for text in dict.fromkeys((body["why"], meaning, body["page"])):
        if text:
            yield ""
            yield from text.splitlines()
    for label, example in (("Instead of", body["bad"]), ("write", body["good"])):
        if example:
            yield ""
            yield f"{label}:"
            yield from (f"    {line}" for line in example.splitlines())


def _errors() -> dict[str, type[StepwellError]]:
    from stepwell.errors import StepwellError

    found: dict[str, type[StepwellError]] = {}
    left = list(StepwellError.__subclasses__())
    while left:
        kind = left.pop(0)
        left += kind.__subclasses__()
        if kind.__module__.startswith("stepwell."):
            found.setdefault(kind.code, kind)
    return found


def _meaning(error: type[StepwellError] | None) -> str:
    return "" if error is None else cleandoc(error.__doc__ or "")


def _page(error: type[StepwellError]) -> str:
    from stepwell.check.pages import PAGES

    codes = [str(getattr(kind, "code", "")) for kind in error.__mro__]
    return next((PAGES[code] for code in codes if code in PAGES), "")
