"""Did you mean …?"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], limit: int = 2) -> list[str]:
    """The known words nearest to a misspelt one, best first."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    return [by_fold[match] for match in difflib.get_close_matches(word.casefold(), by_fold, n=limit, cutoff=0.6)]
