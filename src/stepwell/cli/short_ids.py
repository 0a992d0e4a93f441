"""Short ids: the shortest prefix of a run's id that no other run of the store shares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.ids import RunId
    from stepwell.stores.base.views import ViewStore

SHORT_MIN = 8  # characters
_PAGE = 200  # ids that are compared here; where more share a prefix, longer prefixes are asked for


async def short_ids(views: ViewStore, run_ids: Sequence[str]) -> dict[str, str]:
    """For each id, the shortest prefix of at least `SHORT_MIN` characters that names this run and no other.

    A prefix that is the key of a run names that run, so the id stays whole then.
    """
    short: dict[str, str] = {}
    await _shorten(views, set(run_ids), SHORT_MIN, short)
    named = await views.find_many(list(short.values()))
    for (run_id, prefix), run in zip(short.items(), named, strict=True):
        if run is not None and run.run_id != run_id and run.key == prefix:
            short[run_id] = run_id
    return short


async def _shorten(views: ViewStore, run_ids: set[str], length: int, short: dict[str, str]) -> None:
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for run_id in run_ids:
        groups[run_id[:length]].add(run_id)
    for prefix, group in groups.items():
        sharing = await views.find_by_prefix(prefix, limit=_PAGE + 1)
        if len(sharing) > _PAGE and any(len(run_id) > length for run_id in group):
            await _shorten(views, group, length + 1, short)
        else:
            short.update(_prefixes(group, sharing, length))


def _prefixes(run_ids: set[str], sharing: Sequence[RunId], length: int) -> dict[str, str]:
    """Of ids in order, the neighbours of one share the longest prefix with it."""
    ordered = sorted({*run_ids, *sharing})
    shared = dict.fromkeys(ordered, 0)
    for one, other in pairwise(ordered):
        common = _common(one, other)
        shared[one], shared[other] = max(shared[one], common), max(shared[other], common)
    return {run_id: run_id[: max(length, shared[run_id] + 1)] for run_id in run_ids}


def _common(one: str, other: str) -> int:
    """How many characters two ids share at their beginning."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
