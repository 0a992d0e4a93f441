"""The page about filters shows an act on many runs that works."""

from __future__ import annotations

from pathlib import Path

from tests.examples.pages import run_example


def test_the_example_of_the_page_about_filters_runs(tmp_path: Path) -> None:
    said = "bulk-1 done 3 ['cancelled', 'cancelled', 'cancelled']\n"

    assert run_example("docs/filters.md", tmp_path) == (0, said, "")
