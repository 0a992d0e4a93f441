"""Tables on a terminal, symbols, colours, and text that cannot harm."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
import pytest

from stepwell.cli.output import Column, Output
from stepwell.cli.settings import Format, Settings
from stepwell.cli.texts import brief, clean, dump_json, duration, shorten

yaml: Any = import_module("yaml")  # it has no types

COLUMNS = (Column("RUN", is_fixed=True), Column("WHY"), Column("EMPTY"), Column("TOOK", dropped=1))
ROWS = [
    ["0199-aaaa-bbbb", "a long story of a card that was declined", "", "1.00 s"],
    ["0199-cccc-dddd", "日本語", "", ""],
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("NO_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr("stepwell.cli.output._is_terminal", lambda: True)
    return monkeypatch


def test_a_table_is_fitted_to_the_terminal_and_ids_stay_whole(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Output(Settings()).table(COLUMNS, ROWS)

    assert capsys.readouterr().out.splitlines() == [
        "RUN             WHY                         TOOK",
        "0199-aaaa-bbbb  a long story …was declined  1.00 s",
        "0199-cccc-dddd  日本語",
    ]


def test_a_narrow_terminal_loses_columns_before_it_loses_words(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "31")
    Output(Settings(ascii=True)).table(COLUMNS, ROWS[:1])

    assert capsys.readouterr().out.splitlines() == ["RUN             WHY", "0199-aaaa-bbbb  a long...clined"]


def test_without_a_terminal_nothing_is_dropped_or_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    Output(Settings()).table(COLUMNS, [["1", "tab\there\nline", "", "x" * 300]])

    assert capsys.readouterr().out == f"RUN\tWHY\tEMPTY\tTOOK\n1\ttab here line\t\t{'x' * 300}\n"


def test_a_wide_table_loses_nothing_on_a_narrow_terminal(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("COLUMNS", "20")
    Output(Settings(output="wide", no_header=True)).table(COLUMNS, ROWS[:1])

    assert capsys.readouterr().out == "0199-aaaa-bbbb  a long story of a card that was declined    1.00 s\n"


ITEMS: list[dict[str, Any]] = [
    {"run_id": "r1", "tags": {"a": "1"}, "took": None},
    {"run_id": "r2", "tags": {}, "took": 1.5},
]


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("table", "TOOK\tRUN_ID\n\tr1\n1.5\tr2\n"),
        ("csv", "took,run_id\n,r1\n1.5,r2\n"),
        ("jsonl", '{"schema":"s/1","took":null,"run_id":"r1"}\n{"schema":"s/1","took":1.5,"run_id":"r2"}\n'),
    ],
)
def test_only_the_fields_that_are_asked_for_are_printed(
    form: Format, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Output(Settings(output=form, fields=("took", "run_id"))).many("s/1", "runs", ITEMS, run_ids=[])
    assert capsys.readouterr().out == told


def test_an_unknown_field_is_rejected_with_the_names_of_all_fields() -> None:
    with pytest.raises(click.UsageError, match=r"Unknown field tool\. Fields are run_id, tags, took"):
        Output(Settings(output="json", fields=("tool",))).many("s/1", "runs", ITEMS, run_ids=[])


@pytest.mark.parametrize("form", ["table", "csv"])
def test_without_a_header_there_are_only_rows(form: Format, capsys: pytest.CaptureFixture[str]) -> None:
    Output(Settings(output=form, fields=("run_id",), no_header=True)).many("s/1", "runs", ITEMS, run_ids=[])
    assert capsys.readouterr().out == "r1\nr2\n"


AWKWARD: dict[str, Any] = {
    "plain": "text",
    "no": "the name is not a boolean",
    "a: b": ["- dash", "", "null", "1.0", "# hash", "{}", "line\nbreak", "\x85\u2028", "日本 🌊", {"deep": [[1], []]}],
    "nothing": None,
    "empty": {},
    "numbers": [0, -1.5, True],
    "nested": [{"a": 1, "b": [{"c": "d"}]}],
}


def test_yaml_says_the_same_to_every_reader(capsys: pytest.CaptureFixture[str]) -> None:
    Output(Settings(output="yaml")).many("s/1", "items", [AWKWARD], run_ids=[], next=None)
    assert yaml.safe_load(capsys.readouterr().out) == {"schema": "s-list/1", "next": None, "items": [AWKWARD]}
    Output(Settings(output="yaml")).one("s/1", AWKWARD, run_ids=[], words=list)
    assert yaml.safe_load(capsys.readouterr().out) == {"schema": "s/1", **AWKWARD}


def test_symbols_are_coloured_on_a_terminal_unless_told_otherwise(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Output(Settings()).line("✓ done")
    terminal.setenv("NO_COLOR", "1")
    Output(Settings()).line("✓ done")

    assert capsys.readouterr().out.splitlines() == ["\x1b[32m✓\x1b[0m done", "✓ done"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jclear", "clear"),
        ("\x1bPq data\x1b\\end", "end"),
        ("\x1bcreset", "reset"),
        ("a\r\nb\tc", "a b c"),
        ("bell\x07 null\x00 del\x7f", "bell null del"),
        ("right\u202eleft", "rightleft"),
        ("half\udc80", "half"),
        ("grüße 日本 ✓", "grüße 日本 ✓"),
    ],
)
def test_text_that_a_terminal_would_obey_is_taken_out(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_json_keeps_every_character_and_escapes_the_harmful_ones() -> None:
    assert dump_json({"a": "\x1b\x9b\u202e é"}, is_compact=True) == '{"a":"\\u001b\\u009b\\u202e é"}'


def test_long_values_are_shortened_in_the_middle() -> None:
    assert shorten("abcdefghij", 5) == "ab…ij"
    assert shorten("abc", 3) == "abc"
    assert len(brief({"text": "x" * 500}, 60)) == 60


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.00 s"), (4.314, "4.31 s"), (130, "2 m 10 s"), (1080, "18 m"), (7_500, "2 h 5 m"), (183_600, "2 d 3 h")],
)
def test_durations_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration(seconds) == text
