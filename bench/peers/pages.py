"""Results on a page: what stands between two comments is replaced, and the picture is put beside it."""

from __future__ import annotations

from pathlib import Path

from bench.peers.picture import draw
from bench.peers.results import Results
from bench.peers.tables import grids

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def facts(results: Results) -> list[str]:
    """The machine, the settings and the versions, a line for each."""
    lines = [f"{name}: {value}" for name, value in results.machine.items() if value]
    lines.append("versions: " + ", ".join(f"{name} {version}" for name, version in results.versions.items()))
    return lines + [f"left out: {name}, because {why}" for name, why in results.absent.items()]


def as_markdown(results: Results) -> str:
    """Everything that was measured, for a page."""
    listed = "\n".join(f"- {fact}" for fact in facts(results))
    return listed + "\n\n" + "\n".join(grid.markdown() for grid in grids(results))


def inserted(page: str, figures: str) -> str:
    """The page with other figures. Raises ValueError if it has no place for them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{figures.strip()}\n\n{END}{after}"


def write_page(results: Results, path: Path) -> None:
    """Fill an existing page, and draw its picture: the same name, as SVG."""
    text = inserted(path.read_text(encoding="utf-8"), as_markdown(results))
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".svg").write_text(draw(results), encoding="utf-8")
