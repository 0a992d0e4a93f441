"""docs/where.md names files that are there, and few for each change."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OWN_ROOTS = ("tests/", "sim/", "tools/", "docs/", "dashboard/")
FILES_MAX = 8


def rows() -> list[tuple[str, list[str]]]:
    """Each question with the files of its answer."""
    lines = (ROOT / "docs" / "where.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [(question, re.findall(r"`([\w/]+\.\w+)`", answer)) for question, answer in cells[1:]]


def test_every_answer_names_files_that_exist() -> None:
    missing = [
        (question, name)
        for question, names in rows()
        for name in names
        if not (ROOT / name if name.startswith(OWN_ROOTS) else ROOT / "src" / "stepwell" / name).is_file()
    ]
    assert missing == []


def test_there_are_twenty_answers_and_none_is_long() -> None:
    found = rows()
    assert len(found) >= 20
    assert [question for question, names in found if not 1 <= len(names) <= FILES_MAX] == []
