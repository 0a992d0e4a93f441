"""The picture of a terminal: what was shown, readable in light and dark, and nothing that runs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tools.terminal.picture import draw
from tools.terminal.screen import Piece, read_screen

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def _lines(picture: str) -> list[str]:
    root = ElementTree.fromstring(picture)
    return [" ".join(piece.text or "" for piece in line) for line in root.iter(f"{SVG}text")]


def test_a_screen_has_what_stands_there_at_the_end() -> None:
    raw = "one\r\n\x1b[32m✓\x1b[0m done\r\nhow far? 3x\b \bd\r\nabcdef\r\n"

    assert read_screen(raw, 11) == [
        [Piece("one")],
        [Piece("✓", "green"), Piece(" done")],
        [Piece("how far? 3d")],
        [Piece("abcdef")],
        [],
    ]


def test_a_long_line_goes_on_in_the_next_row() -> None:
    assert read_screen("abcdef", 4) == [[Piece("abcd")], [Piece("ef")]]


def test_a_picture_says_what_it_is_and_quotes_what_it_shows() -> None:
    picture = draw([[Piece("<b>", "red"), Piece(" & c")]], columns=20, title="A < B", description="C & D")
    root = ElementTree.fromstring(picture)

    assert [root.findtext(f"{SVG}{name}") for name in ("title", "desc")] == ["A < B", "C & D"]
    assert _lines(picture) == ["<b> & c"]
    assert "prefers-color-scheme: dark" in picture


def test_the_picture_of_the_readme_shows_the_first_five_minutes_and_runs_nothing() -> None:
    picture = (DOCS / "first-five-minutes.svg").read_text(encoding="utf-8")
    shown = "\n".join(_lines(picture))

    for words in (
        "stepwell new hello",
        "stepwell dev",
        "kill -9",
        "continues at approval · 0 steps were run again",
        "send_reminder",
        "run order-1 completed",
    ):
        assert words in shown
    assert ElementTree.fromstring(picture).findtext(f"{SVG}title")
    assert not re.search(r"<script|<foreignObject|\son\w+=|href|url\(|@import", picture)
    for page in ("../README.md", "first-five-minutes.md"):
        assert "first-five-minutes.svg" in (DOCS / page).read_text(encoding="utf-8")
