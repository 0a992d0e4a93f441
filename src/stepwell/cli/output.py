"""Printing: tables fitted to a terminal, tab-separated elsewhere, JSON with a schema for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click

from stepwell.cli.settings import Format, Settings
from stepwell.cli.texts import clean, dump_json, shorten

_PAINTS = {"✓": "green", "✕": "red", "⚠": "yellow", "↶": "yellow", "●": "blue", "‖": "cyan", "↻": "cyan"}
_GAP = 2
_CELL_MIN = 8
_NOTE_MIN = 40
_EXTRA = 2  # columns that are dropped earlier than this number make room for notes


class Column(NamedTuple):
    """One column of a table."""

    title: str
    is_fixed: bool = False  # such as an id: never shortened
    dropped: int = 0  # if the terminal is too narrow: the highest number is dropped first, 0 never
    is_note: bool = False  # if the terminal is too narrow: printed below its row, on a line of its own


class Output:
    """How one command prints."""

    def __init__(self, settings: Settings) -> None:
        self.is_wide = settings.output == "wide"
        self.format: Format = "table" if self.is_wide else settings.output
        self._fields = settings.fields
        self._has_header = not settings.no_header
        self.is_terminal = _is_terminal()
        self.ascii = settings.ascii or not _can_show_symbols()
        self._has_colour = _wants_colour(self.is_terminal)

    # --- what commands call ---

    def one(
        self, schema: str, body: dict[str, Any], *, run_ids: Sequence[str], words: Callable[[], Iterable[str]]
    ) -> None:
        """Print one thing: as words, as JSON, or only the ids of the runs it is about."""
        if self.format == "ids":
            self.lines(map(clean, run_ids))
        elif self.format == "table" and not self._fields:
            self.lines(words())
        elif self.format == "table":
            self._plain_table([body])
        elif self.format == "csv":
            self._csv([self._chosen(body)])
        else:
            self._dump(schema, self._chosen(body))

    def many(
        self, schema: str, name: str, items: Sequence[dict[str, Any]], *, run_ids: Sequence[str], **more: Any
    ) -> bool:
        """Print a listing as JSON, JSON lines, YAML, CSV or ids; false if the caller has to print a table."""
        if self.format == "table" and not self._fields:
            return False
        if self.format == "table":
            self._plain_table(items)
        elif self.format == "ids":
            self.lines(map(clean, run_ids))
        elif self.format == "jsonl":
            for item in items:
                self._dump(schema, self._chosen(item))
        elif self.format == "csv":
            self._csv([self._chosen(item) for item in items])
        else:
            chosen = [self._chosen(item) for item in items]
            self._dump(f"{schema.partition('/')[0]}-list/1", {**more, name: chosen})
        return True

    @property
    def is_for_people(self) -> bool:
        """Whether it prints words, and not data for a program."""
        return self.format == "table" and not self._fields

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print a table. Only on a terminal are empty columns dropped and long cells shortened."""
        cells = [[clean(cell) for cell in row] for row in rows]
        titles = [[column.title for column in columns]] if self._has_header else []
        if not self.is_terminal:
            self.lines("\t".join(row) for row in [*titles, *cells])
            return
        used = [n for n in range(len(columns)) if self.is_wide or any(row[n] for row in cells)]
        room = sys.maxsize if self.is_wide else self.width or 0
        lines = [*titles, *cells]
        notes = _stacked(columns, used, lines, room)
        widths = _fit(columns, [n for n in used if n not in notes], lines, room)
        for number, row in enumerate(lines):
            self.line((" " * _GAP).join(_pad(row[n], width, self._gap) for n, width in widths.items()).rstrip())
            for note in [row[n] for n in notes if row[n]] if number >= len(titles) else ():
                lead = "  ` " if self.ascii else "  └ "
                self.line(lead + _pad(note, room - len(lead), self._gap).rstrip())

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        for line in lines:
            self.line(line)

    def line(self, line: str) -> None:
        """Print one line, with its symbols coloured where colour is wanted."""
        if self._has_colour:
            line = "".join(click.style(char, fg=_PAINTS[char]) if char in _PAINTS else char for char in line)
        _echo(line, colour=self._has_colour, err=False)

    def note(self, text: str) -> None:
        """Tell people something besides the result: on stderr, and only if the result is for people."""
        if self.format == "table":
            _echo(clean(text), colour=False, err=True)

    def warn(self, text: str) -> None:
        """Tell people that the result may not be what they expect: as `note`, and also beside ids."""
        if self.format in ("table", "ids"):
            _echo(clean(text), colour=False, err=True)

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None if the output goes elsewhere, where no line is too long."""
        if not self.is_terminal:
            return None
        from shutil import get_terminal_size

        return get_terminal_size().columns

    # --- inside ---

    @property
    def _gap(self) -> str:
        return "..." if self.ascii else "…"

    def _chosen(self, item: dict[str, Any]) -> dict[str, Any]:
        """The fields that --fields names; without it, all of them."""
        if not self._fields:
            return item
        if unknown := [name for name in self._fields if name not in item]:
            raise click.UsageError(f"Unknown field {', '.join(unknown)}. Fields are {', '.join(item)}.")
        return {name: item[name] for name in self._fields}

    def _plain_table(self, items: Sequence[dict[str, Any]]) -> None:
        rows = [[_text(value) for value in self._chosen(item).values()] for item in items]
        self.table([Column(name.upper(), is_fixed=name.endswith("_id")) for name in self._fields], rows)

    def _dump(self, schema: str, body: dict[str, Any]) -> None:
        if self.format == "yaml":
            from stepwell.cli.yamls import dump_yaml

            _echo(dump_yaml({"schema": schema, **body}), colour=False, err=False)
            return
        _echo(dump_json({"schema": schema, **body}, is_compact=self.format == "jsonl"), colour=False, err=False)

    def _csv(self, items: Sequence[dict[str, Any]]) -> None:
        """One row for each item, under the names of the fields; a value with parts is JSON in its cell."""
        from csv import writer
        from io import StringIO

        file = StringIO()
        rows = writer(file, lineterminator="\n")
        rows.writerows([list(items[0])] if items and self._has_header else [])
        rows.writerows([_cell(value) for value in item.values()] for item in items)
        if items:
            _echo(file.getvalue().rstrip("\n"), colour=False, err=False)


def _text(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dump_json(value, is_compact=True)


def _cell(value: Any) -> Any:
    """A value for a spreadsheet, which must not take it for a formula."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = clean(value) if isinstance(value, str) else dump_json(value, is_compact=True)
    return f"'{text}" if text[:1] in "=+-@" and text else text


def _echo(text: str, *, colour: bool, err: bool) -> None:
    encoding = (sys.stderr if err else sys.stdout).encoding or "utf-8"
    click.echo(text.encode(encoding, "replace").decode(encoding), color=colour, err=err)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _can_show_symbols() -> bool:
    try:
        "✓✕⚠↶●‖↻├─└│…·→".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _wants_colour(is_terminal: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"


def _stacked(columns: Sequence[Column], used: Sequence[int], lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """The notes that are printed below their rows, because beside the other columns too little of them would fit."""
    notes = [n for n in used if columns[n].is_note]
    if not notes or room == sys.maxsize:
        return []
    others = sum(
        max(_cells(line[n]) for line in lines) for n in used if n not in notes and columns[n].dropped <= _EXTRA
    )
    needed = sum(min(_NOTE_MIN, max(_cells(line[n]) for line in lines)) for n in notes)
    return notes if others + needed + _GAP * (len(used) - 1) > room else []


def _fit(columns: Sequence[Column], used: Iterable[int], lines: Sequence[Sequence[str]], room: int) -> dict[int, int]:
    """The width of each column that is shown: the least important columns are dropped or shrunk first."""
    widths = {n: max(_cells(line[n]) for line in lines) for n in used}

    def needed(least: Callable[[int], int]) -> int:
        return sum(least(n) for n in widths) + _GAP * (len(widths) - 1)

    def shrunk(n: int) -> int:
        return widths[n] if columns[n].is_fixed else min(widths[n], _CELL_MIN)

    while needed(shrunk) > room and any(columns[n].dropped for n in widths):
        del widths[max(widths, key=lambda n: columns[n].dropped)]
    while needed(widths.__getitem__) > room:
        able = [n for n in widths if widths[n] > shrunk(n)]
        if not able:
            break
        widths[max(able, key=lambda n: (_is_long_note(columns[n], widths[n]), columns[n].dropped, widths[n]))] -= 1
    return widths


def _is_long_note(column: Column, width: int) -> bool:
    """Whether a note can lose characters before any other column has to."""
    return column.is_note and width > _NOTE_MIN


def _pad(cell: str, width: int, gap: str) -> str:
    limit = width
    text = cell
    while _cells(text) > width:  # wide characters take two cells
        text = shorten(cell, limit, gap=gap)
        limit -= 1
    return text + " " * (width - _cells(text))


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
