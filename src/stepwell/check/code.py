"""All findings about workflow code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from stepwell.check.annotations import find_unstorable
from stepwell.check.captures import find_lost_changes
from stepwell.check.findings import Finding
from stepwell.check.names import find_duplicates
from stepwell.check.operations import find_unawaited, find_unbounded, find_without_undo
from stepwell.check.outside import find_outside
from stepwell.check.sources import Scope, Source, find_scopes, read_source
from stepwell.check.unordered import find_unordered
from stepwell.replay.workflows import Workflow

_FINDERS: Final[tuple[Callable[[Scope], Iterator[Finding]], ...]] = (
    find_unawaited,
    find_duplicates,
    find_outside,
    find_unordered,
    find_lost_changes,
    find_without_undo,
    find_unbounded,
)


class CodeReport(NamedTuple):
    """The files that were read, and the findings in them."""

    files: tuple[str, ...]
    workflows: int
    findings: tuple[Finding, ...]


def check_code(workflows: Iterable[Workflow[Any, Any]]) -> CodeReport:
    """Every finding in the files that define these workflows, by file and line."""
    known = list(workflows)
    files = sorted({file for each in known if (file := _file_of(each)) is not None})
    found: list[Finding] = []
    for file in files:
        source = read_source(file)
        found += check_source(source)
        found += [one for one in find_unstorable(source, known) if not _is_ignored(source, one)]
    return CodeReport(tuple(files), len(known), tuple(sorted(set(found))))


def check_source(source: Source) -> list[Finding]:
    """Every finding in the text of a file."""
    found = {
        finding
        for scope in find_scopes(source)
        for find in _FINDERS
        for finding in find(scope)
        if not _is_ignored(source, finding)
    }
    return sorted(found)


def _is_ignored(source: Source, finding: Finding) -> bool:
    return source.is_ignored(finding.line, finding.code)


def _file_of(workflow: Workflow[Any, Any]) -> str | None:
    code = getattr(workflow.fn, "__code__", None)
    return None if code is None else code.co_filename
