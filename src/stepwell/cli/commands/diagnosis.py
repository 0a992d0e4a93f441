"""`stepwell doctor`: what is wrong with a database, or will be, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepwell.cli.errors import PROBLEMS
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean
from stepwell.errors import StepwellError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwell.stores.base.diagnosis import Finding, Remedy

_MARKS = {"ok": ("✓", "+"), "warn": ("⚠", "!"), "fail": ("✕", "x")}


@command("doctor")
@click.option("--strict", is_flag=True, help="A warning is a problem too.")
@click.option("--fix", is_flag=True, help="Do what is safe about what is found, say what, and examine again.")
def doctor(settings: Settings, strict: bool, fix: bool) -> int:
    """Examine a database: the way to it, what it promises, and what is in it. Changes nothing without --fix.

    --fix does what any worker would do, or takes rights away from others: it creates or migrates tables, frees runs of
    workers that are gone, puts the journal mode back, and lets nobody but its owner read the file.

    Ends with exit code 9 if a check fails.

    \b
    Example:
      stepwell doctor --db postgresql://ann@db.example/shop
      stepwell doctor --fix --db sqlite:///shop.db
    """
    from stepwell.addresses import spell_url
    from stepwell.stores.base.diagnosis import Verdict, worst

    out = Output(settings)
    findings = _examine(settings, out)
    done = _mend(settings, out, findings) if fix else []
    if done:
        findings = _examine(settings, out)
    verdict = worst(findings)
    items = [finding._asdict() for finding in findings]
    facts = {"db": spell_url(settings.db), "verdict": verdict, "fixed": done}
    if not out.many("stepwell.finding/1", "findings", items, run_ids=[], **facts):
        out.line(_summary(findings))
    return PROBLEMS if verdict is Verdict.FAIL or (strict and verdict is Verdict.WARN) else 0


def _examine(settings: Settings, out: Output) -> list[Finding]:
    from stepwell.addresses import diagnose
    from stepwell.cli.dev.clock import environment_of

    findings: list[Finding] = []
    for finding in diagnose(settings.db, environment_of(settings.db)).examine():
        findings.append(finding)
        if out.is_for_people:
            _print(out, finding)  # at once: some of them take their time
    return findings


def _mend(settings: Settings, out: Output, findings: Sequence[Finding]) -> list[dict[str, str]]:
    """Do what is safe about what was found; what that was, by the check that found it."""
    done: list[dict[str, str]] = []
    for finding in findings:
        if finding.remedy is None:
            continue
        try:
            did = _apply(settings, finding.remedy)
        except (StepwellError, OSError) as error:
            did = f"could not be mended: {error.title if isinstance(error, StepwellError) else error.strerror}"
        done.append({"check": finding.check, "did": did})
        if out.is_for_people:
            mark = "->" if out.ascii else "→"
            out.line(f"{mark} {finding.check:<15} {clean(did)}")
    return done


def _apply(settings: Settings, remedy: Remedy) -> str:
    """Do it; says what was done."""
    from stepwell.addresses import file_of, migrate
    from stepwell.cli.client import ask
    from stepwell.stores.base.diagnosis import Remedy

    match remedy:
        case Remedy.MIGRATE:
            moved = migrate(settings.db)
            return f"migrated from version {moved.before} to {moved.after}"
        case Remedy.RECOVER:
            recovered = ask(settings, lambda client: client.engine.workers.recover())
            return f"freed {recovered.freed} runs; {recovered.paused} need a person"
        case Remedy.REOPEN:
            ask(settings, lambda client: client.engine.probe())
            return "opened it for work, which puts the journal mode back"
        case Remedy.PROTECT:
            file = file_of(settings.db)
            assert file is not None
            for each in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
                if each.exists():
                    each.chmod(0o600)
            return f"chmod 600 {file}"


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
