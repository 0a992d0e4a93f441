"""How runs are described: as their code said, once, whatever happens; and passed on to those that must have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stepwell.model.attributes import Attribute, Attributes, Description, combined, merged
from stepwell.model.commits import Applied, Commit, Verdict
from stepwell.model.runs import Run
from stepwell.model.states import EntryKind, EntryStatus
from stepwell.model.tags import Tags, without_tags
from stepwell.replay.headers import unpack

if TYPE_CHECKING:
    from sim.checker import Checker

Rows = dict[str, Run]
Said = tuple[Attributes, str | None, Tags, str | None]


def check_descriptions(
    checker: Checker, method: str, args: tuple[Any, ...], answer: Any, before: Rows, now: Rows
) -> None:
    """Every row that a transition made or changed."""
    commits: dict[str, list[Commit]] = {}
    for commit in _applied(method, args, answer):
        commits.setdefault(commit.run_id, []).append(commit)
    for row in now.values():
        was = before.get(row.run_id)
        if was is None:
            _check_new(checker, row, now)
        elif row is not was:
            expected = _said(was)
            for commit in commits.get(row.run_id, ()):
                _check_commit(checker, commit, expected[2])
                expected = _after(expected, commit.description or Description())
            if _said(row) != expected:
                checker.violate("I55", row.run_id, f"is described by {_said(row)}, not by {expected} (after {method})")


def _applied(method: str, args: tuple[Any, ...], answer: Any) -> Iterable[Commit]:
    if method == "apply":
        pairs: Iterable[tuple[Commit, Applied]] = zip(args[0], answer, strict=True)
    elif method == "perform" and answer.applied is not None:
        pairs = [(answer.commit or args[0], answer.applied)]
    else:
        return ()
    return [commit for commit, applied in pairs if applied.verdict is Verdict.APPLIED]


def _said(row: Run) -> Said:
    return row.attributes, row.title, row.tags, row.started_by


def _after(was: Said, change: Description) -> Said:
    attributes, title, tags, started_by = was
    title = title if change.title is None else change.title or None
    return merged(attributes, change.attributes), title, tags if change.tags is None else change.tags, started_by


def _check_new(checker: Checker, row: Run, rows: Rows) -> None:
    if row.previous is not None:
        before = rows[row.previous.run_id]
        if _said(row) != _said(before):
            checker.violate("I55", row.run_id, f"is described by {_said(row)}, and it continues {_said(before)}")
    elif row.parent is not None and row.parent.run_id in rows:
        starter = rows[row.parent.run_id].started_by
        if (row.started_by, row.attributes, row.title) != (starter, (), None):
            checker.violate("I55", row.run_id, f"is described by {_said(row)}, and {starter} started its parent")


def _check_commit(checker: Checker, commit: Commit, tags: Tags) -> None:
    """What a commit changes is what its entries say, and nothing is changed without one."""
    told: Description | None = None
    for entry in commit.entries:
        if entry.kind is not EntryKind.DESCRIBE or entry.status is not EntryStatus.DONE:
            continue
        (verb, said), _ = unpack(entry.value)
        checker.stats["descriptions"] += 1
        match verb:
            case "set_attributes":
                change = Description(tuple(Attribute(*one) for one in said))
            case "set_title":
                change = Description(title=said or "")
            case "add_tags":
                tags = tuple(sorted({**dict(tags), **dict(said)}.items()))
                change = Description(tags=tags)
            case _:
                tags = without_tags(tags, said)
                change = Description(tags=tags)
        told = combined(told, change)
    if told != commit.description:
        text = f"commit {commit.number} changes {commit.description}, and its entries say {told}"
        checker.violate("I55", commit.run_id, text)
