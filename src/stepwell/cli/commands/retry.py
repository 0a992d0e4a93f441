"""`stepwell retry`: let a failed run go on from the step that failed."""

from __future__ import annotations

from typing import Any

from stepwell.cli.acts import Act, act_on
from stepwell.cli.bulk import RunSelection, choosing
from stepwell.cli.settings import Settings, command


@command("retry")
@choosing
def retry(settings: Settings, **which: Any) -> int:
    """Let a failed run go on from the step that failed.

    It gets a fresh budget of attempts; what was recorded stays and is not run again.

    \b
    Example:
      stepwell retry @last-failed
      stepwell retry --where 'status:failed error:timeout since:24h'
    """
    act = Act(
        "retry",
        {},
        done="Retrying",
        impossible="be retried",
        needs="a failed run whose key no other active run has",
    )
    return act_on(settings, RunSelection(**which), act)
