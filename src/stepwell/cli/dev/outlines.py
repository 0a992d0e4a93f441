"""The operations of workflows, read from their source, and what a change added, removed or renamed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from stepwell.check.names import name_of
from stepwell.check.sources import OPERATIONS, Scope, find_scopes, read_source, walk_own
from stepwell.replay.workflows import Workflow

# Workflow → its operations in the order of the source, each with its kind and name.
Outline = dict[str, list[tuple[str, str]]]


class Difference(NamedTuple):
    """One difference between two versions of a workflow."""

    workflow: str
    what: str  # added, removed or renamed
    kind: str
    name: str
    before: str = ""  # its old name, if it was renamed

    @property
    def words(self) -> str:
        """Such as `step charge → charge_card (renamed)`."""
        named = f"{self.before} → {self.name}" if self.before else self.name
        return f"{self.kind} {named} ({self.what})" if self.kind else f"{self.workflow} ({self.what})"


def outline(workflows: Iterable[Workflow[Any, Any]], texts: Mapping[str, str] | None = None) -> Outline:
    """The outline of each workflow whose source can be read; `texts` replaces the text of files that changed."""
    found: Outline = {}
    files = {code.co_filename for each in workflows if (code := getattr(each.fn, "__code__", None)) is not None}
    for file in sorted(files):
        try:
            source = read_source(file, (texts or {}).get(file))
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue
        for scope in find_scopes(source):
            found.setdefault(scope.name, []).extend(_operations(scope))
    return found


def _operations(scope: Scope) -> Iterator[tuple[str, str]]:
    calls = [node for node in walk_own(scope) if isinstance(node, ast.Call) and scope.operation(node) in OPERATIONS]
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        kind = scope.operation(call).removeprefix("try_")
        yield kind, name_of(scope, call) or (ast.unparse(call.args[0]) if call.args else kind)


def compare(before: Outline, after: Outline) -> list[Difference]:
    """What was added, removed and renamed. An operation of the same kind in the same place was renamed."""
    found = [Difference(name, "removed", "", name) for name in before if name not in after]
    found += [Difference(name, "added", "", name) for name in after if name not in before]
    for name in before:
        if name in after:
            found += _compare_one(name, before[name], after[name])
    return found


def _compare_one(workflow: str, before: list[tuple[str, str]], after: list[tuple[str, str]]) -> Iterator[Difference]:
    for tag, a, b, c, d in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        old, new = before[a:b], after[c:d]
        if tag == "replace" and [kind for kind, _ in old] == [kind for kind, _ in new]:
            for (kind, was), (_, name) in zip(old, new, strict=True):
                yield Difference(workflow, "renamed", kind, name, was)
        elif tag != "equal":
            yield from (Difference(workflow, "removed", kind, name) for kind, name in old)
            yield from (Difference(workflow, "added", kind, name) for kind, name in new)


def step_names(outlined: Outline) -> list[str]:
    """The names of all steps, once each, in the order of the source."""
    return list(dict.fromkeys(name for each in outlined.values() for kind, name in each if kind == "step"))
