"""A context for a direct call of one step function, without a run."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any

from stepwell.codec.base import ANY, Place
from stepwell.codec.json_codec import JsonCodec
from stepwell.replay.step_context import StepContext

_CODEC = JsonCodec()


class _Kept:
    def __await__(self) -> Generator[Any, Any, None]:
        yield from ()


class UnitLink:
    """An attempt without a run. It keeps the calls of the body for the test."""

    def __init__(self, state: Any, *, yields_after: int | None, is_cancelled: bool) -> None:
        self._state = None if state is None else self._encode(state)
        self._left = yields_after
        self.is_cancelled = is_cancelled
        self.states: list[Any] = []
        self.reports: list[tuple[int, int | None, str, str]] = []
        self.rows = 0
        self.bytes = 0

    def check(self, verb: str) -> None:
        pass

    def read(self, hint: Any) -> Any:
        return None if self._state is None else _CODEC.decode(self._state, hint, place=_place)

    def keep(self, state: Any, *, is_last: bool = False) -> None:
        self._state = self._encode(state)
        self.states.append(state)

    def keep_durably(self, state: Any) -> Awaitable[None]:
        self.keep(state)
        return _Kept()

    def report(self, done: int, total: int | None, unit: str, note: str) -> None:
        self.reports.append((done, total, unit, note))

    def count(self, *, rows: int, bytes: int) -> None:
        self.rows += rows
        self.bytes += bytes

    def should_yield(self) -> bool:
        if self._left is None:
            return self.is_cancelled
        self._left -= 1
        return self._left < 0

    @staticmethod
    def _encode(state: Any) -> bytes:
        return bytes(_CODEC.encode(state, place=_place))


def _place() -> Place:
    return Place("unit test", "step", "the state")


class UnitContext(StepContext):
    """A `StepContext` to call one step's function with: `await charge.fn(stepwell.ctx(attempt=2), order)`.

    It keeps the calls of the body: `states` (checkpointed or yielded), `reports` of progress, and `emitted` events.
    """

    __slots__ = ("emitted", "link")

    emitted: list[tuple[str, Any]]
    link: UnitLink

    @property
    def states(self) -> list[Any]:
        """Every state that the body kept, in order."""
        return self.link.states

    @property
    def reports(self) -> list[tuple[int, int | None, str, str]]:
        """Every report of progress: done, total, unit, note."""
        return self.link.reports


def unit_context(
    *,
    state: Any = None,
    run_id: str = "unit-test",
    workflow: str = "unit_test",
    path: str = "step",
    attempt: int = 1,
    is_final_attempt: bool = False,
    idempotency_key: str | None = None,
    yields_after: int | None = None,
    is_cancelled: bool = False,
) -> UnitContext:
    """A context for one call of a step's function. `state` is the state that an earlier attempt kept; `yields_after` is
    how often `should_yield` returns false before it returns true.
    """
    link = UnitLink(state, yields_after=yields_after, is_cancelled=is_cancelled)
    emitted: list[tuple[str, Any]] = []
    context = UnitContext(
        run_id,
        workflow,
        path,
        attempt,
        is_final_attempt,
        idempotency_key or f"{run_id}:{path}",
        _link=link,
        _emit=lambda name, payload: emitted.append((name, _as_stored(payload))),
    )
    object.__setattr__(context, "emitted", emitted)
    object.__setattr__(context, "link", link)
    return context


def _as_stored(payload: Any) -> Any:
    stored = _CODEC.encode(payload, ANY, place=_place)
    return _CODEC.decode(stored, Any, place=_place)
