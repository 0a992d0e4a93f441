"""Notices saved files, and describes what a change would do to unfinished runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from stepwell.cli.dev.outlines import Difference, Outline, compare
from stepwell.cli.dev.sources import Module

_BROKEN_MAX: Final = 5  # runs that are listed; `stepwell check` lists all


class Watch:
    """The files of the code that runs."""

    def __init__(self) -> None:
        self._files: tuple[Path, ...] = ()
        self._known: tuple[Any, ...] = ()
        self._unsettled: tuple[Any, ...] | None = None

    def follow(self, files: Iterable[str]) -> None:
        """Watch these files from now on."""
        self._files = tuple(Path(file) for file in sorted(set(files)))
        self._known, self._unsettled = self._look(), None

    def has_changed(self) -> bool:
        """Whether a file was saved and has not changed since the last look: editors write in several steps."""
        now = self._look()
        if now == self._known:
            self._unsettled = None
            return False
        if now != self._unsettled:
            self._unsettled = now
            return False
        self._known, self._unsettled = now, None
        return True

    def _look(self) -> tuple[Any, ...]:
        return tuple(_stat(file) for file in self._files)


def _stat(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def changed_files(running: Sequence[Module]) -> list[str]:
    """The files whose text differs from the code that runs."""
    return [module.file for module in running if _text(module.file) != module.source]


def _text(file: str) -> str | None:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


class Change(NamedTuple):
    """What an examination found about saved code."""

    error: dict[str, Any] | None  # why it cannot be loaded
    differences: tuple[Difference, ...] = ()
    broken: tuple[dict[str, Any], ...] = ()  # runs that could not continue
    unserved: tuple[tuple[str, int], ...] = ()  # definitions that it no longer has, with the number of their runs
    findings: tuple[dict[str, Any], ...] = ()
    in_flight: int = 0

    @property
    def is_safe(self) -> bool:
        """Whether every run that the old code can continue could continue with it."""
        return self.error is None and not self.broken and not self.unserved


def read_change(examined: dict[str, Any] | None, before: Outline, served: Iterable[str]) -> Change:
    """What an examination found, compared with the code that runs."""
    if examined is None:
        return Change({"code": "SW999", "message": "the code could not be examined", "where": "", "why": "", "fix": ""})
    if "error" in examined:
        return Change(examined["error"])
    report = examined["report"]
    runs = report["runs"]
    after = {name: [(kind, named) for kind, named in each] for name, each in examined["outline"].items()}
    known = set(served)
    return Change(
        None,
        tuple(compare(before, after)),
        tuple(runs["broken"]),
        tuple((name, count) for name, count in runs["unserved"].items() if name in known),
        tuple(report["findings"]),
        runs["total"],
    )


def in_words(change: Change, files: Sequence[str]) -> Iterator[str]:
    """For people: what changed, what is unsound, and which runs it would break."""
    names = ", ".join(Path(file).name for file in files) or "the code"
    what = ", ".join(one.words for one in change.differences) or "no other steps"
    if change.error is not None:
        yield f"✕ {names} cannot be loaded; the old code keeps running"
        yield from error_lines(change.error)
        return
    yield f"{names} changed: {what}"
    for finding in change.findings:
        yield f"  ⚠ {finding['code']}  {finding['message']}  {Path(finding['file']).name}:{finding['line']}"
    if change.is_safe:
        return
    count = len(change.broken) + sum(runs for _, runs in change.unserved)
    yield f"✕ this change would break {count} unfinished run{'' if count == 1 else 's'}; the old code keeps running"
    for one in change.broken[:_BROKEN_MAX]:
        name, found = one["key"] or one["run_id"], f"{one['code']}: {one['title']}"
        yield f"  run {name}  {one['definition']}  {one['status']}  {found}"
        for label, text in (("recorded", one["recorded"]), ("now", one["now"]), ("likely", one["cause"])):
            if text:
                yield f"    {label:<9} {text}"
        for number, fix in enumerate(one["fixes"]):
            yield f"    {'or' if number else 'fix':<9} {fix}"
    if len(change.broken) > _BROKEN_MAX:
        yield f"  … and {len(change.broken) - _BROKEN_MAX} more: stepwell check"
    for definition, runs in change.unserved:
        yield f"  {runs} run{'' if runs == 1 else 's'} of {definition} would wait: the new code does not have it"


def switched_words(change: Change) -> str:
    """What loading a change means for the unfinished runs."""
    broken, unserved = len(change.broken), sum(runs for _, runs in change.unserved)
    fitting = change.in_flight - broken - unserved
    said = f"reloaded; {fitting} unfinished run{' fits' if fitting == 1 else 's fit'} the new code"
    if broken:
        said += f"; {broken} do{'es' if broken == 1 else ''} not, and will be paused until code fits"
    if unserved:
        said += f"; {unserved} wait{'s' if unserved == 1 else ''} for a worker that has the removed workflow"
    return f"✓ {said}" if change.is_safe else f"⚠ {said}"


def error_lines(error: dict[str, Any]) -> Iterator[str]:
    """An error of the author's code, as people read it."""
    yield f"  {error['code']}  {error['message']}"
    for label in ("where", "why", "fix"):
        if error[label]:
            yield f"    {label:<7} {error[label]}"


def facts(change: Change, files: Sequence[str]) -> dict[str, Any]:
    """For programs."""
    return {
        "files": list(files),
        "error": change.error,
        "differences": [one._asdict() for one in change.differences],
        "broken": list(change.broken),
        "unserved": [{"definition": name, "runs": runs} for name, runs in change.unserved],
        "findings": list(change.findings),
        "is_safe": change.is_safe,
    }
