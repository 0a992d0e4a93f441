"""The first thing a newcomer copies works as it stands."""

from __future__ import annotations

from pathlib import Path

from tests.examples.pages import run_example


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    assert run_example("README.md", tmp_path) == (0, "paid-order-42: granted\n", "")


def test_the_example_of_the_readme_runs_again_in_the_same_folder(tmp_path: Path) -> None:
    first = run_example("README.md", tmp_path)

    assert run_example("README.md", tmp_path) == first
