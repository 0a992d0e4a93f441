"""Tuning of the garbage collector: it looks for cycles less often.

The objects of a step live until its commit is durable. With many runs at once that is longer than Python expects of
young objects: with its defaults, scanning them again and again cost more than a third of the processor time. Thresholds
that an application has set itself are not changed.
"""

from __future__ import annotations

import atexit
import gc

YOUNG_MAX = 50_000  # young objects, some 5 MB, before the collector runs
_COMMAND_YOUNG_MAX = 100_000  # a command that only reads makes 80,000
_DEFAULT_MAX = 2_000  # Python's own choice, in any version

_before: list[tuple[int, int, int]] = []  # one for each worker that runs


def relax() -> None:
    """Raise the thresholds, when a worker starts inside an application."""
    found = gc.get_threshold()
    _before.append(found)
    if 0 < found[0] <= _DEFAULT_MAX:
        gc.set_threshold(YOUNG_MAX, *found[1:])


def restore() -> None:
    """Undo one `relax`, when a worker has stopped. The last one restores the thresholds from before the first."""
    if not _before:
        return
    first = _before[0]
    _before.pop()
    if not _before and gc.get_threshold()[0] == YOUNG_MAX:
        gc.set_threshold(*first)


def tune_worker() -> None:
    """Tune a process that only executes runs: the collector no longer scans its modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 20, 20)


def tune_command() -> None:
    """Tune the process of a command: the collector runs rarely, and not at all at the end.

    Nearly all objects of a command are modules, which stay. Scanning them repeatedly during imports, and once more at
    the end of the process, took a fifth of the time of a command that only reads.
    """
    young_max, *older = gc.get_threshold()
    if 0 < young_max < _COMMAND_YOUNG_MAX:
        gc.set_threshold(_COMMAND_YOUNG_MAX, *older)
    atexit.register(gc.freeze)
