"""`stepwell doctor`: what is wrong with a database, or will be, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.errors import PROBLEMS
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwell.stores.base.diagnosis import Finding

_MARKS = {"ok": ("✓", "+"), "warn": ("⚠", "!"), "fail": ("✕", "x")}


@command("doctor")
@click.option("--strict", is_flag=True, help="A warning is a problem too.")
def doctor(settings: Settings, strict: bool) -> int:
    """Examine a database: the way to it, what it promises, and what is in it. Changes nothing.

    Ends with exit code 9 if a check fails.

    \b
    Example:
      stepwell doctor --db postgresql://ann@db.example/shop
    """
    from stepwell.environment import system_environment
    from stepwell.stores.base.diagnosis import Verdict, worst
    from stepwell.wiring import diagnose, spell_url

    out = Output(settings)
    findings: list[Finding] = []
    for finding in diagnose(settings.db, system_environment()).examine():
        findings.append(finding)
        if out.format == "table":
            _print(out, finding)  # at once: some of them take their time
    verdict = worst(findings)
    items = [finding._asdict() for finding in findings]
    if not out.many("stepwell.finding/1", "findings", items, run_ids=[], db=spell_url(settings.db), verdict=verdict):
        out.line(_summary(findings))
    return PROBLEMS if verdict is Verdict.FAIL or (strict and verdict is Verdict.WARN) else 0


def _print(out: Output, finding: Finding) -> None:
    mark = _MARKS[finding.verdict][1 if out.ascii else 0]
    out.line(f"{mark} {finding.check:<15} {clean(finding.found)}")
    for label, text in (("why", finding.why), ("fix", finding.fix)):
        if text:
            out.line(f"  {'':<15} {label:<5} {clean(text)}")


def _summary(findings: Sequence[Finding]) -> str:
    failed, warned = (sum(finding.verdict == verdict for finding in findings) for verdict in ("fail", "warn"))
    if not failed and not warned:
        return f"All {len(findings)} checks are fine."
    problems = [
        f"{count} {word}{'s' if count > 1 else ''}"
        for count, word in ((failed, "failure"), (warned, "warning"))
        if count
    ]
    return f"{' and '.join(problems)} in {len(findings)} checks."
