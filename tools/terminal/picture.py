"""A terminal as an SVG picture: light and dark, with a title and a description, and nothing that runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tools.terminal.screen import Line

_CHAR, _HIGH, _EDGE = 8.4, 20, 16
_STYLE = """
    text { font: 14px "DejaVu Sans Mono", Menlo, Consolas, "Liberation Mono", monospace; fill: #24292f }
    .paper { fill: #f6f8fa; stroke: #d0d7de }
    .red { fill: #b00020 } .green { fill: #116329 } .yellow { fill: #7a4e00 } .blue { fill: #0550ae }
    .magenta { fill: #8250df } .cyan { fill: #0b6b75 } .dim { fill: #57606a } .typed { font-weight: bold }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .paper { fill: #0d1117; stroke: #30363d }
      .red { fill: #ff7b72 } .green { fill: #56d364 } .yellow { fill: #e3b341 } .blue { fill: #79c0ff }
      .magenta { fill: #d2a8ff } .cyan { fill: #76e3ea } .dim { fill: #8b949e }
    }
"""


def draw(lines: Sequence[Line], *, columns: int, title: str, description: str) -> str:
    """The lines as a picture of so many columns."""
    width, height = round(columns * _CHAR + 2 * _EDGE), len(lines) * _HIGH + 2 * _EDGE
    rows = [_row(line, number) for number, line in enumerate(lines) if line]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'role="img" aria-labelledby="title desc">',
            f'  <title id="title">{escape(title)}</title>',
            f'  <desc id="desc">{escape(description)}</desc>',
            f"  <style>{_STYLE}  </style>",
            f'  <rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


def _row(line: Line, number: int) -> str:
    """One line. Every piece says where it begins and how long it is: fonts differ in the width of a character."""
    pieces, at = [], 0
    for piece in line:
        bare = piece.text.strip(" ")
        if bare:
            x = _EDGE + (at + piece.text.index(bare[0])) * _CHAR
            kind = f' class="{piece.colour}"' if piece.colour else ""
            long = f'textLength="{len(bare) * _CHAR:.1f}" lengthAdjust="spacingAndGlyphs"'
            pieces.append(f'<tspan{kind} x="{x:.1f}" {long}>{escape(bare, quote=False)}</tspan>')
        at += len(piece.text)
    return f'  <text y="{_EDGE + (number + 1) * _HIGH - 6}">{"".join(pieces)}</text>'
