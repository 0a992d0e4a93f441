"""What workflow code has seen. As far as an effect has relied on it, every replay sees the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.plain import PlainTwin, scope_of

if TYPE_CHECKING:
    from sim.world import World
    from stepwell.replay.context import Context


class Witness:
    """One claim of one run: the values that its code saw, in order, by their paths."""

    __slots__ = ("_asked", "_begun", "_seen")

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._asked: dict[str, int] = {}  # body -> how many values the code had seen when it asked for it
        self._begun = 0  # how many of them a body has begun after

    def saw(self, path: str, value: Any) -> str | None:
        """Code sees a value; what it was before, if that was another one."""
        words = repr(value)
        before = self._seen.setdefault(path, words)
        return None if before == words else f"{path} was {before} and is {words}"

    def asks(self, path: str) -> None:
        """Code asks for a body, and so relies on all that it has seen."""
        self._asked[path] = len(self._seen)

    def begins(self, path: str) -> list[tuple[str, str]]:
        """A body begins; what it relies on, and none before it has relied on."""
        count = self._asked.get(path, 0)
        if count <= self._begun:
            return []
        first, self._begun = self._begun, count
        return list(self._seen.items())[first:count]

    @property
    def seen(self) -> dict[str, str]:
        """All that the code saw."""
        return self._seen


class Witnesses:
    """Those of one world. Workflow code cannot tell which process runs it, and one world is simulated at a time."""

    def __init__(self) -> None:
        self._world: World | None = None
        self._claims: dict[int, tuple[Any, Witness]] = {}  # by the journal of the claim, which lives as long

    def begin(self, world: World) -> None:
        """Another world begins."""
        self._world = world
        self._claims.clear()

    def violate(self, invariant: str, run_id: str, text: str) -> None:
        """Code has noticed a broken promise."""
        assert self._world is not None
        self._world.violate(invariant, run_id, text)

    def mark(self, run_id: str, path: str, target: str) -> str:
        """What a run sends to others at a place carries this mark, and nothing else does."""
        assert self._world is not None
        return self._world.clients.mark_of(run_id, path, target)

    def is_undo_fixed(self, run_id: str) -> bool:
        """Whether the compensations of a run no longer fail as planned."""
        assert self._world is not None
        return self._world.is_undo_fixed(run_id)

    def is_mended(self, run_id: str) -> bool:
        """Whether somebody has mended the code of a run."""
        assert self._world is not None
        return self._world.is_mended(run_id)

    def check_undone(self, run_id: str, path: str, node: dict[str, Any], result: Any) -> None:
        """A compensation is given what was done."""
        assert self._world is not None
        self._world.check_undone(run_id, path, node, result)

    def of(self, ctx: Context | PlainTwin) -> Witness:
        """The witness of the claim that runs this code."""
        return self.of_journal(scope_of(ctx).turn.journal)

    def of_journal(self, journal: Any) -> Witness:
        """The witness of the claim that has this journal."""
        _, witness = self._claims.setdefault(id(journal), (journal, Witness()))
        return witness

    def saw(self, ctx: Context | PlainTwin, path: str, value: Any) -> None:
        """Code sees a value."""
        problem = self.of(ctx).saw(path, value)
        if problem is not None:
            self.violate("I9", ctx.run_id, f"told again, {problem}")


WITNESSES = Witnesses()
