"""A run as a tree: pure, from views to lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stepwell.cli.statuses import show_status
from stepwell.cli.texts import brief, clean, duration, moment, shell_word, shorten, wrap
from stepwell.cli.values import shown_value
from stepwell.engine.reasons import UNDO_MARK, Origin, failures_of, is_paused_by_code, origin_of, undone_path
from stepwell.engine.undos import Undo, undo_words
from stepwell.model.states import RunStatus

if TYPE_CHECKING:
    from stepwell.engine.views import EntryView, RunView, WaitView
    from stepwell.errors.records import FailureRecord

_UNDO_HEADING = "undo (last in, first out)"
_PATH_MAX = 40
_VALUE_MAX = 60
_INPUT_MAX = 100
_VALUE_MIN = 20
_CAUSES_MAX = 5  # of a join or a map, in the header
_NEXT = {  # the command that moves a run which does not move by itself, or explains it
    RunStatus.PENDING.value: "why",
    RunStatus.FAILED.value: "retry",
    RunStatus.COMPENSATION_FAILED.value: "rollback resume",
    RunStatus.PAUSED.value: "resume",
}


class Marks(NamedTuple):
    """The symbols of a tree."""

    done: str
    failed: str
    open: str
    not_begun: str
    waits: str
    retries: str
    undo: str
    gives: str
    dot: str
    gap: str
    branch: str
    last: str
    bar: str


UNICODE = Marks("✓", "✕", "●", "○", "‖", "↻", "↶", "→", "·", "…", "├─ ", "└─ ", "│  ")
ASCII = Marks("+", "x", "*", "o", "=", "@", "<", "->", "-", "...", "|- ", "`- ", "|  ")


@dataclass(slots=True)
class _Node:
    name: str
    order: int = 1 << 62  # the first commit at or below it: siblings are in the order of their first commits
    entry: EntryView | None = None
    waits: list[WaitView] = field(default_factory=list)
    undo: Undo | None = None  # a line of the undo stack
    below: dict[str, _Node] = field(default_factory=dict)


def render_tree(
    run: RunView,
    entries: Sequence[EntryView],
    waits: Sequence[WaitView],
    *,
    undos: Sequence[Undo] | None = None,
    ascii: bool = False,
    width: int | None = None,
) -> list[str]:
    """The run in one line, facts about it, then every recorded operation by path, and at the end the rollback.

    With `undos`, the end shows the whole undo stack, and not only the undos that are recorded. Errors are wrapped to
    the width and never cut.
    """
    marks = ASCII if ascii else UNICODE
    root = _grow([entry for entry in entries if UNDO_MARK not in entry.path], waits)
    tops = _in_order(root)
    recorded = _grow([entry for entry in entries if UNDO_MARK in entry.path], ()).below
    stack = recorded if undos is None else _stack(undos, recorded)
    if stack:
        tops.append(_Node(_UNDO_HEADING, below=stack))
    room = max((_width_of(node, 0) for node in tops), default=0)
    lines = [*_header(run, marks, ascii=ascii, width=width)]
    is_stuck = run.status == RunStatus.COMPENSATION_FAILED and undos is None
    for node, lead, below, tail in _with_rails(tops, "", marks):
        lines += _lines(node, lead, below, max(room - tail, 0), marks, is_stuck=is_stuck, width=width)
    return lines


def _header(run: RunView, marks: Marks, *, ascii: bool, width: int | None) -> Iterator[str]:
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
        facts.append(f"continued by {run.successor}")
    yield from wrap(clean(f" {marks.dot} ".join(facts)), width, first="  ", rest="  ")
    for label, text in _facts_of(run, marks):
        yield from wrap(clean(text), width, first=f"  {label:<7} ", rest=" " * 10)


def _facts_of(run: RunView, marks: Marks) -> Iterator[tuple[str, str]]:
    """Labels with the text behind them; a line that continues the one before has an empty label."""
    if run.input is not None:
        yield "input", brief(run.input, _INPUT_MAX, gap=marks.gap)
    if run.output is not None:
        yield "output", brief(run.output, _INPUT_MAX, gap=marks.gap)
    if run.failure is not None:
        yield from _causes(run)
    if run.unreadable:
        yield "cause", run.unreadable
    if run.reason:
        yield "reason", run.reason
    if is_paused_by_code(run):
        yield "next", "deploy code that fits the history; the run then resumes by itself"
    elif following := _NEXT.get(run.status):
        yield "next", f"stepwell {following} {shell_word(run.run_id)}"


def _causes(run: RunView) -> Iterator[tuple[str, str]]:
    """Why the run failed, and why its rollback stopped."""
    own, stopped = failures_of(run)
    if own is not None:
        yield "cause", f"at {own.path}: {own.summary}" if own.path else own.summary
        yield from (("", line) for line in _leaves(own))
        if own.why:
            yield "why", own.why
    if stopped is not None and run.status == RunStatus.COMPENSATION_FAILED:
        yield "undo", f"of {undone_path(stopped.path)} failed: {stopped.summary}"
    elif stopped is not None:
        yield "stopped", f"at {stopped.path}: {stopped.summary}" if stopped.path else stopped.summary
    if stopped is not None:
        yield from (("", line) for line in _leaves(stopped))


def _leaves(failure: FailureRecord) -> list[str]:
    """The failures below a failure that only reports that others failed."""
    if not failure.causes:
        return []
    found: list[Origin] = [origin_of(cause) for cause in failure.causes.values()]
    lines = [f"{origin.path}: {origin.words}" if origin.path else origin.words for origin in found[:_CAUSES_MAX]]
    return lines + ([f"and {len(found) - _CAUSES_MAX} more"] if len(found) > _CAUSES_MAX else [])


def _stack(undos: Sequence[Undo], recorded: dict[str, _Node]) -> dict[str, _Node]:
    """The undo stack as nodes, from the undo that comes first; recorded undos bring their times."""
    nodes: dict[str, _Node] = {}
    for undo in undos:
        known = recorded.get(undo.path)
        nodes[undo.path] = _Node(undo.path, len(nodes), None if known is None else known.entry, undo=undo)
    inner = [node for path, node in recorded.items() if path not in nodes]  # steps that an undo itself took
    return nodes | {node.name: node for node in inner}


def _grow(entries: Sequence[EntryView], waits: Sequence[WaitView]) -> _Node:
    root = _Node("")
    for entry in entries:
        node = root
        # Undos are all directly below the one heading, in the order in which they ran.
        for part in [entry.path.replace(UNDO_MARK, "")] if UNDO_MARK in entry.path else entry.path.split("/"):
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


def _with_rails(nodes: Sequence[_Node], lead: str, marks: Marks) -> Iterator[tuple[_Node, str, str, int]]:
    """Each node with the rails of its first line, the rails of its other lines, and its indent."""
    for number, node in enumerate(nodes, 1):
        is_last = number == len(nodes)
        below = lead + ("   " if is_last else marks.bar)
        yield node, lead + (marks.last if is_last else marks.branch), below, len(lead)
        yield from _with_rails(_in_order(node), below, marks)


class _Told(NamedTuple):
    """What is printed behind the name of a node."""

    icon: str
    facts: Sequence[str] = ()
    text: str = ""  # may be long: an error is wrapped, a value is shortened
    is_value: bool = False


def _lines(
    node: _Node, lead: str, below: str, room: int, marks: Marks, *, is_stuck: bool, width: int | None
) -> list[str]:
    name = shorten(clean(node.name), _PATH_MAX, gap=marks.gap)
    told = _told(node, marks, is_stuck=is_stuck)
    first, text = f"{lead}{told.icon} {name:<{room}}  {'   '.join(told.facts)}", told.text
    gap = "   " if told.facts else ""
    if told.is_value and text:
        left = _VALUE_MAX if width is None else min(_VALUE_MAX, max(width - len(first) - 5, _VALUE_MIN))
        text = f"{marks.gives} {shorten(text, left, gap=marks.gap)}"
    if not text:
        return [first.rstrip()]
    if width is None or len(first) + len(gap) + len(text) <= width:
        return [first + gap + text]
    rails = below + (marks.bar if node.below else "   ")
    return [first.rstrip(), *wrap(text, width, first=f"{rails}  ", rest=f"{rails}  ")]


def _told(node: _Node, marks: Marks, *, is_stuck: bool) -> _Told:
    entry = node.entry
    if node.undo is not None:
        icons = {"undone": marks.done, "failed": marks.failed}
        facts = [f"{duration(entry.took):>8}"] if entry is not None else []
        return _Told(icons.get(node.undo.state, marks.not_begun), facts, clean(undo_words(node.undo)))
    if entry is None:
        if node.waits:
            icon = marks.retries if node.waits[0].kind == "retry" else marks.waits
            return _Told(icon, text="   ".join(_wait(wait) for wait in node.waits))
        return _Told(marks.undo if node.name is _UNDO_HEADING else marks.open)
    facts = [f"{duration(entry.took):>8}"]
    if entry.attempts > 1:
        facts.append(f"{entry.attempts} attempts")
    if entry.kind not in ("step", "undo"):
        facts.append(entry.kind.replace("_", " "))
    if entry.is_undone:
        facts.append(f"{marks.undo} undone")
    elif entry.can_undo and is_stuck:
        facts.append("not undone")
    if entry.failure is not None:
        return _Told(marks.failed, facts, clean(entry.failure.summary))
    return _Told(marks.done if entry.status == "done" else marks.failed, facts, shown_value(entry), is_value=True)


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
