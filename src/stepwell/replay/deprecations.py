"""Options that are accepted and no longer needed."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Final

_PACKAGE: Final = str(Path(__file__).parents[1])


def warn_of_repeat() -> None:
    """Say that `repeat=` is not needed, in the line of the author's code that passes it."""
    level, frame = 1, sys._getframe()
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(
        "repeat= has no effect: a name that is used again in its scope is numbered; leave it out",
        DeprecationWarning,
        stacklevel=level,
    )
