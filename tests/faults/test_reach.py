"""The programs of the simulation reach every primitive in every place where it is possible."""

from __future__ import annotations

import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from sim.golden import golden_programs
from sim.programs import Maker, walk
from sim.reach import PRIMITIVES, Cell, cells, holes, places_of, primitives_of
from sim.runner import prepare
from sim.sweep import count_edges
from stepwell.replay.context import Context

PUBLIC = {name for name in dir(Context) if not name.startswith("_")}
WORLDS = 1_000


def test_every_public_name_of_a_context_is_in_the_table() -> None:
    named = {primitive for primitives in PRIMITIVES.values() for primitive in primitives}

    assert PUBLIC - named == set()


def test_random_programs_have_every_primitive_in_every_place() -> None:
    drawn: Counter[Cell] = Counter()
    for seed in range(WORLDS):
        maker = Maker(random.Random(seed))
        programs = [maker.program(), *maker.further()]
        places = places_of(programs)
        for node in walk(programs):
            drawn.update((primitive, places[node["id"]]) for primitive in primitives_of(node))

    assert holes(drawn, drawn) == []
    assert len(cells()) > 200


@pytest.fixture
def _quiet() -> Iterator[None]:
    """Let this process be quiet and even, as one of the simulation, and as it was afterwards."""
    logger = logging.getLogger("stepwell")
    kept = (logger.level, logger.propagate, logger.handlers, sys.unraisablehook)
    prepare()
    yield
    logger.level, logger.propagate, logger.handlers, sys.unraisablehook = kept
    logger.manager._clear_cache()  # type: ignore[attr-defined]  # which levels are on is remembered


@pytest.mark.usefixtures("_quiet")
def test_golden_programs_call_every_public_name_of_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()
    for name in PUBLIC:
        monkeypatch.setattr(Context, name, _noted(name, vars(Context)[name], called))

    for program in golden_programs():
        if PUBLIC - called:
            assert count_edges(program, "sqlite", "live") > 0

    assert PUBLIC - called == set()


def _noted(name: str, original: Any, called: set[str]) -> Any:
    """A method or property that notes that it was asked for."""
    if isinstance(original, property):
        read: Any = original.fget

        def get(self: Context) -> Any:
            called.add(name)
            return read(self)

        return property(get)

    def call(self: Context, *args: Any, **kwargs: Any) -> Any:
        called.add(name)
        return original(self, *args, **kwargs)

    return call
