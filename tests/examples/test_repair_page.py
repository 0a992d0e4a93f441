"""The page about repairs shows a program that works."""

from __future__ import annotations

from pathlib import Path

from tests.examples.pages import run_example


def test_the_example_of_the_page_about_repairs_runs(tmp_path: Path) -> None:
    said = run_example("docs/repair.md", tmp_path)
    first, *rest = said.out.splitlines()

    assert (said.code, said.err) == (0, "")
    assert "the stock API does not answer" in first
    assert rest == ["('greet',) ('reserve',) ['thank you for order 1', 'by hand']", "('reserve',) False"]
