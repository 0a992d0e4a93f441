"""The garbage collector while workers run: it looks for cycles less often.

What a step makes lives until its commit is durable. With many runs at once that is longer than Python expects of young
objects: it went through all of them again and again, which cost more than a third of everything. Whoever has set
the collector himself is left alone.
"""

from __future__ import annotations

import gc

YOUNG_MAX = 100_000  # some 10 MB of objects, before cycles among them are looked for
_THEIRS_MAX = 2_000  # Python's own choice, in any version

_before: list[tuple[int, int, int]] = []  # one for each worker that runs


def relax() -> None:
    """A worker begins."""
    found = gc.get_threshold()
    _before.append(found)
    if 0 < found[0] <= _THEIRS_MAX:
        gc.set_threshold(YOUNG_MAX, *found[1:])


def restore() -> None:
    """A worker has ended; with the last one all is as it was before the first."""
    if not _before:
        return
    first = _before[0]
    _before.pop()
    if not _before and gc.get_threshold()[0] == YOUNG_MAX:
        gc.set_threshold(*first)
