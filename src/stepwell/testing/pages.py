"""The HTML page of failed tests: when each step ran, and the tree of each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from stepwell.engine.views import EntryView, RunView

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>stepwell: failed tests</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
body { color: #1b1f24; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin-top: 2rem } caption { text-align: left; font-weight: 600 }
table { width: 100%; border-collapse: collapse; margin: .5rem 0; font: 13px/1.6 ui-monospace, monospace }
th { text-align: left; font-weight: 400; width: 30%; white-space: nowrap }
td.bar { width: 55% } td.took { text-align: right }
td.bar div { position: relative; height: .8rem; background: #eceef1 }
td.bar span { position: absolute; top: 0; bottom: 0; min-width: 3px; background: #3b6fb6 }
tr.failed span { background: #b3261e } tr.undo span { background: #8a6d1f }
pre { overflow-x: auto; padding: .8rem; background: #f4f5f7; border-left: 4px solid #8a94a3 }
pre { font: 13px/1.45 ui-monospace, monospace }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #15181c } pre { background: #1f242a } td.bar div { background: #2a3037 }
}
</style>
</head>
<body>
"""


class Bar(TypedDict):
    """One entry: its begin and its duration, as fractions of the run's duration."""

    path: str
    status: str
    begins: float
    lasts: float
    seconds: float


class Timeline(TypedDict):
    """One run."""

    title: str
    bars: list[Bar]


class FailedTest(NamedTuple):
    """A failed test and its runs."""

    name: str
    problem: str
    trees: str
    timelines: Sequence[Timeline]


def timeline(run: RunView, entries: Sequence[EntryView]) -> Timeline:
    """When each entry of a run was recorded, as plain data for other processes."""
    whole = max(((entry.at - run.created_at).total_seconds() for entry in entries), default=0.0)
    bars = [_bar(entry, (entry.at - run.created_at).total_seconds(), whole) for entry in entries]
    return {"title": f"{run.workflow} v{run.version} · {run.status} · {run.run_id}", "bars": bars}


def _bar(entry: EntryView, ended: float, whole: float) -> Bar:
    status = "undo" if entry.kind == "undo" else entry.status
    began, part = max(0.0, ended - entry.took), whole or 1.0
    return {
        "path": entry.path,
        "status": status,
        "begins": began / part,
        "lasts": entry.took / part,
        "seconds": entry.took,
    }


def write_page(file: Path, failed: Sequence[FailedTest]) -> None:
    """Write one section for each failed test: its name, its runs, and its failure."""
    parts = [_HEAD, f"<h1>{_count(len(failed))}</h1>\n"]
    for test in failed:
        parts.append(f"<section>\n<h2>{escape(test.name)}</h2>\n")
        parts += [line for one in test.timelines for line in _table(one)]
        parts.append(f"<pre>{escape(test.trees) or 'no run was started'}</pre>\n")
        parts.append(
            f"<details><summary>how it failed</summary><pre>{escape(test.problem)}</pre></details>\n</section>\n"
        )
    parts.append("</body>\n</html>\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(parts), encoding="utf-8")


def _table(shown: Timeline) -> Iterator[str]:
    yield f"<table>\n<caption>{escape(shown['title'])}</caption>\n"
    for bar in shown["bars"]:
        left, width = 100 * min(bar["begins"], 1.0), 100 * min(bar["lasts"], 1.0)
        yield (
            f'<tr class="{escape(bar["status"])}"><th scope="row">{escape(bar["path"])}</th>'
            f'<td class="bar"><div><span style="left:{left:.2f}%;width:{width:.2f}%"></span></div></td>'
            f'<td>{escape(bar["status"])}</td><td class="took">{bar["seconds"]:.2f} s</td></tr>\n'
        )
    yield "</table>\n"


def _count(number: int) -> str:
    return "No test with workflows failed" if number == 0 else f"{number} failed test{'s' if number > 1 else ''}"


def read_timelines(told: Any) -> list[Timeline]:
    """Timelines from the plain data of another process."""
    return [{"title": str(one["title"]), "bars": list(one["bars"])} for one in told]
