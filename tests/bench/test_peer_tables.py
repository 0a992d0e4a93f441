"""Results as text: cells, tables for a page, and the picture."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from bench.peers.pages import BEGIN, END, as_markdown, inserted, write_page
from bench.peers.picture import bar_length, draw
from bench.peers.results import LIMITS, Results, Sample
from bench.peers.tables import Grid, grids, limit_grid, number, ratio_grid, times, workload_grid


@pytest.fixture
def results() -> Results:
    """Three participants, one of which refuses."""
    samples: list[Sample] = []
    rounds = [(8_000, 2_000, 100), (4_400, 2_200, 110), (2_000, 1_800, 90)]
    for round_number, (limit, ours, theirs) in enumerate(rounds, start=1):
        samples += [
            Sample(LIMITS, "W1", round_number, {"fsync_per_s": 5_000, "sqlite_per_s": limit}),
            Sample("stepwell-sqlite", "W1", round_number, {"steps_per_s": ours, "cpu_ms": 0.1, "units": 1_000}),
            Sample("dbos-sqlite", "W1", round_number, {"steps_per_s": theirs, "cpu_ms": 3.0, "units": 1_000}),
            Sample("edda-sqlite", "W1", round_number, refused="it fell over"),
        ]
    return Results(samples=samples)


def test_numbers_have_decimals_only_where_they_are_small() -> None:
    assert [number(0.123, 2), number(12.345, 2), number(123.4, 2), number(12_345.6, 0)] == [
        "0.12",
        "12.35",
        "123",
        "12,346",
    ]


def test_times_are_told_as_exactly_as_they_are_worth() -> None:
    assert [times(None), times(0.5), times(12.34), times(1_234.5)] == ["–", "0.50 ×", "12.3 ×", "1,234 ×"]


def test_a_workload_shows_medians_extremes_and_how_far_ahead_we_are(results: Results) -> None:
    grid = workload_grid(results, "W1")

    assert grid.title == "W1  one run of sequential steps, rounds: 3"
    assert grid.rows == [
        ["stepwell, SQLite", "2,000 [1,800–2,200]", "0.10", "1,000", "", ""],
        ["DBOS, SQLite", "100 [90–110]", "3.00", "1,000", "20.0 ×", "–"],
        ["Edda, SQLite", "–", "–", "–", "–", "–"],
    ]
    assert grid.notes == ["Edda, SQLite: – because it fell over"]


def test_the_limits_show_what_part_of_them_one_run_reaches_in_the_same_round(results: Results) -> None:
    assert limit_grid(results).rows == [
        ["write of 4 KiB + fdatasync, per s", "5,000 [5,000–5,000]", ""],
        ["SQLite: raw commits of one row, per s", "4,400 [2,000–8,000]", "0.50"],
    ]


def test_what_one_run_reaches_is_compared_with_the_limits_just_before_and_just_after_it() -> None:
    def limit(rate: float, number: int = 1) -> Sample:
        return Sample(LIMITS, "W1", number, {"sqlite_per_s": rate})

    ours = Sample("stepwell-sqlite", "W1", 1, {"steps_per_s": 2_000})
    samples = [limit(9_000), limit(3_000), ours, limit(5_000), limit(7_000), limit(1, number=2)]

    assert Results(samples=samples).part("stepwell-sqlite", "sqlite_per_s") == 2_000 / 4_000


def test_a_limit_that_was_not_measured_beside_w1_has_no_part() -> None:
    beside = Sample(LIMITS, "W2", 1, {"sqlite_per_s": 4_000})
    steps = Sample("stepwell-sqlite", "W1", 1, {"steps_per_s": 2_000})

    assert limit_grid(Results(samples=[beside, steps])).rows == [
        ["SQLite: raw commits of one row, per s", "4,000 [4,000–4,000]", ""]
    ]


def test_runs_that_one_call_starts_have_a_row_of_their_own_and_no_ratio() -> None:
    bulk = Sample("stepwell-bulk-sqlite", "W2", 1, {"steps_per_s": 2_000}, order={"runs": 10, "steps": 2})
    single = Sample("stepwell-sqlite", "W2", 1, {"steps_per_s": 1_000}, order={"runs": 10, "steps": 2})
    peer = Sample("restate", "W2", 1, {"steps_per_s": 100}, order={"runs": 10, "steps": 2})
    results = Results(samples=[bulk, single, peer])

    assert workload_grid(results, "W2").rows == [
        ["stepwell, SQLite", "1,000 [1,000–1,000]", "–", "10 × 2", "", ""],
        ["stepwell, SQLite, start_many", "2,000 [2,000–2,000]", "–", "10 × 2", "", ""],
        ["Restate", "100 [100–100]", "–", "10 × 2", "10.0 ×", "–"],
    ]
    assert not any("stepwell" in row[0] for row in ratio_grid(results).rows)


def test_ratios_of_all_workloads_stand_in_one_table(results: Results) -> None:
    grid = ratio_grid(results)

    assert grid.header == ["", "W1 steps/s"]
    assert ["DBOS, SQLite", "20.0 × / –"] in grid.rows
    assert ["Edda, SQLite", "–"] in grid.rows


def test_tables_without_rows_are_left_out() -> None:
    assert [grid.title for grid in grids(Results())] == [ratio_grid(Results()).title]


def test_a_page_has_the_table_and_its_notes() -> None:
    grid = Grid("title", ["", "a"], [["row", "1"]], ["a note"])

    assert grid.markdown() == "**title**\n\n|  | a |\n| --- | --: |\n| row | 1 |\n\na note\n"


def test_a_terminal_shows_what_stands_in_brackets() -> None:
    console = Console(width=100, file=StringIO(), record=True)

    Grid("title", ["", "a [min–max]"], [["row", "1 [bold]"]], ["[red] note"]).show(console)

    shown = console.export_text()
    assert all(words in shown for words in ("a [min–max]", "1 [bold]", "[red] note"))


def test_bars_grow_with_the_logarithm() -> None:
    shortest, middle, longest = (bar_length(value, 1, 100) for value in (1, 10, 100))

    assert middle - shortest == pytest.approx(longest - middle)
    assert shortest > 0
    assert bar_length(5, 5, 5) == longest


def test_the_picture_is_well_formed_and_has_a_bar_for_each_figure(results: Results) -> None:
    picture = ElementTree.fromstring(draw(results))
    space = "{http://www.w3.org/2000/svg}"

    texts = [text.text for text in picture.iter(f"{space}text")]

    assert len(list(picture.iter(f"{space}rect"))) == 1 + 2
    assert "stepwell, SQLite" in texts
    assert "2,000" in texts
    assert "Edda, SQLite" not in texts


def test_figures_of_a_page_are_replaced_and_nothing_else(tmp_path: Path, results: Results) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    write_page(results, page)

    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "| DBOS, SQLite | 100 [90–110] |" in text
    assert (tmp_path / "page.svg").read_text() == draw(results)


def test_replacing_them_again_changes_nothing(results: Results) -> None:
    once = inserted(f"{BEGIN}{END}", as_markdown(results))

    assert inserted(once, as_markdown(results)) == once


def test_a_page_without_a_place_for_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="figures: begin"):
        inserted("nothing", "figures")


def test_a_page_tells_who_was_left_out_and_why() -> None:
    assert "- left out: restate, because npm is missing" in as_markdown(Results(absent={"restate": "npm is missing"}))
