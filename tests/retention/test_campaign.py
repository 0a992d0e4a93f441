"""Only whole trees that are past their time are deleted, and switches that break this are caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.model import retention as model
from stepwell.model.retention import Family, RunFacts, Tree
from stepwell.model.states import RunStatus
from tests.retention.campaign import Wrong, one_forest

_SEEDS = range(1, 61)


@pytest.mark.parametrize("seed", range(100, 115))
async def test_only_what_may_go_is_deleted_and_all_of_it(seed: int) -> None:
    await one_forest("memory", seed)


@pytest.mark.parametrize("seed", range(200, 203))
async def test_postgres_deletes_the_same(seed: int) -> None:
    await one_forest("postgres", seed, operations=80)


def _without(reason: str) -> Callable[..., str]:
    def why_kept(run: RunFacts, keeps: Any, now: Any) -> str:
        found = _WHY(run, keeps, now)
        return "" if found == reason else found

    return why_kept


_WHY = model.why_kept


def _alone_only(self: Family) -> Tree:
    return Tree(_TREE(self).runs[:1])


_TREE = Family.tree


def _stops_early(self: Family) -> tuple[set[Any], set[Any]]:
    ids, parents = _WANTS(self)
    return (ids, parents) if len(self.members) < 2 else (set(), set())


_WANTS = Family.wants


def _every_generation(run: RunFacts, keeps: Any, now: Any) -> bool:
    return run.status is RunStatus.CONTINUED and model.may_begin(run, keeps, now)


def _never_newest(self: Family, run: RunFacts) -> None:
    _TAKE(self, run)
    self.successor = None


_TAKE = Family._take

_SWITCHES: dict[str, tuple[Any, str, Any]] = {
    "active runs do not keep their tree": (model, "why_kept", _without("active")),
    "what is needed does not keep its tree": (model, "why_kept", _without("needed")),
    "the window of a key does not keep its tree": (model, "why_kept", _without("dedup")),
    "the policy of one run decides for its tree": (model, "why_kept", _without("policy")),
    "the newest generation goes": (Family, "_take", _never_newest),
    "only one run of a tree goes": (Family, "tree", _alone_only),
    "a tree is read to the second level": (Family, "wants", _stops_early),
}


@pytest.mark.parametrize("name", _SWITCHES)
async def test_the_comparison_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, instead = _SWITCHES[name]
    monkeypatch.setattr(where, what, instead)

    for seed in _SEEDS:
        try:
            await one_forest("memory", seed)
        except Wrong:
            return
    pytest.fail(f"no forest of {len(_SEEDS)} shows it")
