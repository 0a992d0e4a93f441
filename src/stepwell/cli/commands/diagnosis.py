"""`stepwell doctor`: what is wrong with a database, what needs a person, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepwell.cli.errors import PROBLEMS
from stepwell.cli.output import Output
from stepwell.cli.settings import Settings, command
from stepwell.cli.texts import clean, wrap
from stepwell.errors import StepwellError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwell.advice import Advice
    from stepwell.stores.base.diagnosis import Finding, Remedy

_BEFORE_OPENING = ("migrate", "reopen")  # remedies that opening the database for a command would apply
_MARKS = {"ok": ("✓", "+"), "warn": ("⚠", "!"), "fail": ("✕", "x")}


@command("doctor")
@click.option("--strict", is_flag=True, help="Exit with code 9 for warnings too.")
@click.option("--fix", is_flag=True, help="Fix what can be fixed safely, report it, and examine again.")
def doctor(settings: Settings, strict: bool, fix: bool) -> int:
    """Examine a database: its connection, its durability, and the runs that need a person.

    Changes nothing without --fix. --fix does only what any worker would do, or restricts access: it creates or
    migrates tables, releases the runs of dead workers, restores the journal mode, and makes the file readable for its
    owner alone.

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
    done = _repair(settings, out, findings) if fix else []
    if done:
        findings = _examine(settings, out)
    verdict = worst(findings)
    items = [_body(finding) for finding in findings]
    facts = {"db": spell_url(settings.db), "verdict": verdict, "fixed": done}
    if not out.many("stepwell.finding/1", "findings", items, run_ids=[], **facts):
        out.line(_summary(findings))
    return PROBLEMS if verdict is Verdict.FAIL or (strict and verdict is Verdict.WARN) else 0


def _examine(settings: Settings, out: Output) -> list[Finding]:
    from stepwell.addresses import diagnose
    from stepwell.cli.client import ask
    from stepwell.cli.dev.clock import environment_of
    from stepwell.stores.base.diagnosis import from_error

    findings: list[Finding] = []
    for finding in diagnose(settings.db, environment_of(settings.db)).examine():
        findings.append(finding)
        if out.is_for_people:
            _print(out, finding)  # at once: some checks take a while
    if any(finding.verdict == "fail" or finding.remedy in _BEFORE_OPENING for finding in findings):
        return findings  # opening the database for commands would change it, or fail
    try:
        needing = ask(settings, lambda client: client.engine.diagnosis.list_needs())
    except StepwellError as error:
        needing = [from_error("attention", error)]
    for finding in needing:
        findings.append(finding)
        if out.is_for_people:
            _print(out, finding)
    return findings


def _repair(settings: Settings, out: Output, findings: Sequence[Finding]) -> list[dict[str, str]]:
    """Apply the safe remedies; what was done, by the check that asked for it."""
    done: list[dict[str, str]] = []
    for finding in findings:
        if finding.remedy is None:
            continue
        try:
            did = _apply(settings, finding.remedy)
        except (StepwellError, OSError) as error:
            did = f"could not be fixed: {error.title if isinstance(error, StepwellError) else error.strerror}"
        done.append({"check": finding.check, "did": did})
        if out.is_for_people:
            mark = "->" if out.ascii else "→"
            out.line(f"{mark} {finding.check:<15} {clean(did)}")
    return done


def _apply(settings: Settings, remedy: Remedy) -> str:
    """Apply one remedy; what was done."""
    from stepwell.addresses import file_of, migrate
    from stepwell.cli.client import ask
    from stepwell.stores.base.diagnosis import Remedy

    match remedy:
        case Remedy.MIGRATE:
            moved = migrate(settings.db)
            return f"migrated from version {moved.before} to {moved.after}"
        case Remedy.RECOVER:
            recovered = ask(settings, lambda client: client.engine.workers.recover())
            return f"released {recovered.freed} runs; {recovered.paused} need a person"
        case Remedy.REOPEN:
            ask(settings, lambda client: client.engine.probe())
            return "opened it for writing, which restores the journal mode"
        case Remedy.PROTECT:
            file = file_of(settings.db)
            assert file is not None
            for each in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
                if each.exists():
                    each.chmod(0o600)
            return f"chmod 600 {file}"


def _body(finding: Finding) -> dict[str, Any]:
    examples = [
        {**one._asdict(), "since": one.since.isoformat(), "advice": _advice(one.advice)} for one in finding.examples
    ]
    return {**finding._asdict(), "advice": [_advice(one) for one in finding.advice], "examples": examples}


def _advice(one: Advice) -> dict[str, str]:
    return {"verb": one.verb.value, "target": one.target, "command": one.command}


def _print(out: Output, finding: Finding) -> None:
    mark = _MARKS[finding.verdict][1 if out.ascii else 0]
    out.lines(wrap(clean(finding.found), out.width, first=f"{mark} {finding.check:<15} ", rest=" " * 18))
    for label, text in (("why", finding.why), ("fix", finding.fix)):
        if text:
            out.lines(wrap(clean(text), out.width, first=f"{'':<18}{label:<5} ", rest=" " * 24))


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
