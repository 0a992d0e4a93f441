"""Results as tables: for a terminal, and for a page."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.peers.catalogue import PARTICIPANTS, WORKLOADS, Participant
from bench.peers.results import FIGURES, TITLES, Results, spread

OURS = ("stepwell-sqlite", "stepwell-postgres")
_NONE = "–"


@dataclass
class Grid:
    """Rows of text below a header; the notes stand beneath."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def show(self, console: Console) -> None:
        """On a terminal, or wherever else."""
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for number, name in enumerate(self.header):
            table.add_column(escape(name), justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(escape, row))
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", highlight=False, markup=False)

    def markdown(self) -> str:
        """The same for a page."""
        lines = [f"**{self.title}**", "", _line(self.header), _line(["---"] + ["--:"] * (len(self.header) - 1))]
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def number(value: float, digits: int) -> str:
    """As many decimals as are worth reading."""
    return f"{value:,.0f}" if abs(value) >= 100 or not digits else f"{value:,.{digits}f}"


def times(ratio: float | None) -> str:
    """How many times, in words that fit into a cell."""
    if ratio is None:
        return _NONE
    return f"{ratio:,.0f} ×" if ratio >= 100 else f"{ratio:.1f} ×" if ratio >= 1 else f"{ratio:.2f} ×"


def workload_grid(results: Results, workload: str) -> Grid:
    """Everybody's figures of one workload: medians, with the extremes of the first."""
    kinds = FIGURES[workload]
    first = f"{kinds[0].label} [min–max]"
    header = ["", first, *(kind.label for kind in kinds[1:]), "ran", "SQLite ahead", "PostgreSQL ahead"]
    rounds = len({one.round for one in results.samples if one.workload == workload})
    grid = Grid(f"{workload}  {TITLES[workload]}, rounds: {rounds}", header)
    for participant in PARTICIPANTS:
        name = participant.name
        measured = spread(results.values(name, workload, kinds[0].key))
        if measured is None:
            why = results.refusal(name, workload)
            if why:
                grid.rows.append([participant.title, _NONE, *[_NONE] * (len(header) - 2)])
                grid.notes.append(f"{participant.title}: – because {why}")
            continue
        median, low, high = (number(value, kinds[0].digits) for value in measured)
        others = [spread(results.values(name, workload, kind.key)) for kind in kinds[1:]]
        cells = [number(one.median, kind.digits) if one else _NONE for one, kind in zip(others, kinds[1:], strict=True)]
        is_peer = participant.driver != "stepwell"
        ahead = [times(results.ratio(workload, ours=ours, theirs=name)) if is_peer else "" for ours in OURS]
        grid.rows.append(
            [participant.title, f"{median} [{low}–{high}]", *cells, _ran(results, participant, workload), *ahead]
        )
    return grid


def _ran(results: Results, participant: Participant, workload: str) -> str:
    """How much it was given, where that can be less than the whole."""
    orders = [one.order for one in results.of(participant.name, workload) if one.figures]
    order = participant.order(workload) | (orders[-1] if orders else {})
    units = spread(results.values(participant.name, workload, "units"))
    match workload:
        case "W1":
            return f"{order['steps']:,}"
        case "W2" | "W6":
            return f"{order['runs']:,} × {order['steps']}"
        case "W8":
            return f"{order['lengths'][-1]:,}"
        case _:
            return f"{units.median:,.0f}" if units else _NONE


def ratio_grid(results: Results) -> Grid:
    """How many times stepwell is ahead of each, on SQLite and on PostgreSQL."""
    measured = [one for one in WORKLOADS if any(sample.workload == one for sample in results.samples)]
    labels = [f"{one} {FIGURES[one][0].label}" for one in measured]
    grid = Grid("How many times stepwell is ahead: on SQLite / on PostgreSQL", ["", *labels])
    for participant in PARTICIPANTS:
        if participant.driver == "stepwell" or participant.name in results.absent:
            continue
        cells = []
        for workload in measured:
            both = [times(results.ratio(workload, ours=ours, theirs=participant.name)) for ours in OURS]
            cells.append(_NONE if both == [_NONE, _NONE] else " / ".join(both))
        grid.rows.append([participant.title, *cells])
    return grid


LIMIT_LABELS = {
    "fsync_per_s": "write of 4 KiB + fdatasync, per s",
    "sqlite_per_s": "SQLite: raw commits of one row, per s",
    "sqlite_best_per_s": "SQLite: the same, with a log kept as short as stepwell keeps it",
    "postgres_per_s": "PostgreSQL: raw commits of one row, one connection, per s",
}


def limit_grid(results: Results) -> Grid:
    """What the machine allows, and what part of it one run of sequential steps reaches."""
    grid = Grid("The limits, measured in the same run", ["", "per s [min–max]", "W1 as a part of it"])
    ours = {"sqlite_per_s": OURS[0], "sqlite_best_per_s": OURS[0], "postgres_per_s": OURS[1]}
    for key, label in LIMIT_LABELS.items():
        measured = spread(results.limits(key))
        if measured is None:
            continue
        part = results.part(ours[key], key) if key in ours else None
        median, low, high = (number(value, 0) for value in measured)
        grid.rows.append([label, f"{median} [{low}–{high}]", "" if part is None else f"{part:.2f}"])
    return grid


def grids(results: Results) -> list[Grid]:
    """Everything, in the order in which it is read."""
    measured = [one for one in WORKLOADS if any(sample.workload == one for sample in results.samples)]
    all_grids = [limit_grid(results), *(workload_grid(results, one) for one in measured), ratio_grid(results)]
    return [grid for grid in all_grids if grid.rows]
