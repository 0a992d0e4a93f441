"""How far the programs reach: which primitive was executed in which place, and how often a fault hit it there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sim.plain import PlainTwin
    from sim.programs import Node
    from stepwell.replay.context import Context

PLACES: Final = ("top level", "branch", "map item", "loop body", "compensation", "handler")
_TOP, _BRANCH, _ITEM, _LOOP, _UNDO, _HANDLER = PLACES

_ABOUT = ("run_id", "key", "workflow", "workflow_version", "generation", "previous", "started_at", "schedule")
# What a node may be besides.
FORMS: Final[dict[str, Callable[[Any], bool]]] = {
    "a name again": lambda node: "called" in node,
    "flow_step": lambda node: node.get("kind") == "by_name",
    'undo="always"': lambda node: str(node.get("kind")).endswith("_always"),
    "child, compensate": lambda node: "undone" in node,
}

# What the code of each node asks of its context; replies are asked of a message, and tasks of asyncio.
PRIMITIVES: Final[dict[str, tuple[str, ...]]] = {
    "step": ("step",),
    "try_step": ("try_step",),
    "once": ("once",),
    "clock": ("now", "random", "uuid"),
    "about": (*_ABOUT, "is_replaying", "log"),
    "sleep": ("sleep",),
    "sleep_until": ("sleep_until",),
    "receive": ("receive",),
    "receive_many": ("receive_many",),
    "wait_any": ("wait_any",),
    "topic": ("topic",),
    "observe": ("signals",),
    "handle": ("receive", "reply"),
    "emit": ("emit",),
    "append": ("stream",),
    "publish": ("publish_state", "state"),
    "describe": ("set_attributes", "set_title", "add_tags", "remove_tags"),
    "version": ("version", "patched"),
    "gates": ("deprecated", "removed"),
    "checkpoint": ("rollback_checkpoint",),
    "record": ("record",),
    "join": ("join",),
    "map": ("map",),
    "race": ("race",),
    "loop": ("loop",),
    "gather": ("asyncio.gather",),
    "tasks": ("asyncio tasks",),
    "within": ("asyncio.timeout",),
    "nap": ("asyncio.sleep",),
    "business": ("sleep_business",),
    "cleanup": ("cleanup",),
    "effect": ("compensate_with",),
    "serve": ("handle",),
    "child": ("child",),
    "tell": ("signal",),
    "question": ("ask",),
    "announce": ("publish",),
    "launch": ("start",),
    "stop": ("start", "cancel"),
    "headers": ("headers",),
    "children": ("children",),
    "spawn": ("spawn",),
    "fail": ("fail",),
    "odd": ("odd exception",),
    "continue": ("continue_as_new",),
}
# What no code can do, by design.
IMPOSSIBLE: Final[dict[tuple[str, str], str]] = {
    ("continue_as_new", _UNDO): "a run that undoes what it did has no successor",
    **{("handle", place): "requests are handled by the workflow itself" for place in PLACES if place != _TOP},
}

Cell = tuple[str, str]  # primitive, place


def primitives_of(node: Node) -> tuple[str, ...]:
    """What the code of a node asks of its context."""
    forms = tuple(form for form, has in FORMS.items() if has(node))
    return PRIMITIVES.get(node["op"], ()) + forms


def places_of(programs: Iterable[Any]) -> dict[str, str]:
    """Where each node of these programs stands, by its id."""
    found: dict[str, str] = {}
    for program in programs:
        _place_program(program, found)
    return found


def _place_program(program: Any, found: dict[str, str]) -> None:
    _place(program["body"], _TOP, found)
    if program.get("look"):
        _place(program["look"], _TOP, found)


def _place(node: Node, place: str, found: dict[str, str]) -> None:
    found[node["id"]] = place
    is_undo = place == _UNDO
    inner = {"join": _BRANCH, "race": _BRANCH, "map": _ITEM, "loop": _LOOP, "handle": _HANDLER}.get(node["op"], place)
    for part in parts_of(node):
        _place(part, place if is_undo else inner, found)
    if "undo" in node:
        _place(node["undo"], _UNDO, found)
    for program in programs_of(node):
        _place_program(program, found)


def parts_of(node: Node) -> list[Node]:
    """The nodes inside of a node, in the same run."""
    return [
        *node.get("items", ()),
        *node.get("branches", {}).values(),
        *([node["body"]] if "body" in node else []),
    ]


def programs_of(node: Node) -> list[Any]:
    """The programs of other runs that a node starts."""
    return [*node.get("programs", ()), *([node["program"]] if "program" in node else [])]


class Reach:
    """What one world reached. Workflow code cannot tell which process runs it, and one world is simulated at a time."""

    def __init__(self) -> None:
        self.executed: Counter[Cell] = Counter()
        self.faulted: Counter[Cell] = Counter()
        self._places: dict[str, str] = {}
        self._recent: defaultdict[str, list[Cell]] = defaultdict(list)  # run -> since its last commit
        self._committed: set[str] = set()

    def begin(self, programs: Iterable[Any]) -> None:
        """Another world begins."""
        self.executed, self.faulted = Counter(), Counter()
        self._places = places_of(programs)
        self._recent.clear()
        self._committed.clear()

    def note(self, ctx: Context | PlainTwin, node: Node) -> None:
        """Code comes to a node for the first time."""
        if not ctx.is_replaying:
            for primitive in primitives_of(node):
                self.note_cell(ctx.run_id, (primitive, self._places.get(node["id"], _TOP)))

    def note_cell(self, run_id: str, cell: Cell) -> None:
        """Code does something in a place."""
        if run_id in self._committed:
            self._committed.discard(run_id)
            self._recent[run_id].clear()
        self.executed[cell] += 1
        self._recent[run_id].append(cell)

    def hit(self, run_id: str) -> None:
        """A fault hits a commit of a run: it concerns all that the code did since the last one."""
        self.faulted.update(self._recent.pop(run_id, ()))

    def committed(self, run_id: str) -> None:
        """A commit of a run was performed; its answer may be lost yet."""
        self._committed.add(run_id)


def holes(executed: Counter[Cell], faulted: Counter[Cell]) -> list[Cell]:
    """Where a primitive was never executed or never faulted, though it is possible there."""
    return [cell for cell in cells() if not (executed[cell] and faulted[cell])]


def cells() -> list[Cell]:
    """Every primitive in every place where it is possible."""
    every = [(primitive, place) for primitive in all_primitives() for place in PLACES]
    return [cell for cell in every if cell not in IMPOSSIBLE]


def all_primitives() -> list[str]:
    """Every primitive, in the order of the table."""
    return list(dict.fromkeys(one for names in (*PRIMITIVES.values(), FORMS) for one in names))


def lines(executed: Counter[Cell], faulted: Counter[Cell]) -> Iterator[str]:
    """The table, for people: executed and faulted, by primitive and place."""
    yield f"{'executed / faulted':<20}" + "".join(f"{place:>16}" for place in PLACES)
    for primitive in all_primitives():
        row = [(primitive, place) for place in PLACES]
        texts = ["—" if cell in IMPOSSIBLE else f"{executed[cell]:,} / {faulted[cell]:,}" for cell in row]
        yield f"  {primitive:<18}" + "".join(f"{text:>16}" for text in texts)
    for (primitive, place), reason in IMPOSSIBLE.items():
        yield f"  — {primitive} in a {place}: {reason}"


REACH = Reach()
