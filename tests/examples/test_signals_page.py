"""The page about signals shows a program that works."""

from __future__ import annotations

from pathlib import Path

from tests.examples.pages import run_example


def test_the_example_of_the_page_about_signals_runs(tmp_path: Path) -> None:
    assert run_example("docs/signals.md", tmp_path) == (0, "2\nthere is no desk\n['pen', 'ink']\n", "")
