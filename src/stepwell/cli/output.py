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
_TEXT_MIN = 20


class Column(NamedTuple):
    """One column of a table."""

    title: str
    is_fixed: bool = False  # an id: never shortened
    dropped: int = 0  # on a terminal that is too narrow: the highest goes first, 0 never


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
            self.lines(run_ids)
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
        """Print a listing as JSON, JSON lines, CSV or ids; false if it is to be a table."""
        if self.format == "table" and not self._fields:
            return False
        if self.format == "table":
            self._plain_table(items)
        elif self.format == "ids":
            self.lines(run_ids)
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
        """Whether it prints words and not what a program reads."""
        return self.format == "table" and not self._fields

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print a table. Only on a terminal are empty columns dropped and long cells shortened."""
        cells = [[clean(cell) for cell in row] for row in rows]
        titles = [[column.title for column in columns]] if self._has_header else []
        if not self.is_terminal:
            self.lines("\t".join(row) for row in [*titles, *cells])
            return
        used = [n for n in range(len(columns)) if self.is_wide or any(row[n] for row in cells)]
        lines = [*titles, *cells]
        widths = _fit(columns, used, lines, sys.maxsize if self.is_wide else self._width())
        for row in lines:
            self.line((" " * _GAP).join(_pad(row[n], width, self._gap) for n, width in widths.items()).rstrip())

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines."""
        for line in lines:
            self.line(line)

    def line(self, line: str) -> None:
        """Print one line, with its symbols coloured where colour is wanted."""
        if self._has_colour:
            line = "".join(click.style(char, fg=_PAINTS[char]) if char in _PAINTS else char for char in line)
        _echo(line, colour=self._has_colour, err=False)

    def clipped(self, lines: Sequence[str]) -> list[str]:
        """A tree cut to the width of a terminal, but for its first line, which has the id; whole elsewhere."""
        if not self.is_terminal:
            return list(lines)
        width, gap = self._width(), self._gap
        cut = [line if len(line) <= width else line[: width - len(gap)] + gap for line in lines[1:]]
        return [*lines[:1], *cut]

    def wrapped(self, text: str, indent: str = "", first: str | None = None) -> list[str]:
        """A text on lines of a terminal's width, indented; on one line elsewhere."""
        from textwrap import wrap

        begin = indent if first is None else first
        if not self.is_terminal:
            return [f"{begin}{text}"]
        width = max(self._width(), len(indent) + _TEXT_MIN)
        return wrap(text, width, initial_indent=begin, subsequent_indent=indent, break_on_hyphens=False)

    def note(self, text: str) -> None:
        """Tell people something beside the result: on stderr, and never in the way of a program."""
        if self.format == "table":
            _echo(clean(text), colour=False, err=True)

    # --- inside ---

    @property
    def _gap(self) -> str:
        return "..." if self.ascii else "…"

    def _width(self) -> int:
        from shutil import get_terminal_size

        return get_terminal_size().columns

    def _chosen(self, item: dict[str, Any]) -> dict[str, Any]:
        """The fields that were asked for; all of them if none were."""
        if not self._fields:
            return item
        if unknown := [name for name in self._fields if name not in item]:
            raise click.UsageError(f"There is no field {', '.join(unknown)} here; there are {', '.join(item)}.")
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
        """One row for each, under the names of the fields; what has parts is JSON in its cell."""
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


def _fit(columns: Sequence[Column], used: Iterable[int], lines: Sequence[Sequence[str]], room: int) -> dict[int, int]:
    """The width of each column that is shown: first the least important ones go, then the widest ones shrink."""
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
        widths[max(able, key=widths.__getitem__)] -= 1
    return widths


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
