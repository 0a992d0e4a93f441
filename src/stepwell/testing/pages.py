"""The page with the runs of failed tests."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>stepwell: failed tests</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
body { color: #1b1f24; background: #fff }
h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin-top: 2rem }
pre { overflow-x: auto; padding: .8rem; background: #f4f5f7; border-left: 4px solid #8a94a3 }
pre { font: 13px/1.45 ui-monospace, monospace }
pre.runs { border-color: #b3261e }
@media (prefers-color-scheme: dark) { body { color: #e6e8eb; background: #15181c } pre { background: #1f242a } }
</style>
</head>
<body>
"""


def write_page(file: Path, failed: Sequence[tuple[str, str, str]]) -> None:
    """Write one section for each failed test: its name, its runs, and how it failed."""
    parts = [_HEAD, f"<h1>{_count(len(failed))}</h1>\n"]
    for test, problem, runs in failed:
        parts.append(f"<section>\n<h2>{escape(test)}</h2>\n")
        parts.append(f'<pre class="runs">{escape(runs) or "no run was started"}</pre>\n')
        parts.append(f"<details><summary>how it failed</summary><pre>{escape(problem)}</pre></details>\n</section>\n")
    parts.append("</body>\n</html>\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(parts), encoding="utf-8")


def _count(number: int) -> str:
    return "No test with workflows failed" if number == 0 else f"{number} failed test{'s' if number > 1 else ''}"
