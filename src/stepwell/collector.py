"""The garbage collector, tuned for what a process does: it looks for cycles less often.

What a step makes lives until its commit is durable. With many runs at once that is longer than Python expects of young
objects: it went through all of them again and again, which cost more than a third of everything. Thresholds that
an application has set itself are left alone.
"""

from __future__ import annotations

import atexit
import gc

YOUNG_MAX = 50_000  # some 5 MB of objects, before cycles among them are looked for
_COMMAND_YOUNG_MAX = 100_000  # a command that only looks makes 80,000
_DEFAULT_MAX = 2_000  # Python's own choice, in any version

_before: list[tuple[int, int, int]] = []  # one for each worker that runs


def relax() -> None:
    """A worker begins inside an application."""
    found = gc.get_threshold()
    _before.append(found)
    if 0 < found[0] <= _DEFAULT_MAX:
        gc.set_threshold(YOUNG_MAX, *found[1:])


def restore() -> None:
    """A worker has ended; with the last one, the thresholds are what they were before the first."""
    if not _before:
        return
    first = _before[0]
    _before.pop()
    if not _before and gc.get_threshold()[0] == YOUNG_MAX:
        gc.set_threshold(*first)


def tune_worker() -> None:
    """Settle a process that does nothing but execute runs: its modules are looked through no more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 20, 20)


def tune_command() -> None:
    """Let the process of a command look for garbage seldom, and not at all at its end.

    Nearly all that a command makes are modules, which stay. Going through them again and again while they are imported,
    and once more before they go with the process, took a fifth of the time of a command that only looks.
    """
    young_max, *older = gc.get_threshold()
    if 0 < young_max < _COMMAND_YOUNG_MAX:
        gc.set_threshold(_COMMAND_YOUNG_MAX, *older)
    atexit.register(gc.freeze)
