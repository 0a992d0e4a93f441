"""Results as a picture: horizontal bars, a panel for each workload, as SVG text."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

from bench.peers.catalogue import PARTICIPANTS, WORKLOADS
from bench.peers.results import FIGURES, TITLES, Results, spread
from bench.peers.tables import number

_WIDTH = 760
_LABEL = 210  # where bars begin
_ROOM = 460  # the longest bar
_BAR = 16
_STEP = 22
_OURS, _PEER, _INK, _QUIET = "#0b7285", "#adb5bd", "#212529", "#6c757d"


def bar_length(value: float, lowest: float, highest: float) -> float:
    """From a tenth of the room for the lowest to all of it for the highest, by their logarithms."""
    if highest <= lowest:
        return float(_ROOM)
    part = math.log(value / lowest) / math.log(highest / lowest)
    return _ROOM * (0.1 + 0.9 * part)


def draw(results: Results) -> str:
    """The whole picture; bars are logarithmic, because the figures span several orders of magnitude."""
    parts, top = [], 20
    for workload in WORKLOADS:
        panel, height = _panel(results, workload, top)
        parts += panel
        top += height
    style = "font-family='system-ui, sans-serif' font-size='12'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{top}' {style}>"
    ground = f"<rect width='{_WIDTH}' height='{top}' fill='white'/>"
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"


def _panel(results: Results, workload: str, top: int) -> tuple[list[str], int]:
    kind = FIGURES[workload][0]
    medians = []
    for participant in PARTICIPANTS:
        measured = spread(results.values(participant.name, workload, kind.key))
        if measured is not None and measured.median > 0:
            medians.append((participant, measured.median))
    if not medians:
        return [], 0
    lowest, highest = min(value for _, value in medians), max(value for _, value in medians)
    better = "longer is better" if kind.more_is_better else "shorter is better"
    title = f"{workload}  {TITLES[workload]}: {kind.label}, {better}, logarithmic"
    parts = [_text(10, top + 4, title, _INK, bold=True)]
    for row, (participant, value) in enumerate(medians):
        y = top + 16 + row * _STEP
        length, fill = bar_length(value, lowest, highest), _OURS if participant.driver == "stepwell" else _PEER
        parts.append(_text(_LABEL - 8, y + 12, participant.title, _INK, anchor="end"))
        parts.append(f"<rect x='{_LABEL}' y='{y}' width='{length:.1f}' height='{_BAR}' rx='2' fill='{fill}'/>")
        parts.append(_text(_LABEL + length + 6, y + 12, number(value, kind.digits), _QUIET))
    return parts, 16 + len(medians) * _STEP + 26


def _text(x: float, y: float, words: str, fill: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = " font-weight='600'" if bold else ""
    return f"<text x='{x:.1f}' y='{y}' fill='{fill}' text-anchor='{anchor}'{weight}>{escape(words)}</text>"
