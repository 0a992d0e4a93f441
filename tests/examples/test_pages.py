"""Every page does what it says: its programs are run, its commands are given, and what they print is compared."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.examples.pages import ROOT, Page, blocks_of, matches
from tests.servers.cleared import cleared_url

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
WITH_CODE = [page for page in PAGES if any(block.language in ("python", "console") for block in blocks_of(page))]
GENERATED = ["docs/api.md", "docs/states.md", "docs/errors.md"]
# What they promise is in other pages.
WITHOUT_PROMISES = ["docs/first-five-minutes.md", "docs/performance.md", "docs/where.md"]
# A page that is carried out by a test of its own, and where.
ELSEWHERE = {"docs/testing.md": "tests/testing/test_page.py"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [page for page in WITH_CODE if page not in ELSEWHERE])
def test_the_page_does_what_it_says(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    needs_server = "STEPWELL_DB=postgresql" in text
    environment = {"STEPWELL_DB": cleared_url()} if needs_server else {}

    Page(page, tmp_path, environment).carry_out()


def test_the_program_of_the_readme_runs_again_in_the_same_folder(tmp_path: Path) -> None:
    Page("README.md", tmp_path).carry_out()
    again = Page("README.md", tmp_path).run([sys.executable, "orders.py"])

    assert again.out == "order-42 is known already\npaid-order-42, approved by ann\n"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_first_what_a_reader_can_do_afterwards(page: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()

    assert lines[0].startswith("# ")
    assert page in GENERATED or page == "README.md" or lines[2].startswith("After this page you ")


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ("README.md", *GENERATED)])
def test_a_page_ends_with_what_is_not_promised(page: str) -> None:
    headings = [line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.startswith("## ")]

    assert page in WITHOUT_PROMISES or "not promised" in headings[-1].lower()


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert [page for page in PAGES[1:] if f"]({page})" not in readme] == []


def test_the_figures_of_the_readme_are_those_of_the_last_full_run() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    measured = (ROOT / "docs/performance.md").read_text(encoding="utf-8").partition("## The last full run")[2]
    tables = {table[:2]: table for table in measured.split("**") if re.match(r"W\d ", table)}
    bodies = dict(zip(tables, re.split(r"\*\*W\d [^*]+\*\*", measured)[1:], strict=True))
    rows = re.findall(r"^\| [^|]*\((W\d)\) \| (.+) \|$", readme, re.MULTILINE)

    assert [workload for workload, _ in rows] == ["W1", "W2", "W3", "W6"]
    for workload, row in rows:
        figures = {
            cells[1]: cells[2].split()[0] for cells in map(_cells, bodies[workload].splitlines()) if len(cells) > 3
        }
        expected = [
            f"{figures['stepwell, SQLite']} · {figures['stepwell, PostgreSQL']}",
            f"{figures['DBOS, SQLite']} · {figures['DBOS, PostgreSQL']}",
            figures["Restate"],
            figures["Temporal dev server"],
        ]
        assert [cell.strip() for cell in row.split("|")] == expected


def _cells(line: str) -> list[str]:
    return [cell.strip() or "-" for cell in line.split("|")]


@pytest.mark.parametrize("page", WITH_CODE)
def test_a_fragment_says_why_it_is_not_run(page: str) -> None:
    assert [block for block in blocks_of(page) if block.reason is not None and len(block.reason.split()) < 3] == []


@pytest.mark.parametrize(
    ("expected", "said", "is_same"),
    [
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a …"], ["a b"], True),
        (["a"], ["b"], False),
        (["a"], ["a", "b"], False),
        (["a", "…", "d"], ["a", "b"], False),
    ],
)
def test_what_a_page_shows_is_compared(expected: list[str], said: list[str], is_same: bool) -> None:
    assert matches(expected, said) is is_same


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "printed"),
        ("```python\nprint(1)\n```\n", "printed"),
        ("```python\nraise ValueError\n```\n", "ValueError"),
        ("```python\n# test_it.py\ndef test_it():\n    assert False\n```\n", "assert False"),
        ("```console\n$ stepwell explain SW999999\n```\n", "SW"),
        ("<!-- fragment: it has no engine -->\n```python\nawait (\n```\n", "never closed"),
    ],
)
def test_a_page_that_is_wrong_is_found(
    text: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr("tests.examples.pages.ROOT", tmp_path)

    with pytest.raises((AssertionError, SyntaxError), match=complaint):
        Page("page.md", tmp_path).carry_out()
