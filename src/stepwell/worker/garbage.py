"""The garbage collector while workers run: it looks for cycles less often.

What a step makes lives until its commit is durable. With many runs at once that is longer than Python expects of young
objects: it went through all of them again and again, which cost more than a third of everything. Whoever has set
the collector himself is left alone.
"""

from __future__ import annotations

import gc

YOUNG_MAX = 50_000  # some 5 MB of objects, before cycles among them are looked for
_LEFT_MAX = 2_000  # of them, while a worker is idle
_THEIRS_MAX = 2_000  # Python's own choice, in any version

_before: list[tuple[int, int, int]] = []  # one for each worker that runs


def relax() -> None:
    """A worker begins."""
    found = gc.get_threshold()
    _before.append(found)
    if 0 < found[0] <= _THEIRS_MAX:
        gc.set_threshold(YOUNG_MAX, *found[1:])


def tidy() -> None:
    """A worker has nothing to do: what many runs left behind need not wait for more."""
    if gc.get_threshold()[0] == YOUNG_MAX and gc.get_count()[0] > _LEFT_MAX:
        gc.collect(0)


def restore() -> None:
    """A worker has ended; with the last one all is as it was before the first."""
    if not _before:
        return
    first = _before[0]
    _before.pop()
    if not _before and gc.get_threshold()[0] == YOUNG_MAX:
        gc.set_threshold(*first)
