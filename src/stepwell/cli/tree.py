"""A run as a tree: pure, from views to lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stepwell.cli.statuses import show_status
from stepwell.cli.texts import brief, clean, duration, moment, shorten

if TYPE_CHECKING:
    from stepwell.engine.views import EntryView, RunView, WaitView

_UNDO = "~undo"
_UNDO_HEADING = "undo (last in, first out)"
_PATH_MAX = 40
_VALUE_MAX = 60
_ERROR_MAX = 120
_INPUT_MAX = 100


class Marks(NamedTuple):
    """The symbols of a tree."""

    done: str
    failed: str
    open: str
    waits: str
    retries: str
    undo: str
    gives: str
    dot: str
    gap: str
    branch: str
    last: str
    bar: str


UNICODE = Marks("✓", "✕", "●", "‖", "↻", "↶", "→", "·", "…", "├─ ", "└─ ", "│  ")
ASCII = Marks("+", "x", "*", "=", "@", "<", "->", "-", "...", "|- ", "`- ", "|  ")


@dataclass(slots=True)
class _Node:
    name: str
    order: int = 1 << 62  # the first commit at or below it: siblings stand in the order in which they began to count
    entry: EntryView | None = None
    waits: list[WaitView] = field(default_factory=list)
    below: dict[str, _Node] = field(default_factory=dict)


def render_tree(
    run: RunView, entries: Sequence[EntryView], waits: Sequence[WaitView], *, ascii: bool = False
) -> list[str]:
    """The run in one line, facts about it, then everything recorded, by path; what was undone stands at the end."""
    marks = ASCII if ascii else UNICODE
    root = _grow([entry for entry in entries if _UNDO not in entry.path], waits)
    undos = _grow([entry for entry in entries if _UNDO in entry.path], ())
    tops = _in_order(root)
    if undos.below:
        tops.append(_Node(_UNDO_HEADING, below=undos.below))
    width = max((_width_of(node, 0) for node in tops), default=0)
    lines = [*_header(run, marks, ascii=ascii)]
    is_stuck = run.status == "compensation_failed"
    for node, lead, tail in _with_rails(tops, "", marks):
        lines.append(_line(node, lead, tail, width, marks, is_stuck=is_stuck))
    return lines


def _header(run: RunView, marks: Marks, *, ascii: bool) -> Iterator[str]:
    took = ""
    if run.ended_at is not None:
        took = f"  {duration((run.ended_at - (run.started_at or run.created_at)).total_seconds())}"
    status = show_status("unreadable" if run.unreadable else run.status, ascii=ascii)
    yield clean(f"{run.run_id}  {run.workflow} v{run.version}  {status}{took}")
    facts = [f"key {run.key}"] if run.key else []
    facts.append(f"created {moment(run.created_at)} UTC")
    if run.generation > 1:
        facts.append(f"generation {run.generation}")
    if run.parent:
        facts.append(f"child of {run.parent}")
    if run.successor:
        facts.append(f"goes on as {run.successor}")
    yield clean("  " + f" {marks.dot} ".join(facts))
    if run.input is not None:
        yield f"  input   {brief(run.input, _INPUT_MAX, gap=marks.gap)}"
    if run.output is not None:
        yield f"  output  {brief(run.output, _INPUT_MAX, gap=marks.gap)}"
    if run.failure is not None:
        at = f"   at {run.failure.path}" if run.failure.path else ""
        yield f"  cause   {shorten(clean(run.failure.summary), _ERROR_MAX, gap=marks.gap)}{clean(at)}"
    if run.unreadable:
        yield f"  cause   {shorten(clean(run.unreadable), _ERROR_MAX, gap=marks.gap)}"
    if run.reason:
        yield f"  reason  {shorten(clean(run.reason), _ERROR_MAX, gap=marks.gap)}"


def _grow(entries: Sequence[EntryView], waits: Sequence[WaitView]) -> _Node:
    root = _Node("")
    for entry in entries:
        node = root
        # An undo stands flat under the one heading, in the order in which it was done.
        for part in [entry.path.replace(_UNDO, "")] if _UNDO in entry.path else entry.path.split("/"):
            node = node.below.setdefault(part, _Node(part))
            node.order = min(node.order, entry.seq)
        node.entry = entry
    for wait in waits:
        node = root
        for part in wait.path.split("/"):
            node = node.below.setdefault(part, _Node(part))
        node.waits.append(wait)
    return root


def _in_order(node: _Node) -> list[_Node]:
    return sorted(node.below.values(), key=lambda child: child.order)


def _width_of(node: _Node, depth: int) -> int:
    own = 0 if node.name is _UNDO_HEADING else min(len(clean(node.name)), _PATH_MAX) + 3 * depth
    return max([own, *(_width_of(child, depth + 1) for child in node.below.values())])


def _with_rails(nodes: Sequence[_Node], lead: str, marks: Marks) -> Iterator[tuple[_Node, str, int]]:
    for number, node in enumerate(nodes, 1):
        is_last = number == len(nodes)
        yield node, lead + (marks.last if is_last else marks.branch), len(lead)
        yield from _with_rails(_in_order(node), lead + ("   " if is_last else marks.bar), marks)


def _line(node: _Node, lead: str, indent: int, width: int, marks: Marks, *, is_stuck: bool) -> str:
    name = shorten(clean(node.name), _PATH_MAX, gap=marks.gap)
    icon, facts = _facts(node, marks, is_stuck=is_stuck)
    return f"{lead}{icon} {name:<{max(width - indent, 0)}}  {'   '.join(facts)}".rstrip()


def _facts(node: _Node, marks: Marks, *, is_stuck: bool) -> tuple[str, list[str]]:
    entry = node.entry
    if entry is None:
        if node.waits:
            return marks.retries if node.waits[0].kind == "retry" else marks.waits, [_wait(w) for w in node.waits]
        return (marks.undo, []) if node.name is _UNDO_HEADING else (marks.open, [])
    facts = [f"{duration(entry.took):>8}"]
    if entry.attempts > 1:
        facts.append(f"{entry.attempts} attempts")
    if entry.kind not in ("step", "undo"):
        facts.append(entry.kind.replace("_", " "))
    if entry.failure is not None:
        facts.append(shorten(clean(entry.failure.summary), _ERROR_MAX, gap=marks.gap))
    elif entry.value is not None and entry.kind != "sleep":  # whose value is only its deadline
        facts.append(f"{marks.gives} {brief(entry.value, _VALUE_MAX, gap=marks.gap)}")
    if entry.is_undone:
        facts.append(f"{marks.undo} undone")
    elif entry.can_undo and is_stuck:
        facts.append("not undone")
    return marks.done if entry.status == "done" else marks.failed, facts


def _wait(wait: WaitView) -> str:
    due = f" until {moment(wait.due_at)} UTC" if wait.due_at else ""
    match wait.kind:
        case "signal":
            what = " or ".join(repr(name) for name in wait.names) or "any name"
            return clean(f"waiting for signal {what}{due}")
        case "topic":
            asked = f" with {', '.join(wait.where)}" if wait.where else ""
            return clean(f"waiting for an event of {wait.names[0]!r}{asked}{due}")
        case "child":
            return "waiting for its child run"
        case "retry":
            last = wait.failed_attempts[-1] if wait.failed_attempts else None
            why = f" · attempt {last.number} failed: {last.error}" if last else ""
            return clean(f"next attempt at {moment(wait.due_at)} UTC{why}")
        case _:
            return f"sleeping{due}"
