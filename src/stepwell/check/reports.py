"""The report of a check: as text for people, as JSON, as SARIF, and as GitHub annotations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepwell.check.code import CodeReport
from stepwell.check.findings import Finding, Severity
from stepwell.check.inflight import Broken, Checked, Unable
from stepwell.check.rules import RULES

SCHEMA: Final = "stepwell.check/1"
_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_SHOWN_MAX: Final = 20  # broken runs in the text for people; programs get all


class Report(NamedTuple):
    """The results of a check."""

    read: CodeReport
    checked: Checked | None = None  # of a database
    recorded: Checked | None = None  # of history files

    @property
    def all_broken(self) -> tuple[Broken, ...]:
        """Runs that could not continue, of the database and of files."""
        return tuple(one for checked in self._checked for one in checked.broken)

    @property
    def all_unable(self) -> tuple[Unable, ...]:
        """Runs that could not be undone."""
        return tuple(one for checked in self._checked for one in checked.unable)

    @property
    def unserved(self) -> tuple[tuple[str, int], ...]:
        """Definitions that are missing in this code, with the number of their runs that wait."""
        return tuple(one for checked in self._checked for one in checked.unserved)

    @property
    def errors(self) -> int:
        """How many errors there are."""
        return sum(one.severity is Severity.ERROR for one in self.read.findings) + len(self.all_broken)

    @property
    def warnings(self) -> int:
        """How many warnings there are."""
        found = sum(one.severity is Severity.WARNING for one in self.read.findings)
        return found + len(self.all_unable) + len(self.unserved)

    @property
    def _checked(self) -> tuple[Checked, ...]:
        return tuple(one for one in (self.checked, self.recorded) if one is not None)


def in_words(report: Report) -> Iterator[str]:
    """The report as text for people."""
    read = report.read
    files = ", ".join(_short(file) for file in read.files)
    yield f"{files}  {_count(read.workflows, 'workflow')}"
    for finding in read.findings:
        places = ", ".join(f"{_short(finding.file)}:{line}" for line in (*finding.also, finding.line))
        yield f"  {finding.severity.value:<8} {finding.code}  {finding.workflow}: {finding.message}  {places}"
        yield f"           {finding.fix}"
    for checked, what in ((report.checked, "run in flight"), (report.recorded, "history file")):
        if checked is not None:
            yield from _runs_in_words(checked, what)
    problems = f"{_count(report.errors, 'error')}, {_count(report.warnings, 'warning')}"
    codes = sorted({one.code for one in read.findings} | {one.divergence.code for one in report.all_broken})
    more = f" · stepwell explain {codes[0]}" if codes else ""
    yield f"{problems}{more}"


def _runs_in_words(checked: Checked, what: str) -> Iterator[str]:
    fit = f"{checked.fit} {'continues' if checked.fit == 1 else 'continue'} with this code"
    yield f"{_count(checked.total, what)}: {fit}, {len(checked.broken)} would break"
    for broken in checked.broken[:_SHOWN_MAX]:
        run, found = broken.run, broken.divergence
        yield f"  error    {found.code}  {broken.name} ({run.definition}, {run.status.value}): {found.title}"
        for label, text in (("recorded", found.recorded), ("now", found.now), ("likely", found.cause)):
            if text:
                yield f"           {label:<9} {text}"
        for number, fix in enumerate(found.fixes):
            yield f"           {'or' if number else 'fix':<9} {fix}"
    if len(checked.broken) > _SHOWN_MAX:
        yield f"  … and {len(checked.broken) - _SHOWN_MAX} more; all of them: -o json"
    for unable in checked.unable[:_SHOWN_MAX]:
        paths = ", ".join(unable.paths)
        yield f"  warning  SW701  {unable.name} ({unable.run.definition}) continues, but could not undo {paths}"
    for definition, count in checked.unserved:
        name, _, version = definition.rpartition("@")
        runs = f"{_count(count, 'run')} of {name} version {version}"
        yield f"  warning  SW402  {runs} would wait: this code does not have that version"


def as_json(report: Report) -> dict[str, Any]:
    """The whole report for programs."""
    return {
        "schema": SCHEMA,
        "errors": report.errors,
        "warnings": report.warnings,
        "files": list(report.read.files),
        "findings": [_finding_body(one) for one in report.read.findings],
        "runs": None if report.checked is None else _checked_body(report.checked),
        "histories": None if report.recorded is None else _checked_body(report.recorded),
    }


def _finding_body(finding: Finding) -> dict[str, Any]:
    return {**finding._asdict(), "severity": finding.severity.value, "also": list(finding.also)}


def _checked_body(checked: Checked) -> dict[str, Any]:
    return {
        "total": checked.total,
        "fit": checked.fit,
        "broken": [
            {
                "name": one.name,
                "run_id": one.run.run_id,
                "definition": one.run.definition,
                "status": one.run.status.value,
                "key": one.run.key,
                **one.divergence._asdict(),
                "fixes": list(one.divergence.fixes),
            }
            for one in checked.broken
        ],
        "unable": [
            {"name": one.name, "run_id": one.run.run_id, "definition": one.run.definition, "paths": list(one.paths)}
            for one in checked.unable
        ],
        "unserved": dict(checked.unserved),
    }


def as_sarif(report: Report, version: str) -> dict[str, Any]:
    """The report for code scanners (SARIF 2.1.0). A run that would stop is reported at the file of its workflow."""
    results = [_sarif_result(one) for one in report.read.findings]
    results += [_sarif_broken(one, report.read.files) for one in report.all_broken]
    used = sorted({result["ruleId"] for result in results})
    driver = {
        "name": "stepwell check",
        "version": version,
        "rules": [_sarif_rule(code) for code in used],
    }
    return {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _sarif_rule(code: str) -> dict[str, Any]:
    rule = RULES.get(code)
    if rule is None:
        return {"id": code, "shortDescription": {"text": "The code took another path than the run recorded"}}
    return {"id": code, "shortDescription": {"text": rule.title}, "fullDescription": {"text": rule.why}}


def _sarif_result(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "level": finding.severity.value,
        "message": {"text": f"{finding.workflow}: {finding.message}. {finding.fix}"},
        "locations": [_sarif_place(finding.file, finding.line, finding.column)],
        "relatedLocations": [_sarif_place(finding.file, line, 1) for line in finding.also],
    }


def _sarif_broken(broken: Broken, files: Iterable[str]) -> dict[str, Any]:
    found = broken.divergence
    place = [_sarif_place(file, 1, 1) for file in list(files)[:1]]
    return {
        "ruleId": found.code,
        "level": "error",
        "message": {"text": f"{broken.name} ({broken.run.definition}): {found.words}"},
        "locations": place,
    }


def _sarif_place(file: str, line: int, column: int) -> dict[str, Any]:
    region = {"startLine": line, "startColumn": column}
    return {"physicalLocation": {"artifactLocation": {"uri": Path(_short(file)).as_posix()}, "region": region}}


def as_github(report: Report) -> Iterator[str]:
    """The report as annotations of a pull request: workflow commands of GitHub, one a line."""
    for finding in report.read.findings:
        place = f"file={_escape(_short(finding.file), is_name=True)},line={finding.line},col={finding.column}"
        words = _escape(f"{finding.workflow}: {finding.message}. {finding.fix}")
        yield f"::{finding.severity.value} {place},title={finding.code}::{words}"
    for broken in report.all_broken:
        words = _escape(f"{broken.name} ({broken.run.definition}): {broken.divergence.words}")
        yield f"::error title={broken.divergence.code}::{words}"
    for unable in report.all_unable:
        yield f"::warning title=SW701::{_escape(f'{unable.name} could not undo ' + ', '.join(unable.paths))}"
    for definition, count in report.unserved:
        words = f"{_count(count, 'run')} of {definition} would wait: this code does not have that version"
        yield f"::warning title=SW402::{_escape(words)}"


def _escape(text: str, *, is_name: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if is_name else text


def _short(file: str) -> str:
    """The path of a file, relative to the current folder if it is below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s".replace("run in flights", "runs in flight")
