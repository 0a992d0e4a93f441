"""What a terminal shows of a stream of bytes: lines of coloured pieces. Knows what a command line writes, not more."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"\x1b\[(?P<codes>[0-9;]*)m|\x1b\[[0-9;?]*[ -/]*[@-~]|(?P<char>[\s\S])")
_NAMES: Final = {31: "red", 32: "green", 33: "yellow", 34: "blue", 35: "magenta", 36: "cyan"}


class Piece(NamedTuple):
    """Text of one colour; no colour is the terminal's own."""

    text: str
    colour: str = ""


Line = list[Piece]


def read_screen(raw: str, columns: int) -> list[Line]:
    """The lines that stand on the screen at the end, each at most so wide."""
    rows: list[list[tuple[str, str]]] = [[]]
    colour, at = "", 0
    for token in _TOKEN.finditer(raw):
        char = token["char"]
        if token["codes"] is not None:
            for code in token["codes"].split(";"):
                number = int(code or 0)
                colour = _NAMES.get(number, "" if number in (0, 39) else colour)
        elif char == "\n":
            rows.append([])
            at = 0
        elif char == "\r":
            at = 0
        elif char == "\b":
            at = max(0, at - 1)
        elif char is not None and char.isprintable():
            if at >= columns:
                rows.append([])
                at = 0
            row = rows[-1]
            row[at : at + 1] = [(char, colour)]
            at += 1
    return [_pieces(row) for row in rows]


def _pieces(row: list[tuple[str, str]]) -> Line:
    line: Line = []
    for char, colour in row:
        if line and line[-1].colour == colour:
            line[-1] = Piece(line[-1].text + char, colour)
        else:
            line.append(Piece(char, colour))
    return line
